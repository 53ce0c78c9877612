"""People's ratings by hand: comparisons, Elo and Bradley-Terry, groups of raters, agreement, averages by rater."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfqa.metrics.statistics import average
from reproduction.studies.people import (
    compare_answers,
    correlate_halves,
    group_raters,
    measure_kappa,
    measure_krippendorff_alpha,
    rank_systems,
    rate_bradley_terry,
    rate_elo,
)

NAN = float("nan")
# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section D: four observers, twelve units
WORKED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]


def make_ratings(*questions: dict[str, list[float]]) -> pd.DataFrame:
    """Ratings of the systems a, b, c by named raters, question by question; NaN is an answer that was not rated."""
    rows = [
        {"dataset": "made_up", "question": str(q), "rater": rater, "system": system, "rating": rating}
        for q, options in enumerate(questions) for rater, row in options.items()
        for system, rating in zip("abc", row, strict=True) if not np.isnan(rating)
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["dataset", "question", "rater", "system", "rating"])
    return frame.assign(rater=frame.rater.astype("category").cat.codes.astype(int))


def test_every_two_answers_of_a_rater_are_compared():
    result = compare_answers(make_ratings({"x": [5, 3, 3], "y": [NAN, 3, 5]}))
    assert result[["rater", "left", "right", "outcome"]].to_numpy().tolist() == [
        [0, "a", "b", 1], [0, "a", "c", 1], [0, "b", "c", 0.5], [1, "b", "c", 0],
    ]  # fmt: skip
    assert set(result.dataset) == {"made_up"}
    with pytest.raises(ValueError, match="no ratings by people"):
        compare_answers(make_ratings())


def test_bradley_terry_of_a_rater_by_hand():
    # a is preferred to b; with 0.1 ties between all pairs of a, b, c a has 1.05 + 0.05 wins, and with strengths p, 1/p
    # and 1 it is expected to have 1.1 p / (p + 1/p) + 0.1 p / (p + 1): p = 3.612 solves it
    comparisons = compare_answers(make_ratings({"x": [5, 3, NAN]}, {"y": [NAN, 3, 3]}))
    ranked = rank_systems(comparisons, "bradley_terry", by=["rater"])
    result = ranked.pivot(index="rater", columns="system", values="strength").loc[0]
    p = np.exp((result.a - result.b) / 2)
    assert p == pytest.approx(3.612, abs=1e-3)
    assert 1.1 * p / (p + 1 / p) + 0.1 * p / (p + 1) == pytest.approx(1.1, abs=1e-6)


def test_raters_are_grouped_by_the_questions_that_they_share():
    apart = make_ratings({"w": [5, 3, 1], "x": [5, 3, 1]}, {"x": [5, 3, 1]}, {"y": [1, 3, 5], "z": [1, 3, 5]})
    assert group_raters(apart).to_dict() == {0: 1, 1: 1, 2: 2, 3: 2}
    chained = make_ratings(*({f"r{i}": [1, 2, 3], f"r{i + 1}": [1, 2, 3]} for i in range(3)))
    assert set(group_raters(chained)) == {1}
    later = make_ratings({"z": [1, 2, 3]}, {"a": [1, 2, 3]})  # z, the second by name, has the first question
    assert group_raters(later).to_dict() == {0: 2, 1: 1}


def test_alpha_of_the_published_example_to_which_what_one_rated_alone_adds_nothing():
    assert measure_krippendorff_alpha(WORKED) == pytest.approx(0.815, abs=5e-4)
    alone = [[*row, 1 if i == 0 else NAN] for i, row in enumerate(WORKED)]
    assert measure_krippendorff_alpha(alone) == pytest.approx(measure_krippendorff_alpha(WORKED), abs=1e-12)
    assert np.isnan(measure_krippendorff_alpha([[3, 3], [3, 3]]))  # without variation


def test_kappa_takes_the_items_that_the_usual_number_of_raters_labelled():
    # Both raters give a 1 and b 2, so that every pair agrees; c has one label only and is dropped.
    ratings = make_ratings({"x": [1, 2, 3], "y": [1, 2, NAN]})
    row = measure_kappa(ratings, "rating", items=["question", "system"]).iloc[0]
    assert (row.statistic, row.value, row.n, row.dropped) == ("fleiss_kappa", 1.0, 2, 1)
    assert row.signature == "items_judged_by:2"
    # three raters, three items: 111, 110, 000. P = (1 + 1/3 + 1) / 3 = 7/9; shares 5/9, 4/9: E = 41/81
    three = pd.DataFrame({"item": list("aaabbbccc"), "label": [1, 1, 1, 1, 0, 1, 0, 0, 0]})
    assert measure_kappa(three, "label", items=["item"]).value[0] == pytest.approx(22 / 40, abs=1e-12)
    assert np.isnan(measure_kappa(three.assign(label=1), "label", items=["item"]).value[0])  # nothing could disagree


def test_halves_that_agree_do_and_halves_without_two_raters_are_dropped():
    ratings = {name: [5, 3, 1] for name in "uvwxyz"}
    result = correlate_halves(make_ratings(ratings, ratings), splits=10).set_index(["level", "statistic"])
    assert set(result.index) == {(level, name) for level in ("question", "system") for name in ("spearman", "kendall")}
    np.testing.assert_allclose(result[["value", "spread", "n", "dropped"]], [[1, 0, 10, 0]] * 4, atol=1e-12)
    # x and y are opposed: a half of one of them and two others, who rate all alike, is his alone
    opposed = correlate_halves(
        make_ratings({"w": [2, 2, 2], "x": [5, 3, 1], "y": [1, 3, 5], "z": [2, 2, 2]}), splits=40
    )
    assert set(opposed.value.round(9)) == {-1}  # halves with both have equal means
    assert (opposed.n + opposed.dropped == 40).all()
    assert 0 < opposed.n.iloc[0] < 40


def test_raters_weigh_alike_whatever_their_number_of_questions():
    made = {"rater": [0, 0, 0, 1, 1], "question": ["0", "1", "2", "0", "1"], "statistic": "r"}
    measured = pd.DataFrame(made | {"measured": [1, 1, -1, -1, NAN], "missing": ["", "", "", "", "constant_labels"]})
    (row,) = average(measured, over="rater", within="question").to_dict("records")
    assert row["value"] == pytest.approx((1 / 3 - 1) / 2)
    assert (row["n"], row["dropped"], row["dropped_because"]) == (4, 1, "constant_labels 1")
    by_question = average(measured, over="question", within="rater")
    assert by_question.value[0] == pytest.approx((0 + 1 - 1) / 3)


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
