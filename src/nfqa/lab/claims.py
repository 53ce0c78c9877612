"""What the papers claim, and whether it holds: on their own published numbers, and on ours."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd

from nfqa.lab.artefacts import STAND_IN, Claim, Order, Paper, list_needs
from nfqa.lab.beside import compare_published
from nfqa.lab.open import show_name
from nfqa.lab.values import find_rows, name_keys, read_values, write_intervals

HOLDS, FAILS, UNDECIDED, UNTESTABLE = "holds", "fails", "can't be told at this size", "not testable here"
NO_CELLS = "no cells in our copy"  # of the published table
_PUBLISHED = ("system", "dataset", "metric")
_COLUMNS = ["claim", "says", "where", "bar", "headline", "published", "published_because", "here", "here_because"]
_COLUMNS += ["stand_in", "stand_in_because", "stand_in_for"]


def judge_claims(paper: Paper, results: Path) -> pd.DataFrame:
    """Each claim with its verdicts, in the paper's order.

    Args: results: the folder with a folder of values for each paper.
    Returns: claim (its name), says, where, bar, headline; published, its verdict on the paper's own numbers; here, on
        ours in the place of the paper's rows; stand_in, on rows with another model or other data, "" where it has no
        such test; for each a column `..._because`, and stand_in_for, what is measured instead of what.
    """
    rows = [_judge(paper, name, claim, results / paper.paper) for name, claim in paper.claims.items()]
    return pd.DataFrame(rows, columns=_COLUMNS)


def compare_order(order: Order, table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """Every comparison that an order asks for: which row should lie above which, and whether it does.

    A comparison "holds" where the whole interval of the one lies above that of the other by more than `by`, "fails"
    where it lies at or below it, and "can't be told at this size" where they overlap; a value without an interval
    counts as it is. Overlapping intervals of paired values can hide a difference, so a paired difference, where there
    is one, is the better test: its rows against 0.

    Args: table: the conditions, value, low, high and origin.
    Returns: upper, lower (places in the table; a number as text; None for no row), within (its columns), gap (between
        the values), state; "missing" where a group has no row, or one without a value, inside a combination that
        another group has.
    """
    blank = {name: "" for name in conditions if name not in order.within}
    groups = [
        table[find_rows(table, blank | order.where | group)] if isinstance(group, dict) else group
        for group in order.order
    ]
    rows = pd.concat([group for group in groups if isinstance(group, pd.DataFrame)])
    keys = rows[list(order.within)].drop_duplicates().to_dict("records") if order.within else [{}]
    found = []
    for key in keys:
        inside = [_pick_rows(group, key) for group in groups]
        for upper, lower in pairwise(inside):
            found += [_compare(a, b, key, order.by) for a, b in product(upper or [{}], lower or [{}])]
    return pd.DataFrame(found, columns=["upper", "lower", "within", "gap", "state"], dtype=object)


def _pick_rows(group: pd.DataFrame | float, key: dict[str, object]) -> list[dict]:
    if not isinstance(group, pd.DataFrame):
        return [{"value": group, "low": group, "high": group, "place": f"{group:g}"}]
    inside = group.assign(place=group.index)
    return inside[find_rows(inside, key)].to_dict("records")


def _compare(upper: dict, lower: dict, key: dict[str, object], by: float) -> dict:
    spans = [[row.get(end, math.nan) for end in ("value", "low", "high")] for row in (upper, lower)]
    (a, *a_ends), (b, *b_ends) = ([x, x if np.isnan(y) else y, x if np.isnan(z) else z] for x, y, z in spans)
    surely, perhaps = round(a_ends[0] - b_ends[1] - by, 12), round(a_ends[1] - b_ends[0] - by, 12)
    state = "missing" if np.isnan([a, b]).any() else HOLDS if surely > 0 else FAILS if perhaps <= 0 else UNDECIDED
    found = {"upper": upper.get("place"), "lower": lower.get("place"), "within": key}
    return found | {"gap": a - b, "state": state}


def _judge(paper: Paper, name: str, claim: Claim, results: Path) -> dict[str, object]:
    tables = {order.table: _read(results / f"{order.table}.csv") for order in (*claim.published, *claim.here)}
    beside = {order.table: compare_published(paper, order.table, tables[order.table]) for order in claim.published}
    bare = {
        table: both.assign(value=both.published, low=math.nan, high=math.nan, said=both.printed)
        for table, both in beside.items()
    }
    found: dict[str, object] = {"claim": name} | claim.model_dump(include={"says", "where", "bar", "headline"})

    found["published"], found["published_because"] = _weigh(_compare_all(paper, claim.published, bare), NO_CELLS)
    ours = _compare_all(paper, claim.published, beside)
    found["here"], found["here_because"] = _weigh(ours, UNTESTABLE)
    if found["here"] == UNTESTABLE:
        waiting = [
            need
            for table, both in beside.items()
            for system in both.system[both.value.isna() & both.index.isin(_list_places(ours, table))]
            for need in list_needs(paper, table, system)
        ]
        needs = dict.fromkeys([*claim.needs, *waiting])
        found["here_because"] = "; ".join(show_name(paper, need) for need in needs)
    elif (ours.origin == STAND_IN).any():
        found["here"] = _mark(str(found["here"]))

    found |= {"stand_in": "", "stand_in_because": "", "stand_in_for": claim.stand_in}
    if claim.here:
        own = _compare_all(paper, claim.here, {name: table for name, table in tables.items() if table is not None})
        verdict, why = _weigh(own, UNTESTABLE)
        if claim.stand_in:
            found |= {"stand_in": _mark(verdict), "stand_in_because": why}
        else:
            found |= {"here": verdict, "here_because": why}
    return found


def _list_places(compared: pd.DataFrame, table: str) -> list[object]:
    """The rows of a table that are compared with others."""
    return compared.loc[compared["table"] == table, ["upper", "lower"]].to_numpy().ravel().tolist()


def _read(path: Path) -> pd.DataFrame | None:
    return read_values(path) if path.is_file() else None


def _mark(verdict: str) -> str:
    return f"{verdict} for a {STAND_IN}" if verdict in (HOLDS, FAILS) else verdict


def _compare_all(paper: Paper, orders: Sequence[Order], tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The comparisons of several orders, with their rows in words; one "missing" for a table that is not there."""
    found = []
    for order in orders:
        if order.table not in tables:
            found.append(pd.DataFrame([{"table": order.table, "state": "missing"}]))
            continue
        table = tables[order.table]
        conditions = _PUBLISHED if "published" in table else name_keys(table)
        compared = compare_order(order, table, conditions).assign(table=order.table)
        named = [name for name in conditions if name not in order.within]
        words = table[named].apply(lambda column: [_say_condition(paper, column.name, part) for part in column])
        words["value"] = table.said if "said" in table else write_intervals(table, digits=3, whole_from=100)
        said = words.apply(lambda row: ", ".join(filter(None, row[:-1])) + f" {row.iloc[-1]}", axis=1).to_dict()
        upper, lower = ([said.get(place, place) for place in compared[side]] for side in ("upper", "lower"))
        inside = [", ".join(show_name(paper, part) for part in key.values()) for key in compared.within]
        compared["words"] = [f"{a} above {b}" for a, b in zip(upper, lower, strict=True)]
        compared["words"] += [f" ({where})" if where else "" for where in inside]
        replaced = set(table.index[table.origin == STAND_IN])
        compared["origin"] = compared[["upper", "lower"]].isin(replaced).any(axis=1).map({True: STAND_IN, False: ""})
        found.append(compared)
    return pd.concat(found) if found else pd.DataFrame(columns=["table", "upper", "lower", "state", "origin", "words"])


