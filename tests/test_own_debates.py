"""A user's own answers to debatable questions: P.D. and D.A. on the scale, in both formats, from the door."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, Checkout, copy_project
from test_judging import make_judge
from test_listwise import StubEmbedder
from tiny_models import make_tiny_model

from nfqa.data.own_answers import read_own_answers
from nfqa.data.records import QuestionSet
from nfqa.judge.prompts import read_prompt_set
from nfqa.lab.experiments.own_answers import bring_answers, measure_means
from nfqa.lab.experiments.own_debates import describe_debates, score_awareness, score_diversity, score_judged_awareness
from nfqa.models.chat import Decoding
from nfqa.models.evaluator import TargetLoss

POINTS = ["Yes.", {"point_of_view": "No.", "explanation": "It harms."}]
BARE = {"question": "how?", "answers": ["thus"]}
DEBATABLE = {"question": "whether?", "partial_answers": POINTS, "answers": ["xylo both", "xylo one", "   "]}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


class StubEvaluator:
    """Each target's loss is `nats`, or more for a context that says "one", over two tokens; ten are attended."""

    identity = "stub"

    def __init__(self, nats: float = 2 * np.log(10), cut: int = 0, tokens: int = 2) -> None:
        self.nats, self.cut, self.tokens = nats, cut, tokens
        self.asked: list[Any] = []

    def score(self, items: Sequence[Any], settings: Any) -> list[list[TargetLoss]]:
        self.asked += items
        nats = [self.nats * (2 if "one" in item.context else 1) for item in items]
        return [
            [TargetLoss(loss, self.tokens, 10, self.cut)] * len(item.targets)
            for item, loss in zip(items, nats, strict=True)
        ]


def score(own: QuestionSet, evaluator: StubEvaluator) -> Any:
    return score_diversity(SimpleNamespace(evaluator=evaluator), own, wrapping="chat")  # type: ignore[arg-type]


@pytest.fixture
def own(tmp_path: Path) -> QuestionSet:
    return read_own_answers(write(tmp_path / "my.jsonl", BARE, DEBATABLE))


def test_partial_answers_are_read_beside_or_instead_of_references(own: QuestionSet) -> None:
    assert [[p.text for p in question.partial_answers] for question in own.questions] == [
        [],
        ["Yes.", "No. It harms."],
    ]
    assert own.irregularities == {"questions_without_references": 1, "empty_answers": 1}


def test_diversity_is_scored_where_there_are_partial_answers(own: QuestionSet) -> None:
    evaluator = StubEvaluator()
    paper, released = score(own, evaluator)
    assert [item.targets for item in evaluator.asked[:2]] == [("Yes.", "No. It harms.")] * 2
    assert np.isnan(paper.scores[0]).all()
    assert paper.notes == ("needs partial answers", "")
    # 2 targets, each exp(2 ln 10 / 2) = 10, so a sum of 20; with twice the loss each 100, so 200
    assert paper.scores[1] == pytest.approx([-20, -200])
    # mean perplexities 10 and 100: one and two of the scale's four decades
    assert paper.tens[1] == pytest.approx([7.5, 5.0])
    # released: the mean of exp(2 ln 10 / (10 - 1))
    assert released.scores[1] == pytest.approx([-(100 ** (1 / 9)), -(100 ** (2 / 9))])
    assert paper.signature.endswith("evaluator:stub|sign:-")
    assert "cut_tail" in paper.signature
    rows = measure_means(own, [paper], resamples=20)
    assert rows[0].value == pytest.approx(6.25)
    assert rows[0].dropped_because == {"needs_partial_answers": 1}


def test_the_scale_ends_at_ten_and_at_nought(own: QuestionSet) -> None:
    assert list(score(own, StubEvaluator(0.0))[0].tens[1]) == [10, 10]
    assert list(score(own, StubEvaluator(50.0))[0].tens[1]) == [0, 0]


