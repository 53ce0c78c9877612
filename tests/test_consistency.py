"""Checks of a paper on itself: hand arithmetic, then what they find in the published numbers of LINKAGE."""

from __future__ import annotations

import math
from pathlib import Path

import nbformat
import pytest

from nfqa.lab.artefacts import Leaf, Paper, list_leaves, read_papers
from nfqa.lab.experiments import consistency
from nfqa.lab.experiments.consistency import Finding

PROJECT = Path(__file__).parents[1]


def make_leaf(table: str, system: str, metric: str, text: str, *, dataset: str = "antique", scale: int = 1) -> Leaf:
    decimals = len(text.partition(".")[2]) + len(str(scale)) - 1
    return Leaf(f"made_up/{table}", system, dataset, metric, text, round(float(text) / scale, decimals), decimals)


def make_runs(system: str, texts: tuple[str, ...], *, table: str = "table_10") -> list[Leaf]:
    """Leaves of a row of Table 10: three runs, mean, deviation."""
    names = (*consistency.RUNS, "spearman_mean", "spearman_std")
    return [make_leaf(table, system, name, text) for name, text in zip(names, texts, strict=True)]


def index(findings: list[Finding]) -> dict[tuple[str, str], Finding]:
    return {(finding.check, finding.where): finding for finding in findings}


@pytest.fixture(scope="module")
def paper() -> Paper:
    return read_papers(PROJECT)["linkage"]


@pytest.fixture(scope="module")
def found(paper: Paper) -> dict[tuple[str, str], Finding]:
    """Everything that the notebook finds."""
    table = {number: list(list_leaves(paper, f"table_{number:02}")) for number in range(2, 11)}
    examples, runs, groups = table[7] + table[8], table[9] + table[10], paper.same_settings
    findings = consistency.find_same_settings(table[2] + table[3] + table[4] + table[6] + examples, groups)
    findings += consistency.find_repeats(table[2], examples + runs, groups)
    findings += consistency.find_column_order(table[2], examples + runs)
    findings += consistency.find_spreads(runs)
    findings += consistency.find_single_runs(table[2], runs)
    findings += consistency.find_mean_leads(table[2], runs)
    findings += consistency.find_linkage_leads(table[2] + table[3] + table[4] + table[5])
    findings += consistency.find_composition_leads(table[6])
    findings += consistency.find_reference_leads(table[2] + table[3] + runs)
    assert len(index(findings)) == len(findings)
    return index(findings)


# --- hand-made leaves


def test_equal_at_the_coarser_precision() -> None:
    fine, percent = (
        make_leaf("table_02", "a", "kendall", "0.2202"),
        make_leaf("table_03", "a", "kendall", "22.02", scale=100),
    )
    assert consistency.are_equal(fine, percent)
    # 0.22 stands for 0.215 to 0.225: 0.2202 is inside, 0.2251 isn't
    coarse = make_leaf("table_04", "a", "kendall", "0.22")
    assert consistency.are_equal(fine, coarse)
    assert not consistency.are_equal(make_leaf("table_02", "a", "kendall", "0.2251"), coarse)
    assert not consistency.are_equal(fine, make_leaf("table_02", "a", "kendall", "0.2203"))


def test_same_setting_compares_shared_metrics() -> None:
    leaves = [
        make_leaf("table_02", "a", "kendall", "0.31"), make_leaf("table_02", "a", "spearman", "0.4725"),
        make_leaf("table_02", "a", "pearson", "0.50"), make_leaf("table_07", "b", "kendall", "0.31"),
        make_leaf("table_07", "b", "spearman", "0.4752"),
    ]  # fmt: skip
    one, two = consistency.find_same_settings(leaves, [["table_02/a/antique", "table_07/b/antique"]])
    assert (one.where, one.holds, one.values["gap"]) == ("antique/table_02_vs_table_07_a_kendall", True, 0.0)
    # 0.4725 - 0.4752 = -0.0027
    assert (two.where, two.holds, two.values["gap"]) == ("antique/table_02_vs_table_07_a_spearman", False, -0.0027)
    assert one.text == two.text == (
        "antique: table_02 a against table_07 b: kendall 0.31, 0.31 (+0.0000); "
        "spearman 0.4725, 0.4752 (-0.0027, the same digits in another order)."
    )  # fmt: skip


