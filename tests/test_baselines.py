"""Baselines: every two candidates compared by a model, and prompted marks; requests by count, values by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from test_judging import LOGITS, find_fenced, list_prompts, make_draw, make_judge

from nfqa.metrics.references import Draw
from nfqa.models.chat import Reply
from reproduction.studies.baselines import BASELINES, judge_answers, judge_candidates, mark_baseline
from reproduction.studies.health import measure_missing

TEXTS = ("best", "good", "also good", "bad")


def gather(*draws: Draw) -> pd.DataFrame:
    given = {"dataset": "made_up", "seed": 0, "question": [draw.question.text for draw in draws], "draw": draws}
    return pd.DataFrame(given, index=[7] * len(draws))  # an index of no use to anyone


def find_pair(prompt: str) -> tuple[str, str]:
    return find_fenced(prompt, "answer_a")[0], find_fenced(prompt, "answer_b")[0]


def compare(prompt: str) -> str:
    """The better text wins; two good ones are a tie."""
    one, two = (2 * (text == "best") + ("good" in text) for text in find_pair(prompt))
    return "[[A]]" if one > two else "[[B]]" if one < two else "[[C]]"


def test_shares_of_wins_by_hand_and_every_pair_is_asked_for_once_in_both_orders():
    judge = make_judge(compare)
    draws = gather(make_draw(*TEXTS), make_draw("bad", "good", question="how?"))
    found = judge_candidates(draws, judge)
    # best beats three; each good one loses to it, ties with the other and beats the bad one; bad loses to all
    assert found.score.tolist() == [1, 0.5, 0.5, 0, 0, 1]
    assert found.verdicts.tolist() == [6] * 4 + [2] * 2
    assert set(found.missing) == {""}
    asked = sorted(map(find_pair, list_prompts(judge)))
    assert asked == sorted([*permutations(TEXTS, 2), ("bad", "good"), ("good", "bad")])
    assert len(asked) == 4 * 3 + 2 * 1
    assert judge.asker.tally.verdicts == len(asked)
    assert set(found.metric) == {"pairwise_candidates"}
    assert found.signature.str.contains("order:both").all()


def test_a_comparison_that_can_not_be_read_counts_for_neither():
    judge = make_judge(lambda prompt: "hm" if set(find_pair(prompt)) == {"best", "bad"} else compare(prompt))
    found = judge_candidates(gather(make_draw("best", "good", "bad")), judge)
    assert found.score.tolist() == [1, 0.5, 0]
    assert found.unreadable.tolist() == ["unreadable; unreadable", "", "unreadable; unreadable"]
    (missing,) = measure_missing(found).query("statistic == 'missing_verdicts'").value
    assert missing == pytest.approx(2 / 6)


def test_an_only_candidate_an_empty_text_and_a_dropped_draw_have_no_score():
    dropped = replace(make_draw(*TEXTS, question="what?"), candidates=(), dropped="no_reference")
    judge = make_judge(compare)
    found = judge_candidates(gather(make_draw("best", question="who?"), dropped, make_draw("best", " ", "bad")), judge)
    np.testing.assert_array_equal(found.score, [math.nan, math.nan, 1, math.nan, 0])
    assert found.missing.tolist() == ["fewer_than_two", "no_reference", "", "no_text", ""]
    assert found.verdicts.tolist() == [0, 0, 4, 4, 4]
    assert len(list_prompts(judge)) == 2
    assert judge_candidates(gather(dropped), None).empty


PAIRS = [("Is tea better than coffee?", "Some say tea, others coffee."), ("Is tea better than coffee?", "Tea.")]
RANGES = {
    "direct_score": (1, 5), "g_eval": (1, 5), "count_povs": (0, 20),
    "delphi_comprehensiveness": (0, 1), "delphi_acknowledgement": (0, 1),
}  # fmt: skip


def mark_longer(prompt: str) -> str:
    """A judge that finds more in the longer answer, and writes steps when it is asked for them."""
    if "<candidate>" not in prompt:
        return "1. Read.\n2. Give the mark."
    return "[[1]]" if "others" in prompt else "[[0]]" if "[[0]]" in prompt else "Mark: [[2]]"


@pytest.mark.parametrize("baseline", BASELINES)
def test_each_answer_is_asked_for_once_within_the_range_of_the_prompt(baseline, monkeypatch):
    judge = make_judge(mark_longer)
    sent = []
    ask = judge.asker.ask
    monkeypatch.setattr(judge.asker, "ask", lambda requests, read: sent.append(list(requests)) or ask(requests, read))
    marks = mark_baseline(PAIRS, baseline, judge)
    lowest, highest = RANGES[baseline]
    assert [len(batch) for batch in sent] == ([1, 2] if baseline == "g_eval" else [2])
    assert {request.labels for request in sent[-1]} == {tuple(str(n) for n in range(lowest, highest + 1))}
    assert marks.score.tolist()[0] == 1
    assert set(marks.missing) == {""}
    assert f"own:{baseline}@" in marks.signature[0]


def test_from_logits_a_mark_is_the_expected_one():
    # p = 0.2, 0, 0, 0, 0.6 over 1 to 5 and the rest elsewhere: (0.2 * 1 + 0.6 * 5) / 0.8 = 4
    logs = (math.log(0.2), *[-math.inf] * 3, math.log(0.6))
    judge = make_judge(lambda _: Reply("", 10, 0, finish="logits", logprobs=logs), decoding=LOGITS)
    marks = mark_baseline(PAIRS[:1], "direct_score", judge)
    assert marks.score.tolist() == [pytest.approx(4)]
    writer = make_judge(mark_longer).asker
    assert mark_baseline(PAIRS[:1], "g_eval", judge, writer=writer).score.tolist() == [pytest.approx(4)]
    with pytest.raises(ValueError, match="g_eval needs a writer for its steps"):
        mark_baseline(PAIRS[:1], "g_eval", judge)


def test_answers_of_a_frame_have_a_row_each_and_baseline():
    judge = make_judge(mark_longer)
    answers = pd.DataFrame({"dataset": "made_up", "question": "7", "system": ["a", "b"], "text": [PAIRS[0][1], np.nan]})
    result = judge_answers(answers, {"7": PAIRS[0][0]}, judge, named="some")
    assert result.metric.tolist() == [name for name in BASELINES for _ in "ab"]
    assert result.system.tolist() == ["a", "b"] * 5
    np.testing.assert_array_equal(result.score, [1, np.nan] * 5)
    assert result.missing.tolist() == result.unreadable.tolist() == ["", "no_text"] * 5
    assert set(result.judge) == {"some"}
    assert result.signature[4] == mark_baseline(PAIRS[:1], "count_povs", judge).signature[0]
    assert "text" not in result
    assert judge_answers(answers, {}, None).empty
