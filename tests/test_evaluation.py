"""Agreement with grades: correlated per question and seed, averaged by hand, what is left out counted by reason."""

from __future__ import annotations

import numpy as np
import pytest

from nfqa.data.records import Answer, Question
from nfqa.kernels.correlation import correlate_groups
from nfqa.metrics.evaluation import measure_agreement, summarise
from nfqa.metrics.references import Draw

NAN = float("nan")


def make_draw(text: str, labels: list[int], dropped: str | None = None) -> Draw:
    answers = tuple(Answer(f"a{i}", f"text {i}", label) for i, label in enumerate(labels))
    return Draw(Question(text, answers), (), answers, dropped)


# Three questions under two seeds; question "c" is short under the second.
DRAWS = [
    [make_draw("a", [0, 1, 2]), make_draw("b", [0, 1]), make_draw("c", [1, 1])],
    [make_draw("a", [0, 1, 2]), make_draw("b", [1, 0]), make_draw("c", [], "short_list")],
]
SCORES = [
    [np.array([1, 2, 3]), np.array([1, 2]), np.array([1, 2])],
    [np.array([1, 3, 2]), np.array([5, 5]), np.array([])],
]
# Kendall, seed 0: a = 1, b = 1, c undefined (constant labels)
#          seed 1: a = (2 - 1) / 3 = 1/3, b undefined (constant scores), c dropped (short list)
TABLE = [[1, 1 / 3], [1, NAN], [NAN, NAN]]


def test_undefined_coefficients_are_left_out_and_counted_by_reason():
    found = measure_agreement(DRAWS, SCORES, method="kendall", resamples=200)
    np.testing.assert_allclose(found.per_question, TABLE, atol=1e-15)
    # column means: 1 and 1/3; value 2/3; spread sqrt((1/3)^2 + (1/3)^2) = sqrt(2)/3
    assert found.interval.value == pytest.approx(2 / 3, abs=1e-15)
    assert found.interval.spread == pytest.approx(2**0.5 / 3, abs=1e-15)
    assert found.per_seed == pytest.approx([1, 1 / 3], abs=1e-15)
    assert found.dropped_because == {"constant_labels": 1, "constant_scores": 1, "short_list": 1}
    assert (found.n, found.n_dropped) == (3, 3)
    assert 1 / 3 <= found.interval.low <= 2 / 3 <= found.interval.high <= 1


def test_undefined_coefficients_can_count_as_zero():
    found = measure_agreement(DRAWS, SCORES, method="kendall", undefined="zero", resamples=200)
    # the question left out for its short list stays out: column means 2/3 and (1/3 + 0)/2 = 1/6; value 5/12
    assert found.interval.value == pytest.approx(5 / 12, abs=1e-15)
    assert found.per_seed == pytest.approx([2 / 3, 1 / 6], abs=1e-15)
    assert (found.n, found.n_dropped, found.dropped_because) == (5, 1, {"short_list": 1})


@pytest.mark.parametrize("method", ["kendall", "spearman", "pearson"])
@pytest.mark.parametrize("undefined", ["drop", "zero"])
def test_kept_and_dropped_sum_to_all_and_reasons_sum_to_the_dropped(method, undefined):
    rng = np.random.default_rng(0)
    texts = [f"question {i}" for i in range(30)]
    draws = [[make_draw(text, rng.integers(0, 2, rng.integers(0, 5)).tolist()) for text in texts] for _ in range(3)]
    scores = [[rng.integers(0, 3, len(draw.candidates)) for draw in row] for row in draws]
    found = measure_agreement(draws, scores, method=method, undefined=undefined, resamples=50)
    assert found.n + found.n_dropped == 90
    assert sum(found.dropped_because.values()) == found.n_dropped
    assert found.per_question.shape == (30, 3)
    assert (found.n_dropped > 0) == (undefined == "drop")


@pytest.mark.parametrize("method", ["kendall", "spearman", "pearson"])
def test_every_entry_is_the_correlation_of_its_own_question(method):
    rng = np.random.default_rng(1)
    draws = [[make_draw(f"q{i}", rng.integers(0, 4, 6).tolist()) for i in range(8)] for _ in range(2)]
    scores = [[rng.normal(size=6) for _ in row] for row in draws]
    found = measure_agreement(draws, scores, method=method, resamples=20)
    for seed, row in enumerate(draws):
        for number, draw in enumerate(row):
            alone = correlate_groups(scores[seed][number], draw.labels, [6], method=method).values[0]
            np.testing.assert_allclose(found.per_question[number, seed], alone, atol=1e-12)


def test_nothing_defined_gives_nan_and_no_number():
    found = measure_agreement([[make_draw("a", [1, 1])]], [[np.array([1, 2])]], method="kendall", resamples=10)
    assert np.isnan(found.interval.value)
    assert np.isnan(found.per_seed[0])
    assert (found.n, found.n_dropped, found.dropped_because) == (0, 1, {"constant_labels": 1})


def test_a_plain_row_of_values_is_one_column():
    found = summarise(np.array([1.0, NAN, 3.0]), {"unreadable": 1}, resamples=50)
    assert found.per_question.shape == (3, 1)
    assert (found.interval.value, found.n, found.n_dropped) == (2.0, 2, 1)
    assert (found.dropped_because, found.per_seed) == ({"unreadable": 1}, [2.0])
    assert summarise(np.array([1.0]), resamples=5).dropped_because == {}


def test_seeds_with_other_questions_are_refused():
    draws = [[make_draw("a", [0, 1]), make_draw("b", [0, 1])], [make_draw("b", [0, 1]), make_draw("a", [0, 1])]]
    scores = [[np.arange(2)] * 2] * 2
    with pytest.raises(ValueError, match="seed number 1 has other questions than the first; draw all seeds from one"):
        measure_agreement(draws, scores, method="kendall")


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="undefined is 'mean'; expected one of drop, zero"):
        measure_agreement(DRAWS, SCORES, method="kendall", undefined="mean")


def test_scores_unlike_candidates_in_total_are_refused():
    with pytest.raises(ValueError, match="seed number 0, question 'a': 3 scores for 2 candidates"):
        measure_agreement([[make_draw("a", [0, 1])]], [[np.arange(3)]], method="kendall")
    with pytest.raises(ValueError, match="shorter"):
        measure_agreement([[make_draw("a", [0, 1])]] * 2, [[np.arange(2)]], method="kendall")


def test_scores_unlike_candidates_in_one_question_are_refused():
    draws = [[make_draw("a", [0, 1]), make_draw("b", [0, 1, 2])]]
    with pytest.raises(ValueError, match="candidates"):
        measure_agreement(draws, [[np.arange(3), np.arange(2)]], method="kendall", resamples=5)
