"""Dispute Awareness without a language model: a detector trained on sentences that were written for it.

No real answer is seen in training. Sentences of data/dispute_sentences.csv teach what a single sentence does; answers
composed of other such sentences teach how an answer's sentences add up.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from nfqa.metrics.coverage import split_answer
from nfqa.metrics.dispute_rules import list_cues

Features = Literal["text_and_vectors", "text", "vectors"]
SENTENCES = Path(__file__).resolve().parents[3] / "data" / "dispute_sentences.csv"
THRESHOLD = 0.5  # of the calibrated probability
_COLUMNS = ("topic", "kind", "label", "text")
_AWARE = ("dispute_stated", "views_differ", "two_sides")
_SIDES = ("one_side_for", "one_side_against")
_PLAIN = (
    "position", "hedge", "benefits_and_risks", "circumstances", "complex_only", "fact", "linking", "other_dispute",
)  # fmt: skip
_CLASSES = ("aware", "for", "against")
# Chosen by cross-validation over topics on the sentences alone.
_PENALTY = 10.0  # inverse strength of the sentences' regression
_VECTOR_SCALE, _CUE_SCALE = 0.5, 0.3  # beside n-grams of unit length
_FOLDS = 10
_COMPOSED = 1_000  # answers that the calibration is fitted on
_SIZES = (4, 26)  # plain sentences of a composed answer, from and below
_OWN_GROUP = ("general", "long")  # topics that are none: each of their sentences is a group of its own


class SentenceEmbedder(Protocol):
    """What gives unit-length sentence vectors, [len(texts), D]."""

    def embed_sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors."""
        ...


@dataclass(frozen=True)
class Labelled:
    """The sentences that a detector is trained on; `labels` is 1 where a sentence alone makes its reader aware."""

    texts: tuple[str, ...]
    kinds: tuple[str, ...]
    topics: tuple[str, ...]
    labels: tuple[int, ...]
    sha256: str

    @property
    def classes(self) -> NDArray[np.str_]:
        """aware, for or against (one side alone), or plain; [n]."""
        named = {**dict.fromkeys(_AWARE, "aware"), _SIDES[0]: "for", _SIDES[1]: "against"}
        return np.array([named.get(kind, "plain") for kind in self.kinds])

    @property
    def folds(self) -> NDArray[np.int64]:
        """The fold of each sentence, [n]: sentences of one topic stand in one fold, by a hash of its name."""
        own = [
            f"{topic}|{text}" if topic.startswith(_OWN_GROUP) else topic
            for topic, text in zip(self.topics, self.texts, strict=True)
        ]
        return np.array([int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % _FOLDS for name in own])


def read_sentences(path: Path = SENTENCES) -> Labelled:
    """Read the training sentences.

    Raises: ValueError naming file, line and field for a table that doesn't fit, a kind or label that is unknown, a
        label that contradicts its kind, or a text that is empty or stands twice.
    """
    try:
        raw = path.read_bytes()
        rows = list(csv.DictReader(raw.decode("utf-8").splitlines(keepends=True), strict=True))
    except FileNotFoundError:
        raise ValueError(f"{path}: not there; run nfqa from its checkout") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a CSV file in UTF-8 ({error})") from None
    if not rows or tuple(rows[0]) != _COLUMNS:
        raise ValueError(f"{path}: line 1: expected the columns {', '.join(_COLUMNS)}, and rows below them")
    seen: set[str] = set()
    for number, row in enumerate(rows, start=1):
        where = f"{path}: row {number}"
        if row["kind"] not in (*_AWARE, *_SIDES, *_PLAIN):
            raise ValueError(f"{where}: kind is {row['kind']!r}; known: {', '.join((*_AWARE, *_SIDES, *_PLAIN))}")
        if row["label"] != str(int(row["kind"] in _AWARE)):
            raise ValueError(f"{where}: label is {row['label']!r}, but the kind {row['kind']} has the other one")
        if not (row["text"] or "").strip() or row["text"] in seen:
            raise ValueError(f"{where}: text is empty or stands twice; give each sentence once")
        seen.add(row["text"])
    columns = [tuple(row[column] for row in rows) for column in ("text", "kind", "topic")]
    labels = tuple(int(row["label"]) for row in rows)
    return Labelled(columns[0], columns[1], columns[2], labels, hashlib.sha256(raw).hexdigest())


