"""Dispute Awareness: rules by word, the judge's digit from its completion or its logits, and the embedded detector."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from test_judging import LOGITS, PROMPTS, list_prompts, make_judge

from nfqa.judge.prompts import PromptSet
from nfqa.kernels.parse import read_digit
from nfqa.metrics.dispute_awareness import Form, judge_awareness, score_awareness
from nfqa.metrics.dispute_detector import (
    HEADS,
    READ,
    SENTENCES,
    SHORT_FROM,
    Detector,
    Head,
    hash_text,
    open_detector,
    pool_units,
    read_sentences,
)
from nfqa.metrics.dispute_rules import apply_rule
from nfqa.models.chat import Reply
from nfqa.models.reader import READER_CUT, READERS
from reproduction.judging import read_prompt_set
from reproduction.studies.decisions import compare_decisions, fit_head, judge_dispute
from tools.train_dispute import fit_sentences
from tools.train_reader import WRITTEN

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

    name, signature = "embedded", "words:1"

    def read(self, pairs):
        return expit([len(text.split()) / 10 - 3 for text, _ in pairs])

    def find_cut(self, pairs):
        return {pair for pair in pairs if "endless" in pair[0]}


FLAT = (0.0,) * (9 + READ + 1)  # slopes


def make_detector(heads: dict[str, Head], fold_of: dict[str, str] | None = None) -> Detector:
    reader = CountingReader()
    return Detector(read_sentences()[0], {"debate": 1.0}, heads, fold_of or {}, "made", reader, reader)


# Against, aware, for and none: what the regression gave that was fitted whenever it was used, by scikit-learn 1.9.1
PROBABILITIES = {
    "People disagree about this.": [0.016770023386, 0.816686210391, 0.005103251939, 0.161440514283],
    "Whether zoos should exist is hotly debated.": [0.001654845221, 0.930841660642, 0.002713737616, 0.064789756521],
    "Supporters say it is cheap.": [0.010292341767, 0.125677588782, 0.781670158554, 0.082359910896],
    "Critics fear for jobs.": [0.920075905704, 0.042799646698, 0.004030110611, 0.033094336986],
    "*Both* sides\n have a point, but 2 + 2 = 4.": [0.079399832389, 0.177432477072, 0.024924993675, 0.718242696863],
    "": [0.034722558033, 0.023837959375, 0.030990055566, 0.910449427025],
}


def test_sentences_have_the_probabilities_of_the_committed_results_without_a_fit(monkeypatch):
    monkeypatch.setattr(LogisticRegression, "fit", None)
    sentences, _ = read_sentences()
    assert sentences.kinds.tolist() == ["against", "aware", "for", "none"]
    np.testing.assert_allclose(sentences.predict(list(PROBABILITIES)), [*PROBABILITIES.values()], rtol=0, atol=1e-9)


def test_the_model_of_sentences_is_what_its_tool_makes_of_the_texts():
    """To what another processor's sums may move: the file is fitted once, and not again where it is read."""
    made, (sentences, made_of) = fit_sentences(), read_sentences()
    assert made_of == hashlib.sha256(WRITTEN.read_bytes()).hexdigest()[:12]
    assert made.grams.tolist() == sentences.grams.tolist()
    np.testing.assert_allclose(made.slopes, sentences.slopes, rtol=0, atol=1e-3)


def test_a_signature_stands_for_one_set_of_coefficients():
    """Other coefficients need a higher version in `Detector.signature`, and their hash here."""
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in (SENTENCES, HEADS)}
    assert hashes == {"dispute_sentences.npz": "49b5a82716bd", "dispute_heads.json": "d51c6b1b5e81"}
    assert open_detector().signature.startswith(
        "detector:cd6fd063a1d6+d51c6b1b5e81|unit:sentence+pair+word+passage|v4|"
    )


def test_pooling_by_hand():
    most = pd.DataFrame({"aware": [0.5, NAN], "for": [0.81, NAN], "against": [0.25, NAN]})
    expected = [[0.0, math.sqrt(0.81 * 0.25)], [NAN, NAN]]  # logit 0.5 = 0; sqrt(for x against)
    np.testing.assert_allclose(pool_units(most), expected)


def test_reading_by_hand_decides_alone_on_a_short_text_and_beside_other_features_on_a_long_one():
    long = f"{'So ' * 58}it is. They disagree."  # passages of 60 and 2 words, which are its sentences
    detector = make_detector({"all": Head((*FLAT[:8], 1.0, *FLAT[9:]), -2.5, 0.6)})
    described = detector.describe(["One two. Three four five. Six.", long, ""])[:, 8 : 8 + READ]
    expected = [[-2.4, -2.4, -2.7, -2.75, math.log(7)], [3, 0.1, 3, 0.1, math.log(63)], [NAN] * 4 + [0]]
    np.testing.assert_allclose(described, expected, rtol=1e-6)
    result = detector.decide([long, "One two.", "So " * 30, ""])
    assert result.probability.tolist() == pytest.approx([expit(0.5), expit(-2.8), 0.5, 0])
    assert result.score.tolist() == [1, 0, 1, 0]
    assert set(result.note) == {""}
    assert detector.decide(["An endless one.", "One.", f"An endless one. {long}"]).note.tolist() == [
        READER_CUT, "", READER_CUT,
    ]  # fmt: skip
    assert detector.decide([]).empty


