"""Credit for picking the best and the worst answer: by hand, and against every order of tied answers."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest

from nfqa.kernels.choice import credit_choice
from nfqa.metrics.statistics import average, credit_choices


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


@pytest.mark.parametrize(
    ("worst_too", "size", "grades"),
    [(False, 1, 2), (False, 2, 2), (False, 3, 3), (False, 4, 2), (True, 2, 2), (True, 3, 3), (True, 4, 2)],
)
def test_expected_credit_equals_enumeration_of_tie_orders(worst_too, size, grades):
    for scores, labels in product(product(range(grades), repeat=size), repeat=2):
        expected = credit_by_enumeration(scores, labels, worst_too)
        assert credit_choice(scores, labels, worst_too=worst_too) == pytest.approx(expected, abs=1e-12)
        if len(set(scores)) == size:  # without ties all rules agree
            for ties in ("strict", "first"):
                assert credit_choice(scores, labels, worst_too=worst_too, ties=ties) == expected


@pytest.mark.parametrize(
    ("scores", "labels", "options", "credit"),
    [
        ([1, 1, 1], [2, 1, 0], {"worst_too": True}, 1 / 6),  # of 6 ordered pairs (best, worst) one is right
        ([5, 5, 1], [2, 2, 0], {"ties": "strict"}, 0.0),
        ([5, 1, 1], [2, 0, 0], {"ties": "strict"}, 1.0),  # only the bottom is tied, which doesn't count here
        ([5, 1, 1], [2, 0, 0], {"ties": "strict", "worst_too": True}, 0.0),
        ([5, 5], [0, 2], {"ties": "first"}, 0.0),
        ([5, 1, 1], [2, 0, 1], {"ties": "first", "worst_too": True}, 1.0),
        ([5, 1, 1], [2, 1, 0], {"ties": "first", "worst_too": True}, 0.0),
    ],
)
def test_ties_by_hand(scores, labels, options, credit):
    assert credit_choice(scores, labels, **options) == pytest.approx(credit, abs=1e-15)


def test_credit_by_question_and_condition_and_a_question_with_an_unscored_answer_is_missing():
    answers = pd.DataFrame({
        "question": ["why?"] * 3 + ["how?"] * 3, "answer": list("abcabc"), "grade": [2.0, 1.0, 0.0] * 2, "missing": "",
    })  # fmt: skip
    unread = answers.missing.where(answers.index != 4, "unreadable")
    scores = pd.concat([
        answers.assign(metric="right", score=[3, 2, 1] * 2), answers.assign(metric="tied", score=0.0),
        answers.assign(metric="judge", score=[1, 2, 0, 1, np.nan, 0], missing=unread),
    ])  # fmt: skip
    found = credit_choices(scores)
    pd.testing.assert_frame_equal(found.iloc[:2], pd.DataFrame({
        "question": "why?", "metric": "right", "statistic": ["acc_best", "acc_best_worst"],
        "measured": 1.0, "missing": "",
    }))  # fmt: skip
    values = average(found).set_index(["metric", "statistic"])
    assert values.value.to_dict() == pytest.approx({
        ("right", "acc_best"): 1, ("right", "acc_best_worst"): 1, ("tied", "acc_best"): 1 / 3,
        ("tied", "acc_best_worst"): 1 / 6, ("judge", "acc_best"): 0, ("judge", "acc_best_worst"): 0,
    })  # fmt: skip
    judged = values.loc["judge", "acc_best"]
    assert (judged.n, judged.dropped, judged.dropped_because) == (1, 1, "unreadable 1")
    assert credit_choices(scores, ties="strict").query("metric == 'tied'").measured.sum() == 0
    with pytest.raises(ValueError, match="no column grade"):
        credit_choices(scores.drop(columns="grade"))
