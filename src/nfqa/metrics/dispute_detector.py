"""Dispute Awareness without a language model: a detector trained on sentences that were written for it.

Sentences of data/dispute_sentences.csv teach what a single sentence does; answers composed of other such sentences
teach how an answer's sentences add up. No real answer is trained on. Scores of a first version on the labelled answers
were seen, though, before pairs of sentences entered the calibration and the last 88 sentences were written: the test
on these answers is not wholly blind. On real answers the probability ranks well but over-predicts at THRESHOLD;
CALIBRATED_THRESHOLD is chosen on labelled real answers, and `calibrate_threshold` tests such a choice on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nfqa.metrics.coverage import split_answer
from nfqa.metrics.dispute_rules import list_cues
from nfqa.metrics.dispute_sentences import Labelled, compose_answers, read_sentences
from nfqa.models.embed import Embedder

Features = Literal["text_and_vectors", "text", "vectors"]
THRESHOLD = 0.5  # of the probability, which composed answers calibrate
# `choose_threshold` on the 200 labelled answers of data/labels/dispute_awareness.csv, with text and vectors
CALIBRATED_THRESHOLD = 0.866
_CLASSES = ("aware", "for", "against")
# Chosen by cross-validation over topics on the sentences alone.
_PENALTY = 10.0  # inverse strength of the sentences' regression
_VECTOR_SCALE, _CUE_SCALE = 0.5, 0.3  # beside n-grams of unit length
_AT_ONCE = 100  # answers whose sentences are described together, to save time alone
_COMPOSED = 400  # answers that the calibration is fitted on


class SentenceEmbedder(Protocol):
    """What gives unit-length sentence vectors, [len(texts), D]."""

    def embed_sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors."""
        ...


