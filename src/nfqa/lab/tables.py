"""Tables in notebooks: every published number beside ours, with its origin and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfqa.lab.results import Row, compare_with_leaf

if TYPE_CHECKING:
    import pandas as pd

    from nfqa.lab.notebook import Lab

COLUMNS = (
    "system",
    "data set",
    "metric",
    "published",
    "ours",
    "95 % interval",
    "n",
    "dropped",
    "spread",
    "origin",
    "verdict",
)


def show_beside_paper(lab: Lab, rows: Sequence[Row]) -> pd.DataFrame:
    """One line a published number or row of ours: the paper's leaves first, in its order, then what is ours alone."""
    found = {row.key: row for row in rows}
    lines = []
    for leaf in lab.leaves():
        row = found.pop(leaf.key, None)
        verdict, _ = compare_with_leaf(row, leaf, lab.artefact)
        lines.append(_make_line(lab, *leaf.key, leaf.text, row, verdict))
    for key, row in found.items():
        lines.append(_make_line(lab, *key, "", row, "ours only"))
    return _make_frame(lines, COLUMNS)


def _make_frame(lines: Sequence[tuple], columns: Sequence[str]) -> pd.DataFrame:
    """A frame that a notebook shows whole: a row folded away is a number that can't be found."""
    import pandas as pd

    pd.set_option("display.max_rows", None)
    pd.set_option("display.max_colwidth", None)
    return pd.DataFrame(lines, columns=list(columns))


def _make_line(
    lab: Lab, system: str, dataset: str, metric: str, published: str, row: Row | None, verdict: str
) -> tuple:
    entry = lab.paper.systems.get(system)
    title = lab.title(system)
    if row is None:
        needs = ", ".join(entry.needs) if entry and entry.needs else "data"
        reason = f"not run (needs: {needs})" if lab.data == "full" else "not run (sample data)"
        return title, dataset, metric, published, "", "", "", "", "", reason, verdict
    interval = "" if row.ci_low is None else f"{row.ci_low:.4f} to {row.ci_high:.4f}"
    value = "undefined" if row.value is None else f"{row.value:.4f}"
    spread = "" if row.spread is None else f"{row.spread:.4f}"
    count, dropped = ("" if part is None else str(part) for part in (row.n, row.n_dropped))
    return title, dataset, metric, published, value, interval, count, dropped, spread, row.origin, verdict


def describe_agreement(lab: Lab, rows: Sequence[Row], metric: str = "spearman") -> list[str]:
    """A sentence a data set, found from the numbers: the embedded judge beside the best automatic metric.

    Both on the judge's candidates, so that the two can be compared; the judge by its trained score.
    """
    sentences = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        own = {r.system: r for r in rows if (r.dataset, r.metric) == (dataset, metric) and r.value is not None}
        judge = own.get("linkage_embedded_trained")
        others = [row for system, row in own.items() if system.endswith("_judge_candidates")]
        if judge is None or not others:
            continue
        best = max(others, key=lambda row: row.value or 0.0)
        overlap = (best.ci_high or 0.0) >= (judge.ci_low or 0.0) and (judge.ci_high or 0.0) >= (best.ci_low or 0.0)
        sentences.append(
            f"{dataset}, {metric}: {_say(lab, judge)}; the best automatic metric on the same candidates,"
            f" {_say(lab, best)}. The two intervals {'overlap' if overlap else 'are apart'}."
        )
    return sentences


def _say(lab: Lab, row: Row) -> str:
    return f"{lab.title(row.system)} {row.value:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]"


def show_rows(lab: Lab, rows: Sequence[Row]) -> pd.DataFrame:
    """Every row with its interval, for studies that no published table stands beside."""
    names = ["system", "data set", "metric", "value", "95 % interval", "spread", "n", "dropped", "origin"]
    lines = []
    for row in rows:
        line = _make_line(lab, *row.key, "", row, "")
        lines.append((*line[:3], line[4], line[5], line[8], line[6], line[7], line[9]))
    return _make_frame(lines, names)


def describe_leaves(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """How many of the published numbers that were run come out again, and which do not."""
    found = {row.key: row for row in rows}
    verdicts: dict[str, list[str]] = {}
    for leaf in lab.leaves():
        row = found.get(leaf.key)
        if row is not None and row.value is not None:
            verdict, _ = compare_with_leaf(row, leaf, lab.artefact)
            gap = (
                f"{leaf.dataset}, {lab.title(leaf.system)}, {leaf.metric}: published {leaf.text}, ours {row.value:.3f}"
            )
            verdicts.setdefault(verdict, []).append(gap)
    total = sum(len(lines) for lines in verdicts.values())
    if not total:
        return ["No published number was measured on this data."]
    counts = ", ".join(f"{len(lines)} {verdict}" for verdict, lines in verdicts.items())
    differing = [line for verdict, lines in verdicts.items() if verdict.startswith("differs") for line in lines]
    return [f"Of {total} published numbers measured here: {counts}.", *(f"Differs: {line}." for line in differing)]
