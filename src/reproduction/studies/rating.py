"""Ratings of systems from pairwise preferences: Elo and Bradley-Terry."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

_TOLERANCE, _STEPS = 1e-10, 100_000  # Bradley-Terry: where the iteration stops


def rate_elo(
    comparisons: pd.DataFrame,
    *,
    systems: int,
    orders: int = 20,
    k: float = 4.0,
    initial: float = 1000.0,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Online Elo, averaged over shuffled orders of the comparisons.

    After each comparison R_left += k (o - e), R_right -= k (o - e), with o its outcome and
    e = 1 / (1 + 10^((R_right - R_left) / 400)). Later comparisons weigh more, so the order matters: the mean over
    `orders` seeded shuffles is given, or with orders=0 the rating in the order given.

    Args: comparisons: left, right (numbers) and outcome (1 where left is preferred, 0 where right is, 0.5 for a tie);
        systems: how many there are, S, numbered from 0; k: the step; initial: everyone's first rating.
    Returns: ratings, [S], in Elo points; a system without comparisons keeps `initial`.
    Source: Elo (1978) by evalica. Differs from: DebateQA, which names neither step nor order.
    """
    from evalica import Winner, elo

    generator = np.random.default_rng(seed)
    shuffles = [generator.permutation(len(comparisons)) for _ in range(orders)] or [np.arange(len(comparisons))]
    left, right, outcomes = (comparisons[name].to_numpy() for name in ("left", "right", "outcome"))
    winners = np.array([Winner.Y, Winner.Draw, Winner.X])[(2 * outcomes).astype(int)]
    index, ratings = pd.RangeIndex(systems), []
    for order in shuffles:
        found = elo(left[order], right[order], winners[order].tolist(), index=index, k=k, initial=initial)
        ratings.append(found.scores.reindex(index).to_numpy(dtype=np.float64))
    return np.asarray(sum(ratings) / len(ratings))


def rate_bradley_terry(
    comparisons: pd.DataFrame, *, systems: int, prior: float = 0.1, weights: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Log-strengths b of the Bradley-Terry model, P(i is preferred to j) = e^b_i / (e^b_i + e^b_j).

    Maximum likelihood with a tie as half a win for each side. A system that always wins has no finite strength, so
    `prior` ties are added between every two systems.

    Args: comparisons, systems: as `rate_elo`; weights: [M], how often each comparison counts; default once; prior: 0
        only where every system has won against, and lost to, each other one, directly or through others.
    Returns: b, [S], in nats, with mean 0. Equal records give equal strengths. With no comparison and a prior, all 0.
    Source: Bradley and Terry (1952), by evalica. Differs from: evalica's, which has no prior.
    """
    from evalica import Winner, bradley_terry

    left, right, outcomes = (comparisons[name].to_numpy() for name in ("left", "right", "outcome"))
    weight = np.ones(len(comparisons)) if weights is None else np.asarray(weights, dtype=float)
    wins = np.zeros((systems, systems))  # [S, S], row preferred to column
    np.add.at(wins, (left, right), weight * outcomes)
    np.add.at(wins, (right, left), weight * (1 - outcomes))
    wins += prior / 2 * (1 - np.eye(systems))
    winners, losers = np.nonzero(wins)
    index = pd.RangeIndex(systems)
    found = bradley_terry(
        winners.tolist(), losers.tolist(), [Winner.X] * len(winners), index=index,
        weights=wins[winners, losers].tolist(), tolerance=_TOLERANCE, limit=_STEPS,
    )  # fmt: skip
    strengths = np.log(found.scores.reindex(index).to_numpy(dtype=np.float64))
    strengths = np.round(strengths, 8)  # the iteration stops at 1e-10: what differs by less is equal
    return np.asarray(strengths - strengths.mean())
