"""Ways to tell whether an answer is aware of the dispute, as columns of tables take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nfqa.lab.experiments.debate_systems import measure_awareness
from nfqa.lab.experiments.diversity import Column
from nfqa.metrics.dispute_detector import Detector, read_sentences

if TYPE_CHECKING:
    from nfqa.debates import DebateSet
    from nfqa.lab.debate_lab import DebateLab

DETECTOR = "nfqa.metrics.dispute_detector:Detector"


@dataclass(frozen=True)
class Detection:
    """One way: `detect` gives 1, 0 or NaN for each answer."""

    name: str
    detect: Callable[[Sequence[str]], NDArray[np.float64]]
    signature: str
    kernel: str

    def measure(self, dataset: DebateSet) -> Column:
        """The column of a data set's systems."""
        return measure_awareness(dataset, self.detect, self.name, self.signature, self.kernel)


def measure_all(lab: DebateLab, dataset: DebateSet) -> list[Column]:
    """The detector's column, and the judge's where a language model fills the role."""
    return [open_detector(lab).measure(dataset)]


def open_detector(lab: DebateLab) -> Detection:
    """The embedded detector over the lab's embedder."""
    embedder = lab.embedder
    detector = Detector(embedder, read_sentences(), embedder_identity=embedder.spec.identity)
    return Detection(
        "da_detector", lambda texts: detector.decide(texts).astype(np.float64), detector.signature, DETECTOR
    )