def test_same_setting_names_a_bad_entry() -> None:
    leaves = [
        make_leaf("table_02", "a", "kendall", "0.31"),
        make_leaf("table_02", "a", "kendall", "0.31", dataset="webglm"),
    ]
    for entry in ("table_03/a/antique", "table_02/a"):
        with pytest.raises(
            ValueError, match=f"same_settings: '{entry}' has no printed numbers; expected ARTEFACT/SYSTEM"
        ):
            consistency.find_same_settings(leaves, [["table_02/a/antique", entry]])
    with pytest.raises(ValueError, match="spans several data sets; expected one data set a group"):
        consistency.find_same_settings(leaves, [["table_02/a/antique", "table_02/a/webglm"]])


def test_deviation_bounds() -> None:
    # 1, 2, 4: mean 7/3, squares (16 + 1 + 25)/9 = 14/3; over 2: 7/3, over 3: 14/9
    assert consistency.bound_deviation([1, 2, 4], 0.0) == pytest.approx((math.sqrt(7 / 3),) * 3)
    assert consistency.bound_deviation([1, 2, 4], 0.0, less=0) == pytest.approx((math.sqrt(14 / 9),) * 3)
    # two numbers d apart deviate by d / sqrt(2); within 0.5 of 1 and 4, d is 2 to 4
    assert consistency.bound_deviation([1, 4], 0.5) == pytest.approx(
        (3 / math.sqrt(2), 2 / math.sqrt(2), 4 / math.sqrt(2))
    )
    # 1, 2, 4 each within 0.5: nearest to each other are 1.5, 2.5, 3.5, as the middle one may reach their mean, squares
    # 1 + 0 + 1 over 2 = 1; the farthest are 0.5, 1.5, 4.5: mean 13/6, squares (100 + 16 + 196)/36 = 26/3 over 2 = 13/3
    assert consistency.bound_deviation([1, 2, 4], 0.5)[1:] == pytest.approx((1.0, math.sqrt(13 / 3)))
    # intervals that overlap can hold equal numbers
    assert consistency.bound_deviation([1, 1.5, 1.9], 0.5)[1] == pytest.approx(0.0)


def test_spread_follows_or_names_the_rule_that_fits() -> None:
    # 0.1, 0.2, 0.3: mean 0.2, deviation 0.1 (n-1), 0.0816 (n); 0.1 and 0.2 alone: 0.1 / sqrt(2) = 0.0707
    mean, deviation = consistency.find_spreads(make_runs("a", ("0.1000", "0.2000", "0.3000", "0.2000", "0.1000")))
    assert mean.holds
    assert deviation.holds
    assert deviation.values["runs_1_2_3_population"] == pytest.approx(math.sqrt(0.02 / 3))
    assert deviation.values["runs_1_2"] == pytest.approx(0.1 / math.sqrt(2))
    # a mean may be off by 0.5e-4 from the runs' rounding and as much from its own
    for printed, holds in (("0.2001", True), ("0.2002", False)):
        mean, _ = consistency.find_spreads(make_runs("a", ("0.1000", "0.2000", "0.3000", printed, "0.1000")))
        assert mean.holds is holds
    for printed, rule in (
        ("0.0816", "runs 1 2 3 population (0.08165)"), ("0.1414", "runs 1 3 (0.14142)"), ("0.0500", "none"),
        ("0.0707", "runs 1 2 (0.07071) or runs 2 3 (0.07071)"),
    ):  # fmt: skip
        _, deviation = consistency.find_spreads(make_runs("a", ("0.1000", "0.2000", "0.3000", "0.2000", printed)))
        assert not deviation.holds
        assert deviation.text.endswith(f"; other rules tried that reproduce it: {rule}.")
        assert deviation.values["gap"] == pytest.approx(float(printed) - 0.1)


def test_single_run_is_placed() -> None:
    runs = make_runs("a", ("0.1000", "0.3000", "0.2000", "0.2000", "0.1000"))
    for printed, run, rank, above, holds in (
        ("0.3000", 2, 1, 0.1, True), ("0.2000", 3, 2, 0.0, True), ("0.1001", 1, 3, -0.0999, False),
    ):  # fmt: skip
        (finding,) = consistency.find_single_runs([make_leaf("table_02", "a", "spearman", printed)], runs)
        assert (finding.values["run"], finding.values["rank"], finding.holds) == (run, rank, holds)
        assert finding.values["above_mean"] == above


