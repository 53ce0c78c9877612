"""Ways to tell whether an answer is aware of the dispute, as columns of tables take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nfqa.lab.experiments.debate_systems import measure_awareness
from nfqa.lab.experiments.diversity import Column
from nfqa.metrics.dispute_awareness import judge_awareness, sign_awareness
from nfqa.metrics.dispute_awareness import open_detector as open_embedded

if TYPE_CHECKING:
    from nfqa.data.records import QuestionSet
    from nfqa.lab.debate_lab import DebateLab


@dataclass(frozen=True)
class Detection:
    """One way: `detect` gives 1, 0 or NaN for each answer."""

    name: str
    detect: Callable[[Sequence[str]], NDArray[np.float64]]
    signature: str
    kernel: str

    def measure(self, dataset: QuestionSet) -> Column:
        """The column of a data set's systems."""
        return measure_awareness(dataset, self.detect, self.name, self.signature, self.kernel)


def measure_all(lab: DebateLab, dataset: QuestionSet) -> list[Column]:
    """The detector's column, and the judge's where a language model fills the role."""
    judged = open_judge(lab)
    return [open_detector(lab).measure(dataset), *([judged.measure(dataset)] if judged else [])]


def open_detector(lab: DebateLab) -> Detection:
    """The embedded detector over the lab's embedder."""
    detector = open_embedded(lab.embedder)
    return Detection(
        "da_detector", lambda texts: detector.decide(texts).astype(np.float64), detector.signature,
        "nfqa.metrics.dispute_detector:Detector",
    )  # fmt: skip


def open_judge(lab: DebateLab) -> Detection | None:
    """The judge role's language model, asked as the D.A. metric does; None where the role has no such model."""
    if lab.judge is None:
        return None
    judge = replace(lab.judge, prompts=lab.read_prompts("own"))  # whatever set the lab asks with: no other has it
    return Detection(
        "da_judge", lambda texts: judge_awareness(texts, judge).decisions, sign_awareness(judge, "dispute_awareness"),
        "nfqa.metrics.dispute_awareness:judge_awareness",
    )  # fmt: skip
