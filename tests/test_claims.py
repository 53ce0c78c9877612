"""What a claim comes to: on published rows, on ours in their place, and on what stands in for them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from nfqa.data.json_lines import check
from nfqa.lab.papers import Order, Paper, read_papers
from nfqa.lab.compare import compare_published
from nfqa.lab.claims import UNDECIDED, compare_order, count_claims, judge_claims, write_claim
from nfqa.lab.values import read_values, tidy_values

PROJECT = Path(__file__).parents[1]
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
LEAVES = {"theirs": "0.90", "absent": "0.80", "middle": "0.50", "low": "0.40"}
NEEDS = {"theirs": ["judge"], "absent": ["generator"]}
SYSTEMS = {name: {"title": name.capitalize(), "needs": NEEDS.get(name, [])} for name in LEAVES}
TABLE = {"label": "Table", "title": "t", "notebook": "n.ipynb"}
PAPER = {
    "paper": "made_up", "title": "t", "source": "s", "systems": SYSTEMS,
    "artefacts": {"table": TABLE | {"leaves": {name: {"one": {"spearman": v}} for name, v in LEAVES.items()}}},
    "stand_ins": [{"says": "middle in place of theirs", "rows": {"metric": "middle"}}],
}  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    table = tidy_values(pd.read_csv(StringIO(ROWS)), origin="measured")
    table["origin"] = table.origin.mask(table.metric == "middle", "stand-in")
    (tmp_path / "made_up").mkdir()
    table.to_csv(tmp_path / "made_up" / "table.csv", index=False)
    return tmp_path


def compare(results: Path, *order: object, **others: object) -> list[str]:
    table = read_values(results / "made_up" / "table.csv")
    asked = check(Order, {"table": "table", "order": list(order), **others}, "test")
    return [found["state"] for found in compare_order(asked, table, ["dataset", "metric", "form", "k", "statistic"])]


@pytest.mark.parametrize(
    ("order", "others", "states"),
    [
        ([{"metric": "high"}, {"metric": "low"}], {}, ["holds"]),
        ([{"metric": "low"}, {"metric": "high"}], {}, ["fails"]),
        ([{"metric": "high"}, {"metric": "middle"}], {}, ["can't be told at this size"]),  # 0.8 is below 0.85
        ([{"metric": "high"}, {"metric": "middle"}, {"metric": "low"}], {}, ["can't be told at this size", "holds"]),
        ([{"metric": "high"}, {"metric": ["middle", "low"]}], {}, ["holds", "can't be told at this size"]),
        ([{"metric": "low", "form": "other"}, {"metric": "low"}], {}, ["holds"]),  # a blank is a condition
        ([{"metric": "high"}, 0.7], {}, ["holds"]),
        ([1.1, {"metric": "high"}, 0.85], {}, ["holds", "can't be told at this size"]),
        ([{"metric": "high"}, {"metric": "low"}], {"by": 0.5}, ["can't be told at this size"]),  # 0.8 - 0.3 is no more
        ([{"metric": "middle"}, {"metric": "high"}], {"by": -0.55}, ["holds"]),  # 0.5 is not so far below 1.0
        ([{"metric": "low"}, {"metric": "high"}], {"by": -0.4}, ["fails"]),
        ([{"metric": "high"}, {"metric": "none"}], {}, ["missing"]),
    ],
)
def test_a_comparison_goes_by_intervals(results, order, others, states):
    assert compare(results, *order, where={"dataset": "one", "statistic": "spearman"}, **others) == states


def test_rows_are_compared_inside_each_combination_and_one_without_a_value_is_missing(results):
    everywhere = {"within": ["dataset", "statistic"]}
    assert compare(results, {"metric": "middle"}, {"metric": "low"}, **everywhere) == ["holds", "missing"]
    assert compare(results, {"metric": "high"}, {"metric": "middle"}, **everywhere) == [
        "can't be told at this size",
        "holds",  # no intervals: as they are
    ]


def judge(results: Path, **claim: object) -> dict[str, object]:
    paper = check(Paper, PAPER | {"claims": {"c": {"says": "so", "where": "section 1", **claim}}}, "test")
    return judge_claims(paper, results).iloc[0].to_dict()


def test_a_claim_has_a_verdict_on_the_published_values_and_one_on_ours(results):
    order = [{"table": "table", "order": [{"system": "middle"}, {"system": "low"}], "within": ["dataset", "metric"]}]
    found = judge(results, published=order)
    assert (found["published"], found["here"]) == ("holds", "not testable here")
    assert found["stand_in"] == "holds for a stand-in"  # our rows in the place of theirs are one
    assert (found["published_said"], found["here_said"]) == ("holds: 1 of 1 holds", "not testable here")
    assert found["stand_in_said"] == "holds for a stand-in: 1 of 1 holds"
    assert found["published_because"] == "the closest: one, spearman: Middle at 0.50 is above Low at 0.40"
    turned = [order[0] | {"order": [{"system": "low"}, {"system": "middle"}]}]
    found = judge(results, published=turned)
    assert (found["published"], found["here"]) == ("fails", "not testable here")
    assert "one, spearman: Low at 0.40 is not above Middle at 0.50" in found["published_because"]


@pytest.mark.parametrize(
    ("order", "hold", "verdict", "because"),
    [
        (
            ["high", ["middle", "low"]],
            "all",
            UNDECIDED,
            "high at 0.900 [0.800, 1.000] is not clearly above Middle at 0.600",
        ),
        (["high", ["middle", "low"]], "most", UNDECIDED, "is not clearly above Middle at 0.600 [0.500, 0.850]"),
        (
            ["high", ["middle", "low"]],
            "some",
            "holds",
            "holds: 1 of 2 hold, 1 undecided, one must; the closest: one",
        ),
        (["low", ["high", "middle"]], "some", "fails", "Low at 0.200 [0.100, 0.300] is not above high at 0.900"),
        ([0.4, ["low", "high"]], "all", "fails", "high at 0.900 [0.800, 1.000] is not below 0.4"),
        (
            [["high", "low"], 0.4],
            "most",
            "fails",
            "fails: 1 of 2 hold, most must; one",
        ),
        ([["high", "middle", "low"], 0.4], "most", "holds", "holds: 2 of 3 hold, most must; the closest"),
    ],
)
def test_as_many_comparisons_must_hold_as_the_paper_says(results, order, hold, verdict, because):
    groups = [group if isinstance(group, float) else {"metric": group} for group in order]
    asked = {"table": "table", "order": groups, "where": {"dataset": "one", "statistic": "spearman"}, "hold": hold}
    found = judge(results, here=[asked])
    assert found["here"] == verdict
    assert because in f"{found['here_said']}; {found['here_because']}"


def test_each_table_is_laid_beside_the_paper_once_however_many_claims_are_about_it(monkeypatch):
    paper, asked = read_papers(PROJECT)["linkage"], []

    def compare_once(paper, table, values):
        asked.append(table)
        return compare_published(paper, table, values)

    monkeypatch.setattr("nfqa.lab.claims.compare_published", compare_once)
    judge_claims(paper, PROJECT / "results")
    assert sorted(asked) == sorted({order.table for claim in paper.claims.values() for order in claim.published})


def test_each_order_of_a_claim_must_hold(results):
    where = {"dataset": "one", "statistic": "spearman"}
    holding = {"table": "table", "order": [{"metric": "high"}, {"metric": "low"}], "where": where}
    failing = {"table": "table", "order": [{"metric": "low"}, {"metric": ["high", "middle"]}], "where": where}
    assert judge(results, here=[holding, holding])["here_said"] == "holds: 2 of 2 hold"
    found = judge(results, here=[holding, failing | {"hold": "some"}])
    assert found["here_said"] == "fails: 1 of 3 hold, all in 1 of 2 groups, one in 1 of 2 groups must"
    assert "Low at 0.200 [0.100, 0.300] is not above high" in found["here_because"], "the widest of them"
    found = judge(results, here=[holding | {"hold": "some"}, holding | {"hold": "some"}])
    assert found["here_said"] == "holds: 2 of 2 hold, one in each of 2 groups must"


def test_a_row_that_needs_a_role_can_not_be_tested_and_says_which(results):
    order = [{"table": "table", "order": [{"system": "theirs"}, {"system": "low"}], "within": ["dataset", "metric"]}]
    own = [
        {
            "table": "table",
            "order": [{"metric": "high"}, {"metric": "low"}],
            "where": {"dataset": "one", "statistic": "spearman"},
        }
    ]
    found = judge(results, published=order, here=own, stand_in="high in place of theirs")
    assert (found["published"], found["here"], found["here_because"]) == ("holds", "not testable here", "judge")
    assert (found["stand_in"], found["stand_in_for"]) == ("holds for a stand-in", "high in place of theirs")


def test_a_reader_sees_what_was_compared_with_its_numbers_and_where_the_bar_is(results):
    own = [{"table": "table", "order": [{"k": 0}, 0.5], "where": {"dataset": "one", "metric": "low"}}]
    own[0]["where"]["statistic"] = "spearman"
    lines = write_claim(judge(results, here=own, stand_in="this in place of that", bar="well: above 0.5")).splitlines()
    assert lines[1].split(maxsplit=1) == ["bar:", "well: above 0.5"]
    assert "holds for a stand-in: 1 of 1 holds; the closest: " in lines[-2]
    assert "one, Low, spearman: k 0 at 0.700 [0.600, 0.800] is above 0.5" in lines[-2]
    assert "this in place of that" in lines[-1]


def test_without_published_cells_or_results_nothing_is_said_to_hold(results, tmp_path):
    found = judge(results, needs=["the annotations"])
    assert (found["published_said"], found["stand_in_said"]) == ("no cells in our copy", "")
    assert (found["published"], found["here"], found["here_because"]) == (
        "no cells in our copy", "not testable here", "the annotations"
    )  # fmt: skip
    own = [{"table": "table", "order": [{"metric": "high"}, 0.0]}]
    assert judge(tmp_path / "elsewhere", here=own)["here"] == "not testable here"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"claims": {"c": {"says": "s", "where": "w", "published": [{"table": "none", "order": [{}, {}]}]}}},
            "claims.c",
        ),
        ({"stand_ins": [{"says": "s", "artefacts": ["none"]}]}, "stand_ins"),
    ],
)
def test_a_claim_or_stand_in_on_an_unknown_table_is_refused(tmp_path, change, said):
    import yaml

    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "made_up.yml").write_text(yaml.safe_dump(PAPER | change))
    with pytest.raises(ValueError, match=rf"made_up.yml: {said}.*unknown artefact 'none'"):
        read_papers(tmp_path)


def test_claims_of_linkage_have_the_verdicts_that_its_tables_give():
    claims = judge_claims(read_papers(PROJECT)["linkage"], PROJECT / "results").set_index("claim")
    assert len(claims) >= 20
    assert claims.headline.tolist() == [True] * 3 + [False] * (len(claims) - 3)
    assert (claims.says.str.len() < 160).all()
    assert not claims.stand_in.isin(["not testable here"]).any(), (
        "an order of our own rows names rows that are not there"
    )
    contradicted = {  # by the paper's own numbers, and where
        "listwise_above_judges": "ANTIQUE, Pearson",
        "webglm_best_and_worst": "BLEU at 0.44",
        "even_list_antique": "R=33321000 (Mistral) at 0.3262",
        "longer_list_antique": "R=33221100",
        "longer_list_trec": "R=33221100 (Mistral) at 0.363",
        "references_help_pointwise": "Pointwise-1GT, R≠∅ (ChatGPT) at 0.3071",
        "too_many_examples_trec": "LINKAGE, n=5 (Mistral) at 0.4339",
        "spread_small": "Pointwise, R≠∅ (ChatGPT) at 0.0948",
        "lead_by_mean": "Pairwise (ChatGPT) at 0.3428",
    }
    found = claims.loc[list(contradicted)]
    assert set(found.published) == {"fails"}
    for because, words in zip(found.published_because, contradicted.values(), strict=True):
        assert words in because
    assert claims.here[["overlap_weak", "dataset_sizes", "equal_counts_of_grades"]].tolist() == [
        "holds",
        "holds",
        "fails",
    ]


@pytest.mark.parametrize("name", ["linkage", "debateqa"])
def test_every_claim_of_a_paper_is_tested_or_says_what_it_needs(name):
    claims = judge_claims(read_papers(PROJECT)[name], PROJECT / "results")
    if claims.empty:
        pytest.skip("no claims are registered yet")
    assert not claims.duplicated("says").any()
    untested = claims[(claims.here == "not testable here") & (claims.stand_in == "")]
    assert (untested.here_because != "").all(), untested.claim.tolist()
    assert claims.says.str.len().max() < 200


def test_findings_and_counts_of_data_are_counted_apart():
    columns = ["kind", "published", "here", "stand_in"]
    rows = [("data", "holds", "holds", ""), ("finding", "holds", "fails", ""), ("finding", "holds", "holds", "fails")]
    counts = count_claims(pd.DataFrame(rows, columns=columns))
    assert counts.index.tolist() == [("finding", "fails"), ("finding", "holds"), ("data", "holds")]
    assert counts.to_numpy().tolist() == [[0, 1, 1], [2, 1, 0], [1, 1, 0]]


def test_sizes_of_the_datasets_are_no_findings():
    kinds = {name: claim.kind for paper in read_papers(PROJECT).values() for name, claim in paper.claims.items()}
    assert {kinds[name] for name in ("dataset_sizes", "size_of_the_data", "equation_7_example")} == {"data"}
    assert kinds["listwise_above_judges"] == "finding"
