"""Figure 2: the published bars, redrawn from the leaves, with ours beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfqa.lab.plots import OURS, PAPER, SAMPLE, start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab


def collect_bars(lab: Lab, names: Sequence[str]) -> list[Row]:
    """Mean Spearman of each system over its draws, published and ours, with the deviation as spread."""
    rows = []
    for name in names:
        means = {leaf.key[:2]: leaf for leaf in lab.leaves(name) if leaf.metric == "spearman_mean"}
        deviations = {leaf.key[:2]: leaf.value for leaf in lab.leaves(name) if leaf.metric == "spearman_std"}
        for key, leaf in means.items():
            rows.append(
                Row(
                    system=leaf.system,
                    dataset=leaf.dataset,
                    metric="spearman_mean",
                    value=leaf.value,
                    spread=deviations[key],
                    n=3,
                    signature=f"{leaf.system}|published:{leaf.artefact}|runs:3|v1",
                    kernels=("nfqa.lab.experiments.bars:collect_bars",),
                    origin="paper",
                )
            )
        rows += [row for row in lab.read_other(name).rows if row.metric == "spearman_mean"]
    return rows


def draw_bars(lab: Lab, rows: Sequence[Row]) -> Figure:
    """One panel a data set; bars are means, whiskers one deviation over draws of the reference list."""
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    figure, panels = start_figure(len(datasets), 1, width=8, height=0.6 + 2.9 * len(datasets), squeeze=False)
    colours = {"paper": PAPER, "measured": OURS, "sample": SAMPLE}
    widest = max(row.value or 0.0 for row in rows)
    for axes, dataset in zip(panels[:, 0], datasets, strict=True):
        own = [row for row in rows if row.dataset == dataset][::-1]
        values = [row.value or 0.0 for row in own]
        axes.barh(
            [lab.title(row.system) for row in own],
            values,
            xerr=[row.spread or 0.0 for row in own],
            color=[colours[row.origin] for row in own],
            error_kw={"elinewidth": 1, "ecolor": "#2b2f36", "capsize": 2},
        )
        for position, row in enumerate(own):
            axes.text(
                (row.value or 0.0) + (row.spread or 0.0) + 0.006, position, f"{row.value:.3f}", va="center", fontsize=7
            )
        axes.set(title=dataset, xlim=(0, max(0.1, 1.18 * widest)))
        axes.grid(axis="y", visible=False)
    panels[-1, 0].set(xlabel="Spearman, mean over draws of the reference list (whisker: one standard deviation)")
    _add_key(figure, [row.origin for row in rows], colours)
    return figure


def _add_key(figure: Figure, origins: Sequence[str], colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    words = {
        "paper": "published, 3 draws",
        "measured": "ours, measured",
        "sample": "ours, sample (NOT the paper's data)",
    }
    marks = [Patch(color=colours[origin], label=words[origin]) for origin in dict.fromkeys(origins)]
    figure.legend(handles=marks, loc="outside lower right", ncols=len(marks))


def describe_bars(rows: Sequence[Row]) -> list[str]:
    """A sentence a data set: where our best system would stand among the published ones."""
    sentences = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        own = [r for r in rows if r.dataset == dataset and r.origin != "paper" and r.value is not None]
        published = [r for r in rows if r.dataset == dataset and r.origin == "paper" and r.value is not None]
        if own and published:
            best = max(own, key=lambda row: row.value or 0.0)
            above = sum((row.value or 0.0) > (best.value or 0.0) for row in published)
            sentences.append(
                f"{dataset}: {best.system}, mean {best.value:.3f} over its draws, has {above} of the {len(published)}"
                " published means above it. The candidate lists of the published runs are not released, so the two"
                " were not measured on the same candidates."
            )
    return sentences
