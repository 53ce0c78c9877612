"""Whether two ways of measuring put systems, and the answers to each question, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from nfqa.metrics.statistics import average, correlate, find_intervals, resample_means


def compare_rankings(
    scores: pd.DataFrame, *, by: Sequence[str], resamples: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """Kendall's tau between every two ways of measuring: of the order of systems, and of the answers to a question.

    Systems are ordered by their means over questions, whose interval comes from resamples of the questions that both
    ways share; answers are ordered within each question, and tau is averaged over questions.

    Args: scores: question, system, score and those of `by`; by: the columns that tell one way from another, such as
        evaluator and cache; resamples, seed: of the 95 % intervals.
    Returns: a row for each pair and `of` ("systems", "answers"): the columns of `by`, `against_` each for the second
        way, statistic ("kendall"), value, low, high, n (systems, or questions), dropped, dropped_because.
    Raises: ValueError for fewer than two ways.
    """
    ways = scores[list(by)].drop_duplicates().to_dict("records")
    if len(ways) < 2:
        raise ValueError(f"{len(ways)} way of measuring in {', '.join(by)}; comparing orders takes two or more")
    means = resample_means(scores, by=list(by), resamples=resamples, seed=seed)
    frames = []
    for first, second in combinations(ways, 2):
        named = first | {f"against_{name}": value for name, value in second.items()}
        pairs = _pair(means.rename(columns={"mean": "score"}), first, second, ["resample", "system"])
        drawn = correlate(pairs, methods=["kendall"], by=["resample"])
        systems = find_intervals(drawn.drop(columns="missing").assign(n=pairs.system.nunique()))
        within = correlate(_pair(scores, first, second, ["question", "system"]), methods=["kendall"], by=["question"])
        answers = average(within, resamples=resamples, seed=seed)
        frames += [systems.assign(of="systems", dropped=0, **named), answers.assign(of="answers", **named)]
    return pd.concat(frames, ignore_index=True)


def _pair(scores: pd.DataFrame, first: dict[str, object], second: dict[str, object], on: list[str]) -> pd.DataFrame:
    """Both ways' scores beside each other, the second's as `grade`, where both have one."""
    sides = [
        scores[(scores[list(way)] == pd.Series(way)).all(axis=1)][[*on, "score"]] for way in (first, second)
    ]  # a way's columns hold no missing value
    both = sides[0].merge(sides[1], on=on, suffixes=("", "_other")).rename(columns={"score_other": "grade"})
    both["score"] = both.score.where(both.grade.notna())
    return both.assign(missing="")
