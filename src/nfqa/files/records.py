"""The records that both papers share: a question with its answers, references, points of view and
ratings; a dataset.

A dataset is also a set of tidy frames, `answers`, `references`, `views` and `ratings`: what a
notebook starts from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

UNLABELLED = -1  # the label of an answer that nobody graded; never a grade: NaN in frames


@dataclass(frozen=True)
class Answer:
    """One answer, or one reference. `label` is the human grade on the common scale, 0 (worst) to 3,
    or UNLABELLED.

    `id` distinguishes the answers to one question. `system` says what wrote the answer, "" where
    that isn't known. `extra` holds further fields of a user's own, by name.
    """

    id: str
    text: str
    label: int = UNLABELLED
    system: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)


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
class Rating:
    """How fully a system's answer represents the rater's own view, 1 to 5 (best). `view` is a
    `PartialAnswer.id`.
    """

    annotator: str
    view: str
    system: str
    value: int


@dataclass(frozen=True)
class Question:
    """A question or claim. A graded one has answers with labels; a debatable one has perspectives
    on it.

    `references` are ready-made graded references, best first. `id` is "" where the text identifies
    the question, and `text` is "" where a file of answers gives ids alone.
    """

    text: str
    answers: tuple[Answer, ...] = ()
    references: tuple[Answer, ...] = ()
    id: str = ""
    partial_answers: tuple[PartialAnswer, ...] = ()
    ratings: tuple[Rating, ...] = ()

    @property
    def name(self) -> str:
        """What identifies the question in its dataset, and in every frame: its id, or its text
        where it has none.
        """
        return self.id or self.text

    @cached_property
    def key(self) -> int:
        """A 64-bit hash of the text, or of the id where there is no text; seeds, folds and splits
        depend on it.
        """
        return int.from_bytes(hashlib.sha256((self.text or self.id).encode()).digest()[:8], "big")


@dataclass(frozen=True)
class QuestionSet:
    """A named dataset. `origin` is 'measured' for public data and 'sample' for the bundled one.

    `warnings` counts, by name, what was excluded, corrected or is worth knowing. The frames name a
    question by `Question.name`; an item that a question lacks has no row.
    """

    name: str
    questions: tuple[Question, ...]
    origin: str
    sha256: str
    warnings: dict[str, int] = field(default_factory=dict)

    @property
    def systems(self) -> list[str]:
        """The systems that answer any question, in order of first appearance."""
        return list(dict.fromkeys(answer.system for q in self.questions for answer in q.answers if answer.system))

    @property
    def texts_by_name(self) -> dict[str, str]:
        """Each question's text by what names it in the frames."""
        return {question.name: question.text for question in self.questions}

    def texts(self) -> list[str]:
        """Every distinct text of questions, answers and references, in order of first appearance."""
        groups = ((q.text, *(answer.text for answer in (*q.answers, *q.references))) for q in self.questions)
        return list(dict.fromkeys(text for group in groups for text in group if text))

    @property
    def answers(self) -> pd.DataFrame:
        """dataset, question, answer (its id), system ("" for none), text, grade (float, NaN for
        none), and `extra`.
        """
        frame = self._make_frame("answers", answer="id", system="system", text="text", grade="label")
        extra = [answer.extra for question in self.questions for answer in question.answers]
        names = dict.fromkeys(name for each in extra for name in each)
        return frame.assign(**{name: [each.get(name) for each in extra] for name in names})

    @property
    def references(self) -> pd.DataFrame:
        """dataset, question, reference (its id), place (from 1, best first), text, grade (float)."""
        frame = self._make_frame("references", reference="id", text="text", grade="label")
        frame.insert(3, "place", frame.groupby("question", sort=False).cumcount() + 1)
        return frame

    @property
    def views(self) -> pd.DataFrame:
        """dataset, question, view (its id), point_of_view, explanation, stance ("" for none), text
        (the first two).
        """
        same = {name: name for name in ("point_of_view", "explanation", "stance", "text")}
        return self._make_frame("partial_answers", view="id", **same)

    @property
    def ratings(self) -> pd.DataFrame:
        """dataset, question, rater (a running number, from 0), view (the rater's own), system,
        rating (1 to 5).
        """
        frame = self._make_frame("ratings", rater="annotator", view="view", system="system", rating="value")
        return frame.assign(rater=frame["rater"].astype("category").cat.codes.astype(int))

    def _make_frame(self, items: str, **fields: str) -> pd.DataFrame:
        """One row per item of each question, its fields by column."""
        import pandas as pd  # where it is used: the runner and the command line read records too, and start fast

        pick = attrgetter(*fields.values())
        rows = [(q.name, *pick(item)) for q in self.questions for item in getattr(q, items)]
        frame = pd.DataFrame(rows, columns=["question", *fields])
        frame.insert(0, "dataset", self.name)
        if "grade" in fields:
            frame["grade"] = frame["grade"].astype(float).replace(UNLABELLED, float("nan"))
        return frame
