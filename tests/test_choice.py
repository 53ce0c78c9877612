"""Credit for picking the best and the worst answer: by hand, and against every order of tied answers."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from nfqa.kernels.choice import credit_choice

PATTERNS = list(product(range(3), repeat=3))


def credit_by_enumeration(scores, labels, worst_too):
    """Sort by score under every order of the answers; credit is the share of orders whose ends are right."""
    found = []
    for order in permutations(range(len(scores))):
        ranked = sorted(order, key=lambda i: -scores[i])  # a stable sort: `order` settles ties
        right = labels[ranked[0]] == max(labels)
        if worst_too:
            right = right and labels[ranked[-1]] == min(labels)
        found.append(right)
    return np.mean(found)


@pytest.mark.parametrize("worst_too", [False, True])
def test_expected_credit_equals_every_order_of_ties_enumerated(worst_too):
    for scores, labels in product(PATTERNS, PATTERNS):
        found = credit_choice(scores, labels, worst_too=worst_too)
        assert found == pytest.approx(credit_by_enumeration(scores, labels, worst_too), abs=1e-12), (scores, labels)


@pytest.mark.parametrize("worst_too", [False, True])
def test_expected_credit_holds_for_one_two_and_four_answers(worst_too):
    for size in (2, 4) if worst_too else (1, 2, 4):
        for scores, labels in product(product(range(2), repeat=size), repeat=2):
            found = credit_choice(scores, labels, worst_too=worst_too)
            assert found == pytest.approx(credit_by_enumeration(scores, labels, worst_too), abs=1e-12)


@pytest.mark.parametrize("worst_too", [False, True])
def test_without_ties_all_rules_agree(worst_too):
    for scores, labels in product(permutations(range(3)), PATTERNS):
        found = {credit_choice(scores, labels, worst_too=worst_too, ties=t) for t in ("expected", "strict", "first")}
        assert len(found) == 1


def test_tied_picks_by_hand():
    # scores 5 5 1, labels 2 0 1: the top is right in one of two; best and worst: the bottom (label 1) is never worst
    assert credit_choice([5, 5, 1], [2, 0, 1]) == 0.5
    assert credit_choice([5, 5, 1], [2, 0, 1], worst_too=True) == 0.0
    # labels 2 1 0: the bottom is right, the top in one of two
    assert credit_choice([5, 5, 1], [2, 1, 0], worst_too=True) == 0.5
    # all tied: of 6 ordered pairs (best, worst) one is right
    assert credit_choice([1, 1, 1], [2, 1, 0], worst_too=True) == pytest.approx(1 / 6, abs=1e-15)


def test_a_tied_pick_is_worth_nothing_when_strict():
    assert credit_choice([5, 5, 1], [2, 2, 0], ties="strict") == 0.0
    assert credit_choice([5, 1, 1], [2, 0, 0], ties="strict") == 1.0  # the tie is at the bottom, which isn't asked
    assert credit_choice([5, 1, 1], [2, 0, 0], ties="strict", worst_too=True) == 0.0


def test_the_first_rule_takes_the_earliest_answer():
    assert credit_choice([5, 5], [0, 2], ties="first") == 0.0
    assert credit_choice([5, 5], [2, 0], ties="first") == 1.0
    assert credit_choice([5, 1, 1], [2, 0, 1], ties="first", worst_too=True) == 1.0
    assert credit_choice([5, 1, 1], [2, 1, 0], ties="first", worst_too=True) == 0.0


def test_people_s_ties_accept_any_of_the_tied_answers():
    assert credit_choice([1, 9, 5], [3, 3, 0]) == 1.0
    assert credit_choice([9, 1, 5], [3, 3, 0]) == 1.0
    assert credit_choice([1, 5, 9], [3, 3, 0]) == 0.0


@pytest.mark.parametrize(
    ("scores", "labels", "options", "message"),
    [
        ([1, 2], [1, 2, 3], {}, r"\(2,\) scores and \(3,\) labels; expected two equal rows of answers"),
        ([], [], {}, r"\(0,\) scores and \(0,\) labels; expected"),
        ([[1, 2]], [[1, 2]], {}, r"\(1, 2\) scores and \(1, 2\) labels"),
        ([1], [1], {"worst_too": True}, r"\(1,\) scores and \(1,\) labels; expected .* two or more for worst_too"),
        ([1, np.nan], [1, 2], {}, r"scores are \[1.0, nan\]; every one must be finite"),
        ([1, np.inf], [1, 2], {}, r"scores are \[1.0, inf\]; every one must be finite"),
        ([1, 2], [1, 2], {"ties": "random"}, r"ties is 'random'; expected one of expected, strict, first"),
    ],
)
def test_bad_input_is_refused(scores, labels, options, message):
    with pytest.raises(ValueError, match=message):
        credit_choice(scores, labels, **options)
