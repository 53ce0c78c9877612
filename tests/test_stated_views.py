"""AUROC of measures of whether a passage states a point of view: by hand, against scikit-learn, inside of strata."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from nfqa.kernels.classification import resample_auroc
from nfqa.metrics.stated_views import resample_stated
from nfqa.metrics.statistics import find_intervals

RANDOM = np.random.default_rng(3)


def test_auroc_is_the_share_of_pairs_in_order_and_a_tie_is_half():
    assert resample_auroc([1, 0, 1, 0], [3, 1, 1, 2], list("aabb"), resamples=1)[0] == pytest.approx(2.5 / 4)


def test_it_is_scikit_learn_s_and_does_not_depend_on_a_rising_change_of_scores():
    labels, scores, groups = RANDOM.integers(2, size=60), RANDOM.normal(size=60).round(1), RANDOM.integers(9, size=60)
    found = resample_auroc(labels, scores, groups, resamples=50)
    assert found[0] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert resample_auroc(labels, np.exp(scores), groups, resamples=50) == pytest.approx(found)
    assert found[1:].std() > 0


def test_a_resample_is_the_auroc_of_the_items_of_the_groups_that_it_drew():
    from nfqa.kernels.resample import draw_counts

    labels, scores, groups = RANDOM.integers(2, size=40), RANDOM.normal(size=40), np.repeat(range(5), 8)
    found = resample_auroc(labels, scores, groups, resamples=4, seed=7)[1:]
    for counts, value in zip(draw_counts(5, resamples=4, seed=7), found, strict=True):
        times = counts[groups].astype(int)
        assert value == pytest.approx(roc_auc_score(labels.repeat(times), scores.repeat(times)))


def test_inside_of_strata_what_differs_between_them_does_not_count():
    labels, groups = [1, 0, 1, 0], list("aabb")
    scores = [2, 1, 102, 101]  # each stratum in order, but b's negative is above a's positive
    assert resample_auroc(labels, scores, groups, resamples=1)[0] == 0.75
    assert resample_auroc(labels, scores, groups, strata=groups, resamples=1)[0] == 1


def test_without_a_pair_there_is_no_auroc():
    assert np.isnan(resample_auroc([0, 0], [1, 2], list("ab"), resamples=3)).all()


@pytest.mark.parametrize(
    ("labels", "scores", "groups", "strata", "message"),
    [
        ([1, 0], [1], "ab", None, "equal rows"),
        ([1, 2], [1, 2], "ab", None, "0 or 1"),
        ([1, 0], [1, np.nan], "ab", None, "finite"),
        ([1, 0], [1, 2], "ab", "cc", "several groups"),
    ],
)
def test_what_cannot_be_compared_is_refused(labels, scores, groups, strata, message):
    with pytest.raises(ValueError, match=message):
        resample_auroc(labels, scores, list(groups), strata=list(strata) if strata else None)


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