def test_what_was_cut_or_left_out_is_noted_and_said(own: QuestionSet) -> None:
    scored = score(own, StubEvaluator(cut=3))
    assert scored[0].notes[1] == "an answer cut at its end to fit the evaluator"
    said = describe_debates(own, scored)
    assert said[0].startswith("1 questions are debatable, with 2 partial answers")
    assert said[1].startswith("P.D. on the scale from 0 to 10 is 10 (1 - log10(p) / 4)")
    assert said[2] == "pd_paper: an answer cut at its end to fit the evaluator (1 questions)."
    broken = score(own, StubEvaluator(nats=float("nan")))
    assert np.isnan(broken[0].scores[1]).all()
    assert broken[0].notes[1] == "not finite: 2"
    none = score(own, StubEvaluator(tokens=0))
    assert none[0].notes[1] == "no tokens: 2"


def test_awareness_is_the_detectors_probability_of_debatable_questions(own: QuestionSet) -> None:
    embedder: Any = StubEmbedder()
    embedder.spec = SimpleNamespace(identity="stub")
    found = score_awareness(own, embedder)
    assert np.isnan(found.scores[0]).all()
    assert ((found.scores[1] >= 0) & (found.scores[1] <= 1)).all()
    assert list(found.tens[1]) == list(10 * found.scores[1])
    assert "embedder:stub" in found.signature


def test_a_language_model_decides_on_debatable_questions_alone(own: QuestionSet) -> None:

    judge = make_judge(
        lambda prompt: "[[1]]" if "xylo both" in prompt else "no idea", decoding=Decoding(temperature=0.0)
    )
    lab: Any = SimpleNamespace(judge=judge, read_prompts=lambda name: read_prompt_set(PROJECT, name))
    found = score_judged_awareness(lab, own)
    assert np.isnan(found.scores[0]).all()
    assert found.tens[1] == pytest.approx([10, np.nan], nan_ok=True)
    assert found.notes == ("needs partial answers", "no verdict: unreadable")
    assert score_judged_awareness(SimpleNamespace(judge=None), own).left_out == "needs JUDGE, a language model"  # type: ignore[arg-type]


def test_without_a_debatable_question_nothing_is_run(tmp_path: Path) -> None:
    own = read_own_answers(write(tmp_path / "my.jsonl", BARE))
    lab: Any = SimpleNamespace()  # has no evaluator to open
    left = [*score_diversity(lab, own, wrapping="chat"), score_awareness(own, lab), score_judged_awareness(lab, own)]
    assert {s.method: s.left_out for s in left} == dict.fromkeys(
        ("pd_paper", "pd_released", "da_detector", "da_judge"), "needs partial answers"
    )
    assert describe_debates(own, left) == []


def questions(path: Path) -> Path:
    lines = [{"id": i, "question": f"whether {i}?", "partial_answers": [POINTS[1]]} for i in (1, 2, 3)]
    return write(path / "test.jsonl", *lines)


def test_questions_without_answers_are_refused(tmp_path: Path) -> None:
    lab: Any = SimpleNamespace(root=tmp_path, data="full", use=lambda dataset: dataset)
    with pytest.raises(ValueError, match="but no file of answers is named"):
        bring_answers(lab, "", "test.jsonl")


@pytest.mark.slow
def test_both_formats_are_scored_from_the_door_with_ones_own_evaluator(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models")
    made = Checkout(root)
    made.environment |= {"DATA": "sample", "PROFILE": "quick", "PYTHONWARNINGS": "ignore"}
    evaluator = make_tiny_model(tmp_path / "tiny", context=512)
    answers = write(tmp_path / "mine.jsonl", *({"id": i, "generation": f"Some say yes, {i}."} for i in (1, 2, 7)))
    done = made.run(
        "score", str(answers), "--questions", str(questions(tmp_path)), EVALUATOR=f"path:{evaluator}", WRAPPING="plain"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (root / "build" / "scores").iterdir()
    assert folder.name.startswith("mine-evaluator-wrapping-")
    content = json.loads((folder / "scores.json").read_text())
    found = {(line["question"], line["method"]): line for line in content["scores"]}
    assert {method for _, method in found} >= {"pd_paper", "pd_released", "da_detector"}
    assert found["1", "pd_paper"]["score"] < 0
    assert 0 <= found["2", "da_detector"]["ten"] <= 10
    assert "rouge1" not in {method for _, method in found}, "needs references"
    assert found["7", ""]["note"] == "excluded: answer to an unknown question"
    refused = made.run("score", str(answers), EVALUATOR=f"path:{evaluator}")
    assert refused.returncode == 2
    assert "QUESTIONS=test.jsonl" in refused.stderr
