"""Dispute Awareness: rules by word, the judge's digit from its completion or its logits, and the detector."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT
from scipy.special import expit
from test_judging import LOGITS, PROMPTS, list_prompts, make_judge

from nfqa.judge.prompts import PromptSet
from nfqa.kernels.parse import read_digit
from nfqa.metrics.dispute_awareness import Form, judge_awareness, score_awareness
from nfqa.metrics.dispute_detector import AWARE_FROM, FEATURES, Detector
from nfqa.metrics.dispute_rules import apply_rule
from nfqa.models.chat import Reply
from nfqa.models.reader import READER_CUT
from reproduction.studies.decisions import (
    FITTED_ON,
    compare_decisions,
    detect_unseen,
)

NAN = float("nan")
AWARE = "Whether zoos should exist is hotly debated. Some defend their breeding programmes, others call them prisons."
PLAIN = "Zoos should close. Animals need space, and a cage is none. Every visitor can see that."


@pytest.mark.parametrize(
    ("text", "one_word", "phrases", "or_sides"),
    [
        ("This is much debated.", True, True, True),
        ("The matter is controversial.", False, True, True),
        ("There is no definitive answer.", False, True, True),
        ("Opinions on this differ.", False, True, True),
        ("Supporters like it. It is cheap. Critics fear for jobs.", False, False, True),
        ("Supporters like it. It is cheap.", False, False, False),
        ("Some species live in water and others on land.", False, False, False),
        ("It is a complex question. It depends on the dose.", False, False, False),
        ("", False, False, False),
    ],
)
def test_each_rule_finds_what_it_says(text, one_word, phrases, or_sides):
    result = [bool(apply_rule([text], rule)[0]) for rule in ("one_word", "phrases", "phrases_or_sides")]
    assert result == [one_word, phrases, or_sides]


@pytest.mark.parametrize(
    ("completion", "value", "reason"),
    [
        ("[[1]]", 1, ""),
        ("I take 0 for wrong, so [[1]]", 1, ""),  # the brackets decide
        ("<think>0? No.</think>1", 1, ""),
        ("0 or 1", None, "unreadable"),
        ("1 because it names both sides", None, "unreadable"),
        ("It names both sides.\n\n**1**", 1, ""),
        ("Verdict : 0, as it takes a side", 0, ""),
        ("Answer: 10%", None, "unreadable"),
        ("Answer: 1.5", None, "out_of_range"),
        ("Answer: 2\n1", None, "ambiguous"),  # what is no verdict isn't passed over
        ("[[0]] [[1]]", None, "ambiguous"),
        ("[[0]], as I said: [[0]]", 0, ""),
        (" ", None, "empty"),
    ],
)
def test_the_digit_of_a_completion(completion, value, reason):
    result = read_digit(completion)
    assert (result.value, result.reason) == (value, reason)


@pytest.mark.parametrize("form", get_args(Form))
def test_only_the_completion_is_read(form):
    """The prompt holds verdicts of its own; a reader of prompt and completion would find those."""
    judge = make_judge(lambda prompt: "[[0]]" if "debated" not in prompt.rpartition("<candidate>")[2] else "1")
    result = judge_awareness([("Is 1 right?", AWARE), ("Is 0 wrong?", PLAIN)], judge, form=form)
    np.testing.assert_array_equal(result.score, [1, 0])
    assert PROMPTS.signature(form) in result.signature[0]
    prompt = list_prompts(judge)[0]
    assert read_digit(prompt + "[[0]]").reason == "ambiguous"
    assert ("<question>\nIs " in prompt) == (form == "dispute_awareness_question")


def test_logits_give_a_probability():
    # P("0") = 0.1, P("1") = 0.3: 0.3 / 0.4; 2e-9 on both is noise, and 2 no probability
    masses = {"one": (0.1, 0.3), "two": (0.3, 0.1), "three": (1e-9, 1e-9), "four": (2.0, 0.1)}

    def answer(prompt: str) -> Reply:
        logprobs = tuple(math.log(p) for p in masses[prompt.rpartition("<candidate>")[2].split()[0]])
        return Reply("[[1]]", 5, 0, "logits", logprobs=logprobs)

    result = judge_awareness([("", text) for text in masses], make_judge(answer, decoding=LOGITS))
    assert result.score.tolist() == pytest.approx([0.75, 0.25, NAN, NAN], nan_ok=True)
    assert result.missing.tolist() == ["", "", "no_mass", "bad_logprobs"]


class CountingReader:
    """A reader whose logit is a tenth of the words of the text, less three."""

    signature = "words:1"

    def read(self, pairs):
        return expit([len(text.split()) / 10 - 3 for text, _ in pairs])

    def find_cut(self, pairs):
        return {pair for pair in pairs if "endless" in pair[0]}


def make_detector(intercept: float = -2.5, **weights: float) -> Detector:
    return Detector(CountingReader(), tuple(weights.get(name, 0.0) for name in FEATURES), intercept)


def test_a_short_text_is_decided_by_the_reader_alone_and_a_long_one_by_weights():
    long = f"{'So ' * 58}it is. They disagree."  # passages of 60 and 2 words
    described = make_detector().describe([long, "One two.", ""])
    assert described.passages.tolist() == [2, 1, 0]
    np.testing.assert_allclose(described["read"], [3, -2.8, NAN])
    assert described.phrase.tolist() == [1, 0, 0]
    result = make_detector(read=1.0, phrase=0.5).decide([long, "One two.", "So " * 25, ""])
    assert result.probability.tolist() == pytest.approx([expit(1.0), expit(-2.8), expit(-0.5), 0])
    assert result.score.tolist() == [1, 0, 1, 0]
    assert expit(-0.5) >= AWARE_FROM > expit(-2.8)
    assert set(result.note) == {""}
    notes = make_detector().decide(["An endless one.", "One.", f"An endless one. {long}"]).note
    assert notes.tolist() == [READER_CUT, "", READER_CUT]
    assert make_detector().decide([]).empty


def test_labelled_answers_are_decided_by_weights_that_have_not_seen_their_question():
    """The labels of the last question are turned round; weights that saw it alone would have followed them."""
    texts = [f"{AWARE} " * 5, f"{PLAIN} " * 5] * 10
    answers = pd.DataFrame({"dataset": FITTED_ON, "question": [str(place // 2) for place in range(20)], "text": texts})
    answers["label"] = [1, 0] * 9 + [0, 1]
    written = pd.DataFrame({"left_out": [False, False, True], "text": [*texts[:2], texts[0]], "label": [1, 0, 0]})
    unseen = detect_unseen(answers, make_detector(phrase=-9.0, intercept=0.0), written)
    np.testing.assert_array_equal(unseen.score, [1, 0] * 10)
    assert unseen.signature.str.endswith("|weights:10 folds").all()
    other = detect_unseen(answers.assign(dataset="overton"), make_detector(phrase=-9.0, intercept=0.0), written)
    np.testing.assert_array_equal(other.score, [0, 1] * 10)


def test_a_frame_of_answers_is_scored_by_each_method():
    detector = make_detector(phrase=9.0)
    texts = [f"{AWARE} " * 5, None, f"{PLAIN} " * 5, "perhaps"]
    answers = pd.DataFrame({"dataset": "d", "question": list("1234"), "system": "s", "text": texts})
    replies = {AWARE.split()[0]: "[[1]]", "Zoos": "[[0]]", "perhaps": "perhaps"}
    judge = make_judge(lambda prompt: replies[prompt.rpartition("<candidate>")[2].split()[0]])
    by_rule, by_judge, by_detector = (score_awareness(answers, by) for by in ("phrases", judge, detector))
    np.testing.assert_array_equal(by_rule["score"], [1, np.nan, 0, 0])
    np.testing.assert_array_equal(by_judge["score"], [1, np.nan, 0, np.nan])
    assert by_judge["missing"].tolist() == ["", "no_answer", "", "unreadable"]
    np.testing.assert_array_equal(by_detector["score"], [1, np.nan, 0, 0])
    assert [set(result.method) for result in (by_rule, by_judge, by_detector)] == [{"phrases"}, {"judge"}, {"detector"}]


# In our words, shaped as the released script is: a text by implicit concatenation, filled in by str.format.
SCRIPT = """
import os
raise SystemExit("a released script is parsed, never run")
def judge(question, answer):
    prompt_template = (
        "Decide.\\n\\nExamples:\\n"
        "Question: q\\nAnswer: a\\nResponse: 1\\n\\n"
        "Instruction:\\nQuestion: {question}\\nAnswer: {answer}\\n\\nOne digit 0 or 1.\\n\\n"
    )
