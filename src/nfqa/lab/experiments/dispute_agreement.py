"""Figure 5: how far two ways to decide on dispute awareness take the same decisions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from nfqa.data.records import QuestionSet
from nfqa.kernels.classification import Measure, measure_classification
from nfqa.lab.experiments.debate_figures import WIDTH
from nfqa.lab.experiments.dispute import KERNEL, Way
from nfqa.lab.plots import start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.lab.debate_lab import DebateLab

_PAIR: tuple[Measure, ...] = ("agreement", "kappa")


def thin_answers(dataset: QuestionSet, *, most: int) -> QuestionSet:
    """The set with at most so many questions, chosen by a hash of their ids."""
    order = sorted(dataset.questions, key=lambda q: hashlib.sha256(f"dispute|{q.id}".encode()).digest())
    chosen = {question.id for question in order[:most]}
    return replace(dataset, questions=tuple(q for q in dataset.questions if q.id in chosen))


def list_texts(dataset: QuestionSet) -> list[str]:
    """Every answer of the set, in its order."""
    return [answer.text for question in dataset.questions for answer in question.answers]


def compare_ways(dataset: QuestionSet, ways: Sequence[Way], *, resamples: int, seed: int = 0) -> list[Row]:
    """Share of equal decisions and Cohen's kappa of every two ways, over the answers that both decide."""
    rows = []
    for one, other in combinations(ways, 2):
        known = ~np.isnan(one.decisions) & ~np.isnan(other.decisions)
        for measure in _PAIR if known.any() else ():
            interval = measure_classification(
                one.decisions[known], other.decisions[known], measure=measure, resamples=resamples, seed=seed
            )
            dropped = int((~known).sum())
            rows.append(
                Row(
                    system=one.name, dataset=dataset.name, metric=f"{measure}_with_{other.name}", value=interval.value,
                    ci_low=interval.low, ci_high=interval.high, n=interval.n, n_dropped=dropped,
                    dropped_because={"no_verdict": dropped} if dropped else {},
                    signature=f"{one.signature} against {other.signature}|boot:{resamples}|v1",
                    kernels=(one.kernel, KERNEL), origin=dataset.origin,
                )
            )  # fmt: skip
    for way in ways:
        known = ~np.isnan(way.decisions)
        rows.append(
            Row(
                system=way.name, dataset=dataset.name, metric="share_aware", value=float(way.decisions[known].mean()),
                n=int(known.sum()), n_dropped=int((~known).sum()), dropped_because=way.missing,
                signature=f"{way.signature}|v1", kernels=(way.kernel,), origin=dataset.origin,
            ) if known.any() else _refuse(way)
        )  # fmt: skip
    return rows


def draw_agreement(lab: DebateLab, rows: Sequence[Row]) -> Figure:
    """A heat map of every two ways: share of equal decisions above the diagonal, Cohen's kappa below it."""
    shares = [row for row in rows if row.metric == "share_aware"]
    names = [row.system for row in shares]
    found = {(row.system, row.metric): row.value for row in rows}
    size = len(names)
    table = np.full((size, size), np.nan)
    for i, j in combinations(range(size), 2):
        for place, measure in (((i, j), "agreement"), ((j, i), "kappa")):
            value = found.get((names[i], f"{measure}_with_{names[j]}"))
            table[place] = np.nan if value is None else value
    figure, axes = start_figure(width=WIDTH, height=2.8 + 0.36 * size)
    image = axes.imshow(table, vmin=0, vmax=1, cmap="cividis")
    axes.grid(visible=False)
    titles = [f"{lab.title(row.system)} ({row.value:.0%})" for row in shares]
    axes.set_yticks(range(size), labels=titles, fontsize=7)
    axes.set_xticks(range(size), labels=[lab.title(name) for name in names], rotation=35, ha="right", fontsize=7)
    for (i, j), value in np.ndenumerate(table):
        if not np.isnan(value):
            colour = "white" if value < 0.6 else "black"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    sample = ", SAMPLE" if any(row.origin == "sample" for row in rows) else ""
    axes.set_title(
        "Above the diagonal: share of equal decisions\nBelow it: Cohen's kappa\n"
        f"In brackets: share called aware{sample}",
        fontsize=8,
    )
    bar = figure.colorbar(image, ax=axes, location="bottom", aspect=30, extend="min" if (table < 0).any() else None)
    bar.set_label("share of equal decisions (above), kappa (below)", fontsize=8)
    return figure


def describe_agreement(lab: DebateLab, rows: Sequence[Row]) -> list[str]:
    """Which two agree best and least beyond chance, found from the numbers."""
    pairs = [row for row in rows if row.metric.startswith("kappa_with_") and row.value is not None]
    if not pairs:
        return ["No two ways to decide have a kappa here."]
    said = []
    for word, row in (
        ("best", max(pairs, key=lambda row: row.value or 0)),
        ("least", min(pairs, key=lambda row: row.value or 0)),
    ):
        other = row.metric.removeprefix("kappa_with_")
        said.append(
            f"Beyond chance {lab.title(row.system)} and {lab.title(other)} agree {word}: kappa {row.value:.2f}"
            f" [{row.ci_low:.2f}, {row.ci_high:.2f}], {row.n} answers."
        )
    return said


def _refuse(way: Way) -> Row:
    raise ValueError(f"{way.name} gives no verdict on any answer ({way.missing}); see why before it is compared")
