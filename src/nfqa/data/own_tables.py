"""Tables and data frames of a user's own answers, made into the objects of JSON lines."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from nfqa.data.json_lines import AnyText, Item, Name, Text, check, decode_text, refuse_repeats

if TYPE_CHECKING:
    import pandas as pd

TABLES, TEMPLATE = (".csv", ".tsv"), "own_answers.csv"  # how tables are named; the example in data/sample
TOP_GRADE = 3  # grades and labels run from 0, the worst
Grade = Annotated[int, Field(ge=0, le=TOP_GRADE)]
Lines = Iterable[tuple[int, str, dict[str, Any]]]  # number, where it is in words, the object
Table: TypeAlias = "pd.DataFrame | Sequence[Mapping[str, Any]]"
_VIEW = "point_of_view"
_NUMBERED = re.compile(r"(reference|partial_answer)_([1-9]\d*)")
EXAMPLES = {  # what an error shows of a frame
    "answers": '{"question": "Why is the sky blue?", "text": "Air scatters short waves.", "system": "mine"}',
    "references": '{"question": "Why is the sky blue?", "text": "Air scatters blue light most.", "grade": 3}',
    "views": '{"question": "Should pupils wear uniforms?", "text": "They make all equal."}',
}
_FIELDS = {  # of each frame: the field of JSON lines that it fills, and that field's own by column
    "answers": ("answers", {"text": "text", "answer": "id", "system": "system", "grade": "label"}),
    "references": ("references", {"text": "text", "grade": "grade"}),
    "views": ("partial_answers", {"text": _VIEW, "point_of_view": _VIEW, "explanation": "explanation"}),
}


def read_number(cell: Any) -> Any:
    """The whole number of a cell, 2 of "2" and of "2.0"; anything else as it is."""
    return int(float(cell)) if re.fullmatch(r"\d(\.0+)?", str(cell).strip()) else cell


class _Row(Item):
    question: Text
    answer: AnyText
    system: Name = ""
    label: Annotated[Grade, BeforeValidator(read_number)] | None = None
    id: Name = ""
    answer_id: Name = ""
    reference_1: Text = ""  # and further numbers of these two, which are read apart
    partial_answer_1: Text = ""


def parse_rows(name: str, content: bytes, counts: Counter[str]) -> Lines:
    """Each row of the bytes of a table that errors call `name`: its line, where it is in words, its cells by column.

    Cells are separated by commas, semicolons or tabs, whichever the first line has most of. Blank rows are counted.
    Raises: ValueError naming file and line for what is no table in UTF-8, or a column that is there twice.
    """
    text = decode_text(name, content).removeprefix("\ufeff")
    separator = max(",;\t", key=text.partition("\n")[0].count)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a text that is too long is refused as everywhere
    cells = csv.DictReader(StringIO(text, newline=""), delimiter=separator, strict=True)
    cells.fieldnames = [column.strip().lower().replace(" ", "_") for column in cells.fieldnames or ()]
    refuse_repeats(filter(None, cells.fieldnames), f"{name}, line 1: the column")
    try:
        for row in cells:
            where = f"{name}, line {cells.line_num}"
            beyond = "".join([*row.pop(None, []), row.pop("", "") or ""])  # where no column is named
            if beyond.strip():
                raise ValueError(f"{where}: a cell has no named column; name it, or quote texts with {separator!r}")
            given = {column: cell for column, cell in row.items() if cell is not None}  # a short row lacks some
            if "".join(given.values()).strip():
                yield cells.line_num, where, given
            else:
                counts["blank_lines"] += 1
    except csv.Error as error:
        where = f"{name}, line {cells.line_num}"
        raise ValueError(f'{where}: {error}; put such a text in quotes, and write a quote as ""') from None


def gather_rows(rows: Lines) -> Lines:
    """Rows of a table as objects of JSON lines, one a question.

    Columns: question and answer; system, label, answer_id; id, reference_1 ... and partial_answer_1 ..., of the
    question, on one of its rows at least, or alike on several. A blank cell is not given.
    """
    found: dict[str, tuple[int, str, dict[str, str], list[dict[str, Any]]]] = {}
    for number, where, cells in rows:
        given = {column: cell for column, cell in cells.items() if column == "answer" or str(cell).strip()}
        numbered = {column: given.pop(column) for column in list(given) if _NUMBERED.fullmatch(column)}
        row = check(_Row, given, where)
        first, _, shared, answers = found.setdefault(row.question.strip(), (number, where, {}, []))
        for column, text in ({"id": row.id} | numbered).items():
            if text and shared.setdefault(column, text) != text:
                known = f"that of line {first}, {shared[column]!r:.60}"
                raise ValueError(f"{where}: {column} {text!r:.60} is not {known}; give it once")
        own = {"id": row.answer_id or None, "system": row.system or None, "label": row.label}
        answers.append({"text": row.answer} | own)
    for question, (number, where, shared, answers) in found.items():
        line: dict[str, Any] = {"id": shared.pop("id", None), "question": question, "answers": answers}
        for column in sorted(shared, key=lambda column: (len(column), column)):  # 2 before 10
            line.setdefault(f"{column.rpartition('_')[0]}s", []).append(shared[column])
        yield number, where, line


def gather_frames(answers: list[dict[str, Any]], references: Table | None, views: Table | None) -> Lines:
    """Tidy frames as objects of JSON lines, one a question that is answered."""
    found: dict[str, tuple[int, str, dict[str, Any]]] = {}
    frames = {"answers": answers, "references": list_records(references), "views": list_records(views)}
    for name, records in frames.items():
        kind, fields = _FIELDS[name]
        for number, record in enumerate(records, start=1):
            where, question = f"{name}, row {number}", record.get("question")
            if question is None or not {"text", _VIEW} & record.keys():
                raise ValueError(f"{where}: needs 'question' and 'text'; expected rows such as {EXAMPLES[name]}")
            given = {
                field: read_number(record[column]) if column == "grade" else record[column]
                for column, field in fields.items()
                if column in record and (column == "text" or record[column] != "")
            }
            if name == "answers":
                found.setdefault(question, (number, where, {"question": question}))
            if question in found:
                found[question][2].setdefault(kind, []).append(given)
        if records and not any(record["question"] in found for record in records):
            raise ValueError(f"{name}: no question of theirs is answered, such as {records[0]['question']!r:.60}")
    return found.values()


def list_records(table: Any) -> list[dict[str, Any]]:
    """The rows of a frame or a list, without what is None or NaN; a text or answer that is so is empty."""
    rows = table.to_dict("records") if hasattr(table, "to_dict") else table or ()
    return [
        {key: "" for key in ("text", "answer") if key in row}
        | {key: value for key, value in row.items() if value is not None and value == value}
        for row in (each if isinstance(each, Mapping) else {} for each in rows)
    ]


def write_template(path: Path, root: Path) -> None:
    """Write an example of a table, to be filled in.

    Raises: ValueError for a file that is not named .csv; FileExistsError for one that is there.
    """
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{path}: expected a name that ends in .csv, as in `make score TEMPLATE=my.csv`")
    with path.open("xb") as file:
        file.write((root / "data" / "sample" / TEMPLATE).read_bytes())
