"""papers/debateqa.yml: complete, no number that the sources don't give, and what isn't run says what it waits for."""

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


def test_the_numbers_that_the_sources_state_and_no_others(paper: Paper) -> None:
    counts = paper.published.artefact.value_counts()
    # Our text copy of the paper has no cell of Tables 2 to 7, nor a value of Figures 2 to 6 and 8 to 10.
    assert counts.to_dict() == {
        "table_01": 4, "table_03": 1, "table_08": 2, "table_09": 4, "figure_01": 6, "figure_07": 60, "figure_11": 1,
        "equation_07": 1, "pd_variants": 1,
    }  # fmt: skip
    stated = "2941 10873 3.7 1000 0.79 1758 9 2281 434 3216 2982 0.904 767 0.934 0.66 0.60 0.56 1.95 3.9867007732391357"
    assert set(stated.split()) <= set(paper.published.printed)
    # "rho > 0.8" and "three to five documents" are bounds: they may not stand as values.
    assert "lower bound" in paper.artefacts["figure_02"].note


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


def test_the_ranks_of_figure_7_are_permutations(paper: Paper) -> None:
    ranks = paper.find_published("figure_07").groupby("heading").published.apply(sorted)
    assert len(ranks) == 5
    assert (ranks.map(lambda column: column == list(range(1, 13)))).all()


def test_the_printed_counts_agree_with_one_another(paper: Paper) -> None:
    printed = paper.published.query("artefact in ['table_01', 'figure_01'] and dataset != 'debateqa_test'")
    counts = printed.set_index("heading").published
    assert round(counts["n_partial_answers"] / counts["n_questions"], 1) == counts["mean_partial_answers"]
    share = counts["n_partial_answers"] / (counts["n_partial_answers"] + counts["n_removed"])
    assert round(share, 3) == counts["share_kept"]


def test_only_rows_of_the_papers_own_data_or_example_are_measured_as_it_did(paper: Paper) -> None:
    datasets = ["debateqa_test", "debateqa_dev", "worked_example", "released_prompt"]
    for path in sorted((PROJECT / "results" / "debateqa").glob("*.csv")):
        table = mark_stand_ins(paper, path.stem, read_values(path))
        table = table if "dataset" in table else table.assign(dataset="")  # a prompt's counts are of no dataset
        measured = table.dataset[table.origin == "measured"].unique()
        assert set(measured) <= set(datasets), f"{path.name}: {measured}"
        assert not table.dataset[table.origin == "stand-in"].isin(datasets).any()
