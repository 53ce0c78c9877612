"""Rows of counts: the make-up of a graded data set."""

from __future__ import annotations

import numpy as np

from nfqa.data.records import QuestionSet
from nfqa.lab.results import Row
from nfqa.metrics.evaluation import summarise

GRADES = 4


def count_dataset(dataset: QuestionSet, *, resamples: int) -> list[Row]:
    """Number of questions, and the mean number of answers a question, in all and of each grade, with intervals."""
    counts = np.array([np.bincount(question.labels, minlength=GRADES) for question in dataset.questions], dtype=float)
    columns = {f"mean_label_{grade}": counts[:, grade] for grade in reversed(range(GRADES))}
    columns["mean_answers"] = counts.sum(1)
    rows = [_make_row(dataset, "n_questions", float(len(counts)), "count|v1")]
    for metric, values in columns.items():
        interval = summarise(values, resamples=resamples).interval
        row = _make_row(dataset, metric, interval.value, f"mean|per:question|repeats:keep|boot:{resamples}|v1")
        rows.append(row.model_copy(update={"ci_low": interval.low, "ci_high": interval.high}))
    return rows


def _make_row(dataset: QuestionSet, metric: str, value: float, signature: str) -> Row:
    kernels = ("nfqa.lab.experiments.statistics:count_dataset", "nfqa.data.graded_sets:parse_file")
    return Row(
        system="dataset",
        dataset=dataset.name,
        metric=metric,
        value=value,
        n=len(dataset.questions),
        n_dropped=0,
        signature=f"dataset|{signature}",
        kernels=kernels,
        origin=dataset.origin,
    )
