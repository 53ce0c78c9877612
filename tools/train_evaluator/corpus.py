"""What the embedded evaluators are trained on: passages grouped by what they are about, and what is kept out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reproduction.data.load import load

GRADED = ("antique", "trec_dl_nf", "webglm")
HELD_OUT = ("overton", "demo_answers")  # no question of these is ever seen in training
OVERLAP = 8  # words in a row shared with a text held out: such a passage is not trained on
_LEAST_WORDS = 12


@dataclass(frozen=True)
class Topic:
    """Passages about one question or claim. `source` is the data set's name."""

    source: str
    passages: tuple[str, ...]


@dataclass(frozen=True)
class Corpus:
    """Topics to train on, topics to choose settings on, how many passages were left out, and the files' hashes.

    `inputs` are the files trained on (of Debatewise, its claims that aren't held out), `kept_out` those kept away from.
    """

    train: tuple[Topic, ...]
    tuning: tuple[Topic, ...]
    left_out: int
    inputs: dict[str, str]
    kept_out: dict[str, str]

    def texts(self) -> Iterator[str]:
        """Every passage that is trained on."""
        return (passage for topic in self.train for passage in topic.passages)


def read_corpus(root: Path) -> Corpus:
    """The claims of Debatewise that are not held out, and the answers of LINKAGE's three data sets.

    A passage that shares OVERLAP words in a row with a held-out claim's perspectives, with an Overton answer or view,
    or with a demo answer, is left out. An eighth of the claims is kept for choosing settings.
    """
    held_out = load("debatewise", split="held_out", root=root)
    others = [load(name, root=root) for name in HELD_OUT]
    seen: set[int] = set()
    for held in (held_out, *others):
        for question in held.questions:
            seen |= _hash_runs([question.text])
            seen |= _hash_runs(part.text for part in question.partial_answers)
            seen |= _hash_runs(answer.text for answer in question.answers)
    claims = load("debatewise", split="train", root=root)
    inputs = {claims.name: claims.sha256}
    topics: list[Topic] = []
    tuning: list[Topic] = []
    left_out = 0
    for claim in claims.questions:
        kept = tuple(part.text for part in claim.partial_answers if not seen & _hash_runs([part.text]))
        left_out += len(claim.partial_answers) - len(kept)
        (tuning if claim.key % 8 == 1 else topics).append(Topic(claims.name, kept))
    for name in GRADED:
        dataset = load(name, repeats="first", root=root)
        inputs[dataset.name] = dataset.sha256
        for graded in dataset.questions:
            texts = list(dict.fromkeys(answer.text for answer in graded.answers))
            kept = tuple(text for text in texts if not seen & _hash_runs([text]))
            left_out += len(texts) - len(kept)
            topics.append(Topic(name, tuple(text for text in kept if len(text.split()) >= _LEAST_WORDS)))
    return Corpus(
        tuple(topic for topic in topics if len(topic.passages) > 1),
        tuple(topic for topic in tuning if len(topic.passages) > 3),
        left_out,
        inputs,
        {held.name: held.sha256 for held in others},
    )


def _hash_runs(texts: Iterable[str]) -> set[int]:
    runs = set()
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        runs |= {hash(tuple(words[i : i + OVERLAP])) for i in range(len(words) - OVERLAP + 1)}
    return runs
