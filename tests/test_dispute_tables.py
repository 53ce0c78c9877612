"""Table 3, Figure 5 and Table 14: labels read strictly, rows by hand, and what reading prompt and completion does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_dispute import Bags, make_judge
from test_prompts import use_own

from nfqa.data.labels import LABELS
from nfqa.data.load import load
from nfqa.data.records import Answer, Question, QuestionSet
from nfqa.lab.experiments import dispute, dispute_agreement, dispute_prompts
from nfqa.lab.experiments.dispute import Way

PROJECT = Path(__file__).parents[1]


def use_sample() -> QuestionSet:
    return load("demo_answers", data="sample", root=PROJECT)


def make_way(name: str, *scores: float) -> Way:
    return Way(name, np.array(scores), name, "made")


def write_labels(tmp_path: Path, text: str) -> Path:
    (tmp_path / "data" / "labels").mkdir(parents=True)
    (tmp_path / LABELS).write_text(text)
    return tmp_path


def make_systems() -> QuestionSet:
    answers = (Answer("a", "It is disputed.", system="a"), Answer("b", "Yes.", system="b"))
    questions = tuple(Question(f"why {n}?", answers, id=str(n)) for n in range(2))
    return QuestionSet("system_answers", questions, "measured", "0" * 64)


def test_rows_against_labels_by_hand(tmp_path):
    text = "set,id,pass_1,pass_2,label\nsystems,0:a,1,1,1\nsystems,0:b,0,0,0\nsystems,1:a,1,0,1\nsystems,1:b,1,1,1\n"
    labelled = dispute.read_labelled(write_labels(tmp_path, text), make_systems())
    ways = [dispute.take_majority(labelled), make_way("mine", 0.9, 0.2, float("nan"), 0.1)]
    rows = {(row.system, row.metric): row for row in dispute.compare_with_labels(labelled, ways, resamples=50)}
    assert rows["majority", "accuracy"].value == 0.75
    assert rows["majority", "mcc"].value is None
    assert rows["mine", "accuracy"].value == pytest.approx(2 / 3)
    assert (rows["mine", "accuracy"].n, rows["mine", "accuracy"].n_dropped) == (3, 1)
    assert rows["mine", "auroc"].value == 0.5  # .9 beats .2, .1 loses to it
    assert rows["mine", "share_aware"].value == pytest.approx(1 / 3)
    passes = {row.metric: row for row in dispute.describe_labels(labelled, resamples=50)}
    assert passes["passes_agreement"].value == 0.75
    # p_o = 3/4; pass 1 has 3 ones, pass 2 has 2: p_e = (3*2 + 1*2) / 16 = 1/2
    assert passes["passes_kappa"].value == pytest.approx(0.5)
    assert passes["share_aware"].value == 0.75


def test_the_judge_gives_rows_of_all_its_forms():
    judge = make_judge(lambda prompt: "[[1]]" if "disputed." in prompt.rpartition("<candidate>")[2] else "who knows")
    lab: Any = SimpleNamespace(judge=judge, read_prompts=lambda _: use_own(), asking=SimpleNamespace(reading="text"))
    ways = dispute.list_judged(lab, ["It is disputed.", "Yes."])
    assert [way.name for way in ways] == ["da_judge", "da_judge_zero_shot", "delphi_acknowledgement"]
    for way in ways:
        np.testing.assert_array_equal(way.decisions, [1, np.nan])
        assert way.missing == {"unreadable": 1}
    assert len({way.signature for way in ways}) == 3
    assert dispute.list_judged(SimpleNamespace(judge=None), ["a"]) == []  # type: ignore[arg-type]


def test_the_refitted_detector_never_sees_the_answer_it_scores(monkeypatch):
    """With labels drawn at random no fit can know them; were the answer in its own fit, accuracy would rise."""
    labelled = dispute.read_labelled(PROJECT, use_sample())
    drawn = np.random.default_rng(3)
    monkeypatch.setattr(dispute, "list_cues", lambda _: tuple(drawn.normal(size=40)))

    class Made:
        signature = "made"

        def describe(self, texts):
            return drawn.normal(size=(len(texts), 2))

    monkeypatch.setattr(dispute, "open_detector", lambda _: Made())
    count = 200
    random = dispute.LabelledAnswers(
        labelled.dataset, tuple(map(str, range(count))), ("a text.",) * count, tuple(map(str, range(count))),
        *(drawn.integers(0, 2, count) for _ in range(3)),
    )  # fmt: skip
    way = dispute.refit_detector(random, Bags())  # type: ignore[arg-type]
    assert abs(np.mean(way.decisions == random.labels) - 0.5) < 0.12
    assert way.name == "da_detector_refitted"


def test_agreement_of_two_ways_by_hand():
    ways = [make_way("one", 1, 1, 0, 0), make_way("other", 0.8, 0.1, 0.2, float("nan"))]
    rows = {(row.system, row.metric): row for row in dispute_agreement.compare_ways(make_systems(), ways, resamples=20)}
    both = rows["one", "agreement_with_other"]
    assert both.value == pytest.approx(2 / 3)
    assert (both.n, both.n_dropped) == (3, 1)
    # p_o = 2/3, p_e = (2*1 + 1*2) / 9 = 4/9: (6/9 - 4/9) / (5/9)
    assert rows["one", "kappa_with_other"].value == pytest.approx(0.4)
    assert rows["other", "share_aware"].value == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="none gives no verdict on any answer"):
        dispute_agreement.compare_ways(make_systems(), [make_way("none", float("nan"))], resamples=20)


def test_answers_are_thinned_by_hash_and_keep_their_order():
    whole = use_sample()
    few = dispute_agreement.thin_answers(whole, most=5)
    assert len(few.questions) == 5
    assert [q for q in whole.questions if q in few.questions] == list(few.questions)
    assert set(few.questions) < set(dispute_agreement.thin_answers(whole, most=6).questions)


def test_reading_prompt_and_completion_together_finds_the_prompts_own_digits():
    rows = {(row.system, row.metric): row.value for row in dispute_prompts.compare_readings(use_own(), use_sample())}
    for name in ("prompt_own", "prompt_own_zero_shot"):
        assert rows[name, "read_right_completion"] == 1.0
        assert rows[name, "share_read_completion"] == rows[name, "share_said"]
        assert 0 < rows[name, "share_said"] < 1
        assert rows[name, "share_read_together_first_digit"] in (0.0, 1.0)  # always the same one
        assert rows[name, "read_right_together_all"] < 0.5
    # the first demonstration's verdict is 0: right as often as 0 was said
    assert rows["prompt_own", "read_right_together_first_demonstration"] == 1 - rows["prompt_own", "share_said"]


def test_what_is_counted_in_the_prompts():
    rows = {(row.system, row.metric): row.value for row in dispute_prompts.count_forms(use_own(), use_sample())}
    assert rows["prompt_own", "demonstrations"] == 3
    assert rows["prompt_own", "demonstrations_aware"] == 1
    assert rows["prompt_own_zero_shot", "demonstrations"] == 0
    assert rows["prompt_own", "placeholders"] == rows["prompt_own_zero_shot", "placeholders"] == 1
    assert (rows["prompt_own", "lowest"], rows["prompt_own", "highest"]) == (0, 1)
