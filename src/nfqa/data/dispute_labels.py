"""Answers that were labelled by reading for Dispute Awareness: labels by id from data/labels, texts from their sets."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet

LABELS = "data/labels/dispute_awareness.csv"
SAMPLE_LABELS = "data/sample/dispute_labels.csv"
_COLUMNS = ("set", "id", "pass_1", "pass_2", "label")
_SETS = {"demo_answers": "demo", "system_answers": "systems"}


@dataclass(frozen=True)
class LabelledAnswers:
    """Texts with the labels of two readings apart, and the label that counts; 1 is aware. [n] each.

    `questions` tells which answers belong to one question, so that they are drawn and left out together.
    """

    dataset: QuestionSet
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    questions: tuple[str, ...]
    pass_1: NDArray[np.int64]
    pass_2: NDArray[np.int64]
    labels: NDArray[np.int64]


def read_labelled(root: Path, dataset: QuestionSet) -> LabelledAnswers:
    """The labelled answers of `demo_answers` (ids) or `system_answers` (QUESTION:SYSTEM), in the labels' order.

    Where the set was cut to fewer questions, the labels of the others are left aside. A sample run reads the labels of
    the bundled answers.
    Raises: ValueError for a set that has no labels, or naming file, line and field for a table that doesn't fit: an
        unknown column or set, a label other than 0 or 1, an id that stands twice; or where no label is of this set.
    """
    sample = dataset.origin == "sample"
    name = dataset.name.removeprefix("sample_")
    if name not in _SETS:
        raise ValueError(f"no answers of {name} are labelled; labelled sets: {', '.join(_SETS)}")
    path = root / (SAMPLE_LABELS if sample else LABELS)
    texts, questions = {}, {}
    for question in dataset.questions:
        for answer in question.answers:
            key = question.id if name == "demo_answers" else f"{question.id}:{answer.system}"
            texts[key], questions[key] = answer.text, question.id
    rows = [row for row in _read_rows(path) if row["set"] == _SETS[name] and row["id"] in texts]
    if not rows:
        raise ValueError(f"{path}: none of its labels is of the {len(texts)} answers of {name}; take another limit")
    passes = [np.array([int(row[column]) for row in rows]) for column in ("pass_1", "pass_2", "label")]
    ids = tuple(row["id"] for row in rows)
    return LabelledAnswers(
        dataset, ids, tuple(texts[key] for key in ids), tuple(questions[key] for key in ids), *passes
    )


def _read_rows(path: Path) -> list[dict[str, str]]:
    try:
        content = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: can't be read as text ({error})") from None
    rows = list(csv.DictReader(content.splitlines()))
    if not rows or tuple(rows[0]) != _COLUMNS:
        raise ValueError(f"{path}: line 1: expected the columns {', '.join(_COLUMNS)}, and rows below them")
    seen: set[tuple[str, str]] = set()
    for number, row in enumerate(rows, start=2):
        where = f"{path}: line {number}"
        if row["set"] not in _SETS.values():
            raise ValueError(f"{where}: set is {row['set']!r}; known: {', '.join(_SETS.values())}")
        for column in ("pass_1", "pass_2", "label"):
            if row[column] not in ("0", "1"):
                raise ValueError(f"{where}: {column} is {row[column]!r}; expected 0 or 1")
        if (row["set"], row["id"]) in seen:
            raise ValueError(f"{where}: id {row['id']!r} stands twice; label each answer once")
        seen.add((row["set"], row["id"]))
    return rows
