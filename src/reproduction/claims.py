"""What the papers claim, and the verdict on each claim: on published numbers, measured here, and by proxy."""

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

SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE, NOT_TESTED = "supported", "not supported", "inconclusive", "not tested"
VERDICTS = [SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE, NOT_TESTED]
PROXY = " (proxy)"  # ends a verdict on other data or with another model than the paper's
MISSING = "missing"  # a comparison without a row or a value on one side
SIDES = {"published": "published numbers", "here": "measured here", "stand_in": "proxy"}
COUNTS = (
    "35 of 36 comparisons: 35 of the claim's 36 comparisons meet its criterion. "
    "A claim is supported where all do, unless its line names another number as needed."
)
APART = "Definitions, and what this project read off figures"
_ROLES = {
    "judge": "a language model as judge (JUDGE=)",
    "generator": "a language model as generator (GENERATOR=)",
    "evaluator": "a language model as evaluator (EVALUATOR=)",
}
_NEEDED = {"all": "all", "most": "more than half", "some": "at least one"}
_REASONS = {
    SUPPORTED: "closest comparison",
    NOT_SUPPORTED: "clearest contradiction",
    INCONCLUSIVE: "least favourable comparison",
}
_Tables = Mapping[str, pd.DataFrame]


def judge_claims(paper: Paper, results: Path) -> pd.DataFrame:
    """Each claim with its verdicts, in the paper's order.

    A claim without all its rows or tables is not tested on that side.
    Args: results: the folder that holds one folder of values for each paper.
    Returns: one row per claim. claim is its name; says, where, kind, stated, bar and headline are as in papers/*.yml.
        apart: it is a definition, or this project read it off a figure. published, here and stand_in are the verdicts
        on the paper's numbers, on what is measured here, and by proxy ("" without a proxy). Each `..._said` is the
        verdict with its counts ("not supported: 35 of 36 comparisons") or with what a test needs. Each `..._because`
        is the comparison that decides. stand_in_for names the proxy and what it replaces.
    """
    names = {name for claim in paper.claims.values() for name in claim.tables}
    files = {name: results / paper.paper / f"{name}.csv" for name in names}
    values = {name: read_values(path) for name, path in files.items() if path.is_file()}
    printed, measured = {}, {}
    for name in paper.published.artefact.unique():
        measured[name] = table = compare_published(paper, name, values.get(name))
        said = table.printed.where(table.unit == "", table.published.map("{:g}".format))
        printed[name] = table.assign(value=table.published, low=np.nan, high=np.nan, said=said)
    for tables in (measured, values):
        for name, table in tables.items():
            tables[name] = table.assign(said=_write_values(table))
    return pd.DataFrame([_judge(paper, name, printed, measured, values) for name in paper.claims])


def _write_values(table: pd.DataFrame) -> pd.Series:
    """Each value with its interval; a whole number without an interval has no decimals."""
    texts = write_intervals(table, digits=3, whole_from=100)
    is_whole = table.low.isna() & (table.value.astype(float) % 1 == 0)
    return texts.mask(is_whole, texts.str.partition(".")[0])


def _judge(paper: Paper, name: str, printed: _Tables, measured: _Tables, values: _Tables) -> dict[str, object]:
    """A claim with its verdicts: a row of `judge_claims`."""
    claim = paper.claims[name]
    published, in_place = (_compare_all(claim.published, tables) for tables in (printed, measured))
    here = proxy = published[:0]
    for pairs in (in_place, _compare_all(claim.here, values)):
        parts = [pairs[pairs.is_proxy == is_proxy] for is_proxy in (False, True)]
        whole = [part.number.nunique() == pairs.number.nunique() for part in parts]  # of every order
        if _settle(pairs) != MISSING:
            here = parts[0] if whole[0] else here
            proxy = parts[1] if all(whole) else proxy if whole[0] else pairs
    needs = [_say_need(paper, need) for need in _list_needs(claim, in_place)]
    needs += [f"the results of {paper.paper}/{table}" for table in claim.tables if table not in values]
    row = {"claim": name} | claim.model_dump(include={"says", "where", "stated", "kind", "bar", "headline"})
    row |= {"apart": claim.kind == "by definition" or claim.stated == "figure", "stand_in_for": claim.stand_in}
    row |= _weigh(paper, "published", published, f"{NOT_TESTED}: {_say_absence(claim)}", claim.primary)
    row |= _weigh(paper, "here", here, f"{NOT_TESTED}{': needs ' if needs else ''}{'; '.join(dict.fromkeys(needs))}")
    return row | _weigh(paper, "stand_in", proxy, "")


def _say_absence(claim: Claim) -> str:
    """Why no published number tests a claim."""
    places = {"Table": "table not available to us", "Figure": "numbers of the figure not available to us"}
    return next((words for place, words in places.items() if place in claim.where), "no published number tests this")


