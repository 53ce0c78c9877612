"""What numbers that were rounded when printed still tell: whether two can be equal, how far a deviation may lie."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

_EDGE = 1e-12  # a value on the edge of a rounding interval is inside
_STEPS = 100  # far more than the clipping needs to settle


def can_be_equal(one: ArrayLike, two: ArrayLike, decimals: ArrayLike) -> NDArray[np.bool_]:
    """Whether printed numbers agree at the coarser of their precisions: |one - two| <= 10^-decimals / 2.

    Args: one, two: [n], as printed; decimals: [n] or one number, the fewer decimals of each pair.
    Returns: [n].
    """
    gap = np.abs(np.asarray(one, dtype=np.float64) - np.asarray(two, dtype=np.float64))
    return np.asarray(gap <= 0.5 * 10.0 ** -np.asarray(decimals, dtype=np.float64) + _EDGE)


def bound_deviation(values: Sequence[float], half: float, *, ddof: int = 1) -> tuple[float, float, float]:
    """The standard deviation of printed numbers, and its least and greatest value before they were rounded.

    The deviation is convex in its numbers: over the box of all numbers within `half` of `values` it is greatest on a
    corner, and least where each number is as near to their mean as it may be, which repeated clipping finds.

    Args: values: [n], as printed; half: half of the last printed digit, 0 for exact numbers; ddof: the deviation
        divides by n - ddof, 1 or more.
    Returns: deviation, low, high.
    """
    middle = np.asarray(values, dtype=np.float64)
    nearest = middle
    for _ in range(_STEPS):
        nearest = np.clip(nearest.mean(), middle - half, middle + half)
    corners = middle + half * np.array(list(product((-1, 1), repeat=len(middle))))
    high = corners.std(axis=1, ddof=ddof).max()
    return float(middle.std(ddof=ddof)), float(nearest.std(ddof=ddof)), float(high)
