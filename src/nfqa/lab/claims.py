"""What the papers claim, and whether it holds: on their own published numbers, and on ours."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise, product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nfqa.lab.artefacts import STAND_IN, Claim, Order, Paper, Wanted, list_needs, show_name
from nfqa.lab.beside import compare_published, say_conditions
from nfqa.lab.values import find_rows, name_keys, read_values, write_intervals

HOLDS, FAILS, UNDECIDED, UNTESTABLE = "holds", "fails", "can't be told at this size", "not testable here"
NO_CELLS = "no cells in our copy"  # of the published table
COUNTS = "35 of 36 hold: so many of a claim's comparisons come out as it says; all must where nothing else is said"
_OPEN = {UNDECIDED: "undecided", "missing": "missing"}  # states of comparisons that neither hold nor fail
_QUANTIFIERS = {"all": "all", "most": "most", "some": "one"}
_SPAN = ("value", "low", "high")
_PUBLISHED = ("system", "dataset", "metric")
_SIDES = ["published", "here", "stand_in"]
_Tables = Mapping[str, pd.DataFrame]
_Compared = dict[str, Any]
_COLUMNS = ["claim", "says", "where", "kind", "bar", "headline"]
_COLUMNS += [*(side + what for side in _SIDES for what in ("", "_said", "_because")), "stand_in_for"]


def judge_claims(paper: Paper, results: Path) -> pd.DataFrame:
    """Each claim with its verdicts, in the paper's order.

    Args: results: the folder with a folder of values for each paper.
    Returns: claim (its name), says, where, kind, bar, headline; published, its verdict on the paper's own numbers;
        here, on ours in the place of the paper's rows; stand_in, on rows with another model or other data, "" where it
        has no such test; for each `..._said`, the verdict with its counts ("fails: 35 of 36 hold"), and `..._because`;
        and stand_in_for, what is measured instead of what.
    """
    orders = [order for claim in paper.claims.values() for order in (*claim.published, *claim.here)]
    files = {order.table: results / paper.paper / f"{order.table}.csv" for order in orders}
    tables = {table: read_values(path) for table, path in files.items() if path.is_file()}
    printed = {order.table for claim in paper.claims.values() for order in claim.published}
    beside = {table: _say_values(compare_published(paper, table, tables.get(table))) for table in printed}
    tables = {table: _say_values(values) for table, values in tables.items()}
    rows = [_judge(paper, name, claim, tables, beside) for name, claim in paper.claims.items()]
    return pd.DataFrame(rows, columns=_COLUMNS)


def _say_values(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(said=write_intervals(table, digits=3, whole_from=100))


def compare_order(order: Order, table: pd.DataFrame, conditions: Sequence[str]) -> list[_Compared]:
    """Every comparison that an order asks for: which row should lie above which, and whether it does.

    A comparison "holds" where the whole interval of the one lies above that of the other by more than `by` (at most
    that far below it where `by` is negative), "fails" where it lies at or below that, and "can't be told at this size"
    where they overlap; a value without an interval counts as it is. Overlapping intervals of paired values can hide a
    difference, so a paired difference, where there is one, is the better test: its rows against 0.

    Args: table: the conditions, value, low, high and origin.
    Returns: of each upper, lower (rows of the table; a number has no origin; {} for no row), within (its columns), gap
        (between the values), state; "missing" where a group has no row, or one without a value, inside a combination
        that another group has.
    """
    blank: Wanted = {name: "" for name in conditions if name not in order.within}
    groups = [_split(table, group, blank | order.where, order.within) for group in order.order]
    keys = dict.fromkeys(key for group in groups for key in group) if order.within else [()]
    found = []
    for key in keys:
        within = dict(zip(order.within, key, strict=True))
        for upper, lower in pairwise(group[key] for group in groups):
            found += [_compare(a, b, order.by) | {"within": within} for a, b in product(upper or [{}], lower or [{}])]
    return found


def _split(
    table: pd.DataFrame, group: Wanted | float, where: Wanted, within: Sequence[str]
) -> defaultdict[tuple[object, ...], list[_Compared]]:
    """A group's rows by what the columns `within` hold; a number is in each."""
    if not isinstance(group, dict):
        number = dict.fromkeys(_SPAN, group) | {"said": f"{group:g}"}
        return defaultdict(lambda: [number])
    parts = defaultdict(list)
    for row in table[find_rows(table, where | group)].to_dict("records"):
        parts[tuple(row[name] for name in within)].append(row)
    return parts


