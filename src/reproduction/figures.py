"""How figures look: one style for matplotlib and seaborn, colours with a meaning, one way to draw
intervals.
"""

from __future__ import annotations

import logging
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nfqa.files.paths import write_atomically

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What a colour says in every figure: whose values they are. Series of one kind take PALETTE, which has none of these.
OURS = "#1f6f8b"  # values measured here
PUBLISHED = "#2b2f36"  # the paper's
SAMPLE = "#c2752d"  # values of the bundled sample
STANDING_IN = "#8b3a62"  # values of other data or another model than the paper's row
MUTED = "#9aa5b1"  # what is beside the point
RULE = "#5b6470"  # reference lines
PALETTE = ("#3f5ea8", "#6b8e23", "#d4a017", "#7b4b2a", "#d0679d", "#4d4d4d", "#5aa9d6", "#9b8fc7")
ORIGINS = {"measured": OURS, "stand-in": STANDING_IN, "sample": SAMPLE, "paper": PUBLISHED}
MARKERS = "osD^v<>P"
_MARKS = dict(zip(ORIGINS, "osoD", strict=True))
_NOTE = "note"  # the name of a note among a figure's texts
_STYLE: dict[str, Any] = {
    "axes.edgecolor": RULE, "axes.facecolor": "white", "axes.spines.right": False, "axes.spines.top": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e4e7eb",
    "axes.titlelocation": "left", "axes.titlesize": 10, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "font.family": "DejaVu Sans", "font.size": 9, "legend.fontsize": 8, "legend.frameon": False,
    "figure.dpi": 110, "figure.constrained_layout.use": True, "pdf.fonttype": 42,
}  # fmt: skip


def use_style() -> None:
    """Set the project's style for every figure drawn from here on."""
    import matplotlib as mpl
    from matplotlib.rcsetup import cycler

    # seaborn 0.13 passes pandas 3 a keyword that it no longer needs; nothing in a notebook depends on it
    warnings.filterwarnings("ignore", message=".*copy keyword.*", category=Warning)
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    mpl.rcParams.update(cast("Any", _STYLE | {"axes.prop_cycle": cycler("color", PALETTE)}))


