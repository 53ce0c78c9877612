"""Questions of several sources, by hand, and the topics of the sample."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from notebook_cells import run_notebook

from nfqa.files.records import Question, QuestionSet
from reproduction.debates.sourcing import list_questions


def make_set(name: str, *texts: str) -> QuestionSet:
    return QuestionSet(name, tuple(Question(text, id=str(n)) for n, text in enumerate(texts)), "measured", "0")


def test_each_question_stands_once_a_source() -> None:
    claims = pd.DataFrame({"dataset": "b", "source": ["x", "y", "x"], "question": ["One?", "One?", "One?"], "more": 1})
    result = list_questions(make_set("a", "One?", "Two?", "One?"), claims)
    rows = [["a", "", "One?"], ["a", "", "Two?"], ["b", "x", "One?"], ["b", "y", "One?"]]
    assert result.to_numpy().tolist() == rows


@pytest.mark.slow
@pytest.mark.monthly
def test_topics_of_the_sample_come_out_the_same_twice(tmp_path: Path) -> None:
    result = [run_notebook("debateqa/figure_14_domains", out=tmp_path / run, n_seeds=2) for run in "ab"]
    first, second = ((tmp_path / run / "figure_14.csv").read_bytes() for run in "ab")
    assert first == second
    table = result[0]["table"]
    shares = table[(table.statistic == "share") & (table.dataset == "open_sets")].value
    outliers = (result[0]["topics"] == -1).mean()
    assert shares.sum() == pytest.approx(1 - outliers, abs=1e-5)
    assert set(table.origin) == {"sample"}
