"""Rank and linear correlation inside many groups at once (one group = the answers to one question)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Coefficient = Literal["kendall", "spearman", "pearson"]
REASONS = ("defined", "fewer_than_two", "constant_scores", "constant_labels")
_PAIRS_AT_ONCE = 4_000_000  # bounds the memory of the pairwise step: about 150 MB


@dataclass(frozen=True)
class GroupCorrelations:
    """One coefficient a group; NaN where it is undefined, and then `reasons` (an index into
    REASONS) says why.
    """

    values: NDArray[np.float64]  # [G]
    reasons: NDArray[np.int8]  # [G]


def correlate_groups(
    scores: ArrayLike, labels: ArrayLike, sizes: ArrayLike, *, method: Coefficient
) -> GroupCorrelations:
    """Correlate `scores` with `labels` inside every group.

    kendall: tau-b = (P - Q) / sqrt((N - Tx)(N - Ty)), P and Q the concordant and discordant pairs,
    N all pairs of the group, Tx and Ty the pairs tied in scores and in labels. spearman: Pearson's
    r of mid-ranks. pearson: r. A group is undefined, NaN, with fewer than two members or when
    either side is constant.

    Args: scores, labels: [N], the groups one after another; sizes: [G], members of each group,
        summing to N.
    Returns: coefficients in [-1, 1], [G]. Unitless.
    Raises: ValueError for values that are not finite.
    Source: Kendall (1945) for tau-b; equal to scipy.stats.kendalltau, spearmanr, pearsonr to 1e-12.
    Differs from: scipy, which takes one group a call and gives NaN without a reason.
    """
    x = np.asarray(scores, np.float64)
    y = np.asarray(labels, np.float64)
    n = np.asarray(sizes, np.int64)
    for name, array in (("scores", x), ("labels", y)):
        if len(bad := np.flatnonzero(~np.isfinite(array))):
            raise ValueError(f"{name}[{bad[0]}] is {array[bad[0]]}; drop or replace it before correlating")
    reasons = _find_undefined(x, y, n)
    values = np.full(len(n), np.nan)
    usable = reasons == 0
    inside = np.repeat(usable, n)
    values[usable] = _METHODS[method](x[inside], y[inside], n[usable])
    return GroupCorrelations(values, reasons)


def _find_undefined(x: NDArray, y: NDArray, n: NDArray) -> NDArray[np.int8]:
    reasons = np.zeros(len(n), dtype=np.int8)
    filled = n > 0
    starts = (np.cumsum(n) - n)[filled]
    for array, code in ((y, 3), (x, 2)):  # constant scores win over constant labels: the metric is to blame
        constant = np.maximum.reduceat(array, starts) == np.minimum.reduceat(array, starts)
        reasons[np.flatnonzero(filled)[constant]] = code
    reasons[n < 2] = 1
    return reasons


def _kendall(x: NDArray, y: NDArray, n: NDArray) -> NDArray:
    from scipy.stats import kendalltau

    values = np.empty(len(n))
    pairs = n * (n - 1) // 2
    batch = np.cumsum(pairs) // _PAIRS_AT_ONCE
    ends = np.cumsum(n)
    large = pairs > _PAIRS_AT_ONCE  # one by one, in n log n, which for small groups takes longer
    for group in np.flatnonzero(large):
        members = slice(ends[group] - n[group], ends[group])
        values[group] = kendalltau(x[members], y[members]).statistic
    for number in np.unique(batch[~large]):
        groups = np.flatnonzero((batch == number) & ~large)
        first = ends[groups[0]] - n[groups[0]]
        last = ends[groups[-1]]
        values[groups] = _kendall_batch(x[first:last], y[first:last], n[groups], pairs[groups])
    return values


def _kendall_batch(x: NDArray, y: NDArray, n: NDArray, pairs: NDArray) -> NDArray:
    # Every member is paired with each later member of its group: `left` repeats it, `right` counts upwards from it.
    later = np.repeat(np.cumsum(n), n) - np.arange(len(x)) - 1
    left = np.repeat(np.arange(len(x)), later)
    right = np.arange(len(left)) - np.repeat(np.cumsum(later) - later, later) + left + 1
    sides = ((values[left], values[right]) for values in (x, y))
    dx, dy = ((a > b).astype(np.int8) - (a < b) for a, b in sides)  # compared: a difference could underflow to 0
    starts = np.cumsum(pairs) - pairs
    counted = (dx * dy, dx != 0, dy != 0)
    balance, untied_x, untied_y = (np.add.reduceat(each, starts, dtype=np.int64) for each in counted)
    return np.clip(balance / np.sqrt(untied_x) / np.sqrt(untied_y), -1.0, 1.0)


def _spearman(x: NDArray, y: NDArray, n: NDArray) -> NDArray:
    return _pearson(_rank(x, n), _rank(y, n), n)


def _rank(values: NDArray, n: NDArray) -> NDArray:
    """Mid-ranks inside each group, from 0: those among all values, groups in order, less the
    members before.
    """
    from scipy.stats import rankdata

    group = np.repeat(np.arange(len(n)), n)
    place = np.unique(values, return_inverse=True)[1]
    return np.asarray(rankdata(group * len(values) + place) - 1 - np.repeat(np.cumsum(n) - n, n))


def _pearson(x: NDArray, y: NDArray, n: NDArray) -> NDArray:
    starts = np.cumsum(n) - n
    x = _centre(x, n, starts)
    y = _centre(y, n, starts)
    return np.clip(np.add.reduceat(x * y, starts), -1.0, 1.0)


def _centre(values: NDArray, n: NDArray, starts: NDArray) -> NDArray:
    """Subtract the group's mean and divide by its norm.

    Scaled before, by powers of two, which round nothing, so that 1e-231 squared does not vanish;
    and centred twice, as the first mean is rounded and would shift values that lie close together.
    """
    for _ in range(2):
        values = _scale(values, n, starts)
        values = values - np.repeat(np.add.reduceat(values, starts) / n, n)
    values = _scale(values, n, starts)
    return values / np.repeat(np.sqrt(np.add.reduceat(values * values, starts)), n)


def _scale(values: NDArray, n: NDArray, starts: NDArray) -> NDArray:
    """Bring each group's largest value to between 1/2 and 1."""
    exponents = np.frexp(np.maximum.reduceat(np.abs(values), starts))[1]
    return np.ldexp(values, -np.repeat(exponents, n))


_METHODS = {"kendall": _kendall, "spearman": _spearman, "pearson": _pearson}
