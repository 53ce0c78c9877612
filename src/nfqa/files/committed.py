"""Parquet files in git of what a language model gave, read whole and checked; `tools/verdicts.py`
writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAY_LACK = ("logprobs", "verdict")


@dataclass(frozen=True)
class RowFormat:
    """The columns of a kind of file, what names a row, and in what two rows of one name must be
    equal.

    columns: the type of each, as pyarrow names it, with an s at its end for a list. can_be: whether
    a model can have given a row's numbers.
    """

    columns: Mapping[str, str]
    find_key: Callable[[dict[str, Any]], Any]
    compared: Sequence[str]
    can_be: Callable[[dict[str, Any]], bool]

    def read(self, files: Iterable[Path]) -> dict[Any, dict[str, Any]]:
        """The rows of all files by key.

        Raises: ValueError naming a file that is damaged or no Parquet, or whose columns are others;
            or a row whose numbers can't be, or that contradicts another of its key.
        """
        rows: dict[Any, dict[str, Any]] = {}
        for path in files:
            advice = f"`git checkout -- {path}` restores a committed file"
            for number, row in enumerate(self._read_file(path, advice), 1):
                if not self.can_be(row):
                    raise ValueError(f"{path}, row {number}: no model gives such numbers; {advice}")
                if self.contradicts(rows.setdefault(self.find_key(row), row), row):
                    raise ValueError(f"{path}, row {number}: it contradicts another row of the same key; {advice}")
        return rows

    def contradicts(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether two rows of one key differ."""
        return any(one[name] != other[name] for name in self.compared)

    def _read_file(self, path: Path, advice: str) -> list[dict[str, Any]]:
        import pyarrow
        from pyarrow import parquet

        try:
            table = parquet.ParquetFile(path, page_checksum_verification=True).read()
            if not table.schema.equals(self.schema):
                texts = [", ".join(f"{each.name} ({each.type})" for each in s) for s in (table.schema, self.schema)]
                raise ValueError(f"{path}: its columns are {texts[0]}; expected {texts[1]}; {advice}")
            return table.to_pylist()
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            first = str(error).partition("\n")[0]
            raise ValueError(f"{path}: no Parquet file, or a damaged one ({first}); {advice}") from None

    @property
    def schema(self) -> Any:
        """The columns as pyarrow has them."""
        import pyarrow

        types = {name: pyarrow.type_for_alias(kind.removesuffix("s")) for name, kind in self.columns.items()}
        types |= {name: pyarrow.list_(types[name]) for name, kind in self.columns.items() if kind.endswith("s")}
        return pyarrow.schema(pyarrow.field(name, each, nullable=name in _MAY_LACK) for name, each in types.items())
