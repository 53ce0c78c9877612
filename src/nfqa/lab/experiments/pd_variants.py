"""What each difference between the paper's P.D. and the released script's does to scores and to the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.correlation import correlate_groups
from nfqa.kernels.perplexity import RELEASED, Denominator, settings
from nfqa.kernels.resample import bootstrap_mean
from nfqa.lab.experiments.debate_systems import bootstrap_means, rank_systems
from nfqa.lab.experiments.diversity import (
    PD_KERNELS,
    Column,
    find_wrapping,
    make_mean_row,
    make_plain_row,
    measure_systems,
    measure_words,
    score_answers,
    sign,
)
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from nfqa.lab.notebook import Lab
    from nfqa.models.evaluator import Evaluator

# From the paper's definition, one switch set as the released script has it; then all of them.
STEPS: dict[str, dict[str, Any]] = {
    "paper": {},
    "aggregate": {"aggregate": RELEASED.aggregate},
    "denominator": {"denominator": RELEASED.denominator},
    "instruction": {"instruction": RELEASED.instruction},
    "generation_prompt": {"generation_prompt": RELEASED.generation_prompt},
    "boundary": {"boundary": RELEASED.boundary},
}
RELEASED_STEP = "released"
CONTEXT_WORDS = (8, 32, 128, 512)  # of unrelated text before one fixed target
_HERE = "nfqa.lab.experiments.pd_variants"
_KERNELS = (*PD_KERNELS[:1], "nfqa.kernels.correlation:_kendall", f"{_HERE}:compare_variant")


def measure_variants(
    evaluators: Mapping[str, Evaluator], dataset: QuestionSet, *, wrapping: Literal["chat", "plain"] = "chat"
) -> dict[str, list[Column]]:
    """A column for each step and evaluator: {evaluator: [paper, one switch each, released]}."""
    table = {}
    for label, evaluator in evaluators.items():
        way = find_wrapping(evaluator, wrapping)
        columns = [
            measure_systems(evaluator, label, dataset, name=f"pd_{step}_{label}", wrapping=way, **switches)
            for step, switches in STEPS.items()
        ]
        columns.append(measure_systems(evaluator, label, dataset, variant="released", wrapping=way))
        table[label] = columns
    return table


def compare_variants(
    dataset: QuestionSet, table: Mapping[str, Sequence[Column]], *, resamples: int, seed: int = 0
) -> list[Row]:
    """Rows on every variant of every evaluator, the paper's definition being the base."""
    lengths = measure_words(dataset)
    rows = []
    for columns in table.values():
        for column in columns:
            rows += compare_variant(dataset, column, columns[0], lengths, resamples=resamples, seed=seed)
    return rows


