"""People's preferences between two answers to a question, and the answers, in files of a user's own."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator

from nfqa.files.answers import read_answers
from nfqa.files.json_lines import Extra, Item, Name, check, parse_lines, read_number, refuse_twin
from nfqa.files.paths import hash_file
from nfqa.files.records import Question, QuestionSet
from nfqa.files.tables import TABLES, parse_rows

if TYPE_CHECKING:
    import pandas as pd


class _Preference(Item):
    question: Name
    annotator: Name
    better: Name
    worse: Name
    tie: Annotated[Literal[0, 1], BeforeValidator(lambda cell: read_number(cell or 0))] = 0


def read_preferences(path: Path, systems: Path, questions: Path) -> tuple[QuestionSet, pd.DataFrame]:
    """Pairwise preferences, the answers that they are about, and the points of view on their questions.

    Args: path: a table or JSON lines of question (its id), annotator, better and worse (systems), and maybe tie (1
            where neither is better); systems: a folder with a file SYSTEM.jsonl of `{id, generation}` lines for each
            system; questions: as DebateQA's test.jsonl.
    Returns: the questions that are asked about, with their answers and partial answers; and dataset, question, rater (a
        number from 1, by the order of their names: no name is kept), left, right, outcome (1 left is preferred, 0
        right, 0.5 a tie), as `reproduction.studies.people.compare_answers` gives them.
    Raises: ValueError naming file, line and field for a missing column or cell, a system without an answer to the
        question, or a pair that one annotator compares twice; for a folder without answers; and as `read_answers`.
    Source: the design of DebateQA, section B.1.1: all pairs of five answers to a question, by three annotators.
    """
    import pandas as pd

    files = sorted(Path(systems).glob("*.jsonl"))
    by_name: dict[str, Question] = {}
    for file in files:
        for one in read_answers(file, questions).questions:
            before = by_name.setdefault(one.name, replace(one, answers=()))
            answer = replace(one.answers[0], id=file.stem, system=file.stem)
            by_name[one.name] = replace(before, answers=(*before.answers, answer))
    rows, seen = list[tuple[Any, ...]](), dict[tuple[str, str], str]()
    read = parse_rows if path.suffix.lower() in TABLES else parse_lines
    for _, where, item in read(str(path), path.read_bytes(), Counter()):
        row = check(_Preference, item, where, Extra(Counter()))
        written = {answer.system for answer in by_name[row.question].answers} if row.question in by_name else set()
        for field, system in (("better", row.better), ("worse", row.worse)):
            if system not in written or row.better == row.worse:
                known = ", ".join(sorted(written)) or "none"
                raise ValueError(f"{where}: {field} is {system!r}; expected two of those with an answer: {known}")
        left, right = sorted((row.better, row.worse))
        refuse_twin(seen, where, f"the pair that {row.annotator} compares", f"{row.question}: {left}, {right}")
        rows.append((row.question, row.annotator, left, right, 0.5 if row.tie else float(row.better == left)))
    if not rows:
        raise ValueError(f"{path}: holds no preference; expected question, annotator, better, worse")
    table = pd.DataFrame(rows, columns=["question", "rater", "left", "right", "outcome"])
    table.insert(0, "dataset", "own_preferences")
    subset = tuple(one for name, one in by_name.items() if name in set(table.question))
    digest = hashlib.sha256(" ".join(hash_file(each) for each in (path, questions, *files)).encode()).hexdigest()
    people = QuestionSet("own_preferences", subset, "measured", digest)
    return people, table.assign(rater=pd.factorize(table.rater, sort=True)[0] + 1)
