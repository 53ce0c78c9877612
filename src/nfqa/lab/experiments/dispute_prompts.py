"""Table 14: the prompts of Dispute Awareness, what can be counted in them, and what is read from a reply to them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np

from nfqa.data.records import QuestionSet
from nfqa.judge.prompt_facts import COUNTS, count_facts
from nfqa.kernels.parse import read_digit
from nfqa.lab.experiments.dispute_agreement import list_texts
from nfqa.lab.results import Row
from nfqa.metrics.dispute_awareness import Form
from nfqa.metrics.dispute_rules import apply_rule

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas.io.formats.style import Styler

    from nfqa.judge.prompts import PromptSet
    from nfqa.lab.debate_lab import DebateLab

STYLES = ("[[{digit}]]", "{digit}", "{digit}.", "Answer: {digit}", "The verdict is [[{digit}]].")
_NAMES: dict[Form, str] = {
    "dispute_awareness": "prompt_own",
    "dispute_awareness_zero_shot": "prompt_own_zero_shot",
}
_DIGIT = re.compile(r"[01]")
_MARKED = re.compile(r"\[\[([01])\]\]")
READINGS: dict[str, Callable[[str, str], float | None]] = {
    "completion": lambda _, completion: read_digit(completion).value,
    "together_first_digit": lambda prompt, completion: _first(_DIGIT, prompt + completion),
    "together_first_demonstration": lambda prompt, completion: _first(_MARKED, prompt + completion),
    "together_all": lambda prompt, completion: read_digit(prompt + completion).value,
}


@dataclass(frozen=True)
class Replied:
    """A rule's verdict on an answer, written as a model might, and the prompt that it replies to."""

    prompt: str
    completion: str
    said: int


def read_forms(lab: DebateLab) -> PromptSet:
    """Our prompts; the authors' text is not in the source at hand."""
    return lab.read_prompts("own")


def show_forms(prompts: PromptSet) -> Styler:
    """Both forms side by side as they stand, for the notebook's page."""
    import pandas as pd

    frame = pd.DataFrame({form.replace("_", " "): [prompts.get(form).text] for form in get_args(Form)})
    look = "white-space: pre-wrap; text-align: left; vertical-align: top; width: 50%"
    return frame.style.format(escape="html").set_table_styles([{"selector": "td", "props": look}]).hide(axis="index")


def count_forms(prompts: PromptSet, dataset: QuestionSet) -> list[Row]:
    """What can be counted in each form: size, demonstrations and how many of them are 1, digits."""
    rows = []
    for form, name in _NAMES.items():
        template = prompts.get(form)
        solved = re.findall(r"</candidate>\n\[\[([01])\]\]", template.text)
        facts = count_facts(template) | {
            "demonstrations": len(solved),
            "demonstrations_aware": solved.count("1"),
            "digits": len(_DIGIT.findall(template.text)),
        }
        rows += [
            Row(
                system=name, dataset="prompts", metric=metric, value=value,
                signature=f"{name}|{template.signature}|file:{template.sha256[:12]}|v1",
                kernels=("nfqa.lab.experiments.dispute_prompts:count_forms",), origin=dataset.origin,
            )
            for metric, value in facts.items()
        ]  # fmt: skip
    return rows


def reply_by_rule(prompts: PromptSet, form: Form, dataset: QuestionSet) -> list[Replied]:
    """Every answer's prompt with a reply in one of five ways to write a digit, chosen by hash.

    The digit is the keyword rule's over the answer: a stand-in for a model that always replies readably, so that only
    the reading is under test.
    """
    texts = [text for text in list_texts(dataset) if text.strip()]
    replies = []
    for text, aware in zip(texts, apply_rule(texts, "phrases_or_sides"), strict=True):
        style = STYLES[hashlib.sha256(text.encode()).digest()[0] % len(STYLES)]
        replies.append(Replied(prompts.render(form, candidate=text), style.format(digit=int(aware)), int(aware)))
    return replies


