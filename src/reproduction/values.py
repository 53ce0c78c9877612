"""Values on disk: results/PAPER/NAME.csv, tidy and rounded once, and NAME.json, what they were made
from.

A row is one value: `dataset`, `metric`, conditions, `statistic`; then `value`, `low` and `high`
(95 % interval), `spread` (standard deviation over seeds), `n`, `dropped`, `resampled` (what was drawn
independently, and how many), `dropped_because`, `origin` and `signature`. No time, host or path is
in either file: two equal runs give equal bytes.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nfqa.files.paths import write_text

NUMBERS = ("value", "low", "high", "spread")
COUNTS = ("n", "dropped")
MEASURED = (*NUMBERS, *COUNTS, "resampled", "dropped_because", "origin", "signature")
NAMES = ("question", "answer", "system")
EXACT_DIGITS = 12  # significant digits of exact arithmetic that survive another processor
MODEL_DIGITS = 6  # those of a model's floating point


def name_keys(values: pd.DataFrame) -> list[str]:
    """The columns that identify a row: dataset, metric, the conditions in order, statistic."""
    first = [name for name in ("dataset", "metric") if name in values]
    conditions = [name for name in values.columns if name not in (*first, "statistic", *MEASURED)]
    return [*first, *conditions, "statistic"]


def tidy_values(values: pd.DataFrame, *, origin: str, exact: Collection[str] | bool = ()) -> pd.DataFrame:
    """Values as they are written: every column there, rounded, in order of their keys.

    Args: values: at least `statistic` and `value`; origin: for rows that name none; exact: metrics
        that no model's floating point is behind, or True for all: they keep 12 significant digits,
        others 6. Whole numbers stay whole.
    Raises: ValueError for a missing column, an infinite value, or two rows with one key.
    """
    lacking = [name for name in ("statistic", "value") if name not in values]
    if lacking:
        raise ValueError(f"the values have no column {', '.join(lacking)}; they have {', '.join(values.columns)}")
    blank = {name: np.nan if name in (*NUMBERS, *COUNTS) else "" for name in MEASURED if name not in values}
    table = values.drop(columns="note", errors="ignore").assign(**blank)  # a note is one of single scores
    table["origin"] = table.origin.replace("", np.nan).fillna(origin)
    keys = name_keys(table)
    for name in keys:
        if not pd.api.types.is_numeric_dtype(table[name]):
            texts = table[name].astype(object).where(table[name].notna(), "").astype(str)
            table[name] = texts if name in NAMES else _read_numbers(texts)
    is_exact = np.full(len(table), exact) if isinstance(exact, bool) else table.get("metric", "").isin(list(exact))
    for name in NUMBERS:
        column = table[name].astype(np.float64)
        rounded = round_digits(column, MODEL_DIGITS).mask(is_exact, round_digits(column, EXACT_DIGITS))
        table[name] = column.where(column % 1 == 0, rounded) + 0.0  # no minus zero
    table = table.astype(dict.fromkeys(COUNTS, "Int64"))
    table = table.fillna(dict.fromkeys(("resampled", "dropped_because", "signature"), ""))
    _check_rows(table)
    in_order = {"key": lambda column: _read_numbers(column) if column.name in NAMES else column}  # 3 before 27
    return table[[*keys, *MEASURED]].sort_values(keys, ignore_index=True, na_position="first", **in_order)


def _check_rows(table: pd.DataFrame) -> None:
    """Refuse an infinite number, and two rows with one key."""
    keys = name_keys(table)
    infinite = np.isinf(table[[*NUMBERS]].to_numpy(dtype=np.float64)).any(axis=1)
    for rows, problem in ((infinite, "infinite value"), (table.duplicated(keys), "duplicate (a condition is missing)")):
        if rows.any():
            raise ValueError(f"{problem}: the row {table.loc[rows, keys].iloc[0].to_dict()}")


def round_digits(column: pd.Series, digits: int) -> pd.Series:
    """Numbers rounded to significant digits."""
    return column.map(f"{{:.{digits}g}}".format).astype(np.float64)


def write_values(stem: Path, table: pd.DataFrame, provenance: Mapping[str, Any]) -> None:
    """Write STEM.csv and STEM.json, each moved into place whole."""
    write_text(stem.with_suffix(".csv"), table.to_csv(index=False, lineterminator="\n"))
    write_json(stem.with_suffix(".json"), provenance)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON of which equal contents give equal bytes."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_values(path: Path | StringIO) -> pd.DataFrame:
    """Values from a CSV file: conditions as text, or as numbers where all are; blank where one does
    not apply.

    Names that users or datasets give (NAMES) stay text: a system called "07" is not one called "7".

    Raises: ValueError naming the file when it is no values file: a column is missing, two rows have
        one key, or a number is none or infinite.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        lacking = [name for name in ("statistic", *MEASURED) if name not in table]
        if lacking or table.empty:
            raise ValueError(f"it has no column {', '.join(lacking)}" if lacking else "it has no rows")
        table = table.assign(**{name: pd.to_numeric(table[name]) for name in (*NUMBERS, *COUNTS)})
        table = table.astype(dict.fromkeys(COUNTS, "Int64"))
        _check_rows(table)
    except (ValueError, TypeError, OverflowError) as error:  # pandas on counts that are no whole numbers
        raise ValueError(f"{path}: not a values file ({error}); run the artefact again") from None
    conditions = [name for name in name_keys(table) if name not in NAMES]
    return table.assign(**{name: _read_numbers(table[name]) for name in conditions})


