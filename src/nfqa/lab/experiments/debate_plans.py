"""What the notebooks on debatable questions ask a language model, asked through a dry lab that counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nfqa.lab.experiments.alignment_scores import score_by_judge
from nfqa.lab.experiments.prompt_effect import choose_claims, write_answers

if TYPE_CHECKING:
    from nfqa.lab.debate_lab import DebateLab

Given = Mapping[str, Any]


def _plan_alignment(lab: DebateLab, given: Given) -> None:
    score_by_judge(lab, lab.load_debates("overton", limit=given["limit"]))


def _plan_prompts(lab: DebateLab, given: Given) -> None:
    held_out = lab.load_debates("debatewise", split="held_out")
    claims = choose_claims(held_out, count=given["limit"], words=given["words"], seed=given["seed"])
    write_answers(lab, claims, seed=given["seed"])


PLANS: dict[str, Callable[[DebateLab, Given], None]] = {  # an artefact's name -> what it asks
    "table_02": _plan_alignment,
    "human_alignment": _plan_alignment,
    "table_05": _plan_prompts,
}