def compare_variant(
    dataset: QuestionSet, column: Column, base: Column, lengths: Column, *, resamples: int, seed: int = 0
) -> list[Row]:
    """One variant: its mean score; how it orders systems and answers beside the base; how it follows length.

    mean_pd: over questions and systems. kendall_systems: between the systems' means under variant and base.
    kendall_answers: between the answers of a question, averaged over questions. flipped_pairs: the share of a
    question's pairs of answers that the variant puts the other way round. spearman_words: within a question, between
    -P.D. and the answer's number of words: above 0 where longer answers score better. rank_SYSTEM: the system's place.
    """
    given = f"{column.name}|{column.signature}|base:{base.name}"
    words = correlate_rows(column.quality, lengths.values, "spearman")
    per_question = {
        "mean_pd": column.values,
        "kendall_answers": correlate_rows(column.values, base.values, "kendall"),
        "flipped_pairs": count_flips(column.values, base.values),
        "spearman_words": words,
    }
    rows = [
        make_mean_row(
            dataset, column.name, metric, values, f"{given}|{metric}", _KERNELS, resamples=resamples, seed=seed,
            dropped=column.dropped or {"undefined": 1},
        )
        for metric, values in per_question.items()
    ]  # fmt: skip

    def agree(means: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        return correlate_groups(means[0], means[1], [len(means[0])], method="kendall").values

    def place(means: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        return rank_systems(means[0])

    names = ("kendall_systems", *(f"rank_{system}" for system in column.systems))
    found = [bootstrap_means([column, base], statistic, resamples=resamples, seed=seed) for statistic in (agree, place)]
    value, low, high = (np.concatenate([part[i] for part in found]) for i in range(3))
    kernels = (_KERNELS[0], "nfqa.lab.experiments.debate_systems:bootstrap_means")
    return rows + [
        make_plain_row(
            dataset, column.name, metric, value[i], f"{given}|{metric}|boot:{resamples}:seed{seed}", kernels,
            n=len(column.values), low=low[i], high=high[i],
        )
        for i, metric in enumerate(names)
    ]  # fmt: skip


def measure_growing_context(
    label: str,
    evaluator: Evaluator,
    claims: QuestionSet,
    *,
    words: Sequence[int] = CONTEXT_WORDS,
    targets: int = 40,
    resamples: int,
    seed: int = 0,
    wrapping: Literal["chat", "plain"] = "chat",
) -> list[Row]:
    """One fixed target after ever more text that has nothing to do with it: what length alone moves.

    The first perspective of each of `targets` claims is scored after the first w words of other claims' perspectives.
    Rows for the paper's denominator (the target's own tokens) and the released one (all attended tokens less one),
    the rest as the paper has it, with the mean number of tokens in the context. A length that the other claims of one
    target can't fill is left out.
    """
    chosen = sorted(claims.questions, key=lambda question: question.key)[:targets]
    chosen = [question for question in chosen if question.partial_answers]
    fixed = [_keep_one(question) for question in chosen]
    texts = [" ".join(part.text for part in question.partial_answers) for question in chosen]
    contexts = [_read_others(texts, i) for i in range(len(texts))]
    words = [count for count in words if count <= min(map(len, contexts))]
    answers = [[" ".join(context[:count]) for count in words] for context in contexts]
    way = find_wrapping(evaluator, wrapping)
    rows = []
    denominators: tuple[Denominator, ...] = ("target", "attended")
    for denominator in denominators:
        table = score_answers(
            evaluator, fixed, answers, wrapping=way, aggregate="mean", denominator=denominator
        )  # fmt: skip
        mark = sign(evaluator, settings("paper", wrapping=way, aggregate="mean", denominator=denominator))
        for column, count in enumerate(words):
            cells = [row[column] for row in table]
            losses = [cell.losses[0] for cell in cells if cell is not None and cell.losses[0] is not None]
            values = {f"mean_after_{count}_words": [np.nan if cell is None else cell.value for cell in cells]}
            if denominator == "target":
                values[f"context_tokens_after_{count}_words"] = [loss.attended - loss.tokens for loss in losses if loss]
            for metric, numbers in values.items():
                rows.append(
                    make_mean_row(
                        claims, f"fixed_target_per_{denominator}_{label}", metric, np.array(numbers, dtype=float),
                        f"context:unrelated|{mark}", PD_KERNELS, resamples=resamples, seed=seed,
                        name=f"{claims.name}_growing_context",
                    )
                )  # fmt: skip
    return rows


def correlate_rows(
    first: NDArray[np.float64], second: NDArray[np.float64], method: Literal["kendall", "spearman"]
) -> NDArray[np.float64]:
    """A correlation within each question over the systems that both have, [Q]; NaN where it is undefined."""
    both = ~np.isnan(first) & ~np.isnan(second)
    return correlate_groups(first[both], second[both], both.sum(1), method=method).values


def count_flips(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of each question's pairs of answers that two tables order the other way round, [Q]."""
    shares = np.full(len(first), np.nan)
    for q, (a, b) in enumerate(zip(first, second, strict=True)):
        upper = np.triu_indices(len(a), 1)
        signs = np.sign(a[upper[0]] - a[upper[1]]) * np.sign(b[upper[0]] - b[upper[1]])
        signs = signs[~np.isnan(signs)]
        if len(signs):
            shares[q] = float((signs < 0).mean())
    return shares


def compare_evaluators(
    dataset: QuestionSet, table: Mapping[str, Sequence[Column]], *, resamples: int, seed: int = 0
) -> list[Row]:
    """For each step, Kendall between every two evaluators' orders of the systems."""
    rows = []
    labels = list(table)
    for first, second in ((a, b) for i, a in enumerate(labels) for b in labels[i + 1 :]):
        for one, other in zip(table[first], table[second], strict=True):
            step = one.name.removeprefix("pd_").removesuffix(f"_{first}")
            per_question = correlate_rows(one.values, other.values, "kendall")
            interval = bootstrap_mean(per_question, resamples=resamples, seed=seed)
            rows.append(
                make_plain_row(
                    dataset, f"pd_{step}", f"kendall_answers_{first}_{second}", interval.value,
                    f"pd_{step}|{one.signature}|{other.signature}|boot:{resamples}:seed{seed}", _KERNELS,
                    n=interval.n, low=interval.low, high=interval.high,
                )
            )  # fmt: skip
    return rows


def describe_variants(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """Which switch moves the order most, what length does, and what the published example would need."""
    sentences = []
    labels = list(dict.fromkeys(row.system.removeprefix("pd_paper_") for row in rows if row.system[:9] == "pd_paper_"))
    for label in labels:
        found = {
            step: {row.metric: row for row in rows if row.system == f"pd_{step}_{label}"}
            for step in (*STEPS, RELEASED_STEP)
        }
        flips = {step: own["flipped_pairs"].value or 0.0 for step, own in found.items() if step != "paper"}
        alone = {step: share for step, share in flips.items() if step != RELEASED_STEP}
        most = max(alone, key=lambda step: alone[step])
        length = {step: found[step]["spearman_words"].value or 0.0 for step in ("paper", "denominator", RELEASED_STEP)}
        sentences.append(
            f"{label}: of the switches alone, {most.replace('_', ' ')} changes the order most:"
            f" {100 * alone[most]:.0f} % of a question's pairs of answers turn round,"
            f" {100 * flips[RELEASED_STEP]:.0f} % with all of them;"
            f" systems agree at Kendall {found[RELEASED_STEP]['kendall_systems'].value:.2f} between the two."
            f" A better P.D. goes with more words at Spearman {length['paper']:.2f} as the paper defines it,"
            f" {length['denominator']:.2f} with all attended tokens in the denominator, {length[RELEASED_STEP]:.2f} as"
            " released."
        )
        grown = {
            kind: [
                row.value for row in rows if row.system == f"fixed_target_per_{kind}_{label}" and "mean" in row.metric
            ]
            for kind in ("target", "attended")
        }
        if all(grown.values()):
            plain, released = (", ".join(f"{value:.1f}" for value in grown[k]) for k in ("target", "attended"))
            counts = [row.metric.split("_")[2] for row in rows if row.system == f"fixed_target_per_target_{label}"
                      and row.metric.startswith("mean")]  # fmt: skip
            falls = all(b < a for a, b in pairwise(float(value or 0.0) for value in grown["attended"]))
            sentences.append(
                f"{label}: after {', '.join(counts)} words of unrelated text, a fixed target has exp(loss / own tokens)"
                f" {plain} and exp(loss / attended tokens) {released}"
                + (": the released denominator rewards length alone." if falls else ".")
            )
    printed = next((leaf.text for leaf in lab.leaves() if leaf.system == "released_script"), "")
    if printed:
        sentences.append(
            f"The printed average of the released script on its example answers, {printed}, needs DebateQA's test file"
            " and one of the two evaluators that the script names, it is not said which; it was not run here."
        )
    return sentences


def _keep_one(question: Any) -> Any:
    from dataclasses import replace

    return replace(question, partial_answers=question.partial_answers[:1])


def _read_others(texts: Sequence[str], index: int) -> list[str]:
    """The words of all texts but one, beginning with the next."""
    return " ".join([*texts[index + 1 :], *texts[:index]]).split()
