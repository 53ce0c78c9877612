"""Reading a verdict: from the text that a judge wrote, or from the probabilities of the verdicts it
might write.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

import numpy as np

from nfqa.kernels.texts import leave_out_thinking

Pick = Literal["only", "first"]
CHOICES = {"A": 1.0, "B": -1.0, "C": 0.0}  # the text shown first, the second, a tie

_MARKED = re.compile(r"\[\[([^\[\]]{0,40})\]\]")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_NAMED = re.compile(
    rf"\b(?:answer|verdict|label|response)\W{{0,4}}?:\W{{0,4}}?({_NUMBER.pattern})(?![\w%]|\.[0-9])", re.IGNORECASE
)
_LAST = re.compile(rf"(?:^|\n)[^\w\n]*?({_NUMBER.pattern})[^\w%]*\Z")


@dataclass(frozen=True)
class Verdict:
    """A verdict as a number, or None with the reason: "empty", "unreadable" or "out_of_range".

    `mass`, for a verdict read from probabilities, is how much of the next token's distribution lay
    on verdicts.
    """

    value: float | None
    reason: str = ""
    mass: float | None = None


def read_number(completion: str, *, lowest: int, highest: int, whole: bool = True, pick: Pick = "only") -> Verdict:
    """The number between double square brackets, as in `[[3]]`, if it lies in the range.

    Args: completion: the judge's own words, never the prompt; thinking is removed as
        `leave_out_thinking` has it, and where it has no end nothing was said yet. whole: whether
        `[[3.5]]` is refused. pick: "only" takes a completion that holds several different numbers
        for unreadable, since a judge may quote a candidate's `[[1]]` before its own verdict;
        "first" takes the first after any `</think>`, as the released code.
    Returns: the number; or "empty" for no text, "unreadable" where no brackets hold a number,
        "ambiguous" for several different ones, "out_of_range" for a number that is no verdict.
        Brackets with something else are passed over.
    Source: LINKAGE's released code. Differs from: it takes any whole number, in range or not, and
        gives an answer whose verdict it can't read rank 2; here that is missing.
    """
    marks = [float(text) for text in _list_marks(completion, pick) if _NUMBER.fullmatch(text)]
    allowed = [value for value in marks if lowest <= value <= highest and not (whole and value % 1)]
    return _pick_one(completion, marks, allowed, pick)


def read_preference(completion: str, *, pick: Pick = "only") -> Verdict:
    """The choice between double square brackets: 1 for A, -1 for B, 0 for C (a tie).

    Args, Returns: as `read_number`.
    Source: LINKAGE, equation 4, and the format that its pairwise prompt asks for.
    """
    marks = [CHOICES[text.upper()] for text in _list_marks(completion, pick) if text.upper() in CHOICES]
    return _pick_one(completion, marks, marks, pick)


def read_digit(completion: str, *, digits: Sequence[str] = ("0", "1")) -> Verdict:
    """The one digit that a completion gives as its verdict, between double square brackets or,
    without any, bare.

    A bare number is a verdict where it is the whole last line, or follows "answer", "verdict",
    "label" or "response" and a colon.

    Args: completion: as `read_number`; digits: the verdicts there are, single digits.
    Returns: the digit; "empty" for no text, "unreadable" where no number is given as a verdict
        (`[[yes]]`, "10th", "I count 0 others"), "ambiguous" for several different numbers,
        "out_of_range" for one that is no verdict.
    Source: DebateQA's metric, which asks for 0 or 1. Differs from: its released script, which looks
        for the digit in prompt and completion together; models that write "1" or "Answer: 1"
        instead of `[[1]]` are understood here.
    """
    answer = leave_out_thinking(completion).strip()
    marked = [text for text in _list_marks(completion, "only") if _NUMBER.fullmatch(text)]
    marks = [float(text) for text in marked or [*_NAMED.findall(answer), *_LAST.findall(answer)]]
    return _pick_one(completion, marks, {*map(float, digits)}, "only")


def _list_marks(completion: str, pick: Pick) -> list[str]:
    answer = completion.rpartition("</think>")[2] if pick == "first" else leave_out_thinking(completion)
    return [mark.strip() for mark in _MARKED.findall(answer)]


def _pick_one(completion: str, values: Sequence[float], allowed: Collection[float], pick: Pick) -> Verdict:
    if not values:
        return Verdict(None, "unreadable" if completion.strip() else "empty")
    if pick == "only" and len(set(values)) > 1:
        return Verdict(None, "ambiguous")
    return Verdict(values[0]) if values[0] in allowed else Verdict(None, "out_of_range")


def expect_value(logprobs: Sequence[float], values: Sequence[float]) -> Verdict:
    """The expected verdict: sum of p_i v_i / sum of p_i over the verdicts.

    Args: logprobs: natural log-probability of each verdict under the whole vocabulary; values: what
        each stands for.
    Returns: the expectation, and the mass sum p_i. "unreadable" when no verdict has any
        probability; "bad_logprobs" for a log-probability that is NaN, or above 0 by more than
        rounding.
    Source: the usual reading of a judge from its logits (G-Eval's weighted score), applied to
        LINKAGE's rank.
    """
    logs = np.asarray(logprobs, dtype=np.float64)
    points = np.asarray(values, dtype=np.float64)
    if np.isnan(logs).any() or (logs > 1e-3).any():
        return Verdict(None, "bad_logprobs")
    top = logs.max()
    if np.isneginf(top):
        return Verdict(None, "unreadable", 0.0)
    weights = np.exp(logs - top)
    mass = min(1.0, fsum(np.exp(logs).tolist()))
    return Verdict(fsum((weights * points).tolist()) / fsum(weights.tolist()), mass=mass)
