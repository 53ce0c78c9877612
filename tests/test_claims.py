"""What a claim comes to: on published rows, on ours in their place, and on what stands in for them."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from io import StringIO
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from conftest import BOUNDED, PROJECT

from nfqa.files.json_lines import check
from nfqa.models.roles import ROLES
from reproduction.claims import UNDECIDED, compare_order, count_claims, judge_claims, write_claim
from reproduction.papers import Order, Paper, read_papers
from reproduction.values import name_keys, query_rows, read_values, tidy_values

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
    """The same without a stand-in."""
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
        (of("high"), of("low"), {}, ["holds"]),
        (of("high"), of("middle", "low"), {}, ["holds", UNDECIDED]),
        ("form == 'other'", "metric == 'low' and form == ''", {"where": "dataset == 'one' and k == ''"}, ["holds"]),
        (of("high"), 0.7, {}, ["holds"]),
        (of("high"), 0.85, {}, [UNDECIDED]),
        (of("middle"), of("high"), {"by": -0.5}, ["holds"]),  # a lag up to that is allowed
        (of("low"), of("middle"), {"by": -0.2}, [UNDECIDED]),  # 0.3 may lie that far below 0.5, and no farther
        (of("low"), of("middle"), {"by": -0.19}, ["fails"]),
        (of("high"), of("none"), {"within": ["dataset"]}, ["missing"]),
        (of("middle"), of("low"), {"where": PLAIN, "within": ["dataset", "statistic"]}, ["holds", "missing"]),
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


def judge(results: Path, *options: object, **claim: object) -> dict[str, object]:
    return judge_claims(make_paper(results, *options, **claim), results).iloc[0].to_dict()


def list_members(query: str) -> list[tuple[str, object]]:
    """Each column that a query names, with each literal that it is compared to; "" for those that it must not be."""
    members: list[tuple[str, object]] = []
    for node in ast.walk(ast.parse(query, mode="eval")) if query else ():
        if isinstance(node, ast.Compare):
            literals = ast.literal_eval(node.comparators[0])
            parts = literals if isinstance(literals, list) else [literals]
            negated = isinstance(node.ops[0], ast.NotIn | ast.NotEq)
            members += [(node.left.id, "" if negated else part) for part in parts]
    return members


def find_unmatched(test: Order, table: pd.DataFrame) -> list[str]:
    """What an order names that no row has (columns, members, groups of `within` on one side), or can't be compared."""
    unmatched, groups, mixed = [], [], []
    for query in (part for part in (test.upper, test.lower) if isinstance(part, str)):
        rows = table[query_rows(table, query) & query_rows(table, test.where)]
        names = [*list_members(query), *list_members(test.where), *((name, "") for name in test.within)]
        for frame, (name, member) in product((table, rows), names):  # what is nowhere is named first
            if name not in frame or (member != "" and member not in frame[name].tolist()):
                unmatched.append(f"{name} {member!r} ({query})")
        unmatched += [f"row of {query}"] if rows.empty else []
        groups.append({*rows.reindex(columns=[*test.within]).astype(object).fillna("").itertuples(index=False)})
        mixed.append({name for name in ("dataset", "statistic") if name in rows and len({*rows[name]}) > 1})
        if max(abs(part) for part in (test.by, test.upper, test.lower) if not isinstance(part, str)) > 1:
            unmatched += ["value beyond 1"] if rows.statistic.str.contains(BOUNDED).all() else []
    if len(groups) == 2:
        within = {*test.within, *(["statistic"] if "heading" in test.within else [])}
        unmatched += [
            f"row to compare within {', '.join(map(str, min(lonely, key=str)))}"
            for lonely in [groups[0] ^ groups[1]]
            if lonely
        ]
        unmatched += [f"row to compare across every {name}" for name in (mixed[0] & mixed[1]) - within]
    return unmatched


@cache
def read_tables(folder: Path) -> tuple[dict[str, pd.DataFrame], set[str]]:
    """A paper's results by artefact, and every word of their columns and keys."""
    tables, words = {path.stem: read_values(path) for path in sorted(folder.glob("*.csv"))}, set()
    for table in tables.values():
        words |= {*map(str, table), *(str(part) for name in name_keys(table) for part in table[name].unique())}
    return tables, words


