"""What a user sees of their own answers' scores: two files, a table, a figure and the findings in words."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nfqa.data.paths import write_atomically
from nfqa.data.records import UNLABELLED, QuestionSet
from nfqa.lab.experiments.own_answers import Scores, list_systems, name_systems
from nfqa.lab.plots import OURS, SAMPLE, start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab

MOST_ANSWERS = 40  # lines of the notebook's table; the files hold all
MOST_SYSTEMS = 6  # lanes a method in the figure
_MARKERS = "osD^vPX"  # one more than systems: answers that name none have a lane of their own
_DRAWABLE = 0x530  # Latin, Greek and Cyrillic
_LABEL = 28  # characters of a name in the legend


@dataclass(frozen=True)
class ScoreLine:
    """One answer under one method: a line of scores.csv. `rank` is among the references, 1 is best."""

    question: str
    answer: str
    system: str
    method: str
    score: float | None
    rank: float | None
    ten: float | None
    note: str


def list_scores(own: QuestionSet, scored: Sequence[Scores]) -> list[ScoreLine]:
    """A line for every answer and method that ran, and for every answer that was excluded."""
    lines = []
    for i, (question, systems) in enumerate(zip(own.questions, list_systems(own), strict=True)):
        identifier = question.id
        known = {reference.text for reference in question.references}
        for j, (answer, system) in enumerate(zip(question.answers, systems, strict=True)):
            copy = "copy of a reference" if answer.text in known else ""
            for method in scored:
                if not method.left_out:
                    score, ten = _number(method.scores[i][j]), _number(method.tens[i][j])
                    rank = _number(method.ranks[i][j]) if method.ranks else None
                    note = method.notes[i] if score is None else copy
                    lines.append(ScoreLine(identifier, answer.id, system, method.method, score, rank, ten, note))
    excluded = [
        ScoreLine(e.question, e.answer, "", "", None, None, None, f"excluded: {e.reason}") for e in own.excluded
    ]
    return lines + excluded


def write_scores(folder: Path, own: QuestionSet, scored: Sequence[Scores]) -> None:
    """Write scores.csv and scores.json: every answer under every method, in full precision."""
    lines = list_scores(own, scored)
    with write_atomically(folder / "scores.csv") as scratch, scratch.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow([field.name for field in fields(ScoreLine)])
        writer.writerows(astuple(line) for line in lines)
    content = {
        "answers": f"sha256:{own.sha256}",
        "origin": own.origin,
        "irregularities": {name: count for name, count in own.irregularities.items() if count},
        "methods": {m.method: {"left_out": m.left_out} if m.left_out else {"signature": m.signature} for m in scored},
        "scores": [asdict(line) for line in lines],
    }
    with write_atomically(folder / "scores.json") as scratch:
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        scratch.write_text(text + "\n", encoding="utf-8")


def show_scores(lab: Lab, own: QuestionSet, scored: Sequence[Scores]) -> pd.DataFrame:
    """One line an answer, one column a method, on the 0-10 scale; the first MOST_ANSWERS answers."""
    import pandas as pd

    pd.set_option("display.max_columns", None)
    ran = [method for method in scored if not method.left_out]
    lines = []
    for i, (question, identifier) in enumerate((question, question.id) for question in own.questions):
        for j, answer in enumerate(question.answers):
            label = "" if answer.label == UNLABELLED else str(answer.label)
            tens = ["–" if math.isnan(m.tens[i][j]) else f"{m.tens[i][j]:.1f}" for m in ran]
            lines.append((identifier, answer.id, label, *tens))
    columns = ["question", "answer", "label", *(lab.title(method.method) for method in ran)]
    return pd.DataFrame(lines[:MOST_ANSWERS], columns=columns)


def show_means(lab: Lab, own: QuestionSet, rows: Sequence[Row]) -> pd.DataFrame:
    """One line a method and system: the mean on the 0-10 scale and the share of wins, each with its interval; and, in
    the line of all answers, the agreement with labels.
    """
    import pandas as pd

    pd.set_option("display.max_rows", None)
    metrics = {"mean, 0-10": "mean_ten", "share of wins": "win_share", "Kendall": "kendall", "Spearman": "spearman"}
    found = {(row.system, row.metric): row for row in rows}
    present = {title: m for title, m in metrics.items() if any(row.metric.startswith(m) for row in rows)}
    lines = []
    for method in dict.fromkeys(row.system for row in rows):
        for name, suffix in {"all": "", **{n: f"_{slug}" for n, slug in name_systems(own).items()}}.items():
            cells = [say_value(found.get((method, metric + suffix))) for metric in present.values()]
            lines.append((lab.title(method), name, *cells))
    return pd.DataFrame(lines, columns=["method", "answers", *present])


def draw_scores(lab: Lab, own: QuestionSet, scored: Sequence[Scores], rows: Sequence[Row]) -> Figure:
    """One band a method on the 0-10 scale, one lane a system in it: a dot an answer, the mean with its interval."""
    ran = [method for method in scored if not method.left_out]
    slugs = name_systems(own)
    systems = list(slugs)[:MOST_SYSTEMS]
    lanes = (
        [
            *systems,
            *([""] if any(not name for row in list_systems(own) for name in row) else []),
        ]
        if systems
        else [""]
    )
    height = 1.3 + len(ran) * (0.2 + 0.17 * len(lanes))
    figure, axes = start_figure(width=8.2, height=height)
    shades = _pick_shades(own.origin, len(lanes))
    found = {(row.system, row.metric): row for row in rows}
    alpha = min(0.7, max(0.06, 25 / max(len(own.answers) / len(lanes), 1)))
    for band, method in enumerate(reversed(ran)):
        for lane, name in enumerate(lanes):
            place = band + 0.8 * (0.5 - (lane + 0.5) / len(lanes))
            tens = _collect(own, method, name if systems else None)
            spread = np.resize([0.0, 0.5, -0.5, 0.25, -0.25, 0.75, -0.75], len(tens)) * 0.3 / len(lanes)
            marker = _MARKERS[lane % len(_MARKERS)]
            below = place - 0.2 / len(lanes)
            axes.plot(tens, below + spread * (len(tens) > 5), marker, color=shades[lane], ms=3.5, mew=0, alpha=alpha)
            metric = "mean_ten" if not systems else f"mean_ten_{slugs[name]}" if name else ""
            _draw_mean(axes, found.get((method.method, metric)), place + 0.15 / len(lanes), shades[lane], marker)
    axes.set_yticks(range(len(ran)), labels=[lab.title(method.method) for method in reversed(ran)])
    axes.set(xlim=(-0.3, 10.3), ylim=(-0.6, len(ran) - 0.4), xlabel="0 (worst) to 10 (best); each method's own scale")
    axes.grid(axis="y", visible=False)
    _add_key(figure, own, lanes, shades)
    return figure


def say_value(row: Row | None) -> str:
    """A value with its interval to two decimals, or a dash."""
    if row is None or row.value is None:
        return "–"
    interval = "" if row.ci_low is None or row.ci_high is None else f" [{row.ci_low:.2f}, {row.ci_high:.2f}]"
    return f"{row.value:.2f}{interval}"


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _collect(own: QuestionSet, method: Scores, name: str | None) -> list[float]:
    """The scores of a system's answers ("" for those that name none), or with None of all, without the missing."""
    pairs = [
        p for t, row in zip(method.tens, list_systems(own), strict=True) for p in zip(t.tolist(), row, strict=True)
    ]
    return [ten for ten, system in pairs if name in (None, system) and not math.isnan(ten)]


