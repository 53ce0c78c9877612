"""Dispute Awareness by a reader and a few words: eight weights, fitted once, join what both find in
an answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from nfqa.files.paths import hash_file
from nfqa.metrics.coverage import list_passages, read_passages
from nfqa.metrics.dispute_rules import CUES, list_cues
from nfqa.metrics.systems import note_cut
from nfqa.models.loading import open_once
from nfqa.models.reader import READER_CUT, Reader, open_reader

HEAD = Path(__file__).with_name("dispute_head.json")
DISPUTE = "People disagree about this."  # the claim that the reader was taught
FEATURES = ("read", *CUES, "words")  # what the weights are of
# The probability from which a text is called aware, chosen on texts of data/training that neither the reader nor the
# weights were fitted on, and in folds of the labelled answers.
AWARE_FROM = 0.35


@dataclass(frozen=True)
class Detector:
    """Whether an answer makes its reader aware of the dispute: a probability, and a decision.

    Formula: aware from a probability of AWARE_FROM on. With P(p) the reader's probability that a
    passage p of the answer, of at most 60 words, states DISPUTE, and x the logit of max_p P(p), six
    cues, 0 or 1, of the keyword rules, and ln of the words, it is
        P(p) of an answer of one passage,
        1 / (1 + exp(-w . x - b)) of a longer one.
    English alone.
    Args: weights: w, in the order of FEATURES; intercept: b. Both were fitted by logistic
        regression on 200 labelled example answers of DebateQA's release and on written ones
        (`tools/train_dispute.py`).
    Source: this project's.
    """

    reader: Reader
    weights: tuple[float, ...]
    intercept: float
    name: str = "made"

    @property
    def signature(self) -> str:
        """Which weights, features and reader."""
        return f"detector:{self.name}|unit:passage|v5|{self.reader.signature}"

    def decide(self, texts: Sequence[str]) -> pd.DataFrame:
        """score, 1 for aware and 0 for not, probability and note of each answer; 0 for one without
        a sentence.
        """
        described = self.describe(texts)
        weighed = expit(described[[*FEATURES]].to_numpy() @ np.array(self.weights) + self.intercept)
        is_short = described.passages == 1
        probability = pd.Series(weighed).mask(is_short, expit(described.read)).fillna(0)
        aware = probability >= AWARE_FROM
        return pd.DataFrame({"probability": probability, "score": aware.astype(float), "note": described.note})

    def describe(self, texts: Sequence[str]) -> pd.DataFrame:
        """The passages of each answer (how many), FEATURES (`read` is NaN without a passage), and a
        note of a cut.
        """
        passages = list_passages(texts, [DISPUTE] * len(texts))
        most = logit(read_passages(passages, self.reader))
        cues = pd.DataFrame([list_cues(text) for text in texts], columns=CUES, dtype=float)
        notes = pd.Series(note_cut(passages, self.reader, READER_CUT), dtype=object)
        words = np.log([max(1, len(text.split())) for text in texts])
        return cues.assign(read=most, words=words, passages=[*map(len, passages)], note=notes)


@open_once
def open_detector(reader: Reader | None = None) -> Detector:
    """The detector that comes with nfqa. Args: reader: by default
    `nfqa.models.reader.open_reader`'s.
    """
    fitted = json.loads(HEAD.read_text(encoding="utf-8"))
    weights = tuple(fitted["weights"][name] for name in FEATURES)
    return Detector(reader or open_reader(), weights, fitted["intercept"], hash_file(HEAD)[:12])
