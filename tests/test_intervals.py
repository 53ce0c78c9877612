"""Intervals: by hand, against scipy and statsmodels, and how often they hold the true value."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import proportion_confint

from nfqa.kernels.intervals import (
    Interval,
    draw_counts,
    estimate_difference,
    estimate_jackknife,
    estimate_mean,
    estimate_pairs,
    estimate_ratio,
    find_interval,
    find_share,
)

NAN = float("nan")


def make_table(rng: np.random.Generator, rows: int, columns: int, missing: float) -> NDArray:
    table = rng.normal(size=(rows, columns))
    table[rng.random(table.shape) < missing] = np.nan
    return table


def test_value_spread_and_counts_equal_hand_arithmetic():
    # column means: (1 + 3) / 2 = 2 and (2 + 4 + 9) / 3 = 5; value (2 + 5) / 2 = 3.5
    # spread: sqrt(((2 - 3.5)^2 + (5 - 3.5)^2) / 1) = sqrt(4.5); a column without values is left out
    mean = estimate_mean([[1, 2, NAN], [3, 4, NAN], [NAN, 9, NAN]])
    assert (mean.value, mean.spread) == (3.5, pytest.approx(math.sqrt(4.5), abs=1e-15))
    assert (mean.n, mean.units) == (5, 3)
    assert np.isnan([mean.low, mean.high]).all()  # of three rows there is no interval
    mean = estimate_mean([0.1] * 7)  # alike: no sign of how far off
    assert np.isnan([mean.low, mean.high]).all()
    assert replace(mean, low=0, high=0) == Interval(pytest.approx(0.1), 0, 0, None, 7, 0, 7)
    for none in (estimate_mean([NAN, NAN]), estimate_difference([NAN, NAN], [1, 2])):
        assert np.isnan([none.value, none.low, none.high]).all()
        assert (none.spread, none.n, none.n_missing) == (None, 0, 2)


def test_missing_values_give_the_interval_of_a_linear_model_with_clustered_errors():
    # the value is the mean of the columns' means: a linear combination of the coefficients of a model without intercept
    table = make_table(np.random.default_rng(4), 15, 3, 0.25)
    rows, columns = np.nonzero(~np.isnan(table))
    fit = OLS(table[rows, columns], np.eye(3)[columns]).fit(
        cov_type="cluster", cov_kwds={"groups": rows, "use_correction": False}, use_t=True
    )
    error = math.sqrt((fit.cov_params() / 9).sum() * 15 / 14)
    result = estimate_mean(table)
    assert result.value == pytest.approx(fit.params.mean(), abs=1e-12)
    assert (result.high - result.low) / 2 == pytest.approx(stats.t.ppf(0.975, 14) * error, abs=1e-12)


def test_a_ratio_and_a_mean_of_pairs_by_hand():
    result = estimate_ratio([1, 2, 0, 1, 3, 0, 1], [2, 4, 0, 1, 5, 3, 2])
    assert (result.value, result.n, result.units) == (pytest.approx(8 / 17), 17, 6)
    moved = np.array([1 - 16 / 17, 2 - 32 / 17, 1 - 8 / 17, 3 - 40 / 17, -24 / 17, 1 - 16 / 17]) / 17
    half = stats.t.ppf(0.975, 5) * math.sqrt(6 / 5 * (moved**2).sum())
    assert (result.low, result.high) == pytest.approx((8 / 17 - half, 8 / 17 + half), abs=1e-12)
    # pairs whose value is the sum of two units' own: the mean of pairs is twice that of the units, as is its error
    units = np.random.default_rng(2).normal(size=7)
    first, second = np.triu_indices(7, 1)
    result = estimate_pairs(units[first] + units[second], first, second)
    expected = stats.ttest_1samp(2 * units, 0).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (result.n, result.units) == (21, 7)


def test_a_rare_share_of_items_has_wilson_s_interval_over_its_units():
    # 2 of 40 items, in 2 of 10 units: p = 0.05 and n = 10, z²/n = 0.38415
    result = estimate_ratio([1, 1] + [0] * 8, [4] * 10)
    centre, half = (0.05 + 0.192073) / 1.384146, (0.38415 * 0.05 * 0.95 + 0.38415**2 / 4) ** 0.5 / 1.384146
    assert (result.value, result.low, result.high) == pytest.approx((0.05, centre - half, centre + half), abs=1e-5)
    none = estimate_ratio([0] * 10, [4] * 10)
    assert (none.low, none.high) == (0.0, pytest.approx(1.96**2 / (10 + 1.96**2), abs=1e-4))
    # units that weigh 3, 1 and 1 count as 25 / 11; of those that are 1 the first weighs 3 / 5
    assert find_share([1, 0, 0], [3, 1, 1]).value == 0.6
    assert find_share([0, 0, 0], [3, 1, 1]).high == pytest.approx(1.96**2 / (25 / 11 + 1.96**2), abs=1e-4)


def test_units_of_two_kinds_are_crossed_in_a_ratio_and_in_a_jackknife():
    rng = np.random.default_rng(5)
    one, other, yes = rng.integers(0, 8, 90), rng.integers(0, 12, 90), rng.integers(0, 2, 90)
    result = estimate_ratio(yes, np.ones(90), one, other)
    both = one * 100 + other
    sums = [
        np.array([(yes - yes.mean())[ids == unit].sum() / 90 for unit in np.unique(ids)]) for ids in (one, other, both)
    ]
    parts = [len(part) / (len(part) - 1) * (part**2).sum() for part in sums[:2]]
    variance = max(sum(parts) - (sums[2] ** 2).sum(), *parts)
    half = stats.t.ppf(0.975, variance**2 / (parts[0] ** 2 / 7 + parts[1] ** 2 / 11)) * math.sqrt(variance)
    assert (result.value, result.high, result.units) == (yes.mean(), pytest.approx(yes.mean() + half, abs=1e-12), 8)
    # of a mean of units that are alike in size a jackknife is the same as its formula
    values = rng.normal(size=9)
    left = [np.delete(values, unit).mean() for unit in range(9)]
    expected, result = estimate_mean(values), estimate_jackknife(values.mean(), left, n=9)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    crossed = estimate_jackknife(values.mean(), left, left, left, n=9)  # the same units in both kinds
    assert result.high < crossed.high < result.high + 0.2 * (result.high - result.value)  # not counted twice


COVERED = 0.93, 0.97


def draw_agreement(rng: np.random.Generator, rows: int) -> NDArray:
    """Correlations inside questions, under three draws of references: bounded, discrete, alike within a question."""
    return 2 * rng.binomial(28, rng.beta(4, 2, size=(rows, 1)), size=(rows, 3)) / 28 - 1


def draw_trained(rng: np.random.Generator, rows: int) -> NDArray:
    """Questions crossed with ten draws of training questions, each of which moves all questions alike."""
    return rng.normal(0, 0.4, (rows, 1)) + rng.normal(0, 0.15, (1, 10)) + rng.normal(0, 0.2, (rows, 10))


@pytest.mark.parametrize("rows", [20, 60])
@pytest.mark.parametrize(("draw", "crossed", "mean"), [(draw_agreement, False, 1 / 3), (draw_trained, True, 0.0)])
def test_an_interval_of_a_mean_holds_it_in_95_of_100_samples(draw, crossed, mean, rows):
    rng = np.random.default_rng(0)
    result = [estimate_mean(draw(rng, rows), crossed=crossed) for _ in range(2_000)]
    assert COVERED[0] <= np.mean([one.low <= mean <= one.high for one in result]) <= COVERED[1]


def draw_ratio(rng: np.random.Generator) -> tuple[Interval, float]:
    sizes = rng.integers(0, 9, 60)
    return estimate_ratio(rng.binomial(sizes, rng.beta(2, 6, 60)), sizes), 0.25


def draw_crossed(rng: np.random.Generator) -> tuple[Interval, float]:
    expert, page = rng.integers(0, 60, 300), rng.integers(0, 100, 300)  # both of whom move a rating
    rated = rng.normal(0, 0.5, 60)[expert] + rng.normal(0, 0.5, 100)[page] + rng.normal(0, 0.7, 300) > 0
    return estimate_ratio(rated, np.ones(300), expert, page), 0.5


def draw_correlation(rng: np.random.Generator) -> tuple[Interval, float]:
    """A statistic that is no mean, by a bootstrap: Pearson's correlation over 25 rows."""
    x = rng.normal(size=(25, 2)) @ np.linalg.cholesky([[1, 0.5], [0.5, 1]]).T
    w = np.vstack([np.ones(25), draw_counts(25, resamples=400, seed=int(rng.integers(1 << 30)))]) / 25
    mean, square, product = w @ x, w @ x**2, w @ x.prod(1)
    r = (product - mean.prod(1)) / np.sqrt((square - mean**2).prod(1))
    return find_interval(r[0], r[1:], units=25, n=25), 0.5


