"""Dispute Awareness without a language model: written texts teach words and reading, labelled answers the decision."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import hstack
from scipy.special import expit, logit, softmax

from nfqa.metrics.coverage import PASSAGE, cut_passages, split_answer
from nfqa.metrics.dispute_rules import list_cues
from nfqa.metrics.systems import note_cut
from nfqa.models.loading import open_once
from nfqa.models.reader import READER_CUT, Reader, open_reader
from nfqa.models.roles import SMOLLM2

_DATA = Path(__file__).parent
SENTENCES, HEADS = _DATA / "dispute_sentences.npz", _DATA / "dispute_heads.json"
_CUE_SCALE = 0.3  # beside n-grams of unit length; chosen by cross-validation over topics on the sentences alone
_SHORTEST = 45  # words of a labelled answer
DISPUTE = "People disagree about this."  # the claim that the reader was taught
READ = 5  # features by the reader
# The probability from which a short text is called aware, chosen on texts of data/training no reader was trained on.
SHORT_FROM = {"embedded": 0.4, SMOLLM2: 0.35}


@dataclass(frozen=True)
class Head:
    """A logistic regression over the features of an answer, and the probability from which it is called aware."""

    slopes: tuple[float, ...]
    intercept: float
    threshold: float


@dataclass(frozen=True)
class Sentences:
    """The model of single sentences: multinomial logistic regression over character n-grams and cues.

    Its coefficients were fitted once by `tools/train_dispute.py`, so that they depend neither on the version of
    scikit-learn nor on the processor. grams: the n-grams; idf: of each; slopes: [kinds, grams + 6]; intercept: [kinds].
    """

    kinds: NDArray[np.str_]
    grams: NDArray[np.str_]
    idf: NDArray[np.float64]
    slopes: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def predict(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The probability of each kind, [len(texts), kinds]; at least one text."""
        counted = make_counter(vocabulary=self.grams.tolist())
        counted.idf_ = self.idf
        features = hstack([counted.transform(texts), scale_cues(texts)], format="csr")
        return softmax(features @ self.slopes.T + self.intercept, axis=1)


