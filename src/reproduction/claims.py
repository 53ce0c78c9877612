"""What the papers claim, and whether it holds: on their own published numbers, and on ours."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nfqa.files.json_lines import read_json
from reproduction.compare import compare_published, say_conditions
from reproduction.papers import STAND_IN, Order, Paper, list_members, list_row_keys, show_name
from reproduction.values import name_keys, query_rows, read_values, write_intervals

HOLDS, FAILS, UNDECIDED, UNTESTABLE = "holds", "fails", "undecided", "not testable here"
ALONE = "only by a stand-in"  # in the place of "not testable here", where a stand-in has a verdict
MISSING = "missing"  # a comparison of which a row or a value is not there
NO_CELLS = "no numbers in our copy"  # of the published table
COUNTS = "35 of 36 hold: so many of a claim's comparisons come out as it says; all are needed unless said otherwise"
READ = "as read off figures"  # what kind of claim it is that text and captions don't state
SIDES = ("published", "here", "stand_in")
_Tables = Mapping[str, pd.DataFrame]


def judge_claims(paper: Paper, results: Path) -> pd.DataFrame:
    """Each claim with its verdicts, in the paper's order.

    Args: results: the folder with a folder of values for each paper. What a claim's test on our rows names and its
        tables lack leaves it untestable, and is said.
    Returns: claim (its name), says, where, kind, bar, headline; published, its verdict on the paper's own numbers;
        here, on ours in the place of the paper's rows; stand_in, on rows with another model or other data, "" where it
        has no such test; for each `..._said`, the verdict with its counts ("fails: 35 of 36 hold"), and `..._because`;
        and stand_in_for, what is measured instead of what.
    Raises: ValueError with file, claim and name for a published row or number that no table has.
    """
    sums = " ".join(chain.from_iterable(claim.sums for claim in paper.claims.values()))
    printed = {t for claim in paper.claims.values() for o in claim.published for t in (o.table, *o.beside)}
    printed |= {name for name in paper.published.artefact.unique() if f"{name}_" in sums}
    orders = {order for claim in paper.claims.values() for order in claim.here}
    named = printed | {table for order in orders for table in (order.table, *order.beside)}
    made = {name: results / paper.paper / f"{name}.csv" for name in named}
    tables = {name: read_values(path) for name, path in made.items() if path.is_file()}
    about = {name: path.with_suffix(".json") for name, path in made.items()}
    told = {name: read_json(path) for name, path in about.items() if path.is_file()}
    beside = {name: _say_values(compare_published(paper, name, tables.get(name))) for name in printed}
    for name, claim in paper.claims.items():  # our copy of the paper's numbers is whole: what it lacks is misspelt
        for found in (what for o in claim.published for what in find_unmatched(o, _gather(o, beside))):
            raise ValueError(f"papers/{paper.paper}.yml: claims.{name}.published: no {found}")
    for name, both in beside.items():  # what sums call a number
        told_by = paper.published[paper.published.artefact == name][["artefact", *list_row_keys(paper.published)]]
        both["cell"] = ["_".join(filter(None, row)) for row in told_by.itertuples(index=False)]
    bare = {name: both.assign(value=both.published, low=math.nan, high=math.nan) for name, both in beside.items()}
    for both in bare.values():  # as printed, but for percentages: an order's numbers are in natural units
        both["said"] = both.printed.where(both.unit == "", both.published.map("{:g}".format))
    orders = {order for order in orders if {order.table, *order.beside} <= {*tables}}
    partial = {order: found for order in orders for found in [*find_unmatched(order, _gather(order, tables))][:1]}
    for order in partial:  # what it needs says why already
        partial[order] *= all(_has(told.get(order.table, {}), need) for need in order.needs)
    tables = {name: _say_values(table) for name, table in tables.items()}
    return pd.DataFrame([_judge(paper, name, tables, beside, bare, partial) for name in paper.claims])


def _gather(order: Order, tables: _Tables) -> pd.DataFrame:
    """An order's rows, as far as they are there, with the column `artefact`."""
    found = [tables[name].assign(artefact=name) for name in (order.table, *order.beside) if name in tables]
    return pd.concat(found) if found else pd.DataFrame(columns=["value", "low", "high", "dropped", "said", "artefact"])


