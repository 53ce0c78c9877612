"""A large file of answers cut into parts, each read by itself; and a table of each part, kept as a Parquet file."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.files.json_lines import Extra, parse_lines
from nfqa.files.own_tables import TABLES, Lines, gather_rows, parse_rows
from nfqa.files.paths import stamp, write_atomically

if TYPE_CHECKING:
    import pandas as pd

PARQUET, _LINES = ".parquet", (".jsonl", ".json", ".ndjson")
_NOTE = b"nfqa"  # in a table's metadata
_Cut = Iterator[tuple[int, int, int, int, str]]


@dataclass(frozen=True)
class Part:
    """Some questions of a file: `lines` lines or rows, from the byte or row `start` up to `stop`.

    first: the number of its first line or row, from 1. digest: a hash of what it holds.
    """

    number: int
    first: int
    lines: int
    start: int
    stop: int
    digest: str


def cut_file(path: Path, size: int) -> Iterator[Part]:
    """The parts of a file, of `size` lines (JSON lines), rows (Parquet) or questions (a table) each.

    Rows of Parquet with one question that follow each other stay together, so that a part may be longer. A table, and
    JSON lines with an answer a line, are read whole, as rows of one question may lie anywhere; of other files memory
    stays flat.
    Raises: ValueError for a file of another kind, a size below 1, or a file without a line; OSError.
    """
    if size < 1:
        raise ValueError(f"shard is {size}; expected a number of lines from 1")
    ending = path.suffix.lower()
    cutters = {PARQUET: _cut_rows} | dict.fromkeys(_LINES, _cut_lines) | dict.fromkeys(TABLES, _cut_table)
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file of answers")
    if ending not in cutters:
        known = "JSON lines (.jsonl), Parquet (.parquet) or a table (.csv, .tsv; save a workbook's sheet as CSV UTF-8)"
        raise ValueError(f"{path}: is named {ending or 'without an ending'}; expected {known}")
    number = -1
    for number, cut in enumerate((_cut_table if _holds_rows(path) else cutters[ending])(path, size)):
        yield Part(number, *cut)
    if number < 0:
        expected = "one JSON object a line" if ending in _LINES else "one answer a row"
        raise ValueError(f"{path}: holds no answer; expected {expected}")


def _cut_lines(path: Path, size: int) -> _Cut:
    first, start = 1, 0
    with path.open("rb") as file:
        while True:
            digest, lines, stop = hashlib.sha256(), 0, start
            while lines < size and (line := file.readline()):
                digest.update(line)
                lines, stop = lines + 1, stop + len(line)
            if not lines:
                return
            yield first, lines, start, stop, digest.hexdigest()
            first, start = first + lines, stop


def _cut_rows(path: Path, size: int) -> _Cut:
    digest, start, stop = hashlib.sha256(), 0, 0
    for rows in _group_rows(_iterate_rows(path)):
        if stop - start >= size:
            yield start + 1, stop - start, start, stop, digest.hexdigest()
            digest, start = hashlib.sha256(), stop
        for row in rows:
            digest.update(json.dumps(row, default=str).encode())
            stop += 1
    if stop > start:
        yield start + 1, stop - start, start, stop, digest.hexdigest()


def _cut_table(path: Path, size: int) -> _Cut:
    questions, _ = _read_table(path, *stamp(path))
    for start in range(0, len(questions), size):
        part = questions[start : start + size]
        digest = hashlib.sha256(json.dumps(part, default=str).encode()).hexdigest()
        yield part[0][0], len(part), start, start + len(part), digest


@lru_cache(maxsize=1)
def _read_table(path: Path, *_: int) -> tuple[list[tuple[int, str, dict[str, Any]]], Counter[str]]:
    """The questions of a table as objects of JSON lines, and what was counted; read once, unless the file is edited."""
    extra = Extra(Counter())
    return list(read_objects(path, extra)), extra.counts


def read_objects(path: Path, extra: Extra) -> Lines:
    """The objects of JSON lines that a file holds or, where it has an answer a row, makes of its rows."""
    if path.suffix.lower() == PARQUET:
        rows = [(number, f"{path}, row {number}", row) for number, row in enumerate(_iterate_rows(path), start=1)]
        return rows if rows and "answers" in rows[0][2] else gather_rows(rows, extra)
    parse = parse_rows if path.suffix.lower() in TABLES else parse_lines
    lines = parse(str(path), path.read_bytes(), extra.counts)
    return gather_rows(lines, extra) if _holds_rows(path) else lines


def _holds_rows(path: Path) -> bool:
    """Whether a file is a table, or JSON lines with an answer each, as a frame's `to_json` writes them."""
    if path.suffix.lower() in (*TABLES, PARQUET):
        return path.suffix.lower() in TABLES
    with path.open("rb") as file:
        line = next(filter(bytes.strip, file), b"")
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "answers" not in first and not isinstance(first.get("answer", []), list | dict)


