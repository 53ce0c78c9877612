"""People's ratings of systems' answers, frame to frame: comparisons, rankings of the systems, agreement among raters.

Everything starts from `QuestionSet.ratings`: a row for each rating, with the columns dataset, question, rater (a
number), view (the rater's own), system and rating.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nfqa.kernels.correlation import Coefficient
from nfqa.kernels.intervals import draw_counts, estimate_pairs
from nfqa.metrics.statistics import correlate, describe_interval, iterate_groups
from reproduction.studies.rankings import find_intervals
from reproduction.studies.rating import rate_bradley_terry, rate_elo

RatingRule = Literal["elo", "bradley_terry"]
# Shuffles of the comparisons over which Elo is averaged: one rater's are few, those of all differ by little.
ORDERS, ORDERS_TOGETHER = 20, 200
RANK_METHODS: tuple[Coefficient, ...] = ("spearman", "kendall")


def compare_answers(ratings: pd.DataFrame) -> pd.DataFrame:
    """Every two answers that one rater rated on one question: the higher rating is preferred, equal ratings tie.

    Returns: dataset, question, rater, left, right (systems), outcome (1 left is preferred, 0 right, 0.5 a tie), rater
        by rater, each in the order of the questions.
    Raises: ValueError for a dataset without ratings.
    Source: DebateQA, section B.1.1: all 10 pairs of five answers to a question. Differs from: its annotators were
        asked for each pair, so that theirs can be cyclic; preferences from ratings can't.
    """
    if ratings.empty:
        raise ValueError("the dataset has no ratings by people; use overton, or a dataset of the same shape")
    keys = ["dataset", "question", "rater"]
    rated = ratings.sort_values("rater", kind="stable")[[*keys, "system", "rating"]]
    group = rated.groupby(keys, sort=False).ngroup()
    rated = rated.assign(group=group).sort_values(["group", "system"])
    pairs = rated.merge(rated, on=[*keys, "group"]).query("system_x < system_y").reset_index(drop=True)
    outcome = (np.sign(pairs.rating_x - pairs.rating_y) + 1) / 2
    return pairs[keys].assign(left=pairs.system_x, right=pairs.system_y, outcome=outcome)


def rank_systems(
    comparisons: pd.DataFrame, rule: RatingRule, *, by: Sequence[str] = (), orders: int = ORDERS
) -> pd.DataFrame:
    """The strength of every system by Elo or Bradley-Terry, from all comparisons or from those of each group.

    Args: comparisons: as `compare_answers` gives them; by: the columns that make a group; orders: shuffles of the
        comparisons over which Elo is averaged.
    Returns: the columns of `by`, system, strength: in Elo points, or in nats. A system that is not compared in a group
        has no row; Bradley-Terry's prior counts all systems of the frame.
    Source: DebateQA, section 5.1; `nfqa.kernels.rating`: rate_elo, rate_bradley_terry.
    """
    preferences, systems = _read_comparisons(comparisons)
    groups = comparisons.groupby(list(by), sort=False).ngroup() if by else pd.Series(0, comparisons.index)
    heads = comparisons[list(by)][~groups.duplicated()]
    frames = []
    for number, head in enumerate(heads.to_dict("records")):
        in_group = preferences[(groups == number).to_numpy()]
        strengths = _rate(in_group, rule, len(systems), orders=orders)
        compared = np.union1d(in_group.left, in_group.right)
        frames.append(pd.DataFrame(head | {"system": systems[compared], "strength": strengths[compared]}))
    return pd.concat(frames, ignore_index=True)


def resample_rankings(
    comparisons: pd.DataFrame, rule: RatingRule, *, over: str, resamples: int, seed: int = 0, orders: int = ORDERS
) -> pd.DataFrame:
    """The ranking by all comparisons under resamples of `over`, each of which brings all its comparisons along.

    Args: over: the column of what was drawn independently; orders: shuffles over which each resample's Elo is averaged.
    Returns: resample (from 1), system, strength.
    """
    preferences, systems = _read_comparisons(comparisons)
    units, names = pd.factorize(comparisons[over], sort=True)
    draws = [
        _rate(preferences, rule, len(systems), orders=orders, seed=number, weights=counts[units])
        for number, counts in enumerate(draw_counts(len(names), resamples=resamples, seed=seed))
    ]
    table = pd.DataFrame(draws, pd.RangeIndex(1, resamples + 1, name="resample"), systems).reset_index()
    return table.melt("resample", var_name="system", value_name="strength")


def average_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """The mean over pairs of groups, with its 95 % interval over these: one value for each set of conditions.

    Args: pairs: first and second, the group of either side (one group, or two), measured, and conditions.
    Returns: the conditions in order of first appearance, value, low, high, n (pairs), resampled.
    Source: `nfqa.kernels.intervals.estimate_pairs`.
    """
    conditions = list(pairs.columns.difference(["first", "second", "measured"], sort=False))
    intervals = [
        key | describe_interval(estimate_pairs(part["measured"], part["first"], part["second"]), "group")
        for key, part in iterate_groups(pairs, conditions)
    ]
    return pd.DataFrame(intervals)


def average_other_raters(ratings: pd.DataFrame, *, within: Sequence[str] = ("question", "system")) -> pd.Series:
    """For every rating, the mean rating of the same answer by all other raters, rounded so that equal means are equal.

    Args: within: what ratings share to be of the same answer: "stance" in it leaves the raters of the same side.
    Returns: in the order of `ratings`; NaN where nobody else rated the answer.
    """
    groups = ratings.groupby(list(within)).rating
    others = (groups.transform("sum") - ratings.rating) / (groups.transform("count") - 1)
    return others.round(9).rename("others")


def measure_alpha(ratings: pd.DataFrame, *, resamples: int, seed: int = 0) -> pd.DataFrame:
    """Krippendorff's alpha of the ratings of all answers, ordinal, with its 95 % interval over groups of raters.

    Returns: one row: statistic `alpha_ordinal`, value, low, high, n (ratings), resampled, dropped.
    Source: `measure_krippendorff_alpha`; `group_raters`.
    """
    raters = np.unique(ratings.rater)
    tables = [
        part.pivot(index="rater", columns=["question", "system"], values="rating").reindex(raters).to_numpy(np.float64)
        for _, part in ratings.groupby(ratings.rater.map(group_raters(ratings)))
    ]  # a group: [raters, its answers]
    draws = [
        measure_krippendorff_alpha(np.hstack([tables[g] for g in np.repeat(np.arange(len(tables)), counts)]))
        for counts in draw_counts(len(tables), resamples=resamples, seed=seed).astype(np.int64)
    ]
    measured = [measure_krippendorff_alpha(np.hstack(tables)), *draws]
    frame = pd.DataFrame({"statistic": "alpha_ordinal", "resample": range(resamples + 1), "measured": measured})
    return find_intervals(frame.assign(units=len(tables), n=len(ratings)), over="group").assign(dropped=0)


def measure_krippendorff_alpha(ratings: ArrayLike) -> float:
    """Krippendorff's ordinal alpha = 1 - D_o / D_e, the disagreement observed over that expected by chance.

    Two values differ by the ratings that lie between them.

    Args: ratings: [raters, items], NaN for missing.
    Returns: alpha, 1 at most; NaN with no item that two raters rated, or all of these values equal.
    Source: Krippendorff (2018), by evalica. Differs from: it, which gives 1 where all values are equal; here NaN.
    """
    from evalica import alpha

    table = np.asarray(ratings, dtype=np.float64)
    shared = table[:, (~np.isnan(table)).sum(0) >= 2]
    if len(np.unique(shared[~np.isnan(shared)])) < 2:
        return float("nan")
    return float(alpha(pd.DataFrame(shared), distance="ordinal").alpha)


def measure_kappa(
    labels: pd.DataFrame, column: str, *, items: Sequence[str], raters: Literal["usual", "most"] = "usual"
) -> pd.DataFrame:
    """Fleiss' kappa of labels, which needs equally many of each item.

    Args: labels: a row a label, in the column `column`; items: the columns that name what is labelled; raters: over the
        items that the "usual" number of raters labelled, or the highest ("most").
    Returns: one row: statistic `fleiss_kappa`, value (NaN with one rater an item), n (items), dropped (items that
        another number of raters labelled), signature.
    Source: Fleiss (1971), by statsmodels. Differs from: it gives NaN with a warning where all labels are the same, as
        nothing could disagree; here without one.
    """
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    each = labels.groupby(list(items))[column].agg(list)
    counts = each.str.len()
    wanted = counts.max() if raters == "most" else counts.mode()[0]
    kept = each[counts == wanted]
    table, categories = aggregate_raters(kept.tolist())
    kappa = float(fleiss_kappa(table)) if wanted > 1 and len(categories) > 1 else np.nan
    row = {"value": kappa, "n": len(kept), "dropped": len(each) - len(kept), "signature": f"items_judged_by:{wanted}"}
    return pd.DataFrame([{"statistic": "fleiss_kappa"} | row])


def correlate_halves(ratings: pd.DataFrame, *, splits: int = 50, seed: int = 0) -> pd.DataFrame:
    """How well one random half of the raters agrees with the other: correlations of their mean ratings.

    Inside each question and then averaged (`level` "question"), and of the systems' means ("system"), averaged over
    seeded splits. A half is noisier than all raters, so that a metric can be above it.
    Returns: level, statistic (spearman, kendall), value, spread (standard deviation over splits), n (splits), dropped.
    """
    generator = np.random.default_rng(seed)
    raters = np.unique(ratings.rater)
    keys = ["split", "question", "system"]
    means = []
    for split in range(splits):
        first = raters[generator.permutation(len(raters))[: len(raters) // 2]]
        half = np.where(ratings.rater.isin(first), "one", "other")
        halved = ratings.assign(split=split, half=half).groupby([*keys, "half"])["rating"].mean()
        means.append(halved.unstack("half").reindex(columns=["one", "other"]))
    both = pd.concat(means).dropna().reset_index()
    systems = both.groupby(["split", "system"])[["one", "other"]].mean().round(9).reset_index()  # equal means tie
    found = pd.concat([
        correlate(both, x="one", y="other", by=["split", "question"], methods=RANK_METHODS).assign(level="question"),
        correlate(systems, x="one", y="other", by=["split"], methods=RANK_METHODS).assign(level="system"),
    ])  # fmt: skip
    each = found.groupby(["level", "statistic", "split"], sort=False)["measured"].mean()
    table = each.groupby(["level", "statistic"], sort=False).agg(["mean", "std", "count"]).reset_index()
    table = table.rename(columns={"mean": "value", "std": "spread", "count": "n"})
    return table.assign(dropped=splits - table["n"])


def _rate(
    comparisons: pd.DataFrame, rule: RatingRule, n: int, *, orders: int, seed: int = 0, weights: NDArray | None = None
) -> NDArray[np.float64]:
    """The strengths of n systems; `weights` says how often each comparison counts."""
    if rule == "bradley_terry":
        return rate_bradley_terry(comparisons, systems=n, weights=weights)
    times = 1 if weights is None else weights.astype(np.int64)
    return rate_elo(
        comparisons.iloc[np.repeat(np.arange(len(comparisons)), times)], systems=n, orders=orders, seed=seed
    )


def _read_comparisons(comparisons: pd.DataFrame) -> tuple[pd.DataFrame, NDArray]:
    """The comparisons with systems as numbers, and the systems in that order."""
    systems, numbers = np.unique(comparisons[["left", "right"]].to_numpy(dtype=str), return_inverse=True)
    left, right = numbers.reshape(-1, 2).T
    return comparisons.assign(left=left, right=right), systems


def group_raters(ratings: pd.DataFrame) -> pd.Series:
    """Raters who share questions, directly or through others: the number of each one's group.

    Returns: indexed by rater; groups are numbered from 1 in the order of their first questions.
    Source: connected components of the graph of raters and questions, by scipy.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    questions, asked = pd.factorize(ratings.question)
    raters, names = pd.factorize(ratings.rater, sort=True)
    size = len(asked) + len(names)
    graph = coo_matrix((np.ones(len(ratings)), (questions, len(asked) + raters)), shape=(size, size))
    labels = pd.factorize(connected_components(graph, directed=False)[1])[0]  # the questions come first
    return pd.Series(labels[len(asked) :] + 1, index=pd.Index(names, name="rater"), name="group")


def add_groups(measurements: pd.DataFrame, ratings: pd.DataFrame) -> pd.DataFrame:
    """Measurements of questions with the column `group`: the number of the raters who share them, as `group_raters`."""
    group = ratings.rater.map(group_raters(ratings)).groupby(ratings.question).first()
    return measurements.assign(group=measurements.question.map(group))
