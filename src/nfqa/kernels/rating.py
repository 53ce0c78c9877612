"""Ratings of systems from pairwise preferences: Elo and Bradley-Terry, and preferences from graded answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_TOLERANCE, _STEPS = 1e-10, 100_000  # Bradley-Terry: where the iteration stops


@dataclass(frozen=True)
class Preferences:
    """M comparisons of two systems each, systems by number. `outcomes`: 1 left is preferred, 0 right, 0.5 a tie."""

    left: NDArray[np.int64]  # [M]
    right: NDArray[np.int64]  # [M]
    outcomes: NDArray[np.float64]  # [M]

    def __len__(self) -> int:
        return len(self.left)

    def take(self, chosen: NDArray[Any]) -> Preferences:
        """The comparisons at these places, or where a mask is true."""
        return Preferences(self.left[chosen], self.right[chosen], self.outcomes[chosen])


def make_preferences(left: ArrayLike, right: ArrayLike, outcomes: ArrayLike) -> Preferences:
    """Preferences from three equal rows.

    Raises: ValueError for unequal lengths, a system compared with itself or numbered below 0, or an outcome other
        than 0, 0.5 and 1.
    """
    a, b, won = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64), np.asarray(outcomes, dtype=float)
    if a.ndim != 1 or not a.shape == b.shape == won.shape:
        raise ValueError(f"left {a.shape}, right {b.shape}, outcomes {won.shape}; expected three equal rows")
    for wrong, problem in (
        (a == b, "compares a system with itself"),
        ((a < 0) | (b < 0), "names a system below 0"),
        (~np.isin(won, (0.0, 0.5, 1.0)), "has an outcome other than 0, 0.5 and 1"),
    ):
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"comparison {i} ({a[i]}, {b[i]}, {won[i]:g}) {problem}; correct or leave it out")
    return Preferences(a, b, won)


def derive_preferences(ratings: ArrayLike, systems: ArrayLike, groups: ArrayLike) -> tuple[Preferences, NDArray]:
    """Every pair of systems that was rated in one group (one rater on one question) becomes a comparison.

    The higher rating is preferred; equal ratings are a tie and stay one. A group of n systems gives n (n - 1) / 2
    comparisons: 10 for five systems.

    Args: ratings: [N]; systems: [N], whole numbers; groups: [N], equal entries belong together.
    Returns: the comparisons, and the group of each, [M]. In a comparison the lower-numbered system is `left`.
    Raises: ValueError for unequal lengths, ratings that are not finite, or a system rated twice in a group.
    Source: DebateQA, section B.1.1: all 10 pairs of five answers to a question. Differs from: its annotators were
        asked for each pair, so that theirs can be cyclic; preferences from ratings can't.
    """
    import pandas as pd

    columns = {"group": np.asarray(groups), "system": np.asarray(systems, dtype=np.int64)}
    rated = pd.DataFrame(columns | {"rating": np.asarray(ratings, dtype=float)}).sort_values(["group", "system"])
    if (bad := ~np.isfinite(rated["rating"])).any():
        i = rated.index[bad].min()
        raise ValueError(f"rating {i} is {rated['rating'][i]}; leave it out before comparing")
    if (twice := rated.duplicated(["group", "system"])).any():
        group, system = rated.loc[twice, ["group", "system"]].iloc[0]
        raise ValueError(f"system {system} is rated twice in group {group}; keep one rating")
    pairs = rated.merge(rated, on="group").query("system_x < system_y")
    outcomes = (np.sign(pairs["rating_x"] - pairs["rating_y"]) + 1) / 2
    return make_preferences(pairs["system_x"], pairs["system_y"], outcomes), pairs["group"].to_numpy()


def rate_elo(
    preferences: Preferences,
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

    Args: systems: how many there are, S; k: the step; initial: everyone's first rating.
    Returns: ratings, [S], in Elo points; a system without comparisons keeps `initial`.
    Raises: ValueError for no systems, a comparison that names a system outside them, or orders < 0.
    Source: Elo (1978) by evalica. Differs from: DebateQA, which names neither step nor order.
    """
    _check(preferences, systems)
    if orders < 0:
        raise ValueError(f"orders is {orders}; expected 0 (as given) or more shuffles")
    if not len(preferences):
        return np.full(systems, initial)
    generator = np.random.default_rng(seed)
    shuffles = [generator.permutation(len(preferences)) for _ in range(orders)] or [np.arange(len(preferences))]
    ratings = [_rate_once(preferences.take(order), systems, k, initial) for order in shuffles]
    return np.asarray(sum(ratings) / len(ratings))


