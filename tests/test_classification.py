"""Decisions against labels: hand arithmetic, scikit-learn's values, intervals, and what is undefined."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from nfqa.kernels.intervals import draw_counts, find_interval, find_share
from reproduction.studies.decisions import measure_classification

NAN = float("nan")
LABELS = [1, 1, 1, 0, 0, 0, 0, 1]
SCORES = [0.9, 0.8, 0.3, 0.6, 0.1, 0.2, 0.3, 0.7]  # TP 3, FN 1, FP 1, TN 3


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("accuracy", 6 / 8),
        ("agreement", 6 / 8),
        ("f1", 6 / 8),  # 2*3 / (2*3 + 1 + 1)
        ("mcc", 0.5),  # (3*3 - 1*1) / sqrt(4*4*4*4) = 8/16
        ("kappa", 0.5),  # (0.75 - 0.5) / (1 - 0.5)
        # pairs of 4 positives and 4 negatives: .9, .8, .7 win all 12; .3 wins against .1 and .2, ties .3, loses to .6
        ("auroc", (12 + 2 + 0.5) / 16),
    ],
)
def test_measures_by_hand(measure, expected):
    assert measure_classification(LABELS, SCORES, measure=measure, resamples=10).value == pytest.approx(expected)


CHECKS = {
    "accuracy": lambda y, p: metrics.accuracy_score(y, p >= 0.5),
    "f1": lambda y, p: metrics.f1_score(y, p >= 0.5),
    "mcc": lambda y, p: metrics.matthews_corrcoef(y, p >= 0.5),
    "kappa": lambda y, p: metrics.cohen_kappa_score(y, p >= 0.5),
    "auroc": metrics.roc_auc_score,
}


@pytest.mark.parametrize("measure", CHECKS)
def test_values_and_intervals_equal_scikit_learn(measure):
    """The value and each end of the interval equal scikit-learn's on the items as often as they are drawn."""
    generator = np.random.default_rng(1)
    truth, given = generator.integers(0, 2, 40), np.round(generator.random(40), 1)
    found = measure_classification(truth, given, measure=measure, resamples=20, seed=5)
    drawn = draw_counts(40, resamples=20, seed=5).astype(int)
    plain = [CHECKS[measure](np.repeat(truth, times), np.repeat(given, times)) for times in drawn]
    value = CHECKS[measure](truth, given)
    bootstrapped = find_interval(value, plain, units=40, n=40)
    expected = find_share(truth == (given >= 0.5)) if measure == "accuracy" else bootstrapped
    assert expected.value == value
    assert vars(found) == pytest.approx(vars(expected), abs=1e-12)


def test_items_of_a_group_are_drawn_together():
    # three groups right, three wrong, ten times each: as sure as of six items
    labels, scores, groups = [1] * 60, [1.0] * 30 + [0.0] * 30, np.repeat(list("abcdef"), 10)
    grouped = measure_classification(labels, scores, measure="accuracy", groups=groups)
    alone = measure_classification(labels, scores, measure="accuracy")
    assert (grouped.low, grouped.high, grouped.units) == pytest.approx((0.1876, 0.8124, 6), abs=1e-4)
    assert 0.3 < alone.low < alone.high < 0.7
