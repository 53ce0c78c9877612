"""What the papers claim, and whether it holds: on their own published numbers, and on ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
    printed, ours = {}, {}
    for name in paper.published.artefact.unique():
        ours[name] = table = compare_published(paper, name, values.get(name))
        said = table.printed.where(table.unit == "", table.published.map("{:g}".format))
        printed[name] = table.assign(value=table.published, low=np.nan, high=np.nan, said=said)
    for tables in (ours, values):
        for name, table in tables.items():
            tables[name] = table.assign(said=write_intervals(table, digits=3, whole_from=100))
    return pd.DataFrame([_judge(paper, name, printed, ours, values) for name in paper.claims])


def _judge(paper: Paper, name: str, printed: _Tables, ours: _Tables, values: _Tables) -> dict[str, object]:
    """A claim with its verdicts: a row of `judge_claims`."""
    claim = paper.claims[name]
    published, in_place = (_compare_all(claim.published, tables) for tables in (printed, ours))
    measured = proxy = published[:0]
    for pairs in (in_place, _compare_all(claim.here, values)):
        parts = [pairs[pairs.is_proxy == is_proxy] for is_proxy in (False, True)]
        whole = [part.number.nunique() == pairs.number.nunique() for part in parts]  # of every order
        if _settle(pairs) != MISSING:
            measured = parts[0] if whole[0] else measured
            proxy = parts[1] if all(whole) else proxy if whole[0] else pairs
    row = {"claim": name} | claim.model_dump(include={"says", "where", "stated", "kind", "bar", "headline"})
    row |= _weigh(paper, "published", published, NO_CELLS) | _weigh(paper, "here", measured, UNTESTABLE)
    row |= _weigh(paper, "stand_in", proxy, "") | {"stand_in_for": claim.stand_in}
    if row["here"] == UNTESTABLE:
        needs = [show_name(paper, need) for need in _list_needs(claim, in_place)]
        needs += [f"the results of {paper.paper}/{table}" for table in claim.tables if table not in values]
        row["here_because"] = "; ".join(dict.fromkeys(needs))
        row |= {"here": ALONE, "here_said": ALONE} if row["stand_in"] else {}
    if claim.primary:
        decides = published[[row["statistic"] == claim.primary for row in published.upper]]
        row["published_said"] += f"; by {show_name(paper, claim.primary)}, its primary measure, {_say_counts(decides)}"
    return row


def _list_needs(claim: Claim, in_place: pd.DataFrame) -> list[str]:
    """What a test of a claim on the paper's own rows lacks: roles and data."""
    rows = pd.DataFrame([*in_place.upper, *in_place.lower], columns=["value", "needs"])
    printed = rows.needs[rows.value.isna()].dropna().str.split("; ").explode()
    return [need for need in (*claim.needs, *printed) if need]


def compare_order(order: Order, table: pd.DataFrame) -> pd.DataFrame:
    """Every comparison that an order asks for: which row should lie above which, and whether it does.

    A comparison "holds" where the whole interval of the one lies above that of the other by more than `by` (at most
    that far below it where `by` is negative), "fails" where it lies at or below that, and "undecided"
    where they overlap; a value without an interval counts as it is. Overlapping intervals of paired values can hide a
    difference, so a paired difference, where there is one, is the better test: its rows against 0.

    Args: table: the conditions, value, low and high.
    Returns: a row for each pair, and one where there is none: upper and lower (both rows, as mappings), gap (between
        their values), state ("missing" where a side has no row or no value) and is_proxy (one of them is a stand-in).
    """
    table = table.reindex(columns=[*dict.fromkeys(["value", "low", "high", "origin", *table, *order.within])])
    table = table[query_rows(table, order.where)]
    sides = [
        table[query_rows(table, side)].reset_index(drop=True)
        if isinstance(side, str)
        else pd.DataFrame([{"value": side, "low": np.nan, "high": np.nan, "said": f"{side:g}", "origin": ""}])
        for side in (order.upper, order.lower)
    ]
    keys = [*order.within] if isinstance(order.upper, str) and isinstance(order.lower, str) else []
    join: Any = {"on": keys, "how": "outer", "sort": False} if keys else {"how": "cross"}
    places = sides[0][keys].assign(upper=sides[0].index).merge(sides[1][keys].assign(lower=sides[1].index), **join)
    places = places.reindex(range(max(1, len(places))))
    upper, lower = (side.reindex(places[name]) for side, name in zip(sides, ("upper", "lower"), strict=True))
    ends = [side[["value", "low", "high"]].to_numpy(dtype=np.float64) for side in (upper, lower)]
    (a, a_low, a_high), (b, b_low, b_high) = (np.where(np.isnan(each), each[:, :1], each).T for each in ends)
    surely, perhaps = np.round(a_low - b_high - order.by, 12), np.round(a_high - b_low - order.by, 12)
    holds, fails = (surely >= 0, perhaps < 0) if order.by < 0 else (surely > 0, perhaps <= 0)  # a lag up to that
    return pd.DataFrame({
        "upper": upper.to_dict("records"), "lower": lower.to_dict("records"), "gap": a - b,
        "state": np.select([np.isnan(a - b), holds, fails], [MISSING, HOLDS, FAILS], UNDECIDED),
        "is_proxy": ((upper.origin == STAND_IN).to_numpy() | (lower.origin == STAND_IN).to_numpy()),
    })  # fmt: skip


def _compare_all(orders: Sequence[Order], tables: _Tables) -> pd.DataFrame:
    """The comparisons of each order, with the order and its number."""
    frames = [pd.DataFrame(columns=["upper", "lower", "gap", "state", "is_proxy", "number", "order"])]
    for number, order in enumerate(orders):
        parts = [tables[name].assign(artefact=name) for name in order.tables if tables.keys() >= {*order.tables}]
        pairs = compare_order(order, pd.concat(parts) if parts else pd.DataFrame())
        frames.append(pairs.assign(number=number, order=[order] * len(pairs)))
    return pd.concat(frames[1:] or frames, ignore_index=True)


