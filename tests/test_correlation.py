"""Rank and linear correlation inside groups: by hand, against scipy, against exact fractions, and its invariances."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from nfqa.kernels import correlation
from nfqa.kernels.correlation import REASONS, Method, correlate_groups

METHODS: tuple[Method, ...] = get_args(Method)
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


def correlate_one(x: list[float], y: list[float], method: Method) -> float:
    return float(correlate_groups(x, y, [len(x)], method=method).values[0])


def correlate_exactly(x: list[float], y: list[float]) -> float:
    """Pearson's r in fractions, rounded only at the end."""
    a, b = [Fraction(v) for v in x], [Fraction(v) for v in y]
    a, b = [v - sum(a) / len(a) for v in a], [v - sum(b) / len(b) for v in b]
    cross = sum(v * w for v, w in zip(a, b, strict=True))
    squared = cross**2 / (sum(v * v for v in a) * sum(w * w for w in b))
    return math.copysign(math.sqrt(squared), 1 if cross > 0 else -1)


def scipy_value(x: NDArray, y: NDArray, method: Method) -> float:
    if len(x) < 2 or x.min() == x.max() or y.min() == y.max():
        return np.nan
    return float(SCIPY[method](x, y)[0])


def assert_equals_scipy(x: list[float], y: list[float], sizes: list[int], method: Method) -> None:
    found = correlate_groups(x, y, sizes, method=method)
    cuts = np.cumsum(sizes)[:-1].astype(int)
    parts = zip(np.split(np.array(x), cuts), np.split(np.array(y), cuts), strict=True) if sizes else ()
    expected = np.array([scipy_value(a, b, method) for a, b in parts])
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)
    assert ((found.reasons == 0) == ~np.isnan(found.values)).all()


def test_tau_b_with_ties_on_both_sides_equals_hand_arithmetic():
    # pairs, sign(dx) sign(dy):  12: + +   13: + 0   14: + +   23: 0 -   24: + +   34: + +
    # P = 3 (12, 14, 24) + 1 (34) = 4, Q = 0, N = 6, tied in scores Tx = 1 (23), tied in labels Ty = 1 (13)
    # tau-b = 4 / sqrt(5 * 5) = 0.8
    assert correlate_one([1, 2, 2, 3], [0, 1, 0, 2], "kendall") == pytest.approx(0.8, abs=1e-15)


def test_tau_b_counts_a_discordant_pair_against():
    # scores 1 2 3, labels 0 2 1: P = 2 (12, 13), Q = 1 (23), no ties: (2 - 1) / 3
    assert correlate_one([1, 2, 3], [0, 2, 1], "kendall") == pytest.approx(1 / 3, abs=1e-15)


def test_spearman_uses_mid_ranks():
    # scores 10 20 20 40 -> ranks 1, 2.5, 2.5, 4; labels 1 2 3 4; both means 2.5
    # deviations (-1.5, 0, 0, 1.5) and (-1.5, -0.5, 0.5, 1.5): cross 4.5, squares 4.5 and 5
    # rho = 4.5 / sqrt(22.5) = 0.948683...
    assert correlate_one([10, 20, 20, 40], [1, 2, 3, 4], "spearman") == pytest.approx(4.5 / math.sqrt(22.5), abs=1e-15)


def test_pearson_equals_hand_arithmetic():
    # scores 0 1 5 (mean 2): -2 -1 3, squares 14; labels 1 0 2 (mean 1): 0 -1 1, squares 2; cross 1 + 3 = 4
    # r = 4 / sqrt(28) = 0.755929...
    assert correlate_one([0, 1, 5], [1, 0, 2], "pearson") == pytest.approx(4 / math.sqrt(28), abs=1e-15)


def test_groups_do_not_touch_each_other():
    # [1 2 3] with [1 2 3] gives 1; [1 2] with [2 1] gives -1; an empty group between them stays undefined
    for method in METHODS:
        found = correlate_groups([1, 2, 3, 1, 2], [1, 2, 3, 2, 1], [3, 0, 2], method=method)
        np.testing.assert_allclose(found.values, [1, np.nan, -1], atol=1e-15)


