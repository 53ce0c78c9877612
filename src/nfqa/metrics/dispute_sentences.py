"""The sentences that teach the detector of Dispute Awareness, and answers composed of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_SENTENCES = Path(__file__).parents[1] / "data" / "dispute_sentences.csv"
_GROUPS = {
    "dispute_stated": "aware", "views_differ": "aware", "two_sides": "aware",
    "one_side_for": "for", "one_side_against": "against",
}  # fmt: skip
_FOLDS = 10
_SIZES = (4, 26)  # plain sentences of a composed answer, from and below
_OWN_GROUP = ("general", "long")  # no topics: each of their sentences is a group of its own


@dataclass(frozen=True)
class Labelled:
    """The sentences that a detector is trained on, and the hash of the file that they are from.

    table: topic, kind, label (1 where a sentence alone makes its reader aware), text, group (aware, for or against: one
    side alone, or plain) and fold (sentences of one topic are in one fold, by a hash of its name).
    """

    table: pd.DataFrame
    sha256: str


def read_sentences() -> Labelled:
    """Read the training sentences of data/dispute_sentences.csv."""
    raw = _SENTENCES.read_bytes()
    table = pd.read_csv(BytesIO(raw), dtype=str, keep_default_na=False)
    own_topic = table.topic.where(~table.topic.str.startswith(_OWN_GROUP), table.topic + "|" + table.text)
    groups = table.kind.map(_GROUPS).fillna("plain")
    table = table.assign(label=table.label.astype(int), group=groups, fold=own_topic.map(_hash) % _FOLDS)
    return Labelled(table, hashlib.sha256(raw).hexdigest())


def compose_training_answers(
    sentences: Labelled, *, count: int, seed: int = 0
) -> Iterator[tuple[int, NDArray[np.int64], int]]:
    """Answers made of sentences of one fold: the fold, the numbers of their sentences in shuffled order, and the label.

    Each has 4 to 25 plain sentences; one in ten also has a dispute about something else. Half of the answers are
    aware: by one to three aware sentences or, one in four, by two sides in separate sentences. A third of the others
    has one side alone.
    """
    generator = np.random.default_rng(seed)
    folds = sentences.table.fold.to_numpy()
    groups = sentences.table.group.mask(sentences.table.kind == "other_dispute", "other").to_numpy()
    for number in range(count):
        fold = number % _FOLDS
        names = ("plain", "aware", "for", "against", "other")
        plain, aware, one, against, other = (np.flatnonzero((folds == fold) & (groups == name)) for name in names)
        if not (len(plain) and len(aware) and len(one) and len(against)):
            continue
        chosen = [generator.choice(plain, generator.integers(*_SIZES))]
        if len(other) and generator.random() < 0.1:
            chosen.append(generator.choice(other, 1))
        kind = int(generator.integers(24))
        if kind < 9:
            chosen.append(generator.choice(aware, generator.integers(1, 4)))
        elif kind < 12:
            chosen += [generator.choice(one, 1), generator.choice(against, 1)]
        elif kind < 16:
            chosen.append(generator.choice(against if kind % 2 else one, 1))
        yield fold, generator.permutation(np.concatenate(chosen)), int(kind < 12)


def _hash(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
