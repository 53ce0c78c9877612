"""Rows of accuracy on WebGLM: does a score pick the answer that people found best, and the worst too?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import Question, QuestionSet
from nfqa.kernels.choice import TieRule, credit_choice
from nfqa.lab.experiments.agreement import make_row
from nfqa.lab.results import Row
from nfqa.metrics.evaluation import summarise
from nfqa.metrics.listwise import Scorer, judge_draw
from nfqa.metrics.overlap import METRICS, score_draws
from nfqa.metrics.references import Draw, use_given_references
from nfqa.models.embed import Embedder

_METRICS = {"acc_best": False, "acc_best_worst": True}


def use_references(dataset: QuestionSet) -> list[Draw]:
    """Each question's own four graded references as its draw; overlap metrics compare with the best of them."""
    return [use_given_references(question) for question in dataset.questions]


def measure_overlap_choice(
    dataset: QuestionSet,
    draws: Sequence[Draw],
    metrics: Iterable[str],
    *,
    embedder: Embedder,
    ties: TieRule,
    resamples: int,
) -> list[Row]:
    """Acc(b) and Acc(b+w) of overlap metrics against the best reference."""
    rows = []
    for name in metrics:
        scores = score_draws(METRICS[name], draws, embedder)
        signature = f"{name}|{METRICS[name].signature}|ref:ground3"
        rows += make_choice_rows(dataset, draws, scores, name, signature, METRICS[name].kernel, ties, resamples)
    return rows


def measure_judge_choice(
    dataset: QuestionSet,
    draws: Sequence[Draw],
    scorers: Sequence[Scorer],
    embedder: Embedder,
    *,
    system: str,
    ties: TieRule,
    resamples: int,
) -> list[Row]:
    """Acc(b) and Acc(b+w) of the embedded judge, by its score and by its rank among the four references."""
    verdicts = [judge_draw(draw, scorer, embedder) for draw, scorer in zip(draws, scorers, strict=True)]
    kernel = "nfqa.metrics.listwise:judge_draw"
    rows = []
    for suffix, scores in (("", [v.scores for v in verdicts]), ("_rank", [-v.ranks.astype(float) for v in verdicts])):
        signature = f"{system}{suffix}|judge:{scorers[0].name}|trained_on:{scorers[0].trained_on}|list:given"
        rows += make_choice_rows(dataset, draws, scores, f"{system}{suffix}", signature, kernel, ties, resamples)
    return rows


def measure_chance(dataset: QuestionSet, draws: Sequence[Draw], *, resamples: int) -> list[Row]:
    """What a score that is always tied earns: the accuracy of guessing."""
    scores = [np.zeros(len(draw.candidates)) for draw in draws]
    kernel = "nfqa.kernels.choice:credit_choice"
    return make_choice_rows(dataset, draws, scores, "chance", "chance", kernel, "expected", resamples)


def make_choice_rows(
    dataset: QuestionSet,
    judged: Sequence[Draw | Question],
    scores: Sequence[NDArray],
    system: str,
    signature: str,
    kernel: str,
    ties: TieRule,
    resamples: int,
) -> list[Row]:
    """Rows of Acc(b) and Acc(b+w); a question with an answer without a score is left out as "verdict_missing"."""
    whole = [
        len(given) == len(one.labels) and bool(np.isfinite(given).all())
        for one, given in zip(judged, scores, strict=True)
    ]
    missing = {"verdict_missing": len(whole) - sum(whole)} if not all(whole) else {}
    rows = []
    for metric, worst_too in _METRICS.items():
        earned = [
            credit_choice(given, one.labels, worst_too=worst_too, ties=ties) if scored else np.nan
            for one, given, scored in zip(judged, scores, whole, strict=True)
        ]
        agreement = summarise(np.array(earned), missing, resamples=resamples)
        kernels = (kernel, "nfqa.kernels.choice:credit_choice", "nfqa.kernels.resample:bootstrap_mean")
        mark = f"{signature}|ties:{ties}|boot:{resamples}|v1"
        rows.append(make_row(dataset, system, metric, agreement, mark, kernels).model_copy(update={"seeds": ()}))
    return rows
