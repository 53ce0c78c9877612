"""The verdict on a claim: on published rows, on rows measured here in their place, and by proxy."""

from __future__ import annotations

from functools import cache
from graphlib import TopologicalSorter
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from conftest import PROJECT

from nfqa.files.json_lines import check
from nfqa.models.roles import ROLES
from reproduction.claims import (
    COUNTED,
    INCONCLUSIVE,
    NOT_SUPPORTED,
    NOT_TESTED,
    SUPPORTED,
    compare_order,
    count_claims,
    judge_claims,
    say_deciding,
    say_verdict,
)
from reproduction.papers import Order, Paper, read_papers
from reproduction.values import query_rows, read_values, tidy_values

ROWS = """dataset,metric,form,k,statistic,value,low,high,n
one,high,,,spearman,0.9,0.8,1.0,10
one,middle,,,spearman,0.6,0.5,0.85,10
one,low,,,spearman,0.2,0.1,0.3,10
one,low,,0,spearman,0.7,0.6,0.8,10
one,low,other,,spearman,0.95,0.9,1.0,10
two,high,,,spearman,0.5,,,10
two,middle,,,spearman,0.4,,,10
two,low,,,spearman,,,,0
"""
NUMBERS = """artefact,row,heading,dataset,metric,statistic,printed,unit,tolerance,needs,setting,read,cause,reason
table,Theirs,,one,theirs,spearman,0.90,,0.01,judge,,table,,
table,Absent,,one,absent,spearman,0.80,,0.01,generator,,table,,
table,Middle,,one,middle,spearman,0.50,,0.01,,,table,,
table,Low,,one,low,spearman,0.40,,0.01,,,table,,
"""
TABLE = {"label": "Table", "title": "t", "notebook": "n.ipynb", "takes": ["judge"], "loads": ["set"]}
PAPER = {
    "paper": "made_up", "title": "t", "source": "s", "artefacts": {"table": TABLE},
    "names": {"middle": "Middle", "low": "Low", "the annotations": "the annotations"},
    "stand_ins": [{"says": "middle in place of theirs", "rows": "metric == 'middle'"}],
}  # fmt: skip
BOTH = {"table": TABLE, "other": TABLE}
PAPERS = read_papers(PROJECT)
PLAIN = "form == '' and k == ''"  # what does not apply is blank
ONE = f"dataset == 'one' and statistic == 'spearman' and {PLAIN}"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    table = tidy_values(pd.read_csv(StringIO(ROWS)), origin="measured")
    table["origin"] = table.origin.mask((table.metric == "middle") | (table.k == 0), "stand-in")
    (tmp_path / "made_up").mkdir()
    table.to_csv(tmp_path / "made_up" / "table.csv", index=False)
    return tmp_path


@pytest.fixture
def measured(results: Path) -> Path:
    """The same without a proxy."""
    path = results / "made_up" / "table.csv"
    path.write_text(path.read_text().replace("stand-in", "measured"))
    return results


def of(*metrics: str) -> str:
    return f"metric in {list(metrics)}"


def order(upper: object, lower: object, **others: object) -> dict[str, object]:
    return {"tables": ["table"], "upper": upper, "lower": lower, **others}


def compare(results: Path, upper: object, lower: object, **others: object) -> list[str]:
    table = read_values(results / "made_up" / "table.csv")
    test = check(Order, {"tables": ["table"], "upper": upper, "lower": lower, "where": ONE, **others}, "test")
    return compare_order(test, table).state.tolist()


@pytest.mark.parametrize(
    ("upper", "lower", "others", "states"),
    [
        (of("high"), of("low"), {}, [SUPPORTED]),
        (of("high"), of("middle", "low"), {}, [SUPPORTED, INCONCLUSIVE]),
        ("form == 'other'", "metric == 'low' and form == ''", {"where": "dataset == 'one' and k == ''"}, [SUPPORTED]),
        (of("high"), 0.7, {}, [SUPPORTED]),
        (of("high"), 0.85, {}, [INCONCLUSIVE]),
        (of("middle"), of("high"), {"by": -0.5}, [SUPPORTED]),  # a lag up to that is allowed
        (of("low"), of("middle"), {"by": -0.2}, [INCONCLUSIVE]),  # 0.3 may lie that far below 0.5, and no farther
        (of("low"), of("middle"), {"by": -0.19}, [NOT_SUPPORTED]),
        (of("high"), of("none"), {"within": ["dataset"]}, ["missing"]),
        (of("middle"), of("low"), {"where": PLAIN, "within": ["dataset", "statistic"]}, [SUPPORTED, "missing"]),
    ],
)
def test_a_comparison_goes_by_intervals_inside_each_combination(results, upper, lower, others, states):
    assert compare(results, upper, lower, **others) == states


def make_paper(results: Path, paper: dict | None = None, numbers: str = NUMBERS, **claim: object) -> Paper:
    claims = {"c": {"says": "so", "where": "section 1", "stated": "text", **claim}}
    made = check(Paper, PAPER | (paper or {}) | {"claims": claims}, "test")
    made._numbers = results / "numbers.csv"
    made._numbers.parent.mkdir(exist_ok=True)
    made._numbers.write_text(numbers)
    return made


