"""What the papers claim, and the verdict on each claim: on published numbers, measured here, and by
proxy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reproduction.compare import compare_published, say_conditions
from reproduction.papers import (
    INCONCLUSIVE,
    NOT_SUPPORTED,
    NOT_TESTED,
    PROXY,
    STAND_IN,
    SUPPORTED,
    Claim,
    Order,
    Paper,
    show_name,
)
from reproduction.values import name_keys, query_rows, read_values, write_numbers

COUNTED = ["supported", "not_supported", "inconclusive"]
_COLUMNS = [
    "claim", "says", "where", "stated", "kind", "bar", "headline", "apart", "side", "verdict", *COUNTED, "needs",
    "needed", "primary", "upper", "lower", "by", "stand_in",
]  # fmt: skip
VERDICTS = [SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE, NOT_TESTED]
MISSING = "missing"  # a comparison without a row or a value on one side
SIDES = ["published numbers", "measured here", PROXY]
APART = "Definitions, and what this project read off figures"
_ROLES = {
    "judge": "a language model as judge (JUDGE=)",
    "generator": "a language model as generator (GENERATOR=)",
    "evaluator": "a language model as evaluator (EVALUATOR=)",
}
_NEEDED = {"all": "all", "most": "more than half", "some": "at least one"}
_Tables = Mapping[str, pd.DataFrame]


def judge_claims(paper: Paper, results: Path) -> pd.DataFrame:
    """Each claim, in the paper's order, with a verdict by the paper's numbers, by what is measured
    here, and by proxy.

    A claim without all its rows or tables is not tested on that side; without a proxy it has no
    such row.
    Args: results: the folder that holds one folder of values for each paper.
    Returns: one row per claim and side. claim is its name; says, where, kind, stated, bar and
        headline are as in papers/*.yml; apart: it is a definition, or this project read it off a
        figure; side, one of SIDES; verdict; supported, not_supported and inconclusive count
        comparisons; needed: how many must be supported, if not all; primary: the measure that alone
        counts, if there is one, and the count by all measures, or the verdict on each named order;
        needs: what a test needs, of a claim that is not tested; upper and lower: the rows of the
        comparison that decides, the closest one or the clearest contradiction, with their values;
        by: how far the first must lie above the second; stand_in: of a proxy, its name and what it
        replaces.
    """
    names = {name for claim in paper.claims.values() for name in claim.tables}
    files = {name: results / paper.paper / f"{name}.csv" for name in names}
    values = {name: read_values(path) for name, path in files.items() if path.is_file()}
    printed = {}
    measured = {}
    for name in paper.published.artefact.unique():
        measured[name] = table = compare_published(paper, name, values.get(name))
        said = table.printed.where(table.unit == "", table.published.map("{:g}".format))
        printed[name] = table.assign(value=table.published, low=np.nan, high=np.nan, said=said)
    for tables in (measured, values):
        for name, table in tables.items():
            tables[name] = table.assign(said=write_numbers(table))
    rows = [row for name in paper.claims for row in _judge(paper, name, printed, measured, values)]
    return pd.DataFrame(rows, columns=_COLUMNS)


def _judge(
    paper: Paper, name: str, printed: _Tables, measured: _Tables, values: _Tables
) -> Iterator[dict[str, object]]:
    """A claim's rows of `judge_claims`."""
    claim = paper.claims[name]
    published, in_place = (_compare_all(claim.published, tables) for tables in (printed, measured))
    here = proxy = published[:0]
    for pairs in (in_place, _compare_all(claim.here, values)):
        parts = [pairs[pairs.is_proxy == is_proxy] for is_proxy in (False, True)]
        measured_all, proxy_all = (part.number.nunique() == pairs.number.nunique() for part in parts)  # of every order
        if _settle(pairs) == MISSING:
            continue
        if measured_all:
            here = parts[0]
        if not measured_all:
            proxy = pairs
        elif proxy_all:
            proxy = parts[1]
    needs = [_say_need(paper, need) for need in _list_needs(claim, in_place)]
    needs += [f"the results of {paper.paper}/{table}" for table in claim.tables if table not in values]
    row = {"claim": name} | claim.model_dump(include={"says", "where", "stated", "kind", "bar", "headline"})
    row["apart"] = claim.kind == "by definition" or claim.stated == "figure"
    sides = [(published, _say_absence(claim)), (here, "; ".join(dict.fromkeys(needs))), (proxy, "")]
    for side, (pairs, absent) in zip(SIDES, sides, strict=True):
        verdict = _weigh(paper, pairs, absent, claim.primary if side == SIDES[0] else "")
        if side != PROXY or verdict["verdict"] != NOT_TESTED:
            yield row | {"side": side} | verdict | {"stand_in": claim.stand_in if side == PROXY else ""}


def _say_absence(claim: Claim) -> str:
    """What a test on published numbers needs, which is not available to us."""
    places = {"Table": "the cells of the table", "Figure": "the numbers of the figure"}
    return next((words for place, words in places.items() if place in claim.where), "a published number")


def _say_need(paper: Paper, need: str) -> str:
    """A role or data in words; a role also by the option that sets it, where the paper names no
    model for it.
    """
    words = show_name(paper, need)
    return _ROLES.get(need, words) if words == need else words


def _list_needs(claim: Claim, in_place: pd.DataFrame) -> list[str]:
    """The roles and data that a test of a claim on the paper's rows still needs."""
    rows = pd.DataFrame([*in_place.upper, *in_place.lower], columns=["value", "needs"])
    printed = rows.needs[rows.value.isna()].dropna().str.split("; ").explode()
    return [need for need in (*claim.needs, *printed) if need]


def compare_order(order: Order, table: pd.DataFrame) -> pd.DataFrame:
    """Every comparison of an order: which row should lie above which, and whether it does.

    A comparison is "supported" where the whole interval of `upper` lies above that of `lower` by
    more than `by`. It is "not supported" where the whole interval lies at or below that, and
    "inconclusive" where the two overlap. A negative `by` allows `upper` to lie so far below
    `lower`. A value without an interval counts as it is. Overlapping intervals of paired values can
    hide a difference: paired differences against 0 are the better test.

    Args: table: the conditions, value, low and high.
    Returns: one row per pair, and one row where there is no pair. upper and lower are both rows, as
        mappings; gap is the difference of their values. state is the verdict, or "missing" where a
        side has no row or no value. is_proxy is true where one of the two is measured by proxy.
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
    surely = np.round(a_low - b_high - order.by, 12)
    perhaps = np.round(a_high - b_low - order.by, 12)
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


def _say_side(paper: Paper, row: Mapping[str, Any]) -> str:
    """A row of a comparison with its value; or the number that a row is compared with."""
    if "statistic" not in row:
        return row["said"]
    names = ["row", "dataset", "heading"] if "published" in row else name_keys(pd.DataFrame([row]))
    conditions: dict[Hashable, object] = {name: row[name] for name in names if name not in ("said", "artefact")}
    return f"{say_conditions(paper, conditions)}: {row['said']}"


def _weigh(paper: Paper, pairs: pd.DataFrame, absent: str, primary: str) -> dict[str, object]:
    """The verdict on all orders together, with its counts and the comparison that decides.

    absent: what a test needs where there is none. primary: the measure whose comparisons alone
        count, if one is named.
    """
    sides = zip(pairs.upper, pairs.lower, strict=True)
    rows = (upper if pd.notna(upper.get("statistic", np.nan)) else lower for upper, lower in sides)  # either may lack
    deciding = pairs[pd.Series([primary in ("", row.get("statistic")) for row in rows], pairs.index, dtype=bool)]
    verdict = _settle(deciding)
    if verdict == MISSING:
        texts = dict.fromkeys(("needed", "primary", "upper", "lower"), "")
        return {"verdict": NOT_TESTED, **dict.fromkeys(COUNTED, 0), "needs": absent, **texts, "by": 0.0}
    decisive = deciding.groupby("number").filter(lambda group: _settle(group) == verdict)
    pair = decisive.loc[decisive[decisive.state == verdict].gap.idxmin()]
    by_all = f"{(pairs.state == SUPPORTED).sum()} of {len(pairs)}"
    counts = [int((deciding.state == state).sum()) for state in (SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE)]
    return {
        "verdict": verdict,
        **dict(zip(COUNTED, counts, strict=True)),
        "needs": "",
        "needed": _say_needed(deciding),
        "primary": f" by {show_name(paper, primary)} ({by_all} by all measures)" if primary else _say_parts(deciding),
        "upper": _say_side(paper, pair.upper),
        "lower": _say_side(paper, pair.lower),
        "by": pair.order.by,
    }


def _say_parts(pairs: pd.DataFrame) -> str:
    """The verdict on each order that has a name."""
    names = pairs.order.map(lambda order: order.named)
    parts = [f"{name}: {_settle(part)}" for name, part in pairs[names != ""].groupby(names, sort=False)]
    return f" ({', '.join(parts)})" if parts else ""


def _say_needed(pairs: pd.DataFrame) -> str:
    """How many comparisons must be supported in each order, "" where all must."""
    counts = pairs.drop_duplicates("number").order.map(lambda order: _NEEDED[order.hold]).value_counts(sort=False)
    if [*counts.index] == [_NEEDED["all"]]:
        return ""
    parts = [f"{needed} in {count} of {counts.sum()} groups" for needed, count in counts.items()]
    return f", needed: {', '.join(parts) if counts.sum() > 1 else counts.index[0]}"


def _settle(pairs: pd.DataFrame) -> str:
    """The verdict on all orders together; "missing" without any. Each order needs as many
    comparisons as it names.
    """
    verdicts = []
    for _, group in pairs.groupby("number"):
        n = len(group)
        states = group.state.tolist()
        needed = {"all": n, "most": n // 2 + 1, "some": 1}[group.order.iloc[0].hold]
        if n - states.count(NOT_SUPPORTED) < needed:
            verdicts.append(NOT_SUPPORTED)
        elif states.count(SUPPORTED) >= needed:
            verdicts.append(SUPPORTED)
        else:
            verdicts.append(MISSING if MISSING in states else INCONCLUSIVE)
    return next((state for state in (NOT_SUPPORTED, MISSING, INCONCLUSIVE, SUPPORTED) if state in verdicts), MISSING)


def count_claims(claims: pd.DataFrame, *, apart: bool = False) -> pd.DataFrame:
    """How many of the claims that text or captions state have each verdict; README, `make claims`
    and site use this.

    Args: claims: rows of `judge_claims`. apart: count the definitions and what this project read
        off figures instead.
    Returns: one row per side and one column per verdict, so that each row sums to the number of
        claims.
    """
    counted = claims[claims.apart == apart]
    counts = pd.crosstab(counted.side, counted.verdict).reindex(index=SIDES, columns=VERDICTS, fill_value=0)
    counts[NOT_TESTED] = counted.claim.nunique() - counts.drop(columns=NOT_TESTED).sum(axis=1)
    return counts


def write_claim(sides: pd.DataFrame) -> str:
    """A claim's rows in lines of plain text: the sentence, each side's verdict and what decides it,
    the criterion.
    """
    claim = sides.iloc[0]
    read = ", as read by this project" if claim.stated == "figure" else ""
    lines = [f"{claim.says} ({claim['where']}{read})"]
    for row in sides.itertuples():
        lines.append(f"  {row.side:19}{say_verdict(row)}")
        lines += [f"  {'':19}{words}" for words in (say_deciding(row), row.stand_in) if words]
    return "\n".join([*lines, *([f"  criterion          {claim.bar}"] if claim.bar else [])])


def say_deciding(row: Any) -> str:
    """The comparison that decides."""
    if not row.upper:
        return ""
    margin = f", margin {row.by:g}" if row.by else ""
    if ": " not in row.upper:  # a number
        return f"{row.lower}; should lie below {row.upper}{margin}"
    return f"{row.upper}; should lie above {row.lower}{margin}"


def say_verdict(row: Any) -> str:
    """A verdict with how many comparisons hold, fail or are inconclusive; or with what a test needs."""
    if row.verdict == NOT_TESTED:
        return f"{NOT_TESTED}{'; needs ' if row.needs else ''}{row.needs}"
    compared = row.supported + row.not_supported + row.inconclusive
    others = {"fail": row.not_supported, "inconclusive": row.inconclusive}
    rest = "".join(f", {count} {word}" for word, count in others.items() if count)
    return f"{row.verdict}: {row.supported} of {compared} hold{row.primary}{rest}{row.needed}"
