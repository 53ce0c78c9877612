"""The questions of a file of any kind, whole or in parts; and a table of each part's scores, as a Parquet file."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nfqa.files.json_lines import Extra, parse_line, parse_lines, refuse_utf16
from nfqa.files.paths import refuse_stream, stamp, write_atomically
from nfqa.files.tables import TABLES, Lines, gather_rows, parse_rows

if TYPE_CHECKING:
    import pandas as pd

_OTHER = re.compile(rb'(?:\xef\xbb\xbf)?\s*[\w"%\xd0\[]')  # how a workbook, a PDF, a JSON array and a table begin
_PACKED = {
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    b"BZh": "compressed with bzip2; unpack it first",
    b"\xfd7zXZ": "compressed with xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it first",
    b"PK\x03\x04": "a workbook or another zip file; save the sheet as CSV UTF-8, or unpack it first",
}
_AROUND = b' "\r\n\xef\xbb\xbf'  # a cell of the first line
_NOTE = b"nfqa"  # in a table's metadata


@dataclass(frozen=True)
class Part:
    """Some questions of a file, from the byte, row or question `start` up to `stop`; by default all.

    first: the number of its first line or row, from 1. lines: how many questions, or lines of JSON, it has. digest: a
    hash of what it holds.
    """

    number: int = 0
    first: int = 1
    lines: int = 0
    start: int = 0
    stop: int = sys.maxsize
    digest: str = ""


_WHOLE = Part()


def cut_file(path: Path, size: int) -> Iterator[Part]:
    """The parts of a file, of `size` questions each; a blank line of JSON lines counts as one.

    A table, and JSON lines with one answer per line, are read whole, as rows of one question may lie anywhere; of JSON
    lines with a question each, and of Parquet, where rows of one question follow each other, memory stays flat.
    Raises: ValueError for a file of another kind, a size below 1, or a file without a line; OSError.
    """
    if size < 1:
        raise ValueError(f"shard is {size}; expected a number of lines from 1")
    start = 0
    pieces = _read_pieces(path, Extra(Counter()), _WHOLE)
    for number in count():
        some = list(islice(pieces, size))
        if not some:
            break
        digest = hashlib.sha256()
        for _, _, piece in some:
            digest.update(piece if isinstance(piece, bytes) else json.dumps(piece, default=str).encode())
        yield Part(number, some[0][0], len(some), start, some[-1][1], digest.hexdigest())
        start = some[-1][1]
    if not start:
        expected = "one JSON object per line" if find_kind(path) == "lines" else "one answer per row"
        raise ValueError(f"{path}: holds no answer; expected {expected}")


def read_objects(path: Path, extra: Extra, part: Part = _WHOLE) -> Lines:
    """The questions of a file or a part of it, as objects of JSON lines, each with its number and where it is in words.

    Raises: ValueError naming file, line and field, unless `extra` takes what is wrong with a line.
    """
    pieces = _read_pieces(path, extra, part)
    if part == _WHOLE and find_kind(path) == "parquet":  # its rows of one question may lie anywhere
        pieces = iter([(1, 0, [row for _, _, rows in pieces for row in rows])])
    read = 0
    for number, stop, piece in pieces:
        read += 1
        try:
            if isinstance(piece, bytes):
                item = parse_line(str(path), piece, extra.counts, number, stop - len(piece))
                objects = [(number, f"{path}, line {number}", item)] if item is not None else []
            elif isinstance(piece, dict):
                objects = [(number, f"{path}, line {number}", piece)]
            else:
                rows = [(place, f"{path}, row {place}", row) for place, row in enumerate(piece, start=number)]
                objects = rows if _is_nested(piece) else list(gather_rows(rows, extra))
        except ValueError as error:
            extra.skip(error)
        else:
            yield from objects
    if part.lines not in (0, read):
        raise ValueError(f"{path}: has changed since it was cut into parts; run again")


def find_kind(path: Path) -> Literal["lines", "rows", "table", "parquet"]:
    """What a file of answers is: JSON lines with a question or with an answer each, a table, or Parquet.

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


def _read_pieces(path: Path, extra: Extra, part: Part) -> Iterator[tuple[int, int, Any]]:
    """Each question of a part as it is stored: its number, where the next one starts, and what it is.

    That is a line of JSON lines (bytes), the rows of a Parquet file that follow each other (a list), or the object that
    a table's rows make.
    """
    kind = find_kind(path)
    place = part.start
    if kind == "lines":
        with path.open("rb") as file:
            file.seek(place)
            for number, line in enumerate(file, start=part.first):
                if place >= part.stop:
                    break
                place += len(line)
                yield number, place, line
    elif kind == "parquet":
        rows = enumerate(_iterate_rows(path, place, part.stop), start=place)
        for _, pairs in groupby(rows, lambda pair: pair[0] if _is_nested([pair[1]]) else pair[1].get("question")):
            group = [row for _, row in pairs]
            place += len(group)
            yield place - len(group) + 1, place, group
    else:
        questions, counts = _read_table(path, kind == "table", tuple(extra.keep), *stamp(path))
        extra.counts.update(counts if place == 0 else {})
        for number, _, question in questions[place : part.stop]:
            place += 1
            yield number, place, question


def _is_nested(rows: list[dict[str, Any]]) -> bool:
    return any("answers" in row for row in rows[:1])


@lru_cache(maxsize=1)
def _read_table(path: Path, table: bool, keep: tuple[str, ...], *_: int) -> tuple[list[Any], Counter[str]]:
    """The questions of rows anywhere in a file, and what was counted; read once, unless the file is edited."""
    extra = Extra(Counter(), keep)
    parse = parse_rows if table else parse_lines
    return list(gather_rows(parse(str(path), path.read_bytes(), extra.counts), extra)), extra.counts


def _iterate_rows(path: Path, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file from `start` up to `stop`, its other row groups not read; no index of a frame."""
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    with path.open("rb") as source:  # pyarrow takes no name that is not UTF-8
        try:
            file = ParquetFile(source)
        except ArrowInvalid as error:
            raise ValueError(f"{path}: is no Parquet file ({error})") from None
        names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
        place = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            wanted = place < stop and place + rows > start
            for batch in file.iter_batches(1_000, [group], names) if wanted else ():
                try:
                    yield from batch[max(start - place, 0) : max(stop - place, 0)].to_pylist()
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"{path}: a text is not UTF-8 ({error.reason}); save the file again as UTF-8"
                    ) from None
                place += batch.num_rows
            place += 0 if wanted else rows


def write_table(path: Path, table: pd.DataFrame, note: dict[str, Any]) -> None:
    """Write a table as Parquet, whole or not at all, with a note in its metadata."""
    import pyarrow
    from pyarrow import parquet

    arrow = pyarrow.Table.from_pandas(table, preserve_index=False)
    arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), _NOTE: json.dumps(note).encode()})
    with write_atomically(path) as scratch:
        parquet.write_table(arrow, scratch, compression="zstd")


def read_note(path: Path) -> dict[str, Any]:
    """The note of a table; empty where there is none that this module wrote, {"damaged": True} of what is no table."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        return json.loads((read_schema(path).metadata or {}).get(_NOTE, b"{}"))
    except OSError:
        return {}
    except ArrowException:
        return {"damaged": True}