class Detector:
    """A probability that an answer makes its reader aware of the dispute; fitted at first use, in seconds.

    A sentence has three probabilities, each by logistic regression over character n-grams inside words (TF-IDF), the
    cues of the keyword rules and the sentence vector: that it is aware, attributes a side for, or one against. An
    answer is read sentence by sentence, and every two neighbours as one. It has two features, from these units u:
        s_1 = logit max_u P(aware | u),  s_2 = sqrt(max_u P(for | u) max_u P(against | u)),
    the second since two sides may be far apart. A logistic regression over both gives the answer's probability; it is
    fitted on composed answers, with probabilities of sentences whose topic was left out of their fit. Deterministic.
    Args: threshold: from which probability on an answer is decided to be aware, in (0, 1].
    Raises: ValueError for unknown features, features that need an embedder where there is none, or a threshold outside.
    Source: ours. Differs from: multiple-instance learning, in that labels of single sentences are available.
    """

    def __init__(
        self,
        embedder: SentenceEmbedder | None,
        sentences: Labelled,
        *,
        features: Features = "text_and_vectors",
        threshold: float = THRESHOLD,
        embedder_identity: str = "",
    ) -> None:
        if features not in get_args(Features):
            raise ValueError(f"features is {features!r}; expected one of {', '.join(get_args(Features))}")
        if embedder is None and features != "text":
            raise ValueError(f"features is {features!r}, which needs an embedder; without one only 'text' works")
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold is {threshold}; expected a probability above 0, such as {THRESHOLD}")
        self.sentences = sentences
        self.features = features
        self.threshold = threshold
        self._embedder = embedder
        self._identity = embedder_identity

    @property
    def signature(self) -> str:
        """Which features, embedder, sentences and decision."""
        embedded = "" if self.features == "text" else f"|embedder:{self._identity}"
        return (
            f"detector:{self.features}{embedded}|sentences:{len(self.sentences.texts)}@{self.sentences.sha256[:12]}"
            f"|unit:sentence+pair|threshold:{self.threshold:g}|v1"
        )

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """P(aware) of each answer, [len(texts)]; 0 for one without a sentence."""
        rows = self.describe(texts)
        found, asked = np.zeros(len(texts)), ~np.isnan(rows).any(1)
        if asked.any():
            found[asked] = self._calibration.predict_proba(rows[asked])[:, 1]
        return found

    def describe(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """s_1 and s_2 of each answer, [len(texts), 2]; NaN for one without a sentence."""
        rows = np.full((len(texts), 2), np.nan)
        parts = [split_answer(text) for text in texts]
        asked = [number for number, sentences in enumerate(parts) if sentences]
        for some in (asked[i : i + _AT_ONCE] for i in range(0, len(asked), _AT_ONCE)):
            rows[some] = self._describe([parts[number] for number in some], self._model)
        return rows

    def decide(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which answers are aware, [len(texts)]."""
        return self.probabilities(texts) >= self.threshold

    def cross_validate(self) -> NDArray[np.float64]:
        """P(aware), P(for), P(against) of each training sentence, its topic left out of the fit; [n, 3]."""
        texts, folds = self.sentences.texts, self.sentences.folds
        vectors = self._embed(texts)
        found = np.zeros((len(texts), len(_CLASSES)))
        for fold, model in self._fold_models:
            out = np.flatnonzero(folds == fold)
            found[out] = model.predict([texts[i] for i in out], vectors[out])
        return found

    def _describe(self, answers: Sequence[Sequence[str]], model: _SentenceModel) -> NDArray[np.float64]:
        """The features of answers, each given as its sentences, one at least: s_1 and s_2, [answers, 2]."""
        flat = self._embed([sentence for sentences in answers for sentence in sentences])
        texts: list[str] = []
        vectors: list[NDArray[np.float64]] = []
        ends = np.cumsum([len(sentences) for sentences in answers])
        for sentences, own in zip(answers, np.split(flat, ends[:-1]), strict=True):
            joined = own[:-1] + own[1:]
            joined /= np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-12)
            texts += [*sentences, *(f"{first} {second}" for first, second in pairwise(sentences))]
            vectors += [own, joined]
        units = np.cumsum([2 * len(sentences) - 1 for sentences in answers])
        found = model.predict(texts, np.concatenate(vectors))
        return np.array([pool_units(own) for own in np.split(found, units[:-1])])

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The vector of each text; of a passage the mean over its sentences, unit length. [n, D], [n, 0] without."""
        if self._embedder is None or self.features == "text":
            return np.zeros((len(texts), 0))
        parts = [split_answer(text) or [text] for text in texts]
        flat = self._embedder.embed_sentences([part for row in parts for part in row]).astype(np.float64)
        starts = np.cumsum([0, *(len(row) for row in parts)])[:-1]
        sums = np.add.reduceat(flat, starts, axis=0)
        return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12))

    @cached_property
    def _model(self) -> _SentenceModel:
        texts = self.sentences.texts
        return _SentenceModel(texts, self._embed(texts), self.sentences.classes, self.features)

    @cached_property
    def _calibration(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        composed = list(compose_answers(self.sentences, count=_COMPOSED))
        rows = np.zeros((len(composed), 2))
        for fold, model in self._fold_models:
            own = [number for number, (inside, _, _) in enumerate(composed) if inside == fold]
            if own:
                rows[own] = self._describe([[self.sentences.texts[i] for i in composed[n][1]] for n in own], model)
        return LogisticRegression(C=10.0, max_iter=1_000).fit(rows, [label for _, _, label in composed])

    @cached_property
    def _fold_models(self) -> list[tuple[int, _SentenceModel]]:
        """Each fold with the model that has not seen it."""
        texts, classes, folds = self.sentences.texts, self.sentences.classes, self.sentences.folds
        vectors = self._embed(texts)
        made = []
        for fold in sorted(set(folds.tolist())):
            kept = np.flatnonzero(folds != fold)
            model = _SentenceModel([texts[i] for i in kept], vectors[kept], classes[kept], self.features)
            made.append((fold, model))
        return made


class _SentenceModel:
    """How far a sentence is of each class.

    A row x of a sentence joins n-grams, cues and vector. The regressions are fitted on the eigenvectors of the n x n
    matrix of inner products, which gives the very weights of a fit on all columns, in a fraction of the time.
    """

    def __init__(self, texts: Sequence[str], vectors: NDArray, classes: NDArray, features: Features) -> None:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1):  # small products: more threads double the time
            self._fit(texts, vectors, classes, features)

    def _fit(self, texts: Sequence[str], vectors: NDArray, classes: NDArray, features: Features) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        self._grams: Any = None
        if features != "vectors":
            self._grams = TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 5), min_df=2, sublinear_tf=True, preprocessor=_plain_text
            ).fit(texts)
        parts = self._describe(texts, vectors)
        products = sum(np.asarray((part @ part.T).todense()) for part in parts)
        values, basis = np.linalg.eigh(products)
        kept = values > 1e-9 * values[-1]
        values, basis = np.sqrt(values[kept]), basis[:, kept]
        self._weights = [np.zeros((part.shape[1], len(_CLASSES))) for part in parts]
        self._biases = np.full(len(_CLASSES), -np.inf)  # probability 0 for a class that training has none of
        for column, name in enumerate(_CLASSES):
            wanted = classes == name
            if wanted.any() and not wanted.all():
                fitted = LogisticRegression(C=_PENALTY, max_iter=5_000).fit(basis * values, wanted)
                dual = basis / values @ fitted.coef_[0]
                self._biases[column] = fitted.intercept_[0]
                for part, weights in zip(parts, self._weights, strict=True):
                    weights[:, column] = part.T @ dual

    def predict(self, texts: Sequence[str], vectors: NDArray) -> NDArray[np.float64]:
        """Probabilities of aware, for and against, [n, 3]."""
        from scipy.special import expit

        parts = self._describe(texts, vectors)
        logits = sum(part @ weights for part, weights in zip(parts, self._weights, strict=True))
        return np.asarray(expit(logits + self._biases))

    def _describe(self, texts: Sequence[str], vectors: NDArray) -> list[Any]:
        from scipy.sparse import csr_array

        if self._grams is None:
            return [csr_array(vectors)]
        cues = np.array([list_cues(text) for text in texts], dtype=np.float64)
        return [self._grams.transform(texts), csr_array(_CUE_SCALE * cues), csr_array(_VECTOR_SCALE * vectors)]