def _has(told: Mapping[str, Any], need: str) -> bool:
    """Whether results were made with a role's named model, or with a dataset."""
    return need in told.get("inputs", {}) or told.get("roles", {}).get(need, "embedded").partition(":")[0] != "embedded"


def find_unmatched(order: Order, table: pd.DataFrame) -> Iterator[str]:
    """What an order names that no row has: columns, members, groups of `within` on one side alone."""
    groups = []
    for query in (part for part in (order.upper, order.lower) if isinstance(part, str)):
        picked = table[query_rows(table, query) & query_rows(table, order.where)]
        asked = [*list_members(query), *list_members(order.where), *((name, "") for name in order.within)]
        for rows, (name, member) in product((table, picked), asked):  # what is nowhere is named first
            if name not in rows:
                yield f"column {name!r} ({query})"
            elif member != "" and member not in rows[name].tolist():
                yield f"row of {name} {member!r} ({query})"
        if picked.empty:
            yield f"row of {query}"
        own = picked.reindex(columns=[*order.within]).astype(object).fillna("")
        groups.append({*own.itertuples(index=False, name=None)})
    if len(groups) == 2 and (lonely := groups[0] ^ groups[1]):
        yield f"row to compare within {', '.join(map(str, min(lonely, key=str)))} ({order.upper}; {order.lower})"