def subplots(*shape: int, **options: Any) -> tuple[Figure, Any]:
    """As `matplotlib.pyplot.subplots`, but shown once, where a cell ends with the figure's name,
    not a second time.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(*shape, **options)
    plt.close(figure)  # what pyplot still knows at a cell's end, JupyterLab shows of itself
    return figure, axes


def draw_intervals(
    rows: pd.DataFrame, *, y: str = "label", panel: str = "panel", by: str = "origin", order: Sequence[str] = (),
    line: float | Mapping[str, float] | None = None, columns: int = 0, xlabel: str = "", width: float = 6.4,
    wrap: int = 28, **options: Any,
) -> Figure:  # fmt: skip
    """Values as dots with their 95 % intervals: a row per label, a panel per measure, hollow
    diamonds for the paper's.

    Args: rows: value, low, high and, where there are any, published; y, panel: columns of words;
        by: a column whose words have a colour and shape each, side by side in a row; order: the
        labels from the top, by default as they come; line: where a dashed line stands, in every
        panel or in those named; columns: of panels, by default all side by side; with one, each has
        its own labels; xlabel: below them all, before what the intervals are over; width: inches;
        wrap: characters of a label before it is broken; options: for `subplots`.
    """
    every = list(dict.fromkeys(order or rows[y]))
    series = list(dict.fromkeys(rows[by].dropna()))
    rows = rows.assign(panel=rows.get(panel, ""), published=rows.get("published", np.nan))
    colours, marks = (
        (ORIGINS, _MARKS)
        if by == "origin"
        else (dict(zip(series, choices, strict=False)) for choices in (PALETTE, MARKERS))
    )
    lane = rows[by].map(series.index, na_action="ignore").groupby([rows.panel, rows[y]])  # among those of its row
    rows["lane"] = 0.6 * ((lane.rank(method="dense") - 0.5) / lane.transform("nunique") - 0.5)
    lanes = max(int(lane.nunique().max()), 1)
    panels = dict(list(rows.groupby("panel", sort=False)))
    labels = {title: [each for each in every if columns != 1 or each in set(part[y])] for title, part in panels.items()}
    words = {label: textwrap.fill(str(label), wrap) for label in every}
    room = {label: max(0.23 + 0.13 * text.count("\n"), 0.06 + 0.12 * lanes) for label, text in words.items()}
    heights = [sum(room[label] for label in part) for part in labels.values()]
    side_by_side = columns or len(panels)
    lines = -(-len(panels) // side_by_side)
    shape: dict[str, Any] = {"nrows": lines, "ncols": side_by_side}
    if columns == 1:
        shape |= {"figsize": (width, 0.7 + 0.4 * lines + sum(heights)), "height_ratios": heights}
    else:
        shape |= {"figsize": (width, 0.7 + lines * (0.4 + max(heights))), "sharey": True}
    figure, grid = subplots(squeeze=False, **shape | options)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, (title, inside) in zip(grid.flat, panels.items(), strict=False):
        inside = inside.assign(place=inside[y].map(labels[title].index) + inside.lane.fillna(0))
        for name in series:
            part = inside[inside[by] == name]
            label = "proxy*" if name == "stand-in" else name
            axes.hlines(part.place, part.low, part.high, color=colours[name], lw=1.6)
            if part.value.notna().any():
                axes.plot(part.value, part.place, marks[name], color=colours[name], ms=4.5, label=label)
        of_paper = inside.assign(series=inside[by] if by != "origin" else "").dropna(subset="published")
        for name, part in of_paper.groupby("series", sort=False, dropna=False):
            edge, label = (colours[name], f"{name}, published") if name in colours else (PUBLISHED, "published")
            axes.scatter(part.published, part.place, 36, "none", marker="D", edgecolors=edge, label=label)
        if line is not None and (not isinstance(line, Mapping) or title in line):
            axes.axvline(line[title] if isinstance(line, Mapping) else line, color=RULE, lw=1, ls="--")
        axes.set_yticks(range(len(labels[title])), [words[each] for each in labels[title]])
        axes.set(ylim=(len(labels[title]) - 0.5, -0.5))
        shown = textwrap.fill(title, 90 // columns) if columns > 1 else title
        axes.set_title(shown, fontsize=9 if len(panels) < 4 else 8)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(axis="y", visible=False)
    named = {label for axes in grid.flat for label in axes.get_legend_handles_labels()[1]}
    if len(named) > 1 or by == "origin":
        draw_legend(figure, across=4 if len("".join(named)) < 100 else 2)
    figure.supxlabel("; ".join(filter(None, [xlabel, say_units(rows)])), fontsize=8)
    return figure


def draw_legend(figure: Figure, *, across: int) -> None:
    """One legend above the panels that names each mark once, in place of an earlier one."""
    for earlier in [*figure.legends]:
        earlier.remove()
    pairs = [axes.get_legend_handles_labels() for axes in figure.axes]
    legend = {label: handle for handles, names in pairs for handle, label in zip(handles, names, strict=True)}
    figure.legend(legend.values(), legend.keys(), loc="outside upper right", ncols=across)


def draw_pairs(
    pairs: pd.DataFrame, *, one: str, other: str, by: str, below: str, above: str, order: Sequence[str], **options: Any
) -> Figure:
    """Two measures of every two things in one matrix, in which the columns have the numbers of the
    rows.

    Args: pairs: `value`, and columns of words: one, other: two things, in either order; by: the
        measure; below, above: which measure stands under the diagonal, which over it; order: the
        things from the top; options: for `seaborn.heatmap`.
    """
    import pandas as pd
    import seaborn as sns

    both = pd.concat([pairs, pairs.rename(columns={one: other, other: one})])
    squares = both.pivot(index=[by, one], columns=other, values="value")
    under, over = (squares.loc[name].reindex(index=order, columns=order) for name in (below, above))
    labels = [textwrap.fill(f"{number}  {name}", 28) for number, name in enumerate(order, 1)]
    figure, axes = subplots(figsize=(7.2, 1 + 0.46 * len(order)))
    style = {"annot": True, "fmt": ".2f", "linewidths": 0.5, "cmap": "Blues", "annot_kws": {"size": 9}, "ax": axes}
    style |= {"xticklabels": range(1, len(order) + 1), "yticklabels": labels, "cbar_kws": {"pad": 0.02}}
    sns.heatmap(under.where(np.tri(len(order), dtype=bool), over), **style | options)
    axes.grid(visible=False)
    axes.tick_params(length=0, labelrotation=0)
    axes.set(xlabel="", ylabel="")
    return figure


def say_units(rows: pd.DataFrame) -> str:
    """What the intervals of rows are over, by their column `resampled`: "95 % intervals over 54 to
    97 questions".
    """
    units = rows.loc[rows.low.notna(), "resampled"].dropna().str.split(", ").explode().str.extract(r"([\d,]+) (.+)")
    sizes = units[0].str.replace(",", "").astype(float).groupby(units[1], sort=False).agg(["min", "max"])
    words = [f"{low:,.0f}{f' to {high:,.0f}' * (high > low)} {noun}" for noun, low, high in sizes.itertuples()]
    return f"95 % intervals over {' and '.join(words)}" if words else ""


def mark_points(axes: Axes, points: pd.DataFrame, show: Callable[..., str]) -> None:
    """A mark of its own shape and colour for each point, named in the legend.

    Args: points: columns x and y, by name; show: how a name is shown.
    """
    styles = zip(cycle("os^Dv<>P*Xpd"), cycle(PALETTE))
    for (name, point), (shape, colour) in zip(points.dropna().iterrows(), styles, strict=False):
        axes.plot(point.x, point.y, shape, color=colour, ms=6, label=show(name))


def add_note(figure: Figure, note: str) -> Figure:
    """The figure with a note below all that it shows, as wide as that; once, however often it is
    added.
    """
    if note and all(text.get_gid() != _NOTE for text in figure.texts):
        for _ in range(2):  # a layout settles with the second; it is to stay
            figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for legend in figure.legends:  # saving crops the figure: a legend must not move to the new edge, over the note
            place = legend.get_bbox_to_anchor().transformed(figure.transFigure.inverted())
            legend.set_bbox_to_anchor(place, figure.transFigure)
        (width, height) = figure.get_size_inches()
        box = figure.get_tightbbox()
        points = 6.5
        bottom = min([box.y0 / height, *(axes.get_position().y0 for axes in figure.axes)])
        per_line = int(box.width * 72 / (0.54 * points))
        lines = "\n".join(textwrap.fill(line, per_line, subsequent_indent="   ") for line in note.splitlines())
        style: dict[str, Any] = {"va": "top", "fontsize": points, "color": RULE, "gid": _NOTE, "parse_math": False}
        figure.text(box.x0 / width, bottom - 0.08 / height, lines, **style)
    return figure


def save_figure(figure: Figure, stem: Path) -> None:
    """Write STEM.png (200 dpi) and STEM.pdf, without dates, so that equal figures give equal bytes."""
    for ending, options in (
        (".png", {"dpi": 200, "metadata": {"Software": None}}),
        (".pdf", {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}}),
    ):
        with write_atomically(stem.with_suffix(ending)) as scratch:
            figure.savefig(scratch, format=ending[1:], bbox_inches="tight", **options)
