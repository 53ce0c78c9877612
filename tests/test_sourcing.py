"""Questions of several sources, by hand: how many are left, how cohesive topics are, and which is nearest."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from notebook_cells import run_notebook

from nfqa.files.records import Question, QuestionSet
from reproduction.debates.sourcing import count_kept, list_questions, place_nearest, score_cohesion


def turn(*degrees: float) -> np.ndarray:
    angles = np.deg2rad(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def make_set(name: str, *texts: str) -> QuestionSet:
    return QuestionSet(name, tuple(Question(text, id=str(n)) for n, text in enumerate(texts)), "measured", "0")


def test_each_question_stands_once_a_source() -> None:
    claims = pd.DataFrame({"dataset": "b", "source": ["x", "y", "x"], "question": ["One?", "One?", "One?"], "more": 1})
    found = list_questions(make_set("a", "One?", "Two?", "One?"), claims)
    rows = [["a", "", "One?"], ["a", "", "Two?"], ["b", "x", "One?"], ["b", "y", "One?"]]
    assert found.to_numpy().tolist() == rows


def test_what_is_left_of_a_path_of_five_by_threshold_and_method() -> None:
    vectors = turn(0, 10, 20, 30, 100)  # a path of four near-duplicates within 10 degrees, and one apart
    questions = pd.DataFrame({"dataset": [*"aabbb"], "source": "", "question": [*"pqrst"]})
    near, far = np.cos(np.deg2rad([10.5, 20.5]))
    counts = (
        count_kept(questions, vectors, thresholds=[far, near])
        .set_index(["threshold", "method", "dataset"])
        .sort_index()
    )
    assert counts.loc[near].n_pairs.unique().tolist() == [3]
    assert counts.loc[far].n_pairs.unique().tolist() == [5]
    assert counts.n_sourced.groupby("dataset").unique().map(list).to_dict() == {"a": [2], "b": [3]}
    left = counts.n_kept.groupby(["threshold", "method"]).sum()
    assert left[near].to_dict() == {"greedy": 3, "exact": 3, "components": 2}
    assert left[far].to_dict() == {"greedy": 3, "exact": 3, "components": 2}
    assert counts.n_kept[near, "components"].to_dict() == {"a": 1, "b": 1}


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
