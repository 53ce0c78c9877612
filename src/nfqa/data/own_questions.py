"""A user's own questions, from a file of JSON lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from nfqa.data.json_lines import Extra, Item, Name, Text, check, parse_lines, refuse_twin


class _Question(Item):
    id: Name = ""
    question: Text


def read_questions(path: Path) -> pd.DataFrame:
    """Questions of a file of JSON lines, `{"question", "id": optional}` each.

    Other fields are passed over; one that resembles these two is refused as misspelt.

    Returns: id (by default q1, q2 ... by line), question.
    Raises: ValueError naming file and line for another shape, an id or a question that is there twice, or no question.
    """
    seen: dict[tuple[str, str], str] = {}
    rows = []
    for number, where, item in parse_lines(str(path), path.read_bytes(), Counter()):
        line = check(_Question, item, where, Extra(Counter()))
        row = {"id": line.id or f"q{number}", "question": " ".join(line.question.split())}
        for field, value in row.items():
            refuse_twin(seen, where, field, value)
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: holds no question; expected a line such as {{'question': 'Should ...?'}}")
    return pd.DataFrame(rows)
