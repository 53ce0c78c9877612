"""Orders of systems under resamples of the questions, and how alike two ways of measuring order
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from nfqa.kernels.intervals import draw_counts, find_interval
from nfqa.metrics.statistics import average, correlate, describe_interval, iterate_groups, require_columns


def compare_rankings(
    scores: pd.DataFrame, *, by: Sequence[str], over: str = "question", resamples: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """Kendall's tau between every two ways of measuring: of the order of systems, and of the
    answers to a question.

    Systems are ordered by their means over questions, whose interval comes from resamples of
    `over`; answers are ordered within each question, and tau is averaged over questions. Several
    answers of a system to one question count as their mean.

    Args: scores: question, `over`, system, score, answer (where a system has several) and those of
        `by`; by: the columns that distinguish ways, such as evaluator; over: what was drawn
        independently; resamples, seed: of the 95 % intervals.
    Returns: a row for each pair and `of` ("systems", "answers"): the columns of `by`, `against_`
        each for the second way, statistic ("kendall"), value, low, high, n (systems, or questions),
        dropped, dropped_because.
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
        names = first | {f"against_{name}": value for name, value in second.items()}
        pairs = _pair(means.rename(columns={"mean": "score"}), first, second, ["resample", "system"])
        resampled = correlate(pairs, y="other", by=["resample"], methods=["kendall"])
        counts = {"units": means.units.iloc[0], "n": pairs.system.nunique()}
        systems = find_intervals(resampled.drop(columns="missing").assign(**counts), over=over)
        both = _pair(scores, first, second, [*questions, "system"])
        answers = average(correlate(both, y="other", by=questions, methods=["kendall"]), over=over, within="question")
        frames += [systems.assign(of="systems", dropped=0, **names), answers.assign(of="answers", **names)]
    return pd.concat(frames, ignore_index=True)


def _pair(scores: pd.DataFrame, first: dict[str, object], second: dict[str, object], on: list[str]) -> pd.DataFrame:
    """Both ways' scores beside each other, the second's as `other`, where both have one."""
    one, other = (scores.merge(pd.DataFrame([way]))[[*on, "score"]] for way in (first, second))
    both = one.merge(other.rename(columns={"score": "other"}), on=on, validate="1:1")
    return both.assign(score=both.score.where(both.other.notna()), missing="")


def resample_means(
    scores: pd.DataFrame,
    *,
    by: Sequence[str],
    over: str = "question",
    within: str = "",
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Each system's mean as measured and in resamples of the questions: what places of systems are
    found from.

    Args: scores: `over`, `system`, `score` and those of `by`; by: one or more conditions, each
        group of which has its own means, of nine decimals, so that equal ones tie; over, within: as
        `average`. All groups and systems are resampled alike.
    Returns: the columns of `by`, `resample` (0: as measured), `system`, `mean` over those of `over`
        with a score (NaN without any) and `units`, how many are drawn from.
    Raises: ValueError for a missing column, or two scores of one of `over` (or `within`) and system
        in a group.
    """
    require_columns(scores, [*by, over, "system", "score"])
    index = scores[over].drop_duplicates()
    counts = np.vstack([np.ones(len(index)), draw_counts(len(index), resamples=resamples, seed=seed)])
    frames = []
    for key, group in iterate_groups(scores, by):
        if group.duplicated([within or over, "system"]).any():
            raise ValueError(
                f"several scores of one {within or over} and system; name the columns that distinguish them in by={by}"
            )
        table = group.pivot_table("score", over, "system", dropna=False).reindex(index)
        with np.errstate(invalid="ignore"):
            means = (counts @ table.fillna(0).to_numpy(np.float64)) / (counts @ table.notna().to_numpy(np.float64))
        resampled = pd.DataFrame(means.round(9), columns=table.columns).rename_axis("resample").reset_index()
        frames.append(resampled.melt("resample", value_name="mean").assign(**key, units=len(index)))
    return pd.concat(frames, ignore_index=True)


def find_intervals(draws: pd.DataFrame, *, over: str = "question") -> pd.DataFrame:
    """Values of statistics that were computed in each resample, with 95 % intervals by expanded
    percentiles.

    Args: draws: `resample` (0: as measured), `measured`, `units` (how many were drawn from), `n`
        (optional, as many) and conditions; over: what was drawn.
    Returns: the conditions in order of first appearance, value, low, high, n, resampled. Resamples
        without a value are excluded.
    Source: `nfqa.kernels.intervals.find_interval`.
    """
    conditions = [name for name in draws if name not in ("resample", "measured", "units", "n")]
    rows = []
    for key, group in iterate_groups(draws.assign(n=draws.get("n", draws.units)), conditions):
        measured = group["resample"] == 0
        units = int(group.units.iloc[0])
        n = int(group.n.iloc[0])
        interval = find_interval(group.measured[measured].item(), group.measured[~measured], units=units, n=n)
        rows.append(key | describe_interval(interval, over))
    return pd.DataFrame(rows)