@dataclass(frozen=True)
class Detector:
    """Whether an answer makes its reader aware of the dispute: a probability, and a decision at a threshold.

    A sentence has four probabilities, by multinomial logistic regression over character n-grams inside words (TF-IDF)
    and the cues of the keyword rules: that it is aware, attributes a side for, or one against, or none of these. An
    answer is read sentence by sentence, and every two neighbours as one. With these units u it has the features
        s_1 = logit max_u P(aware | u),  s_2 = sqrt(max_u P(for | u) max_u P(against | u)),
    the six cues, and w (1, TF-IDF of 2,000 words), w = min(1, words / 45), as the labelled answers have 45 or more.
    With r(t) the reader's logit that a text t states DISPUTE, there are the largest and the mean r of its passages of
    60 words, the largest r of a sentence, the mean of the two largest, and the logarithm of its words.
    A second logistic regression over all of them gives its probability. Of a text of one passage the probability is
    `short_reader`'s own, and counts from SHORT_FROM on. Deterministic. English alone.
    Args: sentences: the model of sentences; words: the inverse document frequency of each; heads: by fold, and
        "all" for what no head was fitted on; fold_of: the fold of each labelled answer and its question, by `hash_text`
        of the answer, DATASET:QUESTION and the question; name: of what all this was fitted on; reader: reads the
        passages and sentences of longer texts; short_reader: reads short ones.
    Source: this project's. Differs from: multiple-instance learning, in that labels of single sentences are available.
    """

    sentences: Sentences
    words: dict[str, float]
    heads: dict[str, Head]
    fold_of: dict[str, str]
    name: str
    reader: Reader
    short_reader: Reader

    @property
    def signature(self) -> str:
        """Which sentences, labelled answers and features."""
        short = "" if self.short_reader is self.reader else f"|short:{self.short_reader.signature}"
        return f"detector:{self.name}|unit:sentence+pair+word+passage|v4|{self.reader.signature}{short}"

    def decide(self, texts: Sequence[str], *questions: Sequence[str]) -> pd.DataFrame:
        """score, 1 for aware and 0 for not, probability and note of each answer; 0 for one without a sentence.

        Args: questions: of each answer, by name or text; a head decides that was fitted without this question.
        """
        rows = [map(hash_text, row) for row in zip(texts, *questions, strict=True)]
        heads = [self.heads[next(filter(None, map(self.fold_of.get, row)), "all")] for row in rows]
        short = np.array([is_short(text) for text in texts], dtype=np.bool_)
        thresholds = [head.threshold for head in heads]
        probability, least = np.zeros(len(texts)), np.where(short, SHORT_FROM[self.short_reader.name], thresholds)
        brief = [(texts[place], DISPUTE) for place in np.flatnonzero(short).tolist()]
        probability[short] = self.short_reader.read(brief)
        longer = np.flatnonzero(~short).tolist()
        described = self.describe([texts[place] for place in longer])
        chosen = [heads[place] for place in longer]
        logits = [row @ head.slopes + head.intercept for row, head in zip(described, chosen, strict=True)]
        probability[longer] = np.nan_to_num(expit(np.array(logits, dtype=np.float64)))
        notes = np.full(len(texts), "", dtype=object)
        notes[short] = note_cut([[pair] for pair in brief], self.short_reader, READER_CUT)
        notes[~short] = note_cut([_list_read(texts[place]) for place in longer], self.reader, READER_CUT)
        return pd.DataFrame({"probability": probability, "score": (probability >= least).astype(float), "note": notes})

    def describe(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The features of each answer, [len(texts), 9 + READ + len(words)]; NaN for one without a sentence."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        split = [split_answer(text) for text in texts]
        runs = [[*sentences, *map(" ".join, pairwise(sentences))] for sentences in split]
        units = pd.Series(runs, dtype=object).explode().dropna()
        probabilities = self.sentences.predict([*units, ""])[:-1]
        most = pd.DataFrame(probabilities, units.index, self.sentences.kinds).groupby(level=0).max()
        pooled = pool_units(most.reindex(range(len(texts))))
        cues = np.array([list_cues(text) for text in texts], dtype=np.float64).reshape(-1, 6)
        known = TfidfVectorizer(vocabulary=list(self.words), sublinear_tf=True)
        known.idf_ = np.array(list(self.words.values()))
        share = np.array([[min(1.0, len(text.split()) / _SHORTEST)] for text in texts]).reshape(-1, 1)
        read = self._read(texts, split)
        return np.hstack([pooled, cues, read, share, share * known.transform([*texts, ""]).toarray()[:-1]])

    def _read(self, texts: Sequence[str], split: Sequence[list[str]]) -> NDArray[np.float64]:
        """The features by the reader, [len(texts), READ]."""
        passages, sentences = (
            pd.Series(parts, dtype=object).explode().dropna()
            for parts in ([cut_passages(each) for each in split], split)
        )
        logits = [
            pd.Series(logit(self.reader.read([(part, DISPUTE) for part in parts])), parts.index, dtype=np.float64)
            for parts in (passages, sentences)
        ]
        of_passages, of_sentences = (each.groupby(level=0) for each in logits)
        two = of_sentences.nlargest(2).groupby(level=0).mean() if len(sentences) else pd.Series(dtype=np.float64)
        words = pd.Series([np.log1p(len(text.split())) for text in texts], dtype=np.float64)
        columns = [of_passages.max(), of_passages.mean(), of_sentences.max(), two]
        return np.column_stack([*(column.reindex(range(len(texts))) for column in columns), words])


def _list_read(text: str) -> list[tuple[str, str]]:
    """What the reader of longer texts reads of one: its passages and its sentences."""
    sentences = split_answer(text)
    return [(part, DISPUTE) for part in (*cut_passages(sentences), *sentences)]


@open_once
def open_detector(reader: str = "embedded") -> Detector:
    """The detector that comes with nfqa.

    Args: reader: of short texts, as `nfqa.models.reader.open_reader` has it.
    """
    short_reader, fitted = open_reader(reader), json.loads(HEADS.read_text(encoding="utf-8"))
    heads = {fold: Head(**head) for fold, head in fitted["heads"].items()}
    fold_of = {key: fold for fold, keys in fitted["left_out"].items() for key in keys}
    sentences, made_of = read_sentences()
    name = f"{made_of}+{hashlib.sha256(HEADS.read_bytes()).hexdigest()[:12]}"
    return Detector(sentences, fitted["words"], heads, fold_of, name, open_reader("embedded"), short_reader)


def read_sentences() -> tuple[Sentences, str]:
    """The model of sentences that comes with nfqa, and the hash of the texts that it was fitted on."""
    with np.load(SENTENCES) as arrays:
        return Sentences(**{field.name: arrays[field.name] for field in fields(Sentences)}), str(arrays["made_of"])


def make_counter(**options: Any) -> Any:
    """What counts the character n-grams of a sentence, as TF-IDF."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, preprocessor=_plain_text, **options
    )


def is_short(text: str) -> bool:
    """Whether a text is one passage: the reader alone decides on it."""
    return any(map(str.isalnum, text)) and len(text.split()) <= PASSAGE


def pool_units(most: pd.DataFrame) -> NDArray[np.float64]:
    """s_1 and s_2 of answers, [n, 2], from the largest probabilities of their units; NaN for an answer without one."""
    return np.column_stack([logit(most["aware"].clip(1e-6, 1 - 1e-6)), np.sqrt(most["for"] * most["against"])])


def hash_text(text: str) -> str:
    """What stands for a text, however it is spaced, where the text itself can't be kept."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def scale_cues(texts: Sequence[str]) -> NDArray[np.float64]:
    """The cues of texts beside n-grams, [len(texts), 6]."""
    return _CUE_SCALE * np.array([list_cues(text) for text in texts], dtype=np.float64).reshape(-1, 6)


def _plain_text(text: str) -> str:
    return re.sub(r"[*#_`\s]+", " ", text.lower())
