"""Figures 3 and 4: whether P.D. ranks systems and answers alike under another evaluator or another instruction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.perplexity import PAPER
from nfqa.kernels.resample import bootstrap_mean, draw_counts, find_interval
from nfqa.lab.experiments.alignment import average_columns, correlate_rows, make_row
from nfqa.lab.experiments.alignment_people import weigh_ratings
from nfqa.lab.experiments.alignment_scores import Scored, open_evaluators, score_diversity
from nfqa.lab.experiments.debate_figures import WIDTH
from nfqa.lab.plots import start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.lab.debate_lab import DebateLab

INSTRUCTIONS = (
    "restate_words",
    "restate_views",
    "restate_reader",
    "restate_task",
)  # of prompts/own, beside the paper's
# Which pairs are averaged: all, those of evaluators as they ship, those without their continuous cache.
OVER_PAIRS = ("over_pairs", "over_pairs_as_shipped", "over_pairs_no_cache")
_KENDALL = "nfqa.kernels.correlation:_kendall"


def score_instructions(lab: DebateLab, dataset: QuestionSet, *, wrapping: str = "chat") -> list[Scored]:
    """P.D. as the paper has it under five instructions with the evaluator role: the paper's and four of ours."""
    prompts = lab.read_prompts("own")
    texts = {"restate_paper": PAPER.instruction} | {name: prompts.get(name).text for name in INSTRUCTIONS}
    found = []
    for name, text in texts.items():
        (scored,) = score_diversity(
            {name: lab.evaluator}, dataset, variants=("paper",), wrapping=wrapping, instruction=text  # type: ignore[arg-type]
        )  # fmt: skip
        found.append(Scored(name, scored.answers, scored.signature, scored.kernel, dropped=scored.dropped))
    return found


def score_evaluators(lab: DebateLab, dataset: QuestionSet, *, wrapping: str = "chat") -> list[Scored]:
    """P.D. as the paper has it under every evaluator, with its continuous cache and without."""
    evaluators = open_evaluators(lab, without_cache="all")
    evaluators = dict(sorted(evaluators.items(), key=lambda item: item[0].endswith("_no_cache")))
    return score_diversity(evaluators, dataset, variants=("paper",), wrapping=wrapping)  # type: ignore[arg-type]


def compare_rankings(dataset: QuestionSet, metrics: Sequence[Scored], *, resamples: int, seed: int = 0) -> list[Row]:
    """Kendall's tau between every two metrics' rankings of the systems, and of the answers to each question.

    `systems_kendall_OTHER`: of the systems by their means over questions, interval over questions, which both metrics
    share. `answers_kendall_OTHER`: within each question, averaged. `over_pairs` averages over the pairs of metrics,
    with the lowest pair beside it; where evaluators stand with and without their cache, also over each kind alone.
    """
    counts = draw_counts(len(dataset.questions), resamples=resamples, seed=seed)
    drawn = {metric.system: weigh_ratings(metric.answers[:, None, :], counts)[:, 0] for metric in metrics}
    rows: list[Row] = []
    for first, second in combinations(metrics, 2):
        means = [average_columns(metric.answers)[None] for metric in (first, second)]
        value = correlate_rows(means[0], means[1], "kendall")[0][0]
        draws, _ = correlate_rows(drawn[first.system], drawn[second.system], "kendall")
        mark = f"against:{second.system}|{second.signature}|boot:{resamples}:questions"
        kernels = (first.kernel, _KENDALL)
        interval = find_interval(value, draws, n=len(dataset.systems))
        rows.append(make_row(dataset, first, f"systems_kendall_{second.system}", interval, mark, kernels, {}))
        values, why = correlate_rows(first.answers, second.answers, "kendall")
        interval = bootstrap_mean(values, resamples=resamples, seed=seed)
        rows.append(make_row(dataset, first, f"answers_kendall_{second.system}", interval, mark, kernels, why))
    for group in OVER_PAIRS:
        for kind in ("systems", "answers"):
            pairs = [row.value for row in _take_pairs(rows, kind, group) if row.value is not None]
            for name, statistic in (("mean", np.mean), ("lowest", np.min)):
                if pairs:
                    value = float(statistic(pairs))
                    rows.append(_make_summary(dataset, group, f"{kind}_kendall_{name}", value, len(pairs)))
    return rows


