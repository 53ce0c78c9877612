"""A user's own answers, from a file or from frames: all is checked by one set of models, refused or
counted.

JSON lines, tables and frames all become the objects of JSON lines, which are checked and made into
a `QuestionSet`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from nfqa.files.debateqa import Debate, Points, make_points
from nfqa.files.json_lines import (
    AnyText,
    Extra,
    Item,
    Name,
    Text,
    check,
    read_items,
    refuse_repeats,
    refuse_twins,
)
from nfqa.files.kinds import find_kind, read_objects
from nfqa.files.paths import refuse_stream
from nfqa.files.records import UNLABELLED, Answer, Question, QuestionSet
from nfqa.files.tables import (
    EXAMPLES,
    NUMBERED,
    OF_TABLES,
    TOP_GRADE,
    Grade,
    Lines,
    Reference,
    Table,
    gather_frames,
    gather_rows,
    list_records,
)  # fmt: skip
from nfqa.kernels.texts import name_lack

OWN = "own_answers"  # the dataset's name
LACKS = {"empty": "empty answer", "only_thinking": "thinking without an answer"}  # why an answer has no score
_TAKEN = {  # columns of answers, and those that the functions which score them write beside these
    "dataset", "text", "grade", "metric", "score", "rank", "probability", "missing", "note", "signature",
    "view", "point_of_view", "evaluator", "variant", "training", "judge", "method", "shots", "form", "reading",
    "output", "seed", "flags", "share", "place",
}  # fmt: skip


class _Answer(Item):
    model_config = ConfigDict(extra="allow")
    bare = blank = scored = "text"
    id: Name = ""
    system: Name = ""
    text: AnyText
    label: Grade = UNLABELLED


class _Line(Item):
    model_config = ConfigDict(extra="allow")
    scored = "answers"
    id: Name = ""
    question: Text
    references: list[Reference] = Field(default_factory=list)
    partial_answers: Points = Field(default_factory=list)
    answers: Annotated[list[_Answer], Field(min_length=1)]


class Generation(Item):
    """A line of a file of answers, as DebateQA's scripts read it."""

    id: Name
    generation: AnyText


def read_answers(path: str | Path, questions: str | Path = "", *, keep: Collection[str] = ()) -> QuestionSet:
    """Read a file of answers: with questions in it, or in the released format beside a file of its
    questions.

    A line of JSON is `{"id": optional, "question": text, "references": optional, "partial_answers":
    optional, "answers": [...]}`. A partial answer is a text or `{"point_of_view", "explanation"}`.
    A reference is a text, best first, or `{"text", "grade"}`; an answer is a text or `{"text",
    "id", "system", "label"}`, of which the text alone must be there. Grades and labels are whole
    numbers from 0 to 3; null and NaN count as not given. A table (.csv, .tsv, or in Parquet or JSON
    lines) has one row per answer, as `gather_rows` takes it. An answer without an id is named by
    its system, NAME-1, NAME-2 ... where that wrote several. A field that resembles one of these is
    refused as misspelt; others are counted. References without grades get them by their place,
    spread evenly from 3 to 0 (`spread_grades`); graded ones are sorted, best first. An answer that
    says nothing stays, and is counted.

    Args: questions: "" where they are in the file of answers; keep: further fields that answers
        take along, as `Answer.extra`.
    Returns: named "own_answers", of origin "measured".
    Raises: ValueError naming file, line and field for what the shape doesn't allow, and for two
        lines with one id or one question, since one would hide the other.
    """
    path = Path(path)
    counts = Counter[str]()
    (whole,) = list(read_chunks(path, questions=questions, keep=keep, counts=counts)) or [_make_set([])]
    return _refuse_empty(replace(whole, warnings=dict(+counts)), keep, str(path), say_expected(path))


def read_chunks(
    path: Path,
    size: int | None = None,
    *,
    questions: str | Path = "",
    keep: Collection[str] = (),
    skipped: list[str] | None = None,
    counts: Counter[str],
) -> Iterator[QuestionSet]:
    """The questions of a file, `size` at a time or all at once, as `read_answers` reads them.

    Args: skipped: takes what is wrong with each line that is skipped; None to stop at the first.
        counts: takes what was corrected or is odd, by name, of the whole file at its end.
    """
    extra = Extra(counts, keep, skipped)
    refuse_stream(path)
    if questions:
        items, odd = join_questions(path, Path(questions))
        counts.update(odd)
        lines: Lines = ((number, str(path), item) for number, item in enumerate(items, start=1))
    else:
        lines = read_objects(path, extra)
    every = _make_questions(lines, extra, numbered=True)
    while chunk := list(islice(every, size)):
        yield _make_set(chunk)


