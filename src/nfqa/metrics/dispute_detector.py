"""Dispute Awareness without a language model: a detector trained on sentences that were written for it.

Sentences of nfqa/data/dispute_sentences.csv teach what a single sentence does; answers composed of other such sentences
teach how an answer's sentences add up. No real answer is trained on. Scores of a first version on the labelled answers
were seen, though, before pairs of sentences entered the calibration and the last 88 sentences were written: the test
on these answers is not wholly blind. On real answers the probability ranks well but over-predicts at THRESHOLD:
`choose_threshold` finds a better one for labelled answers, and `calibrate_threshold` tests such a choice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nfqa.data.code import cached_arrays
from nfqa.metrics.coverage import split_answer
from nfqa.metrics.dispute_rules import list_cues
from nfqa.metrics.dispute_sentences import Labelled, compose_training_answers, read_sentences
from nfqa.models.embed import Embedder

Features = Literal["text_and_vectors", "text", "vectors"]
THRESHOLD = 0.5  # of the probability, which composed answers calibrate
_GROUPS = ("aware", "for", "against")
# Chosen by cross-validation over topics on the sentences alone.
_PENALTY = 10.0  # inverse strength of the sentences' regression
_VECTOR_SCALE, _CUE_SCALE = 0.5, 0.3  # beside n-grams of unit length
_COMPOSED = 400  # answers that the calibration is fitted on


@dataclass(eq=False)
class Detector:
    """A probability that an answer makes its reader aware of the dispute; fitted at first use, in seconds.

    A sentence has three probabilities, each by logistic regression over character n-grams inside words (TF-IDF), the
    cues of the keyword rules and the sentence vector: that it is aware, attributes a side for, or one against. An
    answer is read sentence by sentence, and every two neighbours as one. It has two features, from these units u:
        s_1 = logit max_u P(aware | u),  s_2 = sqrt(max_u P(for | u) max_u P(against | u)),
    the second since two sides may be far apart. A logistic regression over both gives the answer's probability; it is
    fitted on composed answers, with probabilities of sentences whose topic was left out of their fit. Deterministic.
    Args: cache: a folder that keeps what was fitted, for the next time.
    Raises: ValueError for features that need an embedder where there is none.
    Source: ours. Differs from: multiple-instance learning, in that labels of single sentences are available.
    """

    embedder: Embedder | None
    sentences: Labelled
    features: Features = "text_and_vectors"
    cache: Path | None = None

    def __post_init__(self) -> None:
        if self.features == "text":
            self.embedder = None
        elif self.embedder is None:
            raise ValueError(f"features is {self.features!r}, which needs an embedder; without one only 'text' works")

    @property
    def signature(self) -> str:
        """Which features, embedder, sentences and decision."""
        embedded = "" if self.embedder is None else f"|embedder:{self.embedder.spec.identity}"
        return (
            f"detector:{self.features}{embedded}|sentences:{len(self.sentences.table)}@{self.sentences.sha256[:12]}"
            f"|unit:sentence+pair|threshold:{THRESHOLD:g}|v1"
        )

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """P(aware) of each answer, [len(texts)]; 0 for one without a sentence."""
        from scipy.special import expit

        found = expit(self.describe(texts) @ self._fitted["slopes"] + self._fitted["intercept"])
        return np.where(np.isnan(found), 0.0, found)

    def describe(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """s_1 and s_2 of each answer, [len(texts), 2]; NaN for one without a sentence."""
        blank, answers = np.full(2, np.nan), map(split_answer, texts)
        return np.array([self._describe(own, self._model) if own else blank for own in answers]).reshape(-1, 2)

    def cross_validate(self) -> NDArray[np.float64]:
        """P(aware), P(for), P(against) of each training sentence, its topic left out of the fit; [n, 3]."""
        table = self.sentences.table
        found = np.zeros((len(table), len(_GROUPS)))
        for fold, model in self._fold_models.items():
            out = (table.fold == fold).to_numpy()
            found[out] = model.predict(table.text[out].tolist(), self._vectors[out])
        return found

    def _describe(self, sentences: Sequence[str], model: _SentenceModel) -> NDArray[np.float64]:
        """s_1 and s_2 of an answer of one sentence or more, [2]."""
        own = self._embed(sentences)
        pairs = [f"{first} {second}" for first, second in pairwise(sentences)]
        vectors = np.concatenate([own, _scale(own[:-1] + own[1:])])
        return pool_units(model.predict([*sentences, *pairs], vectors))

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The vector of each text; of a passage the mean over its sentences, unit length. [n, D], [n, 0] without."""
        if self.embedder is None:
            return np.zeros((len(texts), 0))
        parts = [split_answer(text) or [text] for text in texts]
        flat = self.embedder.embed_sentences([part for row in parts for part in row]).astype(np.float64)
        starts = np.cumsum([0, *(len(row) for row in parts)])[:-1]
        return _scale(np.add.reduceat(flat, starts, axis=0))

    @cached_property
    def _vectors(self) -> NDArray[np.float64]:
        return self._embed(self.sentences.table.text.tolist())  # [n, D]

    @cached_property
    def _fitted(self) -> dict[str, NDArray]:
        """Weights and biases of the sentences' model, slopes and intercept of the calibration."""
        made_by = "" if self.embedder is None or self.cache is None else self.embedder.fingerprint
        depends_on = (self.signature, made_by)
        return cached_arrays(self.cache, "detector", self._fit_all, maker=__name__, depends_on=depends_on)

    def _fit_all(self) -> dict[str, NDArray]:
        from sklearn.linear_model import LogisticRegression

        table = self.sentences.table
        model = self._fit(np.ones(len(table), dtype=np.bool_))
        composed = list(compose_training_answers(self.sentences, count=_COMPOSED))
        rows = [self._describe(table.text.iloc[own].tolist(), self._fold_models[fold]) for fold, own, _ in composed]
        calibration = LogisticRegression(C=10.0, max_iter=1_000).fit(rows, [label for *_, label in composed])
        fitted = {"slopes": calibration.coef_[0], "intercept": calibration.intercept_}
        return fitted | {"weights": model.weights, "biases": model.biases}

    @cached_property
    def _model(self) -> _SentenceModel:
        model = _SentenceModel(self.sentences.table.text.tolist(), self.features)
        model.weights, model.biases = self._fitted["weights"], self._fitted["biases"]
        return model

    @cached_property
    def _fold_models(self) -> dict[int, _SentenceModel]:
        """By fold the model that has not seen it."""
        folds = self.sentences.table.fold.to_numpy()
        return {fold: self._fit(folds != fold) for fold in sorted(set(folds.tolist()))}

    def _fit(self, kept: NDArray[np.bool_]) -> _SentenceModel:
        table = self.sentences.table[kept]
        model = _SentenceModel(table.text.tolist(), self.features)
        model.fit(table.text.tolist(), self._vectors[kept], table.group.to_numpy())
        return model


