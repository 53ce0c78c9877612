"""Fitting the embedded judge's weights: on other questions only, by folds, or by size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.files.records import Question, QuestionSet
from nfqa.metrics.listwise import FEATURES, KERNEL, Scorer, describe_draw, make_zero_shot, read_trained
from nfqa.metrics.references import hash_name, list_candidates
from nfqa.models.embed import Embedder
from reproduction.studies.drawing import draw_list, find_own_list

FOLDS = 5  # of ANTIQUE
_RIDGES = np.logspace(-1, 4, 12)
_TRAINING_SEEDS = range(1_000, 1_005)  # apart from any evaluation seed, so that no evaluated list is trained on


def make_training_rows(
    question: Question, composition: Sequence[int], embedder: Embedder, *, kernel: bool = False
) -> NDArray[np.float64]:
    """Rows of one question under five reference draws, whose seeds no evaluation uses.

    Returns: [m, F + 2]: centred features, the standardised grade, and the row's weight. A draw
        whose candidates' grades don't vary has none.
    """
    rows = [np.zeros((0, len(FEATURES) + len(KERNEL) * kernel + 2))]
    for draw in (draw_list(question, composition, seed=seed) for seed in _TRAINING_SEEDS):
        labels = np.array(draw.labels, dtype=np.float64)
        if len({*draw.labels}) > 1:
            features = describe_draw(draw, embedder, kernel=kernel)[1]
            grades = (labels - labels.mean()) / labels.std()
            rows.append(np.column_stack([features - features.mean(0), grades, np.full(len(labels), 1 / len(labels))]))
    return np.concatenate(rows)


def fit_scorer(rows: Iterable[NDArray[np.float64]]) -> Scorer:
    """Fit the weights by ridge regression of grades on features.

    Features are centred and grades standardised inside each question and draw, and each draw weighs
    the same, so that the fit serves what is reported: an average over questions of a correlation
    inside each. The ridge is chosen by leave-one-out among 12 from 0.1 to 10,000.
    Raises: ValueError when no question has two candidates of different grade.
    """
    from sklearn.linear_model import RidgeCV

    questions = [table for table in rows if len(table)]
    if not questions:
        raise ValueError("no question has two candidates of different grade left; nothing to train the judge on")
    *features, grades, weights = np.concatenate(questions).T
    x = np.column_stack(features)
    scale = np.where(x.std(0) == 0, 1.0, x.std(0))
    head = RidgeCV(_RIDGES, fit_intercept=False).fit(x / scale, grades.copy(), weights.copy())
    return Scorer("five features", head.coef_ / scale, len(questions))


def fit_by_size(
    training: QuestionSet, dataset: QuestionSet, embedder: Embedder, *, sizes: Sequence[int], seeds: Iterable[int]
) -> pd.DataFrame:
    """The judge's weights by number of training questions: 0 (the fixed weights), each of `sizes`,
    and all.

    Under a seed the training questions have an order, by a hash of (seed, question), of which a
    size takes the first: sizes are nested. Questions that no list leaves two candidates of
    different grade cannot teach and are not drawn. A size that is not there outside every fold
    (`fit_apart`) is excluded.
    Returns: a row for each size, seed and question of `dataset`: dataset, seed, question,
        trained_on (the size as text, or "all"), FEATURES (the weights), signature.
    """
    grades = find_own_list(dataset.name)
    seeds = list(seeds)
    rows = [(question, make_training_rows(question, grades, embedder)) for question in training.questions]
    taught = [(question, table) for question, table in rows if len(table)]
    folds = _find_unseen_folds(taught, dataset)
    fewest = min((sum(find_fold(question) != fold for question, _ in taught) for fold in {*folds}), default=0)
    fixed = {(dataset.name, question.text): make_zero_shot() for question in dataset.questions}
    whole = fit_apart(_shuffle(taught, 0), dataset) if fewest else {}
    fits = {("0", seed): fixed for seed in seeds}
    for size, seed in product((size for size in sizes if 0 < size < fewest), seeds):
        fits[str(size), seed] = fit_apart(_shuffle(taught, seed), dataset, count=size)
    fits |= {("all", seed): whole for seed in seeds if whole}
    weights = [(*key, seed, size, *one.weights) for (size, seed), fit in fits.items() for key, one in fit.items()]
    table = pd.DataFrame(weights, columns=["dataset", "question", "seed", "trained_on", *FEATURES])
    source = f"|drawn_from:{len(taught)}_of_{len(rows)}"
    return table.assign(signature="embedded_judge|trained_on:" + table.trained_on + source)


Taught = Sequence[tuple[Question, NDArray[np.float64]]]  # training questions, each with its rows


def fit_apart(taught: Taught, dataset: QuestionSet, *, count: int | None = None) -> dict[tuple[str, str], Scorer]:
    """A scorer for each (dataset, question), fitted on the first `count` training questions, or
    all, outside its fold.

    Folds depend on the question's text. Where no judged question is a training question, one scorer
    serves all.
    """
    folds = _find_unseen_folds(taught, dataset)
    scorers = {
        fold: fit_scorer([rows for question, rows in taught if find_fold(question) != fold][:count])
        for fold in dict.fromkeys(folds)
    }
    return {(dataset.name, q.text): scorers[fold] for q, fold in zip(dataset.questions, folds, strict=True)}


def _find_unseen_folds(taught: Taught, dataset: QuestionSet) -> list[int | None]:
    """The fold that each judged question's scorer must not see; None where the two sets share no
    question.
    """
    shared = {question.key for question, _ in taught} & {question.key for question in dataset.questions}
    return [find_fold(question) if shared else None for question in dataset.questions]


def _shuffle(taught: Taught, seed: int) -> Taught:
    return sorted(taught, key=lambda each: hash_name(f"{seed}|{each[0].key}"))


def open_scorers(sets: Iterable[QuestionSet], embedder: Embedder) -> list[Scorer | dict[tuple[str, str], Scorer]]:
    """The two embedded judges of these questions, with fixed weights and trained, as
    `judge_by_vectors` takes them.

    A question of ANTIQUE is judged by what was trained without its fold.
    """
    trained = {fold: read_trained(embedder, fold) for fold in (None, *range(FOLDS))}
    by_question = {
        (dataset.name, question.text): trained[find_fold(question) if dataset.name == "antique" else None]
        for dataset in sets for question in dataset.questions
    }  # fmt: skip
    return [make_zero_shot(), by_question]


def find_fold(question: Question) -> int:
    """The fold of a question, 0 to FOLDS - 1; independent of `is_development`."""
    return question.key // 2 % FOLDS


def is_development(question: Question) -> bool:
    """Whether the question belongs to the half on which features and fixed weights were chosen."""
    return question.key % 2 == 0


def describe_candidates(draws: pd.DataFrame, embedder: Embedder) -> pd.DataFrame:
    """The features that the embedded judge sees of every candidate of every draw; weighted and
    summed, its score.

    Returns: one row per candidate: the columns of `draws` but for `draw`, answer, grade, missing,
        and FEATURES, NaN for a draw without candidates.
    """
    candidates = list_candidates(draws)
    rows = [describe_draw(draw, embedder)[1] for draw in draws.draw if draw.candidates]
    candidates[list(FEATURES)] = np.nan
    candidates.loc[candidates.missing == "", list(FEATURES)] = np.concatenate([np.zeros((0, len(FEATURES))), *rows])
    return candidates
