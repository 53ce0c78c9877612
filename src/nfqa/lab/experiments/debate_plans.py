"""What the notebooks on debatable questions ask a language model, asked through a dry lab that counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nfqa.lab.experiments.awareness import open_judge
from nfqa.lab.experiments.dispute import list_judged, read_labelled
from nfqa.lab.experiments.dispute_agreement import list_texts, thin_answers
from nfqa.lab.experiments.prompt_effect import choose_claims, write_answers

if TYPE_CHECKING:
    from nfqa.lab.debate_lab import DebateLab

Given = Mapping[str, Any]


def _plan_systems(lab: DebateLab, given: Given) -> None:
    judged = open_judge(lab)
    if judged:
        judged.measure(lab.load_debates("overton", limit=given["limit"]))


def _plan_prompts(lab: DebateLab, given: Given) -> None:
    held_out = lab.load_debates("debatewise", split="held_out")
    claims = choose_claims(held_out, count=given["limit"], words=given["words"], seed=given["seed"])
    write_answers(lab, claims, seed=given["seed"])


def _plan_labels(lab: DebateLab, given: Given) -> None:
    dataset = lab.load_debates(given["dataset"], limit=given["limit"])
    list_judged(lab, read_labelled(lab.root, dataset).texts)


def _plan_agreement(lab: DebateLab, given: Given) -> None:
    dataset = thin_answers(lab.load_debates("demo_answers", limit=given["limit"]), most=given["answers"])
    list_judged(lab, list_texts(dataset))


PLANS: dict[str, Callable[[DebateLab, Given], None]] = {  # an artefact's name -> what it asks
    "table_03": _plan_labels,
    "table_03_systems": _plan_labels,
    "figure_05": _plan_agreement,
    "table_04": _plan_systems,
    "table_05": _plan_prompts,
}
