"""LINKAGE without a language model: rank a candidate among graded references by their vectors alone.

The embedded judge sees what LINKAGE's judge sees, the question, the graded references in order and one candidate,
and turns it into a row of features. A linear scorer over them, with fixed weights ("zero_shot") or weights fitted on
other questions ("trained"), gives a continuous score; the candidate's rank is 1 plus the number of references that
score higher, each reference being scored against the rest of its list as if it were a candidate.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.data.records import Question, QuestionSet
from nfqa.metrics.references import Draw, draw_list, find_own_list, list_candidates, sign
from nfqa.models.embed import Embedder

FEATURES = (
    "cos_question",  # cosine of candidate and question
    "mean_good",  # mean cosine to references of grade GOOD_FROM or more
    "mean_poor",  # mean cosine to the references below it
    "beaten",  # share of references less similar to the question than the candidate is
    "log_words",  # log(1 + words)
)
_OWN = ("cos_question", "log_words")  # what a text has without a list
GOOD_FROM = 2
# Chosen on the development half of ANTIQUE (`is_development`), from weights 1, 2 and penalties 0, 1/4, 1/2, 3/4, 1.
ZERO_SHOT = (1.0, 2.0, -1.0, 0.0, 0.0)
FOLDS = 5
_RIDGES = np.logspace(-1, 4, 12)
_MOST_OF_A_GRADE = 3  # as many as in the paper's longest list; features are means over good and poor references
_TRAINING_SEEDS = range(1_000, 1_005)  # apart from any evaluation seed, so that no evaluated list is trained on


@dataclass(frozen=True)
class Scorer:
    """A linear scorer: score = weights . (features - centre). `trained_on` counts the questions it was fitted on."""

    name: str
    weights: NDArray[np.float64]  # [F]
    trained_on: int


@dataclass(frozen=True)
class Verdicts:
    """What the judge says of a draw's candidates: `scores`, higher is better, and `ranks`, 1 is best."""

    scores: NDArray[np.float64]  # [n]
    ranks: NDArray[np.int64]  # [n], from 1 to the number of references + 1


def make_zero_shot() -> Scorer:
    """The scorer with fixed weights: cos(q, c) + 2 mean cos(c, good references) - mean cos(c, poor references)."""
    return Scorer("zero_shot", np.array(ZERO_SHOT), 0)


def is_development(question: Question) -> bool:
    """Whether the question belongs to the half on which features and fixed weights were chosen."""
    return question.key % 2 == 0


def judge_draw(draw: Draw, scorer: Scorer, embedder: Embedder) -> Verdicts:
    """Score and rank every candidate of a draw.

    Ties between a candidate and a reference go to the candidate. With one reference the rank is 1 or 2, by closeness
    to the question and length, since similarity to each other is the same for both.
    Raises: ValueError for candidates without references.
    Source: LINKAGE, equation 5, with the language model replaced. Differs from: it, in that equal inputs always
        get equal ranks, and that the rank follows from a score rather than from generated text.
    """
    if not draw.candidates:  # a dropped draw has none, and no references either
        return Verdicts(np.zeros(0), np.zeros(0, dtype=np.int64))
    if not draw.references:
        raise ValueError(f"question {draw.question.text!r} has no references to rank among")
    references, candidates = describe_draw(draw, embedder)
    scores = np.round(candidates @ scorer.weights, 10)
    if len(draw.references) == 1:  # no rest of a list to hold it against: the two stand on what is their own
        own = np.array([name in _OWN for name in FEATURES])
        references, candidates = references[:, own], candidates[:, own]
        alone = np.round((references - candidates) @ scorer.weights[own], 10) > 0
        return Verdicts(scores, 1 + alone.astype(np.int64))
    beaten_by = np.round(references @ scorer.weights, 10)[None, :] > scores[:, None]
    return Verdicts(scores, 1 + beaten_by.sum(1))


