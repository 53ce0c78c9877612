"""Questions of several sources, and how many are left: counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from nfqa.data.records import Question, QuestionSet
from nfqa.data.web import load_frame, read_claims
from nfqa.debates.sourcing import count_kept, list_questions


def make_set(name: str, *texts: str) -> QuestionSet:
    return QuestionSet(name, tuple(Question(text, id=str(n)) for n, text in enumerate(texts)), "measured", "0")


def test_each_question_stands_once_a_source() -> None:
    claims = pd.DataFrame({"dataset": "b", "source": ["x", "y", "x"], "question": ["One?", "One?", "One?"], "more": 1})
    found = list_questions(make_set("a", "One?", "Two?", "One?"), claims)
    rows = [["a", "", "One?"], ["a", "", "Two?"], ["b", "x", "One?"], ["b", "y", "One?"]]
    assert found.to_numpy().tolist() == rows


def test_what_is_left_of_a_path_of_five_by_threshold_and_method() -> None:
    angles = np.deg2rad([0, 10, 20, 30, 100])  # a path of four near-duplicates within 10 degrees, and one apart
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
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


def test_claims_are_read_with_their_topics_and_views(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    view = {"pids": [1, 7], "stance_label_3": "SUPPORT", "evidence": [2]}
    claim = {"cId": 1, "text": "It is so.", "source": "x", "topics": ["b", "a"], "perspectives": [view]}
    path.write_text(json.dumps([claim, claim | {"cId": 2, "topics": []}]))
    assert read_claims(path).topics.tolist() == ["a b", ""]
    assert read_claims(path).views[0] == [("SUPPORT", [1, 7])]
    assert load_frame("perspectrum", data="sample")[0].dataset.unique().tolist() == ["sample_perspectrum"]
