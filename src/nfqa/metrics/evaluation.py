"""How well a metric's scores agree with people's grades: per question, averaged, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from nfqa.kernels.correlation import REASONS, Method, correlate_groups
from nfqa.kernels.resample import Interval, bootstrap_mean
from nfqa.metrics.references import Draw

Undefined = Literal["drop", "zero"]


@dataclass(frozen=True)
class Agreement:
    """Average agreement over questions. `n` and `n_dropped` count question-seed pairs, and sum to all of them."""

    interval: Interval
    per_question: NDArray[np.float64]  # [Q, S], NaN where undefined
    n: int
    n_dropped: int
    dropped_because: dict[str, int]

    @property
    def per_seed(self) -> list[float]:
        """The average over questions under each seed."""
        return [
            float(np.nanmean(column)) if not np.isnan(column).all() else float("nan") for column in self.per_question.T
        ]


def measure_agreement(
    draws: Sequence[Sequence[Draw]],
    scores: Sequence[Sequence[NDArray]],
    *,
    method: Method,
    undefined: Undefined = "drop",
    resamples: int = 10_000,
) -> Agreement:
    """Correlate scores with grades inside each question under each seed, then average.

    Args: draws: [S][Q], the same questions in the same order under every seed; scores: likewise, one array a draw;
        undefined: a coefficient that doesn't exist (a side is constant, fewer than two candidates) is left out
        ("drop") or counted as 0 ("zero"); resamples: for the 95 % interval, over questions.
    Raises: ValueError when seeds differ in their questions, or scores in number from candidates.
    """
    if undefined not in get_args(Undefined):
        raise ValueError(f"undefined is {undefined!r}; expected one of {', '.join(get_args(Undefined))}")
    columns, reasons = [], []
    for number, (row, row_scores) in enumerate(zip(draws, scores, strict=True)):
        if [d.question.key for d in row] != [d.question.key for d in draws[0]]:
            raise ValueError(f"seed number {number} has other questions than the first; draw all seeds from one set")
        for draw, given in zip(row, row_scores, strict=True):
            if len(given) != len(draw.candidates):
                text = f"{len(given)} scores for {len(draw.candidates)} candidates"
                raise ValueError(f"seed number {number}, question {draw.question.text!r}: {text}")
        labels = [label for draw in row for label in draw.labels]
        found = correlate_groups(_join(row_scores), labels, [len(draw.candidates) for draw in row], method=method)
        columns.append(found.values)
        reasons.append([draw.dropped or REASONS[code] for draw, code in zip(row, found.reasons, strict=True)])
    table = np.column_stack(columns)
    why = [reason for column in reasons for reason in column]
    dropped = {reason: why.count(reason) for reason in sorted(set(why) - {"defined"})}
    if undefined == "zero":  # a question that a rule left out was never judged, and stays out
        judged = np.array([[draw.dropped is None for draw in row] for row in draws]).T
        table = np.where(judged & np.isnan(table), 0.0, table)
        left_out = {draw.dropped for row in draws for draw in row}
        dropped = {reason: count for reason, count in dropped.items() if reason in left_out}
    return summarise(table, dropped, resamples=resamples)


def summarise(table: NDArray, dropped_because: dict[str, int] | None = None, *, resamples: int = 10_000) -> Agreement:
    """The average of a [Q] or [Q, S] table with its 95 % interval from question-level resamples."""
    table = table[:, None] if table.ndim == 1 else table
    interval = bootstrap_mean(table, resamples=resamples)
    return Agreement(interval, table, interval.n, interval.n_missing, dropped_because or {})


def _join(parts: Sequence[NDArray]) -> NDArray[np.float64]:
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts]) if len(parts) else np.zeros(0)