def judge_by_vectors(
    draws: pd.DataFrame, scorers: Scorer | Mapping[tuple[str, str], Scorer], embedder: Embedder
) -> pd.DataFrame:
    """The embedded judge's scores and ranks of every candidate of every draw.

    Args: draws: as `nfqa.metrics.references.draw_references` gives them, perhaps with columns of conditions; scorers:
        one scorer for all, or that of each (dataset, question), as `train_scorers` gives them.
    Returns: two rows a candidate, `output` "score" and "rank" (its score is minus the rank): the columns of `draws` but
        for `draw`, answer, grade, metric ("embedded_judge"), training, output, score, missing, signature.
    """
    one = (
        dict.fromkeys(zip(draws.dataset, draws.question, strict=True), scorers)
        if isinstance(scorers, Scorer)
        else scorers
    )
    verdicts = [
        judge_draw(draw, one[dataset, question], embedder)
        for dataset, question, draw in zip(draws.dataset, draws.question, draws.draw, strict=True)
    ]
    counts = {
        dataset: sorted({scorer.trained_on for (name, _), scorer in one.items() if name == dataset})
        for dataset in draws.dataset.unique()
    }
    name = next(iter(one.values())).name.replace("_", "-")
    candidates = list_candidates(draws)
    trained_on = candidates.dataset.map(
        {d: "-".join(map(str, dict.fromkeys((c[0], c[-1])))) for d, c in counts.items()}
    )
    signature = sign(candidates, f"embedded_judge|weights:{name}|trained_on:" + trained_on)
    judged = candidates.assign(metric="embedded_judge", training=name, signature=signature)
    frames = []
    for output in ("score", "rank"):
        scores = np.full(len(candidates), np.nan)
        found = [v.scores if output == "score" else -v.ranks.astype(np.float64) for v in verdicts]
        scores[candidates.missing.to_numpy() == ""] = np.concatenate([np.zeros(0), *found])
        frames.append(judged.assign(output=output, score=scores))
    return pd.concat(frames, ignore_index=True)


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


def train_scorers(
    training: QuestionSet, dataset: QuestionSet, embedder: Embedder, composition: Sequence[int] = ()
) -> dict[tuple[str, str], Scorer]:
    """A trained scorer for each (dataset, question), fitted on `training` without that question's fold (`fit_apart`).

    It is fitted on lists of the composition that it will see, by default the paper's own for `dataset`.
    """
    grades = composition or find_own_list(dataset.name)
    return fit_apart([(q, make_training_rows(q, grades, embedder)) for q in training.questions], dataset)


def train_on_draws(draws: pd.DataFrame, dataset: QuestionSet, embedder: Embedder) -> dict[tuple[str, str], Scorer]:
    """The same, fitted on given draws of training questions, such as lists of another making.

    The grades of the draws' candidates are read, those of the judged question are not.
    """
    groups = [group.draw for _, group in draws.groupby("question", sort=False)]
    return fit_apart([(own.iloc[0].question, collect_training_rows(own, embedder)) for own in groups], dataset)


def train_by_grades(training: QuestionSet, draws: pd.DataFrame, embedder: Embedder) -> dict[tuple[str, str], Scorer]:
    """A trained scorer for each (dataset, question) with given references, one for each make-up of their grades.

    It is fitted on lists of those grades, at most _MOST_OF_A_GRADE of each, drawn from the questions of `training` that
    are not among the draws.

    Args: draws: as `nfqa.metrics.references.use_given_references` gives them.
    Raises: ValueError where no question of `training` can teach it.
    """
    known = {draw.question.text for draw in draws.draw}
    others = [question for question in training.questions if question.text not in known]
    made: dict[tuple[int, ...], Scorer] = {}
    scorers = {}
    for row in draws.itertuples():
        counts = Counter(reference.label for reference in row.draw.references)
        composition = tuple(g for g in sorted(counts, reverse=True) for _ in range(min(counts[g], _MOST_OF_A_GRADE)))
        if composition not in made:
            made[composition] = fit_scorer(make_training_rows(other, composition, embedder) for other in others)
        scorers[row.dataset, row.question] = made[composition]
    return scorers


