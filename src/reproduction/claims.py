"""What the papers claim, and whether it holds: on their own published numbers, and on ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reproduction.compare import compare_published, say_conditions
from reproduction.papers import STAND_IN, Claim, Order, Paper, show_name
from reproduction.values import name_keys, query_rows, read_values, write_intervals

HOLDS, FAILS, UNDECIDED, UNTESTABLE = "holds", "fails", "undecided", "not testable here"
ALONE = "only by a stand-in"  # in the place of "not testable here", where a stand-in has a verdict
MISSING = "missing"  # a comparison of which a row or a value is not there
NO_CELLS = "no numbers in our copy"  # of the published table
COUNTS = "35 of 36 hold: so many of a claim's comparisons come out as it says; all are needed unless said otherwise"
READ = "as read off figures"  # what kind of claim it is that text and captions don't state
KINDS = {
    "finding": "findings that text or captions state",
    "data": "counts, sizes and sums of the data",
    "by definition": "claims that are true or false by definition",
    READ: "that we read off figures or counts ourselves",
}
SIDES = {"published": "as published", "here": "here", "stand_in": "stand-ins"}
_Tables = Mapping[str, pd.DataFrame]
_Pair = dict[str, Any]  # a comparison: its order, the rows of both sides, gap and state
_Groups = Sequence[list[_Pair]]  # the comparisons of each order


def judge_claims(paper: Paper, results: Path) -> pd.DataFrame:
    """Each claim with its verdicts, in the paper's order.

    Args: results: the folder with a folder of values for each paper. A claim whose rows or tables aren't all there is
        untestable on ours.
    Returns: claim (its name), says, where, kind, stated, bar, headline; published, its verdict on the paper's own
        numbers; here, on ours in the place of the paper's rows; stand_in, on rows with another model or other data, ""
        where it has no such test; for each `..._said`, the verdict with its counts ("fails: 35 of 36 hold"), and
        `..._because`; and stand_in_for, what is measured instead of what.
    """
    names = {name for claim in paper.claims.values() for name in claim.tables}
    files = {name: results / paper.paper / f"{name}.csv" for name in names}
    values = {name: read_values(path) for name, path in files.items() if path.is_file()}
    beside = {name: compare_published(paper, name, values.get(name)) for name in paper.published.artefact.unique()}
    ours, values = ({name: _say_values(table) for name, table in tables.items()} for tables in (beside, values))
    printed = {name: table.assign(value=table.published, low=math.nan, high=math.nan) for name, table in ours.items()}
    for table in printed.values():  # as printed, but for percentages: an order's numbers are in natural units
        table["said"] = table.printed.where(table.unit == "", table.published.map("{:g}".format))
    return pd.DataFrame([_judge(paper, name, printed, ours, values) for name in paper.claims])


def _say_values(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(said=write_intervals(table, digits=3, whole_from=100))


def _judge(paper: Paper, name: str, printed: _Tables, ours: _Tables, values: _Tables) -> dict[str, object]:
    """A claim with its verdicts: a row of `judge_claims`."""
    claim = paper.claims[name]
    printed_groups, in_place = _compare_all(claim.published, printed), _compare_all(claim.published, ours)
    measured, proxy = ([], in_place) if any(map(_is_proxy, chain(*in_place))) else (in_place, [])
    groups = _compare_all(claim.here, values)
    if groups and not claim.stand_in:
        measured = groups
    elif groups and _settle_all(groups) != MISSING:
        measured, proxy = _split_measured(groups) or (measured, groups)
    told = {"claim": name} | claim.model_dump(include={"says", "where", "stated", "kind", "bar", "headline"})
    told |= _weigh(paper, "published", printed_groups, NO_CELLS)
    told |= _weigh(paper, "here", measured) | _weigh(paper, "stand_in", proxy, "") | {"stand_in_for": claim.stand_in}
    if told["here"] == UNTESTABLE:
        told["here_because"] = "; ".join(_list_needs(paper, claim, in_place, values))
        told |= dict.fromkeys(("here", "here_said"), ALONE) if told["stand_in"] else {}
    if claim.primary:
        decides = [[pair for pair in group if pair["upper"]["statistic"] == claim.primary] for group in printed_groups]
        told["published_said"] += f"; by {show_name(paper, claim.primary)}, its primary measure, {_say_counts(decides)}"
    return told


def _is_proxy(pair: _Pair) -> bool:
    return STAND_IN in (pair["upper"].get("origin"), pair["lower"].get("origin"))


def _split_measured(groups: _Groups) -> tuple[_Groups, _Groups] | None:
    """Comparisons without and with a stand-in, where those without are of every order, and some are of runs of ours.

    Those with a stand-in are none where they aren't of every order.
    """
    measured, proxy = (
        [[pair for pair in group if _is_proxy(pair) == is_proxy] for group in groups] for is_proxy in (0, 1)
    )
    rows = [pair[side] for pair in chain(*measured) for side in ("upper", "lower")]
    if not all(measured) or "measured" not in [row.get("origin") for row in rows]:
        return None
    return measured, proxy if all(proxy) else []


def _list_needs(paper: Paper, claim: Claim, in_place: _Groups, values: _Tables) -> list[str]:
    """What a test of a claim on the paper's own rows lacks: roles, data, and results that aren't there."""
    rows = [pair[side] for pair in chain(*in_place) for side in ("upper", "lower")]
    needs = [*claim.needs, *("; ".join(row.get("needs", "") for row in rows if math.isnan(row["value"]))).split("; ")]
    absent = [f"the results of {paper.paper}/{table}" for table in claim.tables if table not in values]
    return [*dict.fromkeys([*(show_name(paper, need) for need in needs if need), *absent])]


def compare_order(order: Order, table: pd.DataFrame) -> pd.DataFrame:
    """Every comparison that an order asks for: which row should lie above which, and whether it does.

    A comparison "holds" where the whole interval of the one lies above that of the other by more than `by` (at most
    that far below it where `by` is negative), "fails" where it lies at or below that, and "undecided"
    where they overlap; a value without an interval counts as it is. Overlapping intervals of paired values can hide a
    difference, so a paired difference, where there is one, is the better test: its rows against 0.

    Args: table: the conditions, value, low and high.
    Returns: a row for each pair: the columns of `within`, gap (between the values) and state, "missing" where a side
        has no row or no value; and the columns of both sides, with `_upper` and `_lower` where both have them.
    """
    table = table.reindex(columns=[*dict.fromkeys([*table, *order.within])])
    table = table[query_rows(table, order.where)]
    table = table.assign(low=table.low.fillna(table.value), high=table.high.fillna(table.value))
    numbers = [pd.DataFrame([dict.fromkeys(["value", "low", "high"], side)]) for side in (order.upper, order.lower)]
    upper, lower = (
        table[query_rows(table, side)] if isinstance(side, str) else number.assign(said=f"{side:g}")
        for side, number in zip((order.upper, order.lower), numbers, strict=True)
    )
    joined = bool(order.within) and isinstance(order.upper, str) and isinstance(order.lower, str)
    how: Any = {"on": list(order.within), "how": "outer", "sort": False} if joined else {"how": "cross"}
    both = upper.merge(lower, suffixes=("_upper", "_lower"), **how)
    ends = [f"{end}_{side}" for side in ("upper", "lower") for end in ("value", "low", "high")]
    a, a_low, a_high, b, b_low, b_high = (both[end].astype(np.float64) for end in ends)
    surely, perhaps = (a_low - b_high - order.by).round(12), (a_high - b_low - order.by).round(12)
    holds, fails = (surely >= 0, perhaps < 0) if order.by < 0 else (surely > 0, perhaps <= 0)  # a lag up to that
    states = [a.isna() | b.isna(), holds, fails]
    return both.assign(gap=a - b, state=np.select(states, [MISSING, HOLDS, FAILS], UNDECIDED))


def _compare_all(orders: Iterable[Order], tables: _Tables) -> _Groups:
    """The comparisons of each order, with the rows of both sides; one "missing" for an order without any."""
    groups = []
    for order in orders:
        rows: list[dict[Any, Any]] = []
        if tables.keys() >= {*order.tables}:
            table = pd.concat([tables[name].assign(artefact=name) for name in order.tables])
            rows = compare_order(order, table).to_dict("records")
        rows = rows or [{"value": math.nan, "state": MISSING, "gap": math.nan}]
        groups.append(
            [
                {"order": order, "upper": _take(row, "_lower"), "lower": _take(row, "_upper")}
                | {"gap": row["gap"], "state": row["state"]}
                for row in rows
            ]
        )
    return groups


def _take(row: Mapping[Any, Any], other: str) -> _Pair:
    """One side of a comparison: all its columns but those that the other side alone has."""
    return {
        name.removesuffix("_upper").removesuffix("_lower"): x for name, x in row.items() if not name.endswith(other)
    }


def _say_pair(paper: Paper, pair: _Pair) -> str:
    """A comparison in words: what both rows share, then each by the rest of its conditions, with its value."""
    order, upper, lower, state = (pair[part] for part in ("order", "upper", "lower", "state"))
    rows = [row for row, side in ((upper, order.upper), (lower, order.lower)) if isinstance(side, str)]
    keys = [name for name in name_keys(pd.DataFrame(rows)) if name not in ("said", "artefact", "gap", "state")]
    keys = ["row", "dataset", "heading"] if "published" in rows[0] else keys
    first = ("dataset", "heading", "statistic", *order.within)
    equal = [name for name in keys if rows[0].get(name) == rows[-1].get(name)]
    shared = [name for name in equal if name in first or (len(rows) == 2 and name not in ("row", "metric"))]
    inside = say_conditions(paper, {name: rows[0].get(name, "") for name in shared})
    above, below = (
        f"{say_conditions(paper, {name: row.get(name, '') for name in keys if name not in shared})} at {row['said']}"
        if isinstance(side, str)
        else row["said"]
        for row, side in ((upper, order.upper), (lower, order.lower))
    )
    if order.by < 0:
        verb = {HOLDS: "is at most", FAILS: "is more than"}.get(state, "may or may not be at most")
        words = f"{above} {verb} {-order.by:g} below {below}"
    else:
        verb = {HOLDS: "is", FAILS: "is not"}.get(state, "may or may not be")
        verb += f" more than {order.by:g}" if order.by else ""
        words = f"{above} {verb} above {below}" if isinstance(order.upper, str) else f"{below} {verb} below {above}"
    return f"{inside}: {words}" if inside else words


def _weigh(paper: Paper, side: str, groups: _Groups, untested: str = UNTESTABLE) -> dict[str, str]:
    """The verdict on all orders together, the same with its counts, and the comparison that is nearest to failing."""
    verdict = _settle_all(groups)
    if verdict == MISSING:
        return {side: untested, f"{side}_said": untested, f"{side}_because": ""}
    telling = [pair for group in groups if _settle(group) == verdict for pair in group if pair["state"] == verdict]
    closest = _say_pair(paper, min(telling, key=lambda pair: pair["gap"]))
    because = f"the closest: {closest}" if verdict == HOLDS else closest
    if side == "stand_in" and verdict != UNDECIDED:
        verdict += f" for a {STAND_IN}"
    return {side: verdict, f"{side}_said": f"{verdict}: {_say_counts(groups)}", f"{side}_because": because}


def _settle_all(groups: _Groups) -> str:
    """The verdict on all orders together; "missing" without any."""
    verdicts = [*map(_settle, groups)] or [MISSING]
    return next((state for state in (FAILS, MISSING, UNDECIDED) if state in verdicts), HOLDS)


def _settle(group: list[_Pair]) -> str:
    """The verdict on one order: it holds with as many comparisons as must hold, fails where that is out of reach."""
    states = [pair["state"] for pair in group]
    needed = {"all": len(states), "most": len(states) // 2 + 1, "some": 1}[group[0]["order"].hold]
    if states.count(HOLDS) >= needed:
        return HOLDS
    if len(states) - states.count(FAILS) < needed:
        return FAILS
    return MISSING if MISSING in states else UNDECIDED


def _say_counts(groups: _Groups) -> str:
    """How many comparisons hold, as in "35 of 36 hold", how many are open, and how many must hold if not all must."""
    states = Counter(pair["state"] for pair in chain(*groups))
    words = f"{states[HOLDS]} of {states.total()} hold{'s' if states.total() == 1 else ''}"
    words += "".join(f", {states[state]} {state}" for state in (UNDECIDED, MISSING) if states[state])
    holds = Counter(group[0]["order"].hold for group in groups if group)
    if set(holds) == {"all"}:
        return words
    total, needed = holds.total(), []
    for hold, n in holds.items():
        where = "" if total == 1 else f" in each of {n} groups" if n == total else f" in {n} of {total} groups"
        needed.append(f"{hold.replace('some', 'one')}{where}")
    return f"{words}; needed: {', '.join(needed)}"


def count_claims(claims: pd.DataFrame) -> list[str]:
    """How many claims of each kind have each verdict, a sentence for each kind that there is."""
    if claims.empty:
        return []
    kinds, sentences = claims.kind.mask(claims.stated == "figure", READ), []
    for kind, title in KINDS.items():
        verdicts = claims.loc[kinds == kind, [*SIDES]]
        counts = {
            words: verdicts[side].value_counts().drop("", errors="ignore").sort_index() for side, words in SIDES.items()
        }
        told = [
            f"{side} {', '.join(f'{word} {n}' for word, n in each.items())}"
            for side, each in counts.items()
            if len(each)
        ]
        sentences += [f"All {len(verdicts)} {title}: {'; '.join(told)}."] if len(verdicts) else []
    return sentences


def write_claim(claim: Mapping[str, object]) -> str:
    """A claim with its verdicts, in lines of plain text."""
    read = ", as we read it" if claim["stated"] == "figure" else ""
    lines = [f"{claim['says']} ({claim['where']}{read})", *([f"  {'bar:':14}{claim['bar']}"] if claim["bar"] else [])]
    for side, what in (("published", "as published"), ("here", "here"), ("stand_in", "stand-in")):
        because = f"{': needs ' if claim[side] in (UNTESTABLE, ALONE) else '; '}{claim[f'{side}_because']}"
        if claim[side]:
            lines.append(f"  {what + ':':14}{claim[f'{side}_said']}{because if claim[f'{side}_because'] else ''}")
    return "\n".join([*lines, *([f"  {'':14}({claim['stand_in_for']})"] if claim["stand_in"] else [])])