def say_expected(path: Path) -> str:
    """What an error says was expected of a file that holds no answer."""
    return "one JSON object per line" if find_kind(path) == "lines" else "one answer per row"


def read_frames(
    answers: Table, references: Table | None = None, views: Table | None = None, *, keep: Collection[str] = ()
) -> QuestionSet:
    """The same from data frames, or lists of dictionaries: tidy ones, rows of a table, or objects
    of JSON lines.

    Args: answers: either question, text (of the answer), and answer (its id), system, grade where
        there are any; or the columns of a table; or the fields of JSON lines, "answers" among them.
        references: question, text, grade (optional, 0 to 3); views: question, text (or
        point_of_view, explanation); keep: as `read_answers`.
    Returns: a question is named by its text where it has no id.
    Raises: ValueError naming the frame, its row and the column that is missing or doesn't fit, with
        an example.
    """
    records = list_records(answers, "answers")
    extra = Extra(Counter(), keep)
    if not records:
        raise ValueError(f"answers: holds no row; expected rows such as {EXAMPLES['answers']}")
    lines: Lines = [(number, f"answers, row {number}", record) for number, record in enumerate(records, start=1)]
    columns = set().union(*records)
    is_table = "text" not in columns and bool(OF_TABLES & columns)
    beside = [name for name, frame in {"references": references, "views": views}.items() if frame is not None]
    if beside and (is_table or "answers" in columns):
        ways = "call the column of answers 'text', or put these into reference_1 ..., partial_answer_1 ..."
        raise ValueError(f"answers: {beside[0]}= is only read beside rows with a column 'text'; {ways}")
    if is_table:
        lines = gather_rows(lines, extra)
    elif "answers" not in columns:
        wrong = columns & {"answer_id", "references", "partial_answers"} | set(filter(NUMBERED.match, columns))
        if wrong:
            ways = "give references= and views=, or call the column of texts 'answer', as in a table"
            raise ValueError(f"answers: {min(wrong)!r} is not read beside 'text'; {ways}")
        lines = gather_frames(records, references, views, extra)
    whole = _make_set(_make_questions(lines, extra, numbered=False))
    expected = f"rows such as {EXAMPLES['answers']}"
    return _refuse_empty(replace(whole, warnings=dict(+extra.counts)), keep, "answers", expected)