def list_misnamed(paper: Paper, results: Path) -> list[str]:
    """What the register and its claims name that isn't there: a typing error would leave a claim untested, unseen.

    Rows of ours may be absent where a claim needs what isn't at hand: all that a query names must then be a word of the
    paper's tables, of its results or of its `names`.
    """
    names = [other for artefact in paper.artefacts.values() for other in (*artefact.reads, *artefact.cites)]
    names += [table for claim in paper.claims.values() for table in claim.tables]
    names += [other for entry in paper.stand_ins for other in entry.artefacts]
    wrong = [f"no artefact {name!r}" for name in names if name not in paper.artefacts]
    tables, words = read_tables(results / paper.paper)
    words = words | {*paper.names, *paper.published.to_numpy().ravel(), *paper.systems, "artefact"}
    for name, claim in paper.claims.items():
        wrong += [] if claim.published or claim.here or claim.needs else [f"{name}: nothing tests it"]
        wrong += [f"{name} needs {need!r}" for need in claim.needs if need not in {*ROLES, *paper.names}]
        printed = {table: paper.find_published(table) for test in claim.published for table in test.tables}
        if claim.primary and not any((table.statistic == claim.primary).any() for table in printed.values()):
            wrong.append(f"{name}: no published {claim.primary!r}")
        for test in (*claim.published, *claim.here):
            frames = printed if test in claim.published else tables
            if {*test.tables} <= frames.keys():
                unmatched = find_unmatched(test, pd.concat([frames[one].assign(artefact=one) for one in test.tables]))
                if unmatched and test in claim.here and claim.needs:
                    queries = [part for part in (test.upper, test.lower, test.where) if isinstance(part, str)]
                    parts = {str(part) for query in queries for member in list_members(query) for part in member}
                    unmatched = sorted({*parts, *test.within} - words - {""})
                wrong += [f"{name}: {test.tables[0]} has no {what}" for what in unmatched]
    return wrong


def test_a_claim_has_a_verdict_on_the_published_values_and_one_on_ours(results):
    claim = judge(results, published=[order(of("middle"), of("low"), within=["dataset", "heading"])])
    assert (claim["published_said"], claim["here_said"]) == ("holds: 1 of 1 holds", "only by a stand-in")
    assert claim["stand_in_said"] == "holds for a stand-in: 1 of 1 holds"  # our rows in the place of theirs are one
    assert claim["published_because"] == "the closest: one, spearman: Middle at 0.50 is above Low at 0.40"
    claim = judge(results, published=[order(of("low"), of("middle"), within=["dataset", "heading"])])
    assert claim["published_because"].endswith("one, spearman: Low at 0.40 is not above Middle at 0.50")


@pytest.mark.parametrize(
    ("upper", "lower", "hold", "verdict", "because"),
    [
        (of("high"), of("middle", "low"), "all", UNDECIDED, "[0.800, 1.000] may or may not be above Middle"),
        (of("low"), of("high", "middle"), "some", "fails", "Low at 0.200 [0.100, 0.300] is not above high at 0.900"),
        (of("high", "low"), 0.4, "most", "fails", "fails: 1 of 2 hold; needed: most; one"),
        (of("high", "middle", "low"), 0.4, "most", "holds", "holds: 2 of 3 hold; needed: most; the closest"),
    ],
)
def test_as_many_comparisons_must_hold_as_the_paper_says(measured, upper, lower, hold, verdict, because):
    claim = judge(measured, here=[order(upper, lower, where=ONE, hold=hold)])
    assert claim["here"] == verdict
    assert because in f"{claim['here_said']}; {claim['here_because']}"


def test_each_order_of_a_claim_must_hold(measured):
    holding, some = order(of("high"), of("low"), where=ONE), {"hold": "some"}
    failing = order(of("low"), of("high", "middle"), where=ONE)
    claim = judge(measured, here=[holding, failing | some])
    assert claim["here_said"] == "fails: 1 of 3 hold; needed: all in 1 of 2 groups, one in 1 of 2 groups"
    assert "Low at 0.200 [0.100, 0.300] is not above high" in claim["here_because"], "the widest of them"
    claim = judge(measured, here=[holding | some, holding | some])
    assert claim["here_said"] == "holds: 2 of 2 hold; needed: one in each of 2 groups"


def test_a_row_that_needs_a_role_can_not_be_tested_and_says_which(results):
    printed, ours = order(of("theirs"), of("low"), within=["dataset", "heading"]), order(of("middle"), 0.4, where=ONE)
    claim = judge(results, published=[printed], here=[ours], stand_in="middle in place")
    assert (claim["published"], claim["here"], claim["here_because"]) == ("holds", "only by a stand-in", "judge")
    assert (claim["stand_in"], claim["stand_in_for"]) == ("holds for a stand-in", "middle in place")


