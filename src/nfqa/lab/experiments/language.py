"""Rows that ask a language model: which settings an artefact has, on which draws, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.judge.prompts import Shot
from nfqa.lab.artefacts import Judged
from nfqa.lab.experiments.agreement import (
    Draws,
    draw_seeds,
    make_rows,
    name_list,
)
from nfqa.lab.results import Row
from nfqa.metrics.judging import Judgement, LanguageJudge, judge_draws, make_shots
from nfqa.metrics.references import COMPOSITIONS, Draw, ShortRule

if TYPE_CHECKING:
    from nfqa.lab.judged import JudgedLab

KERNEL = "nfqa.metrics.judging:judge_draws"
OWN_FAMILY = "judge"
# Examples come from another data set than the evaluated one, so that no evaluated question is among them.
SHOT_SOURCES = {"antique": "trec_dl_nf", "trec_dl_nf": "antique", "webglm": "antique"}


@dataclass(frozen=True)
class Setting:
    """One row's way of asking. `system` names the row: a published one, or its like for another model."""

    system: str
    judged: Judged


@dataclass(frozen=True)
class Outcome:
    """A setting's verdicts on a data set. Candidates without a verdict are left out of `draws` and `scores`."""

    setting: Setting
    draws: Draws  # [S][Q]
    scores: list[list[NDArray]]  # [S][Q]
    judgements: list[list[Judgement]]  # [S][Q]
    signature: str

    @property
    def missing(self) -> dict[str, int]:
        """Verdicts that could not be had, by reason."""
        total: Counter[str] = Counter()
        for row in self.judgements:
            for judgement in row:
                total.update(judgement.missing)
        return dict(sorted(total.items()))

    @property
    def asked(self) -> int:
        """How many verdicts were wanted."""
        return sum(len(judgement.verdicts) for row in self.judgements for judgement in row)


def find_family(lab: JudgedLab) -> str:
    """The published model that the judge is, if it is asked as published; else "judge", whose rows stand apart."""
    if lab.judge is None or not lab.asking.as_published:
        return OWN_FAMILY
    name = lab.judge.asker.spec.name.rpartition("/")[2].lower()
    return next((family for family, start in lab.paper.judges.items() if name.startswith(start)), OWN_FAMILY)


def list_settings(lab: JudgedLab, dataset: str) -> list[Setting]:
    """The distinct ways of asking among the artefact's published rows of a data set, named for the judge at hand.

    With generated references a published row is filled by a language model's list alone: the rule-based degrader's
    rows are named apart.
    """
    family = find_family(lab)
    base = dataset.removeprefix("sample_")
    settings: dict[Judged, Setting] = {}
    for system, datasets in lab.artefact.leaves.items():
        judged = lab.paper.systems[system].judged
        if judged is None or family not in (judged.model, OWN_FAMILY) or base not in datasets:
            continue
        plain = judged.model_copy(update={"model": family})
        degraded = judged.truth != "graded" and judged.method != "pointwise" and not lab.generators
        name = system.replace(f"_{judged.model}", f"_{family}") + ("_degraded" if degraded else "")
        settings.setdefault(plain, Setting(name, plain))
    return list(settings.values())


def ask_settings(lab: JudgedLab, dataset: QuestionSet, *, seeds: int, short: ShortRule = "partial") -> list[Outcome]:
    """Ask the judge all that the artefact's rows of a data set need; nothing when the judge is embedded."""
    judge = lab.judge
    if judge is None:
        return []
    return [ask_setting(lab, judge, dataset, s, seeds=seeds, short=short) for s in list_settings(lab, dataset.name)]


def ask_setting(
    lab: JudgedLab, judge: LanguageJudge, dataset: QuestionSet, setting: Setting, *, seeds: int, short: ShortRule
) -> Outcome:
    """Ask one setting's verdicts over seeded draws."""
    judged = setting.judged
    draws, drawn = _draw(dataset, judged, seeds, short)
    shots, source = _choose_shots(lab, dataset.name, judged)
    flat = judge_draws([draw for row in draws for draw in row], judged.method, judge, shots=shots)
    width = len(dataset.questions)
    judgements = [flat[start : start + width] for start in range(0, len(flat), width)]
    kept = [
        [_keep_judged(d, j) for d, j in zip(row, js, strict=True)] for row, js in zip(draws, judgements, strict=True)
    ]
    signature = f"judge:{judge.asker.identity}|method:{judged.method}|{judge.sign(judged.method)}{source}|{drawn}"
    return Outcome(
        setting,
        [[draw for draw, _ in row] for row in kept],
        [[s for _, s in row] for row in kept],
        judgements,
        signature,
    )


