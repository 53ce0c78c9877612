"""People's ratings by hand: comparisons, rankings of the systems, groups of raters, agreement, averages by rater."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nfqa.metrics.statistics import average
from reproduction.studies.people import (
    compare_answers,
    correlate_halves,
    group_raters,
    measure_kappa,
    measure_krippendorff_alpha,
    rank_systems,
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


def rank(ratings: pd.DataFrame, rule: str, *by: str) -> pd.DataFrame:
    result = rank_systems(compare_answers(ratings), rule, by=by)
    return result.pivot(index=by or None, columns="system", values="strength")


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
    result = rank(make_ratings({"x": [5, 3, NAN]}, {"y": [NAN, 3, 3]}), "bradley_terry", "rater").loc[0]
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