def _say_pair(paper: Paper, pair: pd.Series) -> str:
    """A comparison in words: what both rows share, then each by the rest of its conditions, with its value."""
    order, sides = pair.order, [pair.upper, pair.lower]
    rows = [row for row in sides if "statistic" in row]
    keys = [name for name in name_keys(pd.DataFrame(rows)) if name not in ("said", "artefact")]
    keys = ["row", "dataset", "heading"] if "published" in rows[0] else keys
    first = ("dataset", "heading", "statistic", *order.within)
    equal = [name for name in keys if rows[0].get(name) == rows[-1].get(name)]
    shared = [name for name in equal if name in first or (len(rows) == 2 and name not in ("row", "metric"))]
    inside = say_conditions(paper, {name: rows[0].get(name, "") for name in shared})
    above, below = (
        f"{say_conditions(paper, {name: row.get(name, '') for name in keys if name not in shared})} at {row['said']}"
        if row in rows
        else row["said"]
        for row in sides
    )
    if order.by < 0:
        verb = {HOLDS: "is at most", FAILS: "is more than"}.get(pair.state, "may or may not be at most")
        words = f"{above} {verb} {-order.by:g} below {below}"
    else:
        verb = {HOLDS: "is", FAILS: "is not"}.get(pair.state, "may or may not be")
        verb += f" more than {order.by:g}" if order.by else ""
        words = f"{above} {verb} above {below}" if isinstance(order.upper, str) else f"{below} {verb} below {above}"
    return f"{inside}: {words}" if inside else words


def _weigh(paper: Paper, side: str, pairs: pd.DataFrame, untested: str) -> dict[str, str]:
    """The verdict on all orders together, the same with its counts, and the comparison that is nearest to failing."""
    verdict = _settle(pairs)
    if verdict == MISSING:
        return {side: untested, f"{side}_said": untested, f"{side}_because": ""}
    decided = pairs.groupby("number").filter(lambda group: _settle(group) == verdict)
    closest = _say_pair(paper, decided.loc[decided[decided.state == verdict].gap.idxmin()])
    because = f"the closest: {closest}" if verdict == HOLDS else closest
    verdict += f" for a {STAND_IN}" if side == "stand_in" and verdict != UNDECIDED else ""
    return {side: verdict, f"{side}_said": f"{verdict}: {_say_counts(pairs)}", f"{side}_because": because}


def _settle(pairs: pd.DataFrame) -> str:
    """The verdict on all orders together: one holds with as many comparisons as must hold; "missing" without any."""
    verdicts = []
    for _, group in pairs.groupby("number"):
        n, states = len(group), group.state.tolist()
        needed = {"all": n, "most": n // 2 + 1, "some": 1}[group.order.iloc[0].hold]
        is_out_of_reach, is_open = n - states.count(FAILS) < needed, states.count(HOLDS) < needed
        open_state = MISSING if MISSING in states else UNDECIDED
        verdicts.append(FAILS if is_out_of_reach else open_state if is_open else HOLDS)
    return next((state for state in (FAILS, MISSING, UNDECIDED, HOLDS) if state in verdicts), MISSING)


def _say_counts(pairs: pd.DataFrame) -> str:
    """How many comparisons hold, as in "35 of 36 hold", how many are open, and how many must hold if not all must."""
    states = Counter(pairs.state)
    words = f"{states[HOLDS]} of {len(pairs)} hold{'s' if len(pairs) == 1 else ''}"
    words += "".join(f", {states[state]} {state}" for state in (UNDECIDED, MISSING) if states[state])
    needed = Counter(order.hold.replace("some", "one") for order in pairs.drop_duplicates("number").order)
    total = needed.total()
    parts = [f"{hold} in {'each' if n == total else n} of {total} groups" for hold, n in needed.items()]
    return words if {*needed} == {"all"} else f"{words}; needed: {', '.join(parts if total > 1 else needed)}"


def count_claims(claims: pd.DataFrame) -> list[str]:
    """How many claims of each kind have each verdict, a sentence for each kind that there is."""
    if claims.empty:
        return []
    sentences, kinds = [], claims.kind.mask(claims.stated == "figure", READ)
    for kind, title in KINDS.items():
        of_kind, parts = claims[kinds == kind], []
        for side, words in SIDES.items():
            counts = of_kind[side][of_kind[side] != ""].value_counts().sort_index()
            parts += [f"{words} {', '.join(f'{word} {n}' for word, n in counts.items())}"] if len(counts) else []
        sentences += [f"All {len(of_kind)} {title}: {'; '.join(parts)}."] if parts else []
    return sentences


def write_claim(claim: Mapping[str, object]) -> str:
    """A claim with its verdicts, in lines of plain text."""
    read = ", as we read it" if claim["stated"] == "figure" else ""
    lines = [f"{claim['says']} ({claim['where']}{read})", *([f"  {'bar:':14}{claim['bar']}"] if claim["bar"] else [])]
    for side, title in (SIDES | {"stand_in": "stand-in"}).items():
        link = ": needs " if claim[side] in (UNTESTABLE, ALONE) else "; "
        because = f"{link}{claim[f'{side}_because']}" if claim[f"{side}_because"] else ""
        lines += [f"  {title + ':':14}{claim[f'{side}_said']}{because}"] if claim[side] else []
    return "\n".join([*lines, *([f"  {'':14}({claim['stand_in_for']})"] if claim["stand_in"] else [])])
