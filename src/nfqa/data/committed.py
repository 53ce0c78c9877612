"""Parquet files in git of what a language model gave: read whole, checked, and never replaced in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nfqa.data.paths import write_atomically

_SHORT = ("float", "floats")  # four bytes, which hold six digits


def read_rows(path: Path, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of a file, each number as it was before it was written.

    Args: columns: the type of each, as pyarrow names it, or "strings" or "floats"; with "?" where a value may be None.
        Numbers of type "float" and "floats" have six digits.
    Raises: ValueError naming the file for one that is damaged or no Parquet, or whose columns are others.
    """
    import pyarrow
    from pyarrow import parquet

    advice = f"`git checkout -- {path}` restores a committed file"
    try:
        table = parquet.ParquetFile(path, page_checksum_verification=True).read()
        rows = table.to_pylist()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: no Parquet file, or a damaged one ({error}); {advice}") from None
    schema = _make_schema(columns)
    if not table.schema.equals(schema):
        raise ValueError(f"{path}: its columns are {_show(table.schema)}; expected {_show(schema)}; {advice}")
    for name in (name for name, kind in columns.items() if kind.rstrip("?") in _SHORT):
        for row in rows:
            row[name] = _shorten(row[name])
    return rows


def write_rows(path: Path, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows, whole or not at all; equal rows give equal bytes.

    Args: columns: as `read_rows`. Raises: ValueError for a number of more than six digits where they are six.
    """
    import pyarrow
    from pyarrow import parquet

    kept = [{name: row[name] for name in columns} for row in rows]
    for name in (name for name, kind in columns.items() if kind.rstrip("?") in _SHORT):
        if longer := [row[name] for row in kept if _shorten(row[name]) != row[name]]:
            raise ValueError(f"{path}: {name} {longer[0]} has more than six digits, which this format doesn't hold")
    with write_atomically(path) as scratch:
        table = pyarrow.Table.from_pylist(kept, _make_schema(columns))
        parquet.write_table(table, scratch, compression="zstd", compression_level=19, write_page_checksum=True)


def _make_schema(columns: Mapping[str, str]) -> Any:
    import pyarrow

    lists = {"strings": pyarrow.list_(pyarrow.string()), "floats": pyarrow.list_(pyarrow.float32())}
    kinds = {name: (kind.rstrip("?"), kind.endswith("?")) for name, kind in columns.items()}
    return pyarrow.schema([
        pyarrow.field(name, lists.get(kind) or pyarrow.type_for_alias(kind), nullable=may_lack)
        for name, (kind, may_lack) in kinds.items()
    ])  # fmt: skip


def _show(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type}{'?' if field.nullable else ''})" for field in schema)


def _shorten(value: Any) -> Any:
    """A number, or each of a list, in six digits."""
    if isinstance(value, list):
        return [_shorten(one) for one in value]
    return value if value is None else float(f"{value:.6g}")
