"""Sentences on systems answering debatable questions, found from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nfqa.kernels.correlation import correlate_groups
from nfqa.lab.experiments.debate_systems import OVER_SYSTEMS, WEIGHTS, name_rank
from nfqa.lab.experiments.diversity import say_number
from nfqa.lab.notebook import Lab
from nfqa.lab.results import Row


def describe_systems(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """For each metric of Table 4: first and last system, and whether their intervals overlap."""
    sentences = []
    for metric in dict.fromkeys(row.metric for row in rows if row.system != OVER_SYSTEMS):
        own = [row for row in rows if row.metric == metric and row.value is not None]
        if len(own) < 2 or metric.startswith(("normalised", "mean_words")):
            continue
        lower = metric.startswith("pd_")
        best, *_, worst = sorted(own, key=lambda row: (row.value or 0.0) * (1 if lower else -1))
        apart = (best.ci_high or 0.0) < (worst.ci_low or 0.0) or (worst.ci_high or 0.0) < (best.ci_low or 0.0)
        sentences.append(
            f"{metric}: best {_say(lab, best)}, worst {_say(lab, worst)}; the two intervals"
            f" {'are apart' if apart else 'overlap'}."
        )
    return sentences


def describe_variants(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """Whether the paper's and the released definition put the same system first."""
    sentences = []
    for metric in dict.fromkeys(row.metric for row in rows if row.metric.startswith("pd_paper_")):
        pair = [
            {row.system: row.value for row in rows if row.metric == name and row.value is not None}
            for name in (metric, metric.replace("paper", "released", 1))
        ]
        shared = [system for system in pair[0] if system in pair[1]]
        if len(shared) > 1:
            first, second = ([float(side[system] or 0.0) for system in shared] for side in pair)
            tau = correlate_groups(first, second, [len(shared)], method="kendall").values[0]
            best = [lab.title(min(side, key=lambda system, side=side: side[system] or 0.0)) for side in pair]  # type: ignore[misc]
            sentences.append(
                f"{metric.removeprefix('pd_paper_')}: the order of the {len(shared)} systems as the paper defines P.D."
                f" and as the script releases it agree at Kendall {tau:.2f}; first are {best[0]} and {best[1]}."
            )
    return sentences


def describe_ranks(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """How much the order moves with the weight: among the paper's systems, and among ours."""
    published: dict[str, dict[str, float]] = {}
    for leaf in lab.leaves():
        published.setdefault(leaf.system, {})[leaf.metric] = leaf.value
    ours: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.metric.startswith("rank_k_") and row.value is not None:
            ours.setdefault(row.system, {})[row.metric] = row.value
    sentences = []
    for words, table in (("the paper's", published), ("our", ours)):
        if len(table) < 2:
            continue
        first, last = ([ranks[name_rank(weight)] for ranks in table.values()] for weight in (WEIGHTS[0], WEIGHTS[-1]))
        tau = correlate_groups(first, last, [len(table)], method="kendall").values[0]
        firsts = [min(table, key=lambda s, w=w: table[s][name_rank(w)]) for w in WEIGHTS]  # type: ignore[misc]
        always = f"{lab.title(firsts[0])} is first at every weight" if len(set(firsts)) == 1 else (
            "first, as the weight of P.D. grows, are " + ", ".join(lab.title(s) for s in dict.fromkeys(firsts))
        )  # fmt: skip
        moved = max(
            (abs(ranks[name_rank(b)] - ranks[name_rank(a)]) for a, b in pairwise(WEIGHTS) for ranks in table.values())
        )
        sentences.append(
            f"Among {words} {len(table)} systems, the order by D.A. alone and that by P.D. alone agree at Kendall"
            f" {tau:.2f}; {always}; the largest move between neighbouring weights is {moved:g} places."
        )
    widths = [row.ci_high - row.ci_low for row in rows if row.ci_low is not None and row.ci_high is not None]
    if widths:
        sentences.append(
            f"Our places are known to within {np.median(widths):.1f} places (median width of an interval)."
        )
    return sentences


def describe_correlation(rows: Sequence[Row]) -> list[str]:
    """Whether systems with a better P.D. are those that are more often aware of the dispute."""
    sentences = []
    for row in rows:
        if row.system == OVER_SYSTEMS and row.metric.startswith("spearman"):
            name = row.metric.removeprefix("spearman_")
            if row.value is None or row.ci_low is None or row.ci_high is None:
                sentences.append(f"{name}: undefined, as one of the two is equal for all systems.")
                continue
            word = "excludes 0" if row.ci_low > 0 or row.ci_high < 0 else "holds 0"
            sentences.append(
                f"{name}: Spearman {row.value:.2f} over {row.n} systems [{row.ci_low:.2f}, {row.ci_high:.2f}];"
                f" the interval {word}."
            )
    return sentences


def _say(lab: Lab, row: Row) -> str:
    known = row.ci_low is not None and row.ci_high is not None
    interval = f" [{say_number(row.ci_low)}, {say_number(row.ci_high)}]" if known else ""
    return f"{lab.title(row.system)} {say_number(row.value)}{interval}"
