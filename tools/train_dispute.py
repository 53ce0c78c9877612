"""`python -m tools.train_dispute`: the detector's heads anew, from the labelled answers; a minute.

Ten heads, each fitted without the answers to a tenth of the questions, and one of all answers, for texts that have no
label. An answer without a known question is a question of its own. Answers and questions are kept as hashes, beside the
2,000 words that the answers have most, whichever their labels.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import StratifiedGroupKFold

from nfqa.files.paths import find_root
from nfqa.metrics.dispute_detector import HEADS, Detector, fit_sentences, hash_text
from reproduction.data.load import LABELLED, load, read_dispute_labels
from reproduction.studies.decisions import fit_head

FOLDS = 10


def main() -> int:
    """Fit and write all heads; returns the exit code."""
    root = find_root()
    labelled = pd.concat([read_dispute_labels(root, load(name, root=root)) for name in LABELLED], ignore_index=True)
    groups = labelled.question_text.where(labelled.question_text != "", labelled.dataset + labelled.question).to_numpy()
    labels = labelled.label.to_numpy()
    counted = TfidfVectorizer(min_df=3, max_df=0.8, max_features=2_000, sublinear_tf=True).fit(labelled.text)
    words = dict(zip(counted.get_feature_names_out(), counted.idf_.round(4).tolist(), strict=True))
    described = Detector(fit_sentences(), words, {}, {}, "").describe(labelled.text.tolist())
    named = [labelled.text, labelled.dataset + ":" + labelled.question, labelled.question_text]
    heads, left = {}, {}
    for fold, (seen, left_out) in enumerate(StratifiedGroupKFold(FOLDS).split(described, labels, groups)):
        heads[str(fold)] = fit_head(described[seen], labels[seen], groups[seen])
        left[str(fold)] = sorted({hash_text(text) for texts in named for text in texts.iloc[left_out] if text})
    heads["all"] = fit_head(described, labels, groups)
    made = {name: {k: np.round(v, 4).tolist() for k, v in asdict(head).items()} for name, head in heads.items()}
    about = {"labelled": labelled.groupby("dataset").size().to_dict(), "questions": len(set(groups)), "words": words}
    lines = (
        f"{json.dumps(name)}: {json.dumps(part)}" for name, part in (about | {"left_out": left, "heads": made}).items()
    )
    HEADS.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
