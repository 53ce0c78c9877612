"""Metrics on the answers that people rated: P.D. in its variants, simple baselines, a language model's marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import Question, QuestionSet
from nfqa.kernels.perplexity import Variant, settings
from nfqa.lab.experiments.diversity import count_dropped, find_wrapping, score_answers, sign, tabulate
from nfqa.metrics.answer_judging import BASELINES, mark_answers
from nfqa.metrics.coverage import THRESHOLD, count_clusters, count_words, measure_coverage
from nfqa.metrics.perspective_diversity import Diversity
from nfqa.models.embed import Embedder

if TYPE_CHECKING:
    from nfqa.lab.debate_lab import DebateLab
    from nfqa.models.evaluator import Evaluator

PD = "nfqa.metrics.perspective_diversity:measure_diversity"
_COVERAGE = "nfqa.metrics.coverage"


@dataclass(frozen=True)
class Scored:
    """A metric's scores, higher is better. `system` names it in rows.

    answers: [Q, S], NaN where there is none. views: for each question [S, V], the score of each single partial answer,
    or None for a metric that knows no single views. items: whether single views differ from another metric's: the
    logarithm of a perplexity ranks answers as the perplexity does.
    """

    system: str
    answers: NDArray[np.float64]
    signature: str
    kernel: str
    views: tuple[NDArray[np.float64], ...] | None = None
    items: bool = True
    dropped: dict[str, int] = field(default_factory=dict)

    def score_view(self, question: int, view: int) -> NDArray[np.float64]:
        """The scores of all systems' answers for one view, [S]: of that view, or of the answer as a whole."""
        return self.answers[question] if self.views is None else self.views[question][:, view]


def score_diversity(
    evaluators: Mapping[str, Evaluator],
    dataset: QuestionSet,
    *,
    variants: Sequence[Variant] = ("paper", "released"),
    geometric: bool = False,
    wrapping: Literal["chat", "plain"] = "chat",
    instruction: str | None = None,
) -> list[Scored]:
    """-P.D. of every answer under every evaluator and variant.

    geometric: also minus the mean logarithm of the perplexities, under the paper's other settings: one view that no
    answer comes near does not outweigh all others there. instruction: in the place of the variant's own.
    """
    systems = dataset.systems
    texts = [[question.answer_of.get(system) for system in systems] for question in dataset.questions]
    found = []
    for label, evaluator in evaluators.items():
        shown = find_wrapping(evaluator, wrapping)
        for variant in variants:
            if instruction is None:
                table = score_answers(evaluator, dataset.questions, texts, variant=variant, wrapping=shown)
                chosen = settings(variant, wrapping=shown)
            else:
                switches = {"variant": variant, "wrapping": shown, "instruction": instruction}
                table = score_answers(evaluator, dataset.questions, texts, **switches)  # type: ignore[arg-type]
                chosen = settings(variant, wrapping=shown, instruction=instruction)
            made = sign(evaluator, chosen)
            views = _tabulate_views(dataset.questions, table)
            name, dropped = f"pd_{variant}_{label}", count_dropped(table)
            found.append(Scored(name, -tabulate(table), f"{made}|sign:-", PD, views, dropped=dropped))
            if geometric and variant == "paper":
                logs = tuple(np.log(-view) for view in views)
                answers = np.array([[_average(row) for row in part] for part in logs])
                signature = f"{made.replace('agg:sum', 'agg:mean_log')}|sign:-"
                found.append(Scored(f"pd_geometric_{label}", -answers, signature, PD, items=False, dropped=dropped))
    return found


def _tabulate_views(
    questions: Sequence[Question], table: Sequence[Sequence[Diversity | None]]
) -> tuple[NDArray[np.float64], ...]:
    """Minus the perplexity of each view given each answer, [S, V] a question."""
    return tuple(
        np.array(
            [np.full(len(q.partial_answers), np.nan) if cell is None else -cell.perplexities for cell in row]
        ).reshape(len(row), len(q.partial_answers))
        for q, row in zip(questions, table, strict=True)
    )


def _average(values: NDArray[np.float64]) -> float:
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def score_baselines(dataset: QuestionSet, embedder: Embedder) -> list[Scored]:
    """Length in words, embedding coverage of the views, and the number of groups of sentences, of every answer."""
    embedder.prepare([part.text for question in dataset.questions for part in question.partial_answers])
    views = tuple(_cover_views(question, dataset.systems, embedder) for question in dataset.questions)
    whole = np.array([[_average(row) for row in part] for part in views])
    embedded = f"embedder:{embedder.spec.identity}"
    return [
        _score_texts(dataset, "length", "words:split", lambda text: float(count_words(text)), "count_words"),
        Scored("coverage", whole, f"cosine:nearest_sentence|{embedded}", f"{_COVERAGE}:measure_coverage", views),
        _score_texts(
            dataset, "sentence_clusters", f"linkage:average|cosine_distance:{THRESHOLD}|{embedded}",
            lambda text: count_clusters(text, embedder), "count_clusters",
        ),
    ]  # fmt: skip


def _score_texts(
    dataset: QuestionSet, system: str, signature: str, score: Callable[[str], float], function: str
) -> Scored:
    table = [
        [score(q.answer_of[s]) if q.answer_of.get(s, "").strip() else np.nan for s in dataset.systems]
        for q in dataset.questions
    ]
    return Scored(system, np.array(table, dtype=np.float64), signature, f"{_COVERAGE}:{function}")


def _cover_views(question: Question, systems: Sequence[str], embedder: Embedder) -> NDArray[np.float64]:
    texts = [part.text for part in question.partial_answers]
    rows = [measure_coverage(question.answer_of.get(system, ""), texts, embedder) for system in systems]
    return np.array(rows).reshape(len(systems), len(texts))


def score_by_judge(lab: DebateLab, dataset: QuestionSet) -> list[Scored]:
    """A language model's marks of every answer, a metric each baseline of Table 2; none where the judge is embedded.

    The prompts are our own, whatever set the lab asks with: no other has them.
    """
    if lab.judge is None:
        return []
    judge = replace(lab.judge, prompts=lab.read_prompts("own"))
    writer = lab.open_other_reading("text").asker if lab.asking.reading == "logits" else None
    places = [(q, s) for q in range(len(dataset.questions)) for s in range(len(dataset.systems))]
    pairs = [(dataset.questions[q].text, dataset.questions[q].answer_of.get(dataset.systems[s], "")) for q, s in places]
    found = []
    for baseline in BASELINES:
        marks = mark_answers(pairs, baseline, judge, writer=writer)
        table = marks.scores.reshape(len(dataset.questions), len(dataset.systems))
        kernel = "nfqa.metrics.answer_judging:mark_answers"
        found.append(Scored(baseline, table, marks.signature, kernel, dropped=marks.missing))
    return found


def open_evaluators(
    lab: DebateLab, *, without_cache: Literal["none", "default", "all"] = "default"
) -> dict[str, Evaluator]:
    """The evaluators by name, and as NAME_no_cache the default one, or all, with the continuous cache taken away.

    An evaluator that has no cache of its own stands there once.
    """
    found = lab.open_evaluators()
    for name, evaluator in list(found.items()):
        wanted = without_cache == "all" or (without_cache == "default" and evaluator is lab.evaluator)
        if wanted and evaluator.cache is not None:
            found[f"{name}_no_cache"] = lab.open_without_cache(evaluator)
    return found
