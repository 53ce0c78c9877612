"""Rows of agreement with human grades: overlap metrics and the embedded judge over seeded reference draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import get_args

from numpy.typing import NDArray

from nfqa.data.records import Question, QuestionSet
from nfqa.kernels.correlation import Method
from nfqa.lab.results import Row
from nfqa.metrics.evaluation import Agreement, Undefined, measure_agreement
from nfqa.metrics.listwise import (
    Scorer,
    Verdicts,
    fit_apart,
    is_development,
    judge_draw,
    make_training_rows,
    make_zero_shot,
)
from nfqa.metrics.overlap import METRICS, score_draws
from nfqa.metrics.references import COMPOSITIONS, Draw, RemoveRule, ShortRule, draw_list
from nfqa.models.embed import Embedder

METHODS = get_args(Method)
OWN_LISTS = {"antique": "r33221100", "trec_dl_nf": "r3210", "webglm": "r3210"}  # the paper's list for each data set
Draws = list[list[Draw]]  # [S][Q]


def name_list(dataset: str) -> str:
    """The paper's reference list for a data set, or for its bundled stand-in."""
    return OWN_LISTS[dataset.removeprefix("sample_")]


def draw_seeds(
    dataset: QuestionSet,
    *,
    n_seeds: int,
    composition: str = "",
    short: ShortRule = "partial",
    remove: RemoveRule = "list",
    also_remove: Sequence[str] = (),
) -> Draws:
    """Reference draws of every question under seeds 0 to n_seeds - 1; `composition` "" is the paper's own list.

    Raises: ValueError for an unknown composition or fewer than one seed.
    """
    name = composition or name_list(dataset.name)
    for wanted in (name, *also_remove):
        if wanted not in COMPOSITIONS:
            raise ValueError(f"unknown composition {wanted!r}; known: {', '.join(COMPOSITIONS)}")
    if n_seeds < 1:
        raise ValueError(f"n_seeds is {n_seeds}; expected 1 or more")
    draw = partial(
        draw_list, composition=COMPOSITIONS[name], short=short, remove=remove,
        also_remove=[COMPOSITIONS[other] for other in also_remove],
    )  # fmt: skip
    return [[draw(question, seed=seed) for question in dataset.questions] for seed in range(n_seeds)]


def score_overlap(draws: Draws, metric: str, embedder: Embedder | None = None) -> list[list[NDArray]]:
    """A metric's scores for every draw, [S][Q] of arrays.

    Raises: ValueError for an unknown metric.
    """
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}; known: {', '.join(METRICS)}")
    width = len(draws[0])
    flat = score_draws(METRICS[metric], [draw for row in draws for draw in row], embedder)
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def train_scorers(
    training: QuestionSet, dataset: QuestionSet, embedder: Embedder, composition: str = ""
) -> list[Scorer]:
    """A trained scorer for each question of `dataset`, fitted on `training` without that question's fold.

    When the two sets are one, folds by question keep every question out of its own scorer; otherwise one scorer,
    fitted on all of `training`, serves every question. It is fitted on lists of the composition that it will see,
    by default the paper's own for `dataset`.
    """
    grades = COMPOSITIONS[composition or name_list(dataset.name)]
    scorers = fit_apart([(q, make_training_rows(q, grades, embedder)) for q in training.questions], dataset)
    return [scorers[dataset.name, question.text] for question in dataset.questions]


def use_zero_shot(dataset: QuestionSet) -> list[Scorer]:
    """The untrained scorer for each question of `dataset`."""
    return [make_zero_shot()] * len(dataset.questions)


def judge_seeds(draws: Draws, scorers: Sequence[Scorer], embedder: Embedder) -> list[list[Verdicts]]:
    """The embedded judge's verdicts on every draw, [S][Q]."""
    return [[judge_draw(draw, s, embedder) for draw, s in zip(row, scorers, strict=True)] for row in draws]


