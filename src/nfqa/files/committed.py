"""Parquet files in git of what a language model gave, read whole and checked; `tools/verdicts.py`
writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfqa.files.paths import explain_parquet

_MAY_LACK = ("logprobs", "verdict")


@dataclass(frozen=True)
class RowFormat:
    """The columns of a kind of file, and what names a row.

    columns: the type of each, as pyarrow names it, with an s at its end for a list.
    """

    columns: Mapping[str, str]
    find_key: Callable[[dict[str, Any]], Any]

    def read(self, files: Iterable[Path]) -> dict[Any, dict[str, Any]]:
        """The rows of all files by key.

        Raises: ValueError naming a file that is damaged or no Parquet, or whose columns are others.
        """
        return {self.find_key(row): row for path in files for row in self._read_file(path)}

    def _read_file(self, path: Path) -> list[dict[str, Any]]:
        from pyarrow import parquet

        advice = f"`git checkout -- {path}` restores a committed file"
        with explain_parquet(path, advice):
            table = parquet.ParquetFile(path, page_checksum_verification=True).read()
            if not table.schema.equals(self.schema):
                texts = [", ".join(f"{each.name} ({each.type})" for each in s) for s in (table.schema, self.schema)]
                raise ValueError(f"{path}: its columns are {texts[0]}; expected {texts[1]}; {advice}")
            return table.to_pylist()

    @property
    def schema(self) -> Any:
        """The columns as pyarrow has them."""
        import pyarrow

        types = {name: pyarrow.type_for_alias(kind.removesuffix("s")) for name, kind in self.columns.items()}
        types |= {name: pyarrow.list_(types[name]) for name, kind in self.columns.items() if kind.endswith("s")}
        return pyarrow.schema(pyarrow.field(name, each, nullable=name in _MAY_LACK) for name, each in types.items())
