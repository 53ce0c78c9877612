"""What a run prints of its values: the main ones in a table, the published ones beside them, stand-ins marked."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nfqa.lab.artefacts import STAND_IN, Paper, list_leaves, show_name
from nfqa.lab.beside import name_rows
from nfqa.lab.stand_ins import note_stand_ins
from nfqa.lab.values import find_rows, match_rows, name_keys


def tabulate_values(paper: Paper, name: str, table: pd.DataFrame, *, rows: int = 24, columns: int = 6) -> str:
    """An artefact's main values for a terminal: a line a metric with its conditions, a column a dataset and statistic.

    A cell is ours, `*` for a stand-in, and the published value in brackets where there is one. Rows with published
    values come first, differences between rows last. Of more columns the fullest are shown, and of more lines the
    first; last lines say what the marks mean and how many values are not shown.
    """
    is_difference = ~find_rows(table, {"difference_from": ""})
    heads = [head for head in ("dataset", "statistic") if head in table]
    shown = table[heads].map(lambda head: show_name(paper, head)).assign(published=np.nan)
    shown["label"] = name_rows(paper, table, [key for key in name_keys(table) if key not in heads])
    for leaf in list_leaves(paper, name):
        shown.loc[match_rows(table, leaf.columns), "published"] = leaf.value
    marks = np.where(table.origin == STAND_IN, "*", " ")
    shown["cell"] = [_write_cell(*parts) for parts in zip(table.value, marks, shown.published, strict=True)]
    order = np.lexsort([is_difference, shown.published.isna()])
    wide = shown.iloc[order].dropna(subset=["cell", *heads])
    wide = wide.pivot_table("cell", "label", heads, aggfunc="first", sort=False)
    fullest = wide.notna().sum().rank(method="first", ascending=False) <= columns
    main = wide.loc[:, fullest].dropna(how="all")[:rows].rename_axis(index=None)
    padded = main.fillna("      –").apply(lambda column: column.str.ljust(column.str.len().max()))
    lines = [] if main.empty else [line.rstrip() for line in padded.to_string().splitlines()]
    cells = " ".join(padded.to_numpy().ravel())
    if "*" in cells:
        lines.append(note_stand_ins(paper, name, table))
    if "(" in cells:
        lines.append("(in brackets: the published value)")
    more = len(table) - int(main.notna().sum().sum())
    return "\n".join([*lines, *([f"... and {more} more values, intervals and counts in the CSV"] if more else [])])


def _write_cell(value: float, mark: str, published: float) -> str | None:
    """Ours with its mark, and the published value: None where there is none of ours."""
    if np.isnan(value):
        return None
    return f"{value:7.4g}{mark}" + ("" if np.isnan(published) else f" ({published:.4g})")
