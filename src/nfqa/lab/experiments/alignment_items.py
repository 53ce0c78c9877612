"""Human alignment: whether a metric follows people's ratings answer by answer, question by question, by system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.agreement import average_others, measure_krippendorff_alpha
from nfqa.kernels.correlation import REASONS, Method, correlate_groups
from nfqa.kernels.resample import Interval, bootstrap_difference, bootstrap_mean, draw_counts, find_interval
from nfqa.lab.experiments.alignment import METHODS, average_columns, correlate_rows, make_row
from nfqa.lab.experiments.alignment_people import People, weigh_ratings
from nfqa.lab.experiments.alignment_scores import PD, Scored
from nfqa.lab.results import Row

SPLITS = 50  # seeded halves of the annotators
_MEAN = "nfqa.kernels.resample:bootstrap_mean"
_COUNTS = "nfqa.kernels.resample:draw_counts"
_ALPHA = "nfqa.kernels.agreement:measure_krippendorff_alpha"


def measure_items(
    dataset: QuestionSet, people: People, metrics: Sequence[Scored], *, resamples: int, seed: int = 0
) -> list[Row]:
    """Within each annotator and question: the ratings of the systems' answers against the metric's scores.

    A metric that scores single views is asked for the annotator's own view, any other for the answer. Spearman uses
    mid-ranks and Kendall is tau-b, so that ties in the ratings are ties. A pair of annotator and question is left out,
    and counted, where all ratings are equal, where the annotator's view has no text, or where the metric is constant.
    `item_*` averages within annotators first and has its interval over them; `item_*_by_question` likewise by
    question. `people_left_out` is the mean rating by the others, who rated the same answers for their own views;
    `people_same_side` that by the others who chose the same side: what a metric could reach that knew no more.
    `item_spearman_less_BASELINE` is P.D. less another metric on the same annotators.
    """
    rows, by_annotator = [], {}
    for metric in metrics:
        if metric.items:
            scores = np.full(people.ratings.shape, np.nan)
            annotators, questions = np.nonzero(people.views >= 0)
            for a, q in zip(annotators.tolist(), questions.tolist(), strict=True):
                scores[a, q] = metric.score_view(q, int(people.views[a, q]))
            made, by_annotator[metric.system] = _make_item_rows(dataset, people, metric, scores, resamples, seed)
            rows += made
    rows += _compare_items(dataset, metrics, by_annotator, resamples, seed)
    kernel = "nfqa.kernels.agreement:average_others"
    for name, same_side in (("people_left_out", False), ("people_same_side", True)):
        scores = average_other_annotators(people, same_side=same_side)
        mark = "mean_of_others" + (",same_side" if same_side else "")
        ceiling = Scored(name, people.mean_ratings, mark, kernel)
        rows += _make_item_rows(dataset, people, ceiling, scores, resamples, seed)[0]
    return rows


def _compare_items(
    dataset: QuestionSet,
    metrics: Sequence[Scored],
    by_annotator: dict[str, NDArray[np.float64]],
    resamples: int,
    seed: int,
) -> list[Row]:
    rows = []
    for metric in metrics:
        for base in metrics:
            if metric.kernel == PD and base.kernel != PD and {metric.system, base.system} <= set(by_annotator):
                pair = by_annotator[metric.system], by_annotator[base.system]
                interval = bootstrap_difference(*pair, resamples=resamples, seed=seed)
                kernels = (metric.kernel, base.kernel, "nfqa.kernels.resample:bootstrap_difference")
                mark = f"less:{base.system}|{base.signature}|within:annotator,question|boot:{resamples}:annotators"
                rows.append(make_row(dataset, metric, f"item_spearman_less_{base.system}", interval, mark, kernels, {}))
    return rows


def average_other_annotators(people: People, *, same_side: bool = False) -> NDArray[np.float64]:
    """The mean rating by all other annotators of an answer, or by those of the same side, [A, Q, S]."""
    table = np.full(people.ratings.shape, np.nan)
    for q in range(people.ratings.shape[1]):
        if not same_side:
            table[:, q] = average_others(people.ratings[:, q])
            continue
        for side in {*people.sides[:, q].tolist()} - {""}:
            members = people.sides[:, q] == side
            table[members, q] = average_others(people.ratings[members, q])
    return np.where(people.asked[..., None], table, np.nan)


def _make_item_rows(
    dataset: QuestionSet, people: People, metric: Scored, scores: NDArray[np.float64], resamples: int, seed: int
) -> tuple[list[Row], NDArray[np.float64]]:
    """The rows, and each annotator's mean Spearman, [A]."""
    rows, spearman = [], np.full(len(people.ratings), np.nan)
    a, q = np.nonzero(people.asked)
    for method in METHODS:
        x, y = scores[a, q], people.ratings[a, q]  # [pairs, S]
        both = ~np.isnan(x) & ~np.isnan(y)
        found = correlate_groups(x[both], y[both], both.sum(1), method=method)
        reasons = [REASONS[code] for code in found.reasons]
        lost = both.sum(1) < 2  # rated, but not scored
        why = Counter("no_score" if gone else reason for gone, reason in zip(lost, reasons, strict=True))
        why.pop("defined", None)
        table = np.full(people.asked.shape, np.nan)
        table[a, q] = found.values
        n = int((~np.isnan(found.values)).sum())
        kernels = (metric.kernel, f"nfqa.kernels.correlation:_{method}", _MEAN)
        for axis, unit, suffix in ((1, "annotators", ""), (0, "questions", "_by_question")):
            values = average_columns(table.T if axis else table)
            if method == "spearman" and axis:
                spearman = values
            interval = bootstrap_mean(values, resamples=resamples, seed=seed)
            mark = f"within:annotator,question|then:{unit}|boot:{resamples}:{unit}"
            rows.append(
                make_row(
                    dataset, metric, f"item_{method}{suffix}", interval, mark, kernels, dict(sorted(why.items())),
                    n=n, n_dropped=len(found.values) - n,
                )
            )  # fmt: skip
    return rows, spearman


