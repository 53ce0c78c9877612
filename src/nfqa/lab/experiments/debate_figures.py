"""Figures on debatable questions: one column of panels, narrow enough to be read on a telephone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nfqa.lab.artefacts import Leaf
from nfqa.lab.experiments.debate_systems import WEIGHTS, name_rank
from nfqa.lab.plots import PAPER, REFERENCE, add_legend, draw_intervals, pick_colour, start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab

WIDTH = 4.6  # inches: at 375 pixels a point of type is then about a pixel
COLOURS = ("#1f6f8b", "#c2752d", "#6b4c9a", "#3f8f4f", "#b0413e", "#7a7a7a", "#2f4b7c", "#a05195",
           "#665191", "#d45087", "#488f31", "#00876c")  # fmt: skip
_MARKS = "osD^v<>Ph*Xd"
_LONG = 30  # letters of a name, from which on it is set smaller
_SHARES = (-0.03, 1.03)  # the scale of what lies between 0 and 1, with room for marks at its ends


def draw_stack(
    lab: Lab,
    rows: Sequence[Row],
    panels: Mapping[str, str],
    *,
    lines: Mapping[str, float] | None = None,
    systems: Sequence[str] = (),
    dataset: str = "",
    log: Sequence[str] = (),
    limits: Mapping[str, tuple[float, float]] | None = None,
    share: bool = False,
    label: str = "",
) -> Figure:
    """One panel a metric, below one another, one line a system: our value with its interval.

    Args: panels: metric -> the panel's title; lines: metric -> a value to mark, such as what was aimed at; systems:
        those shown, all that have the metric for none; dataset: of the rows shown, any for ""; log: metrics on a
        logarithmic scale; limits: metric -> the ends of its scale; share: one scale for all panels; label: what is
        across, said once below the last panel.
    """
    shown = [row for row in lab.with_published(rows) if dataset in ("", row.dataset)]
    found = {metric: [row for row in shown if row.metric == metric] for metric in panels}
    kept = {m: [r for r in own if not systems or r.system in systems] for m, own in found.items()}
    kept = {metric: own for metric, own in kept.items() if any(row.value is not None for row in own)}
    heights = [0.75 + 0.2 * len(own) for own in kept.values()] or [1.0]
    figure, grid = start_figure(
        max(len(kept), 1), 1, width=WIDTH, height=0.4 + sum(heights), squeeze=False, sharex=share, height_ratios=heights
    )
    for axes, (metric, own) in zip(grid[:, 0], kept.items(), strict=False):
        several = len({row.dataset for row in own}) > 1
        names = [lab.title(row.system) + (f", {row.dataset}" if several else "") for row in own]
        draw_intervals(axes, own, names)
        _mark_bare(axes, own)
        axes.tick_params(axis="x", labelbottom=True)
        axes.tick_params(axis="y", labelsize=6.5 if max(map(len, names)) > _LONG else 8)
        axes.set_title(panels[metric], fontsize=9)
        if limits and metric in limits:
            axes.set_xlim(limits[metric])
        if metric in log:
            axes.set_xscale("log")
        if lines and metric in lines:
            axes.axvline(lines[metric], color=REFERENCE, lw=1, ls="--")
    grid[-1, 0].set_xlabel(label)
    add_legend(figure, [row for own in kept.values() for row in own])
    return figure


def draw_awareness(lab: Lab, rows: Sequence[Row]) -> Figure:
    """Table 3: the four measures of agreement with the labels, those from 0 to 1 on the same scale."""
    panels = {"accuracy": "Accuracy", "f1": "F1", "auroc": "AUROC", "mcc": "MCC (0: chance)"}
    least = min([row.ci_low for row in rows if row.metric == "mcc" and row.ci_low is not None], default=0.0)
    limits = dict.fromkeys(panels, _SHARES) | {"mcc": (min(least, 0.0) + _SHARES[0], _SHARES[1])}
    return draw_stack(lab, rows, panels, limits=limits, label="95 % intervals over questions")


def draw_plane(lab: Lab, rows: Sequence[Row], across: str, up: str, *, labels: tuple[str, str]) -> Figure:
    """Systems in the plane of two metrics, each with both intervals; `labels` name the axes."""
    figure, axes = start_figure(width=WIDTH, height=4.4)
    put_plane(lab, axes, rows, across, up)
    axes.set(xlabel=labels[0], ylabel=labels[1])
    figure.legend(loc="outside lower center", ncols=2, fontsize=7)
    return figure


def put_plane(lab: Lab, axes: Axes, rows: Sequence[Row], across: str, up: str) -> None:
    """The same into axes at hand."""
    found = {metric: {row.system: row for row in rows if row.metric == metric} for metric in (across, up)}
    shared = [system for system in found[across] if system in found[up]]
    for number, system in enumerate(shared):
        x, y = found[across][system], found[up][system]
        if x.value is None or y.value is None:
            continue
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(
            [x.value], [y.value], xerr=_reach(x), yerr=_reach(y), fmt="none", ecolor=(colour, 0.6), elinewidth=0.8,
            capsize=3, capthick=1.2,
        )  # fmt: skip
        axes.plot([x.value], [y.value], _MARKS[number % len(_MARKS)], color=colour, ms=5, label=lab.title(system))


def draw_places(lab: Lab, rows: Sequence[Row]) -> Figure:
    """Figure 7: a line a system through its places over the weight of P.D., the paper's above, ours below."""
    published = _collect_places(lab.leaves())
    ours = {
        system: {row.metric: row.value for row in rows if row.system == system and row.value is not None}
        for system in dict.fromkeys(row.system for row in rows if row.metric.startswith("rank_k_"))
    }
    steps = [name_rank(weight) for weight in WEIGHTS]
    names = [f"{weight:g}" for weight in WEIGHTS]
    parts = {"published": published, _name_origin(rows): ours}
    parts = {title: table for title, table in parts.items() if table}
    heights = [0.9 + 0.24 * len(table) for table in parts.values()]
    figure, grid = start_figure(
        len(parts), 1, width=WIDTH, height=0.3 + sum(heights), squeeze=False, height_ratios=heights
    )
    for axes, (title, table) in zip(grid[:, 0], parts.items(), strict=True):
        put_places(lab, axes, table, steps, names)
        axes.set_title(title, fontsize=9)
    grid[-1, 0].set_xlabel("k, the weight of P.D.; 1 - k is that of D.A.")
    return figure


