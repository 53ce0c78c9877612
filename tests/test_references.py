"""Reference draws: by hand, and what must hold for every question, composition and seed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfqa.files.records import Answer, Question
from reproduction.studies.drawing import COMPOSITIONS, draw_list


def make_question(labels: list[int], text: str = "why?") -> Question:
    return Question(text, tuple(Answer(f"a{i}", f"text {i}", label) for i, label in enumerate(labels)))


def name(answers: tuple[Answer, ...]) -> list[str]:
    return [answer.id for answer in answers]


some_labels = st.lists(st.integers(0, 3), max_size=25)
some_grades = st.lists(st.integers(0, 3), min_size=1, max_size=8)
seeds = st.integers(0, 1000)


@pytest.mark.parametrize(
    ("labels", "composition", "short", "references", "candidates", "dropped"),
    [
        ([1, 3, 0, 2], (3, 2, 1, 0), "partial", ["a1", "a3", "a0", "a2"], [], None),  # best first
        ([0, 3, 0, 2, 0], (3, 2), "partial", ["a1", "a3"], ["a0", "a2", "a4"], None),  # in the order of the file
        ([3, 1, 1], (3, 3, 2, 0), "partial", ["a0"], ["a1", "a2"], None),
        ([3, 1, 1], (3, 3, 2, 0), "drop", ["a0"], [], "short_list"),
        ([3, 1, 0], (3, 1), "drop", ["a0", "a1"], ["a2"], None),
        ([0, 0], (3, 2), "partial", [], [], "no_reference"),
        ([], (3,), "partial", [], [], "no_reference"),
        ([0, 0], (3,), "drop", [], [], "short_list"),
    ],
)
def test_a_list_takes_the_grades_that_there_are(labels, composition, short, references, candidates, dropped):
    draw = draw_list(make_question(labels), composition, seed=4, short=short)
    assert (name(draw.references), name(draw.candidates), draw.dropped) == (references, candidates, dropped)
    assert draw.labels == [labels[int(place[1:])] for place in candidates]
    assert not references or draw.best.id == references[0]


def test_remove_says_which_references_leave_the_candidates():
    question = make_question([3, 2, 1, 0, 3])
    for seed in range(5):
        both = draw_list(question, (3, 2), seed=seed)
        assert set(name(both.references)) | set(name(both.candidates)) == {"a0", "a1", "a2", "a3", "a4"}
        assert len(both.candidates) == 3
        best = draw_list(question, (3, 2), seed=seed, remove="best")
        assert best.references == both.references
        assert set(name(best.candidates)) == {"a0", "a1", "a2", "a3", "a4"} - {best.best.id}
        assert draw_list(question, (3, 2), seed=seed, remove="nothing").candidates == question.answers


def test_a_copy_of_a_reference_leaves_with_it_whatever_its_grade():
    question = Question("why?", (Answer("a", "same", 3), Answer("b", "same", 0), Answer("c", "other", 1)))
    for remove, left in (("list", ["c"]), ("best", ["c"]), ("nothing", ["a", "b", "c"])):
        assert name(draw_list(question, (3,), seed=0, remove=remove).candidates) == left


@given(labels=some_labels, grades=some_grades, seed=seeds)
def test_every_answer_is_a_reference_or_a_candidate_and_no_grade_is_overdrawn(labels, grades, seed):
    question = make_question(labels)
    draw = draw_list(question, grades, seed=seed)
    drawn, wanted, present = Counter(a.label for a in draw.references), Counter(grades), Counter(labels)
    assert drawn == Counter({g: min(wanted[g], present[g]) for g in wanted})
    assert [a.label for a in draw.references] == sorted((a.label for a in draw.references), reverse=True)
    if draw.dropped is None:
        assert sorted(name(draw.references) + name(draw.candidates)) == sorted(name(question.answers))


@given(labels=some_labels, seed=seeds)
def test_compositions_of_equal_seed_are_nested(labels, seed):
    question = make_question(labels)
    small, large = (draw_list(question, COMPOSITIONS[c], seed=seed) for c in ("r3210", "r33221100"))
    assert set(name(small.references)) <= set(name(large.references))


@given(labels=some_labels, seed=seeds)
def test_also_remove_leaves_equal_candidates_for_every_composition(labels, seed):
    question = make_question(labels)
    lists = list(COMPOSITIONS.values())
    left = [draw_list(question, own, seed=seed, also_remove=lists) for own in lists]
    kept = [draw.candidates for draw in left if draw.dropped is None]
    assert all(candidates == kept[0] for candidates in kept)
    for own, draw in zip(lists, left, strict=True):
        assert draw.references == draw_list(question, own, seed=seed).references


def test_every_answer_of_a_grade_is_drawn_equally_often():
    # 3 of 5 answers at 1,500 seeds: each is expected 900 times, standard error 19
    counts = Counter[str]()
    for seed in range(1500):
        counts.update(name(draw_list(make_question([2, 2, 0, 2, 2, 2]), (2, 2, 2), seed=seed).references))
    assert sorted(counts) == ["a0", "a1", "a3", "a4", "a5"]
    assert all(abs(count - 900) < 80 for count in counts.values())
