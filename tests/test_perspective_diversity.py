"""Perspective Diversity, by hand on made-up losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nfqa.kernels.perplexity import PAPER, RELEASED, Settings
from nfqa.metrics.perspective_diversity import score_diversity, score_views
from nfqa.models.restated import TOO_LONG, Restated, TargetLoss


class StubScorer:
    """Losses by target, made up."""

    identity, chats = "stub", True

    def __init__(self, losses: dict[str, TargetLoss]) -> None:
        self.losses = losses
        self.asked: list[tuple[Sequence[Restated], Settings]] = []

    def adapt(self, settings: Settings) -> Settings:
        return settings

    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        self.asked.append((items, settings))
        return [[self.losses[target] for target in item.targets] for item in items]


LOSSES = {
    "two": TargetLoss(2 * math.log(2), 2, 12),  # perplexity 2
    "eight": TargetLoss(3 * math.log(8), 3, 13, cut=4),  # perplexity 8
    "none": TargetLoss(0.0, 0, 10, unscored=1, reason="no_tokens"),
    "nan": TargetLoss(math.nan, 3, 13),
    "inf": TargetLoss(math.inf, 3, 13, cut=2),
    "overflow": TargetLoss(2000.0, 1, 11),
    "long": TOO_LONG,
}


@pytest.fixture
def stub() -> StubScorer:
    return StubScorer(LOSSES)


def measure_one(model: Any, texts: Sequence[str], answer: str = "A", **switches: Any) -> tuple[Any, pd.DataFrame]:
    """Score and reason of one answer beside another one, and what it is made of."""
    answers = pd.DataFrame({"dataset": "d", "question": ["q", "other"], "text": [answer, "B"]})
    views = pd.DataFrame({"dataset": "d", "question": ["q"] * len(texts) + ["other"], "text": [*texts, "two"]})
    scores = score_diversity(answers, views, model, **switches)
    parts = score_views(answers.head(1), views, model, **switches) if texts else pd.DataFrame()
    return (scores.score[0], scores.missing[0]), parts


def test_the_paper_sums_perplexities_of_the_targets_own_tokens(stub):
    result, parts = measure_one(stub, ["two", "eight"])
    assert result == (pytest.approx(10.0), "")
    assert parts.perplexity.tolist() == pytest.approx([2.0, 8.0])
    assert stub.asked[0] == ([Restated("A", ("two", "eight")), Restated("B", ("two",))], PAPER)


def test_the_released_script_averages_over_all_attended_tokens_less_one(stub):
    result, parts = measure_one(stub, ["two", "eight"], variant="released")
    # 2 ln 2 over 11, 3 ln 8 = 9 ln 2 over 12
    expected = [2 ** (2 / 11), 2 ** (9 / 12)]
    assert parts.perplexity.tolist() == pytest.approx(expected)
    assert result[0] == pytest.approx(sum(expected) / 2)
    assert stub.asked[0][1] == RELEASED


@pytest.mark.parametrize(
    ("texts", "value", "reason"),
    [
        (["nan", "two", "inf", "overflow"], math.nan, "not_finite"),
        (["two", "long", "none"], 2.0, ""),
        (["long", "none"], math.nan, "no_tokens"),
        (["long"], math.nan, "too_long"),
    ],
)
def test_what_has_no_perplexity_is_left_out_by_name(stub, texts, value, reason):
    result, parts = measure_one(stub, texts)
    assert result == (pytest.approx(value, nan_ok=True), reason)
    reasons = {"two": "", "none": "no_tokens", "long": "too_long"}
    assert parts.missing.tolist() == [reasons.get(text, "not_finite") for text in texts]
    assert np.isfinite(parts.perplexity).tolist() == [text == "two" for text in texts]


VIEWS = pd.DataFrame(
    [("d", "q1", "v1", "two"), ("d", "q2", "v1", "nan"), ("d", "q1", "v2", "eight"), ("d", "q2", "v2", "two")],
    columns=["dataset", "question", "view", "text"],
)
ANSWER_ROWS = pd.DataFrame(
    [
        ("d", "q2", "a", "A"),
        ("d", "q1", "a", "A"),
        ("d", "q1", "b", " "),
        ("d", "q1", "c", None),
        ("d", "q3", "a", "A"),
    ],
    columns=["dataset", "question", "system", "text"],
    index=[7, 7, 8, 9, 3],
)


def test_a_frame_of_answers_is_scored_row_by_row_with_reasons(stub):
    scores = score_diversity(ANSWER_ROWS, VIEWS, stub, named="small", variant="paper")
    assert scores.columns.tolist() == [
        "dataset", "question", "system", "metric", "evaluator", "variant", "score", "missing", "note", "signature",
    ]  # fmt: skip
    assert scores["score"].tolist() == pytest.approx([math.nan, 10.0, math.nan, math.nan, math.nan], nan_ok=True)
    assert scores["missing"].tolist() == ["not_finite", "", "empty_answer", "no_answer", "needs views"]
    assert set(scores["signature"]) == {f"pd:{PAPER.signature}|evaluator:stub"}
    assert len(stub.asked) == 1


def test_what_an_answers_score_is_made_of_sums_to_it(stub):
    rows = score_views(ANSWER_ROWS[ANSWER_ROWS.question == "q1"], VIEWS, stub)
    assert rows[["system", "view"]].agg("".join, axis=1).tolist() == ["av1", "av2", "bv1", "bv2"]
    assert rows.loc[rows.system == "a", "perplexity"].sum() == pytest.approx(10.0)
    assert rows[["tokens", "attended", "cut"]].head(2).to_numpy().tolist() == [[2, 12, 0], [3, 13, 4]]
    assert rows.loc[rows.system == "b", ["nats", "perplexity"]].isna().to_numpy().all()
    assert set(rows.missing[rows.system == "a"]) == {""}
    assert set(rows.missing[rows.system == "b"]) == {"empty_answer"}


class WordCopier:
    """Two nats a word that the answer lacks, half a nat one that it has."""

    identity = "copier"

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads

    def adapt(self, settings: Settings) -> Settings:
        return settings

    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        return [[self.lose(item.context.split(), target.split()) for target in item.targets] for item in items]

    def lose(self, answer: list[str], words: list[str]) -> TargetLoss:
        nats = sum(0.5 if self.reads and word in answer else 2.0 for word in words)
        return TargetLoss(nats, len(words), len(words) + len(answer))


def test_a_share_is_the_mean_way_from_the_question_to_the_views_by_hand():
    views = {"q": ["tram cheap", "rain likely"], "r": ["ice"], "s": ["sun"]}
    views = pd.DataFrame([("d", *each) for each in views.items()], columns=["dataset", "question", "text"])
    views = views.explode("text", ignore_index=True).assign(view=range(4))
    # nats a token of q's views: 1.25 and 2 given the question, 0.5 given the views; r's costs no less given the views
    questions = {"q": "why tram", "r": "why ice", "s": "why", "t": "why"}
    shares = {
        ("q", "why tram"): 0, ("q", "tram cheap rain likely"): 1, ("q", "rain"): (-1 + 0.5) / 2, ("q", None): math.nan,
        ("r", "ice"): math.nan, ("s", "sun"): 1, ("t", "sun"): math.nan,
    }  # fmt: skip
    answers = pd.DataFrame([*shares], columns=["question", "text"]).assign(dataset="d")
    scores = score_diversity(answers, views, WordCopier(), questions=questions)
    assert scores.share.tolist() == pytest.approx([*shares.values()], nan_ok=True)
    pd.testing.assert_frame_equal(scores.drop(columns="share"), score_diversity(answers, views, WordCopier()))
    assert scores.missing.tolist() == ["", "", "", "no_answer", "", "", "needs views"]
