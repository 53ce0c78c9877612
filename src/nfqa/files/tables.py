"""Tables and data frames of a user's own answers, made into the objects of JSON lines."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field

from nfqa.files.debateqa import PointOfView
from nfqa.files.json_lines import (
    SCORED,
    AnyText,
    Extra,
    Item,
    Name,
    Text,
    check,
    decode_text,
    read_number,
    read_value,
    refuse_repeats,
    refuse_twins,
)
from nfqa.files.records import UNLABELLED

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".tsv")
SAMPLE_FOLDER = Path(__file__).parents[1] / "sample"  # a table and JSON lines
TOP_GRADE = 3  # grades and labels run from 0, the worst
Grade = Annotated[int, Field(ge=0, le=TOP_GRADE), BeforeValidator(read_number)]
Lines = Iterable[tuple[int, str, dict[str, Any]]]  # number, where it is in words, the object
Table: TypeAlias = "pd.DataFrame | Sequence[Mapping[str, Any]]"
OF_TABLES = {"answer", "answer_id", "label", "reference_1", "partial_answer_1"}  # columns, where none is called text
_FURTHER = re.compile(r"(reference|partial_answer)_([2-9]|[1-9]\d+)")
NUMBERED = re.compile(r"(reference|partial_answer)_\d")
_OF_QUESTION = {"id", "reference_1", "partial_answer_1"}
_LINE = {"id", "question", "answers"}
_FORMULA = re.compile(r"'*([=@\t]|[+-](?!\d*\.?\d*(e[+-]?\d+)?$))")  # -2.5 and +1e-7 are numbers
EXAMPLES = {  # what an error shows of a frame
    "answers": '{"question": "Why is the sky blue?", "text": "Air scatters short waves.", "system": "mine"}',
    "references": '{"question": "Why is the sky blue?", "text": "Air scatters blue light most.", "grade": 3}',
    "views": '{"question": "Should pupils wear uniforms?", "text": "They make all equal."}',
}


class Reference(Item):
    """A reference, a bare text or an object, and maybe its grade."""

    bare = "text"
    text: Text
    grade: Grade = UNLABELLED


class _Row(Item):
    model_config = ConfigDict(extra="allow")
    blank = scored = "answer"
    question: Text
    answer: AnyText = Field(serialization_alias="text")
    system: Name = ""
    label: Grade | None = None
    id: Name = ""
    answer_id: Name = Field("", serialization_alias="id")
    reference_1: Text = ""  # and further numbers of these two, which are read apart
    partial_answer_1: Text = ""


class _AnswerRow(Item):
    model_config = ConfigDict(extra="allow")
    blank = scored = "text"
    question: Text
    text: AnyText
    answer: Name = Field("", serialization_alias="id")
    system: Name = ""
    grade: Grade | None = Field(None, serialization_alias="label")


class _ReferenceRow(Reference):
    question: Text


class _ViewRow(PointOfView):
    question: Text


def parse_rows(name: str, content: bytes, counts: Counter[str]) -> Lines:
    """Each row of the bytes of a table that errors call `name`: its first line, where it is in
    words, cells by column.

    Cells are separated by commas, semicolons or tabs, whichever the first line has most of, or as
    Excel's first line `sep=;` says. Blank rows are counted, and so are the cells of a first column
    without a name: a data frame's index.
    Raises: ValueError naming file and line for what is no table in UTF-8, or a column that is there
        twice.
    """
    text = decode_text(name, content).removeprefix("\ufeff")
    excel = re.match(r"sep=(.)[\r\n]", text)
    separator = excel[1] if excel else max(",;\t", key=text.partition("\n")[0].count)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a text that is too long is refused as everywhere
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    begin = 1
    try:
        names = next(reader, []) if not excel else list(islice(reader, 2))[-1]
        columns = [column.strip().lower().replace(" ", "_") for column in names]
        refuse_repeats(filter(None, columns), f"{name}, line {reader.line_num}: the column")
        begin = reader.line_num + 1
        for cells in reader:
            where, first, begin = f"{name}, line {begin}", begin, reader.line_num + 1
            pairs = list(zip_longest(columns, cells[: len(columns)]))  # a short row lacks some
            beyond = cells[len(columns) :] + [cell or "" for column, cell in pairs[1:] if not column]
            if "".join(beyond).strip():
                raise ValueError(f"{where}: a cell has no named column; name it, or quote texts with {separator!r}")
            counts["column_not_read: the first, without a name"] += columns[:1] == [""] and cells[:1] not in ([], [""])
            if "".join(cells).strip():
                yield first, where, {column: cell for column, cell in pairs if column and cell is not None}
            else:
                counts["blank_lines"] += 1
    except csv.Error as error:
        what = f"in the row that begins here a text in quotes doesn't end before a {separator!r} or the row's end"
        raise ValueError(f'{name}, line {begin}: {what} ({error}); write a quote inside it as ""') from None


def gather_rows(rows: Lines, extra: Extra) -> Lines:
    """Rows of a table as objects of JSON lines, one a question.

    Columns: question and answer; system, label, answer_id; id, reference_1 ... and partial_answer_1
    ..., of the question, on one of its rows at least, or alike on several. A blank cell is not
    given.
    """
    lines: dict[str, tuple[int, str, dict[str, Any]]] = {}
    seen: dict[str, dict[int, str]] = {}  # of each question
    for number, where, cells in rows:
        _refuse_header(cells, where)
        fields = _drop_blanks(cells)
        further = {name: fields.pop(name) for name in cells if _FURTHER.fullmatch(name)}
        _refuse_numbers(fields.keys() - set(extra.keep), where)
        row = check(_Row, fields, where, extra)
        question = row.question.strip()
        _, first, line = lines.setdefault(question, (number, where, {"question": question, "answers": []}))
        for column, cell in (row.model_dump(include=_OF_QUESTION) | further).items():
            text = read_value(cell) and check(Text, cell, f"{where}: {column}")
            if text and line.setdefault(column, text) != text:
                known = f"that of {first.rpartition(', ')[2]}, {line[column]!r:.60}"
                raise ValueError(f"{where}: {column} {text!r:.60} is not {known}; give it once")
        line["answers"].append(_dump_item(row, seen, where))
    for _, _, line in lines.values():
        for column in sorted(line.keys() - _LINE, key=lambda column: (len(column), column)):  # 2 before 10
            line.setdefault(f"{column.rpartition('_')[0]}s", []).append(line.pop(column))
    return lines.values()


def gather_frames(answers: list[dict[str, Any]], references: Table | None, views: Table | None, extra: Extra) -> Lines:
    """Tidy frames as objects of JSON lines, one a question that is answered."""
    lines: dict[str, tuple[int, str, dict[str, Any]]] = {}
    seen: dict[str, dict[int, str]] = {}  # of each question
    frames: dict[str, tuple[list[dict[str, Any]], str, type[Any]]] = {
        "answers": (answers, "answers", _AnswerRow),
        "references": (list_records(references, "references"), "references", _ReferenceRow),
        "views": (list_records(views, "views"), "partial_answers", _ViewRow),
    }
    for name, (records, field, shape) in frames.items():
        questions = set()
        for number, record in enumerate(records, start=1):
            where = f"{name}, row {number}"
            _refuse_header(record, where)
            if name == "views" and "point_of_view" not in record:
                record = {"point_of_view" if key == "text" else key: value for key, value in record.items()}
            try:
                row = check(shape, _drop_blanks(record), where, extra)
            except ValueError as error:
                raise ValueError(f"{error}; expected rows such as {EXAMPLES[name]}") from None
            questions.add(question := row.question.strip())
            item = _dump_item(row, seen if name == "answers" else {}, where)
            if name == "answers":
                lines.setdefault(question, (number, where, {"question": question}))
            items = lines[question][2].setdefault(field, []) if question in lines else []
            extra.counts[f"{name}_of_unanswered_questions"] += question not in lines
            if name == "references" and items and ("grade" in item) != ("grade" in items[0]):
                raise ValueError(f"{where}: some references to {question!r:.60} have a grade; grade all or none")
            items.append(item)
        if questions and questions.isdisjoint(lines):
            raise ValueError(f"{name}: none of these questions appears among the answers, such as {question!r:.60}")
    return lines.values()


def _refuse_header(cells: dict[str, Any], where: str) -> None:
    """Raises: ValueError for a row of columns' names, as it stands where files were put together
    with their headers.
    """
    words = {cell.strip('\ufeff" ').lower() for cell in cells.values() if isinstance(cell, str)}
    if "question" in words and not words.isdisjoint(SCORED):
        raise ValueError(f"{where}: is a header, as where tables are put one after the other; remove it")


def _refuse_numbers(names: Iterable[str], where: str) -> None:
    """Raises: ValueError for a column with a number that is not read, as reference_0 and
    reference_1_grade.
    """
    for name in names:
        match = NUMBERED.match(name)
        if match and name != f"{match[1]}_1":
            raise ValueError(f"{where}: unknown field {name!r}; expected {match[1]}_1, {match[1]}_2 ...")


def _drop_blanks(cells: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(cell, str) and not cell.strip() else cell for name, cell in cells.items()}


def _dump_item(row: Any, seen: dict[str, dict[int, str]], where: str) -> dict[str, Any]:
    """A row as in JSON lines, without its question. Raises: ValueError where an answer `seen` to it
    has the same id.
    """
    item = row.model_dump(exclude={"question", *_OF_QUESTION}, exclude_defaults=True, by_alias=True)
    if "id" in item:
        question = row.question.strip()
        what = f"the answer's id to {question!r:.60}"
        refuse_twins(seen.setdefault(question, {}), where, {what: item["id"]})
    return item


def list_records(table: Any, name: str) -> list[dict[str, Any]]:
    """The rows of a frame (of pandas, or what converts to one) or a list, which errors call `name`."""
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    if hasattr(table, "columns"):
        if table.columns.nlevels > 1:
            raise ValueError(f"{name}: the columns have {table.columns.nlevels} levels of names; give them one")
        indices = [index for index in table.index.names if index is not None]
        refuse_repeats(map(str, [*indices, *table.columns]), f"{name}: the column")
        table = table.reset_index(indices).to_dict("records")
    rows = () if table is None else table
    return [{str(key): cell for key, cell in row.items()} if isinstance(row, Mapping) else {} for row in rows]


def write_template(path: Path) -> None:
    """Write an example of a table, to be filled in.

    Raises: ValueError for a file that is not named .csv, or is there already.
    """
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{path}: expected a name that ends in .csv, as in `nfqa template my.csv`")
    if path.exists():
        raise ValueError(f"{path}: File exists; name another file, or remove this one")
    with path.open("xb") as file:
        file.write((SAMPLE_FOLDER / "answers.csv").read_bytes())


def escape_formula(cell: Any) -> Any:
    """A cell of a CSV as it may be opened: a text that a spreadsheet would run as a formula has an
    apostrophe first.
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell
