"""Answers that a language model labelled for Dispute Awareness: labels by id from data/labels, texts from their set."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from nfqa.data.records import QuestionSet

DISPUTE_LABELS = "data/labels/dispute_awareness.csv"
SAMPLE_LABELS = "data/sample/dispute_labels.csv"
_SETS = {"demo_answers": "demo", "system_answers": "systems"}


def read_dispute_labels(root: Path, dataset: QuestionSet, *, limit: int | None = None) -> pd.DataFrame:
    """The labelled answers of `demo_answers` (ids) or `system_answers` (QUESTION:SYSTEM), in the labels' order.

    Args: limit: at most this many labelled questions, the first ones.
    Returns: dataset, question, answer, system, text, id (as in the labels), and pass_1 and pass_2, the labels of two
        readings apart, and label, the one that counts; 1 is aware. Answers of one question are drawn and left out
        together.
    A sample run reads the labels of the bundled answers.
    Raises: ValueError for a dataset that has no labels.
    """
    name = dataset.name.removeprefix("sample_")
    if name not in _SETS:
        raise ValueError(f"no answers of {name} are labelled; labelled datasets: {', '.join(_SETS)}")
    path = root / (SAMPLE_LABELS if dataset.origin == "sample" else DISPUTE_LABELS)
    answers = dataset.answers.drop(columns="grade")
    by_system = answers["question"] + ":" + answers["system"]
    labels = pd.read_csv(path, dtype={"id": str})
    labels = labels[labels.pop("set") == _SETS[name]]
    found = labels.merge(answers.assign(id=answers["question"] if name == "demo_answers" else by_system), on="id")
    chosen = found["question"].unique()[:limit]
    return found.loc[found["question"].isin(chosen), [*answers.columns, *labels.columns]]