class _SentenceModel:
    """P(aware), P(for) and P(against) of a sentence, by logistic regressions over its n-grams, cues and vector.

    They are fitted on the eigenvectors of the n x n matrix of inner products. A fit on all columns has the same
    optimum, but stops elsewhere under the solver's tolerance.
    """

    weights: NDArray[np.float64]  # [columns, groups]
    biases: NDArray[np.float64]  # [groups]

    def __init__(self, texts: Sequence[str], features: Features) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._grams: Any = None
        if features != "vectors":
            self._grams = TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 5), min_df=2, sublinear_tf=True, preprocessor=_plain_text
            ).fit(texts)

    def fit(self, texts: Sequence[str], vectors: NDArray, groups: NDArray) -> None:
        """Find weights and biases; texts are those that the n-grams are of."""
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        rows = self._describe(texts, vectors)  # [n, columns]
        self.weights = np.zeros((rows.shape[1], len(_GROUPS)))
        self.biases = np.full(len(_GROUPS), -np.inf)  # probability 0 for a group that training has none of
        with threadpool_limits(limits=1):  # small products: more threads double the time
            values, basis = np.linalg.eigh((rows @ rows.T).toarray())
            kept = values > 1e-9 * values[-1]
            values, basis = np.sqrt(values[kept]), basis[:, kept]
            for column, name in enumerate(_GROUPS):
                if name in groups:
                    fitted = LogisticRegression(C=_PENALTY, max_iter=5_000).fit(basis * values, groups == name)
                    self.weights[:, column] = rows.T @ (basis / values @ fitted.coef_[0])
                    self.biases[column] = fitted.intercept_[0]

    def predict(self, texts: Sequence[str], vectors: NDArray) -> NDArray[np.float64]:
        """The three probabilities, [n, 3]."""
        from scipy.special import expit

        return np.asarray(expit(self._describe(texts, vectors) @ self.weights + self.biases))

    def _describe(self, texts: Sequence[str], vectors: NDArray) -> Any:
        from scipy.sparse import csr_array, hstack

        if self._grams is None:
            return csr_array(vectors)
        cues = np.array([list_cues(text) for text in texts], dtype=np.float64)
        parts = [self._grams.transform(texts), csr_array(_CUE_SCALE * cues), csr_array(_VECTOR_SCALE * vectors)]
        return hstack(parts, format="csr")


def open_detector(embedder: Embedder | None, *, sentences: int | None = None, **how: Any) -> Detector:
    """The embedded detector, trained on nfqa/data/dispute_sentences.csv when it is first used.

    Args: sentences: for a quick look, so many of the last ones alone; the signature says how many; how:
        features and cache, as `Detector`.
    Raises: ValueError as `Detector`.
    """
    labelled = read_sentences()
    if sentences is not None:
        labelled = Labelled(labelled.table.tail(sentences).reset_index(drop=True), labelled.sha256)
    return Detector(embedder, labelled, **how)


def calibrate_threshold(
    probabilities: ArrayLike, labels: ArrayLike, groups: Sequence[object], *, folds: int = 10
) -> NDArray[np.float64]:
    """The threshold for each item, by `choose_threshold` on the other folds; groups (questions) are never split.

    Args: probabilities: [n], none missing; labels: [n], 0 or 1; groups: [n], two or more; folds: at most one a group.
    Returns: [n].
    Source: scikit-learn's GroupKFold, without shuffling: the same input gives the same folds. Differs from:
        TunedThresholdClassifierCV, which chooses one threshold for all items, interpolated between those of the folds.
    """
    from sklearn.model_selection import GroupKFold

    p, y, names = np.asarray(probabilities, dtype=np.float64), np.asarray(labels), np.array([str(g) for g in groups])
    thresholds = np.full(len(p), np.nan)
    for kept, out in GroupKFold(min(folds, len(set(names)))).split(p, y, names):
        thresholds[out] = choose_threshold(p[kept], y[kept])
    return thresholds


def choose_threshold(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """The threshold with the highest accuracy; of several, the middle one.

    Tried: 0, the middle between every two neighbouring probabilities, and just above the highest.
    Args: probabilities: [n], none missing; labels: [n], 0 or 1.
    """
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
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


def _scale(vectors: NDArray) -> NDArray[np.float64]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def _plain_text(text: str) -> str:
    return re.sub(r"[*#_`\s]+", " ", text.lower())
