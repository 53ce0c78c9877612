"""A file of answers of any kind, its questions read one by one as the objects of JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from nfqa.files.json_lines import Extra, iterate_lines, parse_lines, refuse_utf16
from nfqa.files.paths import explain_parquet, refuse_stream
from nfqa.files.tables import TABLES, Lines, gather_rows, parse_rows

_OTHER = re.compile(rb'(?:\xef\xbb\xbf)?\s*[\w"%\xd0\[]')  # how a workbook, a PDF, a JSON array and a table begin
_PACKED = {
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    b"BZh": "compressed with bzip2; unpack it first",
    b"\xfd7zXZ": "compressed with xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it first",
    b"PK\x03\x04": "a workbook or another zip file; save the sheet as CSV UTF-8, or unpack it first",
}
_AROUND = b' "\r\n\xef\xbb\xbf'  # a cell of the first line
_AT_ONCE = 1_000  # rows of Parquet
_AGAIN = "write it again, with texts in UTF-8"


def find_kind(path: Path) -> Literal["lines", "rows", "table", "parquet"]:
    """What a file of answers is: JSON lines with a question or with an answer each, a table, or
    Parquet.

    A table is known by its name, or by the columns of its first line.
    Raises: ValueError for what begins as none of these; OSError.
    """
    refuse_stream(path)
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file of answers")
    with path.open("rb") as file:
        line = next(filter(bytes.strip, file), b"")
    for start, packed in _PACKED.items():
        if line.startswith(start):
            raise ValueError(f"{path}: is {packed}")
    suffix = path.suffix.lower()
    columns = {cell.strip(_AROUND) for cell in re.split(rb"[,;\t]", line.lower())}
    if suffix in (".parquet", ".pq") or line.startswith(b"PAR1"):
        return "parquet"
    refuse_utf16(str(path), line)
    if suffix in TABLES or {b"question", b"answer"} <= columns:
        return "table"
    if _OTHER.match(line):
        known = "a table (.csv or .tsv; save a workbook's sheet as CSV UTF-8), Parquet"
        raise ValueError(f"{path}: is neither {known} nor JSON lines (one object per line)")
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return "lines"
    flat = isinstance(first, dict) and "answers" not in first and not isinstance(first.get("answer", []), list | dict)
    return "rows" if flat else "lines"


def read_objects(path: Path, extra: Extra) -> Lines:
    """The questions of a file as objects of JSON lines, each with its number and where it is in
    words.

    JSON lines with a question each, and Parquet with a column `answers`, are read as they are
    taken. Where each answer has a row, the file is read whole first, since rows of one question may
    lie anywhere.
    Raises: ValueError naming file, line and field, unless `extra` takes what is wrong with a line;
        OSError.
    """
    name = str(path)
    match find_kind(path):
        case "lines":
            with path.open("rb") as file:
                yield from iterate_lines(name, file, extra)
        case "rows":
            yield from gather_rows(parse_lines(name, path.read_bytes(), extra.counts), extra)
        case "table":
            yield from gather_rows(parse_rows(name, path.read_bytes(), extra.counts), extra)
        case "parquet":
            yield from _read_parquet(path, extra)


def _read_parquet(path: Path, extra: Extra) -> Lines:
    from pyarrow.parquet import ParquetFile

    with path.open("rb") as source:  # pyarrow takes no name that is not UTF-8
        with explain_parquet(path, _AGAIN):
            file = ParquetFile(source)
        columns = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
        rows = enumerate(_iterate_rows(path, file, columns), start=1)
        lines = ((number, f"{path}, row {number}", row) for number, row in rows)
        yield from lines if "answers" in columns else gather_rows(lines, extra)


def _iterate_rows(path: Path, file: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    with explain_parquet(path, _AGAIN):
        for batch in file.iter_batches(_AT_ONCE, columns=columns):
            yield from batch.to_pylist()
