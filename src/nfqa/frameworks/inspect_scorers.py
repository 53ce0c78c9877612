"""Scorers for Inspect: `Task(scorer=perspective_diversity())`, with partial answers in each sample's metadata."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyio import to_thread
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from nfqa.frameworks import Measure, score_answer


def _make(measure: Measure, how: dict[str, Any]) -> Scorer:
    async def score(state: TaskState, _: Target) -> Score:
        answer = state.output.completion
        scored = partial(score_answer, measure, state.input_text, answer, state.metadata, **how)
        value, missing = await to_thread.run_sync(scored)
        return Score(value=value, answer=answer, explanation=missing or None, reason=missing or None)

    return score


@scorer(metrics=[mean(), stderr()])
def perspective_diversity(**how: Any) -> Scorer:
    """P.D. of the completion, lower is better; metadata: partial_answers. how: as `nfqa.perspective_diversity`."""
    return _make("perspective_diversity", how)


@scorer(metrics=[mean(), stderr()])
def dispute_awareness(**how: Any) -> Scorer:
    """D.A. of the completion, 0 or 1. how: as `nfqa.dispute_awareness`."""
    return _make("dispute_awareness", how)


@scorer(metrics=[mean(), stderr()])
def linkage_rank(**how: Any) -> Scorer:
    """The place of the completion among the references, 1 is best; metadata: references, best first. how: as
    `nfqa.linkage`."""
    return _make("linkage", how)
