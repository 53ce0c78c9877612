"""A user's answers as a table: what is read as JSON lines are, what is refused by line and column, and the template."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import PROJECT

from nfqa.files.answers import read_answers
from reproduction.cli import main

HEADER = ["question", "answer", "system", "label", "id", "reference_1", "reference_2", "partial_answer_1"]
ROWS = [
    ["why?", 'one, "quoted"\nover lines; and more', "x", "2", "q1", "best", "", ""],
    ["what?", "an answer", "x", "", "q2", "", "", "some say no"],
    ["why?", " ", "y", "3.0", "", "", "worst\r\nof all", ""],
    ["why?", "three", "", "", "q1", "best", "", ""],
]
SAME = [
    {
        "id": "q1", "question": "why?", "references": ["best", "worst\r\nof all"],
        "answers": [
            {"text": ROWS[0][1], "system": "x", "label": 2}, {"text": " ", "system": "y", "label": 3}, "three",
        ],
    },
    {"id": "q2", "question": "what?", "partial_answers": ["some say no"],
     "answers": [{"text": "an answer", "system": "x"}]},
]  # fmt: skip


def tabulate(rows: list[list[str]], separator: str = ",", end: str = "\r\n") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator=end).writerows(rows)
    return file.getvalue()


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "separator", "start", "end"),
    [("my.csv", ",", "", "\n"), ("my.csv", ";", "\ufeff", "\r\n"), ("MY.TSV", "\t", "", "\r\n")],
)
def test_a_table_is_read_as_the_same_json_lines(
    tmp_path: Path, name: str, separator: str, start: str, end: str
) -> None:
    dataset = read_answers(write(tmp_path / name, start + tabulate([HEADER, *ROWS], separator, end)))
    same = read_answers(write(tmp_path / "my.jsonl", "\n".join(map(json.dumps, SAME))))
    for frame in ("answers", "references", "views"):
        pd.testing.assert_frame_equal(getattr(dataset, frame), getattr(same, frame))
    assert (dataset.questions, dataset.warnings) == (same.questions, same.warnings)
    assert len(dataset.answers) == 4, "an empty one too"


@pytest.mark.parametrize(
    ("table", "noted"),
    [
        (",question,answer\n0,why?,a\n1,why?,b\n", {"column_not_read: the first, without a name": 2}),
        ("sep=;\r\nquestion;answer\r\nwhy?;a\r\nwhy?;b\r\n", {}),
        ("Question,ANSWER,Reference 1,,\r\n,,,,\r\nwhy?,a,,,\r\nwhy?,b\r\n", {"blank_lines": 1}),
        (
            "question,answer,notes,Remarks\nwhy?,a,x,\nwhy?,b,,y\n",
            {f"column_not_read: {n}": 2 for n in ("notes", "remarks")},
        ),
    ],
)
def test_what_pandas_excel_and_real_exports_add_is_read(tmp_path: Path, table: str, noted: dict[str, int]) -> None:
    dataset = read_answers(write(tmp_path / "my.csv", table))
    assert [answer.text for answer in dataset.questions[0].answers] == ["a", "b"]
    assert dataset.warnings == noted | {"questions_without_references": 1}


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("question,answer\nwhy?,\n", "my.csv: every answer is empty"),
        ("questoin,answer\nwhy?,a\n", "my.csv, line 2: unknown field 'questoin'; did you mean question? known: "),
        ("question;answer;reference\nwhy?;a;b\n", "line 2: unknown field 'reference'; did you mean reference_1"),
        ("question,system\nwhy?,a\n", "line 2: answer is missing; add it"),
        ("question,answer,answer\nwhy?,a,b\n", "line 1: the column 'answer' is duplicated"),
        ("question,answer,label\nwhy?,a,2\nwhy?,b,4\n", "line 3: label is 4; input should be less"),
        ("question,answer\nwhy?,a, b\n", "line 2: a cell has no named column; name it, or quote texts with ','"),
        ('question,answer\nwhy?,"a\n\nb\n', "line 2: in the row that begins here a text in quotes"),
        ('question,answer,reference_1\n"w\n?",a,one\nx?,b,\n"w\n?",c,two\n', "line 5: reference_1 'two' is not that"),
        ("question,answer,answer_id\nw?,a,x\nv?,a,x\nw?,b,x\n", "line 4: the answer's id to 'w?' is that of line 2"),
        (b"question,answer\nwhy?,caf\xe9\n", "line 2: byte 0xe9 at offset 24 is not UTF-8"),
        ("question,answer\nwhy?," + "x" * 1_000_001, "line 2: answer is 'xxx"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused_by_line_and_column(tmp_path: Path, content: Any, facts: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_answers(write(tmp_path / "my.csv", content))
    assert facts in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind_or_a_table_with_questions_says_what_is_expected(tmp_path: Path) -> None:
    path = write(tmp_path / "my.xlsx", b"PK\x03\x04\x14\0")
    with pytest.raises(ValueError, match=rf"^{path}: is a workbook or another zip file; save the sheet as CSV UTF-8"):
        read_answers(path)
    with pytest.raises(ValueError, match=r"my\.csv: is a table, .* unset QUESTIONS=test\.jsonl"):
        read_answers(write(tmp_path / "my.csv", "question,answer\n"), "test.jsonl")


def test_the_template_is_a_table_that_is_read_and_no_file_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(PROJECT)
    path = tmp_path / "my own.csv"
    assert main(["template", str(path)]) == 0
    assert f"`make score ANSWERS='{path}'`" in capsys.readouterr().out
    dataset = read_answers(path)
    assert (dataset.systems, len(dataset.answers)) == (["careful", "hasty"], 4)
    assert [(len(q.references), len(q.partial_answers)) for q in dataset.questions] == [(3, 0), (0, 3)]
    frame = pd.read_csv(path)
    frame.to_parquet(parquet := tmp_path / "my.parquet")
    frame.to_json(lines := tmp_path / "my.jsonl", orient="records", lines=True)
    for same in (parquet, lines):
        rows = [(question.text, question.answers, question.references) for question in read_answers(same).questions]
        assert rows == [(question.text, question.answers, question.references) for question in dataset.questions]
    before = path.read_text()
    assert main(["template", str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path}: File exists; name another file, or remove this one\n"
    assert path.read_text() == before
    assert main(["template", str(path.with_suffix(".xlsx"))]) == 2
    assert "ends in .csv" in capsys.readouterr().err
