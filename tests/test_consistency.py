"""What the committed study of LINKAGE's consistency finds in the published numbers, recomputed here by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reproduction.values import read_values

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return read_values(PROJECT / "results" / "linkage" / "consistency.csv")


def find(values: pd.DataFrame, **wanted: object) -> pd.Series:
    rows = values[np.logical_and.reduce([values[name] == value for name, value in wanted.items()])]
    assert len(rows) == 1, wanted
    return rows.iloc[0]


@pytest.mark.parametrize(
    ("check", "borne_out", "compared"),
    [
        ("same_setting", 29, 52), ("repeated_value", 56, 60), ("column_order", 1, 4), ("mean_of_runs", 11, 12),
        ("std_of_runs", 8, 12), ("single_run", 10, 12), ("lead_by_mean", 7, 8), ("linkage_best", 42, 44),
        ("uniform_best", 4, 8), ("longer_list", 15, 24), ("references_help", 19, 24),
    ],
)  # fmt: skip
def test_counts(table: pd.DataFrame, check: str, borne_out: int, compared: int) -> None:
    count = find(table, check=check, statistic="not_borne_out")
    assert (count.n - count.value, count.n) == (borne_out, compared)
    answers = table[(table.check == check) & (table.borne_out != "")].borne_out
    assert ((answers == "yes").sum(), len(answers)) == (borne_out, compared)


@pytest.mark.parametrize(
    ("wanted", "value", "borne_out"),
    [
        # 0.3790 - 0.3101, 0.4725 - 0.4752
        ("same_setting/antique/table_02/LINKAGE, 0-shot (Mistral)/spearman/table_08", 0.0689, "no"),
        ("same_setting/trec_dl_nf/table_02/LINKAGE, few-shot (Mistral)/spearman/table_07", -0.0027, "no"),
        # 0.4725 - 0.4608
        ("single_run/trec_dl_nf/table_02/LINKAGE, few-shot (Mistral)/spearman/table_09", 0.0117, "yes"),
        # 0.3340 - 0.3428, 0.3688 - 0.3756, 0.2293 - 0.3262, 0.3112 - 0.3118
        ("lead_by_mean/antique/table_10/LINKAGE, few-shot (ChatGPT)/spearman_mean/table_10", -0.0088, "no"),
        ("uniform_best/antique/table_06/LINKAGE, 0-shot, R=33221100 (Mistral)/spearman/table_06", -0.0969, "no"),
        ("references_help/antique/table_02/Pointwise, R≠∅ (ChatGPT)/spearman/table_02", -0.0006, "no"),
    ],
)
def test_differences(table: pd.DataFrame, wanted: str, value: float, borne_out: str) -> None:
    names = ("check", "dataset", "table", "system", "heading", "against_table")
    row = find(table, **dict(zip(names, wanted.split("/"), strict=True)))
    assert (row.value, row.borne_out) == (pytest.approx(value, abs=1e-12), borne_out)


def test_linkage_against_judges_and_automatic_metrics(table: pd.DataFrame) -> None:
    against = {"check": "linkage_best", "borne_out": "no"}
    judged = find(table, **against, rival="judges")
    assert (judged.dataset, judged.heading, judged.against_system) == ("antique", "pearson", "Pairwise (ChatGPT)")
    automatic = find(table, **against, rival="automatic metrics")
    assert (automatic.dataset, automatic.value) == ("webglm", pytest.approx(-0.1))  # 0.34 - 0.44, best and worst


@pytest.mark.parametrize(
    ("system", "printed", "computed", "first_two"),
    [
        ("LINKAGE, few-shot (ChatGPT)", 0.0283, 0.0200, 0.0283), ("Pairwise (ChatGPT)", 0.0076, 0.0059, 0.0076),
        ("Pointwise, R≠∅ (ChatGPT)", 0.0094, 0.0066, 0.0093), ("Pairwise (Mistral)", 0.0082, 0.0076, 0.0107),
    ],
)  # fmt: skip
def test_table_10_deviations(
    table: pd.DataFrame, system: str, printed: float, computed: float, first_two: float
) -> None:
    where = {"check": "std_of_runs", "dataset": "antique", "system": system}
    for rule, expected in (("runs 1, 2, 3", computed), ("runs 1, 2", first_two)):
        assert round(find(table, **where, statistic="computed", rule=rule).value, 4) == expected
    gap = find(table, **where, statistic="difference")
    assert gap.borne_out == "no"
    assert gap.value == pytest.approx(printed - computed, abs=1e-4)


def test_pointwise_rows_without_references_agree_and_four_values_are_repeated(table: pd.DataFrame) -> None:
    same = table[(table.check == "same_setting") & table.system.str.startswith("Pointwise")]
    assert same.borne_out.tolist() == ["yes"] * 24  # 3 pairs of tables, 2 metrics, 2 datasets, 2 models
    repeated = table[(table.check == "repeated_value") & (table.borne_out == "no")]
    assert set(zip(repeated.table, repeated.system, repeated.heading, strict=True)) == {
        ("table_07", "LINKAGE, n=5 (Mistral)", "spearman"), ("table_07", "LINKAGE, n=5 (Mistral)", "pearson"),
        ("table_09", "Pointwise, R≠∅ (ChatGPT)", "spearman_run_1"),
        ("table_10", "Pointwise, R≠∅ (ChatGPT)", "spearman_run_1"),
    }  # fmt: skip
    order = table[(table.check == "column_order") & (table.borne_out != "")].set_index("table").value
    assert order.to_dict() == {"table_07": 4, "table_08": 0, "table_09": 6, "table_10": 4}