def open_detector(
    embedder: Embedder | None, *, features: Features = "text_and_vectors", threshold: float = THRESHOLD
) -> Detector:
    """The embedded detector, trained on data/dispute_sentences.csv when it is first used.

    Raises: ValueError as `Detector`, or for a table of sentences that doesn't fit.
    """
    identity = "" if embedder is None else embedder.spec.identity
    return Detector(embedder, read_sentences(), features=features, threshold=threshold, embedder_identity=identity)


@dataclass(frozen=True)
class CalibratedDecisions:
    """Decisions, [n], 0 or 1, each by a threshold that was chosen without the item's group; these thresholds, [n]; and
    the threshold chosen on all items, for new ones."""

    decisions: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    threshold: float


def calibrate_threshold(
    probabilities: ArrayLike, labels: ArrayLike, groups: Sequence[object], *, folds: int = 10
) -> CalibratedDecisions:
    """Choose a threshold by `choose_threshold`, cross-validated: groups (questions) are never split between folds.

    Args: probabilities: [n], none missing; labels: [n], 0 or 1; groups: [n]; folds: at most one a group.
    Raises: ValueError for unequal lengths, what is no probability or label, fewer than two folds or groups.
    Source: scikit-learn's GroupKFold, without shuffling: the same input gives the same folds.
    """
    from sklearn.model_selection import GroupKFold

    threshold = choose_threshold(probabilities, labels)
    p, y, names = np.asarray(probabilities, dtype=np.float64), np.asarray(labels), np.array([str(g) for g in groups])
    if len(names) != len(p) or folds < 2 or len(set(names)) < 2:
        raise ValueError(f"{len(names)} groups for {len(p)} items in {folds} folds; expected one each, and two or more")
    thresholds = np.full(len(p), np.nan)
    for kept, out in GroupKFold(min(folds, len(set(names)))).split(p, y, names):
        thresholds[out] = choose_threshold(p[kept], y[kept])
    return CalibratedDecisions((p >= thresholds).astype(np.float64), thresholds, threshold)


def choose_threshold(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """The threshold with the highest accuracy; of several, the middle one.

    Tried: 0, the middle between every two neighbouring probabilities, and just above the highest.
    Raises: ValueError for unequal lengths, no items, a probability missing or outside [0, 1], a label not 0 or 1.
    """
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if p.ndim != 1 or p.shape != y.shape or not len(p):
        raise ValueError(f"{p.shape} probabilities for {y.shape} labels; expected two equal rows, not empty")
    if not ((p >= 0) & (p <= 1)).all() or not np.isin(y, (0.0, 1.0)).all():
        raise ValueError("expected probabilities from 0 to 1 and labels 0 or 1; leave out items without a verdict")
    known = np.unique(p)
    tried = np.concatenate([[0.0], (known[1:] + known[:-1]) / 2, [np.nextafter(known[-1], np.inf)]])
    right = ((p[:, None] >= tried) == y[:, None]).sum(0)
    best = np.flatnonzero(right == right.max())
    return float(tried[best[len(best) // 2]])


def pool_units(probabilities: NDArray) -> NDArray[np.float64]:
    """s_1 and s_2 of an answer from the class probabilities of its units, [units, 3] -> [2]."""
    aware, one, other = (float(probabilities[:, column].max()) for column in range(3))
    aware = min(max(aware, 1e-6), 1 - 1e-6)
    return np.array([np.log(aware) - np.log1p(-aware), np.sqrt(one * other)])


def _plain_text(text: str) -> str:
    return re.sub(r"[*#_`\s]+", " ", text.lower())
