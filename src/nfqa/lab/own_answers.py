"""A user's own file of questions, references and answers, as JSON lines: every irregularity is refused or counted."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from nfqa.questions import Answer, Question, QuestionSet

EXAMPLE = "own_answers.jsonl"  # in data/sample
TOP_GRADE = 3  # grades and labels run from 0, the worst
UNLABELLED = -1  # an answer's label where people gave none; never a grade
_QUESTION_FIELDS = ("id", "question", "references", "answers")
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
    """What a file holds. `ids` and `systems` run along `dataset.questions`; a system is "" where none is named.

    `dataset.irregularities` counts by name what was put right or is worth knowing.
    """

    dataset: QuestionSet
    ids: tuple[str, ...]  # [Q]
    systems: tuple[tuple[str, ...], ...]  # [Q][n]
    excluded: tuple[Excluded, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.dataset.questions

    @property
    def system_names(self) -> list[str]:
        """The systems that are named, in order of first appearance."""
        return list(dict.fromkeys(name for row in self.systems for name in row if name))

    @property
    def n_answers(self) -> int:
        return sum(len(question.answers) for question in self.questions)


def read_own_answers(path: Path, *, name: str = "own_answers", origin: str = "measured") -> OwnAnswers:
    """Read a file of one JSON object a line.

    `{"id": optional, "question": text, "references": optional, "answers": [...]}`. A reference is a text, best first,
    or `{"text", "grade"}`; an answer is a text or `{"text", "id", "system", "label"}`, of which the text alone must
    be there. Grades and labels are whole numbers from 0 to 3; null counts as not given.
    References without grades get them by their place, spread evenly from 3 to 0 (`spread_grades`); graded ones are
    sorted, best first. An empty answer is excluded; a question whose answers are all empty goes with them.
    Raises: ValueError naming file, line and field for all else that the shape doesn't allow, and for two lines with
        one id or one question, since one would hide the other.
    """
    content = _read_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    counts: Counter[str] = Counter()
    reader = _Reader(path, counts)
    if content.startswith(b"\xef\xbb\xbf"):
        content, counts["byte_order_mark"] = content[3:], 1
    lines = _split_lines(path, content, counts)
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
    return OwnAnswers(dataset, tuple(reader.ids), tuple(reader.systems), tuple(reader.excluded))


def spread_grades(count: int) -> list[int]:
    """Grades of references that come best first without any: 3 (count - 1 - place) / (count - 1), halves upwards.

    Four references get 3, 2, 1, 0, and eight 3, 3, 2, 2, 1, 1, 0, 0: the lists of LINKAGE. A single one gets 3.
    """
    if count == 1:
        return [TOP_GRADE]
    return [(2 * TOP_GRADE * (count - 1 - place) + count - 1) // (2 * (count - 1)) for place in range(count)]


def _read_bytes(path: Path) -> bytes:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise ValueError(f"{path}: {what}; expected a file of JSON lines")
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path}: is UTF-16; save it as UTF-8")
    return content


def _split_lines(path: Path, content: bytes, counts: Counter[str]) -> list[str]:
    """Lines end at a line feed alone: other separators may stand inside a JSON text."""
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        shift = path.stat().st_size - len(content)  # of a byte order mark
        raise ValueError(
            f"{path}, line {line}: byte 0x{content[error.start]:02x} at offset {error.start + shift} is not UTF-8;"
            " save the whole file as UTF-8"
        ) from None
    counts["carriage_returns"] = sum(line.endswith("\r") for line in lines)
    return [line.removesuffix("\r") for line in lines]


class _Reader:
    def __init__(self, path: Path, counts: Counter[str]) -> None:
        self.path, self.counts = path, counts
        self.lines = 0
        self.ids: list[str] = []
        self.questions: list[Question] = []
        self.systems: list[tuple[str, ...]] = []
        self.excluded: list[Excluded] = []
        self._seen: dict[tuple[str, str], int] = {}

    def read_line(self, number: int, line: str, *, cut: bool) -> None:
        where = f"{self.path}, line {number}"
        item = _parse_line(where, line, cut)
        _check_fields(where, item, _QUESTION_FIELDS)
        self.lines += 1
        text = _read_text(where, "question", item.get("question"))
        given = _read_name(where, "id", item.get("id"))
        for field, value in (("id", given), ("question", text)):
            if value:
                first = self._seen.setdefault((field, value), number)
                if first != number:
                    raise ValueError(f"{where}: {field} is that of line {first}, {value!r:.80}; give each its own line")
        references = self._read_references(where, item.get("references"))
        identifier = given or f"line{number}"
        answers, systems = self._read_answers(where, identifier, item.get("answers"), references)
        if not answers:
            self.counts["questions_without_answers"] += 1
            self.excluded.append(Excluded(identifier, "", "every answer is empty"))
            return
        self.counts["questions_without_references"] += not references
        self.ids.append(identifier)
        self.questions.append(Question(text, tuple(answers), tuple(references)))
        self.systems.append(tuple(systems))

    def _read_references(self, where: str, items: Any) -> list[Answer]:
        if items is None:
            return []
        if not isinstance(items, list):
            _refuse(where, "references", items, "a list of texts, best first, or of objects with text and grade")
        texts, grades = [], []
        for place, item in enumerate(items):
            field = f"references[{place}]"
            if isinstance(item, dict):
                _check_fields(f"{where}: {field}", item, _REFERENCE_FIELDS)
                texts.append(_read_text(where, f"{field}.text", item.get("text")))
                grades.append(_read_grade(where, f"{field}.grade", item.get("grade")))
            else:
                texts.append(_read_text(where, field, item))
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

    def _read_answers(
        self, where: str, question: str, items: Any, references: Sequence[Answer]
    ) -> tuple[list[Answer], list[str]]:
        if not isinstance(items, list) or not items:
            _refuse(where, "answers", items, "a list of at least one answer")
        answers: list[Answer] = []
        systems: list[str] = []
        places: dict[str, int] = {}
        known = {reference.text for reference in references}
        for place, item in enumerate(items):
            field = f"answers[{place}]"
            fields = item if isinstance(item, dict) else {"text": item}
            if isinstance(item, dict):
                _check_fields(f"{where}: {field}", item, _ANSWER_FIELDS)
            text = fields.get("text")
            if not isinstance(text, str):
                _refuse(where, field if fields is not item else f"{field}.text", text, "a text")
            _check_unicode(where, field, text)
            system = _read_name(where, f"{field}.system", fields.get("system"))
            identifier = _read_name(where, f"{field}.id", fields.get("id")) or system or f"a{place + 1}"
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
            answers.append(Answer(identifier, text, label))
            systems.append(system)
        return answers, systems


def _parse_line(where: str, line: str, cut: bool) -> dict[str, Any]:
    try:
        item = json.loads(line, object_pairs_hook=lambda pairs: _refuse_twins(where, pairs), parse_constant=_refuse_nan)
    except _FieldTwiceError as error:
        raise ValueError(str(error)) from None
    except (ValueError, RecursionError) as error:
        said = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        hint = "; the file ends inside this line, so it may have been cut short" if cut else ""
        raise ValueError(f"{where}: not a JSON object ({said}){hint}; expected one whole object a line") from None
    if not isinstance(item, dict):
        raise ValueError(f"{where}: found {_name_type(item)}; expected one JSON object a line")
    return item


class _FieldTwiceError(ValueError):
    pass


def _refuse_twins(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twins = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if twins:
        raise _FieldTwiceError(f"{where}: the field {twins[0]!r} stands twice in one object; keep one of them")
    return dict(pairs)


def _refuse_nan(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _check_fields(where: str, item: dict[str, Any], known: Sequence[str]) -> None:
    unknown = sorted(set(item) - set(known))
    if unknown:
        raise ValueError(f"{where}: unknown field {unknown[0]!r}; known: {', '.join(known)}")


def _read_text(where: str, field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        _refuse(where, field, value, "a text that is not empty")
    _check_unicode(where, field, value)
    return value


def _read_name(where: str, field: str, value: Any) -> str:
    """An id or a system: a text or a whole number; "" for none."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        _refuse(where, field, value, "a text that is not empty, or a whole number")
    _check_unicode(where, field, str(value))
    return str(value).strip()


def _read_grade(where: str, field: str, value: Any) -> int:
    if value is None:
        return UNLABELLED
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= TOP_GRADE:
        _refuse(where, field, value, f"a whole number from 0 (worst) to {TOP_GRADE}")
    return value


def _check_unicode(where: str, field: str, text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{where}: {field} holds half of a character (a lone surrogate); write the file anew as UTF-8")


def _refuse(where: str, field: str, value: Any, expected: str) -> NoReturn:
    found = "missing" if value is None else f"{value!r:.60}" if isinstance(value, str | int | float) else ""
    raise ValueError(f"{where}: {field} is {found or _name_type(value)}; expected {expected}")


def _name_type(value: Any) -> str:
    if value in ([], {}):
        return "empty"
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
