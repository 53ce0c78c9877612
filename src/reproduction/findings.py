"""Findings of an artefact: claims, each with the values that test it and the verdict that follows
from them.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

import pandas as pd

from reproduction.compare import say_differences
from reproduction.papers import INCONCLUSIVE, NOT_SUPPORTED, NOT_TESTED, PROXY, STAND_IN, SUPPORTED, Paper
from reproduction.values import query_rows, write_numbers

_SIDES = {"above": operator.gt, "below": operator.lt}


def list_findings(paper: Paper, table: pd.DataFrame, claims: Mapping[str, str]) -> pd.DataFrame:
    """Each claim beside the rows of `table` that test it.

    Args: table: values, as `tidy_values` gives them; claims: a sentence, and the pandas query that
        picks its rows; where the sentence can be wrong, also the side of a number on which each
        value should lie, "QUERY -> above 0.5".
    Returns: one row per claim and value. claim; of: the conditions in which a claim's rows differ;
        value; interval; n; verdict: "supported" where the whole interval lies on that side, "not
        supported" where none of it does, else "inconclusive", each with "(proxy)" where the value
        is a proxy's; "not tested" without a value; "" for a claim that names no side.
    """
    frames = []
    for claim, test in claims.items():
        query, _, bound = test.partition(" -> ")
        rows = table[query_rows(table, query)]
        rows = rows if len(rows) else rows.reindex([0])  # one row without a value
        texts = write_numbers(rows).str.partition(" ")
        frames.append(
            pd.DataFrame({
                "claim": claim,
                "of": say_differences(paper, rows),
                "value": texts[0].where(rows.value.notna(), ""),
                "interval": texts[2],
                "n": rows.n.astype(object).where(rows.n.notna(), ""),
                "verdict": [_give_verdict(row, bound) for _, row in rows.iterrows()],
            })
        )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def _give_verdict(row: pd.Series, bound: str) -> str:
    """What a value and its interval say of a bound."""
    if pd.isna(row["value"]):
        return NOT_TESTED
    if not bound:
        return ""
    side, number = bound.split()
    ends = [row["value"], row["value"]] if pd.isna(row["low"]) else [row["low"], row["high"]]
    is_inside = [_SIDES[side](end, float(number)) for end in ends]
    proxy = f" ({PROXY})" if row["origin"] == STAND_IN else ""
    if all(is_inside):
        return f"{SUPPORTED}{proxy}"
    return f"{INCONCLUSIVE if any(is_inside) else NOT_SUPPORTED}{proxy}"
