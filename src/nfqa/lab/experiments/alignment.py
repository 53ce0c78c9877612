"""Table 2: how well metrics rank systems as people do, annotator by annotator and all together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.correlation import Method, correlate_groups
from nfqa.kernels.resample import Interval, bootstrap_mean, find_interval
from nfqa.lab.experiments.alignment_people import RULE_SIGNATURES, RULES, TOGETHER_SIGNATURES, People, Rule
from nfqa.lab.experiments.alignment_scores import Scored
from nfqa.lab.results import Row

METHODS: tuple[Method, ...] = ("spearman", "kendall")
_RATE: dict[Rule, str] = {"elo": "nfqa.kernels.rating:rate_elo", "bt": "nfqa.kernels.rating:rate_bradley_terry"}
_CEILING = "people_left_out"


def compare_with_annotators(
    dataset: QuestionSet, people: People, metrics: Sequence[Scored], *, resamples: int, seed: int = 0
) -> list[Row]:
    """The paper's protocol: one ranking an annotator, the metric's compared with each, the correlations averaged.

    An annotator's ranking is Elo's or Bradley-Terry's on all pairs of systems that he or she rated on a question; the
    metric's is by its mean over the same questions. `SPEARMAN_elo` and its like have intervals over annotators. The
    ceiling ranks the systems by all other annotators of these questions.
    Source: DebateQA, section 5.1. Differs from: it, in that preferences follow from ratings, an annotator has three
        questions and not a hundred, and the question is how far an answer represents the annotator's own view.
    """
    rows = []
    for rule in RULES:
        own, others = people.rate_each(rule), people.rate_others(rule)
        for metric in metrics:
            rows += _correlate(dataset, metric, _average_asked(people, metric.answers), own, rule, resamples, seed)
        ceiling = Scored(_CEILING, people.mean_ratings, f"ratings_of_the_others:{RULE_SIGNATURES[rule]}", _RATE[rule])
        rows += _correlate(dataset, ceiling, others, own, rule, resamples, seed)
    return rows


def _correlate(
    dataset: QuestionSet,
    metric: Scored,
    scores: NDArray[np.float64],
    own: NDArray[np.float64],
    rule: Rule,
    resamples: int,
    seed: int,
) -> list[Row]:
    rows = []
    for method in METHODS:
        values, why = correlate_rows(scores, own, method)
        interval = bootstrap_mean(values, resamples=resamples, seed=seed)
        mark = f"people:{RULE_SIGNATURES[rule]},each|questions:the_annotator's"
        kernels = (metric.kernel, _RATE[rule], f"nfqa.kernels.correlation:_{method}")
        name = f"{method}_{rule}"
        rows.append(make_row(dataset, metric, name, interval, f"{mark}|boot:{resamples}:annotators", kernels, why))
    return rows


def compare_with_all(
    dataset: QuestionSet, people: People, metrics: Sequence[Scored], *, resamples: int, seed: int = 0
) -> list[Row]:
    """One ranking by all annotators' comparisons together against the metric's over all questions, by system.

    `n` counts systems, so that few values are possible; the intervals are over annotators and hold questions fixed.
    """
    rows = []
    for rule in RULES:
        together = people.rate_together(rule)
        drawn = people.resample_together(rule, resamples=resamples, seed=seed)
        for metric in metrics:
            scores = average_columns(metric.answers)
            for method in METHODS:
                value = correlate_rows(scores[None], together[None], method)[0][0]
                draws, _ = correlate_rows(np.tile(scores, (len(drawn), 1)), drawn, method)
                n = int((~np.isnan(scores) & ~np.isnan(together)).sum())
                mark = f"people:{TOGETHER_SIGNATURES[rule]},together|questions:all|boot:{resamples}:annotators"
                kernels = (metric.kernel, _RATE[rule], f"nfqa.kernels.correlation:_{method}")
                name = f"{method}_{rule}_together"
                rows.append(make_row(dataset, metric, name, find_interval(value, draws, n=n), mark, kernels, {}))
    return rows


def count_missing(dataset: QuestionSet, metrics: Sequence[Scored]) -> list[Row]:
    """The share of answers without a score, and why, for each metric that left something out."""
    rows = []
    for metric in metrics:
        if metric.dropped or np.isnan(metric.answers).any():
            share = float(np.isnan(metric.answers).mean())
            interval = Interval(share, np.nan, np.nan, None, metric.answers.size, 0)
            rows.append(
                make_row(dataset, metric, "missing_share", interval, "answers", (metric.kernel,), metric.dropped)
            )
    return rows


def correlate_rows(
    scores: NDArray[np.float64], labels: NDArray[np.float64], method: Method
) -> tuple[NDArray[np.float64], dict[str, int]]:
    """The correlation of each row of two tables [R, S] over the entries that both have, [R], and why some have none."""
    both = ~np.isnan(scores) & ~np.isnan(labels)
    found = correlate_groups(scores[both], labels[both], both.sum(1), method=method)
    return found.values, found.count_reasons()


def average_columns(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each column over the values present, rounded so that equal means are equal; NaN for none."""
    present = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.round(np.where(present, table, 0.0).sum(0) / present.sum(0), 9))


def _average_asked(people: People, answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean score of each system over each annotator's questions, [A, S]."""
    return np.array([average_columns(answers[questions]) for questions in people.asked])


def make_row(
    dataset: QuestionSet,
    metric: Scored,
    name: str,
    interval: Interval,
    mark: str,
    kernels: tuple[str, ...],
    dropped_because: dict[str, int],
    *,
    n: int | None = None,
    n_dropped: int | None = None,
) -> Row:
    """A row of a metric; `n` and `n_dropped` are the interval's where not given."""
    return Row(
        system=metric.system, dataset=dataset.name, metric=name, value=interval.value, ci_low=interval.low,
        ci_high=interval.high, n=interval.n if n is None else n, spread=interval.spread,
        n_dropped=interval.n_missing if n_dropped is None else n_dropped, dropped_because=dropped_because,
        signature=f"{metric.system}|{metric.signature}|{mark}|v1", kernels=kernels, origin=dataset.origin,
    )  # fmt: skip
