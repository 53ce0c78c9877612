"""The worked case drawn and put into words: the ways of judging (Figure 1), scores (3), details (10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from nfqa.lab.experiments.worked_case import (
    SIDES,
    Case,
    Scores,
    ask_case,
    make_detail_rows,
    make_score_rows,
    make_sketch_rows,
    name_answers,
    name_missing,
    score_case,
)
from nfqa.lab.plots import PAPER, PUBLISHED, REFERENCE, pick_colour, start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nfqa.lab.judged import JudgedLab

Shown = Literal["sketch", "scores", "details"]
_NEEDS = "not run: needs a judge"
_JUDGE = "linkage_embedded_trained_rank"


@dataclass(frozen=True)
class Account:
    """What a figure of the case is made of."""

    rows: list[Row]
    findings: list[str]
    figure: Figure


def account_for(lab: JudgedLab, case: Case, shown: Shown) -> Account:
    """Rows, sentences and drawing of one of the three figures.

    Raises: ValueError for an unknown figure.
    """
    if shown not in get_args(Shown):
        raise ValueError(f"figure is {shown!r}; expected one of {', '.join(get_args(Shown))}")
    scores = score_case(case, lab.embedder) | (ask_case(lab, case) if shown != "details" else {})
    first = _describe_choice(case, scores)
    if shown == "scores":
        missing = [lab.title(system) for system in name_missing(lab)]
        rows = make_score_rows(case, scores)
        figure = draw_scores(scores, missing, lab.title, pick_colour(rows))
        return Account(rows, [first, *_describe_orders(scores, lab.title)], figure)
    if shown == "sketch":
        rows = make_sketch_rows(case)
        return Account(rows, [first, *_describe_cost(rows)], draw_sketch(case, rows, scores))
    rows = make_detail_rows(case, lab.embedder)
    return Account(rows, [first, *_describe_likeness(case, rows)], draw_details(case, rows))


def draw_scores(
    scores: Mapping[str, Scores], missing: Sequence[str], title: Callable[[str], str], colour: str
) -> Figure:
    """One line a method: candidates A and B on the scale from 0 to 10, and which of them it puts first."""
    names = [*scores, *missing]
    figure, axes = start_figure(width=8.4, height=1.2 + 0.29 * len(names))
    for position, name in enumerate(reversed(names)):
        entry = scores.get(name)
        a, b = entry.values if entry else (None, None)
        if a is None or b is None:
            axes.text(0.1, position, "no verdict" if entry else _NEEDS, va="center", fontsize=8, color=REFERENCE)
            continue
        shade = PUBLISHED if name == "human_grade" else colour
        axes.plot([a, b], [position] * 2, color=shade, lw=1.6, alpha=0.45, zorder=1)
        axes.plot([b], [position], "D", mfc="white", mec=shade, mew=1.5, ms=8.5)
        axes.plot([a], [position], "o", color=shade, ms=6)  # inside the other where the two are level
        first = "level" if a == b else "A first" if a > b else "B first"
        axes.text(10.6, position, first, va="center", fontsize=8, weight="bold" if b > a else "normal")
    axes.set_yticks(range(len(names)), labels=[title(name) if name in scores else name for name in reversed(names)])
    axes.set(xlim=(-0.4, 11.9), xticks=range(0, 11, 2), ylim=(-0.7, len(names) - 0.3))
    axes.set_xlabel("score on one scale, 0 (worst) to 10 (best)")
    axes.grid(axis="y", visible=False)
    _add_sides(figure, colour)
    return figure


def draw_details(case: Case, rows: Sequence[Row]) -> Figure:
    """Likeness of both candidates to each reference, and where the embedded judge puts all six texts."""
    found = {(row.system, row.metric): row.value or 0.0 for row in rows}
    colour = pick_colour(rows)
    references = case.draw.references
    figure, panels = start_figure(1, 3, width=11, height=3.9, width_ratios=[1, 1, 1.15])
    labels = [f"{n}\ngrade {answer.label}" for n, answer in enumerate(references, start=1)]
    for axes, system, title in zip(
        panels, ("rouge1", "sentence_cosine"), ("ROUGE-1", "cosine of sentence vectors"), strict=False
    ):
        for shift, side, look in ((-0.19, SIDES[0], {"color": colour}), (0.19, SIDES[1], {"fc": "white"})):
            values = [found[system, f"{side}_reference_{n}"] for n in range(1, len(references) + 1)]
            at = [n + shift for n in range(len(references))]
            bars = axes.bar(at, values, 0.34, ec=colour, lw=1.4, **look)
            axes.bar_label(bars, fmt="%.2f", fontsize=7, padding=2)
        axes.set(title=title, xlabel="reference")
        axes.set_xticks(range(len(references)), labels=labels)
        axes.margins(y=0.14)
        axes.grid(axis="x", visible=False)
    _draw_ladder(panels[2], case, found, colour)
    _add_sides(figure, colour)
    return figure


def _draw_ladder(axes: Axes, case: Case, found: Mapping[tuple[str, str], float], colour: str) -> None:
    """One column a scorer: the texts in its order, best on top, candidates marked."""
    answers = name_answers(case)
    for column, scorer in enumerate(case.scorers):
        system = f"linkage_embedded_{scorer.name}"
        # by score; a candidate stands before a reference that it ties with
        order = [part for _, _, part in sorted((-found[system, p], p not in SIDES, p) for p in answers)]
        for place, part in enumerate(order):
            words = f"{part.replace('_', ' ').replace('candidate a', 'A').replace('candidate b', 'B')}"
            mine = part in SIDES
            box = {"boxstyle": "round,pad=0.35", "ec": colour if mine else PAPER, "lw": 1.4}
            box["fc"] = colour if part == SIDES[0] else "white"
            axes.text(
                column, -place, f"{words}, grade {answers[part].label}", ha="center", va="center", fontsize=8,
                bbox=box, color="white" if part == SIDES[0] else PUBLISHED, weight="bold" if mine else "normal",
            )  # fmt: skip
    axes.set(title="order by the embedded judge's score", xlim=(-0.6, 1.6), ylim=(-len(answers) + 0.4, 0.6), yticks=[])
    axes.set_xticks(range(len(case.scorers)), labels=[scorer.name.replace("_", "-") for scorer in case.scorers])
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)


def draw_sketch(case: Case, rows: Sequence[Row], scores: Mapping[str, Scores]) -> Figure:
    """Three panels: what a judge sees of candidate A, what it is asked, what comes back, and what that costs."""
    found = {(row.system, row.metric): row.value or 0.0 for row in rows}
    colour = pick_colour(rows)
    figure, panels = start_figure(1, 3, width=11, height=4.6)
    references = case.draw.references
    grades = [f"reference {n}, grade {r.label}" for n, r in enumerate(references, start=1)]
    list_ends = f"1 to {len(references) + 1}"
    answers = {
        "judging_pointwise": ("Pointwise", [], "How good is A, from 0 to 10?", _tell_verdict(scores, "pointwise_")),
        "judging_pairwise": (
            "Pairwise", grades, "Which is better, A or the reference?", _tell_verdict(scores, "pairwise_"),
        ),
        "judging_listwise": (
            "Listwise (LINKAGE)", grades, f"Where does A stand in the list, {list_ends}?",
            _tell_places(scores, len(references)),
        ),
    }  # fmt: skip
    for axes, (system, (title, list_shown, asked, returned)) in zip(panels, answers.items(), strict=True):
        requests, words = found[system, "requests"], found[system, "words_read"]
        parts: list[tuple[str, str, str]] = [(text, "white", PAPER) for text in ("question", *list_shown)]
        parts.append((f"candidate A, {found['word_count', 'candidate_a']:.0f} words", colour, colour))
        _draw_way(axes, title, parts, asked, returned, loop=system == "judging_pairwise")
        plural = "s" if requests > 1 else ""
        axes.text(
            0.5, 0.015, f"{requests:.0f} request{plural}, {words:,.0f} words of texts read", ha="center", fontsize=8
        )
    return figure


def _draw_way(
    axes: Axes, title: str, parts: Sequence[tuple[str, str, str]], asked: str, returned: str, *, loop: bool
) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[], title=title)
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(True)
        side.set_color("#e4e7eb")
    top, step = 0.93, 0.082
    for number, (text, face, edge) in enumerate(parts):
        ink = PUBLISHED if face == "white" else "white"
        dashed = "--" if loop and text.startswith("reference") else "-"
        box = {"boxstyle": "round,pad=0.3", "fc": face, "ec": edge, "lw": 1.2, "ls": dashed}
        axes.text(0.5, top - number * step, text, ha="center", va="center", fontsize=8, color=ink, bbox=box)
    if loop:
        axes.text(0.7, top - 2.5 * step, "one at\na time", ha="left", va="center", fontsize=7.5, color=REFERENCE)
    for y, text, look in ((0.35, asked, "normal"), (0.16, returned, "bold")):
        axes.annotate("", (0.5, y + 0.045), (0.5, y + 0.1), arrowprops={"arrowstyle": "-|>", "color": REFERENCE})
        axes.text(0.5, y, text, ha="center", va="center", fontsize=8, weight=look)


def _find_verdicts(scores: Mapping[str, Scores], start: str) -> Scores | None:
    """A language model's scores by the beginning of the system's name; None where none was asked."""
    return next((entry for name, entry in scores.items() if name.startswith(start) and "_embedded" not in name), None)


def _tell_verdict(scores: Mapping[str, Scores], start: str) -> str:
    entry = _find_verdicts(scores, start)
    return f"{_tell(entry)}, of 10" if entry else _NEEDS


def _tell_places(scores: Mapping[str, Scores], count: int) -> str:
    """Places from scores on the scale from 0 to 10: rank = R + 1 - R score / 10."""
    asked = _find_verdicts(scores, "linkage_")
    entry = asked or scores[_JUDGE]
    places = ["none" if value is None else f"{count + 1 - count * value / 10:.3g}" for value in entry.values]
    who = "judge role" if asked else "embedded judge, trained"
    return f"place {places[0]} for A, {places[1]} for B\n({who})"


def _add_sides(figure: Figure, colour: str) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker="o", color=colour, lw=0, ms=7, label="candidate A (better grade)"),
        Line2D([], [], marker="D", mfc="white", mec=colour, mew=1.5, lw=0, ms=7, label="candidate B (poorer grade)"),
    ]
    figure.legend(handles=marks, loc="outside lower right", ncols=2)


def _describe_choice(case: Case, scores: Mapping[str, Scores]) -> str:
    a, b = case.draw.candidates
    return (
        f"{case.dataset.name}, question {case.draw.question.key:016x}: candidate A has grade {a.label}, B grade"
        f" {b.label}. Of {case.n_pairs:,} pairs of a top and a lowest grade it is the one where the poorer answer leads"
        f" most in ROUGE-1 ({_tell(scores['rouge1'])}, of 10). A pair chosen so shows how methods can differ; it is no"
        " evidence for any of them."
    )


def _describe_orders(scores: Mapping[str, Scores], title: Callable[[str], str]) -> list[str]:
    order: dict[str, list[str]] = {"as people do": [], "the other way round": [], "level": [], "without a verdict": []}
    for system, entry in scores.items():
        if system != "human_grade":
            a, b = entry.values
            if a is None or b is None:
                how = "without a verdict"
            else:
                how = "level" if a == b else "as people do" if a > b else "the other way round"
            order[how].append(f"{title(system)} ({_tell(entry)})")
    return [f"{how.capitalize()}: {', '.join(names)}." for how, names in order.items() if names]


def _describe_cost(rows: Sequence[Row]) -> list[str]:
    found = {(row.system, row.metric): row.value or 0.0 for row in rows}
    pair, lists = (found[f"judging_{way}", "words_read"] for way in ("pairwise", "listwise"))
    return [
        f"For candidate A, {found['judging_pairwise', 'requests']:.0f} comparisons read {pair:,.0f} words of texts;"
        f" one listwise request reads {lists:,.0f}, {pair / lists:.1f} times fewer."
    ]


def _describe_likeness(case: Case, rows: Sequence[Row]) -> list[str]:
    found = {(row.system, row.metric): row.value or 0.0 for row in rows}
    sentences = []
    for system, words in (("rouge1", "ROUGE-1"), ("sentence_cosine", "the cosine of sentence vectors")):
        nearest = []
        for side, name in zip(SIDES, "AB", strict=True):
            likeness = [found[system, f"{side}_reference_{n}"] for n in range(1, len(case.draw.references) + 1)]
            grade = case.draw.references[likeness.index(max(likeness))].label
            nearest.append(f"{name} is nearest to the reference of grade {grade} ({max(likeness):.2f})")
        sentences.append(f"By {words}, {' and '.join(nearest)}.")
    return sentences


def _tell(entry: Scores) -> str:
    a, b = ("none" if value is None else f"{value:.1f}" for value in entry.values)
    return f"A {a}, B {b}"