def _take_pairs(rows: Sequence[Row], kind: str, group: str) -> list[Row]:
    """The pairs of a group; a group that would be the same as all pairs is empty."""
    pairs = [row for row in rows if row.system not in OVER_PAIRS and row.metric.startswith(f"{kind}_")]
    plain = [(row.system.endswith("_no_cache"), row.metric.endswith("_no_cache"), row) for row in pairs]
    if group == OVER_PAIRS[0] or not any(a or b for a, b, _ in plain):
        return pairs if group == OVER_PAIRS[0] else []
    wanted = group == OVER_PAIRS[2]
    return [row for a, b, row in plain if a == b == wanted]


def _make_summary(dataset: QuestionSet, group: str, metric: str, value: float, n: int) -> Row:
    return Row(
        system=group, dataset=dataset.name, metric=metric, value=value, n=n,
        signature=f"{group}|{metric}|v1", kernels=(_KENDALL,), origin=dataset.origin,
    )  # fmt: skip


def tabulate_pairs(rows: Sequence[Row], systems: Sequence[str], kind: str) -> NDArray[np.float64]:
    """The rows of `compare_rankings` as a table, [M, M], NaN on the diagonal; `kind` is "systems" or "answers"."""
    found = {(row.system, row.metric): row.value for row in rows}
    table = np.full((len(systems), len(systems)), np.nan)
    for i, first in enumerate(systems):
        for j, second in enumerate(systems):
            value = found.get((first, f"{kind}_kendall_{second}"))
            if value is not None:
                table[i, j] = table[j, i] = value
    return table


def draw_stability(lab: DebateLab, rows: Sequence[Row], metrics: Sequence[Scored]) -> Figure:
    """Two heat maps of Kendall's tau: of the systems, and of the answers to each question."""
    systems = [metric.system for metric in metrics]
    names = [lab.title(system).removeprefix("P.D., as the paper, ") for system in systems]
    tables = {kind: tabulate_pairs(rows, systems, kind) for kind in ("systems", "answers")}
    low = -1.0 if any((table < 0).any() for table in tables.values()) else 0.0
    figure, panels = start_figure(2, 1, width=WIDTH, height=2.2 + 0.84 * len(systems), sharex=True)
    sample = " (SAMPLE data)" if any(row.origin == "sample" for row in rows) else ""
    titles = ("Systems, by their mean", "Answers to a question, averaged")
    for axes, table, title in zip(panels, tables.values(), titles, strict=True):
        draw_heat_map(axes, table, names, f"{title}{sample}", low=low)
        axes.tick_params(labelsize=7)
    bar = figure.colorbar(panels[1].images[0], ax=panels, location="bottom", shrink=0.8, aspect=30)
    bar.set_label("Kendall's tau (1: the same order)", fontsize=8)
    return figure


def describe_stability(lab: DebateLab, dataset: QuestionSet, rows: Sequence[Row], what: str) -> list[str]:
    """How far the rankings agree, and the pair that agrees least; `what` names what changes, such as "evaluators"."""
    sentences = []
    words = {"systems": f"the {len(dataset.systems)} systems", "answers": "the answers to a question"}
    groups = dict(zip(OVER_PAIRS, ("", " as they ship", " without their cache"), strict=True))
    for kind, shown in words.items():
        for group, which in groups.items():
            pairs = [row for row in _take_pairs(rows, kind, group) if row.value is not None]
            if not pairs:
                continue
            lowest = min(pairs, key=lambda row: row.value or 0.0)
            mean = float(np.mean([row.value for row in pairs if row.value is not None]))
            other = lab.title(lowest.metric.removeprefix(f"{kind}_kendall_"))
            sentences.append(
                f"{dataset.name}, {shown}: mean Kendall {mean:.2f} over {len(pairs)} pairs of {what}{which}; least"
                f" between {lab.title(lowest.system)} and {other}, {lowest.value:.2f}"
                f" [{lowest.ci_low:.2f}, {lowest.ci_high:.2f}]."
            )
    return sentences


def draw_heat_map(  # type: ignore[no-untyped-def]
    axes, table: NDArray[np.float64], names: Sequence[str], title: str, *, low: float = -1.0
) -> None:
    """A table of correlations from `low` to 1 with its numbers; the diagonal, and what is undefined, stays empty."""
    axes.imshow(table, vmin=low, vmax=1, cmap="RdBu" if low < 0 else "Blues")
    size = 8 if len(table) <= 6 else 6.5
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            if not np.isnan(value):
                colour = "white" if abs(value) > 0.6 else "black"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=size, color=colour)
    axes.set_xticks(range(len(names)), labels=names, rotation=40, ha="right")
    axes.set_yticks(range(len(names)), labels=names)
    axes.set(title=title)
    axes.grid(visible=False)
