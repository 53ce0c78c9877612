"""Debatable questions as upstream wrote them: each shape read, each fault refused with place and reason or counted."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from reproduction.data.load import load, read_file
from reproduction.data.registry import UnreachableError, read_registry

PROJECT = Path(__file__).parents[1]
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


def test_the_bundled_stand_ins_are_whole_and_split_by_claim() -> None:
    claims, train, held_out = (
        load("debatewise", data="sample", split=split, root=PROJECT) for split in ("all", "train", "held_out")
    )
    assert (claims.name, claims.origin, claims.warnings) == ("sample_debatewise", "sample", {})
    assert all(len(question.partial_answers) >= 4 for question in claims.questions)
    assert {*train.questions} | {*held_out.questions} == {*claims.questions}
    assert len(held_out.questions) >= 2
    assert {q.key % 4 == 0 for q in held_out.questions} == {True} != {q.key % 4 == 0 for q in train.questions}
    ratings = load("overton", data="sample", root=PROJECT)
    assert len(ratings.systems) == 4
    assert ratings.warnings == {"views_missing": 1, "ratings_without_a_view": 4}
    demo = load("demo_answers", data="sample", root=PROJECT)
    assert (len(demo.questions), demo.systems) == (12, ["demo"])


def test_what_is_not_fetched_by_all_is_read_where_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "debateqa_test"
    monkeypatch.setenv("NFQA_MIRROR", str(tmp_path / "mirror"))
    registry = tmp_path / "data" / "registry.yml"
    registry.parent.mkdir()
    shutil.copyfile(PROJECT / "data" / "registry.yml", registry)
    file = read_registry(tmp_path)[name]
    with pytest.raises(UnreachableError, match=name):
        load(name, root=tmp_path)
    content = json.dumps(LINE).encode() + b"\n"
    path = tmp_path / "mirror" / file.relative
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(ValueError, match=f"has sha256 {digest}, expected {file.sha256}"):
        load(name, root=tmp_path)
    registry.write_text(registry.read_text().replace(file.sha256, digest))
    assert len(load(name, root=tmp_path).questions) == 1
