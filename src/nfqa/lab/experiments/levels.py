"""Whether what stands in for grades really falls: degraded answers before the judge, retrieved ones before people."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.lab.experiments.agreement import make_row
from nfqa.lab.experiments.generated import draw_lists
from nfqa.lab.results import Row
from nfqa.metrics.degrade import LEVELS
from nfqa.metrics.evaluation import summarise
from nfqa.metrics.generated import Truth
from nfqa.metrics.listwise import judge_draw, make_zero_shot
from nfqa.metrics.references import COMPOSITIONS, draw_list
from nfqa.models.embed import Embedder

_KERNELS = ("nfqa.metrics.degrade:degrade", "nfqa.metrics.listwise:judge_draw", "nfqa.kernels.resample:bootstrap_mean")


def measure_references(
    dataset: QuestionSet, embedder: Embedder, *, truth: Truth, n_seeds: int, resamples: int
) -> list[Row]:
    """Rows on the references themselves: `measure_levels` for one known answer, `measure_retrieved` for none."""
    measure = measure_levels if truth == "one" else measure_retrieved
    return measure(dataset, embedder, n_seeds=n_seeds, resamples=resamples)


def measure_levels(dataset: QuestionSet, embedder: Embedder, *, n_seeds: int, resamples: int) -> list[Row]:
    """Whether the degrader's levels fall, in the eyes of the zero-shot judge with graded references.

    The truth and its three degradations are judged as candidates beside a graded list (3, 2, 1, 0) drawn from the
    question's other answers, so that no degraded text is held against itself. Rows for `degraded_level_0` (the
    truth) to 3: `mean_score`, and for 1 to 3 `share_below`, how often a level scores below the one before (a tie
    counts half), and `cos_question`, the mean cosine to the question.
    """
    lists = draw_lists(dataset, embedder, truth="one", n_seeds=n_seeds)
    scores = np.full((len(dataset.questions), n_seeds, LEVELS + 1), np.nan)
    cosines = np.full_like(scores, np.nan)
    for seed, row in enumerate(lists):
        for i, draw in enumerate(row):
            rest = replace(draw.question, answers=draw.candidates)
            graded = draw_list(rest, COMPOSITIONS["r3210"], seed=seed)
            if draw.dropped is None and graded.dropped is None:
                judged = replace(graded, candidates=draw.references)
                scores[i, seed] = judge_draw(judged, make_zero_shot(), embedder).scores
                vectors = embedder.embed_sentences([draw.question.text, *(a.text for a in draw.references)])
                cosines[i, seed] = vectors[1:] @ vectors[0]
    below = (scores[..., 1:] < scores[..., :-1]) + 0.5 * (scores[..., 1:] == scores[..., :-1])
    below = np.where(np.isnan(scores[..., 1:]), np.nan, below)
    tables: list[tuple[int, str, NDArray]] = []
    for level in range(LEVELS + 1):
        tables += [(level, "mean_score", scores[..., level]), (level, "cos_question", cosines[..., level])]
        if level:
            tables.append((level, "share_below", below[..., level - 1]))
    return [
        _make_level_row(dataset, level, metric, table, n_seeds, resamples) for level, metric, table in tables
    ]  # fmt: skip


def measure_retrieved(dataset: QuestionSet, embedder: Embedder, *, n_seeds: int, resamples: int) -> list[Row]:
    """What people gave the retrieved references: `mean_label` of `retrieved_grade_3` to 1; the labels are read here,
    after the lists were made. Grade 0 is an answer to another question and has no label."""
    draws = draw_lists(dataset, embedder, truth="none", n_seeds=n_seeds)
    rows = []
    for grade in (3, 2, 1):
        table = np.full((len(dataset.questions), n_seeds), np.nan)
        for seed, row in enumerate(draws):
            for i, draw in enumerate(row):
                labels = {answer.text: answer.label for answer in draw.question.answers}
                found = [labels[answer.text] for answer in draw.references if answer.label == grade]
                table[i, seed] = found[0] if found else np.nan
        missing = {"short_list": int(np.isnan(table).sum())} if np.isnan(table).any() else {}
        system = f"retrieved_grade_{grade}"
        signature = f"{system}|list:0gt:retrieved|seeds:{n_seeds}|boot:{resamples}|v1"
        kernels = ("nfqa.metrics.generated:make_no_truth_list", "nfqa.kernels.resample:bootstrap_mean")
        agreement = summarise(table, missing, resamples=resamples)
        rows.append(make_row(dataset, system, "mean_label", agreement, signature, kernels))
    return rows


def _make_level_row(dataset: QuestionSet, level: int, metric: str, table: NDArray, n_seeds: int, resamples: int) -> Row:
    missing = {"no_other_reference": int(np.isnan(table).sum())} if np.isnan(table).any() else {}
    system = f"degraded_level_{level}"
    signature = f"{system}|judge:zero_shot|list:3210, the truth left out|seeds:{n_seeds}|boot:{resamples}|v1"
    return make_row(dataset, system, metric, summarise(table, missing, resamples=resamples), signature, _KERNELS)
