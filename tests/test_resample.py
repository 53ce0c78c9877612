"""Bootstrap intervals: by hand, against a plain loop over the same draws, and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.stats.proportion import proportion_confint

from nfqa.kernels import resample
from nfqa.kernels.resample import Interval, bootstrap_difference, bootstrap_mean, draw_counts, find_interval, find_share

NAN = float("nan")


def average_plainly(rows: list[list[float]]) -> float:
    """The mean over columns of each column's mean over the values present; columns without any are left out."""
    means = []
    for column in zip(*rows, strict=True):
        present = [value for value in column if not math.isnan(value)]
        if present:
            means.append(math.fsum(present) / len(present))
    return math.fsum(means) / len(means) if means else NAN


def resample_plainly(table: NDArray, resamples: int, seed: int) -> list[float]:
    """The plain twin of `_resample`: the same row numbers, then one loop a resample."""
    drawn = np.random.default_rng(seed).integers(len(table), size=(resamples, len(table)), dtype=np.int32)
    rows = table.tolist()
    return [average_plainly([rows[i] for i in draw]) for draw in drawn]


def make_table(rng: np.random.Generator, rows: int, columns: int, missing: float) -> NDArray:
    table = rng.normal(size=(rows, columns))
    table[rng.random(table.shape) < missing] = np.nan
    return table


def test_value_spread_and_counts_equal_hand_arithmetic():
    # column means: (1 + 3) / 2 = 2 and (2 + 4 + 9) / 3 = 5; value (2 + 5) / 2 = 3.5
    # spread: sqrt(((2 - 3.5)^2 + (5 - 3.5)^2) / 1) = sqrt(4.5)
    found = bootstrap_mean([[1, 2], [3, 4], [NAN, 9]], resamples=50)
    assert found.value == 3.5
    assert found.spread == pytest.approx(math.sqrt(4.5), abs=1e-15)
    assert (found.n, found.n_missing) == (5, 1)
    assert bootstrap_mean([0.25] * 7, resamples=100) == Interval(0.25, 0.25, 0.25, None, 7, 0)
    # a column without values is left out: means 2, none and 5
    found = bootstrap_mean([[1, NAN, 5], [3, NAN, 5]], resamples=50)
    assert (found.value, found.spread) == (3.5, pytest.approx(math.sqrt(4.5), abs=1e-15))


@given(st.lists(st.sampled_from([0.0, 1.0, NAN]), min_size=1, max_size=60))
def test_a_share_has_wilson_s_interval(values: list[float]) -> None:
    found, present = find_share(values), [v for v in values if v == v]
    assert (found.n, found.n_missing, found.spread) == (len(present), len(values) - len(present), None)
    if not present:
        assert all(math.isnan(v) for v in (found.value, found.low, found.high))
        return
    expected = proportion_confint(sum(present), len(present), alpha=0.05, method="wilson")
    assert found.value == pytest.approx(sum(present) / len(present))
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 12), columns=st.integers(1, 4), missing=st.sampled_from([0, 0.3, 0.8]), seed=st.integers(0, 99)
)
def test_the_fast_way_equals_a_plain_loop_over_the_same_draws(rows, columns, missing, seed):
    table = make_table(np.random.default_rng(seed), rows, columns, missing)
    plain = resample_plainly(table, 60, seed)
    columns_apart = resample._resample(table, 60, seed)
    over_columns = [np.nan if np.isnan(row).all() else np.nanmean(row) for row in columns_apart]
    np.testing.assert_allclose(over_columns, plain, rtol=0, atol=1e-12)
    found = bootstrap_mean(table, resamples=60, seed=seed)
    if not np.isnan(table).all() and not np.isnan(plain).all():
        assert found.value == pytest.approx(average_plainly(table.tolist()), abs=1e-12)
        assert found.low == pytest.approx(np.nanquantile(plain, 0.025), abs=1e-12)
        assert found.high == pytest.approx(np.nanquantile(plain, 0.975), abs=1e-12)
        assert found.n + found.n_missing == table.size