def judge(results: Path, *options: object, **claim: object) -> dict[str, pd.Series]:
    """The rows of a claim by side."""
    rows = judge_claims(make_paper(results, *options, **claim), results)
    return {row.side: row for _, row in rows.iterrows()}


def say(row: pd.Series) -> str:
    return f"{say_verdict(row)}; {say_deciding(row)}"


def list_misnamed(paper: Paper, results: Path) -> list[str]:
    """What the register and its claims name that isn't there: a typing error would leave a claim untested, unseen.

    Rows of ours may be absent where a claim needs what isn't at hand.
    """
    names = [other for artefact in paper.artefacts.values() for other in (*artefact.reads, *artefact.cites)]
    names += [table for claim in paper.claims.values() for table in claim.tables]
    names += [other for entry in paper.stand_ins for other in entry.artefacts]
    wrong = [f"no artefact {name!r}" for name in names if name not in paper.artefacts]
    tables = {path.stem: read_values(path) for path in sorted((results / paper.paper).glob("*.csv"))}
    for name, claim in paper.claims.items():
        wrong += [f"{name} needs {need!r}" for need in claim.needs if need not in {*ROLES, *paper.names}]
        printed = {table: paper.find_published(table) for test in claim.published for table in test.tables}
        if claim.primary and not any((table.statistic == claim.primary).any() for table in printed.values()):
            wrong.append(f"{name}: no published {claim.primary!r}")
        orders = [(test, printed) for test in claim.published]
        orders += [(test, tables) for test in claim.here if not claim.needs]
        if not (claim.published or claim.here or claim.needs):
            wrong.append(f"{name}: nothing tests it")
        for test, frames in orders:
            table = pd.concat([frames[one].assign(artefact=one) for one in test.tables])
            sides = [side for side in (test.upper, test.lower) if isinstance(side, str)]
            rows = query_rows(table, test.where)
            wrong += [f"{name}: no rows of {side}" for side in sides if not (query_rows(table, side) & rows).any()]
    return wrong


def test_a_claim_has_a_verdict_on_published_numbers_and_one_by_what_is_measured_here(results):
    sides = judge(results, published=[order(of("middle"), of("low"), within=["dataset", "heading"])])
    decided = "Middle, one, spearman: 0.50; should lie above Low, one, spearman: 0.40"
    assert say(sides["published numbers"]) == f"supported: 1 of 1 hold; {decided}"
    assert sides["measured here"].verdict == NOT_TESTED
    assert say_verdict(sides["proxy"]) == "supported: 1 of 1 hold"  # one row in their place is a proxy
    sides = judge(results, published=[order(of("low"), of("middle"), within=["dataset", "heading"])])
    decided = "Low, one, spearman: 0.40; should lie above Middle, one, spearman: 0.50"
    assert say(sides["published numbers"]) == f"not supported: 0 of 1 hold, 1 fail; {decided}"


@pytest.mark.parametrize(
    ("upper", "lower", "hold", "said"),
    [
        (
            of("high"),
            of("middle", "low"),
            "all",
            "inconclusive: 1 of 2 hold, 1 inconclusive; one, high, spearman: 0.900 [0.800, 1.000]; ",
        ),
        (
            of("low"),
            of("high", "middle"),
            "some",
            "not supported: 0 of 2 hold, 2 fail, needed: at least one; one, Low",
        ),
        (
            of("high", "low"),
            0.4,
            "most",
            "not supported: 1 of 2 hold, 1 fail, needed: more than half; one, Low",
        ),
        (
            of("high", "middle", "low"),
            0.4,
            "most",
            "supported: 2 of 3 hold, 1 fail, needed: more than half; one",
        ),
    ],
)
def test_a_claim_needs_as_many_comparisons_as_the_paper_says(measured, upper, lower, hold, said):
    row = judge(measured, here=[order(upper, lower, where=ONE, hold=hold)])["measured here"]
    assert say(row).startswith(said)


def test_every_order_of_a_claim_counts(measured):
    supported, some = order(of("high"), of("low"), where=ONE), {"hold": "some"}
    contradicted = order(of("low"), of("high", "middle"), where=ONE)
    row = judge(measured, here=[supported, contradicted | some])["measured here"]
    assert row[["verdict", *COUNTED]].tolist() == [NOT_SUPPORTED, 1, 2, 0]
    assert row.needed == ", needed: all in 1 of 2 groups, at least one in 1 of 2 groups"
    assert (row.upper, row.lower[:9]) == ("one, Low, spearman: 0.200 [0.100, 0.300]", "one, high"), "the widest of them"
    row = judge(measured, here=[supported | some, supported | some])["measured here"]
    assert say_verdict(row) == "supported: 2 of 2 hold, needed: at least one in 2 of 2 groups"
    named = [supported | {"named": "answers"}, contradicted | {"named": "systems"}]
    said = "not supported: 1 of 3 hold (answers: supported, systems: not supported), 2 fail"
    assert say_verdict(judge(measured, here=named)["measured here"]) == said


