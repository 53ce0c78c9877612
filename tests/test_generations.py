"""A system's answers in the released format: what is wrong with a file is refused, or counted by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nfqa.data.generations import EMPTY, MISSING, UNKNOWN, Exclusion, read_debateqa, read_generations
from nfqa.data.records import PartialAnswer, Question, QuestionSet

QUESTIONS = tuple(
    Question(f"question {i}?", id=i, partial_answers=(PartialAnswer(f"{i}.1", "Yes."),)) for i in ("1", "2", "3")
)
SET = QuestionSet("made_up", QUESTIONS, "measured", "abc", {"repeated_partial_answers": 2})


def write(tmp_path: Path, *lines: Any, end: str = "\n") -> Path:
    path = tmp_path / "model.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + end, encoding="utf-8")
    return path


def answer(identifier: Any, text: Any = "Some say yes.") -> dict[str, Any]:
    return {"id": identifier, "generation": text}


def test_answers_come_to_their_questions_by_id_whatever_their_order_and_type(tmp_path: Path) -> None:
    found = read_generations(write(tmp_path, answer("3", "C"), answer(1, "A"), answer(" 2", "B")), SET)
    assert [(q.id, q.answer_of) for q in found.debates.questions] == [
        ("1", {"model": "A"}), ("2", {"model": "B"}), ("3", {"model": "C"}),
    ]  # fmt: skip
    assert found.excluded == ()
    assert found.debates.irregularities == {"repeated_partial_answers": 2}
    named = read_generations(write(tmp_path, answer(1)), SET, system="mine")
    assert named.debates.systems == ["mine"]


def test_unknown_missing_and_empty_are_named_and_counted(tmp_path: Path) -> None:
    found = read_generations(write(tmp_path, answer(1), answer(2, "  "), answer(9)), SET)
    assert [q.id for q in found.debates.questions] == ["1"]
    assert set(found.excluded) == {Exclusion("2", EMPTY), Exclusion("3", MISSING), Exclusion("9", UNKNOWN)}
    assert found.debates.irregularities == {
        "repeated_partial_answers": 2, "answers_to_unknown_questions": 1, "questions_without_answer": 1,
        "empty_answers": 1,
    }  # fmt: skip


def test_other_answers_or_other_questions_have_another_hash(tmp_path: Path) -> None:
    one = read_generations(write(tmp_path, answer(1)), SET).debates.sha256
    two = read_generations(write(tmp_path, answer(1, "other")), SET).debates.sha256
    assert len({one, two, SET.sha256}) == 3


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([answer(1), answer("1", "again")], "line 2: the id '1' was answered before, by answer 1"),
        ([answer(7), answer(8)], "no answer belongs to a question of made_up (answer to an unknown question: 2"),
        ([answer(1, "")], "no answer belongs to a question of made_up (empty answer: 1, no answer: 2)"),
        ([""], "holds no answer"),
        ([answer(None)], "line 1: id is missing"),
        ([{"generation": "x"}], "line 1: id is missing"),
        ([answer(1.5)], "line 1: id is 1.5"),
        ([{"id": 1}], "line 1: generation is missing; expected a text"),
        ([answer(1, ["x"])], "line 1: generation is a list; expected a text"),
        ([{"id": 1, "answer": "x"}], "line 1: unknown field 'answer'; known: id, generation"),
        ([answer(1), '{"id": 2, "gener'], "line 2: not a JSON object"),
        (['{"id": 1, "generation": "\\ud800"}'], "line 1: generation holds half of a character"),
        (['{"id": 1, "id": 2, "generation": "x"}'], "line 1: the field 'id' stands twice"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_place_and_reason(
    tmp_path: Path, lines: list[Any], words: str
) -> None:
    path = write(tmp_path, *lines)
    with pytest.raises(ValueError) as error:
        read_generations(path, SET)
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_a_file_cut_in_the_middle_or_of_mixed_encodings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 2: .*may have been cut short"):
        read_generations(write(tmp_path, answer(1), '{"id": 2, "generation": "So', end=""), SET)
    path = tmp_path / "model.jsonl"
    path.write_bytes(b'{"id": 1, "generation": "caf\xc3\xa9"}\n{"id": 2, "generation": "caf\xe9"}\n')
    with pytest.raises(ValueError, match=r"line 2: byte 0xe9 at offset .* is not UTF-8"):
        read_generations(path, SET)
    path.write_bytes('{"id": 1, "generation": "x"}'.encode("utf-16"))
    with pytest.raises(ValueError, match="is UTF-16; save it as UTF-8"):
        read_generations(path, SET)
    with pytest.raises(ValueError, match="no such file"):
        read_generations(tmp_path / "none.jsonl", SET)


def test_a_file_of_questions_is_read_with_its_own_hash(tmp_path: Path) -> None:
    line = {"id": 1, "question": "why?", "partial_answers": [{"point_of_view": "Yes.", "explanation": "So."}]}
    found = read_debateqa(write(tmp_path, line))
    assert found.name == "own_debates"
    assert found.questions[0].partial_answers[0].text == "Yes. So."
    assert len(found.sha256) == 64
