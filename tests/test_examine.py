"""What is measured of a judge: the two sides of a difference speak of the same candidates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from nfqa.data.records import Answer, Question, QuestionSet
from nfqa.lab.experiments.examine import Examiner
from nfqa.metrics.judging import Judgement
from nfqa.metrics.references import Draw

WORDS = (3, 9, 4, 12, 7, 5, 20, 6)
LABELS = (0, 1, 1, 2, 3, 0, 2, 3)
SCORES = np.array([1.0, 2.5, 2.0, 3.0, 4.5, 0.5, 3.5, 1.5])


def make_draw(number: int = 0) -> Draw:
    answers = tuple(
        Answer(str(i), " ".join(["word"] * words), label)
        for i, (words, label) in enumerate(zip(WORDS, LABELS, strict=True))
    )
    return Draw(Question(f"why {number}?", answers), (Answer("r", "reference", 3),), answers)


def examine(draws: list[Draw]) -> Examiner:
    questions = tuple(draw.question for draw in draws)
    return Examiner(QuestionSet("made", questions, "sample", "0"), "s", "m", "k:k", 20)


def rank_correlate(x: np.ndarray, y: np.ndarray) -> float:
    return float(spearmanr(x, y).statistic)


@pytest.mark.parametrize("missing", [[], [1, 3], [0, 1, 4, 6]])
def test_the_partial_correlation_is_that_of_the_judged_candidates(missing):
    scores = SCORES.copy()
    scores[missing] = np.nan
    rows = {row.metric: row.value for row in examine([make_draw()]).examine_length([make_draw()], [scores])}
    has = ~np.isnan(scores)
    s, w, g = scores[has], np.array(WORDS)[has], np.array(LABELS)[has]
    sg, sw, gw = rank_correlate(s, g), rank_correlate(s, w), rank_correlate(g, w)
    partial = (sg - sw * gw) / np.sqrt((1 - sw**2) * (1 - gw**2))
    assert -1 <= partial <= 1
    assert rows["spearman_length_constant"] == pytest.approx(partial)
    assert rows["length_with_people"] == pytest.approx(gw)
    assert rows["length_bias"] == pytest.approx(sw - gw)
    assert rows["length_effect"] == pytest.approx(sg - partial)


def test_readings_and_seeds_that_agree_have_no_effect_though_one_lacks_verdicts():
    draws = [make_draw()]
    lacking = SCORES.copy()
    lacking[[1, 6]] = np.nan
    examiner = examine(draws)
    readings = {row.metric: row.value for row in examiner.compare_readings(draws, [lacking], [SCORES])}
    assert readings["logits_effect"] == pytest.approx(0)
    seeds = {row.metric: row.value for row in examiner.examine_seeds([draws, draws], [[SCORES], [lacking]])}
    assert seeds["seeds_effect"] == pytest.approx(0)
    assert seeds["agreement_over_seeds"] == pytest.approx(1)
    orders = examiner.examine_orders(draws, [Judgement(SCORES, ())], [Judgement(lacking, ())])
    assert {row.metric: row.value for row in orders}["order_effect"] == pytest.approx(0)


def test_the_released_default_in_place_of_missing_verdicts_moves_the_agreement():
    lacking = -np.array([5.0, 4, 4, 3, np.nan, 5, np.nan, 1])
    rows = {
        row.metric: row.value for row in examine([make_draw()]).examine_missing([make_draw()], [Judgement(lacking, ())])
    }
    filled = np.nan_to_num(lacking, nan=-2.0)
    has = ~np.isnan(lacking)
    gap = rank_correlate(filled, np.array(LABELS)) - rank_correlate(lacking[has], np.array(LABELS)[has])
    assert rows["missing_share"] == 0.25
    assert rows["missing_effect"] == pytest.approx(gap)
