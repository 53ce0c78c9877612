"""Debatable questions with their points of view, in the format that DebateQA is released in.

A file that is pinned by its hash, or bundled with us, is read as it is; of a shape that users may
bring it is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import Field

from nfqa.files.json_lines import AnyText, Extra, Item, Name, Text, check, parse_lines, read_items, refuse_twins
from nfqa.files.records import PartialAnswer, Question


class PointOfView(Item):
    """A point of view, a bare text or an object, and maybe its explanation."""

    bare = "point_of_view"
    point_of_view: Text
    explanation: AnyText = ""


Points = Annotated[list[PointOfView], Field(min_length=1)]


def make_points(question: str, points: Sequence[PointOfView], counts: Counter[str]) -> tuple[PartialAnswer, ...]:
    """Partial answers QUESTION.1, QUESTION.2 ...; repeated ones are counted, and kept."""
    texts = ((point.point_of_view.strip(), point.explanation.strip()) for point in points)
    partial_answers = tuple(PartialAnswer(f"{question}.{place}", *text) for place, text in enumerate(texts, start=1))
    counts["repeated_partial_answers"] += len(partial_answers) - len({point.text for point in partial_answers})
    return partial_answers


class Debate(Item):
    """A line of a file of questions, as DebateQA is released."""

    id: Name
    question: Text
    partial_answers: Points


def read_debateqa(path: Path, counts: Counter[str], *, clean: bool = False) -> Iterator[Question]:
    """`{id, question, partial_answers: [{point_of_view, explanation}]}` a line, as DebateQA is
    released.

    Args: clean: as `read_items`.
    Raises: ValueError naming file, line and field for another shape, or an id that is there twice.
    """
    for line in read_items(path, Debate, counts, once="id", clean=clean):
        points = make_points(line.id, line.partial_answers, counts)
        yield Question(line.question, id=line.id, partial_answers=points)


class _Question(Item):
    id: Name = ""
    question: Text


def read_questions(path: Path) -> pd.DataFrame:
    """Questions of a file of JSON lines, `{"question", "id": optional}` each.

    Other fields are passed over; one that resembles these two is refused as misspelt.

    Returns: id (by default q1, q2 ... by line), question.
    Raises: ValueError naming file and line for another shape, an id or a question that is there
        twice, or no question.
    """
    seen: dict[int, str] = {}
    rows = []
    for number, where, item in parse_lines(str(path), path.read_bytes(), Counter()):
        line = check(_Question, item, where, Extra(Counter()))
        row = {"id": line.id or f"q{number}", "question": " ".join(line.question.split())}
        refuse_twins(seen, where, row)
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: holds no question; expected a line such as {{'question': 'Should ...?'}}")
    return pd.DataFrame(rows)