def describe_draw(draw: Draw, embedder: Embedder) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Feature rows of the references, [R, F], each left out of its own list, and of the candidates, [n, F]."""
    texts = [draw.question.text, *(a.text for a in draw.references), *(a.text for a in draw.candidates)]
    vectors = embedder.embed_sentences(texts).astype(np.float64)
    words = np.log1p([len(text.split()) for text in texts[1:]])
    grades = np.array([answer.label for answer in draw.references])
    count = len(grades)
    # Equal rows of one matrix product can differ in their last bits; rounded, equal texts get equal features.
    to_question = np.round(vectors[1:] @ vectors[0], 12)
    to_references = np.round(vectors[1:] @ vectors[1 : 1 + count].T, 12)  # [R + n, R]
    seen = np.ones_like(to_references, dtype=bool)
    if count > 1:
        seen[np.arange(count), np.arange(count)] = False
    rows = describe(to_question, to_references, to_question[:count], grades, words, seen)
    return rows[:count], rows[count:]


def describe(
    to_question: NDArray,
    to_references: NDArray,
    references_to_question: NDArray,
    grades: NDArray,
    words: NDArray,
    seen: NDArray,
) -> NDArray[np.float64]:
    """Feature rows from similarities alone.

    Args: to_question: [n]; to_references: [n, R]; references_to_question: [R]; grades: [R]; words: [n], log lengths;
        seen: [n, R], which references each row is compared with.
    Returns: [n, len(FEATURES)]. A list without good (or poor) references uses all of them in their place.
    """
    good = seen & (grades >= GOOD_FROM)[None, :]
    poor = seen & (grades < GOOD_FROM)[None, :]
    good = np.where(good.any(1, keepdims=True), good, seen)
    poor = np.where(poor.any(1, keepdims=True), poor, seen)
    beaten = (references_to_question[None, :] < to_question[:, None]) & seen
    return np.column_stack(
        [
            to_question,
            _mean_where(to_references, good),
            _mean_where(to_references, poor),
            beaten.sum(1) / seen.sum(1),
            words,
        ]
    )


def _mean_where(values: NDArray, kept: NDArray) -> NDArray[np.float64]:
    return np.where(kept, values, 0.0).sum(1) / kept.sum(1)


@dataclass(frozen=True)
class TrainingRows:
    """One question's rows for fitting: centred features, standardised grades, and the rows' weights."""

    features: NDArray[np.float64]  # [m, F]
    grades: NDArray[np.float64]  # [m]
    weights: NDArray[np.float64]  # [m]


def make_training_rows(question: Question, composition: Sequence[int], embedder: Embedder) -> TrainingRows:
    """Rows of one question under five reference draws, whose seeds no evaluation uses; none if grades don't vary."""
    draws = [draw_list(question, composition, seed=seed) for seed in _TRAINING_SEEDS]
    return collect_training_rows(draws, embedder)


def collect_training_rows(draws: Iterable[Draw], embedder: Embedder) -> TrainingRows:
    """Rows of one question under given draws; none from a draw whose candidates' grades don't vary."""
    features, grades, weights = [np.zeros((0, len(FEATURES)))], [np.zeros(0)], [np.zeros(0)]
    for draw in draws:
        labels = np.array(draw.labels, dtype=np.float64)
        if len(set(draw.labels)) > 1:
            rows = describe_draw(draw, embedder)[1]
            features.append(rows - rows.mean(0))
            grades.append((labels - labels.mean()) / labels.std())
            weights.append(np.full(len(labels), 1 / len(labels)))
    return TrainingRows(np.concatenate(features), np.concatenate(grades), np.concatenate(weights))