def measure_overlap(
    dataset: QuestionSet,
    draws: Draws,
    metrics: Iterable[str],
    *,
    embedder: Embedder | None = None,
    resamples: int,
    suffix: str = "",
    conditions: str,
    undefined: Undefined = "drop",
) -> list[Row]:
    """Rows of Kendall, Spearman and Pearson for each overlap metric; `conditions` goes into the signature."""
    rows = []
    for name in metrics:
        scores = score_overlap(draws, name, embedder)
        signature = f"{METRICS[name].signature}|{conditions}"
        rows += make_rows(
            dataset, draws, scores, f"{name}{suffix}", signature, METRICS[name].kernel,
            resamples=resamples, undefined=undefined,
        )  # fmt: skip
    return rows


def measure_judge(
    dataset: QuestionSet,
    draws: Draws,
    scorers: Sequence[Scorer],
    embedder: Embedder,
    *,
    system: str,
    resamples: int,
    conditions: str,
    undefined: Undefined = "drop",
    methods: Sequence[Method] = METHODS,
) -> list[Row]:
    """Rows for the embedded judge: its score, its rank, and both on the half of ANTIQUE that shaped nothing."""
    verdicts = judge_seeds(draws, scorers, embedder)
    forms = {
        "": [[v.scores for v in row] for row in verdicts],
        "_rank": [[-v.ranks.astype(float) for v in row] for row in verdicts],
    }
    parts = [(dataset, list(range(len(dataset.questions))))]
    if dataset.name.removeprefix("sample_") == "antique":
        unseen = [i for i, question in enumerate(dataset.questions) if not is_development(question)]
        parts.append((_take_questions(dataset, unseen), unseen))
    rows = []
    for suffix, scores in forms.items():
        out = suffix.removeprefix("_") or "score"
        for part, chosen in parts:
            rows += make_rows(
                part,
                [[row[i] for i in chosen] for row in draws],
                [[row[i] for i in chosen] for row in scores],
                f"{system}{suffix}",
                f"judge:{scorers[0].name}|out:{out}|trained_on:{_count_training(scorers)}|{conditions}",
                "nfqa.metrics.listwise:judge_draw",
                resamples=resamples,
                undefined=undefined,
                methods=methods,
            )
    return rows


def make_rows(
    dataset: QuestionSet,
    draws: Draws,
    scores: Sequence[Sequence[NDArray]],
    system: str,
    signature: str,
    kernel: str,
    *,
    resamples: int,
    undefined: Undefined = "drop",
    methods: Sequence[Method] = METHODS,
) -> list[Row]:
    """One row a correlation coefficient."""
    rows = []
    for method in methods:
        agreement = measure_agreement(draws, scores, method=method, undefined=undefined, resamples=resamples)
        mark = f"undefined:{undefined}|boot:{resamples}|v1"
        kernels = (kernel, f"nfqa.kernels.correlation:_{method}", "nfqa.kernels.resample:bootstrap_mean")
        rows.append(make_row(dataset, system, method, agreement, f"{system}|{signature}|{mark}", kernels))
    return rows


def make_row(
    dataset: QuestionSet, system: str, metric: str, agreement: Agreement, signature: str, kernels: tuple[str, ...]
) -> Row:
    """A row from an average."""
    interval = agreement.interval
    return Row(
        system=system, dataset=dataset.name, metric=metric, value=interval.value, ci_low=interval.low,
        ci_high=interval.high, n=agreement.n, n_dropped=agreement.n_dropped,
        dropped_because=agreement.dropped_because, seeds=tuple(range(agreement.per_question.shape[1])),
        spread=interval.spread, signature=signature, kernels=kernels, origin=dataset.origin,
    )  # fmt: skip


def _count_training(scorers: Sequence[Scorer]) -> str:
    counts = sorted({scorer.trained_on for scorer in scorers})
    return f"{counts[0]}-{counts[-1]}" if len(counts) > 1 else str(counts[0])


def _take_questions(dataset: QuestionSet, chosen: Sequence[int]) -> QuestionSet:
    questions: tuple[Question, ...] = tuple(dataset.questions[i] for i in chosen)
    return QuestionSet(f"{dataset.name}_unseen", questions, dataset.origin, dataset.sha256)
