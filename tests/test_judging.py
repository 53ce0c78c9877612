"""Judging by a language model: what is asked, by count; scores from verdicts, by hand; and candidates that attack."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from test_asking import SPEC, Scripted, refuse_to_open

from nfqa.files.records import Answer, Question
from nfqa.judge.asking import Asker
from nfqa.judge.journal import Journal
from nfqa.judge.prompts import PromptSet
from nfqa.metrics.judging import (
    CHARACTERS_A_WORD,
    JudgeMethod,
    LanguageJudge,
    judge_by_language_model,
    judge_draws,
    score_verdicts,
    sign_verdicts,
)
from nfqa.metrics.references import Draw
from nfqa.models.chat import Decoding, Failure, Reply
from reproduction.studies.drawing import draw_list, make_shots

METHODS: tuple[JudgeMethod, ...] = get_args(JudgeMethod)
REFERENCES = tuple(Answer(f"r{grade}", f"reference of grade {grade}", grade) for grade in (3, 2, 1, 0))
LOGITS = Decoding(reading="logits")


PROMPTS = PromptSet(Path(__file__).parents[1] / "prompts" / "own", bring=Path)


def make_draw(*texts: str, question: str = "why?", references: tuple[Answer, ...] = REFERENCES) -> Draw:
    candidates = tuple(Answer(f"c{number}", text, 1) for number, text in enumerate(texts))
    return Draw(Question(question, candidates), references, candidates)


def make_judge(
    answers: Callable[[str], str | Reply | Failure | None], *, decoding: Decoding | None = None, **options: object
) -> LanguageJudge:
    model = Scripted(lambda prompt, _: answers(prompt))
    return LanguageJudge(Asker(SPEC, lambda _: model, Journal(), decoding or Decoding()), PROMPTS, **options)


def score(verdicts: pd.DataFrame) -> list[float]:
    return score_verdicts(verdicts).score.tolist()


def count_missing(verdicts: pd.DataFrame) -> dict[str, int]:
    return verdicts.reason[verdicts.value.isna()].value_counts().to_dict()


def list_prompts(judge: LanguageJudge) -> list[str]:
    """What reached the model, in the order in which it was asked for."""
    return [prompt for prompt, _ in judge.asker._session.model.asked][::-1]


def find_fenced(prompt: str, fence: str) -> list[str]:
    return re.findall(rf"<{fence}(?: number=\"\d+\")?>\n(.*?)\n</{fence}>", prompt, re.DOTALL)


def prefer(winner: str) -> Callable[[str], str]:
    """A pairwise judge that prefers the answer that holds a word, and says C when both or neither do."""

    def choose(prompt: str) -> str:
        one, two = (winner in find_fenced(prompt, fence)[0] for fence in ("answer_a", "answer_b"))
        return "[[C]]" if one == two else "[[A]]" if one else "[[B]]"

    return choose


@pytest.mark.parametrize(
    ("method", "count", "labels"),
    [
        ("pointwise", 2, tuple(map(str, range(11)))),
        ("pointwise_ref", 2, tuple(map(str, range(11)))),
        ("pairwise", 8, ("A", "B", "C")),  # 2 candidates x 4 references
        ("listwise", 2, ("1", "2", "3", "4", "5")),
    ],
)
def test_requests_of_each_method_by_hand_and_the_texts_that_they_show(method, count, labels, monkeypatch):
    judge = make_judge(lambda _: "[[1]] [[A]]", seed=42)
    sent = []
    ask = judge.asker.ask
    monkeypatch.setattr(judge.asker, "ask", lambda requests, read: sent.extend(requests) or ask(requests, read))
    draws = [make_draw("one", "two"), make_draw("one", "two", question="how?")]
    verdicts = judge_draws(draws, method, judge, order="candidate_first")
    assert len(sent) == len(verdicts) == 2 * count
    assert {(request.labels, request.seed) for request in sent} == {(labels, 42)}
    assert verdicts.draw.tolist() == [0] * count + [1] * count
    assert verdicts.answer.tolist() == (["c0"] * (count // 2) + ["c1"] * (count // 2)) * 2
    prompts, texts = [request.prompt for request in sent], [answer.text for answer in REFERENCES]  # best first
    assert [find_fenced(prompt, "question") for prompt in prompts] == [["why?"]] * count + [["how?"]] * count
    if method == "pairwise":
        assert [find_fenced(prompt, "answer_a") for prompt in prompts[:4]] == [["one"]] * 4
        assert [find_fenced(prompt, "answer_b") for prompt in prompts[:4]] == [[text] for text in texts]
    else:
        assert find_fenced(prompts[0], "candidate") == ["one"]
        assert find_fenced(prompts[0], "reference") == ([] if method == "pointwise" else texts)


def test_who_stands_first_is_drawn_by_seed_and_about_evenly():
    draws = [make_draw("one", "two", question=f"why {n}?") for n in range(60)]

    def see(seed: int, chosen: list[Draw] = draws) -> list[bool]:
        judge = make_judge(lambda _: "[[C]]", seed=seed)
        firsts = judge_draws(chosen, "pairwise", judge)["first"].tolist()
        prompts = list_prompts(judge)
        assert firsts == [not find_fenced(prompt, "answer_a")[0].startswith("reference") for prompt in prompts]
        return firsts

    # 60 questions x 2 candidates x 4 references: 480 fair draws, 240 expected, standard error 11
    first, other = see(0), see(1)
    assert abs(sum(first) - 240) < 50
    assert abs(sum(one != two for one, two in zip(first, other, strict=True)) - 240) < 50  # the seed changes half
    assert see(0, draws[::-1])[-8:] == first[:8]  # one question's places don't depend on the others


@pytest.mark.parametrize(("method", "side"), [("pointwise", 1), ("pointwise_ref", 1), ("listwise", -1)])
def test_scores_are_the_marks_or_the_ranks_with_the_sign_turned(method, side):
    replies = {"one": "[[5]]", "two": "[[1]]", "odd": "hm", "half": "[[2.5]]", "far": "[[11]]"}
    judge = make_judge(lambda prompt: replies[find_fenced(prompt, "candidate")[0]])
    verdicts = judge_draws([make_draw(*replies)], method, judge)
    half = math.nan if method == "listwise" else 2.5  # no rank
    np.testing.assert_array_equal(score(verdicts), [5 * side, side, math.nan, half, math.nan])
    assert verdicts.reason.tolist() == ["", "", "unreadable", "out_of_range" if half != half else "", "out_of_range"]


@pytest.mark.parametrize("order", ["drawn", "candidate_first", "reference_first"])
@pytest.mark.parametrize(("text", "winner", "expected"), [("good", "good", 1), ("one", "good", 0), ("one", "ref", -1)])
def test_pairwise_scores_do_not_depend_on_who_is_shown_first(order, text, winner, expected):
    # all four references beaten: (1 + 1 + 1 + 1) / 4; a tie with all is 0; a loss to all is -1
    assert score(judge_draws([make_draw(text)], "pairwise", make_judge(prefer(winner)), order=order)) == [expected]


def beat_the_lower(prompt: str) -> str:
    """Against grade 3 a loss, against 2 a tie, against 1 and 0 a win, for whoever is no reference."""
    a, b = (find_fenced(prompt, fence)[0] for fence in ("answer_a", "answer_b"))
    reference, win, loss = (b, "[[A]]", "[[B]]") if b.startswith("reference") else (a, "[[B]]", "[[A]]")
    return {"3": loss, "2": "[[C]]", "1": win, "0": win}[reference[-1]]


def test_a_pairwise_score_is_the_mean_over_references_of_which_each_needs_a_grade():
    draw = make_draw("one")
    assert score(judge_draws([draw], "pairwise", make_judge(beat_the_lower))) == [1 / 4]  # (1 + 1 + 0 - 1) / 4
    bare = replace(draw, references=(replace(draw.references[0], label=-1), *draw.references[1:]))
    with pytest.raises(ValueError, match=r"reference '.*' of question '.*' has no grade"):
        judge_draws([bare], "pairwise", make_judge(beat_the_lower))


@pytest.mark.parametrize(
    ("method", "order", "probabilities", "expected"),
    [
        ("listwise", "drawn", (0.2, 0, 0.2, 0, 0.4), -3.5),  # ranks 1 to 5: (0.2 + 0.6 + 2.0) / 0.8
        ("pointwise_ref", "drawn", (0.5, *[0] * 9, 0.5), 5),
        ("pairwise", "candidate_first", (0.6, 0.3, 0.1), 0.3),  # 0.6 - 0.3 for whoever is A
        ("pairwise", "reference_first", (0.6, 0.3, 0.1), -0.3),
    ],
)
def test_an_expected_verdict_is_read_from_the_probabilities(method, order, probabilities, expected):
    logs = tuple(math.log(p) if p else -math.inf for p in probabilities)
    judge = make_judge(lambda _: Reply("[[1]]", 9, 1, "logits", logprobs=logs), decoding=LOGITS)
    verdicts = judge_draws([make_draw("one")], method, judge, order=order)
    assert score(verdicts) == [pytest.approx(expected, abs=1e-12)]  # whatever text came along
    assert verdicts.mass.tolist() == [pytest.approx(sum(probabilities), abs=1e-12)] * len(verdicts)


@pytest.mark.parametrize("method", METHODS)
def test_a_missing_verdict_is_no_number_and_never_a_default(method):
    replies = {
        "lost": None, "late": Failure("timeout", ""), "mute": "", "odd": "two", "shy": Reply("No.", 1, 1, "refused")
    }  # fmt: skip

    def answer(prompt: str) -> str | Reply | Failure | None:
        return next((reply for name, reply in replies.items() if name in prompt), "[[3]] [[B]]")

    verdicts = judge_draws([make_draw("", *replies, " \n\t ", "fine")], method, make_judge(answer))
    assert np.isnan(score(verdicts)).tolist() == [True] * 7 + [False]
    count = 4 if method == "pairwise" else 1
    reasons = dict.fromkeys(["empty", "refused", "timeout", "unanswered", "unreadable"], count)
    assert count_missing(verdicts) == reasons | {"no_text": 2}  # nothing is asked about a blank text


@pytest.mark.parametrize("method", METHODS)
def test_a_draw_that_was_dropped_or_has_no_candidates_asks_for_nothing(method):
    question = Question("why?", (Answer("a", "text", 3), Answer("b", "other", 0)))
    draws = [
        draw_list(question, (3, 2), seed=0, short="drop"),  # dropped: short_list
        draw_list(question, (1,), seed=0),  # dropped: no_reference
        draw_list(question, (3, 0), seed=0),  # both are references
    ]
    mute = LanguageJudge(Asker(SPEC, refuse_to_open, Journal(), Decoding()), PROMPTS)  # must not be asked
    assert judge_draws(draws, method, mute).empty
    scores = judge_by_language_model(make_frame(*draws), mute, method)
    assert scores.missing.tolist() == ["short_list", "no_reference", "fewer_than_two"]
    assert judge_by_language_model(make_frame(*draws), None, method).empty


def make_frame(*draws: Draw) -> pd.DataFrame:
    return pd.DataFrame({"dataset": "x", "question": [draw.question.text for draw in draws], "draw": draws})


def test_scores_of_a_frame_have_a_row_a_candidate_with_what_was_unreadable():
    # against grade 3 unreadable, against 2, 1, 0 a win: 3 / 3, not 3 / 4
    judge = make_judge(lambda prompt: "hm" if "grade 3" in prompt or "odd" in prompt else prefer("good")(prompt))
    empty = Draw(Question("how?"), (), (), "no_reference")
    result = judge_by_language_model(make_frame(make_draw("good", "odd", ""), empty), judge, "pairwise", named="some")
    np.testing.assert_array_equal(result.score, [1, np.nan, np.nan, np.nan])
    assert result.missing.tolist() == ["", "unreadable", "no_text", "no_reference"]
    assert result.verdicts.tolist() == [4, 4, 1, 0]
    assert result.unreadable.tolist() == ["unreadable", "; ".join(["unreadable"] * 4), "no_text", ""]
    assert set(result.judge) == {"some"}
    assert set(result.signature) == {sign_verdicts(judge, "pairwise")}


@pytest.mark.parametrize(
    ("text", "visible", "cut"),
    [
        (" a b c ", " a b c ", 0),
        ("  a\n\nb\tc  d e ", "a\n\nb\tc", 1),
        ("x" * 10**6, "x" * 3 * CHARACTERS_A_WORD, 1),  # one endless word
    ],
)
def test_a_text_is_cut_after_its_words_or_their_characters_and_counted(text, visible, cut):
    judge = make_judge(lambda _: "[[1]]", max_words=3)
    judge_draws([make_draw(text)], "pointwise", judge)
    assert find_fenced(list_prompts(judge)[0], "candidate") == [visible]
    assert judge.cut == cut


def make_teaching(count: int, labels: tuple[int, ...] = (3, 2, 1, 0, 3, 2, 1, 0)) -> list[Question]:
    return [
        Question(f"q{n}?", tuple(Answer(f"a{i}", f"q{n} text {i} of {label}", label) for i, label in enumerate(labels)))
        for n in range(count)
    ]


def test_shots_come_from_the_given_questions_with_ranks_by_hand():
    questions = make_teaching(9)
    shots = make_shots(questions, (3, 2, 1, 0), count=5)
    assert [len(shot.references) for shot in shots] == [4] * 5
    # candidates of grade 3, 1, 2, 0, 3; references of a higher grade: none, 2 (3 and 2), 1 (3), 3, none
    assert [shot.candidate[-1] for shot in shots] == ["3", "1", "2", "0", "3"]
    assert [shot.verdict for shot in shots] == ["[[1]]", "[[3]]", "[[2]]", "[[4]]", "[[1]]"]
    assert all([text[-1] for text in shot.references] == ["3", "2", "1", "0"] for shot in shots)
    assert len({shot.question for shot in shots}) == 5
    for shot in shots:
        (texts,) = ({answer.text for answer in each.answers} for each in questions if each.text == shot.question)
        assert {shot.candidate, *shot.references} <= texts
        assert shot.candidate not in shot.references
    # they depend on the questions, not on the order of the file
    assert make_shots(questions[::-1], (3, 2, 1, 0), count=3) == shots[:3]