def _say_need(paper: Paper, need: str) -> str:
    """A role or data in words; a role also by the option that sets it, where the paper names no model for it."""
    words = show_name(paper, need)
    return _ROLES.get(need, words) if words == need else words


def _list_needs(claim: Claim, in_place: pd.DataFrame) -> list[str]:
    """The roles and data that a test of a claim on the paper's rows still needs."""
    rows = pd.DataFrame([*in_place.upper, *in_place.lower], columns=["value", "needs"])
    printed = rows.needs[rows.value.isna()].dropna().str.split("; ").explode()
    return [need for need in (*claim.needs, *printed) if need]


def compare_order(order: Order, table: pd.DataFrame) -> pd.DataFrame:
    """Every comparison of an order: which row should lie above which, and whether it does.

    A comparison is "supported" where the whole interval of `upper` lies above that of `lower` by more than `by`.
    It is "not supported" where the whole interval lies at or below that, and "inconclusive" where the two overlap.
    A negative `by` allows `upper` to lie so far below `lower`. A value without an interval counts as it is.
    Overlapping intervals of paired values can hide a difference: paired differences against 0 are the better test.

    Args: table: the conditions, value, low and high.
    Returns: one row per pair, and one row where there is no pair. upper and lower are both rows, as mappings; gap is
        the difference of their values. state is the verdict, or "missing" where a side has no row or no value.
        is_proxy is true where one of the two is measured by proxy.
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
    is_above, is_below = (surely >= 0, perhaps < 0) if order.by < 0 else (surely > 0, perhaps <= 0)  # a lag up to that
    return pd.DataFrame({
        "upper": upper.to_dict("records"), "lower": lower.to_dict("records"), "gap": a - b,
        "state": np.select([np.isnan(a - b), is_above, is_below], [MISSING, SUPPORTED, NOT_SUPPORTED], INCONCLUSIVE),
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
    """A comparison in words: the conditions that both rows share, then each row's other conditions and its value."""
    order, sides = pair.order, [pair.upper, pair.lower]
    rows = [row for row in sides if "statistic" in row]
    keys = [name for name in name_keys(pd.DataFrame(rows)) if name not in ("said", "artefact")]
    keys = ["row", "dataset", "heading"] if "published" in rows[0] else keys
    first = ("dataset", "heading", "statistic", *order.within)
    equal = [name for name in keys if rows[0].get(name) == rows[-1].get(name)]
    shared = [name for name in equal if name in first or (len(rows) == 2 and name not in ("row", "metric"))]
    words = [_say_row(paper, row, keys, shared) for row in rows]
    if not all(words):  # nothing but the statistic says what is compared
        shared = [name for name in shared if name not in ("statistic", "heading")]
        words = [_say_row(paper, row, keys, shared) for row in rows]
    inside = say_conditions(paper, {name: rows[0].get(name, "") for name in shared})
    above, below = (f"{words.pop(0)} at {row['said']}" if "statistic" in row else row["said"] for row in sides)
    if order.by < 0:
        most = "more than" if pair.state == NOT_SUPPORTED else "at most"
        text = f"{above} is {most} {-order.by:g} below {below}"
    else:
        verb = "is not" if pair.state == NOT_SUPPORTED else "is"
        verb += f" more than {order.by:g}" if order.by else ""
        text = f"{above} {verb} above {below}" if isinstance(order.upper, str) else f"{below} {verb} below {above}"
    text = f"it is inconclusive whether {text}" if pair.state == INCONCLUSIVE else text
    return f"{inside}: {text}" if inside else text


def _say_row(paper: Paper, row: Mapping[str, object], keys: Sequence[str], shared: Sequence[str]) -> str:
    """The conditions of a row that are not shared, in words."""
    return say_conditions(paper, {name: row.get(name, "") for name in keys if name not in shared})


def _weigh(paper: Paper, side: str, pairs: pd.DataFrame, untested: str, primary: str = "") -> dict[str, str]:
    """The verdict on all orders together, the same with its counts, and the comparison that decides.

    primary: the measure whose comparisons alone decide; all decide without one.
    """
    sides = zip(pairs.upper, pairs.lower, strict=True)
    rows = (upper if pd.notna(upper.get("statistic", np.nan)) else lower for upper, lower in sides)  # either may lack
    is_primary = pd.Series([primary in ("", row.get("statistic")) for row in rows], pairs.index, dtype=bool)
    deciding = pairs[is_primary]
    verdict = _settle(deciding)
    if verdict == MISSING:
        return {side: untested.partition(":")[0], f"{side}_said": untested, f"{side}_because": ""}
    decided = deciding.groupby("number").filter(lambda group: _settle(group) == verdict)
    because = f"{_REASONS[verdict]}: {_say_pair(paper, decided.loc[decided[decided.state == verdict].gap.idxmin()])}"
    counts = _say_counts(deciding, f" by {show_name(paper, primary)}, the primary measure" if primary else "")
    if primary:
        counts += f"; {(pairs.state == SUPPORTED).sum()} of {len(pairs)} by all measures"
        contrary = pairs[~is_primary & (pairs.state == NOT_SUPPORTED)]
        others = _say_pair(paper, contrary.loc[contrary.gap.idxmin()]) if len(contrary) else ""
        because += f"; clearest contradiction by another measure: {others}" if others else ""
    verdict += PROXY if side == "stand_in" else ""
    return {side: verdict, f"{side}_said": f"{verdict}: {counts}", f"{side}_because": because}


