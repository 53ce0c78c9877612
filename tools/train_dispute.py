"""`python -m tools.train_dispute`: the detector anew, from labelled answers and data/training; two minutes.

First its model of single sentences, from data/training/dispute_sentences.csv. Then its heads.

Ten heads, each fitted without the answers to a tenth of the questions, and one of all answers, for texts that have no
label. Beside them count the longer texts of data/training that the reader was trained on, half as much in all. The
threshold is one for all heads: it has the highest mean of both labels' recalls over the labelled answers, each by the
head that has not seen its question, and over the longer texts that the reader was not trained on. An answer without a
known question is a question of its own. Answers and questions are kept as hashes, beside the 2,000 words that the
answers have most, whichever their labels. The packaged heads were fitted on 200 answers of nine runs too, which are not
public: heads that are trained anew are others.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import hstack
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedGroupKFold

from nfqa.files.paths import find_root
from nfqa.metrics.dispute_detector import (
    HEADS,
    SENTENCES,
    Detector,
    Head,
    Sentences,
    hash_text,
    is_short,
    make_counter,
    scale_cues,
)
from nfqa.models.reader import open_reader
from reproduction.data.load import LABELLED, load, read_dispute_labels
from reproduction.studies.decisions import fit_head
from tools.train_reader import WRITTEN, read_written

FOLDS = 10
THRESHOLDS = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)


_GROUPS = {
    "dispute_stated": "aware", "views_differ": "aware", "two_sides": "aware",
    "one_side_for": "for", "one_side_against": "against",
}  # fmt: skip
_PENALTY = 10.0  # inverse strength of the regression, by cross-validation over topics


def fit_sentences() -> Sentences:
    """The model of single sentences, fitted on the texts that were written for it."""
    table = pd.read_csv(WRITTEN, dtype=str, keep_default_na=False)
    counted = make_counter(min_df=2)
    features = hstack([counted.fit_transform(table.text), scale_cues(table.text)], format="csr")
    fitted = LogisticRegression(C=_PENALTY, max_iter=5_000).fit(features, table.kind.map(_GROUPS).fillna("none"))
    grams = counted.get_feature_names_out()
    return Sentences(fitted.classes_.astype(str), grams.astype(str), counted.idf_, fitted.coef_, fitted.intercept_)


def decide(head: Head, described: NDArray) -> NDArray:
    """A head's probabilities."""
    return np.asarray(expit(np.nan_to_num(described) @ head.slopes + head.intercept))


def main() -> int:
    """Fit and write all heads; returns the exit code."""
    root = find_root()
    sentences, made_of = fit_sentences(), hashlib.sha256(WRITTEN.read_bytes()).hexdigest()[:12]
    np.savez_compressed(SENTENCES, made_of=made_of, **vars(sentences))
    labelled = pd.concat([read_dispute_labels(root, load(name, root=root)) for name in LABELLED], ignore_index=True)
    groups = labelled.question_text.where(labelled.question_text != "", labelled.dataset + labelled.question).to_numpy()
    labels = labelled.label.to_numpy()
    counted = TfidfVectorizer(min_df=3, max_df=0.8, max_features=2_000, sublinear_tf=True).fit(labelled.text)
    words = dict(zip(counted.get_feature_names_out(), counted.idf_.round(4).tolist(), strict=True))
    detector = Detector(sentences, words, {}, {}, "", *[open_reader("embedded")] * 2)
    described = detector.describe(labelled.text.tolist())
    known = set(pd.read_csv(WRITTEN).text)
    written = [
        [pair for pair in part["statements"] if pair.answer not in known and not is_short(pair.answer)]
        for part in read_written(random.Random(0))
    ]
    beside, left_out = (
        (detector.describe([pair.answer for pair in part]), np.array([int(pair.stated) for pair in part]))
        for part in written
    )
    named = [labelled.text, labelled.dataset + ":" + labelled.question, labelled.question_text]
    heads, left, unseen = {}, {}, np.zeros(len(labels))
    for fold, (seen, left_out_rows) in enumerate(StratifiedGroupKFold(FOLDS).split(described, labels, groups)):
        heads[str(fold)] = fit_head(described[seen], labels[seen], groups[seen], beside=beside)
        unseen[left_out_rows] = decide(heads[str(fold)], described[left_out_rows])
        left[str(fold)] = sorted({hash_text(text) for texts in named for text in texts.iloc[left_out_rows] if text})
    heads["all"] = fit_head(described, labels, groups, beside=beside)
    both = ((labels, unseen), (left_out[1], decide(heads["all"], left_out[0])))
    recalls = {t: np.mean([balanced_accuracy_score(truth, said >= t) for truth, said in both]) for t in THRESHOLDS}
    heads = {name: replace(head, threshold=max(recalls, key=recalls.__getitem__)) for name, head in heads.items()}
    made = {name: {k: np.round(v, 4).tolist() for k, v in asdict(head).items()} for name, head in heads.items()}
    about = {"labelled": labelled.groupby("dataset").size().to_dict(), "questions": len(set(groups)), "words": words}
    lines = (
        f"{json.dumps(name)}: {json.dumps(part)}" for name, part in (about | {"left_out": left, "heads": made}).items()
    )
    HEADS.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
