"""Equation 7 drawn, and what was found of it in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nfqa.lab.experiments.equation_07 import CHANGES, STARTS, Compared, list_bins, name_bin, say_bound
from nfqa.lab.plots import PAPER, pick_colour, start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab


def draw_approximation(sets: Sequence[Compared], rows: Sequence[Row]) -> Figure:
    """Above, measured against predicted ratios of a token; below, how far the two are apart over perplexity.

    Ratios are counted in decades, so that 2 is a factor of 100, on logarithmic axes; the line is where the
    approximation would be exact. Pairs with a measured ratio of 1 or less have no place above.
    """
    figure, grid = start_figure(2, len(sets), width=2.6 * len(sets), height=5.2, squeeze=False)
    for column, compared in enumerate(sets):
        title, pairs = compared.dataset.name, compared.pairs
        scale = 1 / math.log(10)
        predicted = np.array([pair.predicted for pair in pairs]) * scale
        measured = np.array([pair.token for pair in pairs]) * scale
        perplexity = np.array([pair.perplexity for pair in pairs])
        upper, lower = grid[0, column], grid[1, column]
        rises = (measured > 0) & (predicted > 0)
        upper.plot(predicted[rises], measured[rises], ".", color=pick_colour(rows), ms=2, alpha=0.4)
        ends = [min(predicted[rises].min(initial=1e-2), measured[rises].min(initial=1e-2)), 1e3]
        upper.plot(ends, ends, color=PAPER, lw=1)
        upper.set(xscale="log", yscale="log", title=title, xlabel="predicted, decades", ylabel="measured, decades")
        errors = np.maximum(np.abs(predicted - measured), 1e-4)
        lower.plot(perplexity, errors, ".", color=pick_colour(rows), ms=2, alpha=0.4)
        lower.axhline(math.log10(2), color=PAPER, lw=1)
        lower.annotate("factor 2", (1, math.log10(2)), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                       fontsize=7)  # fmt: skip
        decades = np.log10([max(1.0, perplexity.min(initial=10.0)), perplexity.max(initial=10.0)])
        limits = (10 ** np.floor(decades[0]), 10 ** max(np.ceil(decades[1]), np.floor(decades[0]) + 1))
        lower.set(xscale="log", yscale="log", xlim=limits, xlabel="mean perplexity", ylabel="error, decades")
    return figure


def describe_approximation(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """Whether the worked example comes out, and where the approximation holds."""
    found = {row.key: row for row in rows}
    ratio = found["approximation", "worked_example", "ratio"].value or 0.0
    leaf = lab.leaves()[0]
    verdict = "comes out" if round(ratio, leaf.decimals) == leaf.value else "does NOT come out"
    sentences = [f"The worked example {verdict}: exp(2/3) = {ratio:.4f}, printed {leaf.text}."]
    if ("exact", "worked_example", "largest_token_ratio") in found:
        exact = {m: found["exact", "worked_example", f"token_ratio_from_ppl_{m:g}"].value for m in STARTS}
        most = found["exact", "worked_example", "largest_token_ratio"].value
        listed = ", ".join(f"{value:.2f} from {start:g}" for start, value in exact.items())
        sentences.append(
            f"Were the three perplexities lower by 2/3 each, a token would be {listed} times as probable; as no"
            f" perplexity is below 1, never more than {most:.2f} times."
        )
    for dataset, system in dict.fromkeys((row.dataset, row.system) for row in rows if "approximation_" in row.system):
        own = {row.metric: row for row in rows if (row.dataset, row.system) == (dataset, system)}
        other = {
            r.metric: r
            for r in rows
            if (r.dataset, r.system) == (dataset, system.replace("approximation", "corrected"))
        }
        near, better = own["within_factor_2_token"], other["within_factor_2_token"]
        by_size = _list_shares(own, list_bins(), "ppl")
        by_change = _list_shares(own, list(pairwise((0.0, *CHANGES, math.inf))), "change")
        sentences.append(
            f"{dataset}, {system.removeprefix('approximation_')}: the predicted factor is within twice or half the"
            f" measured one of a token for {100 * (near.value or 0):.0f} % of pairs [{100 * (near.ci_low or 0):.0f},"
            f" {100 * (near.ci_high or 0):.0f}], of a whole partial answer for"
            f" {100 * (own['within_factor_2_sequence'].value or 0):.0f} %; by mean perplexity, {', '.join(by_size)};"
            f" by the change of perplexity, {', '.join(by_change)} (below ln 2 = 0.69 no more than a factor of 2 is"
            " predicted)."
            f" Its direction is right for {100 * (own['same_direction_token'].value or 0):.0f} %. Divided by the"
            f" perplexity, the change is within a factor of 2 of a token's for {100 * (better.value or 0):.0f} %."
        )
    return sentences


def _list_shares(own: Mapping[str, Row], bounds: Sequence[tuple[float, float]], what: str) -> list[str]:
    """The share within a factor of 2 for each range that any pair falls into."""
    found = {edges: own.get("within_factor_2_token" + name_bin(*edges, what)) for edges in bounds}
    return [
        f"{say_bound(low)} to {say_bound(high)}: {row.value:.2f}"
        for (low, high), row in found.items()
        if row is not None
    ]
