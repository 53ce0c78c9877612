"""A user's own files, with questions in them or answers alone: what is read, put right and counted, or refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import nfqa
from nfqa.files.answers import read_answers, spread_grades
from nfqa.files.records import UNLABELLED

LINE = {"question": "why?", "references": ["best", "worst"], "answers": ["one", "two"]}
TWICE = [{"text": "t", "id": "s"}, {"text": "u", "id": "s"}]
GRADED = [{"text": "t", "grade": 2}, "u"]


def write(path: Path, *lines: Any, end: str = "\n") -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_bytes("".join(text + end for text in texts).encode())
    return path


def change(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in (LINE | fields).items() if value is not ...}


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ([], "holds no question"),
        ([{"id": 1, "generation": "x"}], "line 1: is an answer in the released scripts' format"),
        (
            [LINE, change(refs=["q"], references=...)],
            "line 2: unknown field 'refs'; did you mean references? known",
        ),
        ([change(id="line2"), change(question="what?")], "line 2: id is that of line 1, 'line2'"),
        ([LINE, LINE], "line 2: question is that of line 1, 'why?'"),
        ([change(partial_answers=[{"explanation": "x"}])], "line 1: partial_answers[0].point_of_view is missing"),
        ([change(references=[{"text": "t", "grade": 4}])], "line 1: references[0].grade is 4"),
        ([change(references=GRADED)], "line 1: references[1] has no grade"),
        ([change(answers=TWICE)], "line 1: the answers' id 's' is duplicated"),
        ([change(answers=["", " "])], "every answer is empty"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_by_line_and_field(tmp_path: Path, lines: list[Any], facts: str) -> None:
    with pytest.raises(ValueError, match=rf"my\.jsonl.*{re.escape(facts)}"):
        read_answers(write(tmp_path / "my.jsonl", *lines))


def test_what_is_put_right_is_counted_by_name(tmp_path: Path) -> None:
    graded = [{"text": "poor", "grade": 1}, {"text": "good", "grade": 3}, {"text": "poor", "grade": 0}]
    dataset = read_answers(
        write(
            tmp_path / "my.jsonl",
            "\ufeff" + json.dumps(LINE),
            "",
            {"question": "what?", "references": graded, "answers": ["good", "", {"text": "x", "id": 7, "label": 2}]},
            {"question": "empty?", "answers": [" "]},
            {"question": "bare?", "references": None, "answers": [{"text": "y", "label": None, "system": "s"}]},
            end="\r\n",
        )
    )
    assert [question.id for question in dataset.questions] == ["line1", "line3", "line4", "line5"]
    assert dataset.warnings == {
        "byte_order_mark": 1, "carriage_returns": 5, "blank_lines": 1, "questions_graded_by_place": 1,
        "questions_with_references_sorted": 1, "twin_references": 1, "copies_of_a_reference": 1, "empty_answers": 2,
        "questions_without_answers": 1, "questions_without_references": 1,
    }  # fmt: skip
    assert [(a.id, a.text) for a in dataset.questions[1].answers] == [("a1", "good"), ("a2", ""), ("7", "x")]
    clean = change(references=[{"text": "good", "grade": 3}, {"text": "poor", "grade": 0}])
    assert read_answers(write(tmp_path / "clean.jsonl", clean)).warnings == {}
    assert [(r.text, r.label) for r in dataset.questions[1].references] == [("good", 3), ("poor", 1), ("poor", 0)]
    assert [(a.id, a.label, a.system) for q in dataset.questions[1:] for a in q.answers] == [
        ("a1", UNLABELLED, ""), ("a2", UNLABELLED, ""), ("7", 2, ""), ("a1", UNLABELLED, ""), ("s", UNLABELLED, "s"),
    ]  # fmt: skip


def test_grades_are_spread_by_place_and_give_the_papers_lists() -> None:
    assert [spread_grades(count) for count in (1, 2, 3, 4, 8)] == [
        [3], [3, 0], [3, 2, 0], [3, 2, 1, 0], [3, 3, 2, 2, 1, 1, 0, 0]  # of three the middle has 1.5, upwards
    ]  # fmt: skip


def test_the_bundled_example_is_whole() -> None:
    dataset = read_answers(nfqa.SAMPLE)
    assert (len(dataset.questions), len(dataset.answers), dataset.systems) == (6, 17, ["careful", "hasty"])
    assert dataset.warnings == {"questions_without_references": 1, "questions_graded_by_place": 1}
    assert [len(question.partial_answers) for question in dataset.questions] == [0, 0, 0, 0, 3, 3]


def make_questions(tmp_path: Path, *texts: str) -> Path:
    point = {"point_of_view": "No.", "explanation": "It harms."}
    lines = [{"id": i, "question": t, "partial_answers": [point, point]} for i, t in enumerate(texts, start=1)]
    return write(tmp_path / "test.jsonl", *lines)


def answer(identifier: Any, text: Any = "Some say yes.") -> dict[str, Any]:
    return {"id": identifier, "generation": text}


def test_answers_in_the_released_format_come_to_their_questions_by_id_whatever_their_order(tmp_path: Path) -> None:
    questions = make_questions(tmp_path, "a?", "b?", "c?", "d?")
    path = write(tmp_path / "mine.jsonl", answer("3", "C"), answer(1, "A"), answer(9), answer(" 4", " "))
    dataset = read_answers(path, questions)
    assert [(q.id, q.text, q.answers[0].text, q.answers[0].system) for q in dataset.questions[:2]] == [
        ("1", "a?", "A", ""), ("3", "c?", "C", ""),
    ]  # fmt: skip
    assert [answer.text.strip() for answer in dataset.questions[2].answers] == [""]
    assert [point.text for point in dataset.questions[0].partial_answers] == ["No. It harms."] * 2
    assert dataset.warnings == {
        "repeated_partial_answers": 3, "answers_to_unknown_questions": 1, "questions_without_answer": 1,
        "empty_answers": 1, "questions_without_answers": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ([answer(1), "", answer("1", "again")], "line 3: id is that of line 1, '1'"),
        ([answer(7), answer(8)], "no answer belongs to a question of"),
        ([{"id": 1, "answer": "x"}], "line 1: unknown field 'answer'; known: id, generation"),
        ([answer(1), answer(2, 3)], "line 2: generation is 3"),
        ([answer(1), answer(None)], "line 2: id is missing"),
        (['[{"id": 1, "generation": "x"}]'], "nor JSON lines (one object per line)"),
    ],
)
def test_answers_in_the_released_format_that_do_not_fit_are_refused(tmp_path: Path, lines: list, facts: str) -> None:
    path = write(tmp_path / "mine.jsonl", *lines)
    with pytest.raises(ValueError, match=rf"mine\.jsonl.*{re.escape(facts)}"):
        read_answers(path, make_questions(tmp_path, "a?"))


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"partial_answers": []}, ", line 2: partial_answers is empty"),
        ({"question": " "}, ", line 2: question is ' '"),
        ({"question": "a?"}, ": the question 'a?' is duplicated"),
        ({"id": "1"}, ", line 2: id is that of line 1, '1'"),
        ({"generation": "x"}, ", line 2: unknown field 'generation'"),
    ],
)
def test_questions_in_the_released_format_that_do_not_fit_are_refused(
    tmp_path: Path, changes: dict[str, Any], facts: str
) -> None:
    first = {"id": 1, "question": "a?", "partial_answers": [{"point_of_view": "No.", "explanation": "It harms."}]}
    questions = write(tmp_path / "test.jsonl", first, first | {"id": 2, "question": "b?"} | changes)
    with pytest.raises(ValueError, match=rf"test\.jsonl{re.escape(facts)}"):
        read_answers(write(tmp_path / "mine.jsonl", answer(1), answer(2)), questions)