@pytest.mark.parametrize("draw", [draw_ratio, draw_crossed, draw_correlation])
def test_other_intervals_hold_their_value_in_95_of_100_samples(draw):
    rng = np.random.default_rng(0)
    samples = [draw(rng) for _ in range(1_000)]
    assert COVERED[0] <= np.mean([one.low <= value <= one.high for one, value in samples]) <= COVERED[1]


@given(st.lists(st.sampled_from([0.0, 1.0, NAN]), min_size=1, max_size=60))
def test_a_share_has_wilson_s_interval(values: list[float]) -> None:
    result, present = find_share(values), [v for v in values if v == v]
    assert (result.n, result.n_missing, result.spread) == (len(present), len(values) - len(present), None)
    if not present:
        assert all(math.isnan(v) for v in (result.value, result.low, result.high))
        return
    expected = proportion_confint(sum(present), len(present), alpha=0.05, method="wilson")
    assert result.value == pytest.approx(sum(present) / len(present))
    assert (result.low, result.high) == pytest.approx(expected, abs=1e-12)


def test_a_difference_is_paired():
    table = make_table(np.random.default_rng(7), 20, 3, 0.3)
    result = estimate_difference(table, table)
    assert (result.value, result.low, result.high, result.spread) == pytest.approx((0, NAN, NAN, 0), nan_ok=True)
    # about 0.5 more on every row: the rows' own scatter (width about 1) cancels
    base, more = np.random.default_rng(8).normal(size=(2, 40))
    result = estimate_difference(base + 0.5 + more / 1000, base)
    assert (result.value, result.low, result.high) == pytest.approx((0.5, 0.5, 0.5), abs=1e-3)
    assert result.low < result.high
    assert estimate_mean(base).high - estimate_mean(base).low > 0.4


