"""People's ratings of systems' answers, frame to frame: comparisons, rankings of the systems,
agreement among raters.

Everything starts from `QuestionSet.ratings`: a row for each rating, with the columns dataset,
question, rater (a number), view (the rater's own), system and rating.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nfqa.kernels.correlation import Coefficient
from nfqa.kernels.intervals import draw_counts
from nfqa.metrics.statistics import correlate, iterate_groups
from reproduction.studies.rankings import find_intervals

RatingRule = Literal["elo", "bradley_terry"]
# Shuffles of the comparisons over which Elo is averaged: one rater's are few, those of all differ by little.
ORDERS = 20
ORDERS_TOGETHER = 200
RANK_METHODS: tuple[Coefficient, ...] = ("spearman", "kendall")


def compare_answers(ratings: pd.DataFrame) -> pd.DataFrame:
    """Every two answers that one rater rated on one question: the higher rating is preferred, equal
    ratings tie.

    Returns: dataset, question, rater, left, right (systems), outcome (1 left is preferred, 0 right,
        0.5 a tie), rater by rater, each in the order of the questions.
    Raises: ValueError for a dataset without ratings.
    Source: DebateQA, section B.1.1: all 10 pairs of five answers to a question. Differs from: its
        annotators were asked for each pair, so that their preferences can be cyclic; preferences
        from ratings can't.
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
    """The strength of every system by Elo or Bradley-Terry, from all comparisons or from those of
    each group.

    Args: comparisons: as `compare_answers` gives them; by: the columns that make a group; orders:
        shuffles of the comparisons over which Elo is averaged.
    Returns: the columns of `by`, system, strength: in Elo points, or in nats. A system that is not
        compared in a group has no row; Bradley-Terry's prior counts all systems of the frame.
    Source: DebateQA, section 5.1; `rate_elo`, `rate_bradley_terry`.
    """
    systems = _list_systems(comparisons)
    frames = []
    for key, group in iterate_groups(comparisons, by) if by else iter([(dict[str, Any](), comparisons)]):
        strengths = _rate(group, rule, systems, orders=orders)
        compared = systems.isin([*group.left, *group.right])
        frames.append(pd.DataFrame(key | {"system": systems[compared], "strength": strengths[compared]}))
    return pd.concat(frames, ignore_index=True)


def resample_rankings(
    comparisons: pd.DataFrame, rule: RatingRule, *, over: str, resamples: int, seed: int = 0, orders: int = ORDERS
) -> pd.DataFrame:
    """The ranking by all comparisons under resamples of `over`, each of which brings all its
    comparisons along.

    Args: over: the column of what was drawn independently; orders: shuffles over which each
        resample's Elo is averaged.
    Returns: resample (from 1), system, strength.
    """
    systems = _list_systems(comparisons)
    units, names = pd.factorize(comparisons[over], sort=True)
    strengths = [
        _rate(comparisons, rule, systems, orders=orders, seed=number, weights=counts[units])
        for number, counts in enumerate(draw_counts(len(names), resamples=resamples, seed=seed))
    ]
    table = pd.DataFrame(strengths, pd.RangeIndex(1, resamples + 1, name="resample"), systems).reset_index()
    return table.melt("resample", var_name="system", value_name="strength")


def _list_systems(comparisons: pd.DataFrame) -> pd.Index:
    return pd.Index(np.unique(comparisons[["left", "right"]].to_numpy(dtype=str)), name="system")