def test_lead_changes_sign_by_the_mean() -> None:
    singles = [
        make_leaf("table_02", system, "spearman", text)
        for system, text in (("pointwise_mistral", "0.35"), ("pairwise_mistral", "0.30"), ("linkage_mistral", "0.40"),
                             ("pairwise_chatgpt", "0.90"), ("linkage_mistral_0_shot", "0.80"))
    ]  # fmt: skip
    runs = make_runs("pairwise_mistral", ("0.30", "0.30", "0.30", "0.30", "0.00"))
    runs += make_runs("linkage_mistral", ("0.40", "0.30", "0.29", "0.33", "0.06"))
    single, mean = consistency.find_mean_leads(singles, runs)
    # against pointwise, which has no runs: 0.40 - 0.35 = 0.05, then 0.33 - 0.35 = -0.02
    assert (single.values["gap"], single.holds, mean.values["gap"], mean.holds) == (0.05, True, -0.02, False)


def test_columns_are_told_apart() -> None:
    lettered = [make_leaf("table_02", "linkage_mistral", m, t) for m, t in (("spearman", "0.4"), ("pearson", "0.5"))]
    straight = [make_leaf("table_07", "linkage_mistral_n3", m, t) for m, t in (("spearman", "0.4"), ("pearson", "0.5"))]
    crossed = [make_leaf("table_07", "linkage_mistral_n3", m, t) for m, t in (("spearman", "0.5"), ("pearson", "0.4"))]
    assert consistency.find_column_order(lettered, straight)[0].values == {
        "more": 2.0,
        "by_letters": 2.0,
        "by_caption": 0.0,
    }
    assert consistency.find_column_order(lettered, crossed)[0].values == {
        "more": -2.0,
        "by_letters": 0.0,
        "by_caption": 2.0,
    }


def test_repeat_is_not_the_same_setting() -> None:
    singles = [make_leaf("table_02", "linkage_mistral", "spearman", "0.4")]
    other = make_leaf("table_07", "linkage_mistral_n3", "spearman", "0.4")
    assert [finding.values["equal_cells"] for finding in consistency.find_repeats(singles, [other], [])] == [1.0]
    groups = [["table_02/linkage_mistral/antique", "table_07/linkage_mistral_n3/antique"]]
    assert [finding.values["equal_cells"] for finding in consistency.find_repeats(singles, [other], groups)] == [0.0]


def test_rows_have_counts_and_unique_keys() -> None:
    findings = consistency.find_spreads(make_runs("a", ("0.1000", "0.2000", "0.3000", "0.2000", "0.0500")))
    rows = {row.key: row for row in consistency.make_rows(findings)}
    deviation = rows["std_of_runs", "antique", "table_10_a_spearman_std"]
    assert (deviation.value, deviation.n, deviation.origin) == (pytest.approx(-0.05), 3, "paper")
    assert deviation.kernels == ("nfqa.lab.experiments.consistency:find_spreads",)
    count = rows["std_of_runs", "all", "n_not_borne_out"]
    assert (count.value, count.n) == (1.0, 1)
    assert consistency.describe_findings(findings)[0].endswith("borne out by 1 of 1 comparisons.")


def test_every_check_names_a_function() -> None:
    assert all(callable(getattr(consistency, function)) for function, _, _ in consistency.CHECKS.values())


# --- the published numbers of LINKAGE


@pytest.mark.parametrize(
    ("check", "borne_out", "compared"),
    [
        ("same_setting", 29, 52), ("repeated_value", 56, 60), ("column_order", 1, 4), ("mean_of_runs", 11, 12),
        ("std_of_runs", 8, 12), ("single_run", 10, 12), ("lead_by_mean", 7, 8), ("linkage_best", 42, 44),
        ("uniform_best", 4, 8), ("longer_list", 15, 24), ("references_help", 19, 24),
    ],
)  # fmt: skip
def test_counts(found: dict[tuple[str, str], Finding], check: str, borne_out: int, compared: int) -> None:
    held = [finding.holds for key, finding in found.items() if key[0] == check]
    assert (sum(held), len(held)) == (borne_out, compared)


def test_one_setting_two_values(found: dict[tuple[str, str], Finding]) -> None:
    finding = found["same_setting", "antique/table_02_vs_table_08_linkage_mistral_0_shot_spearman"]
    assert finding.values == {"gap": 0.0689, "first": 0.3790, "second": 0.3101}
    finding = found["same_setting", "trec_dl_nf/table_02_vs_table_07_linkage_mistral_few_shot_spearman"]
    assert finding.values == {"gap": -0.0027, "first": 0.4725, "second": 0.4752}
    # without references, three tables agree on everything: 3 pairs, 2 metrics, 2 data sets, 2 models
    pointwise = [finding for key, finding in found.items() if key[0] == "same_setting" and "pointwise" in key[1]]
    assert [finding.holds for finding in pointwise] == [True] * 24


