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

SENTENCES = Path(__file__).parents[1] / "data" / "dispute_sentences.csv"
_COLUMNS = ("topic", "kind", "label", "text")
_AWARE = ("dispute_stated", "views_differ", "two_sides")
_SIDES = ("one_side_for", "one_side_against")
_PLAIN = (
    "position", "hedge", "benefits_and_risks", "circumstances", "complex_only", "fact", "linking", "other_dispute",
)  # fmt: skip
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


def read_sentences(path: Path = SENTENCES) -> Labelled:
    """Read the training sentences.

    Raises: ValueError naming file, row and field for a table that doesn't fit, a kind or label that is unknown, a
        label that contradicts its kind, or a text that is empty or duplicated.
    """
    try:
        raw = path.read_bytes()
        table = pd.read_csv(BytesIO(raw), dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise ValueError(f"{path}: not there; install nfqa anew") from None
    except ValueError as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{path}: not a CSV file in UTF-8 ({said})") from None
    if table.empty or tuple(table.columns) != _COLUMNS or not isinstance(table.index, pd.RangeIndex):
        raise ValueError(f"{path}: expected the columns {', '.join(_COLUMNS)}, and rows with as many fields below them")
    aware, known = table.kind.isin(_AWARE), (*_AWARE, *_SIDES, *_PLAIN)
    faults = {
        f"kind is unknown; known: {', '.join(known)}": ~table.kind.isin(known),
        "label contradicts the kind; expected 1 for a sentence that makes aware, else 0": (
            table.label != aware.astype(int).astype(str)
        ),
        "text is empty or duplicated; give each sentence once": (
            (table.text.str.strip() == "") | table.text.duplicated()
        ),
    }
    for fault, rows in faults.items():
        if rows.any():
            row = table[rows].iloc[0]
            raise ValueError(f"{path}: row {row.name + 1} ({row.kind}, {row.label}, {row.text!r:.40}): {fault}")
    groups = np.select([aware, table.kind == _SIDES[0], table.kind == _SIDES[1]], ["aware", "for", "against"], "plain")
    alone = table.topic.str.startswith(_OWN_GROUP)
    hashed = table.topic.where(~alone, table.topic + "|" + table.text).map(_hash)
    table = table.assign(label=table.label.astype(int), group=groups, fold=hashed % _FOLDS)
    return Labelled(table, hashlib.sha256(raw).hexdigest())


def compose_answers(sentences: Labelled, *, count: int, seed: int = 0) -> Iterator[tuple[int, NDArray[np.int64], int]]:
    """Answers made of sentences of one fold: the fold, the numbers of their sentences in shuffled order, and the label.

    Each has 4 to 25 plain sentences; one in ten also has a dispute about something else. Half of the answers are
    aware: by one to three aware sentences or, one in four, by two sides in separate sentences. A third of the others
    has one side alone.
    """
    generator = np.random.default_rng(seed)
    folds, groups = sentences.table.fold.to_numpy(), sentences.table.group.to_numpy()
    disputes = sentences.table.kind.to_numpy() == "other_dispute"
    for number in range(count):
        inside = folds == number % _FOLDS
        pools = {name: np.flatnonzero(inside & (groups == name)) for name in ("aware", "for", "against")}
        other = np.flatnonzero(inside & disputes)
        background = np.flatnonzero(inside & (groups == "plain") & ~disputes)
        if not all(len(pool) for pool in (*pools.values(), background)):
            continue
        chosen = [generator.choice(background, generator.integers(*_SIZES))]
        if len(other) and generator.random() < 0.1:
            chosen.append(generator.choice(other, 1))
        kind = int(generator.integers(24))
        if kind < 9:
            chosen.append(generator.choice(pools["aware"], generator.integers(1, 4)))
        elif kind < 12:
            chosen += [generator.choice(pools["for"], 1), generator.choice(pools["against"], 1)]
        elif kind < 16:
            chosen.append(generator.choice(pools[("for", "against")[kind % 2]], 1))
        yield number % _FOLDS, generator.permutation(np.concatenate(chosen)), int(kind < 12)


def _hash(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
