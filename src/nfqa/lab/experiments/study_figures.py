"""Figures of the studies of P.D.: its variants, and what length does to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfqa.lab.experiments.answer_length import CUT, LENGTHS, name_length
from nfqa.lab.experiments.debate_figures import (
    COLOURS,
    WIDTH,
    find_row,
    mark_origin,
    put_curves,
    put_places,
    put_plane,
    put_points,
)
from nfqa.lab.experiments.pd_variants import CONTEXT_WORDS, RELEASED_STEP, STEPS
from nfqa.lab.plots import start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab

_SHORT = {
    "paper": "paper", "aggregate": "mean", "denominator": "all\ntokens", "instruction": "no in-\nstruction",
    "generation_prompt": "no\nopening", "boundary": "joint\ntokens", "released": "released",
}  # fmt: skip


def draw_variants(lab: Lab, rows: Sequence[Row], label: str) -> Figure:
    """The order of systems under each switch, how many pairs of answers it turns round, and what length alone moves."""
    steps = (*STEPS, RELEASED_STEP)
    systems = [row.metric.removeprefix("rank_") for row in rows if row.system == f"pd_paper_{label}"
               and row.metric.startswith("rank_")]  # fmt: skip
    places: dict[str, dict[str, float]] = {}
    for system in systems:
        found = {step: find_row(rows, f"pd_{step}_{label}", f"rank_{system}") for step in steps}
        places[system] = {step: row.value for step, row in found.items() if row is not None and row.value is not None}
    figure, grid = start_figure(3, 1, width=WIDTH, height=8.6, squeeze=False, height_ratios=[3.4, 2.4, 2.2])
    top, middle, bottom = grid[:, 0]
    put_places(lab, top, places, steps, [_SHORT[step] for step in steps])
    top.set_title(f"place by mean P.D., evaluator {label}: one switch at a time, then all", fontsize=9)
    top.tick_params(axis="x", labelsize=7)
    labels = [row.system.removeprefix("pd_paper_") for row in rows if row.system.startswith("pd_paper_")
              and row.metric == "flipped_pairs"]  # fmt: skip
    for number, name in enumerate(labels):
        own = [find_row(rows, f"pd_{step}_{name}", "flipped_pairs") for step in steps]
        put_points(middle, name, own, 0.14 * (number - (len(labels) - 1) / 2), COLOURS[number])
    middle.set_xticks(range(len(steps)), labels=[_SHORT[step] for step in steps], fontsize=7)
    middle.set_title("share of a question's pairs of answers turned round", fontsize=9)
    middle.legend(fontsize=7, title="evaluator", title_fontsize=7)
    grown = {
        f"per {'own token' if kind == 'target' else 'attended token'}": [
            find_row(rows, f"fixed_target_per_{kind}_{label}", f"mean_after_{count}_words") for count in CONTEXT_WORDS
        ]
        for kind in ("target", "attended")
    }
    put_curves(bottom, grown, CONTEXT_WORDS)
    bottom.set(xscale="log", yscale="log", xlabel="words of unrelated text before one fixed target")
    bottom.set_xticks(CONTEXT_WORDS, labels=list(map(str, CONTEXT_WORDS)))
    bottom.set_title(f"exp(loss / tokens) of the target, evaluator {label}", fontsize=9)
    bottom.legend(fontsize=7)
    mark_origin(figure, rows)
    return figure


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