def test_the_primary_measure_decides_on_published_numbers(results):
    kendall = (
        NUMBERS
        + "table,Middle,,one,middle,kendall,0.30,,0.01,,,table,,\ntable,Low,,one,low,kendall,0.60,,0.01,,,table,,\n"
    )
    test = order(of("middle"), of("low"), within=["dataset", "heading"])
    for primary, said in {
        "spearman": "supported: 1 of 1 hold by spearman (1 of 2 by all measures)",
        "kendall": "not supported: 0 of 1 hold by kendall (1 of 2 by all measures), 1 fail",
        "": "not supported: 1 of 2 hold, 1 fail",
    }.items():
        sides = judge(results, None, kendall, published=[test], primary=primary)
        assert say_verdict(sides["published numbers"]) == said


def test_a_row_that_needs_a_role_is_not_tested_and_says_which(results):
    printed, rows = order(of("theirs"), of("low"), within=["dataset", "heading"]), order(of("middle"), 0.4, where=ONE)
    sides = judge(results, published=[printed], here=[rows], stand_in="middle in place")
    assert sides["published numbers"].verdict == SUPPORTED
    assert say_verdict(sides["measured here"]) == "not tested; needs a language model as judge (JUDGE=)"
    assert (sides["proxy"].verdict, sides["proxy"].stand_in) == (SUPPORTED, "middle in place")


def test_rows_of_two_tables_are_compared_each_with_its_values_measured_here(results):
    table = read_values(results / "made_up" / "table.csv")
    test = order("artefact == 'table' and metric == 'middle'", "artefact == 'other' and metric == 'low'", where=ONE)
    test |= {"tables": ["table", "other"], "within": ["dataset", "statistic"]}
    for moved, verdict in ((0.0, SUPPORTED), (0.8, NOT_SUPPORTED)):
        other = table[table.dataset == "one"]
        other = other.assign(value=other.value + moved, low=other.low + moved, high=other.high + moved)
        other.to_csv(results / "made_up" / "other.csv", index=False)
        sides = judge(results, {"artefacts": BOTH}, here=[test], stand_in="middle")
        assert sides["proxy"].verdict == verdict


@pytest.mark.parametrize("name", ["linkage", "debateqa"])
def test_every_name_that_the_register_uses_is_there_and_no_artefact_waits_for_itself(name):
    assert list_misnamed(PAPERS[name], PROJECT / "results") == []
    TopologicalSorter({key: artefact.reads for key, artefact in PAPERS[name].artefacts.items()}).prepare()


def test_rows_as_the_paper_has_them_and_proxies_beside_them_each_have_a_verdict(results):
    both = order(of("high", "middle"), 0.4, where=ONE)
    sides = judge(results, here=[both], stand_in="middle in place of theirs")
    assert say(sides["measured here"]).startswith("supported: 1 of 1 hold; one, high, spearman: 0.900 [0.800, 1.000]; ")
    assert say(sides["proxy"]).startswith("supported: 1 of 1 hold; one, Middle, spearman: 0.600 [0.500, 0.850]; ")
    sides = judge(results, here=[both, order(of("middle"), 0.4, where=ONE)], stand_in="middle in place of theirs")
    assert (sides["measured here"].verdict, say_verdict(sides["proxy"])) == (NOT_TESTED, "supported: 3 of 3 hold")


@cache
def judge_committed(name: str) -> pd.DataFrame:
    return judge_claims(PAPERS[name], PROJECT / "results")


@pytest.mark.parametrize("name", ["linkage", "debateqa"])
def test_every_claim_of_a_paper_is_tested_or_says_what_it_needs_and_a_proxy_is_named(name):
    claims = judge_committed(name)
    assert not claims[claims.side == "published numbers"].duplicated("says").any()
    assert (claims.needs[claims.verdict == NOT_TESTED] != "").all()
    assert (claims.stand_in[claims.side == "proxy"] != "").all()


def test_definitions_and_what_was_read_off_figures_are_counted_apart():
    rows = [
        ("a", False, "published numbers", SUPPORTED), ("a", False, "measured here", SUPPORTED),
        ("b", False, "published numbers", SUPPORTED), ("b", False, "measured here", NOT_SUPPORTED),
        ("b", False, "proxy", INCONCLUSIVE),
        ("c", True, "published numbers", NOT_SUPPORTED), ("c", True, "measured here", NOT_TESTED),
        ("c", True, "proxy", SUPPORTED),
    ]  # fmt: skip
    claims = pd.DataFrame(rows, columns=["claim", "apart", "side", "verdict"])
    counts = count_claims(claims)
    assert counts.index.tolist() == ["published numbers", "measured here", "proxy"]
    assert counts.columns.tolist() == [SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE, NOT_TESTED]
    assert counts.to_numpy().tolist() == [[2, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]]
    assert count_claims(claims, apart=True).to_numpy().tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
