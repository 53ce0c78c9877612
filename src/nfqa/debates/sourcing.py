"""Debatable questions of several sources in one frame, and how many are left without near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np
import pandas as pd

from nfqa.debates.duplicates import Method, choose_removed, find_near_duplicates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nfqa.data.records import QuestionSet


def list_questions(*sources: QuestionSet | pd.DataFrame) -> pd.DataFrame:
    """The questions of all sources, each once a source, in the sources' order.

    Args: sources: sets of questions, or frames with dataset, question (its text) and maybe source.
    Returns: dataset, source (a part of the dataset, "" where it has none), question (its text).
    """
    frames = []
    for source in sources:
        if not isinstance(source, pd.DataFrame):
            source = pd.DataFrame({"dataset": source.name, "question": [each.text for each in source.questions]})
        frames.append(
            source.assign(source=source.get("source", ""))[["dataset", "source", "question"]].drop_duplicates()
        )
    return pd.concat(frames, ignore_index=True)


def count_kept(questions: pd.DataFrame, vectors: NDArray[np.floating], *, thresholds: Sequence[float]) -> pd.DataFrame:
    """How many questions of each source are left, by the threshold and how the ones to remove are chosen.

    Args: questions: dataset, source; vectors: [questions, D], of unit length, one a question.
    Returns: threshold, method, dataset, source, n_sourced, n_kept, and n_pairs (near-duplicates among all).
    """
    pairs = find_near_duplicates(vectors, threshold=min(thresholds))
    counted = []
    for threshold in thresholds:
        alike = pairs[pairs.cosine >= threshold - 1e-6]
        for method in get_args(Method):
            kept = np.ones(len(questions), dtype=bool)
            kept[choose_removed(alike, method=method)] = False
            sources = questions.assign(kept=kept).groupby(["dataset", "source"], sort=False).kept
            counts = sources.agg(n_sourced="size", n_kept="sum").reset_index()
            counted.append(counts.assign(threshold=threshold, method=method, n_pairs=len(alike)))
    return pd.concat(counted, ignore_index=True)
