"""Agreement among raters against hand arithmetic and the worked examples of the literature."""

from __future__ import annotations

import numpy as np
import pytest

from nfqa.kernels.agreement import average_others, measure_fleiss_kappa, measure_krippendorff_alpha

NAN = float("nan")
# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section D: four observers, twelve units
WORKED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]


def test_fleiss_kappa():
    # three raters, three items: 111, 110, 000. P = (1 + 1/3 + 1) / 3 = 7/9; shares 5/9, 4/9: E = 41/81
    # kappa = (63/81 - 41/81) / (40/81) = 22/40
    assert measure_fleiss_kappa([[1, 1, 1], [1, 0, 1], [0, 0, 0]]) == pytest.approx(0.55, abs=1e-12)
    assert np.isnan(measure_fleiss_kappa([[1, 1], [1, 1]]))


def test_alpha_of_the_published_example():
    assert measure_krippendorff_alpha(WORKED) == pytest.approx(0.815, abs=5e-4)


def test_alpha_without_items_that_two_rated_or_without_variation():
    alone = [[*row, 1 if i == 0 else NAN] for i, row in enumerate(WORKED)]
    assert measure_krippendorff_alpha(alone) == pytest.approx(measure_krippendorff_alpha(WORKED), abs=1e-12)
    assert np.isnan(measure_krippendorff_alpha([[3, 3], [3, 3]]))
    assert np.isnan(measure_krippendorff_alpha([[1, NAN], [NAN, 2]]))


def test_mean_of_the_others():
    table = [[1, 5, NAN], [3, 3, 2], [5, NAN, NAN]]
    # item 0: (3+5)/2, (1+5)/2, (1+3)/2; item 1: 3, 5, 4 (both others); item 2: 2 for others, none for rater 1
    np.testing.assert_allclose(average_others(table), [[4, 3, 2], [3, 5, NAN], [2, 4, 2]])
