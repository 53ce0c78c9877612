"""Answers made of perspectives: what each covers is known, and nothing but the seed decides it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nfqa.files.records import PartialAnswer, Question
from reproduction.studies.compose import choose_points, compose_answers, draw_unrelated

POINTS = tuple(PartialAnswer(f"1.{i}", f"View {i}.", f"Reason a{i}. Reason b{i}. Reason c{i}.") for i in range(1, 5))
QUESTION = Question("Should bicycles have lanes?", id="1", partial_answers=POINTS)
OTHERS = [
    Question("Do bicycles need bells?", id="2", partial_answers=(PartialAnswer("2.1", "Bells warn."),)),
    Question(
        "Is opera dead?",
        id="3",
        partial_answers=(PartialAnswer("3.1", "Opera lives on."), PartialAnswer("3.2", "It bores.")),
    ),
    Question("Are cats better?", id="4", partial_answers=(PartialAnswer("4.1", "Cats sleep a lot."),)),
    Question("Nothing said?", id="5", partial_answers=()),
]


def test_points_are_drawn_by_seed_and_question_alone() -> None:
    drawn = {tuple(p.id for p in choose_points(QUESTION, 3, seed=seed)) for seed in range(20)}
    assert len(drawn) > 5
    assert all(len(set(ids)) == 3 for ids in drawn)
    assert choose_points(QUESTION, 3, seed=4) == choose_points(QUESTION, 3, seed=4)


def test_points_are_cut_to_words_view_first() -> None:
    texts = {point.id: point.text for point in choose_points(QUESTION, 4, seed=0, words=5)}
    assert texts["1.1"] == "View 1. Reason a1. Reason"
    assert choose_points(QUESTION, 4, seed=0, words=1)[0].explanation == ""
    whole = {point.id: point for point in choose_points(QUESTION, 4, seed=0, words=8)}
    assert whole["1.2"] == POINTS[1]


def test_exact_answers_are_the_first_k_texts_joined() -> None:
    answers = compose_answers(POINTS[:2], start="Elsewhere.", seed=0)
    first = "View 1. Reason a1. Reason b1. Reason c1."
    assert answers == ("Elsewhere.", first, f"{first} View 2. Reason a2. Reason b2. Reason c2.")


@given(seed=st.integers(0, 2**32), order=st.sampled_from(["kept", "shuffled"]), drop=st.floats(0, 0.9))
def test_each_answer_holds_the_one_before_in_its_order(seed: int, order: Any, drop: float) -> None:
    answers = compose_answers(POINTS, start="x", seed=seed, order=order, drop=drop)
    assert len(answers) == 5
    for before, after in pairwise(answers[1:]):
        rest = iter(after.split())
        assert all(word in rest for word in before.split())
        assert len(after.split()) > len(before.split())


def test_a_share_of_each_perspectives_words_is_dropped() -> None:
    # a perspective has 8 words; of 30 % two go, and of 99 % seven
    for drop, left in ((0.0, 8), (0.3, 6), (0.99, 1)):
        answers = compose_answers(POINTS, start="x", seed=1, drop=drop)
        assert [len(answer.split()) for answer in answers[1:]] == [left * k for k in (1, 2, 3, 4)]


def test_unrelated_text_shares_no_longer_word_with_the_question() -> None:
    for seed in range(20):
        text = draw_unrelated(QUESTION, [QUESTION, *OTHERS], words=5, seed=seed)
        assert "Bells" not in text
        assert "View" not in text
        assert 2 <= len(text.split()) <= 5
    assert len({draw_unrelated(QUESTION, OTHERS, words=5, seed=seed) for seed in range(20)}) > 1
    assert len(draw_unrelated(QUESTION, OTHERS, words=100, seed=0).split()) <= 7, "no more than there is"
