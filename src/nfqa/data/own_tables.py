"""A user's answers as a table, a row an answer: read strictly, into the objects that a file of JSON lines has."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from nfqa.data.json_lines import AnyText, Name, Text, check, decode_text, refuse_repeats, suggest

TABLES, TEMPLATE = (".csv", ".tsv"), "own_answers.csv"  # how tables are named; the example in data/sample
TOP_GRADE = 3  # grades and labels run from 0, the worst
Grade = Annotated[int, Field(ge=0, le=TOP_GRADE)]
_COLUMNS: dict[str, Any] = {
    "question": Text, "answer": AnyText, "system": Name, "label": Grade, "id": Name, "answer_id": Name,
    "reference_1": Text, "partial_answer_1": Text,
}  # fmt: skip
_NUMBERED = re.compile(r"(reference|partial_answer)_([1-9][0-9]*)")


@dataclass
class _Asked:
    """A question of a table: its first line, the cells that its rows share with their lines, and its answers."""

    line: int
    shared: dict[str, tuple[Any, int]] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)  # of the answers that have a name

    def add(self, where: str, number: int, row: dict[str, Any]) -> None:
        """Take in a row. Raises: ValueError naming its line and an earlier one that it contradicts."""
        for column in [name for name in row if name == "id" or _NUMBERED.fullmatch(name)]:
            value, line = self.shared.setdefault(column, (row[column], number))
            if value != row[column]:
                hint = "; an answer's own id is in the column answer_id" if column == "id" else ""
                raise ValueError(
                    f"{where}, column {column}: {row[column]!r:.60} is not that of line {line}, {value!r:.60}, though"
                    f" the question is the same; give it once{hint}"
                )
        answer = {"text": row["answer"], "id": row.get("answer_id"), **{n: row.get(n) for n in ("system", "label")}}
        if named := answer["id"] or answer["system"]:
            first = self.lines.setdefault(named, number)
            if first != number:
                column = "answer_id" if answer["id"] else "system"
                raise ValueError(
                    f"{where}, column {column}: line {first} has an answer of {named!r:.60} to the same question; give"
                    " each its own answer_id"
                )
        self.answers.append(answer)

    def list_shared(self, kind: str) -> list[str]:
        """Its texts of numbered columns, by number."""
        found = [(_NUMBERED.fullmatch(column), text) for column, (text, _) in self.shared.items()]
        return [text for _, text in sorted((int(m[2]), text) for m, text in found if m and m[1] == kind)]


def parse_table(name: str, content: bytes, counts: Counter[str]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Of each question of a table: its first line, where that is in words, and its object as JSON lines have it.

    A row is an answer. Columns: question and answer; system, label, answer_id; id, reference_1 ... and partial_answer_1
    ..., of the question, on one of its rows at least. A blank cell is not given. Cells are separated by commas,
    semicolons or tabs, whichever the first line has between known names; one in quotes may hold them and line breaks.
    Raises: ValueError naming file, line and column for a column or cell that doesn't fit, or two rows that contradict.
    """
    text = decode_text(name, content).removeprefix("\ufeff")
    first = next(iter(text.strip().splitlines()), "")
    separator = max(",;\t", key=lambda mark: len({*map(_read_column, first.split(mark))} & {*_COLUMNS}))
    columns: list[str] = []
    asked: dict[str, _Asked] = {}
    for number, cells in _read_rows(name, text, separator):
        where = f"{name}, line {number}"
        if not any(cell.strip() for cell in cells):
            counts["blank_lines"] += 1
        elif not columns:
            columns = [_read_column(cell) for cell in cells]
            _check_columns(where, columns)
        else:
            row = _read_row(where, columns, cells)
            asked.setdefault(row["question"], _Asked(number)).add(where, number, row)
    for question, own in asked.items():
        shared = {"id": own.shared["id"][0]} if "id" in own.shared else {}
        for field_, kind in (("references", "reference"), ("partial_answers", "partial_answer")):
            if texts := own.list_shared(kind):
                shared[field_] = texts
        yield own.line, f"{name}, line {own.line}", {"question": question, "answers": own.answers, **shared}


def _read_column(cell: str) -> str:
    return cell.strip(' "\t\r\n').lower().replace(" ", "_")


def _read_rows(name: str, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each row's first line and its cells."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a text that is too long is refused as everywhere
    rows, number = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), 1
    try:
        for cells in rows:
            yield number, cells
            number = rows.line_num + 1
    except csv.Error as error:
        hint = 'put a cell with quotes or line breaks in quotes, and write a quote within as ""'
        raise ValueError(f"{name}, line {number}: {error}; {hint}") from None


def _check_columns(where: str, columns: Sequence[str]) -> None:
    for column in columns:
        if column and column not in _COLUMNS and not _NUMBERED.fullmatch(column):
            near = suggest(column, _COLUMNS)
            raise ValueError(
                f"{where}: unknown column {column!r:.60}; {near}known: {', '.join(_COLUMNS)}, reference_2 ..."
            )
    refuse_repeats(filter(None, columns), f"{where}: the column")
    for column in ("question", "answer"):
        if column not in columns:
            raise ValueError(f"{where}: column {column} is missing; add it")


def _read_row(where: str, columns: Sequence[str], cells: Sequence[str]) -> dict[str, Any]:
    """The cells of a row that are given, as their columns have them."""
    if any(cell.strip() for cell in cells[len(columns) :]):
        raise ValueError(f"{where}: has {len(cells)} cells, more than columns ({len(columns)}); put texts in quotes")
    row = {}
    for column, cell in zip(columns, cells, strict=False):
        if not column and cell.strip():
            raise ValueError(f"{where}: found {cell!r:.60} in a column without a name; name it, or empty the cell")
        if column in ("question", "answer") or cell.strip():
            shape = _COLUMNS.get(column) or _COLUMNS[f"{column.rpartition('_')[0]}_1"]
            value = _read_number(cell) if column == "label" else cell.strip() if column == "question" else cell
            row[column] = check(shape, value, f"{where}, column {column}")
    for column in {"question", "answer"} - {*row}:
        raise ValueError(f"{where}: ends before column {column}; put texts with line breaks in quotes")
    return row


def _read_number(cell: str) -> int | float | str:
    """The number of a cell, 2 also where it is written 2.0; another text as it is."""
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if number.is_integer() else number


def write_template(path: Path, root: Path) -> None:
    """Write an example of a table, to be filled in.

    Raises: ValueError for a file that is not named .csv; FileExistsError for one that is there.
    """
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{path}: expected a name that ends in .csv, as in `make score TEMPLATE=my.csv`")
    with path.open("xb") as file:
        file.write((root / "data" / "sample" / TEMPLATE).read_bytes())