def test_each_side_of_a_difference_keeps_its_own_missing_values():
    # mean of (1, 5) less mean of (4): 3 - 4 = -1; every row has a value on some side
    result = estimate_difference([1, 5, NAN], [4, NAN, NAN])
    assert result.value == -1.0
    assert (result.n, result.n_missing) == (2, 1)
    # a column that one side lacks counts on neither: 1 - 0
    result = estimate_difference([[1, 5]], [[0, NAN]])
    assert result.value == 1.0


@pytest.mark.parametrize(
    ("call", "arguments", "options", "facts"),
    [
        (estimate_mean, ([],), {}, r"values has shape \(0,\)"),
        (estimate_mean, ([1.0, np.inf],), {}, "infinite"),
        (estimate_difference, ([1, 2], [1, 2, 3]), {}, r"shape \(2, 1\), base \(3, 1\)"),
        (draw_counts, (0,), {"resamples": 5}, "rows is 0 and resamples is 5"),
        (find_share, ([1.5],), {}, "from 0 to 1"),
    ],
)
def test_bad_input_is_refused(call, arguments, options, facts):
    with pytest.raises(ValueError, match=facts):
        call(*arguments, **options)


def test_an_interval_of_drawn_values_leaves_out_what_is_missing():
    interval = find_interval(0.5, [*np.linspace(0, 1, 101), np.nan], units=10**9, n=7, n_missing=2)
    assert interval == Interval(0.5, pytest.approx(0.025), pytest.approx(0.975), None, 7, 2, 10**9)
    # of ten units the quantile is Phi(-sqrt(10 / 9) * 2.262) = Phi(-2.385)
    assert find_interval(0.5, np.linspace(0, 1, 101), units=10, n=7).low == pytest.approx(0.00855, abs=1e-4)
    assert np.isnan(find_interval(0.5, [0.4, 0.6], units=4, n=1).low)
    assert np.isnan(find_interval(0.5, [0.4] + [0.5] * 999, units=50, n=1).low)  # both ends the same
