"""Figure 10: P.D. and D.A. over the length of answers: real answers cut to a length, and systems at their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.lab.experiments.awareness import Detection
from nfqa.lab.experiments.debate_systems import bootstrap_means, correlate_systems
from nfqa.lab.experiments.diversity import (
    Column,
    cut_words,
    find_wrapping,
    make_mean_row,
    make_plain_row,
    measure_systems,
    measure_words,
    say_number,
)
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from nfqa.models.evaluator import Evaluator

LENGTHS: tuple[int | None, ...] = (12, 25, 50, 75, None)  # words; None for the whole answer
CUT = "answers_cut"
_HERE = "nfqa.lab.experiments.answer_length"


def name_length(most: int | None) -> str:
    """How a length ends a metric's name."""
    return "whole" if most is None else f"{most}_words"


def cut_answers(dataset: QuestionSet, most: int | None) -> QuestionSet:
    """The data set with every answer cut after its first words."""
    questions = tuple(
        replace(q, answers=tuple(replace(a, text=cut_words(a.text, most) or "") for a in q.answers))
        for q in dataset.questions
    )
    return replace(dataset, questions=questions)


def measure_lengths(
    dataset: QuestionSet,
    evaluators: Mapping[str, Evaluator],
    detection: Detection,
    *,
    variants: Sequence[Literal["paper", "released"]] = ("paper", "released"),
    lengths: Sequence[int | None] = LENGTHS,
    wrapping: Literal["chat", "plain"] = "chat",
) -> dict[int | None, list[Column]]:
    """P.D. by every evaluator and variant, and D.A., of all answers cut to each length; and the words that were left.

    D.A. alone for a data set without partial answers.
    """
    table = {}
    for most in lengths:
        cut = cut_answers(dataset, most)
        columns = [measure_words(cut)]
        if any(question.partial_answers for question in cut.questions):
            for label, evaluator in evaluators.items():
                way = find_wrapping(evaluator, wrapping)
                columns += [measure_systems(evaluator, label, cut, variant=v, wrapping=way) for v in variants]
        columns.append(detection.measure(cut))
        table[most] = columns
    return table


def make_length_rows(
    dataset: QuestionSet, table: Mapping[int | None, Sequence[Column]], *, resamples: int, seed: int = 0
) -> list[Row]:
    """Means over questions and systems at each length, and how far the systems stand apart there.

    apart_METRIC is the standard deviation of the systems' means: the paper says that it shrinks at equal length.
    """
    rows = []
    for most, columns in table.items():
        for column in columns:
            end, mark = name_length(most), f"{column.name}|{column.signature}|answer:first {name_length(most)}"
            rows.append(
                make_mean_row(
                    dataset, CUT, f"{column.name}_at_{end}", column.values, mark, column.kernels, resamples=resamples,
                    seed=seed, dropped=column.dropped,
                )
            )  # fmt: skip
            if len(column.systems) > 1 and not column.name.startswith("mean_words"):
                value, low, high = bootstrap_means([column], _spread, resamples=resamples, seed=seed)
                rows.append(
                    make_plain_row(
                        dataset, CUT, f"apart_{column.name}_at_{end}", value[0],
                        f"spread|{mark}|boot:{resamples}:seed{seed}",
                        (f"{_HERE}:make_length_rows", "nfqa.lab.experiments.debate_systems:bootstrap_means"),
                        n=len(column.values), low=low[0], high=high[0],
                    )
                )  # fmt: skip
    return rows


def correlate_length(dataset: QuestionSet, columns: Sequence[Column], *, resamples: int, seed: int = 0) -> list[Row]:
    """Over systems at their own lengths: Spearman and Kendall between mean words and each measure, better end up."""
    words, *others = columns
    rows = []
    for column in others:
        rows += correlate_systems(dataset, column, words, resamples=resamples, seed=seed)
    return rows


def describe_lengths(rows: Sequence[Row]) -> list[str]:
    """What longer answers gain, and whether systems come closer at equal length."""
    sentences = []
    ends = [name_length(most) for most in LENGTHS]
    starts = dict.fromkeys(
        (row.dataset, row.metric.rpartition("_at_")[0]) for row in rows if row.system == CUT and "_at_" in row.metric
    )
    for dataset, metric in starts:
        if metric.startswith(("apart_", "mean_words")):
            continue
        own = {r.metric.rpartition("_at_")[2]: r for r in rows if (r.dataset, r.system) == (dataset, CUT)
               and r.metric.rpartition("_at_")[0] == metric}  # fmt: skip
        shown = [
            f"{say_number(own[end].value)} ({end.replace('_', ' ')})"
            for end in ends
            if end in own and own[end].value is not None
        ]
        values = [own[end].value or 0.0 for end in ends if end in own]
        better = sum(b < a if metric.startswith("pd_") else b > a for a, b in pairwise(values))
        text = (
            f"{dataset}, {metric}: {', '.join(shown)}; better at {better} of {len(values) - 1} steps to a longer answer"
        )
        apart = {r.metric: r.value for r in rows if r.dataset == dataset and r.metric.startswith(f"apart_{metric}_at_")}
        whole, short = (apart.get(f"apart_{metric}_at_{name_length(most)}") for most in (None, LENGTHS[2]))
        if whole is not None and short is not None:
            text += (
                f". Systems stand {say_number(whole)} apart (standard deviation of means) at their own lengths and"
                f" {say_number(short)} when all are cut to {LENGTHS[2]} words"
            )
        sentences.append(text + ".")
    return sentences


def _spread(means: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.array([means[0][~np.isnan(means[0])].std(ddof=1)])
