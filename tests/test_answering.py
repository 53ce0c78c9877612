"""Answers to debatable questions by several models: written, kept as files, read again, and put to their questions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from notebook_cells import RuleModel, open_asker
from test_prompts import use_own
from tiny_models import make_tiny_model

import nfqa
from nfqa.files.debateqa import read_questions
from nfqa.judge.answering import answer_questions
from nfqa.judge.asking import Asker
from nfqa.judge.journal import Journal
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import parse_role
from reproduction.data.load import load
from reproduction.debates.answered import Answered, read_answer_files

QUESTIONS = {"1": "Should primary schools abolish homework?", "2": "Do zoos do more good than harm?"}


class EndingModel(RuleModel):
    """Cuts the answer to one question, and fails at the other."""

    def answer(self, requests, decoding):
        for number, request in enumerate(requests):
            cut = Reply("Homework has", 9, decoding.max_tokens, "length")
            yield number, cut if "homework" in request.prompt else Failure("content_filter", "not allowed")


def test_every_generator_answers_every_question_and_a_second_run_asks_nothing(tmp_path: Path) -> None:
    prompts: list[str] = []

    def answer(request: Request) -> str:
        prompts.append(request.prompt)
        return f"An answer to {len(request.prompt)} characters."

    writers = {name: open_asker(tmp_path, answer, name) for name in ("one", "two")}
    first = answer_questions(QUESTIONS, writers, use_own())
    assert first[["system", "question", "ended"]].to_numpy().tolist() == [
        ["one", "1", "stop"], ["one", "2", "stop"], ["two", "1", "stop"], ["two", "2", "stop"],
    ]  # fmt: skip
    assert all(text in prompt for text, prompt in zip([*QUESTIONS.values()] * 2, prompts, strict=True))
    assert first.made.str.fullmatch(r"generator:openai:(one|two).*\|max4096\|seed:0").all()
    assert answer_questions(QUESTIONS, writers, use_own()).equals(first)
    assert len(prompts) == 4


def test_a_cut_answer_is_flagged_and_one_that_failed_has_its_reason(tmp_path: Path) -> None:
    spec = parse_role("generator", "openai:one")
    writer = Asker(spec, lambda _: EndingModel(spec, str), Journal(tmp_path / "j.sqlite"), Decoding(temperature=0))
    result = answer_questions(QUESTIONS, {"one": writer}, use_own(), longest=7)
    assert result[["text", "ended"]].to_numpy().tolist() == [["Homework has", "length"], [None, "content_filter"]]
    debates = load("debateqa_test", data="sample", limit=2)
    answered = Answered.gather(replace(debates, name="made"), result)
    assert answered.ends.set_index("statistic").value.to_dict() == {"share_cut": 0.5, "share_missing": 0.5}
    assert answered.answers.text.isna().tolist() == [False, True]


def write(folder: Path, **files: list[object]) -> Path:
    folder.mkdir()
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_what_is_odd_in_files_made_elsewhere_is_counted(tmp_path: Path) -> None:
    lines = [{"id": 1, "generation": "Views differ."}, {"id": 2, "generation": " "}, {"id": "x", "generation": "?"}]
    lines.append({"id": 1, "generation": "<think>hm"})
    result = read_answer_files(write(tmp_path / "answers", whole=lines[:1], odd=lines[1:]), QUESTIONS)
    assert result.set_index(["system", "question"]).ended.to_dict() == {
        ("odd", "1"): "only_thinking", ("odd", "2"): "empty", ("odd", "x"): "unknown_question",
        ("whole", "1"): "", ("whole", "2"): "no_answer",
    }  # fmt: skip
    answered = Answered.gather(load("debateqa_test", data="sample", limit=2), result)
    assert answered.ends.query("system == 'odd'").set_index("statistic").value.to_dict() == {
        "share_cut": 0, "share_missing": 1, "n_unknown": 1,
    }  # fmt: skip
    assert set(answered.answers.question) == {"1", "2"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no .jsonl file"),
        ({"a": [{"id": "7", "generation": "x"}]}, "a.jsonl: none of its ids (7 ...) is a question's"),
        ({"a": [{"id": 1, "answer": "x"}]}, "a.jsonl, line 1: unknown field 'answer'"),
    ],
)
def test_files_that_can_not_be_meant_are_refused(tmp_path: Path, files: dict[str, list[object]], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_answer_files(write(tmp_path / "answers", **files), QUESTIONS)


def test_questions_have_an_id_by_line(tmp_path: Path) -> None:
    path = tmp_path / "q"
    path.write_text('{"question": "Should  a?"}\n\n{"id": 7, "question": "b?", "partial_answers": []}\n')
    assert read_questions(path).to_numpy().tolist() == [["q1", "Should a?"], ["7", "b?"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"question": "a?"}\n{"question": "a?"}', "line 2: question is that of line 1"),
        ('{"question": " "}', "line 1: question"),
        ("", "holds no question"),
        ('{"prompt": "a?"}', r"'prompt'; did you mean question\?"),
    ],
)
def test_wrong_questions_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "q").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_questions(tmp_path / "q")


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    return f"path:{make_tiny_model(tmp_path / 'tiny', context=220)}"


def test_the_library_lets_a_model_in_process_answer_up_to_the_end_of_its_context(tiny: str, tmp_path: Path) -> None:
    prompts = ["Should zoos be closed?", "Is homework good?"]
    result = nfqa.answer_questions(prompts, tiny, journal=tmp_path / "kept.sqlite")
    assert result.question.tolist() == prompts
    assert set(result.system) == {"tiny"}
    assert set(result.ended) <= {"stop", "length", "empty"}
    assert nfqa.answer_questions(prompts, [tiny], journal=tmp_path / "kept.sqlite").equals(result)
    with pytest.raises(ValueError, match="role generator is 'embedded:trained'; expected KIND:NAME"):
        nfqa.answer_questions(prompts, "embedded:trained")
