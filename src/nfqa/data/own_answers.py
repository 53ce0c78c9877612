"""A user's own file of questions, references and answers, as JSON lines: every irregularity is refused or counted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfqa.data.debate_lines import read_points
from nfqa.data.json_lines import (
    check_fields,
    check_unicode,
    parse_line,
    read_bytes,
    read_name,
    read_text,
    refuse,
    split_lines,
)
from nfqa.data.records import UNLABELLED, Answer, PartialAnswer, Question, QuestionSet

EXAMPLE = "own_answers.jsonl"  # in data/sample
TOP_GRADE = 3  # grades and labels run from 0, the worst
_QUESTION_FIELDS = ("id", "question", "references", "partial_answers", "answers")
_REFERENCE_FIELDS = ("text", "grade")
_ANSWER_FIELDS = ("id", "system", "text", "label")


@dataclass(frozen=True)
class Excluded:
    """Something that is not scored, and why. `answer` is "" where it is the whole question."""

    question: str
    answer: str
    reason: str


@dataclass(frozen=True)
class OwnAnswers:
    """What a file holds, and what of it is not scored. A question without partial answers, its points of view, is not
    taken to be debatable.

    `dataset.irregularities` counts by name what was put right or is worth knowing.
    """

    dataset: QuestionSet
    excluded: tuple[Excluded, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.dataset.questions

    @property
    def ids(self) -> tuple[str, ...]:  # [Q]
        return tuple(question.id for question in self.questions)

    @property
    def systems(self) -> tuple[tuple[str, ...], ...]:
        """Along the questions' answers, "" where none is named: [Q][n]."""
        return tuple(tuple(answer.system for answer in question.answers) for question in self.questions)

    @property
    def points(self) -> tuple[tuple[PartialAnswer, ...], ...]:
        """Along the questions, [Q][m], m from 0."""
        return tuple(question.partial_answers for question in self.questions)

    @property
    def system_names(self) -> list[str]:
        """The systems that are named, in order of first appearance."""
        return self.dataset.systems

    @property
    def n_answers(self) -> int:
        return sum(len(question.answers) for question in self.questions)


def read_own_answers(path: Path, *, name: str = "own_answers", origin: str = "measured") -> OwnAnswers:
    """Read a file of one JSON object a line.

    `{"id": optional, "question": text, "references": optional, "partial_answers": optional, "answers": [...]}`. A
    partial answer is a text or `{"point_of_view", "explanation"}`. A reference is a text, best first,
    or `{"text", "grade"}`; an answer is a text or `{"text", "id", "system", "label"}`, of which the text alone must
    be there. Grades and labels are whole numbers from 0 to 3; null counts as not given.
    References without grades get them by their place, spread evenly from 3 to 0 (`spread_grades`); graded ones are
    sorted, best first. An empty answer is excluded; a question whose answers are all empty goes with them.
    Raises: ValueError naming file, line and field for all else that the shape doesn't allow, and for two lines with
        one id or one question, since one would hide the other.
    """
    content = read_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    counts: Counter[str] = Counter()
    reader = _Reader(path, counts)
    if content.startswith(b"\xef\xbb\xbf"):
        content, counts["byte_order_mark"] = content[3:], 1
    lines = split_lines(path, content, counts)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            reader.read_line(number, line, cut=number == len(lines) and not content.endswith(b"\n"))
        elif number < len(lines) or line:
            counts["blank_lines"] += 1
    if not reader.lines:
        raise ValueError(f"{path}: holds no question; expected one JSON object a line")
    if not reader.questions:
        raise ValueError(f"{path}: every answer is empty, so there is nothing to score")
    dataset = QuestionSet(name, tuple(reader.questions), origin, digest, dict(+counts))
    return OwnAnswers(dataset, tuple(reader.excluded))


