"""A user's answers as a table, one row an answer, as a spreadsheet saves it: made into the objects of JSON lines."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from nfqa.data.json_lines import AnyText, Item, Name, Text, check, decode_text, refuse_repeats

TABLES, TEMPLATE = (".csv", ".tsv"), "own_answers.csv"  # how tables are named; the example in data/sample
TOP_GRADE = 3  # grades and labels run from 0, the worst
Grade = Annotated[int, Field(ge=0, le=TOP_GRADE)]
_NUMBERED = re.compile(r"(reference|partial_answer)_([1-9]\d*)")


def _read_number(cell: str) -> int | str:
    return int(float(cell)) if re.fullmatch(r"\d(\.0+)?", cell.strip()) else cell


class _Row(Item):
    question: Text
    answer: AnyText
    system: Name = ""
    label: Annotated[Grade, BeforeValidator(_read_number)] | None = None
    id: Name = ""
    answer_id: Name = ""
    reference_1: Text = ""  # and further numbers of these two, which are read apart
    partial_answer_1: Text = ""


def parse_table(name: str, content: bytes, counts: Counter[str]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Of each question of a table: its first line, where that is in words, and its object as JSON lines have it.

    Columns: question and answer; system, label, answer_id; id, reference_1 ... and partial_answer_1 ..., of the
    question, on one of its rows at least. A blank cell is not given. Cells are separated by commas, semicolons or tabs,
    whichever the first line has most of.
    Raises: ValueError naming file and line for what is no table, a column or cell that doesn't fit, or two rows that
        contradict.
    """
    text = decode_text(name, content).removeprefix("\ufeff")
    separator = max(",;\t", key=text.partition("\n")[0].count)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a text that is too long is refused as everywhere
    rows = csv.DictReader(StringIO(text, newline=""), delimiter=separator, strict=True)
    rows.fieldnames = [column.strip().lower().replace(" ", "_") for column in rows.fieldnames or ()]
    refuse_repeats(filter(None, rows.fieldnames), f"{name}, line 1: the column")
    found: dict[str, tuple[int, dict[str, Any]]] = {}
    try:
        for cells in rows:
            where = f"{name}, line {rows.line_num}"
            beyond = "".join(cells.pop(None, [])) + "".join(cells.pop("", "") or "")  # where no column is named
            given = {column: cell for column, cell in cells.items() if column == "answer" or str(cell or "").strip()}
            if not "".join(filter(None, given.values())).strip() and not beyond.strip():
                counts["blank_lines"] += 1
            elif beyond.strip():
                raise ValueError(
                    f"{where}: a cell is in no named column; name it, or put texts with {separator!r} in quotes"
                )
            else:
                _add_row(where, given, rows.line_num, found)
    except csv.Error as error:
        raise ValueError(
            f'{name}, line {rows.line_num}: {error}; put such a text in quotes, and write a quote as ""'
        ) from None
    for number, line in found.values():
        shared = {
            kind: [text for _, text in sorted(line.pop(kind).items())] for kind in ("references", "partial_answers")
        }
        yield number, f"{name}, line {number}", line | {kind: texts for kind, texts in shared.items() if texts}


def _add_row(where: str, given: dict[str, Any], number: int, found: dict[str, tuple[int, dict[str, Any]]]) -> None:
    """Add a row to its question's object, which has its numbered texts by number."""
    texts = {column: match for column in given if (match := _NUMBERED.fullmatch(column)) and match[2] != "1"}
    row = check(_Row, {column: cell for column, cell in given.items() if column not in texts}, where)
    question = row.question.strip()
    empty: dict[str, Any] = {"question": question, "references": {}, "partial_answers": {}, "answers": []}
    first, line = found.setdefault(question, (number, empty))
    shared: list[tuple[dict[Any, str], str | int, str]] = [(line, "id", row.id)]
    shared += [(line["references"], 1, row.reference_1), (line["partial_answers"], 1, row.partial_answer_1)]
    shared += [(line[f"{match[1]}s"], int(match[2]), given[column]) for column, match in texts.items()]
    for holder, key, text in shared:
        if text and holder.setdefault(key, text) != text:
            what = key if key == "id" else "a reference or partial answer"
            raise ValueError(
                f"{where}: {what} {text!r:.60} is not that of line {first}, {holder[key]!r:.60}; give it once"
            )
    answer = {"text": row.answer, "id": row.answer_id, "system": row.system, "label": row.label}
    line["answers"].append({key: value for key, value in answer.items() if value not in (None, "") or key == "text"})


def write_template(path: Path, root: Path) -> None:
    """Write an example of a table, to be filled in.

    Raises: ValueError for a file that is not named .csv; FileExistsError for one that is there.
    """
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{path}: expected a name that ends in .csv, as in `make score TEMPLATE=my.csv`")
    with path.open("xb") as file:
        file.write((root / "data" / "sample" / TEMPLATE).read_bytes())
