"""papers/debateqa.yml beside what is measured here: which rows stand beside the paper's, and which as proxies."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from reproduction.compare import mark_stand_ins, pivot_beside_paper
from reproduction.papers import Paper, read_papers
from reproduction.values import read_values, tidy_values

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def paper() -> Paper:
    return read_papers(PROJECT)["debateqa"]


def test_a_split_has_one_row_beside_the_paper_which_prints_one_of_its_numbers(paper: Paper) -> None:
    sizes = {"n_questions": 9, "n_partial_answers": 27, "mean_partial_answers": 3}
    rows = [
        {"dataset": dataset, "metric": "dataset", "statistic": statistic, "value": value}
        for dataset in ("debateqa", "debateqa_test")
        for statistic, value in sizes.items()
    ]
    pivot = pivot_beside_paper(paper, "table_01", tidy_values(pd.DataFrame(rows), origin="measured", exact=True))
    assert list(pivot.index) == ["DebateQA", "DebateQA, test split"]
    assert list(pivot["cell"].loc["DebateQA, test split"]) == ["9\n1000", "27.0\n–", "3.0\n–"]


def test_only_rows_of_the_papers_own_data_or_example_are_measured_as_it_did(paper: Paper) -> None:
    datasets = ["debateqa_test", "debateqa_dev", "worked_example", "released_prompt"]
    for path in sorted((PROJECT / "results" / "debateqa").glob("*.csv")):
        table = mark_stand_ins(paper, path.stem, read_values(path))
        table = table if "dataset" in table else table.assign(dataset="")  # a prompt's counts are of no dataset
        measured = table.dataset[table.origin == "measured"].unique()
        assert set(measured) <= set(datasets), f"{path.name}: {measured}"
        assert not table.dataset[table.origin == "stand-in"].isin(datasets).any()
