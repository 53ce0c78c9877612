"""Ours beside the paper: verdicts on published numbers, and tables in the shape in which the paper prints them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nfqa.data.paths import find_place, write_atomically
from nfqa.lab.artefacts import Leaf, Paper, list_leaves, list_needs
from nfqa.lab.open import show_name
from nfqa.lab.values import is_given, match_rows, name_keys

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

    from nfqa.lab.open import Lab

VERDICTS = ("equal", "near", "differs, known", "differs", "missing", "not run")
SHADES = {"equal": "#cfe8d5", "near": "#e6f2e8", "differs, known": "#fbeecb", "differs": "#f6cfc9"}


def compare_published(paper: Paper, name: str, table: pd.DataFrame | None) -> pd.DataFrame:
    """Every published number of an artefact beside ours, in the paper's order.

    Returns: system, dataset, metric, printed (as text), published, value, low, high, n, origin, verdict, why. Verdicts:
        equal, at the printed digits; near, within the artefact's tolerance or with the published value in our 95 %
        interval; differs, known where papers/*.yml lists the reason; not run, where a role or file is needed; missing,
        where none is and the value is not there.
    """
    rows = []
    for leaf in list_leaves(paper, name):
        found = None if table is None else table[match_rows(table, leaf.columns)]
        row = {} if found is None or found.empty else found.iloc[0][["value", "low", "high", "n", "origin"]].to_dict()
        verdict, why = _judge(paper, name, leaf, row)
        key = {"system": leaf.system, "dataset": leaf.dataset, "metric": leaf.metric}
        rows.append(key | {"printed": leaf.text, "published": leaf.value} | row | {"verdict": verdict, "why": why})
    columns = ["system", "dataset", "metric", "printed", "published", "value", "low", "high", "n", "origin"]
    return pd.DataFrame(rows, columns=[*columns, "verdict", "why"])


def _judge(paper: Paper, name: str, leaf: Leaf, row: dict) -> tuple[str, str]:
    artefact, value = paper.artefacts[name], row.get("value", np.nan)
    if np.isnan(value):
        needs = list_needs(paper, name, leaf.system)
        return ("not run", f"needs: {', '.join(needs)}") if needs else ("missing", "run `make reproduce`")
    gap = value - leaf.value
    if round(value, leaf.decimals) == leaf.value:
        return "equal", "the same at the printed digits"
    if abs(gap) <= artefact.tolerance:
        return "near", f"{gap:+.4f}, within {artefact.tolerance}"
    if row["low"] <= leaf.value <= row["high"]:
        return "near", f"{gap:+.4f}, published value inside our 95 % interval"
    for known in artefact.known_differences:
        fields = zip((known.system, known.dataset, known.metric), leaf.key, strict=True)
        if all(want in (None, have) for want, have in fields):
            return "differs, known", known.reason
    return "differs", f"{gap:+.4f}, no reason listed"


def lay_beside_paper(lab: Lab, table: pd.DataFrame) -> Styler:
    """The published table's own rows and columns, a cell showing ours with its interval above the published value.

    Cells are shaded by verdict; rows that are ours alone are below a rule. The same table is written as LaTeX and
    Markdown beside the run's other work (build/tables/).
    Raises: ValueError for an artefact without published numbers.
    """
    paper, layout = lab.paper, lab.artefact.layout
    published = compare_published(paper, lab.name, table)
    if published.empty:
        raise ValueError(f"{lab.identifier} has no published numbers to lay a table beside")
    ours = _list_ours_alone(lab, table, published[list(layout.columns)].drop_duplicates())
    both = pd.concat([published.assign(ours=False), ours.assign(ours=True, printed="", verdict="")], ignore_index=True)
    both["cell"] = [_write_cell(row, lab.artefact.decimals, lab.artefact.scale) for row in both.to_dict("records")]
    sides = [*layout.rows, *layout.columns]
    both[sides] = both[sides].map(lab.title)
    index, columns = ["ours", *layout.rows], list(layout.columns)
    pivot = both.pivot_table(["cell", "verdict"], index, columns, aggfunc="first", sort=False)
    pivot = pivot.sort_index(level="ours", sort_remaining=False)
    alone = pivot.index.get_level_values("ours").to_numpy(dtype=bool)
    pivot = pivot.droplevel("ours").rename_axis(index=[None] * len(layout.rows), columns=[None] * (1 + len(columns)))
    cells, shades = pivot["cell"].fillna(""), pivot["verdict"]
    _write_tables(lab, cells)
    colours = shades.map(lambda verdict: f"background-color: {SHADES[verdict]}" if verdict in SHADES else "")
    style = cells.style.apply(lambda _: colours, axis=None).set_properties(
        **{"white-space": "pre-line", "text-align": "left"}
    )
    if alone.any() and not alone.all():
        first = int(np.flatnonzero(alone)[0])
        rule = [{"selector": f"tbody tr:nth-child({first + 1}) > *", "props": "border-top: 2px solid #5b6470;"}]
        style = style.set_table_styles(rule)
    return style


def _list_ours_alone(lab: Lab, table: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Rows of ours that no published number is beside, in the published columns; named by metric and conditions."""
    artefact, keys = lab.artefact, name_keys(table)
    taken = pd.Series(False, table.index)
    for leaf in list_leaves(lab.paper, lab.name):
        taken |= match_rows(table, leaf.columns)
    rows = table[~taken]
    told = {name for columns in artefact.statistics.values() for name in columns}  # what a leaf's metric says
    metric = rows.statistic.copy()
    for name, columns in artefact.statistics.items():
        sides = {side: columns.get(side, "") for side in told & set(keys)}
        metric[np.logical_and.reduce([is_given(rows[side], want) for side, want in sides.items()])] = name
    named = [name for name in keys if name not in ("dataset", "statistic", *told, *artefact.columns)]
    found = rows.assign(metric=metric, system=name_rows(lab.paper, rows, named))
    shown = ["system", "dataset", "metric", "value", "low", "high", "n", "origin"]
    return found.merge(known, on=list(known.columns))[shown]


def label_rows(lab: Lab, table: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """The table for a figure: each row with `label`, its metric and conditions in words, and `published` beside ours.

    Published rows come first, in the paper's order, also those without a value of ours (`value` missing, `why`); then
    ours alone. `dataset` and `statistic` are kept as they are, `panel` is the dataset's title. by: the columns that
    make the label, in its order; all conditions where none are named.
    """
    published = compare_published(lab.paper, lab.name, table)
    named = [name for name in by or name_keys(table) if name in table and name not in ("dataset", "statistic")]
    leaves = list(list_leaves(lab.paper, lab.name))
    places = {leaf.system: place for place, leaf in reversed(list(enumerate(leaves)))}
    matched = [match_rows(table, leaf.columns) for leaf in leaves]
    table = table.assign(published=np.nan, place=len(leaves))
    table["label"] = name_rows(lab.paper, table, named)
    lonely = []
    for leaf, rows, why in zip(leaves, matched, published.why, strict=True):
        shown = {"published": leaf.value, "label": lab.title(leaf.system), "place": places[leaf.system]}
        table.loc[rows, list(shown)] = list(shown.values())
        if not rows.any():
            lonely.append(leaf.columns | shown | {"why": why})
    both = pd.concat([table, pd.DataFrame(lonely)], ignore_index=True) if lonely else table
    both = both.sort_values("place", kind="stable", ignore_index=True).drop(columns="place")
    return both.assign(panel=both.dataset.map(lab.title) if "dataset" in both else "")


def tabulate_values(paper: Paper, table: pd.DataFrame, *, rows: int = 24, columns: int = 6) -> str:
    """The main values for a terminal: a line a metric with its conditions, a column a dataset and statistic.

    Of more columns the fullest are shown, and of more lines the first; a last line says how many values are not.
    """
    heads = [name for name in ("dataset", "statistic") if name in table]
    named = [name for name in name_keys(table) if name not in heads]
    numbers = table[named].select_dtypes("number")  # which say nothing without their column's name
    told = table.assign(**{name: numbers[name].map(f"{name} {{:g}}".format, na_action="ignore") for name in numbers})
    labels = name_rows(paper, told, named)
    shown = table[heads].map(lambda head: show_name(paper, head)).assign(label=labels, value=table.value)
    wide = shown.dropna().pivot_table("value", "label", heads, aggfunc="first", sort=False)
    fullest = wide.notna().sum().rank(method="first", ascending=False) <= columns
    main = wide.loc[:, fullest].dropna(how="all")[:rows].rename_axis(index=None)
    lines = [] if main.empty else [main.to_string(float_format="{:.4g}".format, na_rep="–")]
    more = len(table) - int(main.notna().sum().sum())
    return "\n".join([*lines, *([f"... and {more} more values, intervals and counts in the CSV"] if more else [])])


def name_rows(paper: Paper, table: pd.DataFrame, named: Sequence[str]) -> list[str]:
    """Each row's metric and conditions in words, those that are given."""
    rows = table[list(named)].replace("", None).to_dict("records")
    return [", ".join(show_name(paper, part) for part in row.values() if not pd.isna(part)) for row in rows]


def _write_cell(row: dict, decimals: int, scale: int) -> str:
    value = row["value"]
    if pd.isna(value):
        return f"not run\n{row['printed']}"
    places = len(row["printed"].partition(".")[2]) if row["printed"] else decimals
    low, high = row["low"] * scale, row["high"] * scale
    interval = "" if pd.isna(low) else f" [{low:.{places}f}, {high:.{places}f}]"
    own = f"{value * scale:.{places}f}{interval}"
    return f"{own}\n{row['printed']}" if row["printed"] else own


def _write_tables(lab: Lab, cells: pd.DataFrame) -> None:
    given = os.environ.get("NFQA_TABLES")
    folder = (Path(given) if given else find_place(lab.root, profile="drafts").tables) / lab.paper.paper
    flat = cells.map(lambda cell: cell.replace("\n", " / "))
    for axis in ("index", "columns"):
        names = getattr(flat, axis)
        flat = flat.set_axis([", ".join(name) if isinstance(name, tuple) else name for name in names], axis=axis)
    for ending, text in ((".md", flat.to_markdown()), (".tex", flat.style.to_latex(hrules=True))):
        with write_atomically(folder / f"{lab.name}{ending}") as scratch:
            scratch.write_text(text + "\n", encoding="utf-8")
