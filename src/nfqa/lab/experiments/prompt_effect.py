"""Table 5: what the prompt does to P.D. and D.A., on answers that a language model writes, or on a stand-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nfqa.data.records import Answer, Question, QuestionSet
from nfqa.lab.experiments.awareness import Detection
from nfqa.lab.experiments.diversity import (
    Column,
    find_wrapping,
    make_column_rows,
    make_mean_row,
    measure_systems,
    measure_words,
    say_number,
)
from nfqa.lab.results import Row
from nfqa.metrics.compose import choose_points

if TYPE_CHECKING:
    from nfqa.lab.debate_lab import DebateLab
    from nfqa.lab.notebook import Lab
    from nfqa.models.evaluator import Evaluator

PROMPTS = ("basic", "comprehensive", "detailed")
STAND_INS = ("one_view", "all_views", "all_explained")
LEAST, MOST = 3, 6  # perspectives of a claim that are scored
_WRITTEN, _COMPOSED = "prompt_", "composed_"


@dataclass(frozen=True)
class Answered:
    """Claims with an answer for each level of each family of systems. `signature` says how the answers came about."""

    dataset: QuestionSet
    families: tuple[tuple[str, ...], ...]  # each the systems of one writer, in order of rising detail
    signature: str
    missing: int


def choose_claims(dataset: QuestionSet, *, count: int | None, words: int | None, seed: int = 0) -> QuestionSet:
    """Claims with LEAST perspectives or more, at most `count` by key, each with at most MOST perspectives by seed.

    Raises: ValueError when no claim has enough.
    """
    enough = [question for question in dataset.questions if len(question.partial_answers) >= LEAST]
    chosen = sorted(enough, key=lambda question: question.key)[:count]
    if not chosen:
        raise ValueError(f"{dataset.name}: no claim has {LEAST} perspectives; use a larger set")
    questions = tuple(
        replace(
            question,
            partial_answers=choose_points(question, min(MOST, len(question.partial_answers)), seed=seed, words=words),
        )
        for question in chosen
    )
    return replace(dataset, questions=questions)


def write_answers(lab: DebateLab, claims: QuestionSet, *, seed: int = 0) -> Answered | None:
    """Answers of each generator under the three prompts of prompts/own; None without a generator.

    A generator that gives nothing for a claim has no answer there, and it is counted.
    """
    if not lab.generators:
        return None
    prompts = lab.read_prompts("own")
    answers: list[list[Answer]] = [[] for _ in claims.questions]
    families, missing = [], 0
    for number, generator in enumerate(lab.generators, start=1):
        end = "" if len(lab.generators) == 1 else f"_generator_{number}"
        families.append(tuple(f"{_WRITTEN}{level}{end}" for level in PROMPTS))
        for level, system in zip(PROMPTS, families[-1], strict=True):
            asked = [prompts.render(f"answer_{level}", question=question.text) for question in claims.questions]
            for row, text in zip(answers, generator.write(asked, seed=seed), strict=True):
                missing += text is None
                row += [] if text is None else [Answer(system, text, system=system)]
    names = "+".join(generator.identity for generator in lab.generators)
    signed = "+".join(prompts.signature(f"answer_{level}") for level in PROMPTS)
    decoding = lab.generators[0].decoding.signature
    return Answered(
        _answer(claims, answers),
        tuple(families),
        f"generators:{names}|prompts:{signed}|{decoding}|seed:{seed}",
        missing,
    )


def compose_stand_ins(claims: QuestionSet) -> Answered:
    """Answers of three levels of detail made of the claim's own perspectives: one point of view, all points of view,
    all with their explanations. Of the effect of prompts they say nothing; of whether the measures follow detail, they
    do."""
    answers = [
        [
            Answer(name := f"{_COMPOSED}{level}", text, system=name)
            for level, text in zip(STAND_INS, _compose(question), strict=True)
        ]
        for question in claims.questions
    ]
    systems = tuple(f"{_COMPOSED}{level}" for level in STAND_INS)
    return Answered(_answer(claims, answers), (systems,), "answers:composed of the claim's own perspectives", 0)


def measure_levels(
    answered: Answered,
    evaluators: Mapping[str, Evaluator],
    detection: Detection,
    *,
    variants: Sequence[Literal["paper", "released"]] = ("paper", "released"),
    wrapping: Literal["chat", "plain"] = "chat",
    resamples: int,
    seed: int = 0,
) -> list[Row]:
    """Rows of each level: P.D., D.A. and words, and how far each level is from the first, on the same claims.

    METRIC_less_first is the paired difference to the first level.
    """
    columns = [measure_words(answered.dataset)]
    for label, evaluator in evaluators.items():
        way = find_wrapping(evaluator, wrapping)
        columns += [
            measure_systems(evaluator, label, answered.dataset, variant=variant, wrapping=way, too_long="cut_tail")
            for variant in variants
        ]
    columns.append(detection.measure(answered.dataset))
    rows = []
    for column in columns:
        signed = replace(column, signature=f"{column.signature}|{answered.signature}")
        rows += make_column_rows(answered.dataset, signed, resamples=resamples, seed=seed)
        rows += _subtract_first(answered, signed, resamples=resamples, seed=seed)
    return rows


def describe_levels(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """Which measures improve with each level, and what was measured."""
    sentences = []
    stand_in = any(row.system.startswith(_COMPOSED) for row in rows)
    if stand_in:
        sentences.append(
            "No generator is given, so that no prompt was tried: measured are answers composed of a claim's own"
            " perspectives at three levels of detail. They show whether the measures follow detail, not what a prompt"
            " does to a model."
        )
    for metric in dict.fromkeys(row.metric for row in rows if row.metric.endswith("_less_first")):
        for row in (row for row in rows if row.metric == metric and row.value is not None):
            low, high = row.ci_low or 0.0, row.ci_high or 0.0
            change = "falls" if high < 0 else "rises" if low > 0 else "does not clearly move"
            sentences.append(
                f"{metric.removesuffix('_less_first')}, {lab.title(row.system)}: {change} against the first level"
                f" ({say_number(row.value)} [{say_number(low)}, {say_number(high)}], {row.n} claims)."
            )
    return sentences


def _compose(question: Question) -> tuple[str, str, str]:
    points = question.partial_answers
    return (
        points[0].point_of_view,
        " ".join(point.point_of_view for point in points),
        " ".join(point.text for point in points),
    )


def _answer(claims: QuestionSet, answers: Sequence[Sequence[Answer]]) -> QuestionSet:
    questions = tuple(
        replace(question, answers=tuple(row)) for question, row in zip(claims.questions, answers, strict=True)
    )
    return replace(claims, questions=questions)


def _subtract_first(answered: Answered, column: Column, *, resamples: int, seed: int) -> list[Row]:
    rows = []
    for first, *others in answered.families:
        base = column.values[:, column.systems.index(first)]
        for system in others:
            difference = column.values[:, column.systems.index(system)] - base
            rows.append(
                make_mean_row(
                    answered.dataset, system, f"{column.name}_less_first", difference,
                    f"{column.name}|less:{first}|{column.signature}", column.kernels, resamples=resamples, seed=seed,
                    dropped=column.dropped,
                )
            )  # fmt: skip
    return rows
