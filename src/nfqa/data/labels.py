"""Answers that a language model labelled for Dispute Awareness: labels by id from data/labels, texts from their set."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pandas as pd

from nfqa.data.json_lines import Item, Text, read_rows, refuse_repeats
from nfqa.data.records import QuestionSet

DISPUTE_LABELS = "data/labels/dispute_awareness.csv"
SAMPLE_LABELS = "data/sample/dispute_labels.csv"
_SETS = {"demo_answers": "demo", "system_answers": "systems"}


class _Row(Item):
    set: Literal["demo", "systems"]
    id: Text
    pass_1: Literal["0", "1"]
    pass_2: Literal["0", "1"]
    label: Literal["0", "1"]


def read_dispute_labels(root: Path, dataset: QuestionSet, *, limit: int | None = None) -> pd.DataFrame:
    """The labelled answers of `demo_answers` (ids) or `system_answers` (QUESTION:SYSTEM), in the labels' order.

    Args: limit: at most this many labelled questions, the first ones.
    Returns: dataset, question, answer, system, text, id (as in the labels), and pass_1 and pass_2, the labels of two
        readings apart, and label, the one that counts; 1 is aware. Answers of one question are drawn and left out
        together.
    A sample run reads the labels of the bundled answers.
    Raises: ValueError for a dataset that has no labels, or naming file, line and field for a table that doesn't fit: an
        unknown column or set, a label other than 0 or 1, a duplicated id; or where no label is of this dataset.
    """
    name = dataset.name.removeprefix("sample_")
    if name not in _SETS:
        raise ValueError(f"no answers of {name} are labelled; labelled datasets: {', '.join(_SETS)}")
    path = root / (SAMPLE_LABELS if dataset.origin == "sample" else DISPUTE_LABELS)
    answers = dataset.answers.drop(columns="grade")
    by_system = answers["question"] + ":" + answers["system"]
    labels = read_rows(path, _Row)
    refuse_repeats(labels["set"] + " " + labels["id"], f"{path}: the answer")
    labels = labels[labels.pop("set") == _SETS[name]].astype({"pass_1": int, "pass_2": int, "label": int})
    found = labels.merge(answers.assign(id=answers["question"] if name == "demo_answers" else by_system), on="id")
    if found.empty:
        raise ValueError(f"{path}: none of its labels is of the {len(answers)} answers of {name}")
    found = found[pd.factorize(found["question"])[0] < (len(found) if limit is None else limit)]
    return found[[*answers.columns, *labels.columns]]
