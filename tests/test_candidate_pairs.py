"""Every two candidates of a question compared by a language model: requests by count, shares of wins by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from test_judging import find_fenced, list_prompts, make_draw, make_judge

from nfqa.metrics.references import Draw
from reproduction.studies.baselines import judge_candidates
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