def _pick_shades(origin: str, count: int) -> list[tuple[float, float, float]]:
    """Shades of the colour that its origin has everywhere, from dark to light."""
    from matplotlib.colors import to_rgb

    base = np.array(to_rgb(SAMPLE if origin == "sample" else OURS))
    darks = [base * 0.55, base, 0.5 + 0.5 * base]
    points = np.linspace(0, 2, count) if count > 1 else np.array([1.0])
    return [tuple(np.array([np.interp(p, range(3), [d[c] for d in darks]) for c in range(3)])) for p in points]


def _draw_mean(axes: Axes, row: Row | None, place: float, shade: tuple[float, float, float], marker: str) -> None:
    if row is None or row.value is None:
        return
    if row.ci_low is not None and row.ci_high is not None:
        axes.plot([row.ci_low, row.ci_high], [place] * 2, color=shade, lw=2, solid_capstyle="butt")
    axes.plot([row.value], [place], marker, mfc=shade, mec="white", ms=7, mew=0.8)


def _add_key(
    figure: Figure, own: QuestionSet, lanes: Sequence[str], shades: Sequence[tuple[float, float, float]]
) -> None:
    from matplotlib.lines import Line2D

    slugs = name_systems(own)
    other = "answers of no named system" if own.systems else "all answers"
    names = [_make_label(name, slugs[name]) if name else other for name in lanes]
    hidden = len(own.systems) - sum(bool(name) for name in lanes) if own.systems else 0
    marks = [
        Line2D(
            [],
            [],
            marker=_MARKERS[i % len(_MARKERS)],
            color=shades[i],
            lw=2 if lanes[i] or len(lanes) == 1 else 0,
            label=name,
        )
        for i, name in enumerate(names)
    ]
    origin = "measured on your answers"
    if own.origin == "sample":
        example = own.name.startswith("sample_")
        origin = "SAMPLE: the bundled example" if example else "SAMPLE: the judge learned from bundled data"
    more = f"; {hidden} further systems are in scores.csv" if hidden > 0 else ""
    title = f"{origin}. Small: one answer; large: mean, 95 % interval over questions{more}"
    figure.legend(handles=marks, loc="outside lower right", ncols=min(len(marks), 4), title=title, title_fontsize=8)


def _make_label(name: str, slug: str) -> str:
    """A name that the figure's font can draw and that no mark in it is taken for a formula, or its identifier."""
    drawable = name.isprintable() and max(map(ord, name)) < _DRAWABLE and "$" not in name and not name.startswith("_")
    shown = name if drawable else slug
    return shown if len(shown) <= _LABEL else shown[: _LABEL - 1] + "…"
