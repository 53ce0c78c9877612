"""Dispute Awareness without a language model: written sentences teach the words, labelled real answers the decision."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.metrics.coverage import split_answer
from nfqa.metrics.dispute_rules import list_cues

SENTENCES, HEADS = (
    Path(__file__).parents[1] / "data" / name for name in ("dispute_sentences.csv", "dispute_heads.json")
)
_GROUPS = {
    "dispute_stated": "aware", "views_differ": "aware", "two_sides": "aware",
    "one_side_for": "for", "one_side_against": "against",
}  # fmt: skip
# Chosen by cross-validation over topics on the sentences alone.
_PENALTY = 10.0  # inverse strength of the sentences' regression
_CUE_SCALE = 0.3  # beside n-grams of unit length


@dataclass(frozen=True)
class Head:
    """A logistic regression over the features of an answer, and the probability from which it is called aware."""

    slopes: tuple[float, ...]
    intercept: float
    threshold: float


@dataclass(frozen=True)
class Detector:
    """Whether an answer makes its reader aware of the dispute: a probability, and a decision at a threshold.

    A sentence has four probabilities, by multinomial logistic regression over character n-grams inside words (TF-IDF)
    and the cues of the keyword rules: that it is aware, attributes a side for, or one against, or none of these. An
    answer is read sentence by sentence, and every two neighbours as one. With these units u it has eight features,
        s_1 = logit max_u P(aware | u),  s_2 = sqrt(max_u P(for | u) max_u P(against | u)),
    and the six cues, over which a second logistic regression gives its probability. Deterministic. English alone; a
    dispute that is denied ("nobody disputes") is taken for one, and one that a single short sentence states is often
    missed: the labelled answers, of 47 words and more, teach neither.
    Args: sentences: the model of sentences, fitted; heads: by fold, and "all" for answers that no head was fitted on;
        fold_of: the fold of each answer that heads were fitted on, by the hash of its text: it is decided by the head
        that has not seen its question; name: of what all this was fitted on.
    Source: ours. Differs from: multiple-instance learning, in that labels of single sentences are available.
    """

    sentences: Any
    heads: dict[str, Head]
    fold_of: dict[str, str]
    name: str

    @property
    def signature(self) -> str:
        """Which sentences, labelled answers and features."""
        return f"detector:{self.name}|unit:sentence+pair|v2"

    def decide(self, texts: Sequence[str]) -> pd.DataFrame:
        """score, 1 for aware and 0 for not, and probability of each answer; 0 for one without a sentence."""
        heads = [self.heads[self.fold_of.get(hash_answer(text), "all")] for text in texts]
        logits = [row @ head.slopes + head.intercept for row, head in zip(self.describe(texts), heads, strict=True)]
        found = pd.DataFrame({"probability": 1 / (1 + np.exp(-np.array(logits, dtype=np.float64)))}).fillna(0.0)
        return found.assign(score=(found.probability >= [head.threshold for head in heads]).astype(float))

    def describe(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The features of each answer, [len(texts), 8]; NaN for one without a sentence."""
        split = [split_answer(text) for text in texts]
        units = [[*own, *(f"{first} {second}" for first, second in pairwise(own))] for own in split]
        flat = [unit for own in units for unit in own]
        found = self.sentences.predict_proba(flat) if flat else np.zeros((0, len(self.sentences.classes_)))
        parts = np.split(found, np.cumsum([len(own) for own in units])[:-1]) if texts else []
        return np.array([
            [*pool_units(pd.DataFrame(part, columns=self.sentences.classes_)), *list_cues(text)]
            for part, text in zip(parts, texts, strict=True)
        ]).reshape(-1, 8)  # fmt: skip


@cache
def open_detector() -> Detector:
    """The detector that comes with nfqa; its model of sentences is fitted here, in less than a second."""
    made = json.loads(HEADS.read_text(encoding="utf-8"))
    heads = {fold: Head(**head) for fold, head in made["heads"].items()}
    fold_of = {answer: fold for fold, answers in made["answers"].items() for answer in answers}
    name = "+".join(hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in (SENTENCES, HEADS))
    return Detector(fit_sentences(), heads, fold_of, name)


def fit_sentences() -> Any:
    """The model of single sentences, a scikit-learn pipeline fitted on nfqa/data/dispute_sentences.csv."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer

    table = pd.read_csv(SENTENCES, dtype=str, keep_default_na=False)
    grams = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 5), min_df=2, sublinear_tf=True, preprocessor=_plain_text
    )
    model = LogisticRegression(C=_PENALTY, max_iter=5_000)
    pipeline = make_pipeline(make_union(grams, FunctionTransformer(_scale_cues)), model)
    return pipeline.fit(table.text, table.kind.map(_GROUPS).fillna("none"))


def fit_head(described: NDArray, labels: NDArray, groups: NDArray, *, folds: int = 10) -> Head:
    """A head for labelled answers, whose threshold maximises the mean of both labels' recalls on left-out groups.

    Args: described: [n, 8], as `Detector.describe`; labels: [n], 0 or 1; groups: [n], such as questions, never split.
    Source: scikit-learn's TunedThresholdClassifierCV.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold, TunedThresholdClassifierCV

    folds = min(folds, np.bincount(labels).min())
    splits = list(StratifiedGroupKFold(folds).split(described, labels, groups))
    tuned = TunedThresholdClassifierCV(LogisticRegression(max_iter=1_000), cv=splits).fit(described, labels)
    fitted = tuned.estimator_
    return Head(tuple(fitted.coef_[0].tolist()), float(fitted.intercept_[0]), float(tuned.best_threshold_))


def pool_units(probabilities: pd.DataFrame) -> tuple[float, float]:
    """s_1 and s_2 of an answer from the probabilities of its units, one row a unit; NaN without one."""
    most = probabilities.max()
    aware = np.clip(most["aware"], 1e-6, 1 - 1e-6)
    return float(np.log(aware) - np.log1p(-aware)), float(np.sqrt(most["for"] * most["against"]))


def hash_answer(text: str) -> str:
    """What stands for an answer's text, however it is spaced, where the text itself can't be kept."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def _scale_cues(texts: Sequence[str]) -> NDArray[np.float64]:
    return _CUE_SCALE * np.array([list_cues(text) for text in texts], dtype=np.float64).reshape(-1, 6)


def _plain_text(text: str) -> str:
    return re.sub(r"[*#_`\s]+", " ", text.lower())
