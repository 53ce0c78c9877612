"""The study of the ranks of DebateQA's Figure 7."""

from __future__ import annotations

import pandas as pd
import pytest
from conftest import PROJECT
from notebook_cells import run_cells

from reproduction.open import Lab

NOTEBOOK = PROJECT / "notebooks" / "debateqa" / "rank_feasibility.ipynb"


def test_ranks_that_weighted_sums_give_are_told_from_others(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """In the second case two models change places twice, which no weighted sum does."""

    def run(*ranks_of_two: list[int]) -> pd.DataFrame:
        weights = [0.0, 0.25, 0.5, 0.75, 1.0]
        rows = [*ranks_of_two, [3] * 5, [4] * 5]
        made = [
            {"row": f"m{n}", "k": k, "published": row[i]} for n, row in enumerate(rows) for i, k in enumerate(weights)
        ]
        monkeypatch.setattr(Lab, "published", lambda self, name: pd.DataFrame(made))
        return run_cells(NOTEBOOK, {"out": str(tmp_path)})["table"].set_index(["metric", "statistic"]).value

    possible = run([1, 1, 2, 2, 2], [2, 2, 1, 1, 1])
    assert possible["ranks", "n_pairs_changed"] == 1
    assert possible["bounded_scores", "margin"] > 0 < possible["unit_variance", "margin"]
    assert possible["unit_variance", "n_ranks_met"] == 20
    twice = run([1, 2, 2, 1, 1], [2, 1, 1, 2, 2])
    assert twice["ranks", "most_changes"] == 2
    assert twice["bounded_scores", "margin"] < 1e-9
    assert twice["unit_variance", "n_ranks_met"] < 20