def test_undefined_groups_say_why():
    scores = [1, 5, 5, 1, 2, 7, 7, 1, 2]
    labels = [1, 1, 2, 3, 3, 4, 4, 1, 2]
    #         one | scores    | labels | both: the metric is to blame | fine | nobody
    found = correlate_groups(scores, labels, [1, 2, 2, 2, 2, 0], method="kendall")
    wanted = ["fewer_than_two", "constant_scores", "constant_labels", "constant_scores", "defined", "fewer_than_two"]
    assert [REASONS[code] for code in found.reasons] == wanted
    assert np.isnan(found.values).tolist() == [True, True, True, True, False, True]
    assert found.count_reasons() == {"fewer_than_two": 2, "constant_scores": 2, "constant_labels": 1}


def test_no_groups_give_no_values():
    for method in METHODS:
        found = correlate_groups([], [], [], method=method)
        assert found.values.shape == found.reasons.shape == (0,)
        assert found.count_reasons() == {}


def test_zero_and_minus_zero_are_tied():
    found = correlate_groups([0.0, -0.0], [1, 2], [2], method="kendall")
    assert REASONS[found.reasons[0]] == "constant_scores"
    # 0 and -0 share ranks 1.5: as [1, 1, 2] with [1, 2, 3]: P = 2, Tx = 1: 2 / sqrt(2 * 3)
    assert correlate_one([0.0, -0.0, 1.0], [1, 2, 3], "kendall") == pytest.approx(2 / math.sqrt(6), abs=1e-15)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(groups=st.one_of(groups_of(grades), groups_of(counts), groups_of(tame)))
def test_every_group_equals_scipy(method, groups):
    assert_equals_scipy(*flatten(groups), method)


@pytest.mark.parametrize("method", ["kendall", "spearman"])
@settings(max_examples=60, deadline=None)
@given(groups=st.one_of(groups_of(wild), groups_of(anything)))
def test_rank_correlations_equal_scipy_for_any_finite_numbers(method, groups):
    assert_equals_scipy(*flatten(groups), method)