def spread_grades(count: int) -> list[int]:
    """Grades of references that come best first without any: 3 (count - 1 - place) / (count - 1), halves upwards.

    Four references get 3, 2, 1, 0, and eight 3, 3, 2, 2, 1, 1, 0, 0: the lists of LINKAGE. A single one gets 3.
    """
    if count == 1:
        return [TOP_GRADE]
    return [(2 * TOP_GRADE * (count - 1 - place) + count - 1) // (2 * (count - 1)) for place in range(count)]


class _Reader:
    def __init__(self, path: Path, counts: Counter[str]) -> None:
        self.path, self.counts = path, counts
        self.lines = 0
        self.questions: list[Question] = []
        self.excluded: list[Excluded] = []
        self._seen: dict[tuple[str, str], int] = {}

    def read_line(self, number: int, line: str, *, cut: bool) -> None:
        where = f"{self.path}, line {number}"
        item = parse_line(where, line, cut)
        if set(item) == {"id", "generation"}:
            raise ValueError(
                f"{where}: is an answer in the released scripts' format; name the file of its questions too, as in"
                " `make score ANSWERS=answers.jsonl QUESTIONS=test.jsonl`"
            )
        check_fields(where, item, _QUESTION_FIELDS)
        self.lines += 1
        text = read_text(where, "question", item.get("question"))
        given = read_name(where, "id", item.get("id"))
        for field, value in (("id", given), ("question", text)):
            if value:
                first = self._seen.setdefault((field, value), number)
                if first != number:
                    raise ValueError(f"{where}: {field} is that of line {first}, {value!r:.80}; give each its own line")
        references = self._read_references(where, item.get("references"))
        identifier = given or f"line{number}"
        views = item.get("partial_answers")
        points = () if views is None else read_points(where, identifier, views, self.counts)
        answers = self._read_answers(where, identifier, item.get("answers"), references)
        if not answers:
            self.counts["questions_without_answers"] += 1
            self.excluded.append(Excluded(identifier, "", "every answer is empty"))
            return
        self.counts["questions_without_references"] += not references and not points
        self.questions.append(Question(text, tuple(answers), tuple(references), identifier, points))

    def _read_references(self, where: str, items: Any) -> list[Answer]:
        if items is None:
            return []
        if not isinstance(items, list):
            refuse(where, "references", items, "a list of texts, best first, or of objects with text and grade")
        texts, grades = [], []
        for place, item in enumerate(items):
            field = f"references[{place}]"
            if isinstance(item, dict):
                check_fields(f"{where}: {field}", item, _REFERENCE_FIELDS)
                texts.append(read_text(where, f"{field}.text", item.get("text")))
                grades.append(_read_grade(where, f"{field}.grade", item.get("grade")))
            else:
                texts.append(read_text(where, field, item))
                grades.append(UNLABELLED)
        bare = grades.count(UNLABELLED)
        if 0 < bare < len(grades):
            place = grades.index(UNLABELLED)
            raise ValueError(f"{where}: references[{place}] has no grade while others have one; grade all or none")
        if bare:
            self.counts["questions_graded_by_place"] += 1
            grades = spread_grades(len(texts))
        self.counts["twin_references"] += len(texts) - len(set(texts))
        references = [Answer(f"r{i}", t, g) for i, (t, g) in enumerate(zip(texts, grades, strict=True), start=1)]
        ordered = sorted(references, key=lambda reference: -reference.label)
        self.counts["questions_with_references_sorted"] += ordered != references
        return ordered

    def _read_answers(self, where: str, question: str, items: Any, references: Sequence[Answer]) -> list[Answer]:
        if not isinstance(items, list) or not items:
            refuse(where, "answers", items, "a list of at least one answer")
        answers: list[Answer] = []
        places: dict[str, int] = {}
        known = {reference.text for reference in references}
        for place, item in enumerate(items):
            field = f"answers[{place}]"
            fields = item if isinstance(item, dict) else {"text": item}
            if isinstance(item, dict):
                check_fields(f"{where}: {field}", item, _ANSWER_FIELDS)
            text = fields.get("text")
            if not isinstance(text, str):
                refuse(where, field if fields is not item else f"{field}.text", text, "a text")
            check_unicode(where, field, text)
            system = read_name(where, f"{field}.system", fields.get("system"))
            identifier = read_name(where, f"{field}.id", fields.get("id")) or system or f"a{place + 1}"
            if identifier in places:
                other = places[identifier]
                raise ValueError(
                    f"{where}: answers[{other}] and {field} are both called {identifier!r}; give each an id of its own"
                )
            places[identifier] = place
            label = _read_grade(where, f"{field}.label", fields.get("label"))
            if not text.strip():
                self.counts["empty_answers"] += 1
                self.excluded.append(Excluded(question, identifier, "empty answer"))
                continue
            self.counts["copies_of_a_reference"] += text in known
            answers.append(Answer(identifier, text, label, system))
        return answers


def _read_grade(where: str, field: str, value: Any) -> int:
    if value is None:
        return UNLABELLED
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= TOP_GRADE:
        refuse(where, field, value, f"a whole number from 0 (worst) to {TOP_GRADE}")
    return value
