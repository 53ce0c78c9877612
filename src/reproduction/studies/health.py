"""How reliable a judge is: what changes when length, order, seed or a candidate's text changes,
frame to frame.

Scores are frames as in `nfqa.metrics.statistics`; two ways of scoring the same answers are laid
side by side by `pair_scores`, and what is compared is always measured on the answers that have a
score in both.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from nfqa.metrics.statistics import correlate, count_reasons, iterate_groups, list_conditions, subtract


def pair_scores(scores: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The rows of `scores` with the column `other`, the score of the same answer under equal
    conditions in `other`.

    Where either lacks a score both are NaN, so that two sides of a comparison are about the same
    answers. A condition is equal when it is so in every column that both frames have, but for
    `signature` and what is of the score itself.
    Raises: ValueError where `other` has two scores for one answer.
    """
    keys = [name for name in [*list_conditions(scores, "signature"), "answer"] if name in other]
    others = other[[*keys, "score"]].rename(columns={"score": "other"})
    paired = scores.merge(others, on=keys, how="left", validate="many_to_one")
    both = paired.score.notna() & paired.other.notna()
    return paired.assign(score=paired.score.where(both), other=paired.other.where(both))


def average_by_question(scores: pd.DataFrame, column: pd.Series, statistic: str) -> pd.DataFrame:
    """The mean of a column over each question's answers that have it, as measurements."""
    groups = scores.assign(measured=column.astype(float)).groupby(list_conditions(scores), sort=False, dropna=False)
    means = groups.measured.mean()
    return means.reset_index().assign(statistic=statistic, missing="")


def correlate_seeds(scores: pd.DataFrame, *, over: str = "seed") -> pd.DataFrame:
    """How well a judge agrees with itself: Spearman between the scores under two seeds on the
    answers that both judged.

    Args: scores: with the column `over`, of two seeds or more; all other conditions, and
        `signature`, are equal under every seed.
    Returns: measurements, `agreement_over_seeds` of each question, averaged over the pairs of
        seeds.
    """
    parts = [part.drop(columns=over) for _, part in scores.groupby(over)]
    pairs = [correlate(pair_scores(*two), y="other", methods=["spearman"]) for two in combinations(parts, 2)]
    both = pd.concat(pairs, ignore_index=True)
    return average_by_question(both.drop(columns="measured"), both.measured, "agreement_over_seeds")


def measure_length(scores: pd.DataFrame) -> pd.DataFrame:
    """How much length explains a judge's agreement with people, inside each question.

    With s the score, g the grade, l the length in words and r Spearman's coefficient:
    `length_with_score` r_sl, `length_with_people` r_gl, `spearman` r_sg, and
    `spearman_length_constant`, the partial rank correlation (r_sg - r_sl r_gl) / sqrt((1 -
    r_sl^2)(1 - r_gl^2)), missing where the root is 0. `spearman` with `difference_from` is r_sg
    less the partial one, where both are defined.

    Args: scores: with the column `words`. An answer without a score is excluded from all three
        coefficients.
    Returns: measurements.
    """
    judged = scores.assign(grade=scores.grade.where(scores.score.notna()))
    by_score = correlate(judged, y="words", methods=["spearman"])
    by_people = correlate(judged, x="grade", y="words", methods=["spearman"])
    agreement = correlate(scores, methods=["spearman"])
    sl, gl, sg = (frame.measured.to_numpy() for frame in (by_score, by_people, agreement))
    rest = (1 - sl**2) * (1 - gl**2)
    partial = np.divide(sg - sl * gl, np.sqrt(rest), out=np.full_like(sg, np.nan), where=rest > 1e-9)
    frames = [
        by_score.assign(statistic="length_with_score"),
        by_people.assign(statistic="length_with_people"),
        agreement,
        agreement.assign(statistic="spearman_length_constant", measured=partial, missing=""),
        agreement.assign(measured=sg - partial, missing="", difference_from="spearman_length_constant"),
    ]
    return pd.concat(frames, ignore_index=True)


def measure_effect(pairs: pd.DataFrame, *, named: str) -> pd.DataFrame:
    """How replacing `other` by `score` changes Spearman with people's grades, as values with paired
    intervals.

    Args: pairs: as `pair_scores` gives them; named: what `other` is, for the column
        `difference_from`.
    Returns: as `nfqa.metrics.statistics.subtract`.
    """
    changed = correlate(pairs, methods=["spearman"]).assign(side="score")
    base = correlate(pairs, x="other", methods=["spearman"]).assign(side="other")
    both = pd.concat([changed, base], ignore_index=True)
    effect = subtract(both, both.side == "other", across=["side"], named=named)
    return effect.drop(columns="side")


def measure_missing(scores: pd.DataFrame) -> pd.DataFrame:
    """Values of how many verdicts are missing, and from logits the mean mass on verdicts.

    Args: scores: as `judge_by_language_model` gives them; all columns that are of no single answer,
        question or seed are conditions.
    Returns: a row for each set of conditions and statistic: `missing_verdicts`, a share, with n,
        dropped and dropped_because; `verdict_mass`.
    """
    rows: list[dict[str, object]] = []
    for key, group in iterate_groups(scores, list_conditions(scores, "question", "seed")) if len(scores) else ():
        reasons = group.unreadable.str.split("; ").explode()
        wanted = int(group.verdicts.sum())
        lost = int((reasons != "").sum())
        rows.append(key | {
            "statistic": "missing_verdicts", "value": lost / wanted if wanted else np.nan, "n": wanted - lost,
            "dropped": lost, "dropped_because": count_reasons(reasons),
        })  # fmt: skip
        if group.mass.notna().any():
            rows.append(key | {"statistic": "verdict_mass", "value": group.mass.mean(), "n": int(group.mass.count())})
    return pd.DataFrame(rows)
