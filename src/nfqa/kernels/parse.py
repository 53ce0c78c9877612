"""Reading a verdict: from the text that a judge wrote, or from the probabilities of the verdicts it might write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np

_MARKED = re.compile(r"\[\[([^\[\]]{0,40})\]\]")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True)
class Reading:
    """A verdict as a number, or None with the reason: "empty", "unreadable" or "out_of_range".

    `mass`, for a verdict read from probabilities, is how much of the next token's distribution lay on verdicts.
    """

    value: float | None
    reason: str = ""
    mass: float | None = None


def read_number(completion: str, *, lowest: int, highest: int, whole: bool = True) -> Reading:
    """The first number between double square brackets, as in `[[3]]`, if it lies in the range.

    Args: completion: the judge's own words, never the prompt; whole: whether `[[3.5]]` is refused.
    Returns: the number; or "empty" for no text, "unreadable" where no brackets hold a number, "out_of_range" for a
        number that is no verdict. Brackets that hold something else are passed over.
    Source: LINKAGE's released code. Differs from: it takes any whole number, in range or not, and gives an answer
        whose verdict it can't read rank 2; here that is missing.
    """
    for found in _MARKED.findall(completion):
        text = found.strip()
        if _NUMBER.fullmatch(text):
            value = float(text)
            if not lowest <= value <= highest or (whole and value != int(value)):
                return Reading(None, "out_of_range")
            return Reading(value)
    return Reading(None, "unreadable" if completion.strip() else "empty")


def read_choice(completion: str, *, choices: Sequence[str] = ("A", "B", "C")) -> Reading:
    """The first choice between double square brackets: 1 for the first, -1 for the second, 0 for the third (a tie).

    Source: LINKAGE, equation 4, and the format that its pairwise prompt asks for.
    """
    values = dict(zip(choices, (1.0, -1.0, 0.0), strict=True))
    for found in _MARKED.findall(completion):
        if found.strip().upper() in values:
            return Reading(values[found.strip().upper()])
    return Reading(None, "unreadable" if completion.strip() else "empty")


def expect_value(logprobs: Sequence[float], values: Sequence[float]) -> Reading:
    """The expected verdict: sum of p_i v_i / sum of p_i over the verdicts.

    Args: logprobs: natural log-probability of each verdict under the whole vocabulary; values: what each stands for.
    Returns: the expectation, and the mass sum p_i. "unreadable" when no verdict has any probability.
    Raises: ValueError for unequal or no entries, a NaN, a value that isn't finite, or a log-probability above 0 by
        more than rounding.
    Source: the usual reading of a judge from its logits (G-Eval's weighted score), applied to LINKAGE's rank.
    """
    logs, points = np.asarray(logprobs, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if logs.shape != points.shape or logs.ndim != 1 or not len(logs):
        raise ValueError(f"{logs.shape} log-probabilities for {points.shape} values; expected two equal rows")
    if np.isnan(logs).any() or (logs > 1e-3).any():
        raise ValueError(f"log-probabilities are {logs.tolist()}; expected natural logarithms, 0 at most")
    if not np.isfinite(points).all():
        raise ValueError(f"values are {points.tolist()}; expected finite numbers")
    top = logs.max()
    if np.isneginf(top):
        return Reading(None, "unreadable", 0.0)
    weights = np.exp(logs - top)
    mass = min(1.0, fsum(np.exp(logs).tolist()))
    return Reading(fsum((weights * points).tolist()) / fsum(weights.tolist()), mass=mass)
