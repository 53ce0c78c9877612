"""Debatable questions as upstream wrote them: each shape read, each fault refused with place and reason or counted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reproduction.data.load import read_file

POINTS = [{"point_of_view": "Yes.", "explanation": "It helps."}, {"point_of_view": "No.", "explanation": "It harms."}]
LINE = {"id": 7, "question": "Is it good?", "partial_answers": POINTS}
CLAIM = {
    "claim_title": "It is  good",
    "perspectives_for": [{"perspective_title": "It\thelps", "argument": {"description": ["One.", "\r\nTwo</a>."]}}],
    "perspectives_against": [{"perspective_title": "It harms", "argument": {"description": ["Three."]}}],
}
BARE = {"perspective_title": "Nothing to say", "argument": {"description": []}}
RATED = {"question": 3, "text": "Is it good?", "answers": {"b": "No.", "a": "Yes."}}
PERSON = {"annotator": "r001", "views": {"3": "Mine."}, "choices": {"3": "Option 2"}, "ratings": {"3": {"a": 4}}}


def write_lines(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def change(base: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in (base | fields).items() if value is not ...}


def test_the_released_shape_is_read_with_ids_as_texts_and_repeated_points_are_counted(tmp_path: Path) -> None:
    again = change(LINE, id=" 8", partial_answers=[*POINTS, POINTS[0]])
    (question, repeated), counts = read_file(write_lines(tmp_path, LINE, again), "debateqa")
    assert (question.id, question.text) == ("7", "Is it good?")
    assert [(p.id, p.text) for p in question.partial_answers] == [("7.1", "Yes. It helps."), ("7.2", "No. It harms.")]
    assert (repeated.id, len(repeated.partial_answers)) == ("8", 3)
    assert +counts == {"repeated_partial_answers": 1}


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ([change(LINE, partial_answers=[])], "line 1: partial_answers is empty"),
        ([LINE, change(LINE, answer="x")], "line 2: unknown field 'answer'; did you mean partial_answers?"),
        ([LINE, change(LINE, id="7", question="other?")], "line 2: id is that of line 1, '7'"),
        ([], "holds no question"),
    ],
)
def test_what_does_not_fit_is_refused_with_place_and_field(tmp_path: Path, lines: Any, facts: str) -> None:
    path = write_lines(tmp_path, *lines)
    with pytest.raises(ValueError, match=f"{path}.*{re.escape(facts)}"):
        read_file(path, "debateqa")


def test_claims_keep_stance_and_lose_tags_and_empty_perspectives(tmp_path: Path) -> None:
    claim = CLAIM | {"perspectives_against": [BARE, *CLAIM["perspectives_against"]], "url": "not read"}
    empty = {"claim_title": "Empty", "perspectives_for": [BARE], "perspectives_against": []}
    (question,), counts = read_file(write_lines(tmp_path, [claim, empty]), "debatewise")
    assert question.text == "It is good"
    assert [(p.id, p.text, p.stance) for p in question.partial_answers] == [
        ("0.1", "It helps One. Two .", "for"), ("0.2", "It harms Three.", "against"),
    ]  # fmt: skip
    assert +counts == {"perspectives_without_text": 2, "claims_without_perspectives": 1}


def test_views_become_partial_answers_and_ratings_refer_to_them(tmp_path: Path) -> None:
    silent = change(PERSON, annotator="r002", views={"3": " "})
    (question,), counts = read_file(write_lines(tmp_path, RATED, PERSON, silent), "debate_ratings")
    (view,) = question.partial_answers
    assert (view.id, view.text, view.explanation, view.stance) == ("3.r001", "Mine.", "", "against")
    assert [(a.system, a.text) for a in question.answers] == [("a", "Yes."), ("b", "No.")]
    assert [(r.annotator, r.view, r.system, r.value) for r in question.ratings] == [("r001", "3.r001", "a", 4)]
    assert +counts == {"ratings_missing": 1, "views_missing": 1, "ratings_without_a_view": 1}
