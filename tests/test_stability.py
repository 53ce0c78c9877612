"""Two ways of measuring, and the orders that they give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from reproduction.studies.rankings import compare_rankings


def make_scores() -> pd.DataFrame:
    generator = np.random.default_rng(3)
    rows = [
        (way, f"q{q}", f"s{s}", generator.normal() + s) for way in ("a", "b", "c") for q in range(9) for s in range(5)
    ]
    return pd.DataFrame(rows, columns=["way", "question", "system", "score"])


def test_orders_are_compared_by_means_and_inside_each_question() -> None:
    scores = make_scores()
    found = compare_rankings(scores, by=["way"], resamples=50).set_index(["way", "against_way", "of"])
    assert len(found) == 6
    a, b = (scores[scores.way == way].pivot(index="question", columns="system", values="score") for way in "ab")
    assert found.value["a", "b", "systems"] == pytest.approx(kendalltau(a.mean(), b.mean())[0])
    inside = [kendalltau(a.loc[q], b.loc[q])[0] for q in a.index]
    assert found.value["a", "b", "answers"] == pytest.approx(np.mean(inside))
    assert found.n["a", "b", "systems"] == 5
    assert found.n["a", "b", "answers"] == 9
    assert (found.low <= found.value + 1e-12).all()


def test_several_answers_of_a_system_to_a_question_count_as_their_mean() -> None:
    scores = make_scores()
    twice = [scores.assign(answer=f"x-{n}", score=scores.score + apart) for n, apart in ((1, 0.5), (2, -0.5))]
    found = compare_rankings(pd.concat(twice), by=["way"], resamples=20)
    pd.testing.assert_frame_equal(found, compare_rankings(scores, by=["way"], resamples=20))
    with pytest.raises(ValueError, match="several scores of one question and system"):
        compare_rankings(pd.concat([*twice, twice[0]]), by=["way"])  # one answer has two scores


def test_an_answer_that_one_way_lacks_is_left_out_and_one_way_is_refused() -> None:
    scores = make_scores()
    scores.loc[(scores.way == "a") & (scores.question == "q0") & (scores.system != "s0"), "score"] = np.nan
    found = compare_rankings(scores, by=["way"], resamples=20).set_index(["way", "against_way", "of"])
    assert found.dropped_because["a", "b", "answers"] == "fewer_than_two 1"
    with pytest.raises(ValueError, match="1 way of measuring in way"):
        compare_rankings(scores[scores.way == "a"], by=["way"])
