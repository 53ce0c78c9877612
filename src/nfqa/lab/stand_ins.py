"""Stand-ins: which values they are, and what is said of them below a table or a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfqa.lab.artefacts import STAND_IN, Paper, list_stand_ins

if TYPE_CHECKING:
    import pandas as pd


def mark_stand_ins(paper: Paper, name: str, table: pd.DataFrame) -> pd.DataFrame:
    """An artefact's values with the origin "stand-in" where papers/*.yml says that a measured row is one."""
    from nfqa.lab.values import find_rows

    for entry in list_stand_ins(paper, name):
        replaced = find_rows(table, entry.rows) & (table.origin == "measured")
        table = table.assign(origin=table.origin.mask(replaced, STAND_IN))
    return table


def list_replaced(paper: Paper, name: str, table: pd.DataFrame) -> list[str]:
    """What stands in for what in an artefact's values, a sentence each."""
    from nfqa.lab.values import find_rows

    replaced = table[table.origin == STAND_IN]
    return [entry.says for entry in list_stand_ins(paper, name) if find_rows(replaced, entry.rows).any()]


def note_stand_ins(paper: Paper, name: str, table: pd.DataFrame) -> str:
    """What goes below a table or a figure in which stand-ins are marked by an asterisk, a line each; "" without any."""
    every = " (all of ours)" if table.origin.isin([STAND_IN, "paper"]).all() else ""
    return "\n".join(f"* stand-in{every}: {says}" for says in list_replaced(paper, name, table))
