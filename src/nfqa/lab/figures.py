"""How figures look: one style for matplotlib, seaborn and seaborn.objects, colours with a meaning, PNG and PDF."""

from __future__ import annotations

import logging
import re
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nfqa.data.paths import write_atomically

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from seaborn.objects import Plot

OURS, PUBLISHED, SAMPLE = "#1f6f8b", "#2b2f36", "#c2752d"  # our values, the paper's, those of the bundled sample
STANDING_IN = "#8b3a62"  # values of other data or another model than the paper's row
MUTED, RULE = "#9aa5b1", "#5b6470"  # what is beside the point, reference lines
PALETTE = ("#1f6f8b", "#c2752d", "#6b8e23", "#8b3a62", "#5b6470", "#b8860b", "#3f5ea8", "#4d4d4d")
STYLES = {"measured": (OURS, "o", ""), "stand-in": (STANDING_IN, "s", "////"), "sample": (SAMPLE, "o", "")}
_NOTE = "note"  # the name of a note among a figure's texts
_STYLE: dict[str, Any] = {
    "axes.edgecolor": RULE, "axes.facecolor": "white", "axes.spines.right": False, "axes.spines.top": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e4e7eb",
    "axes.titlelocation": "left", "axes.titlesize": 10, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "font.family": "DejaVu Sans", "font.size": 9, "legend.fontsize": 8, "legend.frameon": False,
    "figure.dpi": 110, "figure.constrained_layout.use": True, "pdf.fonttype": 42,
}  # fmt: skip


def use_style() -> None:
    """Set the project's style for every figure drawn from here on; import `seaborn.objects` before, if at all."""
    import matplotlib as mpl
    from matplotlib.rcsetup import cycler

    # seaborn 0.13 passes pandas 3 a keyword that it no longer needs; nothing in a notebook depends on it
    warnings.filterwarnings("ignore", message=".*copy keyword.*", category=Warning)
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    style = _STYLE | {"axes.prop_cycle": cycler("color", PALETTE)}
    mpl.rcParams.update(cast("Any", style))
    if objects := sys.modules.get("seaborn.objects"):  # it takes seconds to import: only where a notebook has done so
        objects.Plot.config.theme.update(style)


def subplots(*shape: int, **how: Any) -> tuple[Figure, Any]:
    """As `matplotlib.pyplot.subplots`, but shown once, where a cell ends with the figure's name, not a second time."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(*shape, **how)
    plt.close(figure)  # what pyplot still knows at a cell's end, JupyterLab shows of itself
    return figure, axes


def draw_prompt(text: str, counts: pd.DataFrame, notes: Sequence[str], *, title: str) -> Figure:
    """A prompt shown as it is written, beside a small table of what was counted in it and notes below the table.

    Args: text: of one prompt, or of several one below the other; counts: what is counted (index, in words) by prompt
        (columns, up to four), NaN where it does not apply.
    """
    lines = "\n".join(
        textwrap.fill(line, 74, subsequent_indent=" " * len(re.match(r"\s*(?:-|\d\.)?\s*", line)[0]))  # type: ignore[index]
        for line in text.splitlines()
    )
    written = counts.map(lambda count: "–" if count != count else f"{count:,.0f}")  # NaN is not equal to itself
    beside = [("", *counts.columns), *written.itertuples(name=None)]
    for note in notes:
        beside += [("",), *((line,) for line in textwrap.wrap(note, 40))]
    points = max(9.1 * (lines.count("\n") + 1.5), 10.5 * (len(beside) + 1))
    figure, (left, right) = subplots(1, 2, figsize=(7.2, points / 72 + 0.4), width_ratios=[1.75, 1])
    for axes in (left, right):
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(0, 1))
    mono = {"family": "DejaVu Sans Mono", "fontsize": 6.4, "linespacing": 1.35, "parse_math": False}
    left.text(0.03, 0.99, lines, va="top", **mono)
    left.plot([0, 0], [0, 1], color=OURS, lw=4)
    left.set_title(title)
    right.set_title("What was counted")
    step = 0.22 if len(counts.columns) < 4 else 0.15
    places = [0.0, *(1 - step * after for after in reversed(range(len(counts.columns))))]
    for number, row in enumerate(beside, start=1):
        for place, word in zip(places, row, strict=False):
            style = {"ha": "right" if place else "left", "fontsize": 7, "weight": "bold" if number == 1 else "normal"}
            right.annotate(word, (place, 1), (0, -10.5 * number), textcoords="offset points", **style)
    return figure


def add_values(plot: Plot, rows: pd.DataFrame) -> Plot:
    """Ours as dots with 95 % intervals, in a colour and shape by origin, and the published values as hollow diamonds.

    Args: rows: what `Lab.label` gave, to place across.
    """
    import seaborn.objects as so

    for origin, (colour, marker, _) in STYLES.items():
        own = rows[rows.origin == origin]
        if len(own):
            plot = plot.add(so.Range(color=colour, linewidth=1.6), data=own, x="value", xmin="low", xmax="high")
            dot = so.Dot(color=colour, marker=marker, pointsize=4)
            plot = plot.add(dot, data=own, x="value", label=f"{origin}, 95 % interval")
    return plot.add(so.Dot(color=PUBLISHED, marker="D", pointsize=6, fill=False), x="published", label="published")


def add_note(figure: Figure | Plot, note: str) -> Figure | Plot:
    """The figure with a note below all that it shows, as wide as that; once, however often it is added.

    A plot of seaborn.objects becomes the figure that it draws; without a note it is as it was.
    """
    import matplotlib.pyplot as plt

    if not note:
        return figure
    plt.switch_backend(plt.get_backend())  # so that a kernel knows how figures are shown
    drawn: Figure = cast("Any", figure).plot()._figure if hasattr(figure, "plot") else cast("Any", figure)
    if all(text.get_gid() != _NOTE for text in drawn.texts):
        for _ in range(2):  # a layout settles with the second; it is to stay
            drawn.draw_without_rendering()
        drawn.set_layout_engine("none")
        for legend in drawn.legends:  # saving crops the figure: a legend must not move to the new edge, over the note
            place = legend.get_bbox_to_anchor().transformed(drawn.transFigure.inverted())
            legend.set_bbox_to_anchor(place, drawn.transFigure)
        (width, height), shown, points = drawn.get_size_inches(), drawn.get_tightbbox(), 6.5
        bottom = min([shown.y0 / height, *(axes.get_position().y0 for axes in drawn.axes)])
        per_line = int(shown.width * 72 / (0.54 * points))
        lines = "\n".join(textwrap.fill(line, per_line, subsequent_indent="   ") for line in note.splitlines())
        style: dict[str, Any] = {"va": "top", "fontsize": points, "color": RULE, "gid": _NOTE, "parse_math": False}
        drawn.text(shown.x0 / width, bottom - 0.08 / height, lines, **style)
    return drawn


def save_figure(figure: Figure | Plot, stem: Path) -> None:
    """Write STEM.png (200 dpi) and STEM.pdf, without dates, so that equal figures give equal bytes."""
    for ending, options in (
        (".png", {"dpi": 200, "metadata": {"Software": None}}),
        (".pdf", {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}}),
    ):
        with write_atomically(stem.with_suffix(ending)) as scratch:
            save: Any = getattr(figure, "savefig", None) or getattr(figure, "save", None)
            save(scratch, format=ending[1:], bbox_inches="tight", **options)
