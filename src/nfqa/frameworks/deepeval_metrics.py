"""A metric for DeepEval: `NfqaMetric("linkage", threshold=2)`, with references in the test case's
metadata.
"""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

from nfqa.frameworks import Measure, score_answer


class NfqaMetric(BaseMetric):
    """Coverage, P.D., D.A. or the LINKAGE rank of the actual output; the metadata hold what
    `score_answer` needs.

    A test succeeds where coverage or D.A. is at least the threshold, or P.D. or the rank at most.
    Args: options: as the function in `nfqa`.
    """

    def __init__(self, measure: Measure, *, threshold: float, **options: Any) -> None:
        self.measured = measure
        self.threshold = threshold
        self.options = options

    def measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """The score, NaN where there is none, with the reason."""
        question = test_case.input
        answer = test_case.actual_output or ""
        self.score, self.reason = score_answer(self.measured, question, answer, test_case.metadata, **self.options)
        self.is_successful()
        return self.score

    async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """The same in a thread."""
        return await to_thread(self.measure, test_case)

    def is_successful(self) -> bool:
        """Whether there is a score on the right side of the threshold."""
        above = self.measured in ("coverage", "dispute_awareness")
        limit = self.threshold or 0.0
        score = float("nan") if self.score is None else self.score
        self.success = score >= limit if above else score <= limit
        return self.success

    @property
    def __name__(self) -> str:
        return self.measured.replace("_", " ")