@settings(max_examples=60, deadline=None)
@given(groups=st.one_of(groups_of(wild), groups_of(counts)))
def test_pearson_equals_exact_fractions_even_for_subnormal_and_huge_numbers(groups):
    x, y, sizes = flatten(groups)
    found = correlate_groups(x, y, sizes, method="pearson")
    for value, reason, group in zip(found.values, found.reasons, groups, strict=True):
        if reason == 0:
            assert value == pytest.approx(correlate_exactly(*flatten([group])[:2]), abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_big_groups_with_heavy_ties_equal_scipy(method):
    rng = np.random.default_rng(1)
    sizes = [700, 2, 400, 1, 0, 300]
    assert_equals_scipy(
        rng.integers(0, 12, sum(sizes)).tolist(), rng.integers(0, 4, sum(sizes)).tolist(), sizes, method
    )
    assert_equals_scipy(rng.normal(size=sum(sizes)).tolist(), rng.normal(size=sum(sizes)).tolist(), sizes, method)


@pytest.mark.parametrize("method", METHODS)
def test_unsmoothed_bleu_sizes_do_not_vanish(method):
    # 1e-231 squared is 0 in double precision; the order 1e-231 < 1e-155 < 1e-78 must survive all the same
    expected = 1.0 if method != "pearson" else correlate_exactly([1e-231, 1e-155, 1e-78], [0, 1, 2])
    assert correlate_one([1e-231, 1e-155, 1e-78], [0, 1, 2], method) == pytest.approx(expected, abs=1e-12)
    assert correlate_one([1e-231, 3e-231, 5e-231], [0, 1, 2], method) == pytest.approx(1, abs=1e-12)


def test_pearson_of_two_nearly_equal_scores_is_one():
    # two different points always lie on a line: r = 1; found 0.7071, because the mean of the scaled scores rounds to 1
    assert correlate_one([1 - 2**-53, 1.0], [0, 1], "pearson") == pytest.approx(1, abs=1e-12)


def test_pearson_of_close_scores_equals_exact_fractions():
    x = [0.1 + i * 2**-55 for i in (3, 0, 1, 7, 2)]
    y = [2.0, 0.0, 1.0, 3.0, 1.0]
    assert correlate_one(x, y, "pearson") == pytest.approx(correlate_exactly(x, y), abs=1e-12)


@pytest.mark.parametrize("at_once", [1, 7, 60])
def test_pairs_in_small_batches_give_the_same(monkeypatch, at_once):
    rng = np.random.default_rng(2)
    sizes = rng.integers(0, 12, 60)
    x, y = rng.integers(0, 5, sizes.sum()), rng.integers(0, 4, sizes.sum())
    whole = correlate_groups(x, y, sizes, method="kendall")
    seen = []
    plain = correlation._kendall_batch
    monkeypatch.setattr(correlation, "_PAIRS_AT_ONCE", at_once)
    monkeypatch.setattr(correlation, "_kendall_batch", lambda *a: seen.append(len(a[3])) or plain(*a))
    batched = correlate_groups(x, y, sizes, method="kendall")
    assert len(seen) > 5
    np.testing.assert_array_equal(whole.values, batched.values)


@pytest.mark.parametrize("method", ["kendall", "spearman"])
@settings(max_examples=40, deadline=None)
@given(groups=groups_of(counts))
def test_a_rising_transform_changes_no_rank_correlation(method, groups):
    x, y, sizes = flatten(groups)
    before = correlate_groups(x, y, sizes, method=method)
    bent = np.exp(np.array(x) / 4) - 3  # strictly rising over -40 to 40
    np.testing.assert_array_equal(before.values, correlate_groups(bent, y, sizes, method=method).values)
    falling = correlate_groups(-np.array(x), y, sizes, method=method)
    np.testing.assert_allclose(falling.values, -before.values, atol=1e-15)


@settings(max_examples=40, deadline=None)
@given(groups=groups_of(counts), shift=st.integers(-9, 9), scale=st.sampled_from([0.5, 2.0, 1024.0]))
def test_shift_and_scale_do_not_change_pearson(groups, shift, scale):
    x, y, sizes = flatten(groups)
    before = correlate_groups(x, y, sizes, method="pearson").values
    after = correlate_groups(np.array(x) * scale + shift, y, sizes, method="pearson").values
    np.testing.assert_allclose(after, before, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, deadline=None)
@given(groups=groups_of(grades), data=st.data())
def test_order_of_groups_and_of_members_does_not_matter(method, groups, data):
    before = correlate_groups(*flatten(groups), method=method)
    order = data.draw(st.permutations(range(len(groups))))
    mixed = [data.draw(st.permutations(groups[i])) for i in order]
    after = correlate_groups(*flatten(mixed), method=method)
    np.testing.assert_allclose(after.values, before.values[order], atol=1e-12)
    np.testing.assert_array_equal(after.reasons, before.reasons[order])


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, deadline=None)
@given(groups=groups_of(wild))
def test_values_lie_between_minus_one_and_one_and_sides_may_be_exchanged(method, groups):
    x, y, sizes = flatten(groups)
    values = correlate_groups(x, y, sizes, method=method).values
    assert (np.abs(values[~np.isnan(values)]) <= 1).all()
    np.testing.assert_allclose(correlate_groups(y, x, sizes, method=method).values, values, atol=1e-15)


@pytest.mark.parametrize(
    ("scores", "labels", "sizes", "method", "message"),
    [
        ([1], [1], [1], "tau", r"method is 'tau'; expected one of kendall, spearman, pearson"),
        ([[1, 2]], [1, 2], [2], "kendall", r"scores has shape \(1, 2\); expected one dimension"),
        ([1, 2], [[1], [2]], [2], "kendall", r"labels has shape \(2, 1\); expected one dimension"),
        ([1, 2], [1, 2], [3, -1], "kendall", r"sizes must be a one-dimensional array of whole counts, none negative"),
        ([1, 2], [1, 2], [1.7, 0.3], "kendall", r"array of whole counts"),
        ([1, 2], [1, 2], [[2]], "kendall", r"sizes must be a one-dimensional array of whole counts"),
        ([1, 2], [1, 2, 3], [2], "kendall", r"2 scores, 3 labels, but sizes sum to 2; all three must be equal"),
        ([1, 2], [1, 2], [3], "kendall", r"2 scores, 2 labels, but sizes sum to 3; all three must be equal"),
        ([1, np.nan], [1, 2], [1, 0, 1], "kendall", r"scores\[1\] is nan \(group 2\); drop or replace it"),
        ([1, 2, 3], [np.inf, 2, 3], [0, 2, 1], "pearson", r"labels\[0\] is inf \(group 1\); drop or replace it"),
        ([1, 2, 3], [1, 2, -np.inf], [2, 1], "spearman", r"labels\[2\] is -inf \(group 1\)"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_place_and_value(scores, labels, sizes, method, message):
    with pytest.raises(ValueError, match=message):
        correlate_groups(scores, labels, sizes, method=method)
