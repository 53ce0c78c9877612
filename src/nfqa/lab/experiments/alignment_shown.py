"""Tables, figures and findings of the two artefacts that hold metrics against people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfqa.lab.experiments.debate_figures import draw_stack
from nfqa.lab.results import Row
from nfqa.metrics.answer_judging import BASELINES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from nfqa.lab.debate_lab import DebateLab

SIMPLE = ("length", "coverage", "sentence_clusters")
CEILINGS = ("people_left_out", "people_same_side", "people_split_half")
_TITLES = {
    "item_spearman": "Within annotator and question",
    "question_spearman": "Within question, mean rating",
    "system_spearman": "By system, mean rating",
    "spearman_elo": "Each annotator's ranking, averaged",
    "spearman_elo_together": "One ranking by all comparisons",
}


def name_default(lab: DebateLab) -> str:
    """The name of the evaluator role among `open_evaluators`: tiny, small, medium, or "role" for any other."""
    spec = lab.roles["evaluator"]
    return next((name for name, evaluator in lab.open_evaluators().items() if evaluator is lab.evaluator), spec)


def pick_rows(rows: Sequence[Row], metrics: Sequence[str]) -> list[Row]:
    """The rows of these metrics: systems in the order of the metric that has most of them, people last."""
    found = {metric: [row for row in rows if row.metric == metric] for metric in metrics}
    fullest = sorted(found.values(), key=len, reverse=True)
    systems = list(dict.fromkeys(row.system for own in fullest for row in own))
    systems.sort(key=CEILINGS.__contains__)
    return sorted((row for own in found.values() for row in own), key=lambda row: systems.index(row.system))


def show_matrix(lab: DebateLab, rows: Sequence[Row], metrics: Sequence[str]) -> pd.DataFrame:
    """One line a system, one column a metric, each value with its 95 % interval; what needs a judge says so."""
    import pandas as pd

    found = {(row.system, row.metric): row for row in rows}
    systems = list(dict.fromkeys(row.system for row in pick_rows(rows, metrics)))
    lines = [[lab.title(system), *(_say(found.get((system, metric))) for metric in metrics)] for system in systems]
    absent = [baseline for baseline in BASELINES if baseline not in systems]
    lines += [[lab.title(baseline), *["not run (needs: judge)"] * len(metrics)] for baseline in absent]
    pd.set_option("display.max_rows", None)
    pd.set_option("display.max_colwidth", None)
    return pd.DataFrame(lines, columns=["metric", *(metric.replace("_", " ") for metric in metrics)])


def draw_alignment(lab: DebateLab, rows: Sequence[Row], metrics: Sequence[str], *, label: str) -> Figure:
    """One panel a way of comparing, one line a metric: its correlation with people and the 95 % interval."""
    panels = {metric: _TITLES.get(metric, metric.replace("_", " ")) for metric in metrics}
    return draw_stack(lab, pick_rows(rows, metrics), panels, lines=dict.fromkeys(metrics, 0.0), share=True, label=label)


def describe_alignment(lab: DebateLab, rows: Sequence[Row], metric: str, words: str) -> list[str]:
    """What one way of comparing comes to: people among themselves, P.D. by default, the best metrics, what is sure.

    `words` says what is compared, such as "systems, within each annotator".
    """
    own = {row.system: row for row in rows if row.metric == metric and row.value is not None}
    ceilings = [own.pop(name) for name in CEILINGS if name in own]
    metrics = {name: row for name, row in own.items() if name != "annotators"}
    if not metrics:
        return [f"{words}: nothing could be measured."]
    sentences = [f"{words}: {_name(lab, row)}, the ceiling." for row in ceilings]
    ahead = [lab.title(name) for name, row in metrics.items() if (row.ci_low or 0.0) > 0]
    against = [lab.title(name) for name, row in metrics.items() if (row.ci_high or 0.0) < 0]
    best = max(metrics.values(), key=lambda row: row.value or 0.0)
    sentences.append(
        f"{words}: the interval of {len(ahead)} of {len(metrics)} metrics lies above 0"
        + (f" ({'; '.join(ahead)})" if ahead else "")
        + f", of {len(against)} below"
        + (f" ({'; '.join(against)})" if against else "")
        + f"; the highest is {_name(lab, best)}."
    )
    default = name_default(lab)
    paper, plain = metrics.get(f"pd_paper_{default}"), metrics.get(f"pd_paper_{default}_no_cache")
    released = metrics.get(f"pd_released_{default}")
    simple = [metrics[name] for name in SIMPLE if name in metrics]
    if paper is not None:
        parts = [f"{words}: {_name(lab, paper)}"]
        parts += [_name(lab, row) for row in (released, plain) if row is not None]
        if simple:
            parts.append(f"the best simple baseline, {_name(lab, max(simple, key=lambda row: row.value or 0.0))}")
        sentences.append("; ".join(parts) + ".")
    return sentences


def describe_missing(lab: DebateLab, rows: Sequence[Row]) -> list[str]:
    """What was not run, and what it needs."""
    have = {row.system for row in rows}
    absent = [lab.title(baseline) for baseline in BASELINES if baseline not in have]
    return [f"Not run (needs: judge): {', '.join(absent)}."] if absent else []


def _name(lab: DebateLab, row: Row) -> str:
    return f"{lab.title(row.system)} {_say(row)}"


def _say(row: Row | None) -> str:
    if row is None:
        return ""
    if row.value is None:
        return "undefined"
    interval = "" if row.ci_low is None or row.ci_high is None else f" [{row.ci_low:.2f}, {row.ci_high:.2f}]"
    return f"{row.value:.2f}{interval}"