def _rate(
    comparisons: pd.DataFrame, rule: RatingRule, systems: pd.Index, *, orders: int, seed: int = 0,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:  # fmt: skip
    if rule == "bradley_terry":
        return rate_bradley_terry(comparisons, systems, weights=weights)
    return rate_elo(comparisons, systems, orders=orders, seed=seed, weights=weights)


def rate_elo(
    comparisons: pd.DataFrame, systems: pd.Index, *, orders: int = ORDERS, seed: int = 0,
    weights: NDArray[np.float64] | None = None, k: float = 4.0,
) -> NDArray[np.float64]:  # fmt: skip
    """Online Elo, averaged over shuffled orders of the comparisons.

    After each comparison R_left += k (o - e), R_right -= k (o - e), with o its outcome and e = 1 /
    (1 + 10^((R_right - R_left) / 400)). All start at 1,000. Later comparisons weigh more, so the
    order matters: the mean over `orders` seeded shuffles is given, or with orders=0 the rating in
    the order given.

    Args: comparisons: left, right and outcome, as `compare_answers`; systems: all that are rated,
        S; weights: [M], how often each comparison counts; default once.
    Returns: ratings, [S], in Elo points; a system without comparisons keeps 1,000.
    Source: Elo (1978) by evalica. Differs from: DebateQA, which names neither step nor order.
    """
    from evalica import Winner, elo

    rows = np.repeat(np.arange(len(comparisons)), 1 if weights is None else weights.astype(np.int64))
    generator = np.random.default_rng(seed)
    shuffles = [rows[generator.permutation(len(rows))] for _ in range(orders)] or [rows]
    left, right = (systems.get_indexer(comparisons[side]) for side in ("left", "right"))
    winners = np.array([Winner.Y, Winner.Draw, Winner.X])[(2 * comparisons.outcome.to_numpy()).astype(int)]
    numbers = pd.RangeIndex(len(systems))
    ratings = [elo(left[one], right[one], winners[one].tolist(), numbers, k=k).scores[numbers] for one in shuffles]
    return np.asarray(sum(each.to_numpy() for each in ratings) / len(ratings))


def rate_bradley_terry(
    comparisons: pd.DataFrame, systems: pd.Index, *, prior: float = 0.1, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Log-strengths b of the Bradley-Terry model, P(i is preferred to j) = e^b_i / (e^b_i + e^b_j).

    Maximum likelihood with a tie as half a win for each side. A system that always wins has no
    finite strength, so `prior` ties are added between every two systems.

    Args: comparisons, systems, weights: as `rate_elo`; prior: 0 only where every system has won
        against, and lost to, each other one, directly or through others.
    Returns: b, [S], in nats, with mean 0. Equal records give equal strengths. With no comparison
        and a prior, all 0.
    Source: Bradley and Terry (1952), by evalica. Differs from: evalica's, which has no prior.
    """
    from evalica import Winner, bradley_terry

    left, right = (systems.get_indexer(comparisons[side]) for side in ("left", "right"))
    outcomes = comparisons.outcome.to_numpy()
    weight = 1.0 if weights is None else weights
    wins = np.zeros((len(systems), len(systems)))  # row preferred to column
    np.add.at(wins, (left, right), weight * outcomes)
    np.add.at(wins, (right, left), weight * (1 - outcomes))
    wins += prior / 2 * (1 - np.eye(len(systems)))
    winners, losers = np.nonzero(wins)
    model = bradley_terry(
        winners, losers, [Winner.X] * len(winners), index=(numbers := pd.RangeIndex(len(systems))),
        weights=wins[winners, losers].tolist(), tolerance=1e-10, limit=100_000,
    )  # fmt: skip
    strengths = np.log(model.scores[numbers].to_numpy()).round(8)  # the iteration stops at 1e-10: less is equal
    return np.asarray(strengths - strengths.mean())


def measure_alpha(ratings: pd.DataFrame, *, resamples: int, seed: int = 0) -> pd.DataFrame:
    """Krippendorff's alpha of the ratings of all answers, ordinal, with its 95 % interval over
    groups of raters.

    Returns: one row: statistic `alpha_ordinal`, value, low, high, n (ratings), resampled, dropped.
    Source: `measure_krippendorff_alpha`; `group_raters`.
    """
    raters = np.unique(ratings.rater)
    tables = [
        part.pivot(index="rater", columns=["question", "system"], values="rating").reindex(raters).to_numpy(np.float64)
        for _, part in ratings.groupby(ratings.rater.map(group_raters(ratings)))
    ]  # a group: [raters, its answers]
    counts = draw_counts(len(tables), resamples=resamples, seed=seed).astype(np.int64)
    measured = [
        measure_krippendorff_alpha(np.hstack([tables[g] for g in np.repeat(np.arange(len(tables)), times)]))
        for times in [1, *counts]
    ]
    frame = pd.DataFrame({"statistic": "alpha_ordinal", "resample": range(resamples + 1), "measured": measured})
    return find_intervals(frame.assign(units=len(tables), n=len(ratings)), over="group").assign(dropped=0)


def measure_krippendorff_alpha(ratings: ArrayLike) -> float:
    """Krippendorff's ordinal alpha = 1 - D_o / D_e, the disagreement observed over that expected by
    chance.

    Two values differ by the ratings that lie between them.

    Args: ratings: [raters, items], NaN for missing.
    Returns: alpha, 1 at most; NaN with no item that two raters rated, or all of these values equal.
    Source: Krippendorff (2018), by evalica. Differs from: it, which gives 1 where all values are
        equal; here NaN.
    """
    from evalica import alpha

    table = np.asarray(ratings, dtype=np.float64)
    shared = table[:, (~np.isnan(table)).sum(0) >= 2]
    if len(np.unique(shared[~np.isnan(shared)])) < 2:
        return float("nan")
    return float(alpha(pd.DataFrame(shared), distance="ordinal").alpha)


def measure_kappa(labels: pd.DataFrame, column: str, *, items: Sequence[str]) -> pd.DataFrame:
    """Fleiss' kappa of labels, which needs equally many of each item.

    Args: labels: one row per label, in the column `column`; items: the columns that name what is
        labelled.
    Returns: one row: statistic `fleiss_kappa`, value (NaN with one rater an item), n (items that
        the usual number of raters labelled), dropped (items that another number labelled),
        signature.
    Source: Fleiss (1971), by statsmodels. Differs from: it gives NaN with a warning where all
        labels are the same, as nothing could disagree; here without one.
    """
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    each = labels.groupby(list(items))[column].agg(list)
    counts = each.str.len()
    count = counts.mode()[0]
    rated = each[counts == count]
    table, categories = aggregate_raters(rated.tolist())
    kappa = float(fleiss_kappa(table)) if count > 1 and len(categories) > 1 else np.nan
    row = {"value": kappa, "n": len(rated), "dropped": len(each) - len(rated), "signature": f"items_judged_by:{count}"}
    return pd.DataFrame([{"statistic": "fleiss_kappa"} | row])


def correlate_halves(ratings: pd.DataFrame, *, splits: int = 50, seed: int = 0) -> pd.DataFrame:
    """How well one random half of the raters agrees with the other: correlations of their mean
    ratings.

    Inside each question and then averaged (`level` "question"), and of the systems' means
    ("system"), averaged over seeded splits. A half is noisier than all raters, so that a metric can
    be above it.
    Returns: level, statistic (spearman, kendall), value, spread (standard deviation over splits), n
        (splits), dropped.
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
    correlations = pd.concat([
        correlate(both, x="one", y="other", by=["split", "question"], methods=RANK_METHODS).assign(level="question"),
        correlate(systems, x="one", y="other", by=["split"], methods=RANK_METHODS).assign(level="system"),
    ])  # fmt: skip
    each = correlations.groupby(["level", "statistic", "split"], sort=False)["measured"].mean()
    table = each.groupby(["level", "statistic"], sort=False).agg(["mean", "std", "count"]).reset_index()
    table = table.rename(columns={"mean": "value", "std": "spread", "count": "n"})
    return table.assign(dropped=splits - table["n"])


def group_raters(ratings: pd.DataFrame) -> pd.Series:
    """Raters who share questions, directly or through others: the number of each one's group.

    Returns: indexed by rater; groups are numbered from 1 in the order of their first questions.
    Source: connected components of the graph of raters and questions, by scipy.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    questions, texts = pd.factorize(ratings.question)
    raters, names = pd.factorize(ratings.rater, sort=True)
    size = len(texts) + len(names)
    first = len(texts)  # the questions come first
    graph = coo_matrix((np.ones(len(ratings)), (questions, first + raters)), shape=(size, size))
    labels = pd.factorize(connected_components(graph, directed=False)[1])[0]
    return pd.Series(labels[first:] + 1, index=pd.Index(names, name="rater"), name="group")


def add_groups(measurements: pd.DataFrame, ratings: pd.DataFrame) -> pd.DataFrame:
    """Measurements of questions with the column `group`: the number of the raters who share them,
    as `group_raters`.
    """
    group = ratings.rater.map(group_raters(ratings)).groupby(ratings.question).first()
    return measurements.assign(group=measurements.question.map(group))
