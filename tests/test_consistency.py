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
    ("wanted", "value", "borne_out"),
    [
        # 0.3790 - 0.3101
        ("same_setting/antique/table_02/LINKAGE, 0-shot (Mistral)/spearman/table_08", 0.0689, "no"),
        # 0.4725 - 0.4608
        ("single_run/trec_dl_nf/table_02/LINKAGE, few-shot (Mistral)/spearman/table_09", 0.0117, "yes"),
        # 0.3340 - 0.3428
        ("lead_by_mean/antique/table_10/LINKAGE, few-shot (ChatGPT)/spearman_mean/table_10", -0.0088, "no"),
    ],
)
def test_differences(table: pd.DataFrame, wanted: str, value: float, borne_out: str) -> None:
    names = ("check", "dataset", "table", "system", "heading", "against_table")
    row = find(table, **dict(zip(names, wanted.split("/"), strict=True)))
    assert (row.value, row.borne_out) == (pytest.approx(value, abs=1e-12), borne_out)


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
