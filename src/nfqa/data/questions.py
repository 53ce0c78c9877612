"""The records that every floor shares: a question, its answers, a data set. No behaviour, no dependencies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Answer:
    """One candidate answer. `label` is the human grade on the common scale (0 is worst)."""

    id: str
    text: str
    label: int


@dataclass(frozen=True)
class Question:
    """A question with its graded answers; `references` holds ready-made graded references, best first, if any."""

    text: str
    answers: tuple[Answer, ...]
    references: tuple[Answer, ...] = ()

    @cached_property
    def key(self) -> int:
        """A 64-bit number made from the question's text: seeds and folds hang on it, never on file order."""
        return int.from_bytes(hashlib.sha256(self.text.encode()).digest()[:8], "big")

    @property
    def labels(self) -> tuple[int, ...]:
        return tuple(answer.label for answer in self.answers)


@dataclass(frozen=True)
class QuestionSet:
    """A named data set. `origin` is 'measured' for public data and 'sample' for the bundled one."""

    name: str
    questions: tuple[Question, ...]
    origin: str
    sha256: str
    irregularities: dict[str, int] = field(default_factory=dict)

    def texts(self) -> list[str]:
        """Every distinct text of the set, in order of first appearance."""
        seen: dict[str, None] = {}
        for question in self.questions:
            seen[question.text] = None
            for answer in (*question.answers, *question.references):
                seen[answer.text] = None
        return list(seen)
