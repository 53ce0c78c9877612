"""Studies of what is known of DebateQA itself: its points of view and their labels, and the ranks of its Figure 7."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT
from notebook_cells import CostEvaluator, run_cells, run_notebook, use_evaluators
from tiny_models import LetterEmbedder

from nfqa.files.records import Answer, PartialAnswer, Question, QuestionSet
from reproduction.data import load as data_load
from reproduction.data.load import load
from reproduction.open import Lab
from reproduction.values import pick

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
    load_other = Lab.load
    local = {"dev_povs": made, "debatewise": load("debatewise", data="sample", root=PROJECT)}
    monkeypatch.setattr(Lab, "load", lambda self, name, **how: local[name] if name in local else load_other(self, name))
    monkeypatch.setattr(Lab, "embedder", LetterEmbedder())
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
    vectors = LetterEmbedder().embed_sentences([*views, "a", "aeiou"])
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


def test_runs_are_scored_on_the_questions_whose_points_of_view_are_known(monkeypatch, tmp_path) -> None:
    texts = {"a": "Yes.", "b": "Yes, by far.", "c": "Yes, by far, as all who know it say."}
    answers = tuple(Answer(name, text, system=name) for name, text in texts.items())
    questions = tuple(Question(f"why {n}?", answers, id=str(n)) for n in range(3))
    points = (PartialAnswer("7.1", "One."), PartialAnswer("7.2", "Two."))
    local = {
        "system_answers": QuestionSet("system_answers", questions, "measured", ""),
        "dev_povs": QuestionSet("dev_povs", (Question("why 1?", id="7", partial_answers=points),), "measured", ""),
        "demo_answers": replace(load("demo_answers", data="sample", root=PROJECT), name="demo_answers"),
    }
    labels = [f"systems,{n}:a,1,1,{n % 2}" for n in range(3)]
    (tmp_path / "labels.csv").write_text("\n".join(["set,id,pass_1,pass_2,label", *labels]) + "\n")
    monkeypatch.setattr(data_load, "DISPUTE_LABELS", str(tmp_path / "labels.csv"))
    evaluators = {  # by the one, a longer answer is better; by the other, worse
        "small": CostEvaluator(lambda text, _: 9 - len(text) / 50),
        "tiny": CostEvaluator(lambda text, _: 9 + len(text) / 50),
    }
    monkeypatch.setattr(Lab, "load", lambda self, name, **how: local[name])
    monkeypatch.setattr(Lab, "embedder", LetterEmbedder())
    use_evaluators(monkeypatch, **evaluators)
    result = run_notebook("debateqa/real_runs", out=tmp_path, data="full", resamples=20)
    assert set(result["views"].question) == {"1"}
    table = result["table"]
    assert pick(table, dataset="system_answers", metric="words", system="c", statistic="mean").value == 9
    tau = table[table.of == "answers"].iloc[0]
    assert (tau.value, tau.n) == (-1, 1)
    labelled = pick(table, dataset="system_answers", metric="labels", statistic="mean")
    assert (labelled.value, labelled.n) == (pytest.approx(1 / 3), 3)
    with_length = table[(table.statistic == "spearman_words") & (table.metric == "pd")].set_index("evaluator").value
    assert dict(with_length) == {"small": -1, "tiny": 1}
