"""The records, and the frames that a dataset gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nfqa.files.records import Answer, PartialAnswer, Question, QuestionSet, Rating
from reproduction.data.load import load

PROJECT = Path(__file__).parents[1]

VIEWS = (PartialAnswer("7.a", "Yes.", "It works.", "for"), PartialAnswer("7.b", "No."))
GRADED = Question(
    "why?", (Answer("d1", "because", 3), Answer("d2", "so")), (Answer("g", "best", 3), Answer("h", "", 0))
)
DEBATED = Question(
    "whether?",
    (Answer("s1", "both", system="s1"), Answer("s2", "so", system="s2")),
    (),
    "7",
    VIEWS,
    (Rating("zoe", "7.b", "s1", 5), Rating("ann", "7.a", "s1", 1)),
)
SET = QuestionSet("made", (GRADED, DEBATED), "measured", "0" * 64)


def test_a_question_is_named_by_its_id_or_text_and_keyed_by_its_text() -> None:
    assert (GRADED.name, DEBATED.name, Question("", id="7").name) == ("why?", "7", "7")
    assert Question("why?", id="7").key == GRADED.key != Question("", id="7").key
    assert GRADED.key == 0xF5B2B98BF44B6088  # by hand: the first 8 bytes of sha256("why?")
    assert SET.systems == ["s1", "s2"]
    assert SET.texts() == ["why?", "because", "so", "best", "whether?", "both"]


def test_answers_and_references_are_frames_with_nan_where_there_is_no_grade() -> None:
    answers = SET.answers
    assert list(answers) == ["dataset", "question", "answer", "system", "text", "grade"]
    assert answers.to_numpy()[:, :5].tolist() == [
        ["made", "why?", "d1", "", "because"],
        ["made", "why?", "d2", "", "so"],
        ["made", "7", "s1", "s1", "both"],
        ["made", "7", "s2", "s2", "so"],
    ]
    assert answers["grade"].dtype == float
    np.testing.assert_array_equal(answers["grade"], [3, np.nan, np.nan, np.nan])
    empty = QuestionSet("none", (), "measured", "")
    assert [frame.shape for frame in (empty.answers, empty.views)] == [(0, 6), (0, 7)]
    assert SET.references.values.tolist() == [["made", "why?", "g", 1, "best", 3.0], ["made", "why?", "h", 2, "", 0.0]]


def test_views_and_ratings_are_frames_and_a_rater_is_a_running_number() -> None:
    assert SET.views.values.tolist() == [
        ["made", "7", "7.a", "Yes.", "It works.", "for", "Yes. It works."],
        ["made", "7", "7.b", "No.", "", "", "No."],
    ]
    assert SET.ratings.values.tolist() == [["made", "7", 1, "7.b", "s1", 5], ["made", "7", 0, "7.a", "s1", 1]]
    assert set(SET.ratings.merge(SET.views, on=["dataset", "question", "view"])["stance"]) == {"for", ""}


@pytest.mark.parametrize("name", ["antique", "webglm", "demo_answers", "debatewise", "overton"])
def test_an_item_is_identified_by_its_dataset_question_and_id(name: str) -> None:
    dataset = load(name, data="sample", root=PROJECT)
    frames: list[tuple[pd.DataFrame, list[str]]] = [
        (dataset.answers, ["answer"]), (dataset.references, ["reference"]),
        (dataset.views, ["view"]), (dataset.ratings, ["rater", "system"]),
    ]  # fmt: skip
    for frame, columns in frames:
        assert not frame.duplicated(["dataset", "question", *columns]).any()
    assert set(dataset.answers["dataset"]) <= {f"sample_{name}"}
