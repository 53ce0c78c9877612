"""Ours beside the paper: verdicts on published numbers, and tables in the shape in which the paper prints them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nfqa.data.paths import find_place, write_atomically
from nfqa.lab.artefacts import STAND_IN, Leaf, Paper, list_leaves, list_needs, show_name
from nfqa.lab.stand_ins import note_stand_ins
from nfqa.lab.values import find_rows, is_given, match_rows, name_keys, name_row

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler
    from pandas.io.formats.style_render import CSSDict

    from nfqa.lab.open import Lab

VERDICTS = ("equal", "near", "differs, known", "differs", "missing", "not run")
NO_NUMBER = "–"  # in the place of a published number where there is none
SHADES = {"equal": "#cfe8d5", "near": "#e6f2e8", "differs, known": "#fbeecb", "differs": "#f6cfc9"}


def compare_published(paper: Paper, name: str, table: pd.DataFrame | None) -> pd.DataFrame:
    """Every published number of an artefact beside ours, in the paper's order.

    Returns: system, dataset, metric, printed (as text), published, value, low, high, n, origin, verdict, why. Verdicts:
        equal, at the printed digits; near, within the artefact's tolerance or with the published value in our 95 %
        interval; differs, known where papers/*.yml lists the reason; not run, where a role or file is needed; missing,
        where none is and the value is not there.
    """
    rows, ours = [], {}
    if table is not None:
        measured = table[["value", "low", "high", "n", "origin"]].to_dict("records")
        ours = dict(zip(map(name_row, table[name_keys(table)].to_dict("records")), measured, strict=True))
    for leaf in list_leaves(paper, name):
        row = ours.get(name_row(leaf.columns), {})
        verdict, why = _judge(paper, name, leaf, row)
        key = {"system": leaf.system, "dataset": leaf.dataset, "metric": leaf.metric}
        rows.append(key | {"printed": leaf.text, "published": leaf.value} | row | {"verdict": verdict, "why": why})
    columns = ["system", "dataset", "metric", "printed", "published", "value", "low", "high", "n", "origin"]
    return pd.DataFrame(rows, columns=[*columns, "verdict", "why"])


def _judge(paper: Paper, name: str, leaf: Leaf, row: dict) -> tuple[str, str]:
    artefact, value = paper.artefacts[name], row.get("value", np.nan)
    if np.isnan(value):
        needs = [show_name(paper, need) for need in list_needs(paper, name, leaf.system)]
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

    Cells are shaded by verdict; rows that are ours alone are below a rule; an asterisk marks a stand-in, and what it
    stands for is said below. The same table is written as LaTeX and Markdown beside the run's other work
    (build/tables/).
    Raises: ValueError for an artefact without published numbers.
    """
    pivot = pivot_beside_paper(lab.paper, lab.name, table)
    cells, verdicts = pivot["cell"], pivot["verdict"]
    note = note_stand_ins(lab.paper, lab.name, table)
    _write_tables(lab, cells, note)
    colours = verdicts.map(lambda verdict: f"background-color: {SHADES[verdict]}" if verdict in SHADES else "")
    style = cells.style.apply(lambda _: colours, axis=None).set_properties(
        **{"white-space": "pre-line", "text-align": "left"}
    )
    alone = ~verdicts.any(axis=1).to_numpy()
    below = "caption-side: bottom; text-align: left; white-space: pre-line;"
    rules: list[CSSDict] = [{"selector": "caption", "props": below}] if note else []
    if alone.any():
        first = f"tbody tr:nth-child({np.flatnonzero(alone)[0] + 1}) > *"
        rules.append({"selector": first, "props": "border-top: 2px solid #5b6470;"})
    return (style.set_caption(note) if note else style).set_table_styles(rules)


def pivot_beside_paper(paper: Paper, name: str, table: pd.DataFrame | None) -> pd.DataFrame:
    """An artefact's table in the paper's rows and columns.

    Returns: below each of cell (ours, with an asterisk behind a stand-in, and on a second line the published value),
        verdict ("" in rows of ours alone) and origin, the paper's columns. Published rows come first, in the paper's
        order; then ours alone, but for differences between rows.
    Raises: ValueError for an artefact without published numbers.
    """
    artefact, layout = paper.artefacts[name], paper.artefacts[name].layout
    both = compare_published(paper, name, table)
    if both.empty:
        raise ValueError(f"{paper.paper}/{name} has no published numbers to lay a table beside")
    both["ours"] = False
    if table is not None:
        ours = _list_ours_alone(paper, name, table, both[list(layout.columns)].drop_duplicates())
        both = pd.concat([both, ours.assign(ours=True, printed="", verdict="")], ignore_index=True)
    both["cell"] = [_write_cell(row, artefact.decimals, artefact.scale) for row in both.to_dict("records")]
    sides = [*layout.rows, *layout.columns]
    both[sides] = both[sides].map(lambda part: show_name(paper, part))
    both["origin"] = both.origin.astype(object).fillna("")
    shown, index = ["cell", "verdict", "origin"], ["ours", *layout.rows]
    pivot = both.pivot_table(shown, index, list(layout.columns), aggfunc="first", sort=False).fillna("")
    pivot = pivot.sort_index(level="ours", sort_remaining=False).droplevel("ours")
    columns = [*[None] * len(layout.columns), "ours / published"]
    return pivot.rename_axis(index=[None] * len(layout.rows), columns=columns)


def _list_ours_alone(paper: Paper, name: str, table: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Rows of ours that no published number is beside, in the published columns; named by metric and conditions."""
    artefact, keys = paper.artefacts[name], name_keys(table)
    taken = ~find_rows(table, {"difference_from": ""})
    for leaf in list_leaves(paper, name):
        taken |= match_rows(table, leaf.columns)
    rows = table[~taken]
    told = {side for columns in artefact.statistics.values() for side in columns}  # what a leaf's metric says
    metric = rows.statistic.copy()
    for heading, columns in artefact.statistics.items():
        sides = {side: columns.get(side, "") for side in told & set(keys)}
        metric[np.logical_and.reduce([is_given(rows[side], want) for side, want in sides.items()])] = heading
    named = [key for key in keys if key not in ("dataset", "statistic", *told, *artefact.columns)]
    found = rows.assign(metric=metric, system=name_rows(paper, rows, named))
    shown = ["system", "dataset", "metric", "value", "low", "high", "n", "origin"]
    return found.merge(known, on=list(known.columns))[shown]


def label_rows(lab: Lab, table: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """The table for a figure: each row with `label`, its metric and conditions in words, and `published` beside ours.

    Published rows come first, in the paper's order, also those without a value of ours (`value` missing, `why`); then
    ours alone. An asterisk ends the label of a stand-in. `dataset` and `statistic` are kept as they are, `panel` is the
    dataset's title. by: the columns that make the label, in its order; all conditions where none are named.
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
    table["label"] = table.label.where(table.origin != STAND_IN, table.label + "*")
    both = pd.concat([table, pd.DataFrame(lonely)], ignore_index=True) if lonely else table
    both = both.sort_values("place", kind="stable", ignore_index=True).drop(columns="place")
    return both.assign(panel=both.dataset.map(lab.title) if "dataset" in both else "")


def name_rows(paper: Paper, table: pd.DataFrame, named: Sequence[str]) -> list[str]:
    """Each row's metric and conditions in words."""
    return [say_conditions(paper, row) for row in table[list(named)].to_dict("records")]


def say_conditions(paper: Paper, conditions: Mapping[Hashable, object]) -> str:
    """Conditions in words, those that are given: a number after its column, a difference as "A minus B"."""
    said = ""
    for name, part in conditions.items():
        if part is None or part != part or part == "":
            continue
        both = f"{name}={part}"  # where a value means another thing in this column than elsewhere
        shown = show_name(paper, both if both in paper.names else part)
        if re.fullmatch(r"-?\d+(\.\d+)?", shown):
            shown = f"{show_name(paper, name)} {shown}"
        said += f"{' minus ' if name == 'difference_from' else ', '}{shown}"
    return said.removeprefix(", ").strip()


def _write_cell(row: dict, decimals: int, scale: int) -> str:
    value = row["value"]
    published = row["printed"] or NO_NUMBER
    if pd.isna(value):
        return f"not run\n{published}"
    places = len(row["printed"].partition(".")[2]) if row["printed"] else decimals
    low, high = row["low"] * scale, row["high"] * scale
    interval = "" if pd.isna(low) else f" [{low:.{places}f}, {high:.{places}f}]"
    mark = "*" if row["origin"] == STAND_IN else ""
    return f"{value * scale:.{places}f}{mark}{interval}\n{published}"


def _write_tables(lab: Lab, cells: pd.DataFrame, note: str) -> None:
    folder = Path(lab.given.get("tables") or find_place(lab.root, profile="drafts").tables) / lab.paper.paper
    flat = cells.map(lambda cell: cell.replace("\n", " / "))
    for axis in ("index", "columns"):
        names = getattr(flat, axis)
        flat = flat.set_axis([", ".join(name) if isinstance(name, tuple) else name for name in names], axis=axis)
    flat = flat.rename_axis(cells.columns.names[-1])
    for ending, text in (
        (".md", "\n\n".join([flat.to_markdown(), note.replace("* ", r"\* ").replace("\n", "\n\n")])),
        (".tex", flat.style.to_latex(hrules=True) + note.replace("\n", "\n\n")),
    ):
        with write_atomically(folder / f"{lab.name}{ending}") as scratch:
            scratch.write_text(text.rstrip() + "\n", encoding="utf-8")