def _iterate_rows(path: Path, start: int = 0, stop: int = sys.maxsize) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file from `start` up to `stop`, its other row groups not read."""
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
    except ArrowInvalid as error:
        raise ValueError(f"{path}: is no Parquet file ({error})") from None
    with file:
        begin = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if begin + rows > start and begin < stop:
                place = begin
                for batch in file.iter_batches(1_000, row_groups=[group]):
                    if start < place + batch.num_rows and place < stop:
                        yield from _list_rows(path, batch)[max(start - place, 0) : stop - place]
                    place += batch.num_rows
            begin += rows


def _list_rows(path: Path, batch: Any) -> list[dict[str, Any]]:
    """Rows without the index of a frame that they were."""
    named = [name for name in batch.schema.names if not name.startswith("__index_level_")]
    try:
        return batch.select(named).to_pylist()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: a text is not UTF-8 ({error.reason}); write the file anew") from None


def _group_rows(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows of each question: one that holds its answers, or those that follow each other with an answer each."""
    by = groupby(enumerate(rows), lambda pair: pair[0] if "answers" in pair[1] else pair[1].get("question"))
    return ([row for _, row in own] for _, own in by)


def read_part(
    path: Path, part: Part, counts: Counter[str]
) -> Iterator[tuple[int, str, bytes | dict[str, Any] | list[dict[str, Any]]]]:
    """Each question of a part: its number, where it is in words, and its line, its object, or its rows by column.

    counts: takes what was counted in a table, with its first part.
    """
    if _holds_rows(path):
        questions, counted = _read_table(path, *stamp(path))
        counts.update(counted if part.start == 0 else {})
        yield from questions[part.start : part.stop]
        return
    if path.suffix.lower() != PARQUET:
        with path.open("rb") as file:
            file.seek(part.start)
            for number in range(part.first, part.first + part.lines):
                if (line := file.readline()).strip(b"\xef\xbb\xbf \t\r\n"):
                    yield number, f"{path}, line {number}", line
        return
    number = part.first
    for rows in _group_rows(_iterate_rows(path, part.start, part.stop)):
        yield number, f"{path}, row {number}", rows
        number += len(rows)
    if number != part.first + part.lines:
        raise ValueError(f"{path}: has changed since it was cut into parts; run again")


def write_table(path: Path, table: pd.DataFrame, note: dict[str, Any]) -> None:
    """Write a table as Parquet, whole or not at all, with a note in its metadata."""
    import pyarrow
    from pyarrow import parquet

    made = pyarrow.Table.from_pandas(table, preserve_index=False)
    made = made.replace_schema_metadata({**(made.schema.metadata or {}), _NOTE: json.dumps(note).encode()})
    with write_atomically(path) as scratch:
        parquet.write_table(made, scratch, compression="zstd")


def count_rows(path: Path) -> int:
    """How many rows a table has."""
    from pyarrow.parquet import read_metadata

    return int(read_metadata(path).num_rows)


def read_note(path: Path) -> dict[str, Any]:
    """The note of a table; empty where there is no table, or none of ours."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        return json.loads((read_schema(path).metadata or {}).get(_NOTE, b"{}"))
    except (OSError, ArrowException):
        return {}
