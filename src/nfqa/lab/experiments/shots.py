"""Rows by the number of training questions of the embedded judge's head (Tables 7 and 8: the number of examples)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import Question, QuestionSet
from nfqa.kernels.resample import bootstrap_difference
from nfqa.lab.experiments.agreement import METHODS, draw_seeds, make_row, make_rows, name_list
from nfqa.lab.plots import PUBLISHED, add_legend, pick_colour, start_figure
from nfqa.lab.results import Row
from nfqa.metrics.evaluation import measure_agreement
from nfqa.metrics.listwise import (
    FEATURES,
    Scorer,
    TrainingRows,
    describe_draw,
    find_fold,
    fit_scorer,
    make_training_rows,
    make_zero_shot,
)
from nfqa.metrics.references import COMPOSITIONS, Draw, ShortRule
from nfqa.models.embed import Embedder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab

SIZES = (0, 1, 3, 5, 10, 30, 100)  # the paper's four, and on; all training questions come last
SYSTEM = "linkage_embedded_n"
Taught = tuple[Question, TrainingRows]  # a training question that can teach, and its rows
_FIT, _JUDGE = "nfqa.metrics.listwise:fit_scorer", "nfqa.metrics.listwise:judge_draw"


def measure_shots(
    dataset: QuestionSet,
    training: QuestionSet,
    embedder: Embedder,
    *,
    n_seeds: int,
    short: ShortRule,
    resamples: int,
) -> list[Row]:
    """Kendall, Spearman and Pearson of the judge's score with its head fitted on 0, 1, 3, ... and all questions.

    Draw s draws the references under seed s and, under the same seed, an order of the training questions of which n
    questions take the first n: sizes are nested. So a row's `spread` holds the luck of both; with no training
    question and with all of them, that of the references alone. Training questions that no list leaves two candidates
    of different grade can't teach and are not drawn. A question is never judged by a head fitted on its own fold.
    `spearman_less_n0` is the paired difference to no training. A size that the folds can't fill is left out.
    """
    grades = COMPOSITIONS[name_list(dataset.name)]
    teachers = [(question, make_training_rows(question, grades, embedder)) for question in training.questions]
    usable = [(question, rows) for question, rows in teachers if len(rows.grades)]
    fewest = _count_fewest(dataset, usable)
    draws = draw_seeds(dataset, n_seeds=n_seeds, short=short)
    features = [[_describe_candidates(draw, embedder) for draw in row] for row in draws]
    conditions = f"list:own|removed:list|short:{short}|seeds:{n_seeds}|drawn_from:{len(usable)}_of_{len(teachers)}"
    measured: list[Row] = []
    base: NDArray | None = None
    for count in (0, *(size for size in SIZES if 0 < size < fewest), *([None] if fewest else [])):
        fits = _fit_seeds(dataset, usable, count, n_seeds)
        scores = [
            [np.round(x @ scorer.weights, 10) for x, scorer in zip(row, scorers, strict=True)]
            for row, scorers in zip(features, fits, strict=True)
        ]
        system = SYSTEM + ("_all" if count is None else str(count))
        signature = f"judge:{fits[0][0].name}|out:score|trained_on:{'all' if count is None else count}|{conditions}"
        kernel = _FIT if count != 0 else _JUDGE
        measured += make_rows(dataset, draws, scores, system, signature, kernel, resamples=resamples)
        spearman = measure_agreement(draws, scores, method="spearman", resamples=1)
        if base is None:
            base = spearman.per_question
        else:
            delta = bootstrap_difference(spearman.per_question, base, resamples=resamples)
            mark = f"{system}|{signature}|less:n0|boot:{resamples}|v1"
            kernels = (_FIT, "nfqa.kernels.resample:bootstrap_difference")
            less = replace(spearman, interval=delta)
            measured.append(make_row(dataset, system, "spearman_less_n0", less, mark, kernels))
    return measured


def fit_few(dataset: QuestionSet, usable: Sequence[Taught], *, count: int | None, seed: int) -> list[Scorer]:
    """A scorer for each question of `dataset`, fitted on the first `count` of the others in an order drawn by seed.

    `count` None takes all. The order hangs on a hash of (seed, question). A question that is among the training
    questions keeps its whole fold out, so five scorers serve all; questions of another data set share one.
    Raises: ValueError when fewer than `count` questions are left.
    """
    order = sorted(usable, key=lambda taught: hashlib.sha256(f"{seed}|{taught[0].key}".encode()).digest())
    kept_out = _find_kept_out(dataset, usable)
    scorers: dict[int | None, Scorer] = {}
    for fold in dict.fromkeys(kept_out):
        left = [rows for question, rows in order if find_fold(question) != fold]
        if count is not None and len(left) < count:
            raise ValueError(f"{len(left)} training questions outside fold {fold}, but {count} are asked for")
        scorers[fold] = fit_scorer(left[:count])
    return [scorers[fold] for fold in kept_out]


def draw_shots(lab: Lab, rows: Sequence[Row]) -> Figure:
    """One panel a coefficient: the curve over training questions, its interval and the spread over draws; the paper's
    numbers of prompt examples as hollow diamonds, a language model's of this run as squares."""
    sizes = [_name(row.system) for row in rows if row.metric == "spearman" and row.system.startswith(SYSTEM)]
    places = {size: place for place, size in enumerate(sizes)}
    figure, panels = start_figure(1, len(METHODS), width=10.5, height=3.6, sharey=True)
    colour = pick_colour(rows)
    for axes, metric in zip(panels, METHODS, strict=True):
        own = [row for row in rows if row.metric == metric and row.system.startswith(SYSTEM)]
        values, low, high, spread = (
            np.array([getattr(row, field) for row in own], dtype=float)
            for field in ("value", "ci_low", "ci_high", "spread")
        )
        at = np.arange(len(own))
        axes.fill_between(at, low, high, color=colour, alpha=0.18, lw=0)
        axes.errorbar(
            at, values, yerr=np.nan_to_num(spread), color=colour, marker="o", ms=4, lw=1.6, elinewidth=1, capsize=2
        )
        for row in rows:
            if row.metric == metric and row not in own and row.value is not None and _name(row.system) in places:
                axes.plot([places[_name(row.system)]], [row.value], "s", color=colour, ms=6)
        for leaf in lab.leaves():
            if leaf.metric == metric and (leaf.dataset, _name(leaf.system)) in {(own[0].dataset, s) for s in places}:
                axes.plot([places[_name(leaf.system)]], [leaf.value], "D", mfc="none", mec=PUBLISHED, ms=7, mew=1.4)
        axes.set_xticks(at, labels=sizes)
        axes.set(title=metric, xlabel="training questions (published: prompt examples)")
    panels[0].set(ylabel="average over questions")
    figure.suptitle("Band: 95 % interval over questions. Whisker: one standard deviation over draws.", fontsize=8)
    has_published = any(leaf.dataset == row.dataset for leaf in lab.leaves() for row in rows[:1])
    add_legend(figure, [row.model_copy(update={"paper": 0.0 if has_published else None}) for row in rows[:1]])
    return figure


