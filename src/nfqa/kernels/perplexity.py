"""Perplexities of texts from their summed losses, and every choice in which two definitions of the
score differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

Aggregate = Literal["sum", "mean", "mean_log"]
Denominator = Literal["target", "attended"]
Variant = Literal["paper", "released"]
_MARK = "{answer}"


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Settings:
    """How texts are scored as restatements of an answer.

    aggregate: the perplexities of an answer's partial answers are summed or averaged, or their
        logarithms averaged.
    denominator: a summed loss is divided by the target's own tokens, or by all attended tokens, the
    context's included, less one. instruction: what is put after the answer, with a space between.
    generation_prompt: whether the chat template opens the model's turn before the target. boundary:
    context and target are tokenised separately, or as one text ("joint"). wrapping: "chat" puts the
    answer into the model's chat template as the user's message, "plain" into `plain_format`.
    too_long: what happens when context and target don't fit the model: an error, or the answer's
    tokens are cut at its head, in its middle or at its tail, by as many as it takes. Control marks
    of the model, such as <|end|>, in an answer or a target are broken, so that no text ends the
    user's turn.
    Raises: ValueError for any other value or field, or a plain_format without exactly one
        `{answer}`.
    """

    aggregate: Aggregate = "sum"
    denominator: Denominator = "target"
    instruction: str = "Please restate."
    generation_prompt: bool = True
    boundary: Literal["apart", "joint"] = "apart"
    wrapping: Literal["chat", "plain"] = "chat"
    plain_format: str = "{answer}\n\n"
    too_long: Literal["error", "cut_head", "cut_middle", "cut_tail"] = "error"

    def __post_init__(self) -> None:
        if self.plain_format.count(_MARK) != 1:
            raise ValueError(f"plain_format is {self.plain_format!r}; expected a text with {_MARK} in it once")

    @property
    def frame(self) -> tuple[str, str]:
        """What stands before and after the answer, under plain wrapping."""
        before, _, after = self.plain_format.partition(_MARK)
        return before, after

    def join(self, answer: str) -> str:
        """The answer and the instruction after it, or the one that there is."""
        return " ".join(filter(None, (answer, self.instruction)))

    @property
    def reading(self) -> str:
        """The part of the signature that the losses depend on, without what the chosen wrapping
        ignores.
        """
        wrapping = "chat" if self.wrapping == "chat" else f"plain:{self.plain_format!r}"
        opened = f"|gen:{'yes' if self.generation_prompt else 'no'}" if self.wrapping == "chat" else ""
        instruction = repr(self.instruction) if self.instruction else "none"
        return f"instr:{instruction}|wrap:{wrapping}{opened}|bound:{self.boundary}|long:{self.too_long}"

    @property
    def signature(self) -> str:
        """How it appears in signatures: two settings that can give different scores have different
        ones.
        """
        return f"agg:{self.aggregate}|per:{self.denominator}|{self.reading}"


PAPER = Settings()
RELEASED = Settings("mean", "attended", "", generation_prompt=False, boundary="joint")
_VARIANTS = {"paper": PAPER, "released": RELEASED}


def settings(variant: Variant = "paper", **switches: Any) -> Settings:
    """A variant's settings, with some switches changed.

    paper: Equation 1. released: the five differences of the released script that matter to any
        model.

    Raises: ValueError for an unknown variant or switch, or a value that its switch can't have.
    """
    if variant not in _VARIANTS:
        raise ValueError(f"variant is {variant!r}; expected one of {', '.join(_VARIANTS)}")
    return replace(_VARIANTS[variant], **switches)


def compute_perplexities(
    nats: ArrayLike, tokens: ArrayLike, attended: ArrayLike, *, denominator: Denominator = "target"
) -> NDArray[np.float64]:
    """The perplexity of each target: exp(nats / d), d its own tokens, or the attended tokens less
    one.

    Args: nats: [n], summed negative log-likelihood of each target's tokens, natural logarithm;
        tokens: [n], how many were summed, 1 or more; attended: [n], all tokens of context and
        target, more than `tokens` or equal to it.
    Returns: [n], 1 or more for a sum that is not negative; NaN or inf where nats is, or where exp
        overflows. Unitless.
    Source: Equation 1 of the DebateQA paper for "target"; its released script for "attended".
    Differs from: that script's value is below the perplexity whenever there is a context, and falls
        towards 1 as the context grows, whatever the target.
    """
    losses, targets, every = (np.asarray(values, dtype=np.float64) for values in (nats, tokens, attended))
    divisors = targets if denominator == "target" else np.maximum(every - 1, 1)
    with np.errstate(over="ignore"):  # the result is then inf
        return np.exp(losses / divisors)


def aggregate_perplexities(perplexities: ArrayLike, *, aggregate: Aggregate = "sum") -> float:
    """The sum or the mean of one answer's perplexities, or the mean of their natural logarithms.

    Args: perplexities: [n], one or more, all finite.
    Source: Equation 1 of the DebateQA paper ("sum"); its released script ("mean"). "mean_log" is
        this project's: it ranks as the geometric mean does, so that one view that no answer comes
        near does not outweigh all others.
    """
    values = np.asarray(perplexities, dtype=np.float64)
    if aggregate == "sum":
        return float(values.sum())
    return float(values.mean() if aggregate == "mean" else np.log(values).mean())