def compare_readings(prompts: PromptSet, dataset: QuestionSet) -> list[Row]:
    """How often each way of reading gets the digit that was said, and the D.A. that it reports; [forms x readings].

    completion: ours. together_first_digit: the first digit of prompt and completion. together_first_demonstration: the
    first verdict in brackets, so the first demonstration's where there is one. together_all: our reading of both.
    """
    rows = []
    for form, name in _NAMES.items():
        replies = reply_by_rule(prompts, form, dataset)
        said = np.array([reply.said for reply in replies], dtype=np.float64)
        kernel = "nfqa.lab.experiments.dispute_prompts:compare_readings"
        row = Row(
            system=name, dataset=dataset.name, metric="share_said", value=float(said.mean()), n=len(said),
            signature=f"{name}|replies:rule phrases_or_sides, {len(STYLES)} styles|v1", kernels=(kernel,),
            origin=dataset.origin,
        )  # fmt: skip
        rows.append(row)
        for reading, read in READINGS.items():
            values = [read(reply.prompt, reply.completion) for reply in replies]
            got = np.array([np.nan if value is None else value for value in values])
            known, signature = ~np.isnan(got), f"{row.signature}|reading:{reading}"
            lost = int((~known).sum())
            changed = {"n_dropped": lost, "dropped_because": {"unreadable": lost} if lost else {}}
            right = {"metric": f"read_right_{reading}", "value": float((got == said).mean()), "signature": signature}
            rows.append(row.model_copy(update=changed | right))
            share = float(got[known].mean()) if known.any() else None
            reported = {
                "metric": f"share_read_{reading}",
                "value": share,
                "n": int(known.sum()),
                "signature": signature,
            }
            rows.append(row.model_copy(update=changed | reported))
    return rows


def draw_prompt(prompts: PromptSet, rows: Sequence[Row]) -> Figure:
    """The form with demonstrations as it stands, what was counted in it, and how often each reading is right."""
    import pandas as pd

    from nfqa.lab import figures
    from nfqa.lab.plots import pick_colour

    found = {row.metric: row.value for row in rows if row.system == "prompt_own"}
    counts = pd.DataFrame({"ours": {shown: found[name] for name, shown in COUNTS.items() if name in found}})
    figure = figures.draw_prompt(
        prompts.get("dispute_awareness").text, counts, ["The authors' text: not in the source at hand."], title="Ours"
    )
    inset = figure.axes[1].inset_axes((0.42, 0.2, 0.5, 0.22))
    names = list(READINGS)[::-1]
    values = [found.get(f"read_right_{name}") or 0.0 for name in names]
    inset.barh(range(len(names)), values, color=pick_colour(rows))
    inset.set_yticks(range(len(names)), labels=[name.replace("_", " ") for name in names])
    inset.set(xlim=(0, 1.12), title="Digit read as it was said, by what is read")
    for place, value in enumerate(values):
        inset.text(value + 0.02, place, f"{value:.0%}", va="center", fontsize=7)
    return figure


def describe_readings(rows: Sequence[Row]) -> list[str]:
    """What reading prompt and completion together does to D.A., found from the numbers."""
    found = {(row.system, row.metric): row for row in rows}
    said = []
    for name in _NAMES.values():
        own = {metric: row for (system, metric), row in found.items() if system == name}
        n = own["share_said"].n
        said.append(
            f"{name}, {n} replies of a rule that calls {own['share_said'].value:.0%} aware: read from the completion"
            f" {own['read_right_completion'].value:.0%} come out as said; the first digit of prompt and completion"
            f" together is right in {own['read_right_together_first_digit'].value:.0%}"
            f" and reports D.A. {own['share_read_together_first_digit'].value:.0%}; the first bracketed"
            f" verdict is right in {own['read_right_together_first_demonstration'].value:.0%}."
        )
    whole, bare = (found[name, "words"].value or 0 for name in _NAMES.values())
    solved = found["prompt_own", "demonstrations"].value or 0
    said.append(f"The {solved:.0f} demonstrations take {whole - bare:.0f} of the prompt's {whole:.0f} words.")
    return said


def _first(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return None if found is None else float(found[0].strip("[]"))