def _say_condition(paper: Paper, name: Hashable, part: object) -> str:
    if part != part or part == "":
        return ""
    shown = show_name(paper, part)
    return f"{name} = {shown}" if shown.replace(".", "", 1).isdigit() else shown


def _weigh(compared: pd.DataFrame, untested: str) -> tuple[str, str]:
    """The verdict on all comparisons together, how many hold, and one of them: where any doesn't, one of those."""
    states = compared.state.value_counts()
    verdict = next((state for state in (FAILS, "missing", UNDECIDED) if state in states), HOLDS)
    if compared.empty or verdict == "missing":
        return untested, ""
    one = compared.words[compared.state == verdict].iloc[0]
    but = "such as" if verdict == HOLDS else "not"
    return verdict, f"{states.get(HOLDS, 0)} of {len(compared)} comparisons hold; {but} {one}"


def count_claims(claims: pd.DataFrame) -> pd.DataFrame:
    """How many claims have each verdict: rows are verdicts; columns published, here and stand_in."""
    counts = {side: claims[side].value_counts() for side in ("published", "here", "stand_in")}
    return pd.DataFrame(counts).fillna(0).astype(int).rename_axis(None).drop(index="", errors="ignore")


def write_claim(claim: Mapping[str, object]) -> str:
    """A claim with its verdicts, in lines of plain text."""
    lines = [f"{claim['says']} ({claim['where']})", *([f"  {'bar:':14}{claim['bar']}"] if claim["bar"] else [])]
    for side, what in (("published", "as published"), ("here", "here"), ("stand_in", "stand-in")):
        because = [str(claim[f"{side}_because"])] if claim[f"{side}_because"] else []
        because = [f"needs: {need}" for need in because] if claim[side] == UNTESTABLE else because
        because += [str(claim["stand_in_for"])] if side == "stand_in" and claim[side] else []
        if claim[side]:
            lines.append(f"  {what + ':':14}{'; '.join([str(claim[side]), *because])}")
    return "\n".join(lines)
