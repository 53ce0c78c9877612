"""Rank and linear correlation inside groups: by hand, against scipy, against exact fractions, and its invariances."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nfqa.kernels.correlation import REASONS, Coefficient, correlate_groups

METHODS: tuple[Coefficient, ...] = get_args(Coefficient)
SCIPY = {"kendall": stats.kendalltau, "spearman": stats.spearmanr, "pearson": stats.pearsonr}
# Far apart from each other, so that Pearson's r is well conditioned for whatever is drawn from them: the sizes of
# unsmoothed BLEU, numbers whose squares overflow or vanish, the smallest subnormals.
WILD = [0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-231, 1e-155, 1e-78, 0.3, 1.0, -2.5, 1e300, -1e300, 1.7e308]

grades = st.integers(0, 3).map(float)
counts = st.integers(-40, 40).map(float)
tame = st.integers(-(10**6), 10**6).map(lambda i: i / 1000)
wild = st.sampled_from(WILD)
anything = st.floats(allow_nan=False, allow_infinity=False)


def groups_of(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[list[tuple[float, float]]]]:
    """Groups of (score, label): none, empty ones, of one or two members, up to fifteen."""
    return st.lists(st.lists(st.tuples(values, values), max_size=15), max_size=8)


def flatten(groups: list[list[tuple[float, float]]]) -> tuple[list[float], list[float], list[int]]:
    pairs = [pair for group in groups for pair in group]
    return [x for x, _ in pairs], [y for _, y in pairs], [len(group) for group in groups]


def correlate_exactly(x: list[float], y: list[float]) -> float:
    """Pearson's r in fractions, rounded only at the end."""
    a, b = [Fraction(v) for v in x], [Fraction(v) for v in y]
    a, b = [v - sum(a) / len(a) for v in a], [v - sum(b) / len(b) for v in b]
    cross = sum(v * w for v, w in zip(a, b, strict=True))
    squared = cross**2 / (sum(v * v for v in a) * sum(w * w for w in b))
    return math.copysign(math.sqrt(squared), 1 if cross > 0 else -1)


def assert_equals_scipy(x: list[float], y: list[float], sizes: list[int], method: Coefficient) -> None:
    result = correlate_groups(x, y, sizes, method=method)
    ends = np.cumsum(sizes, dtype=int)
    expected = []
    for begin, end in zip(ends - np.array(sizes, dtype=int), ends, strict=True):
        a, b = x[begin:end], y[begin:end]
        expected.append(SCIPY[method](a, b)[0] if len({*a}) > 1 and len({*b}) > 1 else np.nan)
    np.testing.assert_allclose(result.values, expected, rtol=0, atol=1e-12)
    assert ((result.reasons == 0) == ~np.isnan(result.values)).all()
    assert (np.abs(result.values[result.reasons == 0]) <= 1).all()


@pytest.mark.parametrize(
    ("x", "y", "method", "expected"),
    [
        # pairs, sign(dx) sign(dy):  12: + +   13: + 0   14: + +   23: 0 -   24: + +   34: + +
        # P = 4, Q = 0, N = 6, tied in scores Tx = 1 (23), tied in labels Ty = 1 (13): 4 / sqrt(5 * 5)
        ([1, 2, 2, 3], [0, 1, 0, 2], "kendall", 0.8),
        # P = 2 (12, 13), Q = 1 (23), no ties: (2 - 1) / 3
        ([1, 2, 3], [0, 2, 1], "kendall", 1 / 3),
        # 0 and -0 are tied: as [1, 1, 2] with [1, 2, 3]: P = 2, Tx = 1: 2 / sqrt(2 * 3)
        ([0.0, -0.0, 1.0], [1, 2, 3], "kendall", 2 / math.sqrt(6)),
        # mid-ranks 1, 2.5, 2.5, 4; deviations (-1.5, 0, 0, 1.5), (-1.5, -0.5, 0.5, 1.5): 4.5 / sqrt(4.5 * 5)
        ([10, 20, 20, 40], [1, 2, 3, 4], "spearman", 4.5 / math.sqrt(22.5)),
        # deviations (-2, -1, 3), squares 14, and (0, -1, 1), squares 2; cross 1 + 3: 4 / sqrt(28)
        ([0, 1, 5], [1, 0, 2], "pearson", 4 / math.sqrt(28)),
    ],
)
def test_hand_arithmetic(x, y, method, expected):
    assert correlate_groups(x, y, [len(x)], method=method).values == pytest.approx([expected], abs=1e-15)


def test_undefined_groups_say_why():
    scores = [1, 5, 5, 1, 2, 7, 7, 1, 2]
    labels = [1, 1, 2, 3, 3, 4, 4, 1, 2]
    #         one | scores    | labels | both: named after the scores | fine | nobody
    result = correlate_groups(scores, labels, [1, 2, 2, 2, 2, 0], method="kendall")
    wanted = ["fewer_than_two", "constant_scores", "constant_labels", "constant_scores", "defined", "fewer_than_two"]
    assert [REASONS[code] for code in result.reasons] == wanted
    assert np.isnan(result.values).tolist() == [True, True, True, True, False, True]


TAME = st.one_of(groups_of(grades), groups_of(counts), groups_of(tame))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_every_group_equals_scipy_those_of_ranks_for_any_finite_numbers(method, data):
    groups = data.draw(TAME if method == "pearson" else st.one_of(TAME, groups_of(wild), groups_of(anything)))
    assert_equals_scipy(*flatten(groups), method)


@settings(max_examples=60, deadline=None)
@given(groups=st.one_of(groups_of(wild), groups_of(counts)))
def test_pearson_equals_exact_fractions_even_for_subnormal_and_huge_numbers(groups):
    groups = [*groups, [(0.1 + i * 2**-55, float(place)) for place, i in enumerate((3, 0, 7))]]  # the last bits differ
    x, y, sizes = flatten(groups)
    result = correlate_groups(x, y, sizes, method="pearson")
    for value, reason, group in zip(result.values, result.reasons, groups, strict=True):
        if reason == 0:
            assert value == pytest.approx(correlate_exactly(*flatten([group])[:2]), abs=1e-12)
            assert abs(value) <= 1


@pytest.mark.parametrize("method", METHODS)
def test_a_large_group_with_heavy_ties_beside_small_ones_equals_scipy(method):
    rng, sizes = np.random.default_rng(5), [20, 6_000, 5, 0, 1, 900, 2]
    x, y = rng.integers(0, 12, sum(sizes)), rng.integers(0, 4, sum(sizes))
    assert_equals_scipy(x.tolist(), y.tolist(), sizes, method)