def measure_questions(
    dataset: QuestionSet, people: People, metrics: Sequence[Scored], *, resamples: int, seed: int = 0
) -> list[Row]:
    """Within each question: the metric of the systems' answers against their mean ratings, averaged over questions.

    `question_*` has its interval over questions, `question_*_by_annotator` over annotators.
    """
    means, drawn = people.mean_ratings, people.resample_means(resamples=resamples, seed=seed)
    rows = []
    for metric in metrics:
        for method in METHODS:
            kernels = (metric.kernel, f"nfqa.kernels.correlation:_{method}", _MEAN)
            values, why = correlate_rows(metric.answers, means, method)
            interval = bootstrap_mean(values, resamples=resamples, seed=seed)
            mark = f"within:question|people:mean|boot:{resamples}"
            rows.append(
                make_row(dataset, metric, f"question_{method}", interval, f"{mark}:questions", kernels, why)
            )  # fmt: skip
            draws = _average_draws(metric.answers, drawn, method)
            interval = find_interval(interval.value, draws, n=interval.n, n_missing=interval.n_missing)
            name = f"question_{method}_by_annotator"
            rows.append(make_row(dataset, metric, name, interval, f"{mark}:annotators", kernels, why))
    return rows


def _average_draws(answers: NDArray[np.float64], drawn: NDArray[np.float64], method: Method) -> NDArray[np.float64]:
    """The mean over questions of the correlation within each, for each resample of the mean ratings, [R]."""
    flat = drawn.reshape(-1, drawn.shape[2])
    values, _ = correlate_rows(np.tile(answers, (len(drawn), 1)), flat, method)
    return average_columns(values.reshape(drawn.shape[:2]).T)


