"""The sentences that teach the detector of Dispute Awareness, and answers composed of them."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SENTENCES = Path(__file__).resolve().parents[3] / "data" / "dispute_sentences.csv"
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
    """The sentences that a detector is trained on; `labels` is 1 where a sentence alone makes its reader aware."""

    texts: tuple[str, ...]
    kinds: tuple[str, ...]
    topics: tuple[str, ...]
    labels: tuple[int, ...]
    sha256: str

    @property
    def classes(self) -> NDArray[np.str_]:
        """aware, for or against (one side alone), or plain; [n]."""
        named = {**dict.fromkeys(_AWARE, "aware"), _SIDES[0]: "for", _SIDES[1]: "against"}
        return np.array([named.get(kind, "plain") for kind in self.kinds])

    @property
    def folds(self) -> NDArray[np.int64]:
        """The fold of each sentence, [n]: sentences of one topic are in one fold, by a hash of its name."""
        own = [
            f"{topic}|{text}" if topic.startswith(_OWN_GROUP) else topic
            for topic, text in zip(self.topics, self.texts, strict=True)
        ]
        return np.array([int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % _FOLDS for name in own])


def read_sentences(path: Path = SENTENCES) -> Labelled:
    """Read the training sentences.

    Raises: ValueError naming file, line and field for a table that doesn't fit, a kind or label that is unknown, a
        label that contradicts its kind, or a text that is empty or duplicated.
    """
    try:
        raw = path.read_bytes()
        rows = list(csv.DictReader(raw.decode("utf-8").splitlines(keepends=True), strict=True))
    except FileNotFoundError:
        raise ValueError(f"{path}: not there; run nfqa from its checkout") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a CSV file in UTF-8 ({error})") from None
    if not rows or tuple(rows[0]) != _COLUMNS:
        raise ValueError(f"{path}: line 1: expected the columns {', '.join(_COLUMNS)}, and rows below them")
    seen: set[str] = set()
    for number, row in enumerate(rows, start=1):
        where = f"{path}: row {number}"
        if row["kind"] not in (*_AWARE, *_SIDES, *_PLAIN):
            raise ValueError(f"{where}: kind is {row['kind']!r}; known: {', '.join((*_AWARE, *_SIDES, *_PLAIN))}")
        if row["label"] != str(int(row["kind"] in _AWARE)):
            raise ValueError(f"{where}: label is {row['label']!r}, but the kind {row['kind']} has the other one")
        if not (row["text"] or "").strip() or row["text"] in seen:
            raise ValueError(f"{where}: text is empty or duplicated; give each sentence once")
        seen.add(row["text"])
    columns = [tuple(row[column] for row in rows) for column in ("text", "kind", "topic")]
    labels = tuple(int(row["label"]) for row in rows)
    return Labelled(columns[0], columns[1], columns[2], labels, hashlib.sha256(raw).hexdigest())


def compose_answers(sentences: Labelled, *, count: int, seed: int = 0) -> Iterator[tuple[int, NDArray[np.int64], int]]:
    """Answers made of sentences of one fold: the fold, the numbers of their sentences in shuffled order, and the label.

    Each has 4 to 25 plain sentences; one in ten also has a dispute about something else. Half of the answers are
    aware: by one to three aware sentences or, one in four, by two sides in separate sentences. A third of the others
    has one side alone.
    """
    generator = np.random.default_rng(seed)
    folds, kinds, classes = sentences.folds, np.array(sentences.kinds), sentences.classes
    plain = (classes == "plain") & (kinds != "other_dispute")
    for number in range(count):
        inside = folds == number % _FOLDS
        pools = {name: np.flatnonzero(inside & (classes == name)) for name in ("aware", "for", "against")}
        other = np.flatnonzero(inside & (kinds == "other_dispute"))
        background = np.flatnonzero(inside & plain)
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
