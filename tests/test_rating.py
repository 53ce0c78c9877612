"""Elo and Bradley-Terry against hand arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction.studies.people import rate_bradley_terry, rate_elo

SYSTEMS = pd.RangeIndex(5)


def make_preferences(left, right, outcomes):
    return pd.DataFrame({"left": left, "right": right, "outcome": outcomes}).astype({"outcome": float})


def test_elo_by_hand():
    # 0 beats 1: 1002, 998; then a tie: e = 1 / (1 + 10^(-4/400)) = 0.505756, 0 loses 4 (e - 1/2) = 0.023025
    ratings = rate_elo(make_preferences([0, 0], [1, 1], [1, 0.5]), SYSTEMS[:3], orders=0)
    assert ratings == pytest.approx([1002 - 0.023025, 998 + 0.023025, 1000], abs=1e-6)  # 2 is in no comparison
    # 0 beats 1: 1002, 998; then 1 beats 2: e = 1 / (1 + 10^(2/400)) = 0.497122, gain 4 * 0.502878 = 2.011513
    ratings = rate_elo(make_preferences([0, 1], [1, 2], [1, 1]), SYSTEMS[:3], orders=0)
    assert ratings == pytest.approx([1002, 998 + 2.011513, 1000 - 2.011513], abs=1e-6)


def test_bradley_terry_of_two_is_the_log_of_their_odds():
    # 0 wins twice, loses once, one tie: 2.5 to 1.5, so b_0 - b_1 = ln(5/3); mean 0
    found = rate_bradley_terry(make_preferences([0] * 4, [1] * 4, [1, 1, 0, 0.5]), SYSTEMS[:2], prior=0)
    assert found == pytest.approx([math.log(5 / 3) / 2, -math.log(5 / 3) / 2], abs=1e-7)


def test_the_prior_adds_ties_and_keeps_a_winner_finite():
    # one win and a prior of 1 tie: 1.5 to 0.5, ln 3
    found = rate_bradley_terry(make_preferences([0], [1], [1]), SYSTEMS[:2], prior=1)
    assert found[0] - found[1] == pytest.approx(math.log(3), abs=1e-7)
    chain = rate_bradley_terry(make_preferences([0, 0, 1], [1, 2, 2], [1, 1, 1]), SYSTEMS[:3])
    assert chain[0] > chain[1] > chain[2]
    assert np.isfinite(chain).all()


def test_bradley_terry_solves_its_likelihood_equations():
    # at the maximum, each system's wins equal its expected wins
    rng = np.random.default_rng(1)
    left, right = rng.integers(4, size=200), rng.integers(4, size=200)
    kept = left != right
    made = make_preferences(left[kept], right[kept], rng.choice([0, 0.5, 1], kept.sum()))
    b = rate_bradley_terry(made, SYSTEMS[:4], prior=0)
    expected = 1 / (1 + np.exp(b[made.right] - b[made.left]))
    for system in range(4):
        wins = made.outcome[made.left == system].sum() + (1 - made.outcome)[made.right == system].sum()
        hits = expected[made.left == system].sum() + (1 - expected)[made.right == system].sum()
        assert wins == pytest.approx(hits, abs=1e-6)


def test_a_weight_counts_as_so_many_comparisons():
    once = make_preferences([0, 1, 2], [1, 2, 0], [1, 0.5, 1])
    twice = make_preferences([0, 0, 1, 2], [1, 1, 2, 0], [1, 1, 0.5, 1])
    weighted = rate_bradley_terry(once, SYSTEMS[:3], weights=np.array([2.0, 1, 1]))
    assert weighted == pytest.approx(rate_bradley_terry(twice, SYSTEMS[:3]), abs=1e-12)


@given(st.lists(st.integers(1, 5), min_size=5, max_size=5), st.integers(0, 9))
def test_on_one_round_of_all_pairs_bradley_terry_ranks_by_ratings_and_keeps_ties(ratings, seed):
    left, right = np.triu_indices(5, 1)
    outcomes = [(np.sign(ratings[a] - ratings[b]) + 1) / 2 for a, b in zip(left, right, strict=True)]
    preferences = make_preferences(left, right, outcomes)
    found = rate_bradley_terry(preferences.iloc[np.random.default_rng(seed).permutation(10)], SYSTEMS)
    np.testing.assert_array_equal(
        np.sign(np.subtract.outer(found, found)), np.sign(np.subtract.outer(ratings, ratings))
    )