class Detector:
    """A probability that an answer makes its reader aware of the dispute; fitted at first use, in seconds.

    A sentence has three probabilities, each by logistic regression over character n-grams inside words (TF-IDF), the
    cues of the keyword rules and the sentence vector: that it is aware, attributes a side for, or one against. An
    answer is read sentence by sentence, and every two neighbours as one. It has two features, from these units u:
        s_1 = logit max_u P(aware | u),  s_2 = sqrt(max_u P(for | u) max_u P(against | u)),
    the second since two sides may stand far apart. A logistic regression over both gives the answer's probability; it
    is fitted on composed answers, with probabilities of sentences whose topic was left out of their fit.
    Deterministic: nothing is drawn but by a fixed seed.
    Source: ours. Differs from: multiple-instance learning, in that labels of single sentences are at hand.
    """

    def __init__(
        self,
        embedder: SentenceEmbedder | None,
        sentences: Labelled,
        *,
        features: Features = "text_and_vectors",
        embedder_identity: str = "",
    ) -> None:
        if features not in get_args(Features):
            raise ValueError(f"features is {features!r}; expected one of {', '.join(get_args(Features))}")
        if embedder is None and features != "text":
            raise ValueError(f"features is {features!r}, which needs an embedder; without one only 'text' works")
        self.sentences = sentences
        self.features = features
        self._embedder = embedder
        self._identity = embedder_identity

    @property
    def signature(self) -> str:
        """Which features, embedder, sentences and decision."""
        embedded = "" if self.features == "text" else f"|embedder:{self._identity}"
        return (
            f"detector:{self.features}{embedded}|sentences:{len(self.sentences.texts)}@{self.sentences.sha256[:12]}"
            f"|unit:sentence+pair|threshold:{THRESHOLD}|v1"
        )

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """P(aware) of each answer, [len(texts)]; 0 for one without a sentence."""
        sentences = [split_answer(text) for text in texts]
        found = np.zeros(len(texts))
        asked = [number for number, parts in enumerate(sentences) if parts]
        if asked:
            rows = [self.describe(sentences[number]) for number in asked]
            found[asked] = self._calibration.predict_proba(np.stack(rows))[:, 1]
        return found

    def decide(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which answers are aware, [len(texts)]."""
        return self.probabilities(texts) >= THRESHOLD

    def describe(self, sentences: Sequence[str]) -> NDArray[np.float64]:
        """The features of an answer, given as its sentences: s_1 and s_2, [2]."""
        pairs = [f"{first} {second}" for first, second in pairwise(sentences)]
        vectors = self._embed(sentences)
        joined = vectors[:-1] + vectors[1:]
        joined /= np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-12)
        return pool_units(self._model.predict([*sentences, *pairs], np.concatenate([vectors, joined])))

    def cross_validate(self) -> NDArray[np.float64]:
        """P(aware), P(for), P(against) of each training sentence, its topic left out of the fit; [n, 3]."""
        texts, classes, folds = self.sentences.texts, self.sentences.classes, self.sentences.folds
        vectors = self._embed(texts)
        found = np.zeros((len(texts), len(_CLASSES)))
        for fold in range(_FOLDS):
            kept, out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            if len(out):
                model = _SentenceModel([texts[i] for i in kept], vectors[kept], classes[kept], self.features)
                found[out] = model.predict([texts[i] for i in out], vectors[out])
        return found

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

        probabilities = self.cross_validate()
        composed = list(compose_answers(self.sentences, count=_COMPOSED))
        rows = np.stack([pool_units(probabilities[chosen]) for chosen, _ in composed])
        return LogisticRegression(C=10.0, max_iter=1_000).fit(rows, [label for _, label in composed])


class _SentenceModel:
    """How far a sentence is of each class.

    A row x of a sentence joins n-grams, cues and vector. The regressions are fitted on the eigenvectors of the n x n
    matrix of inner products, which gives the very weights of a fit on all columns, in a fraction of the time.
    """

    def __init__(self, texts: Sequence[str], vectors: NDArray, classes: NDArray, features: Features) -> None:
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


def pool_units(probabilities: NDArray) -> NDArray[np.float64]:
    """s_1 and s_2 of an answer from the class probabilities of its units, [units, 3] -> [2]."""
    aware, one, other = (float(probabilities[:, column].max()) for column in range(3))
    aware = min(max(aware, 1e-6), 1 - 1e-6)
    return np.array([np.log(aware) - np.log1p(-aware), np.sqrt(one * other)])


def compose_answers(sentences: Labelled, *, count: int, seed: int = 0) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Answers put together from sentences of one fold: the numbers of their sentences, and the label.

    4 to 25 plain sentences stand in each, in one of ten beside a dispute about something else. Half of the answers
    are aware: by one to three aware sentences or, one in four, by two sides that stand apart. A third of the others
    has one side alone.
    """
    generator = np.random.default_rng(seed)
    folds, kinds, classes = sentences.folds, np.array(sentences.kinds), sentences.classes
    plain = (classes == "plain") & (kinds != "other_dispute")
    for number in range(count):
        inside = folds == number % _FOLDS
        pools = {name: np.flatnonzero(inside & (classes == name)) for name in ("aware", "for", "against")}
        other = np.flatnonzero(inside & (kinds == "other_dispute"))
        background = np.flatnonzero(inside & plain)
        if not all(len(pool) for pool in (*pools.values(), background)):
            continue
        chosen = [generator.choice(background, generator.integers(*_SIZES))]
        if len(other) and generator.random() < 0.1:
            chosen.append(generator.choice(other, 1))
        kind = int(generator.integers(24))
        if kind < 9:
            chosen.append(generator.choice(pools["aware"], generator.integers(1, 4)))
        elif kind < 12:
            chosen += [generator.choice(pools["for"], 1), generator.choice(pools["against"], 1)]
        elif kind < 16:
            chosen.append(generator.choice(pools[("for", "against")[kind % 2]], 1))
        yield np.concatenate(chosen), int(kind < 12)


def _plain_text(text: str) -> str:
    return re.sub(r"[*#_`\s]+", " ", text.lower())
