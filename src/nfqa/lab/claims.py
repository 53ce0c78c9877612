"""What the papers claim, and whether it holds: on their own published numbers, and on ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nfqa.lab.artefacts import STAND_IN, Claim, Order, Paper, list_needs, show_name
from nfqa.lab.beside import compare_published, say_conditions
from nfqa.lab.values import find_rows, name_keys, read_values, write_intervals

HOLDS, FAILS, UNDECIDED, UNTESTABLE = "holds", "fails", "can't be told at this size", "not testable here"
NO_CELLS = "no cells in our copy"  # of the published table
_SHORT = {HOLDS: "yes", FAILS: "no", UNDECIDED: "undecided", "missing": "missing"}
_QUANTIFIERS = {"most": "most have to hold", "some": "one has to hold"}
_PUBLISHED = ("system", "dataset", "metric")
_SIDES = ["published", "here", "stand_in"]
_COLUMNS = ["claim", "says", "where", "kind", "bar", "headline"]
_COLUMNS += [*(side + because for side in _SIDES for because in ("", "_because")), "stand_in_for"]


def judge_claims(paper: Paper, results: Path) -> pd.DataFrame:
    """Each claim with its verdicts, in the paper's order.

    Args: results: the folder with a folder of values for each paper.
    Returns: claim (its name), says, where, kind, bar, headline; published, its verdict on the paper's own numbers;
        here, on ours in the place of the paper's rows; stand_in, on rows with another model or other data, "" where it
        has no such test; for each a column `..._because`, and stand_in_for, what is measured instead of what.
    """
    rows = [_judge(paper, name, claim, results / paper.paper) for name, claim in paper.claims.items()]
    return pd.DataFrame(rows, columns=_COLUMNS)


def compare_order(order: Order, table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """Every comparison that an order asks for: which row should lie above which, and whether it does.

    A comparison "holds" where the whole interval of the one lies above that of the other by more than `by` (at most
    that far below it where `by` is negative), "fails" where it lies at or below that, and "can't be told at this size"
    where they overlap; a value without an interval counts as it is. Overlapping intervals of paired values can hide a
    difference, so a paired difference, where there is one, is the better test: its rows against 0.

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
        table: both.assign(
            value=both.published,
            low=math.nan,
            high=math.nan,  # as printed, but for percentages: an order's numbers are in natural units
            said=both.printed if paper.artefacts[table].scale == 1 else both.published.map("{:g}".format),
        )
        for table, both in beside.items()
    }
    found: dict[str, object] = {"claim": name} | claim.model_dump(include={"says", "where", "kind", "bar", "headline"})

    found |= {"stand_in": "", "stand_in_because": "", "stand_in_for": claim.stand_in}
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
    elif (ours.origin == STAND_IN).any():  # our rows are there, but they are not what the paper's rows are
        found |= {"stand_in": _mark(str(found["here"])), "stand_in_because": found["here_because"]}
        found |= {"here": UNTESTABLE, "here_because": "; ".join(show_name(paper, need) for need in claim.needs)}
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
    for place, order in enumerate(orders):
        if order.table not in tables:
            found.append(pd.DataFrame([{"table": order.table, "state": "missing", "place": place, "hold": order.hold}]))
            continue
        table = tables[order.table]
        conditions = _PUBLISHED if "published" in table else name_keys(table)
        compared = compare_order(order, table, conditions)
        of_all = {name: want for name, want in order.where.items() if not isinstance(want, tuple)}
        named = [name for name in conditions if name not in of_all and name not in order.within]
        values = table.said if "said" in table else write_intervals(table, digits=3, whole_from=100)
        rows = zip(table[named].to_dict("records"), values, strict=True)
        said = dict(zip(table.index, (f"{say_conditions(paper, row)} at {value}" for row, value in rows), strict=True))
        words = []
        for row in compared.itertuples():
            inside = say_conditions(paper, {name: (of_all | row.within).get(name, "") for name in conditions})
            pair = _say_pair(said.get(row.upper), said.get(row.lower), row, order.by)
            words.append(f"{inside}: {pair}" if inside else pair)
        compared["words"] = words
        replaced = set(table.index[table.origin == STAND_IN])
        compared["origin"] = compared[["upper", "lower"]].isin(replaced).any(axis=1).map({True: STAND_IN, False: ""})
        found.append(compared.assign(table=order.table, place=place, hold=order.hold))
    columns = ["table", "upper", "lower", "state", "origin", "words", "place", "hold"]
    return pd.concat(found) if found else pd.DataFrame(columns=columns)