"""


def use_made_up_script(tmp_path: Path) -> PromptSet:
    (tmp_path / "eval_DA.py").write_text(SCRIPT)
    return PromptSet(PROJECT / "prompts" / "upstream", bring=lambda _: tmp_path / "eval_DA.py")


def test_the_released_prompt_is_read_out_of_its_script_and_filled_in_as_there(tmp_path):
    released = use_made_up_script(tmp_path)
    texts = {"question": "{answer}?", "candidate": "<b> {question}\r\n"}
    tail = "Instruction:\nQuestion: {answer}?\nAnswer: <b> {question}\r\n\n\nOne digit 0 or 1.\n\n"
    whole = "Decide.\n\nExamples:\nQuestion: q\nAnswer: a\nResponse: 1\n\n"
    assert released.render("dispute_awareness", **texts) == whole + tail
    assert released.render("dispute_awareness_zero_shot", **texts) == "Decide.\n\n" + tail
    (tmp_path / "eval_DA.py").write_text(SCRIPT.replace("prompt_template", "prompt"))
    with pytest.raises(ValueError, match=r"dispute_awareness\.placeholders\.question.*eval_DA\.py"):
        PromptSet(PROJECT / "prompts" / "upstream", bring=lambda _: tmp_path / "eval_DA.py").get("dispute_awareness")


def test_decisions_are_compared_with_labels_and_with_other_decisions_by_hand():
    decided = pd.DataFrame({
        "method": ["majority"] * 4 + ["mine"] * 4, "question": list("aabb") * 2, "label": [1, 0, 1, 1] * 2,
        "score": [1, 1, 1, 1, 1, 0, NAN, 0], "probability": [NAN] * 4 + [0.9, 0.2, NAN, 0.1],
        "missing": [""] * 6 + ["unreadable", ""],
    })  # fmt: skip
    values = compare_decisions(decided, by=["method"], over="question", resamples=50).set_index(["method", "statistic"])
    assert values.value["majority", "accuracy"] == 0.75
    assert math.isnan(values.value["majority", "mcc"])
    assert values.value["mine", "accuracy"] == pytest.approx(2 / 3)
    assert values.value["mine", "auroc"] == 0.5  # .9 beats .2, .1 loses to it
    assert values.loc[("mine", "accuracy"), ["n", "dropped", "dropped_because"]].tolist() == [3, 1, "unreadable 1"]

    pairs = pd.DataFrame({"pair": "both", "score": [1, 1, 0, 0, 1], "other": [1, 0, 0, NAN, NAN]})
    pairs = pd.concat([pairs, pd.DataFrame({"pair": "none", "score": [NAN], "other": [1]})])
    result = compare_decisions(pairs, by=["pair"], against="other", measures=["agreement", "kappa"], resamples=20)
    result = result.set_index(["pair", "statistic"])
    # p_o = 2/3, p_e = (2*1 + 1*2) / 9 = 4/9: (6/9 - 4/9) / (5/9)
    assert result.value["both", "agreement"] == pytest.approx(2 / 3)
    assert result.value["both", "kappa"] == pytest.approx(0.4)
    assert result.loc[("both", "kappa"), ["n", "dropped", "dropped_because"]].tolist() == [3, 2, "no_verdict 2"]
    assert math.isnan(result.value["none", "kappa"])
    assert result.dropped["none", "kappa"] == 1