def test_a_reader_sees_what_was_compared_with_its_numbers_and_where_the_bar_is(results):
    test = order("k == 0", 0.5, where="dataset == 'one' and metric == 'low'")
    claim = judge(results, here=[test], stand_in="this in place of that", bar="well: above 0.5")
    lines = write_claim(claim).splitlines()
    assert lines[1].split(maxsplit=1) == ["bar:", "well: above 0.5"]
    assert "holds for a stand-in: 1 of 1 holds; the closest: " in lines[-2]
    assert "one, spearman: Low, k 0 at 0.700 [0.600, 0.800] is above 0.5" in lines[-2]


@pytest.mark.parametrize(
    ("claim", "because"),
    [
        ({"here": [order("metric == 'low' and judge == 'judge'", 0, where=ONE)]}, "the annotations; judge"),
        ({"here": [order(of("high"), 0.2, tables=["other"])]}, "the annotations; judge; the results of made_up/other"),
    ],
)
def test_what_nothing_at_hand_can_test_says_what_it_needs(results, claim, because):
    row = judge(results, {"artefacts": BOTH}, needs=["the annotations", "judge"], stand_in="a judge", **claim)
    assert (row["published_said"], row["stand_in_said"]) == ("no numbers in our copy", "")
    assert (row["here"], row["here_because"]) == ("not testable here", because)


@pytest.mark.parametrize(
    ("paper", "artefact", "printed", "wrong", "claim"),
    [
        ("debateqa", "table_01", "10873", 10_073.0, "size_of_the_data"),
        ("linkage", "table_02", "0.3543", 0.3943, "examples_help_chatgpt_less"),
    ],
)
def test_a_wrong_number_in_the_register_turns_a_verdict(paper, artefact, printed, wrong, claim):
    paper = read_papers(PROJECT)[paper]
    paper = paper.model_copy(update={"claims": {claim: paper.claims[claim]}})
    leaf = (paper.published.artefact == artefact) & (paper.published.printed == printed)
    assert leaf.any()
    assert set(judge_claims(paper, PROJECT / "results").published) == {"holds"}
    paper.published.loc[leaf, "published"] = wrong
    assert set(judge_claims(paper, PROJECT / "results").published) == {"fails"}


@pytest.mark.parametrize(
    ("counts", "size", "several"),
    [
        ((2941, 10873, 3.697, 1), "holds", "fails"),
        ((100, 400, 4.0, 2), "fails", "holds"),  # a mean that follows from its own counts is not the paper's
    ],
)
def test_counts_of_debateqas_own_files_are_held_against_what_the_paper_prints(tmp_path, counts, size, several):
    names = ["n_questions", "n_partial_answers", "mean_partial_answers", "least_partial_answers"]
    rows = pd.DataFrame({"statistic": names, "value": counts}).assign(dataset="debateqa", metric="dataset")
    (tmp_path / "debateqa").mkdir()
    tidy_values(rows, origin="measured").to_csv(tmp_path / "debateqa" / "table_01.csv", index=False)
    claims = {name: PAPERS["debateqa"].claims[name] for name in ("size_of_the_data", "several_answers_left")}
    only = PAPERS["debateqa"].model_copy(update={"claims": claims})
    assert judge_claims(only, tmp_path).here.tolist() == [size, several]


def test_rows_of_two_tables_are_compared_each_with_our_own_values(results):
    table = read_values(results / "made_up" / "table.csv")
    test = order("artefact == 'table' and metric == 'middle'", "artefact == 'other' and metric == 'low'", where=ONE)
    test |= {"tables": ["table", "other"], "within": ["dataset", "statistic"]}
    for moved, verdict in ((0.0, "holds for a stand-in"), (0.8, "fails for a stand-in")):
        other = table[table.dataset == "one"]
        other = other.assign(value=other.value + moved, low=other.low + moved, high=other.high + moved)
        other.to_csv(results / "made_up" / "other.csv", index=False)
        assert judge(results, {"artefacts": BOTH}, here=[test], stand_in="middle")["stand_in"] == verdict


