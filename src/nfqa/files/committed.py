"""Parquet files in git of what a language model gave: read whole, checked, and never replaced in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfqa.files.paths import write_atomically

_MAY_LACK = ("logprobs", "verdict")


@dataclass(frozen=True)
class RowFormat:
    """The columns of a kind of file, what names a row, and in what two rows of one name must be equal.

    columns: the type of each, as pyarrow names it, with an s at its end for a list. can_be: whether a model can have
    given a row's numbers.
    """

    columns: Mapping[str, str]
    find_key: Callable[[dict[str, Any]], Any]
    compared: Sequence[str]
    can_be: Callable[[dict[str, Any]], bool]

    def read(self, files: Iterable[Path]) -> dict[Any, dict[str, Any]]:
        """The rows of all files by key.

        Raises: ValueError naming a file that is damaged or no Parquet, or whose columns are others; or a row whose
            numbers can't be, or that contradicts another of its key.
        """
        rows: dict[Any, dict[str, Any]] = {}
        for path in files:
            advice = f"`git checkout -- {path}` restores a committed file"
            for number, row in enumerate(self._read_file(path, advice), 1):
                if not self.can_be(row):
                    raise ValueError(f"{path}, row {number}: no model gives such numbers; {advice}")
                if self._contradicts(rows.setdefault(self.find_key(row), row), row):
                    raise ValueError(f"{path}, row {number}: it contradicts another row of the same key; {advice}")
        return rows

    def merge(self, path: Path, rows: Iterable[dict[str, Any]]) -> str:
        """Write rows beside those that a file holds, which stay as they are, in the order of their keys.

        Returns: what became of it, in words. Raises: ValueError as `read`, of the file's rows or the new ones.
        """
        rows = list(rows)
        if impossible := sum(not self.can_be(row) for row in rows):
            raise ValueError(f"{path} stays as it is: no model gives the numbers of {impossible:,} new rows")
        merged = self.read([path] if path.is_file() else [])
        before = len(merged)
        differing = sum(self._contradicts(merged.setdefault(self.find_key(row), row), row) for row in rows)
        self._write(path, [{name: merged[key][name] for name in self.columns} for key in sorted(merged)])
        stayed = f"; {differing:,} stayed as they were, which differ here" if differing else ""
        return f"{len(merged):,} rows in {path}, {len(merged) - before:,} of them new{stayed}"

    def _contradicts(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        return any(one[name] != other[name] for name in self.compared)

    def _read_file(self, path: Path, advice: str) -> list[dict[str, Any]]:
        import pyarrow
        from pyarrow import parquet

        try:
            table = parquet.ParquetFile(path, page_checksum_verification=True).read()
            if not table.schema.equals(self._schema):
                texts = [", ".join(f"{each.name} ({each.type})" for each in s) for s in (table.schema, self._schema)]
                raise ValueError(f"{path}: its columns are {texts[0]}; expected {texts[1]}; {advice}")
            return table.to_pylist()
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            first = str(error).partition("\n")[0]
            raise ValueError(f"{path}: no Parquet file, or a damaged one ({first}); {advice}") from None

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        import pyarrow
        from pyarrow import parquet

        with write_atomically(path) as scratch:
            table = pyarrow.Table.from_pylist(rows, self._schema)
            parquet.write_table(table, scratch, compression="zstd", compression_level=19, write_page_checksum=True)

    @property
    def _schema(self) -> Any:
        import pyarrow

        types = {name: pyarrow.type_for_alias(kind.removesuffix("s")) for name, kind in self.columns.items()}
        types |= {name: pyarrow.list_(types[name]) for name, kind in self.columns.items() if kind.endswith("s")}
        return pyarrow.schema(pyarrow.field(name, each, nullable=name in _MAY_LACK) for name, each in types.items())
