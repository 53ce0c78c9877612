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
    import pandas as pd

    found = {row.key: row for row in rows}
    lines = []
    for leaf in lab.leaves():
        row = found.pop(leaf.key, None)
        verdict, _ = compare_with_leaf(row, leaf, lab.artefact)
        lines.append(_make_line(lab, *leaf.key, leaf.text, row, verdict))
    for key, row in found.items():
        lines.append(_make_line(lab, *key, "", row, "ours only"))
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _make_line(
    lab: Lab, system: str, dataset: str, metric: str, published: str, row: Row | None, verdict: str
) -> tuple:
    entry = lab.paper.systems.get(system)
    title = entry.title if entry else system
    if row is None:
        needs = ", ".join(entry.needs) if entry and entry.needs else "data"
        reason = f"not run (needs: {needs})" if lab.data == "full" else "not run (sample data)"
        return title, dataset, metric, published, "", "", "", "", "", reason, verdict
    interval = "" if row.ci_low is None else f"{row.ci_low:.4f} to {row.ci_high:.4f}"
    value = "undefined" if row.value is None else f"{row.value:.4f}"
    spread = "" if row.spread is None else f"{row.spread:.4f}"
    count, dropped = ("" if part is None else str(part) for part in (row.n, row.n_dropped))
    return title, dataset, metric, published, value, interval, count, dropped, spread, row.origin, verdict


def describe_agreement(rows: Sequence[Row], metric: str = "spearman") -> list[str]:
    """A sentence a data set, found from the numbers: which system agrees best with people, and how surely."""
    sentences = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        ranked = sorted(
            (row for row in rows if (row.dataset, row.metric) == (dataset, metric) and row.value is not None),
            key=lambda row: -(row.value or 0.0),
        )
        if len(ranked) < 2:
            continue
        best, second = ranked[0], ranked[1]
        apart = (best.ci_low or 0.0) > (second.ci_high or 0.0)
        sentences.append(
            f"{dataset}: {best.system} agrees best with people by {metric}, {best.value:.3f}"
            f" [{best.ci_low:.3f}, {best.ci_high:.3f}]; next {second.system}, {second.value:.3f}"
            f" [{second.ci_low:.3f}, {second.ci_high:.3f}]"
            + ("; the intervals don't overlap." if apart else "; the intervals overlap.")
        )
    return sentences


def show_rows(lab: Lab, rows: Sequence[Row]) -> pd.DataFrame:
    """Every row with its interval, for studies that no published table stands beside."""
    import pandas as pd

    names = ["system", "data set", "metric", "value", "95 % interval", "spread", "n", "dropped", "origin"]
    lines = []
    for row in rows:
        line = _make_line(lab, *row.key, "", row, "")
        lines.append((*line[:3], line[4], line[5], line[8], line[6], line[7], line[9]))
    return pd.DataFrame(lines, columns=names)


def show_audit(rows: Sequence[Row]) -> pd.DataFrame:
    """Counts with what they were counted among and the treatment."""
    import pandas as pd

    lines = [
        (row.dataset, row.metric.replace("_", " "), f"{row.value:.0f}", row.n, row.signature.split("|")[1])
        for row in rows
    ]
    return pd.DataFrame(lines, columns=["data set", "what", "found", "among", "treatment"])


def describe_leaves(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """A sentence a published number that we have run: both values and the verdict."""
    found = {row.key: row for row in rows}
    sentences = []
    for leaf in lab.leaves():
        row = found.get(leaf.key)
        if row is not None and row.value is not None:
            verdict, why = compare_with_leaf(row, leaf, lab.artefact)
            sentences.append(
                f"{leaf.dataset}, {leaf.system}, {leaf.metric}: published {leaf.text},"
                f" ours {row.value:.4f}: {verdict} ({why})."
            )
    return sentences or ["No published number was measured on this data."]