@pytest.mark.parametrize(
    ("system", "printed", "computed", "first_two"),
    [
        ("linkage_chatgpt_few_shot", 0.0283, 0.0200, 0.0283),
        ("pairwise_chatgpt", 0.0076, 0.0059, 0.0076),
        ("pointwise_ref_chatgpt", 0.0094, 0.0066, 0.0093),
        ("pairwise_mistral", 0.0082, 0.0076, 0.0107),
    ],
)
def test_table_10_deviations(
    found: dict[tuple[str, str], Finding], system: str, printed: float, computed: float, first_two: float
) -> None:
    finding = found["std_of_runs", f"antique/table_10_{system}_spearman_std"]
    assert not finding.holds
    assert finding.values["printed"] == printed
    assert round(finding.values["runs_1_2_3"], 4) == computed
    assert round(finding.values["runs_1_2"], 4) == first_two
    rule = f"runs 1 2 ({finding.values['runs_1_2']:.5f})." if "chatgpt" in system else "none."
    assert finding.text.endswith(f"; other rules tried that reproduce it: {rule}")


def test_table_10_means(found: dict[tuple[str, str], Finding]) -> None:
    linkage = found["mean_of_runs", "antique/table_10_linkage_chatgpt_few_shot_spearman_mean"]
    assert not linkage.holds
    assert round(linkage.values["runs_1_2_3"], 4) == 0.3342  # printed 0.3340
    pointwise = found["mean_of_runs", "antique/table_10_pointwise_ref_chatgpt_spearman_mean"]
    assert pointwise.holds  # 0.3182 is printed, the runs give 0.31827: rounding of the runs allows that
    assert round(pointwise.values["runs_1_2_3"], 5) == 0.31827


def test_table_02_shows_single_runs(found: dict[tuple[str, str], Finding]) -> None:
    best = found["single_run", "trec_dl_nf/table_02_vs_table_09_linkage_mistral_few_shot_spearman"]
    assert (best.values["single"], best.values["run"], best.values["rank"], best.holds) == (0.4725, 1.0, 1.0, True)
    assert best.values["above_mean"] == 0.0117
    single = [(where, finding) for (check, where), finding in found.items() if check == "single_run"]
    assert {finding.values["rank"] for where, finding in single if "linkage" in where} == {1.0}
    assert sorted(finding.values["rank"] for _, finding in single) == [1.0] * 8 + [2.0] * 2 + [3.0] * 2


def test_claims(found: dict[tuple[str, str], Finding]) -> None:
    assert (
        found["lead_by_mean", "antique/table_10_linkage_chatgpt_few_shot_lead_spearman_mean"].values["gap"] == -0.0088
    )
    assert found["linkage_best", "antique/table_02_chatgpt_linkage_over_judges_pearson"].values["gap"] == -0.0068
    assert found["linkage_best", "webglm/table_05_mistral_linkage_over_automatic_acc_best_worst"].values["gap"] == -0.10
    assert found["uniform_best", "antique/table_06_linkage_mistral_0_shot_r33221100_spearman"].values["gap"] == -0.0969
    assert found["references_help", "antique/table_02_pointwise_ref_chatgpt_lead_spearman"].values["gap"] == -0.0006
    repeats = {where for (check, where), finding in found.items() if check == "repeated_value" and not finding.holds}
    assert repeats == {
        "trec_dl_nf/table_07_linkage_mistral_n5_spearman", "trec_dl_nf/table_07_linkage_mistral_n5_pearson",
        "trec_dl_nf/table_09_pointwise_ref_chatgpt_spearman_run_1",
        "antique/table_10_pointwise_ref_chatgpt_spearman_run_1",
    }  # fmt: skip


def test_columns_of_table_02_go_by_letter(found: dict[tuple[str, str], Finding]) -> None:
    counts = {where: finding.values for (check, where), finding in found.items() if check == "column_order"}
    assert {where: count["by_letters"] for where, count in counts.items()} == {
        "trec_dl_nf/table_02_vs_table_07": 4.0, "antique/table_02_vs_table_08": 0.0,
        "trec_dl_nf/table_02_vs_table_09": 6.0, "antique/table_02_vs_table_10": 4.0,
    }  # fmt: skip
    assert {count["by_caption"] for count in counts.values()} == {0.0}


def test_notebook_is_stripped_and_has_no_logic() -> None:
    notebook = nbformat.read(PROJECT / "notebooks" / "linkage" / "consistency.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)
    assert not any(word in cell.source for cell in cells for word in ("def ", "for ", "while "))
