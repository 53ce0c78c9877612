"""Cohesion and nearest topics, by hand."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from notebook_cells import run_notebook

from nfqa.debates.sourcing import place_nearest, score_cohesion


def turn(*degrees: float) -> np.ndarray:
    angles = np.deg2rad(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_cohesion_is_the_mean_cosine_of_two_texts_of_a_topic() -> None:
    vectors = turn(0, 60, 90, 100, 110, 180, 200)
    of_three = np.mean([np.cos(np.deg2rad(b - a)) for a, b in combinations((90, 100, 110), 2)])
    found = score_cohesion(vectors, [0, 0, 1, 1, 1, 2, -1])  # a topic of one text has no pair
    np.testing.assert_allclose(found, (np.cos(np.deg2rad(60)) + of_three) / 2)
    assert np.isnan(score_cohesion(vectors, [0, 1, 2, 3, 4, -1, -1]))


def test_a_text_belongs_to_the_topic_of_the_nearest_mean_and_never_to_the_outliers() -> None:
    vectors = turn(0, 20, 90, 180)
    others = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    topics, cosines = place_nearest(vectors, [0, 0, 1, -1], others)
    assert topics == [0, 1, 1]
    np.testing.assert_allclose(cosines, [np.cos(np.deg2rad(10)), 1, 0], atol=1e-12)
    with pytest.raises(ValueError, match="all are outliers"):
        place_nearest(vectors, [-1] * 4, others)


@pytest.mark.slow
def test_topics_of_the_sample_come_out_the_same_twice(tmp_path: Path) -> None:
    found = [run_notebook("debateqa/figure_14_domains", out=tmp_path / run, n_seeds=2) for run in "ab"]
    first, second = ((tmp_path / run / "figure_14.csv").read_bytes() for run in "ab")
    assert first == second
    table = found[0]["table"]
    shares = table[(table.statistic == "share") & (table.dataset == "open_sets")].value
    outliers = (found[0]["topics"] == -1).mean()
    assert shares.sum() == pytest.approx(1 - outliers, abs=1e-5)
    assert set(table.origin) == {"sample"}
