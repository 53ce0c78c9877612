"""Tables of Perspective Diversity: one value a question and answer, and the rows that are made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import Question, QuestionSet
from nfqa.kernels.perplexity import Settings, Switches, settings
from nfqa.kernels.resample import bootstrap_mean
from nfqa.lab.results import Row
from nfqa.metrics.perspective_diversity import Diversity, measure_diversity

if TYPE_CHECKING:
    from nfqa.models.evaluator import Evaluator

PD_KERNELS = ("nfqa.metrics.perspective_diversity:measure_diversity", "nfqa.kernels.resample:bootstrap_mean")
VARIANTS: tuple[Literal["paper", "released"], ...] = ("paper", "released")


@dataclass(frozen=True)
class Column:
    """One number a question and system, however it was made. `values` [Q, S], NaN where there is none.

    `lower_is_better` says which end of the numbers is the good one.
    """

    name: str
    systems: tuple[str, ...]
    values: NDArray[np.float64]
    signature: str
    kernels: tuple[str, ...]
    lower_is_better: bool
    dropped: dict[str, int]

    @property
    def quality(self) -> NDArray[np.float64]:
        """The values with the better end up, [Q, S]."""
        return -self.values if self.lower_is_better else self.values


def score_answers(
    evaluator: Evaluator,
    questions: Sequence[Question],
    answers: Sequence[Sequence[str | None]],
    *,
    variant: Literal["paper", "released"] = "paper",
    **switches: Unpack[Switches],
) -> list[list[Diversity | None]]:
    """P.D. of every answer [Q][S] against its question's partial answers; None where a question has no such answer.

    All are given to the evaluator at once, so that it can group them by length.
    """
    places = [(q, s) for q, row in enumerate(answers) for s, text in enumerate(row) if text is not None]
    texts = [str(answers[q][s]) for q, s in places]
    partial_answers = [[part.text for part in questions[q].partial_answers] for q, _ in places]
    found = measure_diversity(texts, partial_answers, evaluator, variant=variant, **switches)
    table: list[list[Diversity | None]] = [[None] * len(row) for row in answers]
    for (q, s), diversity in zip(places, found, strict=True):
        table[q][s] = diversity
    return table


def measure_systems(
    evaluator: Evaluator,
    label: str,
    dataset: QuestionSet,
    *,
    variant: Literal["paper", "released"] = "paper",
    name: str = "",
    most_words: int | None = None,
    **switches: Unpack[Switches],
) -> Column:
    """P.D. of the answers that come with a data set, by system; `most_words` cuts each answer after so many words."""
    systems = tuple(dataset.systems)
    answers = [[cut_words(q.answer_of.get(s), most_words) for s in systems] for q in dataset.questions]
    table = score_answers(evaluator, dataset.questions, answers, variant=variant, **switches)
    cut = "" if most_words is None else f"|answer:first {most_words} words"
    chosen = settings(variant, **switches)
    return Column(
        name or f"pd_{variant}_{label}", systems, tabulate(table), sign(evaluator, chosen) + cut, PD_KERNELS,
        lower_is_better=True, dropped=count_dropped(table),
    )  # fmt: skip


def measure_all(
    evaluators: Mapping[str, Evaluator], dataset: QuestionSet, *, variants: Sequence[Literal["paper", "released"]],
    wrapping: Literal["chat", "plain"] = "chat",
) -> list[Column]:  # fmt: skip
    """A column for every evaluator and variant."""
    return [
        measure_systems(evaluator, label, dataset, variant=variant, wrapping=find_wrapping(evaluator, wrapping))
        for label, evaluator in evaluators.items()
        for variant in variants
    ]


def find_wrapping(evaluator: Evaluator, wrapping: Literal["chat", "plain"]) -> Literal["chat", "plain"]:
    """What was asked for, but an embedded evaluator is always wrapped by the template that it was trained with."""
    return "chat" if evaluator.identity.startswith("embedded:") else wrapping


def measure_words(dataset: QuestionSet) -> Column:
    """The number of words of every system's answer."""
    systems = tuple(dataset.systems)
    values = [
        [float(len(q.answer_of[s].split())) if s in q.answer_of else np.nan for s in systems] for q in dataset.questions
    ]
    kernels = ("nfqa.lab.experiments.diversity:measure_words", PD_KERNELS[1])
    return Column("mean_words", systems, np.array(values), "words:split", kernels, lower_is_better=False, dropped={})


