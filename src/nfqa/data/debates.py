"""The records of debatable questions, shared by every floor. No behaviour, no dependencies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class PartialAnswer:
    """One perspective on a question. `stance` is "for", "against" or "" where none is known."""

    id: str
    point_of_view: str
    explanation: str = ""
    stance: str = ""

    @property
    def text(self) -> str:
        """PA = concat(POV, Explan), with one blank between the two."""
        return f"{self.point_of_view} {self.explanation}".strip()


@dataclass(frozen=True)
class SystemAnswer:
    """The answer of one system."""

    system: str
    text: str


@dataclass(frozen=True)
class Rating:
    """How far a system's answer represents the rater's own view, 1 to 5 (best). `view` is a `PartialAnswer.id`."""

    annotator: str
    view: str
    system: str
    value: int


@dataclass(frozen=True)
class DebateQuestion:
    """A debatable question or claim, the perspectives on it, and answers and people's ratings where there are any.

    `text` is "" where a file of answers gives ids alone.
    """

    id: str
    text: str
    partial_answers: tuple[PartialAnswer, ...]
    answers: tuple[SystemAnswer, ...] = ()
    ratings: tuple[Rating, ...] = ()

    @cached_property
    def key(self) -> int:
        """A 64-bit number made from the text, or from the id where there is no text: seeds and splits hang on it."""
        return int.from_bytes(hashlib.sha256((self.text or self.id).encode()).digest()[:8], "big")

    @cached_property
    def answer_of(self) -> dict[str, str]:
        """The answers' texts by system."""
        return {answer.system: answer.text for answer in self.answers}


@dataclass(frozen=True)
class DebateSet:
    """A named set of debatable questions. `origin` is 'measured' for public data and 'sample' for the bundled one.

    `irregularities` counts, by name, what was left out or put right when the set was read.
    """

    name: str
    questions: tuple[DebateQuestion, ...]
    origin: str
    sha256: str
    irregularities: dict[str, int] = field(default_factory=dict)

    @property
    def systems(self) -> list[str]:
        """The systems that answer any question, in order of first appearance."""
        return list(dict.fromkeys(answer.system for question in self.questions for answer in question.answers))

    @property
    def n_partial_answers(self) -> int:
        return sum(len(question.partial_answers) for question in self.questions)