@pytest.mark.parametrize(
    ("claim", "changed", "words"),
    [
        ("listwise_above_judges", {"lower": "metric == 'pairwize'"}, "metric 'pairwize'"),
        ("listwise_above_judges", {"within": ("dataset", "judge")}, "across every statistic"),
        ("listwise_above_judges", {"tables": ("table_2",)}, "no artefact 'table_2'"),
        ("large_margin", {"within": ("dataset", "metric")}, "to compare within antique, listwise"),
        ("overlap_weak", {"upper": 40.0}, "beyond 1"),
    ],
)
def test_a_name_that_its_table_does_not_have_is_noticed(claim, changed, words):
    entry = PAPERS["linkage"].claims[claim]
    side = "published" if entry.published else "here"
    first, *others = getattr(entry, side)
    entry = entry.model_copy(update={side: (first.model_copy(update=changed), *others)})
    paper = PAPERS["linkage"].model_copy(update={"claims": {claim: entry}})
    assert words in " ".join(list_misnamed(paper, PROJECT / "results"))


@pytest.mark.parametrize(
    ("changed", "words"), [({"needs": ["the judg"]}, "needs 'the judg'"), ({}, "nothing tests it")]
)
def test_what_a_claim_needs_is_checked(results, changed, words):
    assert words in " ".join(list_misnamed(make_paper(results, **changed), results))


@pytest.mark.parametrize("name", ["linkage", "debateqa"])
def test_every_name_that_the_register_uses_is_there_and_no_artefact_waits_for_itself(name):
    assert list_misnamed(PAPERS[name], PROJECT / "results") == []
    TopologicalSorter({key: artefact.reads for key, artefact in PAPERS[name].artefacts.items()}).prepare()


def test_rows_as_the_paper_has_them_and_what_stands_in_beside_them_each_have_a_verdict(results):
    both = order(of("high", "middle"), 0.4, where=ONE)
    claim = judge(results, here=[both], stand_in="middle in place of theirs")
    assert (claim["here_said"], claim["stand_in_said"]) == ("holds: 1 of 1 holds", "holds for a stand-in: 1 of 1 holds")
    claim = judge(results, here=[both, order(of("middle"), 0.4, where=ONE)], stand_in="middle in place of theirs")
    assert (claim["here"], claim["stand_in_said"]) == ("only by a stand-in", "holds for a stand-in: 3 of 3 hold")


@cache
def judge_committed(name: str) -> pd.DataFrame:
    return judge_claims(PAPERS[name], PROJECT / "results")


def test_claims_of_linkage_have_the_verdicts_that_its_tables_give():
    claims = judge_committed("linkage").set_index("claim")
    assert claims.headline.tolist() == [True] * 3 + [False] * (len(claims) - 3)
    contradicted = {  # by the paper's own numbers, and where
        "listwise_above_judges": "ANTIQUE, Pearson",
        "even_list_antique": "R=33321000 (Mistral) at 0.3262",
        "references_help_pointwise": "Pointwise-1GT, R≠∅ (ChatGPT) at 0.3071",
        "spread_small": "Pointwise, R≠∅ (ChatGPT) at 0.0948",
        "lead_by_mean": "Pairwise (ChatGPT) at 0.3428",
    }
    counts = "fails: 35 of 36 hold; by Spearman, its primary measure, 12 of 12 hold"
    assert claims.published_said["listwise_above_judges"] == counts
    for claim, words in contradicted.items():
        assert claims.published[claim] == "fails"
        assert words in claims.published_because[claim]
    here = {"overlap_weak": "holds", "equal_counts_of_grades": "fails", "listwise_costs_less": "holds"}
    assert claims.here[[*here]].to_dict() == here
    fails, holds = "fails for a stand-in", "holds for a stand-in"
    proxies = {"webglm_make_up": fails, "above_overlap_without_grades": UNDECIDED, "longer_list_antique": holds}
    assert claims.stand_in[[*proxies]].to_dict() == proxies
    assert claims.here_because["webglm_make_up"] == "the paper's 50 cases"


@pytest.mark.parametrize("name", ["linkage", "debateqa"])
def test_every_claim_of_a_paper_is_tested_or_says_what_it_needs(name):
    claims = judge_committed(name)
    assert not claims.duplicated("says").any()
    untested = claims[claims.here.isin(["not testable here", "only by a stand-in"])]
    assert (untested.here_because != "").all(), untested.claim.tolist()


def test_findings_and_counts_of_data_are_counted_apart():
    rows = [("data", "text", "holds", "holds", ""), ("finding", "text", "holds", "fails", "holds")]
    claims = pd.DataFrame(rows, columns=["kind", "stated", "published", "here", "stand_in"])
    assert count_claims(claims) == [
        "All 1 findings that text or captions state: as published holds 1; here fails 1; stand-ins holds 1.",
        "All 1 counts, sizes and sums of the data: as published holds 1; here holds 1.",
    ]