def _compare(upper: dict, lower: dict, by: float) -> _Compared:
    spans = [[row.get(end, math.nan) for end in _SPAN] for row in (upper, lower)]
    (a, *a_ends), (b, *b_ends) = ([x, x if np.isnan(y) else y, x if np.isnan(z) else z] for x, y, z in spans)
    surely, perhaps = round(a_ends[0] - b_ends[1] - by, 12), round(a_ends[1] - b_ends[0] - by, 12)
    state = "missing" if np.isnan([a, b]).any() else HOLDS if surely > 0 else FAILS if perhaps <= 0 else UNDECIDED
    return {"upper": upper, "lower": lower, "gap": a - b, "state": state}


def _judge(paper: Paper, name: str, claim: Claim, tables: _Tables, beside: _Tables) -> dict[str, object]:
    beside = {order.table: beside[order.table] for order in claim.published}
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

    found |= {"stand_in": "", "stand_in_said": "", "stand_in_because": "", "stand_in_for": claim.stand_in}
    found |= _weigh("published", _compare_all(paper, claim.published, bare), NO_CELLS)
    ours = _compare_all(paper, claim.published, beside)
    found |= _weigh("here", ours)
    if found["here"] == UNTESTABLE:
        waiting = [
            need
            for row in ours
            for side in (row["upper"], row["lower"])
            if "system" in side and np.isnan(side["value"])
            for need in list_needs(paper, row["table"], side["system"])
        ]
        needs = dict.fromkeys([*claim.needs, *waiting])
        found["here_because"] = "; ".join(show_name(paper, need) for need in needs)
    elif any(side.get("origin") == STAND_IN for row in ours for side in (row["upper"], row["lower"])):
        # our rows are there, but they are not what the paper's rows are
        found |= _weigh("stand_in", ours) | _weigh("here", [])
        found["here_because"] = "; ".join(show_name(paper, need) for need in claim.needs)
    if claim.here:
        found |= _weigh("stand_in" if claim.stand_in else "here", _compare_all(paper, claim.here, tables))
    return found


def _compare_all(paper: Paper, orders: Sequence[Order], tables: _Tables) -> list[_Compared]:
    """The comparisons of several orders, with their rows in words; one "missing" for a table that is not there."""
    found = []
    for place, order in enumerate(orders):
        told = {"table": order.table, "place": place, "hold": order.hold}
        if order.table not in tables:
            found.append(told | {"state": "missing"})
            continue
        table = tables[order.table]
        conditions = _PUBLISHED if "published" in table else [name for name in name_keys(table) if name != "said"]
        of_all = {name: want for name, want in order.where.items() if not isinstance(want, tuple)}
        named = [name for name in conditions if name not in of_all and name not in order.within]
        for row in compare_order(order, table, conditions):
            inside = say_conditions(paper, {name: (of_all | row["within"]).get(name, "") for name in conditions})
            upper, lower = (_say_row(paper, row[side], named) for side in ("upper", "lower"))
            pair = _say_pair(upper, lower, row, order.by)
            found.append(told | row | {"words": f"{inside}: {pair}" if inside else pair})
    return found


def _say_row(paper: Paper, row: Mapping[str, Any], named: Sequence[str]) -> str:
    """A row by the conditions named, with its value; a number as it is."""
    if "origin" not in row:
        return row.get("said", "no row")
    return f"{say_conditions(paper, {name: row[name] for name in named})} at {row['said']}"


