"""The figure of a user's own answers: their scores by method and system, and their P.D. view by view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from reproduction.figures import MARKERS, OURS, PALETTE, SAMPLE, subplots
from reproduction.own_scores import OF_VIEWS, label_systems

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LANES, _ROWS = 6, 30  # systems and rows of views that are drawn; all are in scores.csv
_FLAGGED: dict[str, Any] = {"marker": "x", "color": "#a3212b", "ms": 5, "mew": 1.2, "ls": "", "zorder": 5}


def draw_answers(table: pd.DataFrame, *, bundled: bool) -> Figure:
    """One band a method and in it one lane a system: a dot an answer, the mean over questions with its interval.

    A cross marks a flagged answer. Below, where there are points of view, a row an answer and a column a view.
    Args: table: a tidy table with `label`, the method in words: the statistics "ten" (of an answer, of a view under
        the metrics OF_VIEWS), "mean_ten" and "flagged"; bundled: whether the answers are the bundled example.
    """
    answers = pd.MultiIndex.from_frame(table[["question", "answer"]])
    table = table.assign(flagged=answers.isin(answers[table.statistic == "flagged"])).dropna(subset="value")
    of_views = table.metric.isin(OF_VIEWS)
    rows, columns = ["question", "answer", "system", "flagged"], ["metric", "view"]
    grid = table[of_views & (table.get("variant", "") != "released")].pivot(index=rows, columns=columns, values="value")
    dots, means = (table[(table.statistic == name) & ~of_views] for name in ("ten", "mean_ten"))
    systems = [name for name in dots.system.unique() if name != ""]
    lanes = systems[:_LANES] + [""] * ("" in set(dots.system))  # answers of no named system have a lane without a mean
    heights = [1.2 + dots.label.nunique() * (0.12 + 0.13 * len(lanes)), 0.8 + 0.22 * len(grid.head(_ROWS))]
    heights = heights[: 1 + (len(grid) > 0)]
    figure, panels = subplots(len(heights), 1, figsize=(7.2, sum(heights)), height_ratios=heights, squeeze=False)
    sample = "sample" in set(table.origin)
    colour = SAMPLE if sample else OURS
    _draw_lanes(panels[0, 0], dots, means if systems else means.assign(system=""), lanes)
    if len(grid):
        _draw_views(panels[1, 0], grid, colour)
    origin = "the bundled example" if bundled else "the judge learned from bundled data"
    origin = f"SAMPLE: {origin}" if sample else "measured on your answers"
    more = f"; {len(systems) - _LANES} further systems are in scores.csv" if len(systems) > _LANES else ""
    title = f"{origin}. Small: one answer; large: mean, 95 % interval over five questions or more{more}"
    if "embedded_judge" in set(dots.metric):
        title += "\nThe embedded judge sees topic and words more than truth: a false answer can come first"
    figure.legend(loc="outside lower right", ncols=4, title=title, title_fontsize=8)
    return figure


def _draw_lanes(axes: Axes, dots: pd.DataFrame, means: pd.DataFrame, lanes: list[str]) -> None:
    bands = {label: place for place, label in enumerate(dots.label.unique())}
    named = [name for name in lanes if name != ""]
    titles = label_systems(named) | {"": "answers of no named system" if named else "all answers"}
    for lane, (name, shade, marker) in enumerate(zip(lanes, PALETTE, MARKERS, strict=False)):
        offset = 0.8 * ((lane + 0.5) / len(lanes) - 0.5)
        own, mean = dots[dots.system == name], means[(means.system == name) & (name != "" or not named)]
        spread = np.resize([0, 0.5, -0.5, 0.25, -0.25, 0.75, -0.75], len(own)) * 0.3 * (len(own) > 5 * len(bands))
        own = own.assign(place=own.label.map(bands).astype(float) + offset + (0.2 + spread) / len(lanes))
        alpha = min(0.7, max(0.06, 25 * len(bands) / max(len(own), 1)))
        axes.plot(own.value, own.place, marker, color=shade, ms=3.5, mew=0, alpha=alpha)
        axes.plot(own.value[own.flagged], own.place[own.flagged], **_FLAGGED)
        heights = mean.label.map(bands).astype(float) + offset
        axes.hlines(heights, mean.low, mean.high, color=shade, lw=2)
        axes.plot(mean.value, heights, marker, color=shade, mec="white", mew=0.8, ms=7, label=titles[name])
    if dots.flagged.any():
        axes.plot([], [], label="flagged", **_FLAGGED)
    axes.set(xlim=(-0.3, 10.3), xlabel="0 (worst) to 10 (best); each method's own scale")
    axes.set(ylim=(len(bands) - 0.4, -0.6), yticks=range(len(bands)), yticklabels=list(bands))
    axes.grid(axis="y", visible=False)


def _draw_views(axes: Axes, grid: pd.DataFrame, colour: str) -> None:
    import seaborn as sns

    shown = grid.sort_index(axis=1, level="metric", ascending=False, sort_remaining=False).head(_ROWS)  # coverage first
    questions = label_systems(list(dict.fromkeys(question for question, *_ in grid.index)), noun="question")
    who = label_systems(list(dict.fromkeys(s or a for _, a, s, _ in shown.index if a)), noun="answer")
    rows = [
        f"{questions[question]}: {who[system or answer] if answer else 'the question alone'}{' ×' if flagged else ''}"
        for question, answer, system, flagged in shown.index
    ]
    sns.heatmap(
        shown, ax=axes, cmap=sns.light_palette(colour, as_cmap=True), yticklabels=rows, annot=True, fmt=".1f", vmin=0,
        vmax=10, cbar=False, linewidths=0.5, annot_kws={"fontsize": 7},
    )  # fmt: skip
    more = f" (the first {len(shown)} of {len(grid)} rows)" if len(grid) > len(shown) else ""
    names = {"view_coverage": "coverage", "pd_view": "P.D."}
    axes.set(title=f"Each point of view by coverage and by P.D., 0 to 10{more}", ylabel="")
    axes.set(xlabel="point of view, as numbered in the file")
    axes.set_xticklabels([f"{names[metric]}\n{view:.0f}" for metric, view in shown], rotation=0)
    axes.axvline((shown.columns.get_level_values("metric") == "view_coverage").sum(), color="white", lw=6)
