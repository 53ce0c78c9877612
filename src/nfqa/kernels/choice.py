"""How often a score picks the answer that people found best, and the worst as well."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

TieRule = Literal["expected", "strict", "first"]


def credit_choice(
    scores: ArrayLike, labels: ArrayLike, *, worst_too: bool = False, ties: TieRule = "expected"
) -> float:
    """Credit, from 0 to 1, for picking a best-labelled answer by the highest score.

    With `worst_too` the lowest score must pick a worst-labelled answer as well. An answer counts as
    best (worst) when its label is the highest (lowest) of the question, so people's ties accept any
    of the tied answers. `ties` settles tied scores: "expected" is the chance of being right when
    ties are broken at random (over all orders of the tied answers, best and worst picked without
    replacement); "strict" gives 0 when a pick is tied; "first" takes the earliest answer, as argmax
    does, which leaks the file's order.

    Args: scores, labels: [n], one question's answers, n >= 2 for `worst_too`.
    Returns: credit in [0, 1]; averaged over questions it is an accuracy.
    Raises: ValueError for an unknown rule.
    Source: Acc(b) and Acc(b+w) of the LINKAGE paper, which states no rule for ties.
    """
    s = np.asarray(scores, dtype=np.float64)
    y = np.asarray(labels)
    if ties not in get_args(TieRule):
        raise ValueError(f"ties is {ties!r}; expected one of {', '.join(get_args(TieRule))}")
    best = y == y.max()
    worst = y == y.min()
    if ties == "first":
        return float(best[s.argmax()] and (not worst_too or worst[s.argmin()]))
    top = np.flatnonzero(s == s.max())
    bottom = np.flatnonzero(s == s.min())
    if ties == "strict" and (len(top) > 1 or (worst_too and len(bottom) > 1)):
        return 0.0
    if not worst_too:
        return float(best[top].mean())
    hits = [bool(best[i] and worst[j]) for i in top for j in bottom if i != j]
    return float(np.mean(hits))