def _rate_once(preferences: Preferences, systems: int, k: float, initial: float) -> NDArray[np.float64]:
    import pandas as pd
    from evalica import Winner, elo

    names = {1.0: Winner.X, 0.0: Winner.Y, 0.5: Winner.Draw}
    winners = [names[outcome] for outcome in preferences.outcomes.tolist()]
    index = pd.RangeIndex(systems)
    found = elo(preferences.left.tolist(), preferences.right.tolist(), winners, index=index, k=k, initial=initial)
    return np.array(found.scores.reindex(index).tolist(), dtype=np.float64)


def rate_bradley_terry(
    preferences: Preferences, *, systems: int, prior: float = 0.1, weights: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Log-strengths b of the Bradley-Terry model, P(i is preferred to j) = e^b_i / (e^b_i + e^b_j).

    Maximum likelihood with a tie as half a win for each side. A system that always wins has no finite strength, so
    `prior` ties are added between every two systems; 0 adds none.

    Args: systems: how many there are, S; weights: [M], how often each comparison counts; default once.
    Returns: b, [S], in nats, with mean 0. Equal records give equal strengths. With no comparison and a prior, all 0.
    Raises: ValueError as `rate_elo`, for weights of another length, negative or infinite, a negative prior, or, with
        prior=0, comparisons that leave strengths undetermined or infinite.
    Source: Bradley and Terry (1952), by evalica. Differs from: evalica's, which has no prior and gives equal
        strengths where none exist.
    """
    from scipy.sparse.csgraph import connected_components

    _check(preferences, systems)
    weight = np.ones(len(preferences)) if weights is None else np.asarray(weights, dtype=float)
    if weight.shape != preferences.left.shape or (weight < 0).any() or not np.isfinite(weight).all():
        raise ValueError(f"weights {weight.shape} for {len(preferences)} comparisons; expected one each, 0 or more")
    if prior < 0:
        raise ValueError(f"prior is {prior}; expected 0 or more ties between every two systems")
    wins = np.zeros((systems, systems))  # [S, S], row preferred to column
    np.add.at(wins, (preferences.left, preferences.right), weight * preferences.outcomes)
    np.add.at(wins, (preferences.right, preferences.left), weight * (1 - preferences.outcomes))
    wins += prior / 2 * (1 - np.eye(systems))
    if connected_components(wins, connection="strong", return_labels=False) > 1:  # Ford (1957)
        raise ValueError("the comparisons leave strengths undetermined or infinite; give a prior above 0")
    strengths = _fit(wins)
    return strengths - strengths.mean()


def _fit(wins: NDArray) -> NDArray[np.float64]:
    import pandas as pd
    from evalica import Winner, bradley_terry

    left, right = np.nonzero(wins)
    if not len(left):
        return np.zeros(len(wins))
    index = pd.RangeIndex(len(wins))
    found = bradley_terry(
        left.tolist(), right.tolist(), [Winner.X] * len(left), index=index, weights=wins[left, right].tolist(),
        tolerance=_TOLERANCE, limit=_STEPS,
    )  # fmt: skip
    strengths = np.log(found.scores.reindex(index).to_numpy(dtype=np.float64))
    return np.asarray(np.round(strengths, 8))  # the iteration stops at 1e-10: what differs by less is equal


def _check(preferences: Preferences, systems: int) -> None:
    if systems < 1:
        raise ValueError(f"systems is {systems}; expected how many there are, 1 or more")
    if len(preferences) and (top := int(max(preferences.left.max(), preferences.right.max()))) >= systems:
        raise ValueError(f"a comparison names system {top}, but there are {systems}, numbered from 0")
