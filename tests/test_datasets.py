"""Datasets as upstream wrote them: each shape read, each fault refused with its place; loading any by name; labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nfqa.files.records import Answer, Question, QuestionSet
from reproduction.data.load import DISPUTE_LABELS, load, read_dispute_labels, read_file

PROJECT = Path(__file__).parents[1]


def write(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("lowest", [0, 1])
def test_labels_of_both_ranges_come_to_one_scale_and_both_id_keys_are_read(tmp_path: Path, lowest: int) -> None:
    passages = [{"doc_id": "a", "passage": "x", "label": lowest + 3}, {"docid": 7, "passage": "y", "label": lowest}]
    (question,), _ = read_file(write(tmp_path, {"q?": passages}), "graded", lowest)
    assert [(answer.id, answer.label) for answer in question.answers] == [("a", 3), ("7", 0)]


def test_references_come_best_first_and_the_ungraded_one_is_left_out(tmp_path: Path) -> None:
    body = {"doc_list": [{"answer": "x", "model": "m", "label": 1}, {"answer": "y", "model": "n", "label": 3}]}
    body |= {f"ground{grade}": f"reference {grade}" for grade in range(5)}  # type: ignore[misc]
    (question,), _ = read_file(write(tmp_path, {"why?": body}), "generated", 1)
    assert [(r.label, r.text) for r in question.references] == [(g, f"reference {g}") for g in (3, 2, 1, 0)]
    assert [(a.system, a.text, a.label) for a in question.answers] == [("m", "x", 0), ("n", "y", 2)]


@pytest.mark.parametrize(
    ("name", "options", "facts"),
    [
        ("antiqe", {}, "unknown dataset 'antiqe'; known: antique, trec_dl_nf"),
        ("prompt_listwise", {}, "'prompt_listwise' is a prompt"),
        ("debateqa_dev", {}, "debateqa_dev has no bundled sample"),
    ],
)
def test_wrong_arguments_are_refused(name: str, options: dict[str, Any], facts: str) -> None:
    with pytest.raises(ValueError, match=re.escape(facts)):
        load(name, root=PROJECT, **({"data": "sample"} | options))


def test_repeated_passages_are_treated_as_named(tmp_path: Path) -> None:
    (tmp_path / "data" / "sample").mkdir(parents=True)
    (tmp_path / "data" / "registry.yml").write_text((PROJECT / "data" / "registry.yml").read_text())
    answers = [("a", "same", 4), ("b", "same", 2), ("c", "twin", 3), ("d", "twin", 3), ("e", "alone", 1)]
    content = {"q?": [{"doc_id": i, "passage": text, "label": label} for i, text, label in answers]}
    (tmp_path / "data" / "sample" / "cqa.json").write_text(json.dumps(content))
    for repeats, answers in (("keep", "abcde"), ("first", "ace"), ("drop_conflicting", "cde")):
        result = load("antique", data="sample", repeats=repeats, root=tmp_path)  # type: ignore[arg-type]
        assert "".join(result.answers["answer"]) == answers
        assert result.warnings == ({} if repeats == "keep" else {"dropped_repeats": 2})


@pytest.mark.parametrize("name", ["antique", "debatewise"])
def test_a_limit_chooses_by_the_question_and_keeps_the_files_order(name: str) -> None:
    whole = load(name, data="sample", root=PROJECT).questions
    part = load(name, data="sample", limit=5, root=PROJECT).questions
    assert list(part) == [question for question in whole if question.key in sorted(q.key for q in whole)[:5]]


ANSWERS = (Answer("a", "It is disputed.", system="a"), Answer("b", "Yes.", system="b"))
SYSTEMS = QuestionSet("overton", tuple(Question(f"why {n}?", ANSWERS, id=str(n)) for n in range(2)), "measured", "")


def write_labels(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / DISPUTE_LABELS).parent.mkdir(parents=True)
    (tmp_path / DISPUTE_LABELS).write_text("\n".join(["set,id,pass_1,pass_2,label", *lines]) + "\n")
    return tmp_path


def test_labels_meet_answers_in_the_labels_order_and_a_limit_counts_questions(tmp_path: Path) -> None:
    root = write_labels(tmp_path, "overton,1:b,0,1,0", "overton,0:a,1,1,1", "demo,7,1,1,1", "overton,1:a,1,1,1")
    assert read_dispute_labels(root, SYSTEMS, limit=1)["id"].tolist() == ["0:a"]  # by hash
    assert read_dispute_labels(root, SYSTEMS, limit=2)["id"].tolist() == ["1:b", "0:a", "1:a"]
    labels = read_dispute_labels(root, SYSTEMS)
    columns = ["dataset", "question", "answer", "system", "text", "id", "pass_1", "pass_2", "label"]
    assert {*labels} == {*columns, "question_text"}
    assert labels[columns].to_numpy().tolist() == [
        ["overton", "1", "b", "b", "Yes.", "1:b", 0, 1, 0],
        ["overton", "0", "a", "a", "It is disputed.", "0:a", 1, 1, 1],
        ["overton", "1", "a", "a", "It is disputed.", "1:a", 1, 1, 1],
    ]


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
    with pytest.raises(ValueError, match=r"set\.jsonl: holds no question"):
        read_file(write_lines(tmp_path), "debateqa")


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
