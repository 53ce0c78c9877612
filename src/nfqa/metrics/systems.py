"""Comparing systems that answer the same questions: means, shares of wins and orders, frame to frame.

A system's name is a value of the column `system`, whatever it is; "" is that of answers that name none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from nfqa.metrics.flags import TOLD
from nfqa.metrics.statistics import average, correlate, find_intervals, iterate_groups, list_conditions, resample_means
from nfqa.models.embed import EMBEDDER_CUT, Embedder

SHARES = ("da",)  # metrics of 0 or 1, whose mean is a share


def add_unscored(scores: pd.DataFrame, answers: pd.DataFrame, *, missing: str) -> pd.DataFrame:
    """Scores with a row for every answer under every set of conditions.

    Args: scores: dataset, question, answer, score, missing, and conditions; answers: as `QuestionSet.answers`; missing:
        the reason where an answer has no row yet.
    Returns: the columns of `answers` but text, and those of `scores`; in the order of the answers.
    """
    keys, named = ["dataset", "question", "answer"], answers.drop(columns="text")
    own = scores.drop(columns=answers.columns.difference(keys), errors="ignore")
    whole = ((key, named.merge(group, "left", keys, validate="1:1")) for key, group in _split(own))
    frames = [rows.assign(**key).fillna({"missing": missing}) for key, rows in whole]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def note_cut(scores: pd.DataFrame, texts: Sequence[Sequence[str]], embedder: Embedder) -> pd.DataFrame:
    """Scores with `note`, which says where one of the texts behind a row (a list of them each) was cut."""
    cut = embedder.find_cut(list(dict.fromkeys(text for each in texts for text in each)))
    return scores.assign(note=[EMBEDDER_CUT if not cut.isdisjoint(each) else "" for each in texts])


def summarise_systems(parts: Iterable[pd.DataFrame], by: Sequence[str] = ("metric",)) -> pd.DataFrame:
    """Each system's mean over questions of the mean of its scores for a question, with a 95 % interval over questions.

    Answers with `flags` other than TOLD have no score here. The interval is that of `nfqa.metrics.statistics.average`:
    Student's t, of SHARES Wilson's.
    Args: parts: frames with question, system, score, missing, maybe flags, and those of `by`, "" where they don't
        apply; only their means are held in memory; by: the columns that tell ways of scoring apart.
    Returns: a row for each set of `by` and system, "" for all answers: statistic ("mean"), value, low, high, n
        (questions), resampled, dropped (answers without a score) and dropped_because.
    """
    keys, sums, lost = [*by, "system"], [], []
    for scores in parts:
        scores = drop_flagged(scores) if "flags" in scores else scores
        both = pd.concat([scores.assign(system=""), scores[scores.system != ""]])
        sums.append(both.groupby([*keys, "question"], sort=False).score.agg(["sum", "count"]))
        lost.append(both[both.missing != ""].groupby([*keys, "missing"], sort=False).size())
    total = pd.concat(sums).groupby(level=[*keys, "question"], sort=False).sum()
    means = (total["sum"] / total["count"]).rename("measured").reset_index().assign(statistic="mean", missing="")
    columns = [*keys, "statistic", "value", "low", "high", "n", "resampled"]
    values = average(means, share=SHARES if "metric" in by else False)[columns]
    counts = (
        pd.concat(lost).groupby(level=[*keys, "missing"], sort=False).sum().rename("dropped").reset_index("missing")
    )
    counts["dropped_because"] = counts.missing + ": " + counts.dropped.astype(str)
    counts = counts.groupby(level=keys, sort=False).agg({"dropped": "sum", "dropped_because": "; ".join})
    return values.join(counts, on=keys).fillna({"dropped": 0, "dropped_because": ""}).astype({"dropped": int})


def drop_flagged(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores without those of answers that have `flags` beside TOLD: missing, as "flagged"."""
    flagged = ~scores["flags"].isin(["", *TOLD])
    missing = scores.missing.mask(flagged & (scores.missing == ""), "flagged")
    return scores.assign(score=scores.score.mask(flagged), missing=missing)


def compare_rankings(
    scores: pd.DataFrame, *, by: Sequence[str], over: str = "question", resamples: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """Kendall's tau between every two ways of measuring: of the order of systems, and of the answers to a question.

    Systems are ordered by their means over questions, whose interval comes from resamples of `over`; answers are
    ordered within each question, and tau is averaged over questions. Several answers of a system to one question count
    as their mean.

    Args: scores: question, `over`, system, score, answer (where a system has several) and those of `by`; by: the
        columns that tell one way from another, such as evaluator and cache; over: what was drawn independently;
        resamples, seed: of the 95 % intervals.
    Returns: a row for each pair and `of` ("systems", "answers"): the columns of `by`, `against_` each for the second
        way, statistic ("kendall"), value, low, high, n (systems, or questions), dropped, dropped_because.
    Raises: ValueError for fewer than two ways.
    """
    ways = scores[list(by)].drop_duplicates().to_dict("records")
    if len(ways) < 2:
        raise ValueError(f"{len(ways)} way of measuring in {', '.join(by)}; comparing orders takes two or more")
    questions = list(dict.fromkeys(["question", over]))
    keys = [*by, *questions, "system"]
    if not scores.duplicated([*keys, *scores.columns.intersection(["answer"])]).any():
        scores = scores.groupby(keys, sort=False, dropna=False).score.mean().reset_index()
    means = resample_means(scores, by=list(by), over=over, within="question", resamples=resamples, seed=seed)
    frames = []
    for first, second in combinations(ways, 2):
        named = first | {f"against_{name}": value for name, value in second.items()}
        pairs = _pair(means.rename(columns={"mean": "score"}), first, second, ["resample", "system"])
        drawn = correlate(pairs, y="other", by=["resample"], methods=["kendall"])
        counts = {"units": means.units.iloc[0], "n": pairs.system.nunique()}
        systems = find_intervals(drawn.drop(columns="missing").assign(**counts), over=over)
        both = _pair(scores, first, second, [*questions, "system"])
        answers = average(correlate(both, y="other", by=questions, methods=["kendall"]), over=over, within="question")
        frames += [systems.assign(of="systems", dropped=0, **named), answers.assign(of="answers", **named)]
    return pd.concat(frames, ignore_index=True)


def _pair(scores: pd.DataFrame, first: dict[str, object], second: dict[str, object], on: list[str]) -> pd.DataFrame:
    """Both ways' scores beside each other, the second's as `other`, where both have one."""
    one, other = (scores.merge(pd.DataFrame([way]))[[*on, "score"]] for way in (first, second))
    both = one.merge(other.rename(columns={"score": "other"}), on=on, validate="1:1")
    return both.assign(score=both.score.where(both.other.notna()), missing="")


def _split(scores: pd.DataFrame, *others: str) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each set of conditions, by name, with its rows, in order of first appearance."""
    return iterate_groups(scores, [*list_conditions(scores, "question"), *others])