def _say_pair(upper: str | None, lower: str | None, row: Any, by: float) -> str:
    """What is found of two rows, one of which may be a number."""
    if by < 0:
        verb = {HOLDS: "is at most", FAILS: "is more than"}.get(row.state, "is not clearly at most")
        return f"{upper or row.upper} {verb} {-by:g} below {lower or row.lower}"
    verb = {HOLDS: "is", FAILS: "is not"}.get(row.state, "is not clearly") + (f" more than {by:g}" if by else "")
    return f"{lower} {verb} below {row.upper}" if upper is None else f"{upper} {verb} above {lower or row.lower}"


def _weigh(compared: pd.DataFrame, untested: str) -> tuple[str, str]:
    """The verdict on all orders together, how many comparisons hold, and the one that is nearest to failing."""
    verdicts = {place: _settle(part.state, part.hold.iloc[0]) for place, part in compared.groupby("place")}
    verdict = next((state for state in (FAILS, "missing", UNDECIDED) if state in verdicts.values()), HOLDS)
    if compared.empty or verdict == "missing":
        return untested, ""
    those = compared[compared.place.map(verdicts).eq(verdict) & (compared.state == verdict)]
    one = those.words[those.gap.astype(float) == those.gap.min()].iloc[0]
    states = compared.state.value_counts()
    said = f"{len(compared)} of {len(compared)} comparisons hold"
    if states.get(HOLDS, 0) < len(compared):
        told = [f"{states[state]} {word}" for state, word in _SHORT.items() if state in states]
        said = f"{len(compared)} comparisons: {', '.join(told)}"
    said += "".join(f"; {_QUANTIFIERS[hold]}" for hold in compared.hold.unique() if hold in _QUANTIFIERS)
    lead = "the closest: " if verdict == HOLDS else ""
    return verdict, f"{said}; {lead}{one}"


def _settle(states: pd.Series, hold: str) -> str:
    """The verdict on one order: it holds with as many comparisons as must hold, fails where that is out of reach."""
    wanted = {"all": len(states), "most": len(states) // 2 + 1, "some": 1}[hold]
    if (states == HOLDS).sum() >= wanted:
        return HOLDS
    if (states != FAILS).sum() < wanted:
        return FAILS
    return "missing" if (states == "missing").any() else UNDECIDED


def count_claims(claims: pd.DataFrame) -> pd.DataFrame:
    """How many claims have each verdict: rows are kind and verdict, findings first; a column a side."""
    told = claims.melt("kind", _SIDES, "side", "verdict").query("verdict != ''")
    counts = pd.crosstab([told.kind, told.verdict], told.side).reindex(columns=_SIDES, fill_value=0)
    return counts.rename_axis(columns=None).sort_index(ascending=[False, True])


def write_claim(claim: Mapping[str, object]) -> str:
    """A claim with its verdicts, in lines of plain text."""
    lines = [f"{claim['says']} ({claim['where']})", *([f"  {'bar:':14}{claim['bar']}"] if claim["bar"] else [])]
    for side, what in (("published", "as published"), ("here", "here"), ("stand_in", "stand-in")):
        because = f"; {'needs: ' if claim[side] == UNTESTABLE else ''}{claim[f'{side}_because']}".removesuffix("; ")
        if claim[side]:
            lines.append(f"  {what + ':':14}{claim[side]}{because}")
    return "\n".join([*lines, *([f"  {'':14}({claim['stand_in_for']})"] if claim["stand_in"] else [])])
