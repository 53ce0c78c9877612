"""Scorers for Inspect: `Task(scorer=coverage())`, with partial answers in each sample's metadata."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyio import to_thread
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from nfqa.frameworks import Measure, score_answer


def _make(measure: Measure, options: dict[str, Any]) -> Scorer:
    async def score(state: TaskState, _: Target) -> Score:
        answer = state.output.completion
        scored = partial(score_answer, measure, state.input_text, answer, state.metadata, **options)
        value, missing = await to_thread.run_sync(scored)
        return Score(value=value, answer=answer, explanation=missing or None, reason=missing or None)

    return score


@scorer(metrics=[mean(), stderr()])
def coverage(**options: Any) -> Scorer:
    """Coverage of the completion, 0 to 1; metadata: partial_answers. options: as `nfqa.coverage`."""
    return _make("coverage", options)


@scorer(metrics=[mean(), stderr()])
def perspective_diversity(**options: Any) -> Scorer:
    """P.D. of the completion, lower is better; metadata: partial_answers. options: as
    `nfqa.perspective_diversity`.
    """
    return _make("perspective_diversity", options)


@scorer(metrics=[mean(), stderr()])
def dispute_awareness(**options: Any) -> Scorer:
    """D.A. of the completion, 0 or 1. options: as `nfqa.dispute_awareness`."""
    return _make("dispute_awareness", options)


@scorer(metrics=[mean(), stderr()])
def linkage_rank(**options: Any) -> Scorer:
    """The place of the completion among the references, 1 is best; metadata: references, best
    first. options: as `nfqa.linkage`.
    """
    return _make("linkage", options)