def measure_systems(
    dataset: QuestionSet, people: People, metrics: Sequence[Scored], *, resamples: int, seed: int = 0
) -> list[Row]:
    """The systems' mean scores against their mean ratings: `n` is the number of systems.

    `system_*` has its interval over questions, of which each brings its scores and ratings; `system_*_by_annotator`
    over annotators, the scores held fixed.
    """
    questions = draw_counts(len(people.mean_ratings), resamples=resamples, seed=seed)
    rated = average_columns(people.mean_ratings)
    rated_by_question = _weigh(people.mean_ratings, questions)
    rated_by_annotator = np.array(
        [average_columns(table) for table in people.resample_means(resamples=resamples, seed=seed)]
    )
    rows = []
    for metric in metrics:
        scored = average_columns(metric.answers)
        by_question = _weigh(metric.answers, questions)
        fixed = np.tile(scored, (resamples, 1))
        n = int((~np.isnan(scored) & ~np.isnan(rated)).sum())
        for method in METHODS:
            kernels = (metric.kernel, f"nfqa.kernels.correlation:_{method}", _COUNTS)
            value, why = correlate_rows(scored[None], rated[None], method)
            for suffix, unit, left, right in (
                ("", "questions", by_question, rated_by_question),
                ("_by_annotator", "annotators", fixed, rated_by_annotator),
            ):
                interval = find_interval(value[0], correlate_rows(left, right, method)[0], n=n)
                mark = f"systems:means|people:mean|boot:{resamples}:{unit}"
                rows.append(make_row(dataset, metric, f"system_{method}{suffix}", interval, mark, kernels, why))
    return rows


def _weigh(table: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of columns [Q, S] under counts of the rows [R, Q], [R, S]."""
    return weigh_ratings(table[:, None, :], counts)[:, 0]


def measure_ceiling(dataset: QuestionSet, people: People, *, resamples: int, seed: int = 0) -> list[Row]:
    """Agreement among people: halves of the annotators against each other, and Krippendorff's alpha.

    `people_split_half` correlates the mean ratings of two random halves, within questions and by system, averaged over
    seeded splits, with the deviation over splits as spread; a half is noisier than all, so that a metric may come out
    above it. Alpha takes the ratings as ordinal, over all answers, with its interval over questions.
    """
    generator = np.random.default_rng(seed)
    splits: dict[str, list[float]] = {}
    for _ in range(SPLITS):
        first = np.zeros(len(people.ratings))
        first[generator.permutation(len(first))[: len(first) // 2]] = 1
        halves = weigh_ratings(people.ratings, np.array([first, 1 - first]))  # [2, Q, S]
        first_mean, second_mean = (average_columns(part)[None] for part in halves)
        for method in METHODS:
            within, _ = correlate_rows(halves[0], halves[1], method)
            splits.setdefault(f"question_{method}", []).append(float(average_columns(within[:, None])[0]))
            overall, _ = correlate_rows(first_mean, second_mean, method)
            splits.setdefault(f"system_{method}", []).append(float(overall[0]))
    half = Scored("people_split_half", people.mean_ratings, f"halves:{SPLITS}|seed:{seed}", _COUNTS)
    rows = []
    for name, values in splits.items():
        kept = [value for value in values if not np.isnan(value)]
        mean = float(np.mean(kept)) if kept else float("nan")
        spread = float(np.std(kept, ddof=1)) if len(kept) > 1 else None
        interval = Interval(mean, np.nan, np.nan, spread, len(kept), len(values) - len(kept))
        kernels = (f"nfqa.kernels.correlation:_{name.partition('_')[2]}",)
        rows.append(make_row(dataset, half, name, interval, "averaged_over:halves", kernels, {}))
    return [*rows, measure_alpha(dataset, people, resamples=resamples, seed=seed)]


def measure_alpha(dataset: QuestionSet, people: People, *, resamples: int, seed: int = 0) -> Row:
    """Krippendorff's alpha of the ratings of all answers, ordinal, with its interval over questions."""
    ratings = people.ratings
    value = measure_krippendorff_alpha(ratings.reshape(len(ratings), -1))
    generator = np.random.default_rng(seed)
    draws = [
        measure_krippendorff_alpha(
            ratings[:, generator.integers(ratings.shape[1], size=ratings.shape[1])].reshape(len(ratings), -1)
        )
        for _ in range(resamples)
    ]
    annotators = Scored("annotators", people.mean_ratings, "ratings:1-5", _ALPHA)
    interval = find_interval(value, draws, n=int((~np.isnan(ratings)).sum()))
    return make_row(dataset, annotators, "alpha_ordinal", interval, f"boot:{resamples}:questions", (_ALPHA,), {})
