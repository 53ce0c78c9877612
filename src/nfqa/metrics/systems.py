"""Means of systems that answer the same questions, frame to frame.

A system's name is a value of the column `system`, whatever it is; "" is that of answers that name
none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from nfqa.metrics.flags import is_harmed
from nfqa.metrics.statistics import average, iterate_groups, list_conditions, subtract
from nfqa.models.embed import Embedder
from nfqa.models.reader import Reader

SHARES = ("da",)  # metrics of 0 or 1, whose mean is a share


def complete_scores(scores: pd.DataFrame, answers: pd.DataFrame, *, missing: str) -> pd.DataFrame:
    """Scores with a row for every answer under every set of conditions.

    Args: scores: dataset, question, answer, score, missing, and conditions; answers: as
        `QuestionSet.answers`; missing: the reason where an answer has no row yet.
    Returns: the columns of `answers` but text, and those of `scores`; in the order of the answers.
    """
    keys = ["dataset", "question", "answer"]
    names = answers.drop(columns="text")
    scored = scores.drop(columns=answers.columns.difference(keys), errors="ignore")
    whole = ((key, names.merge(group, "left", keys, validate="1:1")) for key, group in _split(scored))
    frames = [rows.assign(**key).fillna({"missing": missing}) for key, rows in whole]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def note_cut(read: Sequence[Sequence[Any]], model: Embedder | Reader, note: str) -> list[str]:
    """The note of each row: `note` where one of the texts behind it was cut, or of a reader's
    pairs, else "".
    """
    cut = model.find_cut(list(dict.fromkeys(one for each in read for one in each)))
    return [note if not cut.isdisjoint(each) else "" for each in read]


def average_answers(
    parts: Iterable[pd.DataFrame], by: Sequence[str] = ("metric",), *, every: str | None = None
) -> tuple[pd.DataFrame, pd.Series]:
    """The mean score of each system's answers to a question, and how many answers have none, by the
    reason.

    Args: parts: frames with question, system, score, missing, and those of `by`, "" where they
        don't apply; only their means are held in memory; by: the columns that distinguish ways of
        scoring; every: what the system of all answers together is called, which are then counted
        too.
    Returns: a row for each set of `by`, system and question, with the mean as measured; and counts
        by `by`, system and missing.
    """
    keys = [*by, "system"]
    sums = []
    lost = []
    for scores in parts:
        if every is not None:
            scores = pd.concat([scores.assign(system=every), scores[scores.system != every]])
        sums.append(scores.groupby([*keys, "question"], sort=False).score.agg(["sum", "count"]))
        answer = scores.columns.intersection(["question", "answer"])
        unscored = scores[scores.missing != ""].drop_duplicates([*keys, *answer])  # of coverage, once for all views
        lost.append(unscored.groupby([*keys, "missing"], sort=False).size())
    total = pd.concat(sums).groupby(level=[*keys, "question"], sort=False).sum()
    means = (total["sum"] / total["count"]).rename("measured").reset_index()
    return means, pd.concat(lost).groupby(level=[*keys, "missing"], sort=False).sum().rename("dropped")


def summarise_systems(means: pd.DataFrame, lost: pd.Series, by: Sequence[str] = ("metric",)) -> pd.DataFrame:
    """Each system's mean over questions, with a 95 % interval over questions.

    The interval is that of `nfqa.metrics.statistics.average`: Student's t, of SHARES Wilson's.
    Args: means, lost, by: of `average_answers`.
    Returns: a row for each set of `by` and system: statistic ("mean"), value, low, high, n
        (questions), resampled, dropped (answers without a score) and dropped_because.
    """
    keys = [*by, "system"]
    columns = [*keys, "statistic", "value", "low", "high", "n", "resampled"]
    means = means.assign(statistic="mean", missing="")
    values = average(means, share=SHARES if "metric" in by else False)[columns]
    counts = lost.reset_index("missing")
    counts["dropped_because"] = counts.missing + ": " + counts.dropped.astype(str)
    counts = counts.groupby(level=keys, sort=False).agg({"dropped": "sum", "dropped_because": "; ".join})
    return values.join(counts, on=keys).fillna({"dropped": 0, "dropped_because": ""}).astype({"dropped": int})


def compare_systems(means: pd.DataFrame, other: str, by: Sequence[str] = ("metric",)) -> pd.DataFrame:
    """Each system minus another, over the questions for which both have a mean score, paired.

    Args: means, by: of `average_answers`, without a system of all answers; other: the system to
        compare with.
    Returns: a row for each set of `by` and each other system: difference_from, statistic
        ("difference"), value, low and high (NaN without a question of both), n (questions),
        resampled and dropped (the system's other questions).
    """
    keys = [*by, "system"]
    paired = means.dropna(subset="measured").assign(statistic="difference", missing="")
    paired = paired.merge(paired[paired.system == other][[*by, "question"]])  # n counts the questions of both
    differences = subtract(paired, paired.system == other, across=["system"], named=other)
    columns = ["value", "low", "high", "n", "resampled"]
    differences = differences.reindex(columns=[*keys, *columns]).astype(object)
    answered = means[means.system != other].groupby(keys, sort=False).size().rename("dropped").reset_index()
    rows = answered.merge(differences, "left", keys).fillna({"n": 0, "resampled": ""})
    rows = rows.assign(difference_from=other, statistic="difference", dropped=rows.dropped - rows.n)
    rows = rows[[*keys, "difference_from", "statistic", *columns, "dropped"]]
    return rows.astype({"n": int, "dropped": int, **dict.fromkeys(columns[:3], float)})


def drop_harmed(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores without those that a flag of their answer harms, by `is_harmed`: missing, as
    "flagged".

    Args: scores: score, missing and, where there are any, flags, metric, signature.
    Raises: ValueError for flags that are no text.
    """
    if "flags" not in scores:
        return scores
    kinds = scores.reindex(columns=["flags", "metric", "signature"]).astype(object).fillna("")
    if odd := [flags for flags in kinds["flags"] if not isinstance(flags, str)]:
        raise ValueError(f"flags is {odd[0]!r}; expected names such as 'copies_view; length', or \"\" for none")
    harmed = pd.Series([is_harmed(*map(str, row)) for row in kinds.to_numpy()], scores.index, dtype=bool)
    missing = scores.missing.mask(harmed & (scores.missing == ""), "flagged")
    return scores.assign(score=scores.score.mask(harmed), missing=missing)


def count_both_ways(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores twice, as `answers` says: "unharmed", by `drop_harmed`, then "all", the flagged ones
    too.
    """
    return pd.concat([drop_harmed(scores).assign(answers="unharmed"), scores.assign(answers="all")])


def _split(scores: pd.DataFrame, *others: str) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each set of conditions, by name, with its rows, in order of first appearance."""
    return iterate_groups(scores, [*list_conditions(scores, "question"), *others])