def _say_pair(upper: str, lower: str, row: _Compared, by: float) -> str:
    """What is found of two rows, one of which may be a number."""
    if by < 0:
        verb = {HOLDS: "is at most", FAILS: "is more than"}.get(row["state"], "is not clearly at most")
        return f"{upper} {verb} {-by:g} below {lower}"
    verb = {HOLDS: "is", FAILS: "is not"}.get(row["state"], "is not clearly") + (f" more than {by:g}" if by else "")
    return f"{upper} {verb} above {lower}" if "origin" in row["upper"] else f"{lower} {verb} below {upper}"


def _weigh(side: str, compared: Sequence[_Compared], untested: str = UNTESTABLE) -> dict[str, object]:
    """The verdict on all orders together, the same with its counts, and the comparison that is nearest to failing."""
    verdicts = {place: _settle(list(rows)) for place, rows in groupby(compared, itemgetter("place"))}
    verdict = next((state for state in (FAILS, "missing", UNDECIDED) if state in verdicts.values()), HOLDS)
    if not compared or verdict == "missing":
        return {side: untested, f"{side}_said": untested, f"{side}_because": ""}
    one = min((row for row in compared if verdicts[row["place"]] == row["state"] == verdict), key=itemgetter("gap"))
    because = f"the closest: {one['words']}" if verdict == HOLDS else one["words"]
    if side == "stand_in" and verdict != UNDECIDED:
        verdict += f" for a {STAND_IN}"
    return {side: verdict, f"{side}_said": f"{verdict}: {_say_counts(compared)}", f"{side}_because": because}


def _say_counts(compared: Sequence[_Compared]) -> str:
    """How many comparisons hold, as in "35 of 36 hold", how many are open, and how many must hold if not all must."""
    states = Counter(row["state"] for row in compared)
    said = f"{states[HOLDS]} of {len(compared)} hold{'s' if len(compared) == 1 else ''}"
    said += "".join(f", {states[state]} {word}" for state, word in _OPEN.items() if states[state])
    holds = Counter(hold for _, hold in sorted({(row["place"], row["hold"]) for row in compared}))
    if set(holds) == {"all"}:
        return said
    total = holds.total()
    told = [
        _QUANTIFIERS[hold]
        + ("" if total == 1 else f" in each of {n} groups" if n == total else f" in {n} of {total} groups")
        for hold, n in holds.items()
    ]
    return f"{said}, {', '.join(told)} must"


def _settle(compared: Sequence[_Compared]) -> str:
    """The verdict on one order: it holds with as many comparisons as must hold, fails where that is out of reach."""
    states = [row["state"] for row in compared]
    wanted = {"all": len(states), "most": len(states) // 2 + 1, "some": 1}[compared[0]["hold"]]
    if states.count(HOLDS) >= wanted:
        return HOLDS
    if len(states) - states.count(FAILS) < wanted:
        return FAILS
    return "missing" if "missing" in states else UNDECIDED


def count_claims(claims: pd.DataFrame) -> pd.DataFrame:
    """How many claims have each verdict: rows are kind and verdict, findings first; a column a side."""
    told = claims.melt("kind", _SIDES, "side", "verdict").query("verdict != ''")
    counts = pd.crosstab([told.kind, told.verdict], told.side).reindex(columns=_SIDES, fill_value=0)
    return counts.rename_axis(columns=None).sort_index(ascending=[False, True])


def write_claim(claim: Mapping[str, object]) -> str:
    """A claim with its verdicts, in lines of plain text."""
    lines = [f"{claim['says']} ({claim['where']})", *([f"  {'bar:':14}{claim['bar']}"] if claim["bar"] else [])]
    for side, what in (("published", "as published"), ("here", "here"), ("stand_in", "stand-in")):
        because = f"{': needs ' if claim[side] == UNTESTABLE else '; '}{claim[f'{side}_because']}"
        if claim[side]:
            lines.append(f"  {what + ':':14}{claim[f'{side}_said']}{because if claim[f'{side}_because'] else ''}")
    return "\n".join([*lines, *([f"  {'':14}({claim['stand_in_for']})"] if claim["stand_in"] else [])])
