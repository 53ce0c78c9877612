"""Intervals of an average over questions: bootstrap, and Wilson's of a share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95  # of every interval
_COUNTS_AT_ONCE = 20_000_000  # resamples are drawn in blocks: at most this many random indices in memory


@dataclass(frozen=True)
class Interval:
    """An average with its percentile bootstrap interval. `spread` is the standard deviation over columns (seeds)."""

    value: float
    low: float
    high: float
    spread: float | None
    n: int
    n_missing: int


def bootstrap_mean(values: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Average `values`, resampling whole rows (questions) for the interval.

    The statistic is the mean over columns c of sum_q w_q v_qc / sum_q w_q d_qc, with w_q how often row q was
    drawn, d_qc 1 where v_qc is present and 0 where it is NaN. One column is one draw of references; a row brings
    all its columns along, so that the interval is about new questions and not about new draws.

    Args: values: [Q] or [Q, S], NaN for missing; resamples: how many; seed: of the draws.
    Returns: value, the 2.5 % and 97.5 % quantiles, and the standard deviation (n - 1) of the S column means (None for
        S = 1). `n` counts the values present, `n_missing` the NaN. In units of `values`.
        With no value present every figure is NaN.
    Raises: ValueError for infinite values, no rows, or resamples < 1.
    Source: Efron and Tibshirani (1993), chapter 13.
    Differs from: scipy.stats.bootstrap(method="percentile"), which has no missing values and no columns.
    """
    v = _read_table(values, resamples)
    n = int((~np.isnan(v)).sum())
    return _average_draws(_average(v, 0), _resample(v, resamples, seed), n, v.size - n)


def find_share(values: ArrayLike) -> Interval:
    """A share of questions with Wilson's score interval, which has a width where all values are equal.

    Args: values: [Q], each 0 or 1, NaN for missing.
    Returns: in [0, 1], without a spread. With no value present every figure is NaN.
    Raises: ValueError for another value or another shape.
    Source: Wilson (1927), Journal of the American Statistical Association 22, by scipy.
    """
    v = np.asarray(values, dtype=np.float64)
    present = v[~np.isnan(v)]
    if v.ndim != 1 or not np.isin(present, (0.0, 1.0)).all():
        raise ValueError(f"values are of shape {v.shape}; expected one row of 0, 1 or NaN")
    if not len(present):
        return Interval(np.nan, np.nan, np.nan, None, 0, v.size)
    from scipy.stats import binomtest

    found = binomtest(int(present.sum()), len(present)).proportion_ci(CONFIDENCE, method="wilson")
    low, high = float(found.low), float(found.high)
    return Interval(float(present.mean()), low, high, None, len(present), v.size - len(present))


def bootstrap_difference(values: ArrayLike, base: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """The average of `values` less that of `base`, both as in `bootstrap_mean`, under the same resampled rows.

    Each side keeps its own missing values, so that a change of what counts as missing shows too. A column without any
    value on one side is left out on both; without a column left every figure is NaN.

    Args: values, base: [Q] or [Q, S], equal in shape. Returns, Raises: as `bootstrap_mean`; `n` counts the entries
        present on either side, `spread` is over the differences of column means.
    Source: paired bootstrap, Efron and Tibshirani (1993).
    """
    a, b = _read_table(values, resamples), _read_table(base, resamples)
    if a.shape != b.shape:
        raise ValueError(f"values has shape {a.shape}, base {b.shape}; the two sides must share questions and seeds")
    size = a.size
    shared = ~np.isnan(a).all(0) & ~np.isnan(b).all(0)
    a, b = a[:, shared], b[:, shared]
    n = int((~np.isnan(a) | ~np.isnan(b)).sum())
    draws = _resample(a, resamples, seed) - _resample(b, resamples, seed)
    return _average_draws(_average(a, 0) - _average(b, 0), draws, n, size - n)


def draw_counts(rows: int, *, resamples: int, seed: int = 0) -> NDArray[np.float64]:
    """How often each row is drawn in each resample, [resamples, rows]; every resample draws `rows` with replacement.

    For statistics that are no plain average: weight each row by its count and compute the statistic anew.
    Raises: ValueError for no rows or resamples.
    """
    if rows < 1 or resamples < 1:
        raise ValueError(f"rows is {rows} and resamples is {resamples}; expected 1 or more of both")
    return _count(np.random.default_rng(seed), resamples, rows, np.int64)


def find_interval(value: float, draws: ArrayLike, *, n: int, n_missing: int = 0) -> Interval:
    """A value with the percentile interval of its resampled values; NaN among these are left out."""
    kept = np.asarray(draws, dtype=np.float64)
    kept = kept[~np.isnan(kept)]
    if np.isnan(value) or not len(kept):
        return Interval(float(value), np.nan, np.nan, None, n, n_missing)
    low, high = np.quantile(kept, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(value), float(low), float(high), None, n, n_missing)


def _read_table(values: ArrayLike, resamples: int) -> NDArray[np.float64]:
    v = np.asarray(values, dtype=np.float64)
    v = v[:, None] if v.ndim == 1 else v
    if v.ndim != 2 or not v.size:
        raise ValueError(f"values has shape {np.shape(values)}; expected [questions] or [questions, seeds], not empty")
    if np.isinf(v).any():
        raise ValueError("values holds an infinite number; only finite numbers and NaN (missing) can be averaged")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; expected 1 or more")
    return v


def _average(table: NDArray, axis: int) -> NDArray[np.float64]:
    """The mean over the values present; NaN without any. (numpy.nanmean does the same, with a warning.)"""
    present = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return np.where(present, table, 0.0).sum(axis) / present.sum(axis)


def _average_draws(means: NDArray, draws: NDArray, n: int, n_missing: int) -> Interval:
    """The mean over columns [S], with its interval from the columns' resampled means [resamples, S]."""
    means = means[~np.isnan(means)]
    value = float(means.mean()) if len(means) else np.nan
    found = find_interval(value, _average(draws, 1), n=n, n_missing=n_missing)
    return replace(found, spread=float(np.std(means, ddof=1)) if len(means) > 1 else None)


def _resample(table: NDArray, resamples: int, seed: int) -> NDArray[np.float64]:
    """Each column's average in each resample, [resamples, S]. Rows are drawn as counts: one matrix product a block."""
    d = (~np.isnan(table)).astype(np.float64)
    v = np.where(d > 0, table, 0.0)
    generator = np.random.default_rng(seed)
    block = max(1, _COUNTS_AT_ONCE // len(v))
    parts = []
    for start in range(0, resamples, block):
        counts = _count(generator, min(block, resamples - start), len(v), np.int32)
        with np.errstate(invalid="ignore"):  # a resample can miss every present row of a column: NaN, left out
            parts.append((counts @ v) / (counts @ d))
    return np.concatenate(parts)


def _count(generator: np.random.Generator, resamples: int, rows: int, dtype: Any) -> NDArray[np.float64]:
    """How often each row is drawn, [resamples, rows]. The integers' size decides which numbers are drawn."""
    drawn = generator.integers(rows, size=(resamples, rows), dtype=dtype)
    drawn += rows * np.arange(resamples, dtype=dtype)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * rows).reshape(resamples, rows).astype(np.float64)
