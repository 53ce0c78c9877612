"""Figures 4 to 9 and 11: a prompt of ours beside the released one.

The released texts are not ours to pass on. They are shown in the executed notebook, which is not kept; results and
figures hold our own text, and of the released one facts alone: counts, its hash, what is odd in it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfqa.judge.prompts import Template
from nfqa.lab.plots import REFERENCE, pick_colour, start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas.io.formats.style import Styler

    from nfqa.lab.notebook import Lab

FACTS = {  # metric -> how it is shown
    "words": "words",
    "characters": "characters",
    "lines": "lines",
    "places": "places that texts are set into",
    "left_standing": "marks left standing unfilled",
    "escaped_quotes": "quotation marks behind a backslash",
    "verdict_examples": "verdicts shown in [[ ]]",
    "lowest": "lowest score",
    "highest": "highest score",
}
_MARK = re.compile(r"#\w+|\{\{\w+\}\}")
_WIDTH = 98  # characters a line of the figure

# What is worth knowing of a released prompt: said only where the pattern, or the lack of it, is found in its text.
_REMARKS: dict[str, tuple[tuple[str, bool, str], ...]] = {
    "pointwise": (
        (r"\{#ground\}", True, "The released code doesn't fill the place for references, so the model reads its mark."),
        (r"\*Objectivity\*[^\n]*references", True, "It marks objectivity by references that it doesn't give."),
        (r"\*(?:Accuracy|Correctness)\*", False, "It names accuracy among its criteria and doesn't define it."),
        (r"0-10", True, "It asks for 0 to 10, where the paper's section 4.2.1 says 1 to 10."),
    ),
    "pointwise_ref": (
        (r"\*Correctness\*", True, "It defines correctness, which isn't among the criteria it names."),
        (r"\*Accuracy\*", False, "It names accuracy among its criteria and doesn't define it."),
        (r"0-10", True, "It asks for 0 to 10, where the paper's section 4.2.1 says 1 to 10."),
    ),
    "pairwise": (
        (r"explanation", True, "It wants an explanation before the verdict; a reading from logits goes without."),
        (r"assistants", True, "It speaks of assistants and their names, which no answer here has."),
    ),
    "listwise": (
        (r"four references", True, "It speaks of four references whatever the list's length; ANTIQUE's has 8."),
    ),
    "write_lower": (
        (r"\bfive\b", True, "It asks for three answers and then speaks of five."),
        (r"Answer3:[^\n{]*\}", True, "Its one solved example ends in a brace that was never opened."),
        (r"\{\s*#question\s*\}", True, "The code that fills it in isn't released."),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Our prompt and the released one, or why there is none to show."""

    own: Template
    released: Template | None
    why_none: str = ""


def read_pair(lab: Lab, name: str) -> Pair:
    """Both prompts of a name. A run on the sample fetches nothing, so that it needs no network.

    Raises: UnreachableError when the released file can't be had on full data: our own doesn't stand in for it.
    """
    own = lab.read_prompts("own").get(name)
    if lab.data == "sample":
        return Pair(own, None, "not fetched on a sample run")
    released = lab.read_prompts("upstream").get(name)
    if released.set_name == "own":
        return Pair(own, None, "not released")
    return Pair(own, released)


def show_pair(pair: Pair) -> Styler:
    """Both texts side by side as they stand, for the notebook's page."""
    import pandas as pd

    released = pair.released.text if pair.released else f"({pair.why_none})"
    frame = pd.DataFrame({"ours": [pair.own.text], "as released": [released]})
    look = "white-space: pre-wrap; text-align: left; vertical-align: top; width: 50%"
    return frame.style.format(escape="html").set_table_styles([{"selector": "td", "props": look}]).hide(axis="index")


def measure_pair(lab: Lab, pair: Pair) -> list[Row]:
    """Rows of what can be counted in each text."""
    origin = "sample" if lab.data == "sample" else "measured"
    rows = []
    for system, template in (("prompt_own", pair.own), ("prompt_upstream", pair.released)):
        if template is not None:
            rows += [
                Row(
                    system=system, dataset="prompts", metric=metric, value=value,
                    signature=f"{system}|{template.signature}|file:{template.sha256[:12]}|v1",
                    kernels=("nfqa.lab.experiments.prompt_figures:count_facts",), origin=origin,
                )
                for metric, value in count_facts(template).items()
            ]  # fmt: skip
    return rows


