"""What rounded numbers still tell: hand arithmetic and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction.studies.rounding import bound_deviation, can_be_equal


def test_numbers_are_equal_at_the_coarser_precision() -> None:
    # 0.22 stands for 0.215 to 0.225: 0.2202 and 0.225 are inside, 0.2251 isn't
    assert can_be_equal([0.2202, 0.225, 0.2251], 0.22, 2).tolist() == [True, True, False]
    assert can_be_equal([0.2202, 0.2202], [0.2202, 0.2203], [4, 4]).tolist() == [True, False]


def test_bounds_of_a_deviation_by_hand() -> None:
    # 1, 2, 4: mean 7/3, squares (16 + 1 + 25)/9 = 14/3; over 2: 7/3, over 3: 14/9
    assert bound_deviation([1, 2, 4], 0.0) == pytest.approx((math.sqrt(7 / 3),) * 3)
    assert bound_deviation([1, 2, 4], 0.0, ddof=0) == pytest.approx((math.sqrt(14 / 9),) * 3)
    # two numbers d apart deviate by d / sqrt(2); within 0.5 of 1 and 4, d is 2 to 4
    assert bound_deviation([1, 4], 0.5) == pytest.approx((3 / math.sqrt(2), 2 / math.sqrt(2), 4 / math.sqrt(2)))
    # 1, 2, 4 each within 0.5: nearest to each other are 1.5, 2.5, 3.5, squares 1 + 0 + 1 over 2 = 1; the farthest are
    # 0.5, 1.5, 4.5: mean 13/6, squares (100 + 16 + 196)/36 = 26/3 over 2 = 13/3
    assert bound_deviation([1, 2, 4], 0.5)[1:] == pytest.approx((1.0, math.sqrt(13 / 3)))
    assert bound_deviation([1, 1.5, 1.9], 0.5)[1] == pytest.approx(0.0)  # intervals that overlap can hold equal numbers


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5), st.floats(0, 0.1), st.integers(0, 10_000))
def test_numbers_inside_the_box_deviate_inside_the_bounds(values: list[float], half: float, seed: int) -> None:
    shifted = np.array(values) + np.random.default_rng(seed).uniform(-half, half, len(values))
    deviation, low, high = bound_deviation(values, half)
    assert low - 1e-9 <= deviation <= high + 1e-9
    assert low - 1e-9 <= shifted.std(ddof=1) <= high + 1e-9