def _say_values(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(said=write_intervals(table, digits=3, whole_from=100))


def _judge(
    paper: Paper, name: str, tables: _Tables, beside: _Tables, bare: _Tables, partial: Mapping[Order, str]
) -> dict[str, object]:
    claim = paper.claims[name]
    printed, ours = (_compare_all(paper, claim.published, of) + _compute(paper, name, of) for of in (bare, beside))
    here = _weigh("here", ours) | {"stand_in": "", "stand_in_said": "", "stand_in_because": ""}
    waiting = list(claim.needs)
    if here["here"] == UNTESTABLE:
        lacking = [side for row in ours for side in (row["upper"], row["lower"]) if math.isnan(side["value"])]
        waiting += [need for side in lacking for need in str(side.get("needs", "")).split("; ") if need]
    elif any(side.get("origin") == STAND_IN for row in ours for side in (row["upper"], row["lower"])):
        here |= _weigh("stand_in", ours) | _weigh("here", [])
    if claim.here:
        compared = [] if partial.keys() & claim.here else _compare_all(paper, claim.here, tables)
        origins = [{row[side].get("origin") for side in ("upper", "lower")} for row in compared]
        sides = {"here": [*compress(compared, [STAND_IN not in own for own in origins])]}
        sides["stand_in"] = [row for row in compared if row not in sides["here"]]
        places = {row["place"] for row in compared}
        whole = {side: {row["place"] for row in rows} == places for side, rows in sides.items()}
        found = _weigh("stand_in" if claim.stand_in else "here", compared)
        if claim.stand_in and whole["here"] and any("measured" in own for own in origins):  # the paper's own at hand
            found = {name: word for side in sides if whole[side] for name, word in _weigh(side, sides[side]).items()}
        here |= {} if found.get("stand_in") == UNTESTABLE else found
        waiting += [need for order in claim.here if UNTESTABLE in found.values() for need in order.needs]
    if here["here"] == UNTESTABLE:
        asked = [t for o in (*claim.published, *claim.here) for t in (o.table, *o.beside) if t not in tables]
        absent = [f"the results of {paper.paper}/{table}" for table in asked]
        absent += [f"{paper.paper}/{o.table} with a {partial[o].strip('; ')}" for o in claim.here if partial.get(o)]
        here["here_because"] = "; ".join(dict.fromkeys([*(show_name(paper, need) for need in waiting), *absent]))
        here |= dict.fromkeys(("here", "here_said"), ALONE if here["stand_in"] else UNTESTABLE)
    told = {"claim": name} | claim.model_dump(include={"says", "where", "stated", "kind", "bar", "headline"})
    told |= _weigh("published", printed, NO_CELLS) | here | {"stand_in_for": claim.stand_in}
    if claim.primary:
        decides = [row for row in printed if row["upper"].get("statistic") == claim.primary]
        told["published_said"] += f"; by {show_name(paper, claim.primary)}, its primary measure, {_say_counts(decides)}"
    return told


def _compute(paper: Paper, name: str, tables: _Tables) -> list[dict[str, Any]]:
    """What follows from the numbers of tables, beside what they say: a comparison for each of a claim's sums.

    Raises: ValueError with file, claim and name for a number that no table has.
    """
    rows = {row["cell"]: row for table in tables.values() for row in table.to_dict("records")}
    found = []
    for place, told in enumerate(paper.claims[name].sums):
        sides = re.split(" (?:==|>) ", told)
        named = re.findall(r"[a-z]\w+", told)
        unknown = [each for each in named if each not in rows]
        if unknown or len(sides) != 2:
            raise ValueError(f"papers/{paper.paper}.yml: claims.{name}.sums: no number {unknown or told!r}")
        used = pd.DataFrame([rows[each] for each in named])
        low, high = (used[end].fillna(used.value) for end in ("low", "high"))
        ends = np.array([used.value, *product(*zip(low, high, strict=True))]).T  # the values, then every corner
        values = dict(zip(named, ends, strict=True)) | {"e": math.e}
        left, right = ((0 * ends[0] + pd.eval(one, local_dict=values, engine="python")).tolist() for one in sides)
        digits = rows.get(sides[1], {"decimals": 0})["decimals"]
        equal = round(left[0] - right[0], 12) == 0 or round(left[0], digits) == round(right[0], digits)
        above = [one > other for one, other in zip(left, right, strict=True)] if ">" in told else [equal]
        needs, origin = used.needs[used.value.isna()], STAND_IN if STAND_IN in [*used.origin] else ""
        state = MISSING if len(needs) else HOLDS if all(above) else UNDECIDED if any(above) else FAILS
        both = {"value": left[0] - right[0], "needs": "; ".join(needs), "origin": origin}
        row = {"place": f"sum {place}", "hold": "all", "upper": both, "lower": both, "state": state}
        found.append(row | {"gap": both["value"], "words": f"{told}: {left[0]:.6g} and {right[0]:.6g}"})
    return found


def compare_order(order: Order, table: pd.DataFrame) -> pd.DataFrame:
    """Every comparison that an order asks for: which row should lie above which, and whether it does.

    A comparison "holds" where the whole interval of the one lies above that of the other by more than `by` (at most
    that far below it where `by` is negative), "fails" where it lies at or below that, and "undecided"
    where they overlap; a value without an interval counts as it is. Overlapping intervals of paired values can hide a
    difference, so a paired difference, where there is one, is the better test: its rows against 0.

    Args: table: the conditions, value, low and high.
    Returns: a row for each pair: the columns of `within`, gap (between the values) and state, "missing" where a side
        has no row or no value; and all columns of the table for each side, NAME_upper and NAME_lower.
    """
    table = table[query_rows(table, order.where)]
    if order.column != "value":
        counts = table[order.column]
        table = table.assign(value=counts, low=math.nan, high=math.nan, said=counts.astype(str))
    table = table.assign(low=table.low.fillna(table.value), high=table.high.fillna(table.value))
    within, sides = list(order.within), {}
    for side, wanted in (("upper", order.upper), ("lower", order.lower)):
        number = pd.DataFrame([{"value": wanted, "low": wanted, "high": wanted, "said": f"{wanted}"}])
        rows = table[query_rows(table, wanted)] if isinstance(wanted, str) else number
        sides[side] = rows.rename(columns={name: f"{name}_{side}" for name in rows.columns if name not in within})
    shared = [name for name in within if all(name in side for side in sides.values())]
    how: Any = {"on": shared, "how": "outer", "sort": False} if shared else {"how": "cross"}
    both = sides["upper"].merge(sides["lower"], **how)
    ends = [f"{end}_{side}" for side in sides for end in ("value", "low", "high")]
    a, a_low, a_high, b, b_low, b_high = (both[end].astype(np.float64) for end in ends)
    surely, perhaps = (a_low - b_high - order.by).round(12), (a_high - b_low - order.by).round(12)
    holds, fails = (surely >= 0, perhaps < 0) if order.by < 0 else (surely > 0, perhaps <= 0)  # a lag up to that
    states = [a.isna() | b.isna(), holds, fails]
    return both.assign(gap=a - b, state=np.select(states, [MISSING, HOLDS, FAILS], UNDECIDED))


def _compare_all(paper: Paper, orders: Sequence[Order], tables: _Tables) -> list[dict[str, Any]]:
    """The comparisons of several orders, with their rows in words; one "missing" for a table that is not there."""
    found: list[dict[str, Any]] = []
    nothing = {"value": math.nan}
    for place, order in enumerate(orders):
        told = {"place": place, "hold": order.hold}
        table = _gather(order, tables)
        named = [name for name in name_keys(table) if name not in ("said", "artefact")]
        named = ["row", "dataset", "heading"] if "published" in table else named
        for pair in compare_order(order, table).to_dict("records") or [{"state": MISSING, "gap": math.nan}]:
            shared = {name: pair.get(name, "") for name in order.within}
            sides = {
                side: nothing | shared | {str(name).removesuffix(f"_{side}"): part for name, part in pair.items()}
                for side in ("upper", "lower")
            }
            row = told | sides | {"state": pair["state"], "gap": pair["gap"]}
            found.append(row | {"words": "" if pair["state"] == MISSING else _say_pair(paper, order, row, named)})
    return found


def _say_pair(paper: Paper, order: Order, pair: Mapping[str, Any], named: Sequence[str]) -> str:
    """A comparison in words: what both rows share, then each by the rest of its conditions, with its value."""
    rows = [pair[side] for side in ("upper", "lower") if isinstance(getattr(order, side), str)]
    first = ("dataset", "heading", "statistic", *order.within)
    equal = [name for name in named if rows[0].get(name) == rows[-1].get(name)]
    alike = [name for name in equal if name in first or (len(rows) == 2 and name not in ("row", "metric"))]
    rest = [name for name in named if name not in alike]
    inside, *shown = (
        say_conditions(paper, {name: row.get(name, "") for name in told})
        for row, told in ((rows[0], alike), (pair["upper"], rest), (pair["lower"], rest))
    )
    upper, lower = (
        f"{said} at {pair[side]['said']}" if isinstance(wanted, str) else f"{wanted:g}"
        for said, side, wanted in zip(shown, ("upper", "lower"), (order.upper, order.lower), strict=True)
    )
    if order.by < 0:
        verb = {HOLDS: "is at most", FAILS: "is more than"}.get(pair["state"], "may or may not be at most")
        said = f"{upper} {verb} {-order.by:g} below {lower}"
    else:
        far = f" more than {order.by:g}" if order.by else ""
        verb = {HOLDS: "is", FAILS: "is not"}.get(pair["state"], "may or may not be") + far
        said = f"{upper} {verb} above {lower}" if isinstance(order.upper, str) else f"{lower} {verb} below {upper}"
    return f"{inside}: {said}" if inside else said


def _weigh(side: str, compared: Sequence[Mapping[str, Any]], untested: str = UNTESTABLE) -> dict[str, str]:
    """The verdict on all orders together, the same with its counts, and the comparison that is nearest to failing."""
    places = sorted({row["place"] for row in compared}, key=str)
    verdicts = {place: _settle([row for row in compared if row["place"] == place]) for place in places}
    verdict = next((state for state in (FAILS, MISSING, UNDECIDED) if state in verdicts.values()), HOLDS)
    if not compared or verdict == MISSING:
        return {side: untested, f"{side}_said": untested, f"{side}_because": ""}
    telling = [row for row in compared if verdicts[row["place"]] == row["state"] == verdict]
    closest = min(telling, key=lambda row: row["gap"])["words"]
    because = f"the closest: {closest}" if verdict == HOLDS else closest
    if side == "stand_in" and verdict != UNDECIDED:
        verdict += f" for a {STAND_IN}"
    return {side: verdict, f"{side}_said": f"{verdict}: {_say_counts(compared)}", f"{side}_because": because}


def _settle(compared: Sequence[Mapping[str, Any]]) -> str:
    """The verdict on one order: it holds with as many comparisons as must hold, fails where that is out of reach."""
    states = [row["state"] for row in compared]
    wanted = {"all": len(states), "most": len(states) // 2 + 1, "some": 1}[compared[0]["hold"]]
    if states.count(HOLDS) >= wanted:
        return HOLDS
    if len(states) - states.count(FAILS) < wanted:
        return FAILS
    return MISSING if MISSING in states else UNDECIDED


def _say_counts(compared: Sequence[Mapping[str, Any]]) -> str:
    """How many comparisons hold, as in "35 of 36 hold", how many are open, and how many must hold if not all must."""
    states = Counter(row["state"] for row in compared)
    said = f"{states[HOLDS]} of {len(compared)} hold{'s' if len(compared) == 1 else ''}"
    for state, word in ((UNDECIDED, "undecided"), (MISSING, MISSING)):
        said += f", {states[state]} {word}" if states[state] else ""
    holds = Counter({row["place"]: row["hold"] for row in compared}.values())
    if set(holds) == {"all"}:
        return said
    total = holds.total()
    told = [
        hold.replace("some", "one")
        + ("" if total == 1 else f" in each of {n} groups" if n == total else f" in {n} of {total} groups")
        for hold, n in holds.items()
    ]
    return f"{said}; needed: {', '.join(told)}"


def count_claims(claims: pd.DataFrame) -> pd.DataFrame:
    """How many claims have each verdict: rows are kind, READ for what we read off a figure, and verdict."""
    kinds = claims.assign(kind=claims.kind.mask(claims.stated == "figure", READ))
    told = kinds.melt("kind", SIDES, "side", "verdict").query("verdict != ''")
    counts = pd.crosstab([told.kind, told.verdict], told.side).reindex(columns=SIDES, fill_value=0)
    return counts.rename_axis(columns=None).sort_index(ascending=[False, True])


def write_claim(claim: Mapping[str, object]) -> str:
    """A claim with its verdicts, in lines of plain text."""
    read = ", as we read it" if claim["stated"] == "figure" else ""
    lines = [f"{claim['says']} ({claim['where']}{read})", *([f"  {'bar:':14}{claim['bar']}"] if claim["bar"] else [])]
    for side, what in (("published", "as published"), ("here", "here"), ("stand_in", "stand-in")):
        because = f"{': needs ' if claim[side] in (UNTESTABLE, ALONE) else '; '}{claim[f'{side}_because']}"
        if claim[side]:
            lines.append(f"  {what + ':':14}{claim[f'{side}_said']}{because if claim[f'{side}_because'] else ''}")
    return "\n".join([*lines, *([f"  {'':14}({claim['stand_in_for']})"] if claim["stand_in"] else [])])
