"""How well yes-or-no decisions agree with labels: accuracy, F1, AUROC, MCC and Cohen's kappa, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nfqa.kernels.resample import Interval

Measure = Literal["accuracy", "f1", "auroc", "mcc", "kappa", "agreement"]
MEASURES: tuple[Measure, ...] = ("accuracy", "f1", "auroc", "mcc")  # those of DebateQA's Table 3


def measure_classification(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    measure: Measure,
    threshold: float = 0.5,
    groups: Sequence[object] | None = None,
    resamples: int = 1_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """One measure of decisions against labels, with a percentile bootstrap interval over items or groups of them.

    accuracy: share of items decided as labelled (agreement is the same, said of two deciders). f1: 2 TP / (2 TP + FP +
    FN). mcc: Matthews' (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)). kappa: Cohen's (p_o - p_e) / (1 -
    p_e). auroc: P(score of a positive > score of a negative) + half of that of a tie.

    Args: labels: [n], 0 or 1; scores: [n], in [0, 1], NaN where there is no verdict; decisions are scores of 0 or 1;
        threshold: from which on a score counts as 1; groups: [n], items of one group are drawn together.
    Returns: value and interval over the items with a verdict, `n_missing` without. NaN where the measure is undefined:
        no positive at all for f1, a decider or a labeller that says one thing only for mcc, both saying the same one
        thing for kappa, one label only for auroc. Resamples where it is undefined are left out of the interval.
    Raises: ValueError for unequal lengths, no items, labels other than 0 and 1, scores outside [0, 1], or an unknown
        measure.
    Source: scikit-learn's accuracy_score, f1_score, roc_auc_score, matthews_corrcoef and cohen_kappa_score give the
        value; the interval's resamples come from counts by the same formulas. Differs from: scikit-learn, in that an
        undefined F1 or MCC is NaN and not 0.
    """
    if measure not in get_args(Measure):
        raise ValueError(f"measure is {measure!r}; expected one of {', '.join(get_args(Measure))}")
    truth, given = np.asarray(labels, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if truth.ndim != 1 or truth.shape != given.shape or not len(truth):
        raise ValueError(f"labels has shape {truth.shape}, scores {given.shape}; expected two equal rows, not empty")
    if groups is not None and len(groups) != len(truth):
        raise ValueError(f"{len(groups)} groups for {len(truth)} items; expected one each")
    if not np.isin(truth, (0.0, 1.0)).all():
        raise ValueError(f"labels hold {truth[~np.isin(truth, (0.0, 1.0))][0]}; expected 0 and 1 alone")
    if (bad := (given < 0) | (given > 1)).any():
        raise ValueError(f"scores hold {given[bad][0]}; expected numbers from 0 to 1, or NaN for no verdict")
    known = ~np.isnan(given)
    missing = int((~known).sum())
    if not known.any():
        return Interval(np.nan, np.nan, np.nan, None, 0, missing)
    truth, given = truth[known], given[known]
    _, place = np.unique([str(group) for group in groups] if groups else np.arange(len(known)), return_inverse=True)
    value = _compute(truth, given, measure, threshold)
    weights = _draw_weights(place[known], resamples, seed)
    draws = _RESAMPLED.get(measure, _count_measure(measure))(truth, given, threshold, weights)
    draws = draws[np.isfinite(draws)]
    if np.isnan(value) or not len(draws):
        return Interval(value, np.nan, np.nan, None, len(truth), missing)
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value, float(low), float(high), None, len(truth), missing)


def _compute(truth: NDArray, given: NDArray, measure: Measure, threshold: float) -> float:
    from sklearn import metrics

    decided = (given >= threshold).astype(np.float64)
    one_thing = [len(np.unique(side)) == 1 for side in (truth, decided)]
    if measure in ("accuracy", "agreement"):
        return float(metrics.accuracy_score(truth, decided))
    if measure == "f1":
        return float(metrics.f1_score(truth, decided)) if truth.any() or decided.any() else float("nan")
    if measure == "mcc":
        return float("nan") if any(one_thing) else float(metrics.matthews_corrcoef(truth, decided))
    if measure == "kappa":
        same = all(one_thing) and truth[0] == decided[0]
        return float("nan") if same else float(metrics.cohen_kappa_score(truth, decided))
    return float("nan") if one_thing[0] else float(metrics.roc_auc_score(truth, given))


def _draw_weights(place: NDArray, resamples: int, seed: int) -> NDArray[np.float64]:
    """How often each item stands in each resample of whole groups, [resamples, n]."""
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; expected 1 or more")
    present, inside = np.unique(place, return_inverse=True)
    size = len(present)
    drawn = np.random.default_rng(seed).integers(size, size=(resamples, size))
    drawn += size * np.arange(resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=resamples * size).reshape(resamples, size)
    return counts[:, inside].astype(np.float64)


def _count_measure(measure: Measure) -> Callable[[NDArray, NDArray, float, NDArray], NDArray[np.float64]]:
    """The measure of each resample from its four counts."""

    def compute(truth: NDArray, given: NDArray, threshold: float, weights: NDArray) -> NDArray[np.float64]:
        decided = given >= threshold
        tp, fp, fn, tn = (
            weights @ ((truth == label) & (decided == choice)).astype(np.float64)
            for label, choice in ((1, True), (0, True), (1, False), (0, False))
        )
        total = tp + fp + fn + tn
        with np.errstate(invalid="ignore", divide="ignore"):
            if measure == "f1":
                return np.asarray(2 * tp / (2 * tp + fp + fn))
            if measure == "mcc":
                return np.asarray((tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
            if measure == "kappa":
                expected = ((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn)) / total**2
                return np.asarray(((tp + tn) / total - expected) / (1 - expected))
            return np.asarray((tp + tn) / total)

    return compute


def _resample_auroc(truth: NDArray, given: NDArray, _: float, weights: NDArray) -> NDArray[np.float64]:
    positive, negative = truth == 1, truth == 0
    gap = given[positive][:, None] - given[negative][None, :]
    wins = (gap > 0) + 0.5 * (gap == 0)  # [positives, negatives]
    first, second = weights[:, positive], weights[:, negative]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(((first @ wins) * second).sum(1) / (first.sum(1) * second.sum(1)))


_RESAMPLED = {"auroc": _resample_auroc}
