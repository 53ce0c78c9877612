"""The figure of what length does to P.D."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfqa.lab.experiments.answer_length import CUT, LENGTHS, name_length
from nfqa.lab.experiments.debate_figures import (
    WIDTH,
    find_row,
    mark_origin,
    put_curves,
    put_plane,
)
from nfqa.lab.plots import start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab


def draw_lengths(lab: Lab, rows: Sequence[Row], label: str, dataset: str) -> Figure:
    """P.D. and D.A. of answers cut to a length, above; systems at their own lengths, below."""
    ends = [name_length(most) for most in LENGTHS]
    words = [find_row(rows, CUT, f"mean_words_at_{end}", dataset) for end in ends]
    at = [row.value if row is not None and row.value is not None else 0.0 for row in words]
    figure, grid = start_figure(3, 1, width=WIDTH, height=8.2, squeeze=False)
    first, second, third = grid[:, 0]
    diversity = {
        variant: [find_row(rows, CUT, f"pd_{variant}_{label}_at_{end}", dataset) for end in ends]
        for variant in ("paper", "released")
    }
    base = {name: own[-1].value for name, own in diversity.items() if own[-1] is not None}
    scaled = {f"P.D., {name}": [_divide(row, base.get(name)) for row in own] for name, own in diversity.items()}
    put_curves(first, scaled, at)
    first.set(xlabel="mean words of the answers, cut", ylabel="P.D. / that of whole answers")
    first.legend(fontsize=7)
    others = [name for name in dict.fromkeys(r.dataset for r in rows if r.system == CUT) if name != dataset]
    awareness = {
        name: [find_row(rows, CUT, f"da_detector_at_{end}", name) for end in ends] for name in (dataset, *others)
    }
    for number, (name, own) in enumerate(awareness.items()):
        length = [find_row(rows, CUT, f"mean_words_at_{end}", name) for end in ends]
        places = [row.value if row is not None and row.value is not None else 0.0 for row in length]
        put_curves(second, {name: own}, places, colours={name: "#1f6f8b" if number == 0 else "#c2752d"})
    second.set(xlabel="mean words of the answers, cut", ylabel="share aware (D.A.)", ylim=(-0.03, 1.03))
    second.legend(fontsize=7)
    put_plane(lab, third, [row for row in rows if row.dataset == dataset], "mean_words", f"pd_paper_{label}")
    third.set(xlabel="mean words of a system's own answers", ylabel="P.D., paper")
    third.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.24))
    mark_origin(figure, rows)
    return figure


def _divide(row: Row | None, base: float | None) -> Row | None:
    if row is None or row.value is None or not base:
        return None
    ends = {end: None if (value := getattr(row, end)) is None else value / base for end in ("ci_low", "ci_high")}
    return row.model_copy(update={"value": row.value / base, **ends})