def put_places(
    lab: Lab, axes: Axes, table: Mapping[str, Mapping[str, float]], steps: Sequence[str], names: Sequence[str]
) -> None:
    """A line a system through its places, first on top; `table` is system -> step -> place."""
    for number, places in enumerate(table.values()):
        given = [(i, places[step]) for i, step in enumerate(steps) if step in places]
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(*zip(*given, strict=True), "o-", color=colour, lw=1.5, ms=4)
    last = sorted((places[steps[-1]], system) for system, places in table.items() if steps[-1] in places)
    for number, (place, system) in enumerate(last):
        height = place if place not in [p for p, _ in last[:number]] else place + 0.35  # those that tie
        axes.annotate(
            lab.title(system), (len(steps) - 1, height), xytext=(6, 0), textcoords="offset points", va="center",
            fontsize=7, color=COLOURS[list(table).index(system) % len(COLOURS)], annotation_clip=False,
        )  # fmt: skip
    axes.set_xticks(range(len(steps)), labels=list(names))
    axes.set_yticks(range(1, len(table) + 1))
    axes.set(ylabel="place", ylim=(len(table) + 0.6, 0.4), xlim=(-0.2, len(steps) - 1 + 0.42 * len(steps)))
    axes.grid(axis="x", visible=False)


def put_curves(
    axes: Axes,
    curves: Mapping[str, Sequence[Row | None]],
    positions: Sequence[float],
    *,
    dashed: Sequence[str] = (),
    colours: Mapping[str, str] | None = None,
) -> None:
    """A line a name through its rows' values, with a band for the intervals; a missing row is a gap."""
    for number, (name, rows) in enumerate(curves.items()):
        colour = (colours or {}).get(name, COLOURS[number % len(COLOURS)])
        given = [(x, row) for x, row in zip(positions, rows, strict=True) if row is not None and row.value is not None]
        if not given:
            continue
        x = [place for place, _ in given]
        values, style = [row.value or 0.0 for _, row in given], "o--" if name in dashed else "o-"
        axes.plot(x, values, style, color=colour, lw=1.5, ms=3.5, label=name)
        low, high = ([getattr(row, end) for _, row in given] for end in ("ci_low", "ci_high"))
        if None not in low and None not in high:
            axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)


def put_points(axes: Axes, name: str, rows: Sequence[Row | None], shift: float, colour: str) -> None:
    """A mark a row with its interval, at 0, 1, 2, ... and a shift that keeps several names apart."""
    given = [(i + shift, row) for i, row in enumerate(rows) if row is not None and row.value is not None]
    for number, (place, row) in enumerate(given):
        axes.errorbar([place], [row.value or 0.0], yerr=_reach(row), fmt="o", color=colour, ms=4, elinewidth=1,
                      label=name if not number else None)  # fmt: skip


def find_row(rows: Sequence[Row], system: str, metric: str, dataset: str = "") -> Row | None:
    """The row of a system and metric, None where there is none."""
    return next((r for r in rows if r.system == system and r.metric == metric and dataset in ("", r.dataset)), None)


def mark_origin(figure: Figure, rows: Sequence[Row]) -> None:
    """Say below a figure of sample values that they are no measurement."""
    if any(row.origin == "sample" for row in rows):
        figure.supxlabel("SAMPLE, not the paper's data", fontsize=8, color=pick_colour(rows))


def _mark_bare(axes: Axes, rows: Sequence[Row]) -> None:
    """Say of a value that it has no interval, by a hollow mark too, and of a row that it has no value."""
    for position, row in enumerate(reversed(rows)):
        if row.value is None and row.paper is None:
            axes.annotate("undefined", (0.02, position), xycoords=("axes fraction", "data"), va="center", fontsize=6.5)
        elif row.value is not None and (row.ci_low is None or row.ci_high is None):
            axes.plot([row.value], [position], "o", mfc="white", mec=pick_colour(rows), ms=5)
            axes.annotate("no interval", (row.value, position), xytext=(6, 0), textcoords="offset points", va="center",
                          fontsize=6.5)  # fmt: skip


def _name_origin(rows: Sequence[Row]) -> str:
    sample = any(row.origin == "sample" for row in rows)
    return "ours, SAMPLE" if sample else "ours, measured on OvertonEvals"


def _collect_places(leaves: Sequence[Leaf]) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for leaf in leaves:
        table.setdefault(leaf.system, {})[leaf.metric] = leaf.value
    return table


def _reach(row: Row) -> list[list[float]] | None:
    if row.ci_low is None or row.ci_high is None or row.value is None:
        return None
    return np.maximum([[row.value - row.ci_low], [row.ci_high - row.value]], 0).tolist()


__all__ = [
    "COLOURS", "PAPER", "WIDTH", "draw_awareness", "draw_places", "draw_plane", "draw_stack", "find_row", "mark_origin",
    "put_curves", "put_places", "put_plane", "put_points",
]  # fmt: skip
