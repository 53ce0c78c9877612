"""Perspective Diversity: how easily a language model, given an answer, restates each point of view on the question."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from nfqa.kernels.perplexity import (
    PAPER,
    RELEASED,
    Settings,
    Switches,
    Variant,
    aggregate_perplexities,
    compute_perplexities,
    settings,
)
from nfqa.models.evaluator import TargetLoss
from nfqa.models.restated import Restated

__all__ = ["PAPER", "RELEASED", "Diversity", "Settings", "Switches", "Variant", "measure_diversity", "settings"]


class Scorer(Protocol):
    """What gives the losses: an `Evaluator`, or a stand-in with made-up numbers."""

    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        """The loss of each target of each item."""
        ...


@dataclass(frozen=True)
class Diversity:
    """P.D. of one answer; lower is better.

    value: NaN where it is left out. perplexities: [n], one a partial answer, NaN where it has none. losses: what they
    are made of, None where nothing was run. dropped: what was left out, counted by reason: "empty_answer" and
    "no_partial_answers" leave the whole answer out, and so does "not_finite", the partial answers whose loss or
    perplexity is NaN or infinite: without them an answer that can't restate them would look better. "no_tokens"
    leaves out a partial answer without a token that has a probability, the same for every answer to its question.
    cut: the answer's tokens that were taken out to make it fit, of the partial answer where they were most.
    """

    value: float
    perplexities: NDArray[np.float64]
    losses: tuple[TargetLoss | None, ...]
    dropped: dict[str, int]

    @property
    def cut(self) -> int:
        """Answer tokens taken out to make context and target fit, at most."""
        return max((loss.cut for loss in self.losses if loss), default=0)


def measure_diversity(
    answers: Sequence[str],
    partial_answers: Sequence[Sequence[str]],
    evaluator: Scorer,
    *,
    variant: Variant = "paper",
    **switches: Unpack[Switches],
) -> list[Diversity]:
    """P.D. of each answer under the partial answers of its question.

    Formula: the sum (or mean) over i of exp(nats_i / d_i), nats_i the summed negative log-likelihood of the tokens of
    partial answer i given the answer in its wrapping, d_i those tokens ("target") or all attended less one
    ("attended"). `variant` sets all switches, each of which may be set apart: aggregate, denominator, instruction,
    generation_prompt, boundary, wrapping, plain_format, too_long; see `Settings`.
    A partial answer without tokens is counted in `dropped` and adds nothing: a sum is then over fewer.

    Args: answers: [N]; partial_answers: [N], the texts of each answer's question, point of view and explanation joined.
    Returns: [N]. Perplexities are unitless, 1 or more; a value is n or more under "sum".
    Raises: ValueError for unequal lengths, an unknown variant or switch, chat wrapping without a chat template, a
        context and target too long for the model under too_long="error".
    Source: Equation 1 of the DebateQA paper; variant "released" is what its released script computes.
    Differs from: the released script in what no switch says. It lets the tokenizer choose the side of the padding and
        masks the context from the left: with padding on the left it scores padding and parts of the answer, and a
        value hangs on the batch, so that variant "released" is its value with padding on the right. It loads weights
        in the precision they are kept in, and lets the tokenizer put its special tokens before a template that has
        them already (here it may not). It joins a point of view and its explanation by a full
        stop and a blank (here the caller joins them), counts the context's tokens alone to find where the target
        begins (here a token that overlaps the target's text is the target's), and cuts what the tokenizer doesn't
        take off the target's end without a word. With GPT-2 it used a template that transformers has since dropped;
        wrapping="plain", plain_format="{answer}<|endoftext|>" is the same. The paper names neither what an empty
        answer is worth nor what happens to texts that are too long.
    """
    chosen = settings(variant, **switches)
    if len(answers) != len(partial_answers):
        raise ValueError(
            f"{len(answers)} answers, but {len(partial_answers)} lists of partial answers; expected one for each"
        )
    runs = [
        i for i, (answer, texts) in enumerate(zip(answers, partial_answers, strict=True)) if answer.strip() and texts
    ]
    items = [Restated(answers[i], tuple(partial_answers[i])) for i in runs]
    found = dict(zip(runs, evaluator.score(items, chosen) if items else [], strict=True))
    return [
        _combine(found[i], chosen) if i in found else _leave_out(answer, len(texts))
        for i, (answer, texts) in enumerate(zip(answers, partial_answers, strict=True))
    ]


def _leave_out(answer: str, partial_answers: int) -> Diversity:
    reasons = {"empty_answer": not answer.strip(), "no_partial_answers": not partial_answers}
    dropped = {reason: 1 for reason, holds in reasons.items() if holds}
    return Diversity(math.nan, np.full(partial_answers, np.nan), (None,) * partial_answers, dropped)


def _combine(losses: Sequence[TargetLoss], chosen: Settings) -> Diversity:
    perplexities = np.full(len(losses), np.nan)
    scored = np.array([loss.tokens > 0 for loss in losses])
    given = [loss for loss in losses if loss.tokens]
    perplexities[scored] = compute_perplexities(
        [loss.nats for loss in given],
        [loss.tokens for loss in given],
        [loss.attended for loss in given],
        denominator=chosen.denominator,
    )
    finite = np.isfinite(perplexities)
    counts = Counter(no_tokens=int((~scored).sum()), not_finite=int((scored & ~finite).sum()))
    dropped = {reason: count for reason, count in counts.items() if count}
    value = aggregate_perplexities(perplexities[finite], aggregate=chosen.aggregate)
    if counts["not_finite"]:
        value = math.nan  # a sum over the others would be lower, which is better
    return Diversity(value, np.where(finite, perplexities, np.nan), tuple(losses), dropped)
