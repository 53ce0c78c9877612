"""Attacks on a judge: what each is made of, and how often it beats honest answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nfqa.files.records import Answer, Question
from nfqa.metrics.references import Draw
from reproduction.studies.attacks import ATTACK, add_attacks, count_beaten


def make_draws(*words: str) -> pd.DataFrame:
    draws = [
        Draw(
            Question(f"why is {word} so", ()),
            (Answer("r3", f"{word} is good because cats sleep", 3), Answer("r0", f"no {word}", 0)),
            (Answer("a", f"{word} can help people", 2), Answer("b", "nothing", 1)),
        )
        for word in words
    ]
    return pd.DataFrame({"dataset": "d", "seed": 0, "question": [one.question.text for one in draws], "draw": draws})


def test_each_attack_is_made_of_the_question_its_references_and_candidates() -> None:
    first, _ = add_attacks(make_draws("tea", "milk")).draw
    texts = {answer.id.removeprefix(ATTACK): answer.text for answer in first.candidates}
    assert list(texts) == ["a", "b", "echo", "half_reference", "keywords", "padded", "negated", "off_topic"]
    assert texts["echo"] == "why is tea so"
    assert texts["half_reference"] == "tea is good"
    assert sorted(texts["keywords"].split()) == ["cats", "good", "sleep", "tea"]
    assert texts["padded"] == "nothing milk is good because cats sleep"  # all that there is on other questions
    assert texts["negated"] == "tea can not help people"
    assert texts["off_topic"] == "milk is good because cats sleep"
    with pytest.raises(ValueError, match="1 question to attack"):
        add_attacks(make_draws("tea"))


def test_an_attack_beats_what_scores_lower_and_half_of_what_scores_alike() -> None:
    rows = [("a", 1.0, 2, 0.2), ("b", 1.0, 2, 0.4), ("c", 1.0, 1, 0.1), ("d", 1.0, 1, np.nan)]
    rows += [(f"{ATTACK}echo", 1.0, 0, 0.4), (f"{ATTACK}half_reference", 1.0, 0, 0.05)]
    scores = pd.DataFrame(rows, columns=["answer", "k", "grade", "score"])
    scores = scores.assign(question="q", missing="", signature="s")
    result = count_beaten(scores).set_index(["attack", "grade"]).measured
    assert result.to_dict() == {("echo", 2): 0.75, ("echo", 1): 1, ("half_reference", 2): 0, ("half_reference", 1): 0}
