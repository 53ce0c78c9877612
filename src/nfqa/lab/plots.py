"""Figures: one style, PNG and PDF, written from rows and leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from nfqa.data.paths import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab
    from nfqa.lab.results import Row

PAPER, OURS, SAMPLE, REFERENCE, PUBLISHED = "#9aa5b1", "#1f6f8b", "#c2752d", "#5b6470", "#2b2f36"
_STYLE = {
    "axes.edgecolor": "#5b6470",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "figure.dpi": 110,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#e4e7eb",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    "savefig.bbox": "tight",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


def start_figure(rows: int = 1, columns: int = 1, *, width: float = 9.0, height: float = 4.0, **options):  # type: ignore[no-untyped-def]
    """A figure in the project's style and its axes, as plt.subplots gives them."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams.update(cast("Any", _STYLE))  # for the whole notebook: a legend or label added later must match
    return plt.subplots(rows, columns, figsize=(width, height), layout="constrained", **options)


def save_figure(figure: Figure, stem: Path) -> None:
    """Write STEM.png (200 dpi) and STEM.pdf, without dates, so that equal figures give equal bytes."""
    for suffix, options in (
        (".png", {"dpi": 200, "metadata": {"Software": None}}),
        (".pdf", {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}}),
    ):
        with write_atomically(stem.with_suffix(suffix)) as scratch:
            figure.savefig(scratch, format=suffix[1:], **options)


def pick_colour(rows: Sequence[Row]) -> str:
    """The colour of our own values: measured and sample values never look alike."""
    return SAMPLE if any(row.origin == "sample" for row in rows) else OURS


def draw_intervals(axes: Axes, rows: Sequence[Row | None], names: Sequence[str]) -> None:
    """One line a row: our value with its interval, and the published value as a hollow diamond where there is one."""
    positions = list(range(len(rows)))[::-1]
    colour = pick_colour([row for row in rows if row is not None])
    for position, row in zip(positions, rows, strict=True):
        if row is None or row.value is None:
            continue
        low = row.value if row.ci_low is None else row.ci_low
        high = row.value if row.ci_high is None else row.ci_high
        axes.plot([low, high], [position] * 2, color=colour, lw=2, solid_capstyle="butt")
        axes.plot([row.value], [position], "o", color=colour, ms=5)
        if row.paper is not None:
            axes.plot([row.paper], [position], "D", mfc="none", mec=PUBLISHED, ms=8, mew=1.4)
    axes.set_yticks(positions, labels=list(names))
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", visible=False)


def draw_panels(
    lab: Lab,
    rows: Sequence[Row],
    *,
    label: str,
    panel: Literal["dataset", "metric", "system"] = "dataset",
    line: Literal["system", "metric"] = "system",
    metric: str = "",
    skip: Sequence[str] = (),
    zero_line: bool = False,
    share: bool = True,
) -> Figure:
    """One panel a data set, metric or system, one line a system or metric: our interval beside the published value.

    `skip` leaves out metrics or data sets; panels share one scale unless `share` is False.
    """
    shown = [
        row
        for row in lab.with_published(rows)
        if metric in ("", row.metric) and not {row.metric, row.dataset} & set(skip)
    ]
    panels = list(dict.fromkeys(getattr(row, panel) for row in shown))
    if panel != "system":
        panels.sort(key=str if panel == "dataset" else len)
    lines = list(dict.fromkeys(getattr(row, line) for row in shown))
    titles = [lab.title(name) if line == "system" else name for name in lines]
    size = {"width": 3.2 + 3 * len(panels), "height": 1 + 0.24 * len(lines)}
    figure, grid = start_figure(1, len(panels), squeeze=False, sharex=share, **size)
    for axes, name in zip(grid[0], panels, strict=True):
        found = {getattr(row, line): row for row in shown if getattr(row, panel) == name}
        draw_intervals(axes, [found.get(key) for key in lines], titles if axes is grid[0, 0] else [""] * len(lines))
        axes.set(title=lab.title(name) if panel == "system" else name, xlabel=label)
        if zero_line:
            axes.axvline(0, color=REFERENCE, lw=0.8, zorder=0)
    add_legend(figure, shown)
    return figure


def draw_runs(lab: Lab, rows: Sequence[Row]) -> Figure:
    """One line a system: a dot a draw, the mean with its interval over questions; published runs in grey above."""
    published: dict[str, list[float]] = {}
    for leaf in lab.leaves():
        if leaf.metric.startswith("spearman_run"):
            published.setdefault(leaf.system, []).append(leaf.value)
    systems = [*published, *dict.fromkeys(row.system for row in rows)]
    figure, axes = start_figure(width=8, height=1.1 + 0.3 * len(systems))
    colour = pick_colour(rows)
    for position, system in enumerate(reversed(systems)):
        mean = next((row for row in rows if row.system == system and row.metric == "spearman_mean"), None)
        if mean is not None and mean.ci_low is not None and mean.ci_high is not None:
            axes.plot(
                [mean.ci_low, mean.ci_high], [position] * 2, color=colour, lw=7, alpha=0.22, solid_capstyle="butt"
            )
            axes.plot([mean.value], [position], "|", color=colour, ms=13, mew=2)
        own = [row.value for row in rows if row.system == system and row.metric.startswith("spearman_run")]
        values = own or published[system]
        axes.plot(values, [position] * len(values), "o", color=colour if own else PAPER, ms=4, mec="white", mew=0.5)
    axes.set_yticks(range(len(systems)), labels=[lab.title(system) for system in reversed(systems)])
    axes.set(
        xlabel="Spearman, average over questions; one dot a draw of references, band: 95 % interval over questions"
    )
    axes.grid(axis="y", visible=False)
    add_legend(figure, rows, runs="published runs")
    return figure


def add_legend(figure: Figure, rows: Sequence[Row], *, runs: str = "") -> None:
    """Say, below the panels, which mark is ours and which is the paper's."""
    from matplotlib.lines import Line2D

    origin = "SAMPLE, not the paper's data" if any(row.origin == "sample" for row in rows) else "measured"
    marks = [Line2D([], [], marker="o", color=pick_colour(rows), lw=2, ms=5, label=f"ours ({origin}), 95 % interval")]
    if any(row.paper is not None for row in rows):
        marks.append(Line2D([], [], marker="D", mfc="none", mec=PUBLISHED, lw=0, ms=7, label="published"))
    if runs:
        marks.append(Line2D([], [], marker="o", color=PAPER, lw=0, ms=4, label=runs))
    figure.legend(handles=marks, loc="outside lower right", ncols=len(marks))