def _settle(pairs: pd.DataFrame) -> str:
    """The verdict on all orders together; "missing" without any. Each order needs as many comparisons as it names."""
    verdicts = []
    for _, group in pairs.groupby("number"):
        n, states = len(group), group.state.tolist()
        needed = {"all": n, "most": n // 2 + 1, "some": 1}[group.order.iloc[0].hold]
        is_out_of_reach, is_open = n - states.count(NOT_SUPPORTED) < needed, states.count(SUPPORTED) < needed
        open_state = MISSING if MISSING in states else INCONCLUSIVE
        verdicts.append(NOT_SUPPORTED if is_out_of_reach else open_state if is_open else SUPPORTED)
    return next((state for state in (NOT_SUPPORTED, MISSING, INCONCLUSIVE, SUPPORTED) if state in verdicts), MISSING)


def _say_counts(pairs: pd.DataFrame, measure: str = "") -> str:
    """How many comparisons are supported and inconclusive, and how many must be supported if not all must.

    A single comparison of a value with a number is the value with its interval, and the number.
    """
    order = pairs.order.iloc[0]
    if len(pairs) == 1 and not (isinstance(order.upper, str) and isinstance(order.lower, str)):
        return f"{_say_value(pairs.iloc[0], order)}{measure}"
    states = Counter(pairs.state)
    words = f"{states[SUPPORTED]} of {len(pairs)} comparison{'' if len(pairs) == 1 else 's'}{measure}"
    words += "".join(f", {states[state]} {state}" for state in (INCONCLUSIVE, MISSING) if states[state])
    needed = Counter(_NEEDED[order.hold] for order in pairs.drop_duplicates("number").order)
    total = needed.total()
    parts = [f"{hold} in {'each' if n == total else n} of {total} groups" for hold, n in needed.items()]
    return words if {*needed} == {"all"} else f"{words}; needed: {', '.join(parts if total > 1 else needed)}"


def _say_value(pair: pd.Series, order: Order) -> str:
    """The value of a comparison with a number, and the number that it must lie above or below."""
    if isinstance(order.upper, str):
        words, number = ("at least" if order.by < 0 else "above"), float(order.lower) + order.by
        return f"{pair.upper['said']}; needed: {words} {number:,.6g}"
    words, number = ("at most" if order.by < 0 else "below"), float(order.upper) - order.by
    return f"{pair.lower['said']}; needed: {words} {number:,.6g}"


def count_claims(claims: pd.DataFrame, *, apart: bool = False) -> pd.DataFrame:
    """How many of the claims that text or captions state have each verdict; README, `make claims` and site use this.

    Args: claims: rows of `judge_claims`. apart: count the definitions and what this project read off figures instead.
    Returns: one row per side (published numbers, measured here, proxy) and one column per verdict. A claim without a
        published number or a proxy is "not tested" there, so that each row sums to the number of claims.
    """
    claims = claims.reindex(columns=["apart", *SIDES])
    counted = claims[claims.apart.astype(bool) == apart]
    verdicts = {
        title: counted[side].astype(str).str.removesuffix(PROXY).replace("", NOT_TESTED).value_counts()
        for side, title in SIDES.items()
    }
    return pd.DataFrame(verdicts).reindex(VERDICTS).T.fillna(0).astype(int).rename_axis(index=None, columns=None)


def write_claim(claim: Mapping[str, object]) -> str:
    """A claim in lines of plain text: the sentence, one line per side, then its criterion and the reasons."""
    read = ", as read by this project" if claim["stated"] == "figure" else ""
    sides = {side: f"{title + ':':19}" for side, title in SIDES.items() if claim[side]}
    lines = [f"{claim['says']} ({claim['where']}{read})"]
    lines += [f"  {title}{claim[f'{side}_said']}" for side, title in sides.items()]
    lines += [f"  {'':19}{claim['stand_in_for']}"] if claim["stand_in"] else []
    lines += [f"  Criterion: {claim['bar']}"] if claim["bar"] else []
    reasons = {side: claim[f"{side}_because"] for side in sides if claim[f"{side}_because"]}
    return "\n".join([*lines, *(f"  Reason, {SIDES[side]}: {reason}" for side, reason in reasons.items())])