def make_rows(dataset: QuestionSet, columns: Sequence[Column], *, resamples: int, seed: int = 0) -> list[Row]:
    """A row for each system of each column."""
    return [row for column in columns for row in make_column_rows(dataset, column, resamples=resamples, seed=seed)]


def make_column_rows(dataset: QuestionSet, column: Column, *, resamples: int, seed: int = 0) -> list[Row]:
    """A row a system: its mean over questions, with the interval over questions."""
    return [
        make_mean_row(
            dataset, system, column.name, column.values[:, s], f"{column.name}|{column.signature}", column.kernels,
            resamples=resamples, seed=seed, dropped=column.dropped,
        )
        for s, system in enumerate(column.systems)
    ]  # fmt: skip


def make_mean_row(
    dataset: QuestionSet,
    system: str,
    metric: str,
    values: NDArray[np.float64],
    signature: str,
    kernels: tuple[str, ...],
    *,
    resamples: int,
    seed: int = 0,
    dropped: Mapping[str, int] | None = None,
    name: str = "",
) -> Row:
    """A row from one value a question [Q] or several [Q, S]; `dropped` says why values are missing, where any is."""
    interval = bootstrap_mean(values, resamples=resamples, seed=seed)
    why = {key: count for key, count in sorted((dropped or {}).items()) if count} if interval.n_missing else {}
    return Row(
        system=system, dataset=name or dataset.name, metric=metric, value=interval.value, ci_low=interval.low,
        ci_high=interval.high, n=interval.n, n_dropped=interval.n_missing, dropped_because=why,
        signature=f"{signature}|boot:{resamples}:questions:seed{seed}|v1", kernels=kernels, origin=dataset.origin,
    )  # fmt: skip


def make_plain_row(
    dataset: QuestionSet, system: str, metric: str, value: float, signature: str, kernels: tuple[str, ...], *,
    n: int | None = None, low: float | None = None, high: float | None = None, name: str = "",
) -> Row:  # fmt: skip
    """A row whose value was made elsewhere."""
    return Row(
        system=system, dataset=name or dataset.name, metric=metric, value=value, ci_low=low, ci_high=high, n=n,
        signature=f"{signature}|v1", kernels=kernels, origin=dataset.origin,
    )  # fmt: skip


def tabulate(table: Sequence[Sequence[Diversity | None]]) -> NDArray[np.float64]:
    """The scores of answers, [Q, S]; NaN where there is none."""
    return np.array([[np.nan if cell is None else cell.value for cell in row] for row in table], dtype=np.float64)


def count_dropped(table: Sequence[Sequence[Diversity | None]]) -> dict[str, int]:
    """Partial answers and answers that were left out, by reason."""
    total: Counter[str] = Counter()
    for row in table:
        for cell in row:
            total.update({"no_answer": 1} if cell is None else cell.dropped)
    return dict(total)


def sign(evaluator: Evaluator, chosen: Settings) -> str:
    """What a P.D. hangs on."""
    return f"pd:{chosen.signature}|evaluator:{evaluator.identity}"


def say_number(value: float | None) -> str:
    """A number as a sentence shows it: three digits, thousands with commas and without decimals."""
    if value is None or np.isnan(value):
        return "undefined"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cut_words(text: str | None, most: int | None) -> str | None:
    """The first `most` words of a text, blanks between them as they were not kept; the whole text for None."""
    return text if text is None or most is None else " ".join(text.split()[:most])
