"""A user's rows have one meaning by whatever door they come: files of each kind, dictionaries, frames of each shape."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest

import nfqa

Rows = list[dict[str, Any]]
WHY, WHAT = {"question": "why?"}, {"question": "what?"}
REFERENCES = [WHY | {"text": "best"}, WHY | {"text": "worst"}]
VIEWS = [WHY | {"text": "Yes."}]
LOST = "has lost digits"


def write_csv(path: Path, rows: Rows, separator: str = ",") -> Path:
    pd.DataFrame(rows).to_csv(path, index=False, sep=separator)
    return path


def write_json(path: Path, rows: Rows) -> Path:
    pd.DataFrame(rows).to_json(path, orient="records", lines=True)
    return path


def write_parquet(path: Path, rows: Rows) -> Path:
    pd.DataFrame(rows).to_parquet(path)
    return path


FILES: dict[str, Callable[[Path, Rows], Any]] = {
    "csv": lambda folder, rows: write_csv(folder / "my.csv", rows),
    "semicolon": lambda folder, rows: write_csv(folder / "my.csv", rows, ";"),
    "tsv": lambda folder, rows: write_csv(folder / "my.tsv", rows, "\t"),
    "jsonl": lambda folder, rows: write_json(folder / "my.jsonl", rows),
    "parquet": lambda folder, rows: write_parquet(folder / "my.parquet", rows),
}
IN_MEMORY: dict[str, Callable[[Path, Rows], Any]] = {
    "dictionaries": lambda _, rows: rows,
    "frame": lambda _, rows: pd.DataFrame(rows),
    "arrow": lambda _, rows: pyarrow.Table.from_pylist(rows),
    "categories": lambda _, rows: pd.DataFrame(rows).astype("category"),
    "categories of columns": lambda _, rows: pd.DataFrame(rows).set_axis(pd.CategoricalIndex(rows[0]), axis=1),
    "index": lambda _, rows: pd.DataFrame(rows, index=pd.RangeIndex(7, 7 + len(rows))),
    "named index": lambda _, rows: pd.DataFrame(rows).set_index("question"),
    "two indices": lambda _, rows: pd.DataFrame(rows).set_index(list(rows[0])[:2]),
}
DOORS = FILES | IN_MEMORY
each_door = pytest.mark.parametrize("door", DOORS)


def refuse(*facts: str) -> Any:
    """One line that has all of these."""
    return pytest.raises(ValueError, match="".join(rf"(?=.*(?:{fact}))" for fact in facts) + r"\A[^\n]*\Z")


def list_rows(answers: Any, *columns: str) -> list[tuple[Any, ...]]:
    return list(nfqa.read(answers).answers[list(columns)].itertuples(index=False, name=None))


@each_door
def test_rows_of_a_table_are_the_same_by_each_door(door: str, tmp_path: Path) -> None:
    rows = [WHY | {"system": "x", "answer": "one"}, WHAT | {"system": "y", "answer": "two"}]
    assert list_rows(DOORS[door](tmp_path, rows), "text", "system") == [("one", "x"), ("two", "y")]


@pytest.mark.parametrize("door", IN_MEMORY)
def test_tidy_rows_are_the_same_by_each_door_in_memory(door: str, tmp_path: Path) -> None:
    rows = [WHY | {"answer": "a", "text": "one"}, WHY | {"answer": "b", "text": "two"}]
    assert list_rows(DOORS[door](tmp_path, rows), "answer", "text") == [("a", "one"), ("b", "two")]


@each_door
@pytest.mark.parametrize("fields", ["answer text", "text answer", "answer answers", "answer_id text answer"])
def test_of_several_columns_that_may_be_the_text_none_is_chosen(door: str, fields: str, tmp_path: Path) -> None:
    rows = [WHY | {field: f"the {field}" for field in fields.split()}]
    tidy = door in IN_MEMORY and set(fields.split()) == {"answer", "text"}
    if tidy:  # documented: the text, and the answer's id beside it
        assert list_rows(DOORS[door](tmp_path, rows), "answer", "text") == [("the answer", "the text")]
        return
    with refuse("'answers?'" if "answers" in fields else "'text'", "'answer"):
        nfqa.read(DOORS[door](tmp_path, rows))


@pytest.mark.parametrize(
    "item",
    [
        WHY | {"answers": [{"text": "one", "answer": "two"}]},
        WHY | {"answers": ["one"], "answer": "two"},
        WHY | {"answers": ["one"], "text": "two"},
    ],
)
@pytest.mark.parametrize("door", ["jsonl", "parquet", "dictionaries", "frame"])
def test_of_nested_fields_that_may_be_the_text_none_is_chosen(door: str, item: dict, tmp_path: Path) -> None:
    with refuse("row 1|line 1", "'text'|'answers'", "'answer'|'text'", "keep one"):
        nfqa.read(DOORS[door](tmp_path, [item]))


def test_the_refusal_says_how_an_id_is_called(tmp_path: Path) -> None:
    frames = nfqa.read([WHY | {"answer": "one"}])
    with refuse("line 2", "'text'", "answer_id"):
        nfqa.read(FILES["csv"](tmp_path, frames.answers.to_dict("records")))


@pytest.mark.parametrize("field", ["reference_0", "partial_answer_0", "reference_1_grade", "reference_1.1"])
@each_door
def test_a_numbered_column_that_would_not_be_read_is_refused(door: str, field: str, tmp_path: Path) -> None:
    row = WHY | {"answer": "one", "reference_1": "r", "partial_answer_1": "v", field: "x"}
    with refuse(f"'{field}'", "reference_1|partial_answer_1"):
        nfqa.read(DOORS[door](tmp_path, [row]))
    assert nfqa.read(DOORS[door](tmp_path, [row]), keep=field).answers[field].tolist() == ["x"]


@pytest.mark.parametrize("field", ["answer_id", "reference_1", "reference_2", "partial_answer_0", "references"])
def test_a_column_of_a_table_is_refused_beside_tidy_texts(field: str) -> None:
    with refuse(f"'{field}' is not read beside 'text'"):
        nfqa.read([WHY | {"text": "one", field: "x"}])


TABLE = [WHY | {"answer": "one"}]
NESTED = [WHY | {"answers": ["one"]}]


@pytest.mark.parametrize("option", ["references", "views"])
@pytest.mark.parametrize("rows", [TABLE, NESTED, [WHY | {"answer": "a", "answer_id": 1}]])
@pytest.mark.parametrize("door", ["jsonl", "parquet", "dictionaries", "frame", "arrow"])
def test_references_and_views_beside_rows_that_have_columns_for_them_are_refused(
    door: str, rows: Rows, option: str, tmp_path: Path
) -> None:
    with refuse(f"{option}=", "'text'", {"references": "reference", "views": "partial_answer"}[option]):
        nfqa.read(DOORS[door](tmp_path, rows), **{option: REFERENCES})


@pytest.mark.parametrize(
    ("answers", "options"),
    [
        (nfqa.read(TABLE), {"references": REFERENCES}),
        (nfqa.read(TABLE), {"views": pd.DataFrame(VIEWS)}),
        (nfqa.read(TABLE), {"keep": ["topic"]}),
        (nfqa.read(TABLE), {"questions": "test.jsonl"}),
        (TABLE, {"questions": "test.jsonl"}),
        (pd.DataFrame(TABLE), {"questions": "test.jsonl"}),
    ],
)
def test_an_option_that_would_not_be_read_is_refused(answers: Any, options: dict[str, Any]) -> None:
    with refuse(f"{next(iter(options))}="):
        nfqa.read(answers, **options)


def test_references_and_views_of_tidy_rows_are_read() -> None:
    frames = nfqa.read([WHY | {"text": "one"}], references=pd.DataFrame(REFERENCES), views=VIEWS)
    assert (len(frames.references), len(frames.views)) == (2, 1)


HEADERS = {
    "the same": ["question", "answer", "system"],
    "another order": ["system", "question", "answer"],
    "other columns": ["answer", "question", "label"],
    "other letters": ["Question", " ANSWER ", "System"],
    "mark of Excel": ["\ufeffquestion", "answer", "system"],
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize(("ending", "separator"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
def test_a_header_in_the_middle_is_refused_by_its_line(
    header: list[str], ending: str, separator: str, tmp_path: Path
) -> None:
    lines = [HEADERS["the same"], ["why?", "one\nline more", "x"], header, ["what?", "two", "y"]]
    frame = pd.DataFrame(lines)
    frame.to_csv(path := tmp_path / f"my.{ending}", index=False, header=False, sep=separator)
    with refuse(rf"my\.{ending}, line 4: ", "header"):
        nfqa.read(path)
    with refuse("answers, row 2: ", "header"):
        nfqa.read(pd.read_csv(path, sep=separator))
    with refuse("answers, row 2: ", "header"):
        nfqa.read(pd.read_csv(path, sep=separator).rename(columns={"answer": "text"}))


def test_a_word_that_is_a_column_s_name_is_a_text_like_any_other(tmp_path: Path) -> None:
    rows = [{"question": "What comes after a question?", "answer": "answer", "system": "system"}]
    assert list_rows(FILES["csv"](tmp_path, rows), "text", "system") == [("answer", "system")]


OPENINGS = (
    "AnalysisException means that a column is missing.",
    "AnalysisServices is a database engine.",
    "analysisPython is a package.",
    "AnalysisException and AssistantFinal are names of classes.",
    "Analysis Services is a database engine.",
    "Analysis of the sources shows both.",
    "Analysis\n\nBoth sides have a point.",
    "ANALYSIS: both sides have a point.",
    "Final answer: both sides have a point.",
    "Thinking about it, both sides have a point.",
    "Reasoning by analogy, both sides have a point.",
    "Thought experiments help both sides.",
    "Assistant: both sides have a point.",
)


@pytest.mark.parametrize("text", OPENINGS)
def test_a_word_that_an_answer_begins_with_is_no_thinking(text: str) -> None:
    frames = nfqa.read([WHY | {"text": text}, WHAT | {"text": "Yes."}])
    assert frames.answers.text.tolist() == [text, "Yes."]
    assert "only_thinking_answers" not in frames.warnings


BIG = 12_345_678_901_234_567_891


@pytest.mark.parametrize("value", [float(BIG), 1e22, -float(2**53), np.float64(2**60)])
@pytest.mark.parametrize("door", ["parquet", "dictionaries", "frame", "arrow"])
def test_an_id_whose_digits_are_lost_is_refused(door: str, value: float, tmp_path: Path) -> None:
    for field in ("answer_id", "id", "system"):
        with refuse(f"{field} is", LOST, "as text"):
            nfqa.read(DOORS[door](tmp_path, [WHY | {"answer": "one", field: value}]))


@pytest.mark.parametrize("written", ["12345678901234567891.0", "1e22", "1.5e300", "9007199254740993.0"])
def test_an_id_of_json_whose_digits_are_lost_is_refused(written: str, tmp_path: Path) -> None:
    path = tmp_path / "my.jsonl"
    for fields in ('"answer": "a", "answer_id"', '"answers": ["a"], "id"'):
        path.write_text(f'{{"question": "w?", {fields}: {written}}}')
        with refuse("line 1", LOST):
            nfqa.read(path)


@pytest.mark.parametrize("door", ["jsonl", "csv", "dictionaries"])
def test_a_whole_number_of_any_size_is_an_id(door: str, tmp_path: Path) -> None:
    rows = [WHY | {"answer": "one", "answer_id": str(BIG)}, WHY | {"answer": "two", "answer_id": str(BIG + 1)}]
    if door == "dictionaries":
        rows = [row | {"answer_id": int(row["answer_id"])} for row in rows]
    path = tmp_path / "my.jsonl"
    path.write_text("".join(f'{{"question": "w?", "answer": "{n}", "answer_id": {BIG + n}}}\n' for n in (0, 1)))
    answers = path if door == "jsonl" else DOORS[door](tmp_path, rows)
    assert list_rows(answers, "answer") == [(str(BIG),), (str(BIG + 1),)]


def test_ids_that_pandas_makes_floats_are_whole_or_refused() -> None:
    small = "question,text,answer\nw?,a,7\nw?,b,8\nw?,c,\n"
    large = small.replace("7", str(2**53 + 1))
    assert list_rows(pd.read_csv(io.StringIO(small)), "answer") == [("7",), ("8",), ("a3",)]
    with refuse("answers, row 1", LOST):
        nfqa.read(pd.read_csv(io.StringIO(large)))
    with refuse("row 2", "that of row 1, '1'"):
        nfqa.read([WHY | {"text": "a", "answer": 1.0}, WHY | {"text": "b", "answer": 1}])


def test_grades_are_joined_by_ids_whose_digits_are_all_there() -> None:
    ids = [2**53 + 1, 2**53 + 3, 2**53 + 5]
    scores = pd.DataFrame({"question": "q", "answer": list(map(str, ids)), "score": [1.0, 2, 3]})
    grades = pd.DataFrame({"question": "q", "answer": ids, "grade": [1, 2, 3]})
    assert nfqa.agreement(scores, grades).value.tolist() == pytest.approx([1.0] * 3)
    with refuse("grades: answer: ", LOST):
        nfqa.agreement(scores, grades.astype({"answer": float}))


@pytest.mark.parametrize("label", [0, 1.5, np.nan, ("a", "b"), pd.Timestamp("2020-01-01")])
@pytest.mark.parametrize("text", ["answer", "text"])
@pytest.mark.parametrize("form", ["frame", "dictionaries"])
def test_a_column_of_any_label_is_counted(label: Any, text: str, form: str) -> None:
    frame = pd.DataFrame([WHY | {text: "one"}])
    frame[label] = 1
    frames = nfqa.read(frame if form == "frame" else frame.to_dict("records"))
    assert frames.warnings[f"column_not_read: {label}"] == 1


def test_columns_without_names_or_in_levels_are_refused() -> None:
    with refuse("question is missing"):
        nfqa.read(pd.DataFrame([["why?", "one"]]))
    levels = pd.DataFrame([["why?", "one"]], columns=pd.MultiIndex.from_product([["a"], ["question", "text"]]))
    with refuse("answers", "2 levels"):
        nfqa.read(levels)
    with refuse("references", "2 levels"):
        nfqa.read([WHY | {"text": "one"}], references=levels)


def test_a_name_that_an_index_shares_with_a_column_is_refused() -> None:
    frame = pd.DataFrame([WHY | {"text": "one"}])
    with refuse("'question' is duplicated"):
        nfqa.read(frame.set_index("question", drop=False))
    with refuse("'text' is duplicated"):
        nfqa.read(pd.concat([frame, frame[["text"]]], axis=1))


def test_an_array_in_the_place_of_an_answer_is_named() -> None:
    with pytest.raises(ValueError, match=r"row 1: answers\[0\] is array"):
        nfqa.read([{"question": "why?", "answers": [np.array(["a", "b"])]}])
