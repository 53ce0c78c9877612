"""`python -m tools.train_dispute`: the detector's heads anew, from labelled answers and data/training; two minutes.

Ten heads, each fitted without the answers to a tenth of the questions, and one of all answers, for texts that have no
label. Beside them count the longer texts of data/training that the reader was trained on, half as much in all. The
threshold is one for all heads: it has the highest mean of both labels' recalls over the labelled answers, each by the
head that has not seen its question, and over the longer texts that the reader was not trained on. An answer without a
known question is a question of its own. Answers and questions are kept as hashes, beside the 2,000 words that the
answers have most, whichever their labels.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedGroupKFold

from nfqa.files.paths import find_root
from nfqa.metrics.dispute_detector import HEADS, SENTENCES, Detector, Head, fit_sentences, hash_text, is_short
from nfqa.models.reader import READERS, Reader, open_reader
from reproduction.data.load import LABELLED, load, read_dispute_labels
from reproduction.studies.decisions import fit_head
from tools.train_coverage import Pair
from tools.train_reader import read_written

FOLDS = 10
Written = tuple[NDArray, NDArray]  # texts' features, and their labels
THRESHOLDS = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)


def decide(head: Head, described: NDArray) -> NDArray:
    """A head's probabilities."""
    return np.asarray(expit(np.nan_to_num(described) @ head.slopes + head.intercept))


def fit_heads(
    described: NDArray, labels: NDArray, groups: NDArray, folds: list, beside: Written, left_out: Written
) -> dict[str, Head]:
    """The heads of one reader, by fold, and that of all answers; one threshold for all."""
    heads, unseen = {}, np.zeros(len(labels))
    for fold, (seen, left) in enumerate(folds):
        heads[str(fold)] = fit_head(described[seen], labels[seen], groups[seen], beside=beside)
        unseen[left] = decide(heads[str(fold)], described[left])
    heads["all"] = fit_head(described, labels, groups, beside=beside)
    both = ((labels, unseen), (left_out[1], decide(heads["all"], left_out[0])))
    recalls = {t: np.mean([balanced_accuracy_score(truth, said >= t) for truth, said in both]) for t in THRESHOLDS}
    return {name: replace(head, threshold=max(recalls, key=recalls.__getitem__)) for name, head in heads.items()}


def choose_short_from(reader: Reader, pairs: Sequence[Pair]) -> float:
    """The threshold for short texts: the highest mean of both labels' recalls on those that were left out."""
    probability, labels = reader.read([pair[:2] for pair in pairs]), [int(pair.stated) for pair in pairs]
    recalls = {t: balanced_accuracy_score(labels, probability >= t) for t in THRESHOLDS}
    return max(recalls, key=recalls.__getitem__)


def main() -> int:
    """Fit and write all heads of each reader; returns the exit code."""
    root = find_root()
    labelled = pd.concat([read_dispute_labels(root, load(name, root=root)) for name in LABELLED], ignore_index=True)
    groups = labelled.question_text.where(labelled.question_text != "", labelled.dataset + labelled.question).to_numpy()
    labels = labelled.label.to_numpy()
    counted = TfidfVectorizer(min_df=3, max_df=0.8, max_features=2_000, sublinear_tf=True).fit(labelled.text)
    words = dict(zip(counted.get_feature_names_out(), counted.idf_.round(4).tolist(), strict=True))
    folds = list(StratifiedGroupKFold(FOLDS).split(labelled, labels, groups))
    named = [labelled.text, labelled.dataset + ":" + labelled.question, labelled.question_text]
    left = {
        str(fold): sorted({hash_text(text) for texts in named for text in texts.iloc[rows] if text})
        for fold, (_, rows) in enumerate(folds)
    }
    known = set(pd.read_csv(SENTENCES).text)
    written = [
        [pair for pair in part["statements"] if pair.answer not in known] for part in read_written(random.Random(0))
    ]
    made, short_from = {}, {}
    for name in READERS:
        detector = Detector(fit_sentences(), words, {}, {}, "", open_reader(name))
        beside, left_out = (
            (detector.describe([pair.answer for pair in part]), np.array([int(pair.stated) for pair in part]))
            for part in ([pair for pair in part if not is_short(pair.answer)] for part in written)
        )
        heads = fit_heads(detector.describe(labelled.text.tolist()), labels, groups, folds, beside, left_out)
        rounded = {fold: {k: np.round(v, 4).tolist() for k, v in asdict(head).items()} for fold, head in heads.items()}
        made[name], short_from[name] = rounded, choose_short_from(detector.reader, written[1])
    about = {"labelled": labelled.groupby("dataset").size().to_dict(), "questions": len(set(groups)), "words": words}
    about |= {"left_out": left, "short_from": short_from, "heads": made}
    lines = (f"{json.dumps(name)}: {json.dumps(part)}" for name, part in about.items())
    HEADS.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
