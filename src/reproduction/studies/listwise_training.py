"""Fitting the embedded judge's weights: on other questions only, by folds, or by size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.files.records import Question, QuestionSet
from nfqa.metrics.listwise import FEATURES, KERNEL, Scorer, describe_draw, make_zero_shot, read_trained
from nfqa.metrics.references import Draw, hash_name, list_candidates
from nfqa.models.embed import Embedder
from reproduction.studies.drawing import draw_list, find_own_list

FOLDS = 5  # of ANTIQUE
_RIDGES = np.logspace(-1, 4, 12)
_TRAINING_SEEDS = range(1_000, 1_005)  # apart from any evaluation seed, so that no evaluated list is trained on


def train_scorers(
    training: QuestionSet, dataset: QuestionSet, embedder: Embedder, composition: Sequence[int] = ()
) -> dict[tuple[str, str], Scorer]:
    """A scorer of five features for each (dataset, question), fitted on `training` without its fold (`fit_apart`).

    It is fitted on lists of the composition that it will see, by default the paper's own for `dataset`.
    """
    grades = composition or find_own_list(dataset.name)
    return fit_apart([(q, make_training_rows(q, grades, embedder)) for q in training.questions], dataset)


def make_training_rows(
    question: Question, composition: Sequence[int], embedder: Embedder, *, kernel: bool = False
) -> NDArray[np.float64]:
    """Rows of one question under five reference draws, whose seeds no evaluation uses; none if grades don't vary."""
    draws = [draw_list(question, composition, seed=seed) for seed in _TRAINING_SEEDS]
    return collect_training_rows(draws, embedder, kernel=kernel)


def collect_training_rows(draws: Iterable[Draw], embedder: Embedder, *, kernel: bool = False) -> NDArray[np.float64]:
    """Rows of one question under given draws; none from a draw whose candidates' grades don't vary.

    Returns: [m, F + 2]: centred features, the standardised grade, and the row's weight.
    """
    rows = [np.zeros((0, len(FEATURES) + len(KERNEL) * kernel + 2))]
    for draw in draws:
        labels = np.array(draw.labels, dtype=np.float64)
        if len(set(draw.labels)) > 1:
            features, grades = describe_draw(draw, embedder, kernel=kernel)[1], (labels - labels.mean()) / labels.std()
            weights = np.full(len(labels), 1 / len(labels))
            rows.append(np.column_stack([features - features.mean(0), grades, weights]))
    return np.concatenate(rows)


def fit_scorer(rows: Iterable[NDArray[np.float64]]) -> Scorer:
    """Fit the weights by ridge regression of grades on features.

    Features are centred and grades standardised inside each question and draw, and each draw weighs the same, so
    that the fit serves what is reported: an average over questions of a correlation inside each. The ridge is chosen
    by leave-one-out among 12 from 0.1 to 10,000.
    Raises: ValueError when no question has two candidates of different grade.
    """
    from sklearn.linear_model import RidgeCV

    used = [own for own in rows if len(own)]
    if not used:
        raise ValueError("no question has two candidates of different grade left; nothing to train the judge on")
    *features, grades, weights = np.concatenate(used).T
    x = np.column_stack(features)
    scale = x.std(0)
    scale[scale == 0] = 1.0
    head = RidgeCV(_RIDGES, fit_intercept=False).fit(x / scale, grades.copy(), weights.copy())
    return Scorer("five features", head.coef_ / scale, len(used))