def spread_grades(count: int) -> list[int]:
    """Grades of references that come best first without any: 3 (count - 1 - place) / (count - 1),
    halves upwards.

    Four references get 3, 2, 1, 0, and eight 3, 3, 2, 2, 1, 1, 0, 0: the lists of LINKAGE. A single
    one gets 3.
    """
    if count == 1:
        return [TOP_GRADE]
    return [(2 * TOP_GRADE * (count - 1 - place) + count - 1) // (2 * (count - 1)) for place in range(count)]


def _make_questions(lines: Lines, extra: Extra, *, numbered: bool) -> Iterator[Question]:
    """The questions of objects of JSON lines; `numbered`: named by their lines, else by their
    texts.
    """
    seen: dict[int, str] = {}
    for number, where, item in lines:
        name = f"line{number}" if numbered else ""
        of_line = replace(extra, counts=Counter[str]())  # what is odd about a line that is skipped doesn't count
        try:
            question = _make_question(name, where, item, of_line, seen)
        except ValueError as error:
            extra.skip(error)
        else:
            extra.counts.update(of_line.counts)
            yield question


def _make_set(questions: Iterable[Question]) -> QuestionSet:
    questions = tuple(questions)
    digest = hashlib.sha256(repr(questions).encode()).hexdigest()
    return QuestionSet(OWN, questions, "measured", digest)


def _refuse_empty(question_set: QuestionSet, keep: Collection[str], name: str, expected: str) -> QuestionSet:
    """The set, if an answer says something and has every field that is to be kept. Raises:
    ValueError otherwise.
    """
    answers = [answer for question in question_set.questions for answer in question.answers]
    if all(name_lack(answer.text) for answer in answers):
        why = "every answer is empty, so there is nothing to score" if answers else "holds no question"
        raise ValueError(f"{name}: {why}; expected {expected}")
    names = set[str]().union(*(answer.extra for answer in answers))
    if wrong := set(keep).difference(names - _TAKEN):
        what = "a column of scores or answers" if min(wrong) in _TAKEN & names else "no further column of any row"
        raise ValueError(f"keep names {min(wrong)!r}, which is {what}; mend its name, or rename the column")
    return question_set


def _make_question(name: str, where: str, item: dict[str, Any], extra: Extra, seen: dict[int, str]) -> Question:
    """The question of an object of JSON lines, called `name` or as its text where it has no id."""
    if set(item) == {"id", "generation"}:
        what = f"{where}: is an answer in the released scripts' format"
        raise ValueError(f"{what}; name the file of its questions too, as in `make score QUESTIONS=test.jsonl ...`")
    line = check(_Line, item, where, extra)
    counts = extra.counts
    identifier = line.id or name or line.question
    references = _make_references(where, line.references, counts)
    points = make_points(identifier, line.partial_answers, counts)
    refuse_repeats((answer.id for answer in line.answers if answer.id), f"{where}: the answers' id")
    refuse_twins(seen, where, {"id": identifier, "question": line.question})
    counts["repeated_answers"] += len(line.answers) - len({(each.system, each.text) for each in line.answers})
    answers = []
    lacks = Counter[str]()
    for identity, each in zip(_name_answers(line.answers, counts), line.answers, strict=True):
        further = (line.model_extra or {}) | (each.model_extra or {})
        lack = name_lack(each.text)
        lacks[lack] += 1
        text = "" if lack == "empty" else each.text
        answers.append(Answer(identity, text, each.label, each.system, further))
    for lack in LACKS:
        counts[f"{lack}_answers"] += lacks[lack]
    if not lacks[""]:
        counts["questions_without_answers"] += 1
    else:
        known = {reference.text for reference in references}
        counts["copies_of_a_reference"] += sum(answer.text in known for answer in answers)
        counts["questions_without_references"] += not references and not points
    return Question(line.question, tuple(answers), tuple(references), identifier, points)


def _name_answers(answers: Sequence[_Answer], counts: Counter[str]) -> list[str]:
    """Each answer's id, its system's name where none is given, with a number where another answer
    has that name too.
    """
    names = [answer.id or answer.system or f"a{place}" for place, answer in enumerate(answers, start=1)]
    times = Counter(names)
    taken = set(names)
    for place, (name, answer) in enumerate(zip(list(names), answers, strict=True)):
        if not answer.id and times[name] > 1:
            names[place] = next(one for number in count(1) if (one := f"{name}-{number}") not in taken)
            taken.add(names[place])
            counts["answers_without_ids_numbered"] += 1
    return names


def _make_references(where: str, items: Sequence[Reference], counts: Counter[str]) -> list[Answer]:
    texts = [reference.text for reference in items]
    grades = [reference.grade for reference in items]
    if UNLABELLED in grades:
        if len(set(grades)) > 1:
            place = grades.index(UNLABELLED)
            raise ValueError(f"{where}: references[{place}] has no grade while others have one; grade all or none")
        counts["questions_graded_by_place"] += 1
        grades = spread_grades(len(texts))
    counts["twin_references"] += len(texts) - len(set(texts))
    references = [Answer(f"r{i}", t, g) for i, (t, g) in enumerate(zip(texts, grades, strict=True), start=1)]
    ordered = sorted(references, key=lambda reference: -reference.label)
    counts["questions_with_references_sorted"] += ordered != references
    return ordered


def join_questions(path: Path, questions: Path) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Answers in the released scripts' format, `{"id", "generation"}` a line, put into the lines of
    their questions.

    Args: questions: in the shape of the released `test.jsonl`, `{"id", "question",
        "partial_answers"}` a line.
    Returns: objects of JSON lines, without questions that have no answer; and what was counted:
        those, answers to an id that is not there, and what was odd about the files and texts.
    Raises: as `read_answers`.
    """
    if find_kind(path) in ("table", "parquet"):
        raise ValueError(f"{path}: is a table, which holds its questions itself; unset QUESTIONS={questions}")
    refuse_stream(questions)
    counts = Counter[str]()
    debates = list(read_items(questions, Debate, counts, once="id", clean=True))
    refuse_repeats((debate.question for debate in debates), f"{questions}: the question")
    texts = {line.id: line.generation for line in read_items(path, Generation, counts, once="id", clean=True)}
    lines = [each.model_dump() | {"answers": [texts[each.id]]} for each in debates if each.id in texts]
    if not lines:
        raise ValueError(f"{path}: no answer belongs to a question of {questions}; check the ids")
    counts["questions_without_answer"] = len(debates) - len(lines)
    counts["answers_to_unknown_questions"] = len(texts) - len(lines)
    return lines, +counts