def measure_language_model(
    lab: JudgedLab, dataset: QuestionSet, *, resamples: int, seeds: int = 1, short: ShortRule = "partial"
) -> list[Row]:
    """Kendall, Spearman and Pearson of every setting, and the share of verdicts that could not be had."""
    rows = []
    for outcome in ask_settings(lab, dataset, seeds=seeds, short=short):
        system, signature = outcome.setting.system, outcome.signature
        rows += make_rows(dataset, outcome.draws, outcome.scores, system, signature, KERNEL, resamples=resamples)
        rows += make_verdict_rows(dataset, outcome)
    return rows


def make_verdict_rows(dataset: QuestionSet, outcome: Outcome) -> list[Row]:
    """The share of verdicts that could not be had, n_dropped by reason; and, from logits, the mean mass on verdicts."""
    missing = outcome.missing
    count = sum(missing.values())
    row = Row(
        system=outcome.setting.system, dataset=dataset.name, metric="missing_verdicts",
        value=count / outcome.asked if outcome.asked else None, n=outcome.asked - count, n_dropped=count,
        dropped_because=missing, seeds=tuple(range(len(outcome.draws))),
        signature=f"{outcome.setting.system}|{outcome.signature}|v1", kernels=(KERNEL,), origin=dataset.origin,
    )  # fmt: skip
    verdicts = [v for judgements in outcome.judgements for j in judgements for v in j.verdicts]
    masses = [verdict.mass for verdict in verdicts if verdict.mass is not None]
    if not masses:
        return [row]
    mean = {"metric": "verdict_mass", "value": float(np.mean(masses)), "n": len(masses), "n_dropped": None}
    return [row, row.model_copy(update=mean | {"dropped_because": {}})]


def describe_language_model(lab: JudgedLab, rows: Sequence[Row]) -> list[str]:
    """What the judge was, and how many of its verdicts could not be had."""
    if lab.judge is None:
        return []
    missing = [row for row in rows if row.metric == "missing_verdicts"]
    wanted = sum((row.n or 0) + (row.n_dropped or 0) for row in missing)
    reasons: Counter[str] = Counter()
    for row in missing:
        reasons.update(row.dropped_because)
    why = ", ".join(f"{reason} {count:,}" for reason, count in sorted(reasons.items()))
    cut = sum(lab.judge.cut.values())
    return [
        f"Judge: {lab.judge.asker.spec.identity}, prompts {lab.judge.prompts.name}. Of {wanted:,} verdicts"
        f" {sum(reasons.values()):,} are missing{f' ({why})' if why else ''}; {cut:,} texts were longer than"
        f" {lab.judge.max_words:,} words ({lab.judge.too_long})."
    ]


def say_usage(lab: JudgedLab) -> str:
    """What this run asked, for the notebook's page alone: another run finds more in the journal."""
    if lab.judge is None:
        return "No language model was asked: the judge role is filled by the embedded judge."
    tally = lab.tally
    return (
        f"{tally.wanted:,} verdicts wanted; {tally.kept:,} completions from the journal, {tally.asked:,} asked now"
        f" (an unreadable one up to twice more): {tally.prompt_tokens:,} tokens in, {tally.completion_tokens:,} out."
    )


def _draw(dataset: QuestionSet, judged: Judged, seeds: int, short: ShortRule) -> tuple[Draws, str]:
    """The draws of a setting, and how they are described in the signature."""
    others = list(COMPOSITIONS) if judged.list else []
    draws = draw_seeds(dataset, n_seeds=seeds, composition=judged.list, short=short, also_remove=others)
    removed = "all_lists" if others else "list"
    name = judged.list or name_list(dataset.name)
    return draws, f"list:{name[1:]}|removed:{removed}|short:{short}|seeds:{seeds}"


def _choose_shots(lab: JudgedLab, dataset: str, judged: Judged) -> tuple[tuple[Shot, ...], str]:
    if not judged.shots:
        return (), "|shots:0" if judged.method == "listwise" else ""
    base = dataset.removeprefix("sample_")
    source = SHOT_SOURCES[base]
    name = "r3210" if judged.truth != "graded" else judged.list or name_list(base)
    shots = make_shots(lab.load(source).questions, COMPOSITIONS[name], count=judged.shots)
    return shots, f"|shots:{judged.shots}@{source}"


def _keep_judged(draw: Draw, judgement: Judgement) -> tuple[Draw, NDArray]:
    """The draw without the candidates that have no score, and the scores of the others."""
    if not len(judgement.scores):
        return draw, judgement.scores
    has = ~np.isnan(judgement.scores)
    if draw.dropped or has.all():
        return draw, judgement.scores
    kept = tuple(answer for answer, ok in zip(draw.candidates, has, strict=True) if ok)
    return replace(draw, candidates=kept), judgement.scores[has]
