"""How figures look: one style for matplotlib, seaborn and seaborn.objects, colours with a meaning, PNG and PDF."""

from __future__ import annotations

import logging
import re
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
_STYLE: dict[str, Any] = {
    "axes.edgecolor": RULE,
    "axes.facecolor": "white",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#e4e7eb",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


def use_style() -> None:
    """Set the project's style for every figure drawn from here on, however it is drawn."""
    import matplotlib as mpl
    import seaborn as sns
    import seaborn.objects as so

    # seaborn 0.13 passes pandas 3 a keyword that it no longer needs; nothing in a notebook depends on it
    warnings.filterwarnings("ignore", message=".*copy keyword.*", category=Warning)
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    sns.set_palette(list(PALETTE))
    mpl.rcParams.update(cast("Any", _STYLE))
    so.Plot.config.theme.update(_STYLE | {"axes.prop_cycle": mpl.rcParams["axes.prop_cycle"]})


def subplots(*shape: int, **how: Any) -> tuple[Figure, Any]:
    """As `matplotlib.pyplot.subplots`, but shown once, where a cell ends with the figure's name, not a second time."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(*shape, **how)
    plt.close(figure)  # what pyplot still knows at a cell's end, JupyterLab shows of itself
    return figure, axes


def draw_prompt(text: str, counts: pd.DataFrame, notes: Sequence[str], *, title: str) -> Figure:
    """A prompt shown as it is written, beside a small table of what was counted in it and notes below the table.

    Args: counts: what is counted (index, in words) by prompt (columns), NaN where it does not apply.
    """
    lines = "\n".join(
        textwrap.fill(line, 74, subsequent_indent=" " * len(re.match(r"\s*(?:-|\d\.)?\s*", line)[0]))  # type: ignore[index]
        for line in text.splitlines()
    )
    beside = [("", *counts.columns), *((name, *map(_write_count, row)) for name, *row in counts.itertuples())]
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
    for number, row in enumerate(beside, start=1):
        for place, word in zip((0.0, 0.78, 1.0), row, strict=False):
            style = {"ha": "right" if place else "left", "fontsize": 7, "weight": "bold" if number == 1 else "normal"}
            right.annotate(word, (place, 1), (0, -10.5 * number), textcoords="offset points", **style)
    return figure


def _write_count(count: float) -> str:
    return f"{count:,.0f}" if count == count else "–"  # NaN is not equal to itself


def save_figure(figure: Figure | Plot, stem: Path) -> None:
    """Write STEM.png (200 dpi) and STEM.pdf, without dates, so that equal figures give equal bytes."""
    for ending, options in (
        (".png", {"dpi": 200, "metadata": {"Software": None}}),
        (".pdf", {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}}),
    ):
        with write_atomically(stem.with_suffix(ending)) as scratch:
            save: Any = getattr(figure, "savefig", None) or getattr(figure, "save", None)
            save(scratch, format=ending[1:], bbox_inches="tight", **options)