def _read_numbers(column: pd.Series) -> pd.Series:
    """A condition's column as numbers where each of its words is one, or blank; as it is otherwise."""
    numbers = pd.to_numeric(column.replace("", None), errors="coerce")
    return numbers if numbers.notna().any() and (numbers.notna() | (column == "")).all() else column


def match_rows(table: pd.DataFrame, wanted: Mapping[str, object]) -> pd.Series:
    """Which rows have exactly these conditions: those named are equal, all others are blank."""
    rows = table[name_keys(table)].to_dict("records")
    return pd.Series([name_row(row) == name_row(wanted) for row in rows], table.index, dtype=bool)


def name_row(conditions: Mapping[Any, object]) -> frozenset[tuple[Any, str]]:
    """The conditions of a row that are given, as text: equal for rows of the same conditions, a key
    of dicts.
    """
    texts = {name: f"{part:.12g}" if isinstance(part, (int, float)) else str(part) for name, part in conditions.items()}
    return frozenset((name, text) for name, text in texts.items() if text not in ("", "nan", "None"))


def query_rows(table: pd.DataFrame, query: str) -> pd.Series:
    """Which rows a pandas query picks; all without one. What does not apply is '', as is a column
    that isn't there.
    """
    names = {node.id for node in ast.walk(ast.parse(query, mode="eval")) if isinstance(node, ast.Name)} if query else {}
    blank = table.reset_index(drop=True).reindex(columns=list(names)).astype(object)
    picked = blank.where(blank.notna(), "").query(query, engine="python").index if query else blank.index
    return pd.Series(blank.index.isin(picked), table.index)


def pick(table: pd.DataFrame, **conditions: object) -> pd.Series:
    """The one row with exactly these conditions, all others blank; its `said` is "value [low,
    high]".

    Raises: ValueError naming the conditions where no row has them.
    """
    rows = table[match_rows(table, conditions)]
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows have {conditions}; expected one. The columns are {name_keys(table)}")
    return rows.assign(said=write_intervals(rows, digits=3)).iloc[0]


def write_intervals(
    table: pd.DataFrame, *, digits: int = 2, whole_from: float = np.inf, tiny: bool = False
) -> pd.Series:
    """Each row as "value [low, high]": without brackets where it has no interval, "undefined"
    without a value.

    Args: whole_from: rows whose value is of this size or more are written without decimals; tiny: a
        positive value that would come out as 0 without being it is written as "<0.01".
    Returns: texts by the table's index, so that they stay with their rows in whatever order.
    """
    texts = []
    for value, low, high in table[["value", "low", "high"]].astype(float).itertuples(index=False):
        form = ",.0f" if abs(value) >= whole_from else f".{digits}f"
        interval = "" if np.isnan(low) else f" [{low:{form}}, {high:{form}}]"
        if np.isnan(value):
            number = "undefined"
        elif tiny and 0 < value < 0.5 * 10**-digits:
            number = f"<{10**-digits:{form}}"
        else:
            number = f"{value:{form}}"
        texts.append(f"{number}{interval}")
    return pd.Series(texts, table.index, dtype=object)


def write_numbers(table: pd.DataFrame) -> pd.Series:
    """Each value with its interval; a whole number without an interval has no decimals."""
    texts = write_intervals(table, digits=3, whole_from=100)
    is_whole = table.low.isna() & (table.value.astype(float) % 1 == 0)
    return texts.mask(is_whole, texts.str.split(".").str[0])