def test_drawing_in_blocks_gives_the_same_draws(monkeypatch):
    table = make_table(np.random.default_rng(3), 13, 2, 0.2)  # an odd number of 32-bit draws a row
    whole = resample._resample(table, 41, 5)
    monkeypatch.setattr(resample, "_COUNTS_AT_ONCE", 14)
    np.testing.assert_allclose(resample._resample(table, 41, 5), whole, rtol=0, atol=1e-14)


def test_nothing_present_gives_nan_and_counts_all_as_missing():
    for found in (
        bootstrap_mean([NAN, NAN], resamples=10),
        bootstrap_difference([NAN, NAN], [1, 2], resamples=10),
        bootstrap_difference([1, 2], [NAN, NAN], resamples=10),
    ):
        assert np.isnan([found.value, found.low, found.high]).all()
        assert (found.spread, found.n, found.n_missing) == (None, 0, 2)


def test_a_difference_is_paired():
    table = make_table(np.random.default_rng(7), 20, 3, 0.3)
    found = bootstrap_difference(table, table, resamples=200)
    assert (found.value, found.low, found.high, found.spread) == (0.0, 0.0, 0.0, 0.0)
    # 0.5 more on every row: the rows' own scatter (width about 1) cancels and no width is left
    base = np.random.default_rng(8).normal(size=40)
    found = bootstrap_difference(base + 0.5, base, resamples=500)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5), abs=1e-12)
    assert bootstrap_mean(base, resamples=500).high - bootstrap_mean(base, resamples=500).low > 0.4


def test_each_side_of_a_difference_keeps_its_own_missing_values():
    # mean of (1, 5) less mean of (4): 3 - 4 = -1; every row has a value on some side
    found = bootstrap_difference([1, 5, NAN], [4, NAN, NAN], resamples=100)
    assert found.value == -1.0
    assert (found.n, found.n_missing) == (2, 1)
    # a column that one side lacks counts on neither: 1 - 0
    found = bootstrap_difference([[1, 5]], [[0, NAN]], resamples=5)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("call", "arguments", "options", "facts"),
    [
        (bootstrap_mean, ([],), {}, r"values has shape \(0,\)"),
        (bootstrap_mean, ([[[1.0]]],), {}, r"values has shape \(1, 1, 1\)"),
        (bootstrap_mean, ([1.0, np.inf],), {}, "infinite"),
        (bootstrap_difference, ([1.0], [np.inf]), {}, "infinite"),
        (bootstrap_difference, ([1.0], [1.0]), {"resamples": 0}, "resamples is 0"),
        (bootstrap_difference, ([1, 2], [1, 2, 3]), {}, r"shape \(2, 1\), base \(3, 1\)"),
        (draw_counts, (0,), {"resamples": 5}, "rows is 0 and resamples is 5"),
        (find_share, ([0.5],), {}, "0, 1 or NaN"),
        (find_share, ([[0.0, 1.0]],), {}, "0, 1 or NaN"),
    ],
)
def test_bad_input_is_refused(call, arguments, options, facts):
    with pytest.raises(ValueError, match=facts):
        call(*arguments, **options)


def test_counts_of_resampled_rows_by_hand():
    counts = draw_counts(3, resamples=500, seed=1)
    assert counts.shape == (500, 3)
    assert set(counts.sum(1)) == {3}
    assert counts.mean() == 1
    # a row is missed with (2/3)^3 = 0.296; 1,500 places, so within 0.05
    assert abs((counts == 0).mean() - (2 / 3) ** 3) < 0.05
    np.testing.assert_array_equal(counts, draw_counts(3, resamples=500, seed=1))
    first = np.random.default_rng(1).integers(3, size=(500, 3))[0]
    assert counts[0].tolist() == [list(first).count(row) for row in range(3)]


def test_an_interval_of_drawn_values_leaves_out_what_is_missing():
    found = find_interval(0.5, [*np.linspace(0, 1, 101), np.nan], n=7, n_missing=2)
    assert (found.value, found.low, found.high) == (0.5, pytest.approx(0.025), pytest.approx(0.975))
    assert (found.n, found.n_missing, found.spread) == (7, 2, None)
    assert np.isnan(find_interval(0.5, [np.nan], n=1).low)
    assert np.isnan(find_interval(float("nan"), [1.0, 2.0], n=1).high)
