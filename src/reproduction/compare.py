"""Results beside the paper: verdicts on published numbers, tables as the paper prints them, proxies
marked.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from reproduction.papers import OURS, STAND_IN, Paper, list_row_keys, show_name
from reproduction.values import name_keys, name_row, query_rows, write_intervals

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler
    from pandas.io.formats.style_render import CSSDict

EXPLAINED = "differs, explained"
UNEXPLAINED = "differs, cause unknown"
VERDICTS = ("equal", "near", EXPLAINED, UNEXPLAINED, "differs", "missing", "not run")
_ROWS = 24  # of a table on a terminal
NO_NUMBER = "–"  # in the place of a published number where there is none
SHADES = {"equal": "#cfe8d5", "near": "#e6f2e8", EXPLAINED: "#fbeecb", UNEXPLAINED: "#fbeecb", "differs": "#f6cfc9"}


def mark_stand_ins(paper: Paper, name: str, table: pd.DataFrame) -> pd.DataFrame:
    """An artefact's values with the origin "stand-in" where papers/*.yml says that a measured row
    is one.
    """
    for entry in paper.list_stand_ins(name):
        replaced = query_rows(table, entry.rows) & (table.origin == "measured")
        table = table.assign(origin=table.origin.mask(replaced, STAND_IN))
    return table


def list_replaced(paper: Paper, name: str, table: pd.DataFrame) -> dict[str, bool]:
    """Which proxies are in place of what in an artefact's values, a sentence each, and whether
    every value is by it.
    """
    measured = table[table.origin != "paper"]
    rows = {
        entry.says: query_rows(measured, entry.rows) & (measured.origin == STAND_IN)
        for entry in paper.list_stand_ins(name)
    }
    return {says: each.all() for says, each in rows.items() if each.any()}


def note_stand_ins(paper: Paper, name: str, table: pd.DataFrame) -> str:
    """What goes below a table or a figure in which proxies are marked by an asterisk, a line each;
    "" without any.
    """
    replaced = list_replaced(paper, name, table).items()
    return "\n".join(f"* proxy{' (every row)' if every else ''}: {says}" for says, every in replaced)


def compare_published(paper: Paper, name: str, table: pd.DataFrame | None) -> pd.DataFrame:
    """Every published number of an artefact beside the measured one, in the paper's order.

    Returns: the columns of `Paper.find_published`, and key, value, low, high, n, origin, verdict,
        why. Verdicts: equal, at the printed digits; near, within its tolerance or with the
        published value in the 95 % interval; differs, explained, or cause unknown, where
        papers/*.csv lists a reason for this measured number, to a unit of its last digit; not run,
        where it needs something; missing, where it needs nothing and the value is not there.
    """
    measured = ["value", "low", "high", "n", "origin"]
    table = pd.DataFrame(columns=["statistic", *measured], dtype=object) if table is None else table
    ours = _add_keys(table, name_keys(table))[["key", *measured]]
    published = paper.find_published(name)
    both = _add_keys(published, list_row_keys(published)).merge(ours, "left", "key", validate="m:1")
    both = both.astype(dict.fromkeys(measured[:3], np.float64))
    gap = both.value - both.published
    size = both.reason.str.extract(OURS)
    change = gap.map("{:+.4f}, ".format).astype(str)
    needs = ["; ".join(show_name(paper, need) for need in each.split("; ")) for each in both.needs]
    printed = both[["value", "decimals", "published"]].itertuples(index=False, name=None)
    equal = [round(value, decimals) == published for value, decimals, published in printed]
    listed = (both.value - size[0].astype(np.float64)).abs() <= 1.001 * 10.0 ** -size[1].str.len().astype(np.float64)
    cases = [
        (both.value.isna() & (both.needs != ""), "not run", "needs: " + pd.Series(needs, dtype=str)),
        (both.value.isna(), "missing", "run `make reproduce`"),
        (np.array(equal, dtype=bool), "equal", "the same at the printed digits"),
        (gap.abs() <= both.tolerance, "near", change + "within " + both.tolerance.astype(str)),
        (
            both.published.between(both.low, both.high),
            "near",
            change + "published value inside the measured 95 % interval",
        ),
        (listed & (both.cause == "known"), EXPLAINED, both.reason),
        (listed & (both.cause == "unknown"), UNEXPLAINED, "cause not established. " + both.reason),
        (gap.notna(), "differs", change + "no reason listed"),
    ]
    where, verdicts, why = zip(*cases, strict=True)
    return both.assign(verdict=np.select(where, verdicts, ""), why=np.select(where, why, ""))


def _add_keys(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The table with the column `key`, which is equal for rows of the same conditions, whichever
    are blank.
    """
    keys = [name_row(row) for row in table[list(conditions)].to_dict("records")]
    return table.assign(key=pd.Series(keys, table.index, dtype=object))


def lay_beside_paper(paper: Paper, name: str, table: pd.DataFrame) -> Styler:
    """The published table's own rows and columns, a cell showing the measured value above the
    published one.

    Cells are shaded by verdict; unpublished rows are below a rule; an asterisk marks a proxy, which
    a note below the table names.
    Raises: ValueError for an artefact without published numbers.
    """
    pivot = pivot_beside_paper(paper, name, table)
    verdicts = pivot["verdict"]
    note = note_stand_ins(paper, name, table)
    colours = verdicts.map(lambda verdict: f"background-color: {SHADES[verdict]}" if verdict in SHADES else "")
    look = {"white-space": "pre-line", "text-align": "left"}
    style = pivot["cell"].style.apply(lambda _: colours, axis=None).set_properties(**look)
    rules: list[CSSDict] = []
    if note:
        rules.append({"selector": "caption", "props": "caption-side: bottom; text-align: left; white-space: pre-line;"})
        style = style.set_caption(note)
    alone = np.flatnonzero(~verdicts.any(axis=1))  # unpublished rows
    if len(alone):
        first = f"tbody tr:nth-child({alone[0] + 1}) > *"
        rules.append({"selector": first, "props": "border-top: 2px solid #5b6470;"})
    return style.set_table_styles(rules)


def pivot_beside_paper(paper: Paper, name: str, table: pd.DataFrame | None) -> pd.DataFrame:
    """An artefact's table in the paper's rows, or its datasets where all its numbers are in one
    row.

    Returns: below each of cell (measured, with an asterisk behind a proxy, and on a second line the
        published value), verdict ("" in unpublished rows) and origin, the paper's columns.
        Published rows come first, in the paper's order; then unpublished ones, but for differences
        between rows.
    Raises: ValueError for an artefact without published numbers.
    """
    both = compare_published(paper, name, table)
    if both.empty:
        raise ValueError(f"{paper.paper}/{name} has no published numbers to lay a table beside")
    several = {side: len(both[side].unique()) > 1 for side in ("row", "dataset")}
    index = "dataset" if several["dataset"] and not several["row"] else "row"
    columns = ["dataset", "heading"] if several["dataset"] and index == "row" else ["heading"]
    ours = both[:0] if table is None else _list_ours_alone(paper, table, both)
    ours = ours.merge(both[columns].drop_duplicates(), on=columns)
    ours = ours[ours.dataset.isin(both.dataset)] if "dataset" in ours else ours  # not the sample's
    ours = ours.assign(ours=True, printed="", verdict="", unit=both.unit[0])
    both = pd.concat([both.assign(ours=False), ours], ignore_index=True)
    both["ours"] = both.groupby(index).ours.transform("min").astype(bool)  # one row of the table for each row's name
    places = both.printed.str.partition(".")[2].str.len()
    both["places"] = places.where(both.printed != "", places.max())
    both["cell"] = [_write_cell(row) for row in both.to_dict("records")]
    for side in ("dataset", "heading"):
        both[side] = both[side].map(lambda part: show_name(paper, part))
    both["origin"] = both.origin.astype(object).fillna("")
    cells = ["cell", "verdict", "origin"]
    pivot = both.pivot_table(cells, ["ours", index], columns, aggfunc="first", sort=False).fillna("")
    pivot = pivot.sort_index(level="ours", sort_remaining=False).droplevel("ours")
    return pivot.rename_axis(index=None, columns=[*[None] * len(columns), "measured here / published"])


def _list_ours_alone(paper: Paper, table: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Measured rows without a published number, each with the heading of its column; named by its
    conditions.
    """
    keys = name_keys(table)
    conditions = [name for name in list_row_keys(published) if name != "dataset"]
    cells = published.groupby(["row", "dataset"])
    by = [name for name in conditions if cells[name].nunique().max() > 1] or ["statistic"]  # what a heading says
    rows = _add_keys(table[query_rows(table, "difference_from == ''")], keys)
    rows = _add_keys(rows[~rows.key.isin(published.key)], [name for name in by if name in keys])
    words = name_rows(paper, rows, [name for name in keys if name not in ("dataset", "statistic", *by)])
    headings = _add_keys(published, by)[["key", "heading"]].drop_duplicates("key")
    return rows.assign(row=words).merge(headings, on="key").drop(columns="key")


def label_rows(paper: Paper, name: str, table: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """The table for a figure: each row with `label`, its metric and conditions in words, and
    `published`.

    Published rows come first, in the paper's order, also those without a measured value (`value`
    missing, `why`); then unpublished ones. An asterisk ends the label of a proxy. `dataset` and
    `statistic` are kept as they are, `panel` is the dataset's title. by: the columns that make the
    label, in its order; all conditions where none are named.
    """
    keys = name_keys(table)
    published = compare_published(paper, name, table)
    labels = name_rows(
        paper, table, [key for key in by or keys if key in table and key not in ("dataset", "statistic")]
    )
    ours = _add_keys(table, keys).assign(label=labels)
    conditions = list_row_keys(published)
    published["place"] = pd.factorize(published.row)[0]
    both = ours.merge(published[["key", "row", "published", "place"]], "left", "key", validate="m:1")
    both["label"] = both.row.fillna(both.label) + np.where(both.origin == STAND_IN, "*", "")
    lonely = published[~published.key.isin(ours.key)][[*conditions, "row", "published", "place", "why"]]
    lonely = lonely.rename(columns={"row": "label"})
    for column in {*keys} & {*conditions}:
        if pd.api.types.is_numeric_dtype(table[column]):
            lonely[column] = pd.to_numeric(lonely[column])
    both = pd.concat([both.drop(columns="row"), lonely], ignore_index=True)
    both = both.sort_values("place", kind="stable", ignore_index=True).drop(columns=["key", "place"])
    return both.assign(panel=[show_name(paper, part) for part in both.dataset] if "dataset" in both else "")


def name_rows(paper: Paper, table: pd.DataFrame, names: Iterable[str]) -> pd.Series:
    """Each row's metric and conditions in words, by the table's index."""
    words = [say_conditions(paper, row) for row in table[list(names)].to_dict("records")]
    return pd.Series(words, table.index, dtype=object)


def say_differences(paper: Paper, rows: pd.DataFrame) -> list[str]:
    """Each row's conditions in words, of those in which the rows differ."""
    differing = [name for name in name_keys(rows) if len(rows[name].unique()) > 1]
    return [say_conditions(paper, row) for row in rows[differing].to_dict("records")]


def say_conditions(paper: Paper, conditions: Mapping[Hashable, object]) -> str:
    """Conditions in words, those that are given: a number after its column, a difference as "A
    minus B".
    """
    words = ""
    for name, part in conditions.items():
        if part is None or part != part or part == "":
            continue
        both = f"{name}={part}"  # where a value means another thing in this column than elsewhere
        word = show_name(paper, both if both in paper.names else part)
        word = f"{show_name(paper, name)} {word}" if re.fullmatch(r"-?\d+(\.\d+)?", word) else word
        words += f"{' minus ' if name == 'difference_from' else ', '}{word}"
    return words.removeprefix(", ").strip()


def _write_cell(row: Mapping[Hashable, Any]) -> str:
    published = row["printed"] or NO_NUMBER
    if pd.isna(row["value"]):
        return f"not run\n{published}"
    scale = 100 if row["unit"] == "%" else 1
    value, low, high = (f"{row[name] * scale:.{row['places']}f}" for name in ("value", "low", "high"))
    interval = "" if pd.isna(row["low"]) else f" [{low}, {high}]"
    return f"{value}{'*' if row['origin'] == STAND_IN else ''}{interval}\n{published}"


def _flatten(cells: pd.DataFrame) -> pd.DataFrame:
    """A table's cells in one line each, below one line of headings."""
    flat = cells.map(lambda cell: cell.replace("\n", " / "))
    if isinstance(flat.columns, pd.MultiIndex):
        flat.columns = [", ".join(name) for name in flat.columns]
    return flat.rename_axis(cells.columns.names[-1])


def tabulate_values(paper: Paper, name: str, table: pd.DataFrame) -> str:
    """An artefact's values for a terminal: the paper's table, or each value with its conditions.

    The latter are those of the sample, which says nothing of a paper, and of an artefact without
    published numbers. A cell is the measured value, `*` for a proxy, and the published value. Of
    more than 24 rows the first are printed.
    """
    if (paper.published.artefact == name).any() and "sample" not in table.origin.tolist():
        cells = _flatten(pivot_beside_paper(paper, name, table)["cell"])
    else:
        words = name_rows(paper, table, name_keys(table))
        cells = write_intervals(table, digits=3, whole_from=100).set_axis(words).to_frame("measured here")
    more = f"... and {len(cells) - _ROWS} more rows in the CSV" if len(cells) > _ROWS else ""
    return "\n".join(
        filter(None, [cells.head(_ROWS).to_string(line_width=150), note_stand_ins(paper, name, table), more])
    )