def fit_by_size(
    training: QuestionSet, dataset: QuestionSet, embedder: Embedder, *, sizes: Sequence[int], seeds: Iterable[int]
) -> pd.DataFrame:
    """The judge's weights by number of training questions: 0 (the fixed weights), each of `sizes`, and all.

    Under a seed the training questions have an order, by a hash of (seed, question), of which a size takes the first:
    sizes are nested. Questions that no list leaves two candidates of different grade cannot teach and are not drawn.
    A size that is not there outside every fold (`fit_apart`) is left out.
    Returns: a row for each size, seed and question of `dataset`: dataset, seed, question, trained_on (the size as text,
        or "all"), FEATURES (the weights), signature.
    """
    grades, seeds = find_own_list(dataset.name), list(seeds)
    rows = [(question, make_training_rows(question, grades, embedder)) for question in training.questions]
    taught = [(question, own) for question, own in rows if len(own)]
    kept_out = set(_keep_out(taught, dataset))
    fewest = min((sum(find_fold(question) != fold for question, _ in taught) for fold in kept_out), default=0)
    ends = {"0": dict.fromkeys([(dataset.name, question.text) for question in dataset.questions], make_zero_shot())}
    if fewest:
        ends["all"] = fit_apart(_shuffle(taught, 0), dataset)
    frames = []
    for size in ("0", *(str(size) for size in sizes if 0 < size < fewest), *(["all"] if fewest else [])):
        for seed in seeds:
            scorers = ends.get(size) or fit_apart(_shuffle(taught, seed), dataset, count=int(size))
            weights = pd.DataFrame([scorer.weights for scorer in scorers.values()], columns=list(FEATURES))
            weights[["dataset", "question"]] = list(scorers)
            frames.append(weights.assign(seed=seed, trained_on=size))
    made = pd.concat(frames, ignore_index=True)
    drawn_from = f"|drawn_from:{len(taught)}_of_{len(rows)}"
    return made.assign(signature="embedded_judge|trained_on:" + made.trained_on + drawn_from)


Taught = Sequence[tuple[Question, NDArray[np.float64]]]  # training questions, each with its rows


def fit_apart(taught: Taught, dataset: QuestionSet, *, count: int | None = None) -> dict[tuple[str, str], Scorer]:
    """A scorer for each (dataset, question), fitted on the first `count` training questions, or all, outside its fold.

    Folds depend on the question's text. Where no judged question is a training question, one scorer serves all.
    """
    kept_out = _keep_out(taught, dataset)
    scorers = {
        fold: fit_scorer([rows for question, rows in taught if find_fold(question) != fold][:count])
        for fold in dict.fromkeys(kept_out)
    }
    return {(dataset.name, q.text): scorers[fold] for q, fold in zip(dataset.questions, kept_out, strict=True)}


def _keep_out(taught: Taught, dataset: QuestionSet) -> list[int | None]:
    """The fold that each judged question's scorer must not see; None where the two sets share no question."""
    own = {question.key for question, _ in taught}
    shared = any(question.key in own for question in dataset.questions)
    return [find_fold(question) if shared else None for question in dataset.questions]


def _shuffle(taught: Taught, seed: int) -> Taught:
    return sorted(taught, key=lambda each: hash_name(f"{seed}|{each[0].key}"))


def open_scorers(sets: Iterable[QuestionSet], embedder: Embedder) -> list[Scorer | dict[tuple[str, str], Scorer]]:
    """The two embedded judges of these questions, with fixed weights and trained, as `judge_by_vectors` takes them.

    A question of ANTIQUE is judged by what was trained without its fold.
    """
    trained = {fold: read_trained(embedder, fold) for fold in (None, *range(FOLDS))}
    folds = {
        (one.name, question.text): find_fold(question) if one.name == "antique" else None
        for one in sets
        for question in one.questions
    }
    return [make_zero_shot(), {key: trained[fold] for key, fold in folds.items()}]


def find_fold(question: Question) -> int:
    """The fold of a question, 0 to FOLDS - 1; independent of `is_development`."""
    return question.key // 2 % FOLDS


def is_development(question: Question) -> bool:
    """Whether the question belongs to the half on which features and fixed weights were chosen."""
    return question.key % 2 == 0


def describe_candidates(draws: pd.DataFrame, embedder: Embedder) -> pd.DataFrame:
    """The features that the embedded judge sees of every candidate of every draw; weighted and summed, its score.

    Returns: a row a candidate: the columns of `draws` but for `draw`, answer, grade, missing, and FEATURES, NaN for a
        draw without candidates.
    """
    candidates = list_candidates(draws)
    rows = [describe_draw(draw, embedder)[1] for draw in draws.draw if draw.candidates]
    candidates[list(FEATURES)] = np.nan
    candidates.loc[candidates.missing == "", list(FEATURES)] = np.concatenate([np.zeros((0, len(FEATURES))), *rows])
    return candidates