def fit_scorer(rows: Iterable[TrainingRows]) -> Scorer:
    """Fit the weights by ridge regression of grades on features.

    Features are centred and grades standardised inside each question and draw, and each draw weighs the same, so
    that the fit serves what is reported: an average over questions of a correlation inside each. The ridge is chosen
    by leave-one-out among 12 from 0.1 to 10,000.
    Raises: ValueError when no question has two candidates of different grade.
    """
    from sklearn.linear_model import RidgeCV

    used = [row for row in rows if len(row.grades)]
    if not used:
        raise ValueError("no question has two candidates of different grade left; nothing to train the judge on")
    x = np.concatenate([row.features for row in used])
    scale = x.std(0)
    scale[scale == 0] = 1.0
    head = RidgeCV(_RIDGES, fit_intercept=False)
    head.fit(x / scale, np.concatenate([r.grades for r in used]), np.concatenate([r.weights for r in used]))
    return Scorer("trained", head.coef_ / scale, len(used))


def fit_by_size(
    training: QuestionSet,
    dataset: QuestionSet,
    embedder: Embedder,
    *,
    sizes: Sequence[int],
    seeds: Iterable[int],
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
    taught = [(question, own) for question, own in rows if len(own.grades)]
    kept_out = set(_keep_out(taught, dataset))
    fewest = min((sum(find_fold(question) != fold for question, _ in taught) for fold in kept_out), default=0)
    fixed = dict.fromkeys([(dataset.name, question.text) for question in dataset.questions], make_zero_shot())
    of_all = fit_apart(_shuffle(taught, 0), dataset) if fewest else {}
    frames = []
    for size in ["0", *(str(size) for size in sizes if 0 < size < fewest), *(["all"] if fewest else [])]:
        for seed in seeds:
            ends = {"0": fixed, "all": of_all}
            scorers = ends[size] if size in ends else fit_apart(_shuffle(taught, seed), dataset, count=int(size))
            weights = pd.DataFrame([scorer.weights for scorer in scorers.values()], columns=list(FEATURES))
            weights[["dataset", "question"]] = list(scorers)
            frames.append(weights.assign(seed=seed, trained_on=size))
    made = pd.concat(frames, ignore_index=True)
    drawn_from = f"drawn_from:{len(taught)}_of_{len(rows)}"
    return made.assign(signature="embedded_judge|trained_on:" + made.trained_on + f"|{drawn_from}")


Taught = Sequence[tuple[Question, TrainingRows]]  # training questions, each with its rows


def fit_apart(taught: Taught, dataset: QuestionSet, *, count: int | None = None) -> dict[tuple[str, str], Scorer]:
    """A scorer for each (dataset, question), fitted on the first `count` training questions, or all, outside its fold.

    Folds depend on the question's text. Where no judged question is a training question, one scorer serves all.
    Raises: ValueError when fewer than `count` are left, or none that can teach.
    """
    kept_out = _keep_out(taught, dataset)
    scorers = {}
    for fold in dict.fromkeys(kept_out):
        left = [rows for question, rows in taught if find_fold(question) != fold]
        if count is not None and len(left) < count:
            raise ValueError(f"{len(left)} training questions outside fold {fold}, but {count} are asked for")
        scorers[fold] = fit_scorer(left[:count])
    return {(dataset.name, q.text): scorers[fold] for q, fold in zip(dataset.questions, kept_out, strict=True)}


def _keep_out(taught: Taught, dataset: QuestionSet) -> list[int | None]:
    """The fold that each judged question's scorer must not see; None where the two sets share no question."""
    own = {question.key for question, _ in taught}
    shared = any(question.key in own for question in dataset.questions)
    return [find_fold(question) if shared else None for question in dataset.questions]


def _shuffle(taught: Taught, seed: int) -> Taught:
    return sorted(taught, key=lambda each: hashlib.sha256(f"{seed}|{each[0].key}".encode()).digest())


def find_fold(question: Question) -> int:
    """The fold of a question, 0 to FOLDS - 1; independent of `is_development`."""
    return question.key // 2 % FOLDS
