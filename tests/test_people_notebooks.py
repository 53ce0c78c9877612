"""Notebooks that compare metrics with people's ratings: their cells run in this process on the bundled sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from notebook_cells import run_notebook, use_rule
from test_judged_notebooks import answer_by_rule

from nfqa.kernels.perplexity import Settings
from nfqa.metrics.answer_judging import BASELINES
from nfqa.models.restated import Restated, TargetLoss
from reproduction.data.load import load
from reproduction.open import Lab
from reproduction.values import pick

RATED = load("overton", data="sample")


class RatingEvaluator:
    """A view costs the fewer nats a token the higher its author rated the answer: it agrees with people wholly."""

    spec, cache, identity = SimpleNamespace(kind="embedded", name="made"), None, "embedded:made"

    def __init__(self) -> None:
        answers = RATED.answers.set_index(["question", "system"]).text
        views = RATED.views.set_index(["question", "view"]).text
        self.ratings = {
            (answers[row.question, row.system], views[row.question, row.view]): row.rating
            for row in RATED.ratings.itertuples()
        }

    def adapt(self, settings: Settings) -> Settings:
        return settings

    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        ratings = [[self.ratings.get((item.context, target), 3) for target in item.targets] for item in items]
        return [[TargetLoss((6.0 - rating) * 2, 2, 9) for rating in row] for row in ratings]


class PlainEmbedder:
    """Vectors from the letters of a text."""

    spec, fingerprint, can_tune = SimpleNamespace(identity="made:up"), "made:up", False

    def tune(self, _: str) -> PlainEmbedder:
        return self

    def prepare(self, texts: Sequence[str], **_: bool) -> int:
        return len(texts)

    def find_cut(self, texts):
        return set()

    def embed_sentences(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.array([[text.count(letter) + 1.0 for letter in "aeiounst"] for text in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a notebook, with stand-ins for the embedder, the evaluators and a language model."""
    evaluator = RatingEvaluator()
    monkeypatch.setattr(Lab, "embedder", PlainEmbedder())
    monkeypatch.setattr(Lab, "evaluator", evaluator)
    monkeypatch.setattr(Lab, "open_evaluators", lambda self, *others: {"small": evaluator})
    use_rule(monkeypatch, answer_by_rule)
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))

    def execute(name: str, *tags: str, **given: object) -> dict[str, Any]:
        chosen = ("parameters", "setup", *tags) if tags else ()
        return run_notebook(f"debateqa/{name}", out=tmp_path / "out", tags=chosen, **given)

    return execute


def test_a_metric_that_agrees_with_people_is_found_to(run) -> None:
    found = run("human_alignment", resamples=20, judge="openai:any")
    table, dataset = found["table"], RATED.name
    form = {"dataset": dataset, "metric": "pd", "evaluator": "small", "variant": "paper", "statistic": "spearman"}
    own = pick(table, level="item", **form)
    assert own.value == pytest.approx(1)
    assert (np.isnan(own.low), own.resampled) == (True, "1 group")  # all share their questions
    rated = RATED.ratings.groupby(["rater", "question"]).rating.nunique()
    assert (own.n, own.dropped) == ((rated > 1).sum(), (rated == 1).sum())
    length = pick(table, **form | {"metric": "length", "evaluator": "", "variant": ""}, level="item")
    gap = pick(table, level="item", difference_from="length", **form)
    assert gap.value == pytest.approx(1 - length.value)
    for baseline in BASELINES:
        row = pick(table, dataset=dataset, metric=baseline, judge="judge", level="question", statistic="kendall")
        assert row.n + row.dropped == len(RATED.questions)
    assert set(table.origin) == {"sample"}
    assert not any("not run" in sentence for sentence in found["findings"])


def test_rankings_of_one_annotator_and_of_all_are_compared_with_a_metric(run) -> None:
    found = run("table_02_agreement_with_people", resamples=20, judge="openai:any")
    table = found["table"]
    form = {"dataset": RATED.name, "metric": "pd", "evaluator": "small", "variant": "geometric"}
    for ranking in ("elo", "bradley_terry"):
        each = pick(table, annotators="each", ranking=ranking, statistic="spearman", **form)
        assert each.value > 0.7  # mean ratings and comparisons won order the systems almost alike
        assert each.n + each.dropped == RATED.ratings.rater.nunique()
        ceiling = {"dataset": RATED.name, "metric": "people_left_out", "annotators": "each", "ranking": ranking}
        assert -1 <= pick(table, statistic="kendall", **ceiling).value <= 1
        judged = {"dataset": RATED.name, "metric": "g_eval", "judge": "judge", "ranking": ranking}
        together = pick(table, annotators="together", statistic="kendall", **judged)
        assert (together.n, together.dropped) == (len(RATED.systems), 0)
        assert (np.isnan(together.low), together.resampled) == (True, "1 group")
    halves = pick(table, dataset=RATED.name, metric="people_split_half", statistic="spearman")
    assert f"on the order of the systems at {halves.value:.2f}" in found["findings"][1]
    assert "0 of 4 systems can be told from the mean of the others" in found["findings"][0]  # of one group
    assert set(table.origin) == {"sample"}


@pytest.mark.parametrize("name", ["human_alignment", "table_02_agreement_with_people"])
def test_a_plan_counts_what_is_then_asked(name, run, monkeypatch) -> None:
    monkeypatch.setenv("NFQA_DRY", "1")
    planned = run(name, "ask", judge="openai:any")["lab"].tally
    monkeypatch.delenv("NFQA_DRY")
    asked = run(name, "ask", judge="openai:any")["lab"].tally
    assert planned.asked == asked.asked == len(BASELINES) * len(RATED.answers) + 1  # the steps of G-Eval


def test_annotators_of_one_group_have_no_other_to_compare_with(run) -> None:
    table = run("figure_02_agreement_among_annotators", resamples=20)["table"]
    assert set(table.raters) == {"same_questions", ""}
    mean = pick(table, dataset=RATED.name, metric="elo", raters="same_questions", statistic="spearman")
    single = table[pd.to_numeric(table.annotator).notna()]  # the pairs of the heat map are all there are
    assert mean.value == pytest.approx(single.value.mean(), abs=1e-5)
    assert (mean.n, np.isnan(mean.low)) == (len(single), True)
    same = table[table.statistic == "share_in_bin"]
    assert same.value.sum() == pytest.approx(1)
    assert pd.to_numeric(same.bin_from).between(-1, 0.8).all()