def count_facts(template: Template) -> dict[str, float]:
    """What can be counted in a prompt's text, by the names of FACTS; a score's range only where there is one."""
    text = template.text
    counts: dict[str, float | None] = {
        "words": len(text.split()),
        "characters": len(text),
        "lines": len(text.splitlines()),
        "places": sum(text.count(mark) for mark in template.placeholders.values()),
        "left_standing": sum(mark not in template.placeholders.values() for mark in _MARK.findall(text)),
        "escaped_quotes": text.count('\\"'),
        "verdict_examples": len(re.findall(r"\[\[[\w{}]+\]\]", text)),
        "lowest": template.lowest,
        "highest": template.highest,
    }
    return {metric: float(value) for metric, value in counts.items() if value is not None}


def describe_pair(pair: Pair) -> list[str]:
    """How the two differ, found from their texts."""
    own = count_facts(pair.own)
    first = f"Ours ({pair.own.signature}) has {own['words']:.0f} words"
    if pair.released is None:
        return [f"{first}. The authors' text: {pair.why_none}."]
    theirs = count_facts(pair.released)
    sentences = [f"{first}, the released one ({pair.released.signature}) {theirs['words']:.0f}."]
    if theirs["escaped_quotes"]:
        sentences.append(
            f"In the released text {theirs['escaped_quotes']:.0f} quotation marks stand behind a backslash, which the"
            " model reads."
        )
    remarks = list_remarks(pair.released)
    return sentences + [f"The released text: {remark[0].lower()}{remark[1:]}" for remark in remarks]


def list_remarks(template: Template) -> list[str]:
    """The remarks on a released prompt that its text bears out."""
    known = _REMARKS.get(template.name, ())
    return [remark for pattern, found, remark in known if bool(re.search(pattern, template.text)) == found]


def draw_pair(pair: Pair, rows: Sequence[Row]) -> Figure:
    """Our text as it stands, beside what was counted in both."""
    text = "\n".join(
        textwrap.fill(line, _WIDTH, subsequent_indent="   " if re.match(r"-|\d\.", line) else "")
        for line in pair.own.text.splitlines()
    )
    height = max(3.6, 0.5 + 0.136 * len(text.splitlines()))
    figure, (left, right) = start_figure(1, 2, width=11.0, height=height, width_ratios=[1.62, 1])
    for axes in (left, right):
        axes.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
        axes.grid(visible=False)
        for side in axes.spines.values():
            side.set_visible(False)
    left.set_title(f"Ours, {pair.own.signature}")
    left.axvline(0, color=pick_colour(rows), lw=4)
    left.text(0.02, 0.99, text, family="DejaVu Sans Mono", fontsize=7.2, va="top", linespacing=1.35, parse_math=False)
    _draw_facts(right, pair, rows, 1 / height)
    return figure


def _draw_facts(axes: Axes, pair: Pair, rows: Sequence[Row], inch: float) -> None:
    """Counts of both as a small table, then the remarks; `inch` is an inch in the axes' own units."""
    found = {(row.system, row.metric): row.value for row in rows}
    released = pair.released
    axes.set_title("What was counted")
    step, down = 0.2 * inch, 0.99 - 0.12 * inch
    for column, head in ((0.72, "ours"), (0.9, "released")):
        axes.text(column, down, head, ha="right", fontsize=8, weight="bold")
    for metric, label in FACTS.items():
        values = [found.get((system, metric)) for system in ("prompt_own", "prompt_upstream")]
        if values == [None, None]:
            continue
        down -= step
        axes.text(0.0, down, label, fontsize=7.6)
        for column, value in zip((0.72, 0.9), values, strict=True):
            axes.text(column, down, "–" if value is None else f"{value:,.0f}", ha="right", fontsize=7.6)
    notes = [f"released text: {pair.why_none}"]
    if released is not None:
        notes = [f"released file: sha256 {released.sha256[:16]}…", *list_remarks(released)]
    for note in notes:
        lines = textwrap.wrap(note, 58)
        down -= 0.12 * inch
        axes.text(0.0, down, "\n".join(lines), fontsize=7.4, va="top", color=REFERENCE, linespacing=1.3)
        down -= 0.14 * inch * len(lines)
