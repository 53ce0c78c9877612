"""Studies of what is known of DebateQA itself: its points of view and their labels, and the ranks of its Figure 7."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT
from notebook_cells import run_cells, run_notebook
from test_people_notebooks import PlainEmbedder

from nfqa.data.load import load
from nfqa.data.records import PartialAnswer, Question, QuestionSet
from nfqa.lab.open import Lab
from nfqa.lab.values import pick

NOTEBOOK = PROJECT / "notebooks" / "debateqa" / "rank_feasibility.ipynb"
LABELS = pd.read_csv(PROJECT / "data" / "labels" / "repeated_views.csv")


def test_labels_name_each_pair_once_and_follow_from_the_readings() -> None:
    assert list(LABELS) == ["dev_index", "first", "second", "pass_1", "pass_2", "label"]
    assert not LABELS.duplicated(["dev_index", "first", "second"]).any()
    assert (LABELS["first"] < LABELS["second"]).all()
    agreed = LABELS[LABELS.pass_1 == LABELS.pass_2]
    assert (agreed.label == agreed.pass_1).all()
    assert len(agreed) == len(LABELS) - 2


def test_repeats_are_counted_once_and_a_pair_of_questions_by_both(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    repeated = LABELS[LABELS.label == 1].iloc[0]
    other = next(number for number in range(1000) if number not in set(LABELS.dev_index))

    def make(number: int, texts: list[str]) -> Question:
        points = tuple(PartialAnswer(f"{number}.{place}", text) for place, text in enumerate(texts, start=1))
        return Question("why?", id=str(number), partial_answers=points)

    views = ["a", "e", "i", "o", "u", "n", "s"][: repeated.second]
    made = QuestionSet("dev_povs", (make(repeated.dev_index, views), make(other, ["a", "aeiou"])), "measured", "")
    kept = Lab.load
    local = {"dev_povs": made, "debatewise": load("debatewise", data="sample", root=PROJECT)}
    monkeypatch.setattr(Lab, "load", lambda self, name, **how: local[name] if name in local else kept(self, name))
    monkeypatch.setattr(Lab, "embedder", PlainEmbedder())
    table = run_notebook("debateqa/real_views", out=Path(tmp_path), data="full", resamples=20)["table"]

    def say(statistic: str, **conditions: Any) -> float:
        return pick(table, dataset="dev_povs", statistic=statistic, **conditions).value

    n = len(views)
    assert say("mean_views", metric="points_of_view") == (n + 2) / 2
    assert say("fewest_views", metric="points_of_view") == 2
    assert say("n_repeated", metric="repeats") == 1
    assert say("mean_distinct", metric="repeats") == (n - 1 + 2) / 2
    assert say("share_with_repeat", metric="repeats") == 0.5
    assert say("share_repeated", metric="repeats") == pytest.approx(1 / (n * (n - 1) / 2 + 1))
    vectors = PlainEmbedder().embed_sentences([*views, "a", "aeiou"])
    cosines = vectors @ vectors.T
    within = [*cosines[:n, :n][np.triu_indices(n, 1)], cosines[n, n + 1]]
    near = {"metric": "nearness", "statistic": "mean_cosine", "dataset": "dev_povs"}
    assert pick(table, compared="one question", **near).value == pytest.approx(np.mean(within), abs=1e-5)
    apart = pick(table, compared="different questions", **near)
    assert (apart.value, apart.n) == (pytest.approx(cosines[:n, n:].mean(), abs=1e-5), 2 * n)


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