def describe_shots(rows: Sequence[Row]) -> list[str]:
    """Sentences on the curve: what training adds, where the fewest questions that help stand, and the luck of one."""
    own = [row for row in rows if row.system.startswith(SYSTEM) and row.value is not None]
    found = {(_name(row.system), row.metric): row for row in own}
    deltas = [(name, row) for (name, metric), row in found.items() if metric == "spearman_less_n0"]
    if not deltas:
        return ["No training question teaches here, so there is no curve."]
    said = ", ".join(f"{name} {row.value:+.3f} [{row.ci_low:+.3f}, {row.ci_high:+.3f}]" for name, row in deltas)
    sentences = [f"Spearman less that of no training question, by training questions: {said}."]
    better = [name for name, row in deltas if (row.ci_low or 0.0) > 0]
    worse = [name for name, row in deltas if (row.ci_high or 0.0) < 0]
    sentences.append(
        f"Better than none with the whole interval above 0: {', '.join(better) or 'no size'};"
        f" worse with all of it below: {', '.join(worse) or 'no size'}."
    )
    spreads = [
        f"{name} {row.spread:.3f}" for (name, metric), row in found.items() if metric == "spearman" and row.spread
    ]
    if spreads:
        sentences.append(
            f"Standard deviation of Spearman over draws, by training questions: {', '.join(spreads)};"
            " with 0 and all it comes from the references alone."
        )
    return sentences


def _fit_seeds(dataset: QuestionSet, usable: Sequence[Taught], count: int | None, n_seeds: int) -> list[list[Scorer]]:
    if count == 0:
        return [[make_zero_shot()] * len(dataset.questions)] * n_seeds
    if count is None:
        return [fit_few(dataset, usable, count=None, seed=0)] * n_seeds
    return [fit_few(dataset, usable, count=count, seed=seed) for seed in range(n_seeds)]


def _describe_candidates(draw: Draw, embedder: Embedder) -> NDArray[np.float64]:
    if not draw.references or not draw.candidates:
        return np.zeros((0, len(FEATURES)))
    return describe_draw(draw, embedder)[1]


def _find_kept_out(dataset: QuestionSet, usable: Sequence[Taught]) -> list[int | None]:
    """The fold that each question's scorer must not see; None where the two sets share no question."""
    own = {question.key for question, _ in usable}
    if any(question.key in own for question in dataset.questions):
        return [find_fold(question) for question in dataset.questions]
    return [None] * len(dataset.questions)


def _count_fewest(dataset: QuestionSet, usable: Sequence[Taught]) -> int:
    """How many usable training questions are left without the fullest fold."""
    kept_out = set(_find_kept_out(dataset, usable))
    return min((sum(find_fold(question) != fold for question, _ in usable) for fold in kept_out), default=0)


def _name(system: str) -> str:
    """The number of questions or examples in a system's name: linkage_mistral_n3 and linkage_embedded_n3 give 3."""
    return system.rpartition("_n")[2].removeprefix("_")
