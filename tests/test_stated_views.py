"""AUROC of measures of whether a passage states a point of view: inside of strata, and pairs of wordings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nfqa.kernels.classification import resample_auroc
from nfqa.metrics.stated_views import pair_wordings, resample_stated
from nfqa.metrics.statistics import find_intervals

RANDOM = np.random.default_rng(3)


def test_inside_of_strata_what_differs_between_them_does_not_count():
    labels, groups = [1, 0, 1, 0], list("aabb")
    scores = [2, 1, 102, 101]  # each stratum in order, but b's negative is above a's positive
    assert resample_auroc(labels, scores, groups, resamples=1)[0] == 0.75
    assert resample_auroc(labels, scores, groups, strata=groups, resamples=1)[0] == 1


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [([1, 0], [1], "equal rows"), ([1, 2], [1, 2], "0 or 1"), ([1, 0], [1, np.nan], "finite")],
)
def test_what_cannot_be_compared_is_refused(labels, scores, message):
    with pytest.raises(ValueError, match=message):
        resample_auroc(labels, scores, ["a", "b"])


def test_measures_are_resampled_alike_so_that_equal_ones_differ_by_nothing():
    questions, stated = np.repeat(list("abcd"), 6), np.tile([True, False, False], 8)
    scores = pd.DataFrame({"question": questions, "stated": stated, "score": RANDOM.normal(size=24)})
    both = pd.concat([scores.assign(metric="one"), scores.assign(metric="other", score=2 * scores.score)])
    drawn = resample_stated(both, by=["metric"], within=["question"], resamples=30).pivot(
        index="resample", columns="metric", values="measured"
    )
    assert (drawn.one == drawn.other).all()
    values = find_intervals(resample_stated(both, by=["metric"], resamples=30))
    assert values.n.tolist() == [24, 24]
    assert (values.low <= values.value).all()


WORDINGS = pd.DataFrame({"wording": range(1, 8), "text": ["a1", "a2", "a3", "b1", "a1", "c1", "c2"]})


def make_claims(*views: list) -> pd.DataFrame:
    return pd.DataFrame({"dataset": "set", "question": [f"Q{n}" for n in range(len(views))], "views": list(views)})


def test_a_claim_gives_an_answer_a_view_in_other_words_and_another_view():
    claims = make_claims([("SUPPORT", [1, 2, 3]), ("UNDERMINE", [4])], [("SUPPORT", [1, 5]), ("SUPPORT", [4])])
    for seed in range(9):
        stated, other_view, other_answer = pair_wordings(claims, WORDINGS, seed=seed).itertuples(index=False)
        assert {stated.text, stated.point_of_view} < {"a1", "a2", "a3"}
        assert stated.text != stated.point_of_view
        assert (other_view.text, other_view.point_of_view) == (stated.text, "b1")
        assert (other_answer.text, other_answer.point_of_view) == ("b1", stated.point_of_view)
        rows = (stated, other_view, other_answer)
        assert [(row.question, row.stance, row.stated, row.changed) for row in rows] == [
            ("Q0", "opposite", True, ""), ("Q0", "opposite", False, "view"), ("Q0", "opposite", False, "answer"),
        ]  # fmt: skip


def test_another_view_shares_no_wording_and_a_claim_is_drawn_from_once():
    claims = make_claims([("SUPPORT", [1, 2]), ("SUPPORT", [5]), ("SUPPORT", [6])], [("SUPPORT", [1, 2, 3])])
    pairs = pair_wordings(pd.concat([claims, claims]), WORDINGS)
    assert len(pairs) == 3
    assert set(pairs.stance) == {"same"}
    assert pairs.point_of_view[1] == "c1"


def test_draws_depend_on_the_claim_and_the_seed_alone():
    views = [("SUPPORT", [1, 2, 3]), ("UNDERMINE", [6, 7]), ("SUPPORT", [4])]
    claims = make_claims(*[views] * 8)
    pairs = pair_wordings(claims, WORDINGS, seed=1)
    pd.testing.assert_frame_equal(pairs, pair_wordings(claims[::-1], WORDINGS[::-1], seed=1))
    alone = pair_wordings(claims[3:4], WORDINGS, seed=1)
    pd.testing.assert_frame_equal(alone, pairs[pairs.question == "Q3"].reset_index(drop=True))
    assert set(pairs.stance) == {"same", "opposite"}
    assert not pairs.equals(pair_wordings(claims, WORDINGS, seed=2))
