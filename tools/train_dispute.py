"""`python -m tools.train_dispute`: the weights of D.A.'s detector anew; three minutes.

A logistic regression on what the detector finds in answers of several passages (`nfqa.metrics.dispute_detector`):
200 of DebateQA's example answers, which a language model labelled, and the answers of data/training, which count as
much together. No other labelled answer is seen. It prints how thresholds decide on the labelled answers, each by
weights that have not seen its question, and on the written answers that were left out.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from nfqa.files.paths import find_root
from nfqa.metrics.dispute_detector import FEATURES, HEAD, Detector
from reproduction.data.load import load, read_dispute_labels
from reproduction.open import open_lab
from reproduction.studies.decisions import FITTED_ON, detect_unseen, fit_detector, read_written_answers

THRESHOLDS = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


def main() -> int:
    """Fit and write the weights; returns the exit code."""
    root = find_root()
    answers, written = read_dispute_labels(root, load(FITTED_ON, root=root)), read_written_answers(root)
    unfitted = Detector(open_lab("debateqa/table_03").reader, (0.0,) * len(FEATURES), 0.0)
    labelled, beside = (pd.concat([rows, unfitted.describe(rows.text.tolist())], axis=1) for rows in (answers, written))
    fitted = fit_detector(labelled, beside)
    weights = dict(zip(FEATURES, fitted.coef_[0].round(4).tolist(), strict=True))
    made = {"weights": weights, "intercept": round(float(fitted.intercept_[0]), 4), "answers": len(answers)}
    HEAD.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    left_out = beside[beside.left_out & (beside.passages > 1)]
    both = [
        (answers.label, detect_unseen(answers, unfitted, written).probability),
        (left_out.label, fitted.predict_proba(left_out[[*FEATURES]])[:, 1]),
    ]
    for threshold in THRESHOLDS:
        shares = [balanced_accuracy_score(labels, said >= threshold) for labels, said in both]
        print(
            f"from {threshold}: mean recall of both labels {shares[0]:.3f} and {shares[1]:.3f}, {np.mean(shares):.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
