"""`python -m tools.train_dispute`: the detector's heads anew, from the labelled answers; seconds.

Ten heads, each fitted without the answers to a tenth of the questions, and one of all answers, for texts that have no
label. An answer without a known question is a question of its own. Answers are kept as hashes of their texts.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold

from nfqa.data.load import LABELLED, load, read_dispute_labels
from nfqa.data.paths import find_root
from nfqa.metrics.dispute_detector import HEADS, Detector, fit_head, fit_sentences, hash_answer

FOLDS = 10


def main() -> int:
    """Fit and write all heads; returns the exit code."""
    root = find_root()
    labelled = pd.concat([read_dispute_labels(root, load(name, root=root)) for name in LABELLED], ignore_index=True)
    groups = labelled.question_text.where(labelled.question_text != "", labelled.dataset + labelled.question).to_numpy()
    labels = labelled.label.to_numpy()
    described = Detector(fit_sentences(), {}, {}, "").describe(labelled.text.tolist())
    heads, answers = {}, {}
    for fold, (seen, left_out) in enumerate(StratifiedGroupKFold(FOLDS).split(described, labels, groups)):
        heads[str(fold)] = fit_head(described[seen], labels[seen], groups[seen])
        answers[str(fold)] = sorted(map(hash_answer, labelled.text.iloc[left_out]))
    heads["all"] = fit_head(described, labels, groups)
    made = {name: {k: np.round(v, 6).tolist() for k, v in asdict(head).items()} for name, head in heads.items()}
    about = {"labelled": labelled.groupby("dataset").size().to_dict(), "questions": len(set(groups))}
    HEADS.write_text(json.dumps(about | {"heads": made, "answers": answers}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