def test_an_answer_is_decided_by_the_head_that_has_not_seen_its_question():
    constant = {"no": Head(FLAT, -1.0, 0.5), "all": Head(FLAT, 1.0, 0.5)}
    long, other = f"{AWARE} " * 5, f"{PLAIN} " * 5
    known = dict.fromkeys(map(hash_text, (long, "d:1", "Should cars go?")), "no")
    made = make_detector(constant, known)
    assert made.decide([long, f"{long}\n", other]).score.tolist() == [0, 0, 1]
    answers = pd.DataFrame({"dataset": "d", "question": ["1", "2", "3"], "text": other})
    assert score_awareness(answers, made).score.tolist() == [0, 1, 1]
    with_texts = answers.assign(question_text=["", "Should cars go?", ""])
    assert score_awareness(with_texts, made).score.tolist() == [0, 0, 1]


def test_a_head_tells_what_it_was_fitted_on_apart_and_texts_beside_count_by_their_labels_not_their_number():
    described = np.zeros((60, len(FLAT)))  # without a word that tells anything
    described[:, 0] = np.arange(60) % 3  # 0, 1, 2
    labels, groups = (described[:, 0] == 2).astype(int), np.arange(60) // 3
    beside = [None, *((np.full((count, len(FLAT)), NAN), np.ones(count)) for count in (30, 300))]  # aware, and 0
    heads = [fit_head(described, labels, groups, beside=each, folds=5) for each in beside]
    alone, few, many = (expit(described[:3, 0] * head.slopes[0] + head.intercept) for head in heads)
    assert alone[1] < heads[0].threshold <= alone[2]
    assert few[0] > alone[0] + 0.2
    np.testing.assert_allclose(few, many, atol=0.01)


def test_bundled_heads_know_every_labelled_answer_and_question_once():
    made = json.loads(HEADS.read_text())
    keys = [key for fold in made["left_out"].values() for key in fold]
    assert len(set(keys)) == len(keys) == 500 + 330 + 130  # answers, questions by name, and by text where it is known
    assert set(made["heads"]) == {*made["left_out"], "all"}
    assert set(SHORT_FROM) == set(READERS)
    detector = open_detector()
    assert detector.short_reader is detector.reader  # read once, and signed once
    assert "short" not in detector.signature


def test_a_frame_of_answers_is_scored_by_each_method():
    detector = open_detector()
    texts = [AWARE, None, PLAIN, "perhaps"]
    answers = pd.DataFrame({"dataset": "d", "question": list("1234"), "system": "s", "text": texts})
    replies = {AWARE.split()[0]: "[[1]]", "Zoos": "[[0]]", "perhaps": "perhaps"}
    judge = make_judge(lambda prompt: replies[prompt.rpartition("<candidate>")[2].split()[0]])
    by_rule, by_judge, by_detector = (score_awareness(answers, by) for by in ("phrases", judge, detector))
    np.testing.assert_array_equal(by_rule["score"], [1, np.nan, 0, 0])
    np.testing.assert_array_equal(by_judge["score"], [1, np.nan, 0, np.nan])
    assert by_judge["missing"].tolist() == ["", "no_answer", "", "unreadable"]
    expected = detector.decide([AWARE, PLAIN, "perhaps"]).score
    np.testing.assert_array_equal(by_detector["score"].dropna(), expected)
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


@pytest.mark.skipif(not os.environ.get("NFQA_MIRROR"), reason="NFQA_MIRROR is not set")
def test_the_released_prompt_has_three_demonstrations_labelled_1_0_0():
    upstream = read_prompt_set(PROJECT, "upstream")
    whole, bare = (upstream.render(name, question="Why?", candidate="So.") for name in get_args(Form)[:2])
    assert re.findall(r"\nResponse: ([01])\n", whole) == ["1", "0", "0"]
    assert re.findall(r"\nResponse: ([01])\n", bare) == []
    assert whole.count("Question: ") == 4
    assert bare.count("Question: Why?\nAnswer: So.\n") == whole.count("Question: Why?\nAnswer: So.\n") == 1
    assert [re.search("[01]", prompt)[0] for prompt in (whole, bare)] == ["1", "1"]  # what the script reads, always


def test_the_released_prompt_stands_beside_ours_and_shows_the_question(tmp_path):
    judge = make_judge(lambda prompt: "Response: 1" if "One digit" in prompt else "[[0]]")
    answers = pd.DataFrame({"question": ["a", "b"], "question_text": ["Why tea?", None], "text": ["So.", "Thus."]})
    result = judge_dispute(answers, judge, released=use_made_up_script(tmp_path)).fillna({"score": -1})
    assert result.signature.nunique() == 6
    scores = result.groupby(["metric", "form"], sort=False).score.agg(list).to_dict()
    assert scores == {
        ("da", "demonstrations"): [0, 0], ("da", "zero_shot"): [0, 0], ("da", "with_question"): [0, -1],
        ("da", "released_demonstrations"): [1, -1], ("da", "released_zero_shot"): [1, -1],
        ("delphi_acknowledgement", ""): [0, -1],
    }  # fmt: skip
    assert set(result[result.score == -1].missing) == {"no_question"}
    assert not [prompt for prompt in list_prompts(judge) if "at hand" in prompt]
    assert sum("Why tea?" in prompt for prompt in list_prompts(judge)) == 4


def test_a_prompt_for_a_bare_digit_has_no_reading_after_brackets(tmp_path):
    judge = replace(make_judge(str, decoding=LOGITS), prompts=use_made_up_script(tmp_path))
    with pytest.raises(ValueError, match=r"upstream:dispute_awareness@.*bare digit"):
        judge_awareness([("Why?", "So.")], judge)


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
