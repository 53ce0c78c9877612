"""A user's own answers, from a file or from frames: all is checked by one set of models, refused or counted.

JSON lines, tables and frames all become the objects of JSON lines, which are checked and made into a `QuestionSet`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from nfqa.files.json_lines import (
    AnyText,
    Extra,
    Item,
    Name,
    Text,
    check,
    read_items,
    refuse_repeats,
    refuse_twin,
)
from nfqa.files.parts import Part, find_kind, read_objects
from nfqa.files.paths import hash_file
from nfqa.files.readers import Points, make_points, read_debateqa
from nfqa.files.records import UNLABELLED, Answer, Excluded, Question, QuestionSet
from nfqa.files.tables import (
    EXAMPLES,
    OF_TABLES,
    SAMPLE,
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
LACKS = {"empty": "empty answer", "only_thinking": "thinking without an answer"}  # why an answer is left out
_TAKEN = {  # columns of answers, and those that the functions which score them write beside these
    "dataset", "text", "grade", "metric", "score", "rank", "probability", "missing", "guarded", "note", "signature",
    "view", "point_of_view", "evaluator", "cache", "variant", "training", "judge", "method",
}  # fmt: skip


class _Answer(Item):
    model_config = ConfigDict(extra="allow")
    bare = blank = "text"
    id: Name = ""
    system: Name = ""
    text: AnyText
    label: Grade = UNLABELLED


class _Line(Item):
    model_config = ConfigDict(extra="allow")
    id: Name = ""
    question: Text
    references: list[Reference] = Field(default_factory=list)
    partial_answers: Points = Field(default_factory=list)
    answers: Annotated[list[_Answer], Field(min_length=1)]


class Generation(Item):
    """A line of a file of answers, as DebateQA's scripts read it."""

    id: Name
    generation: AnyText


def read_answers(
    path: str | Path, questions: str | Path = "", *, data: str = "full", keep: Collection[str] = ()
) -> QuestionSet:
    """Read a file of answers: with questions in it, or in the released format beside a file of its questions.

    A line of JSON is `{"id": optional, "question": text, "references": optional, "partial_answers": optional,
    "answers": [...]}`. A partial answer is a text or `{"point_of_view", "explanation"}`. A reference is a text, best
    first, or `{"text", "grade"}`; an answer is a text or `{"text", "id", "system", "label"}`, of which the text alone
    must be there. Grades and labels are whole numbers from 0 to 3; null and NaN count as not given. A table (.csv,
    .tsv, or in Parquet or JSON lines) has an answer a row, as `gather_rows` takes it. An answer without an id is named
    by its system, NAME-1, NAME-2 ... where that wrote several. A field that resembles one of these is refused as
    misspelt; others are counted. References without grades get them by their place, spread evenly from 3 to 0
    (`spread_grades`); graded ones are sorted, best first. An empty answer is excluded; a question whose answers are all
    empty goes with them.

    Args: path: "" for the bundled example; questions: "" where they are in the file of answers; data: "sample" where
        what judges learn from is a bundled stand-in; keep: further fields that answers take along, as `Answer.extra`.
    Returns: named "own_answers", of origin "measured"; the example is "sample_own_answers", and a sample.
    Raises: ValueError naming file, line and field for what the shape doesn't allow, and for two lines with one id or
        one question, since one would hide the other.
    """
    if questions and not path:
        raise ValueError(f"questions is {str(questions)!r}, but no file of answers is named")
    name, origin = (OWN, "measured" if data == "full" else "sample") if path else (f"sample_{OWN}", "sample")
    path = Path(path or SAMPLE / "answers.jsonl")
    kind = find_kind(path)
    if questions and kind in ("table", "parquet"):
        raise ValueError(f"{path}: is a table, which holds its questions itself; leave out QUESTIONS={questions}")
    if questions:
        return _read_generations(path, Path(questions), name, origin)
    extra = Extra(Counter(), keep)
    made = _make_set(read_objects(path, extra), extra, QuestionSet(name, (), origin, hash_file(path)), named=True)
    return _refuse_empty(made, extra, str(path), "one JSON object a line" if kind == "lines" else "one answer a row")


def read_frames(
    answers: Table, references: Table | None = None, views: Table | None = None, *, keep: Collection[str] = ()
) -> QuestionSet:
    """The same from data frames, or lists of dictionaries: tidy ones, rows of a table, or objects of JSON lines.

    Args: answers: either question, text (of the answer), and answer (its id), system, grade where there are any; or
        the columns of a table; or the fields of JSON lines, "answers" among them. references: question, text, grade
        (optional, 0 to 3); views: question, text (or point_of_view, explanation); keep: as `read_answers`.
    Returns: a question is named by its text where it has no id.
    Raises: ValueError naming the frame, its row and the column that is missing or doesn't fit, with an example.
    """
    records, extra = list_records(answers, "answers"), Extra(Counter(), keep)
    if not records:
        raise ValueError(f"answers: holds no row; expected rows such as {EXAMPLES['answers']}")
    lines: Lines = [(number, f"answers, row {number}", record) for number, record in enumerate(records, start=1)]
    columns = set().union(*records)
    if "text" not in columns and OF_TABLES & columns:
        lines = gather_rows(lines, extra)
    elif "answers" not in columns:
        if wrong := columns & {"reference_1", "references", "partial_answer_1", "partial_answers"}:
            ways = "give references= and views=, or call the column of texts 'answer', as in a table"
            raise ValueError(f"answers: {min(wrong)!r} is not read beside 'text'; {ways}")
        lines = gather_frames(records, references, views, extra)
    made = _make_set(lines, extra, QuestionSet(OWN, (), "measured", ""), named=False)
    return _refuse_empty(made, extra, "answers", f"rows such as {EXAMPLES['answers']}")


def list_lines(answered: QuestionSet) -> list[dict[str, Any]]:
    """The questions with their points of view and answers as objects of JSON lines."""
    lines: list[dict[str, Any]] = []
    for question in answered.questions:
        views = [{"point_of_view": v.point_of_view, "explanation": v.explanation} for v in question.partial_answers]
        answers = [{"id": answer.id, "text": answer.text} for answer in question.answers]
        lines.append({"id": question.id, "question": question.text, "partial_answers": views, "answers": answers})
    return lines


def spread_grades(count: int) -> list[int]:
    """Grades of references that come best first without any: 3 (count - 1 - place) / (count - 1), halves upwards.

    Four references get 3, 2, 1, 0, and eight 3, 3, 2, 2, 1, 1, 0, 0: the lists of LINKAGE. A single one gets 3.
    """
    if count == 1:
        return [TOP_GRADE]
    return [(2 * TOP_GRADE * (count - 1 - place) + count - 1) // (2 * (count - 1)) for place in range(count)]


def read_part(path: Path, part: Part, skipped: list[str] | None = None) -> QuestionSet:
    """The questions of one part of a large file, as `read_answers` reads them.

    Args: skipped: takes what is wrong with each line that is left out; None to stop at the first.
    Returns: no question where every line was left out. Ids are told apart within the part alone.
    """
    extra = Extra(Counter(), skipped=skipped)
    return _make_set(read_objects(path, extra, part), extra, QuestionSet(OWN, (), "measured", part.digest), named=True)


def _make_set(lines: Lines, extra: Extra, empty: QuestionSet, *, named: bool) -> QuestionSet:
    """The empty set filled with the questions of objects of JSON lines; `named` by their numbers, or by their texts."""
    questions: list[Question] = []
    excluded: list[Excluded] = []
    seen: dict[tuple[str, str], str] = {}
    for number, where, item in lines:
        try:
            made, left_out = _make_question(f"line{number}" if named else "", where, item, extra, seen)
        except ValueError as error:
            extra.skip(error)
        else:
            excluded += left_out
            questions += [made] if made.answers else []
    return replace(empty, questions=tuple(questions), irregularities=dict(+extra.counts), excluded=tuple(excluded))


def _refuse_empty(made: QuestionSet, extra: Extra, name: str, expected: str) -> QuestionSet:
    """The set, if it holds a question and every field that is to be kept. Raises: ValueError where it doesn't."""
    if not made.questions:
        why = "every answer is empty, so there is nothing to score" if made.excluded else "holds no question"
        raise ValueError(f"{name}: {why}; expected {expected}")
    names = set[str]().union(*(answer.extra for question in made.questions for answer in question.answers))
    if wrong := set(extra.keep).difference(names - _TAKEN):
        what = "a column of scores or answers" if min(wrong) in _TAKEN & names else "no further column of any row"
        raise ValueError(f"keep names {min(wrong)!r}, which is {what}; mend its name, or rename the column")
    return made


def _make_question(
    name: str, where: str, item: dict[str, Any], extra: Extra, seen: dict[tuple[str, str], str]
) -> tuple[Question, list[Excluded]]:
    """The question of an object of JSON lines, called `name` or as its text where it has no id; what it leaves out."""
    if set(item) == {"id", "generation"}:
        what = f"{where}: is an answer in the released scripts' format"
        raise ValueError(f"{what}; name the file of its questions too, as in `make score QUESTIONS=test.jsonl ...`")
    line, counts = check(_Line, item, where, extra), extra.counts
    identifier = line.id or name or line.question
    references = _make_references(where, line.references, counts)
    points = make_points(identifier, line.partial_answers, counts)
    refuse_repeats((answer.id for answer in line.answers if answer.id), f"{where}: the answers' id")
    for field, value in (("id", identifier), ("question", line.question)):
        refuse_twin(seen, where, field, value)
    answers, excluded = list[Answer](), list[Excluded]()
    for identity, each in zip(_name_answers(line.answers, counts), line.answers, strict=True):
        if lack := name_lack(each.text):
            counts[f"{lack}_answers"] += 1
            excluded.append(Excluded(identifier, identity, LACKS[lack], each.system))
        else:
            further = (line.model_extra or {}) | (each.model_extra or {})
            answers.append(Answer(identity, each.text, each.label, each.system, further))
    if not answers:
        counts["questions_without_answers"] += 1
        excluded.append(Excluded(identifier, "", "every answer is empty"))
    else:
        counts["copies_of_a_reference"] += sum(a.text in {r.text for r in references} for a in answers)
        counts["questions_without_references"] += not references and not points
    return Question(line.question, tuple(answers), tuple(references), identifier, points), excluded


def _name_answers(answers: Sequence[_Answer], counts: Counter[str]) -> list[str]:
    """Each answer's id, its system's name where none is given, with a number where another answer has that name too."""
    names = [answer.id or answer.system or f"a{place}" for place, answer in enumerate(answers, start=1)]
    times, taken = Counter(names), set(names)
    for place, (name, answer) in enumerate(zip(list(names), answers, strict=True)):
        if not answer.id and times[name] > 1:
            names[place] = next(one for number in count(1) if (one := f"{name}-{number}") not in taken)
            taken.add(names[place])
            counts["answers_without_ids_numbered"] += 1
    return names


def _make_references(where: str, given: Sequence[Reference], counts: Counter[str]) -> list[Answer]:
    texts, grades = [reference.text for reference in given], [reference.grade for reference in given]
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


def _read_generations(path: Path, questions: Path, name: str, origin: str) -> QuestionSet:
    """Read answers in the released scripts' format, `{"id", "generation"}` a line, and put each to its question by id.

    `questions` is in the shape of the released `test.jsonl`, `{"id", "question", "partial_answers"}` a line. An answer
    to an id that is not there, a question without an answer, and an empty answer are excluded, each named and counted.
    """
    asked_counts: Counter[str] = Counter()
    asked = list(read_debateqa(questions, asked_counts, clean=True))
    refuse_repeats((question.text for question in asked), f"{questions}: the question")
    counts: Counter[str] = Counter()
    found = {line.id: line.generation for line in read_items(path, Generation, counts, once="id", clean=True)}
    lacks = {question.id: name_lack(found[question.id]) if question.id in found else "no" for question in asked}
    reasons = {identifier: LACKS.get(lack, "no answer") for identifier, lack in lacks.items() if lack}
    answered = tuple(replace(q, answers=(Answer("a1", found[q.id]),)) for q in asked if q.id not in reasons)
    known = {question.id for question in asked}
    reasons |= {identifier: "answer to an unknown question" for identifier in found if identifier not in known}
    times = Counter(reasons.values())
    if not answered:
        said = ", ".join(f"{reason}: {number}" for reason, number in sorted(times.items()))
        raise ValueError(f"{path}: no answer belongs to a question of {questions} ({said}); check the ids")
    counts += asked_counts
    counts["answers_to_unknown_questions"] = times["answer to an unknown question"]
    counts["questions_without_answer"] = times["no answer"]
    counts.update({f"{lack}_answers": times[reason] for lack, reason in LACKS.items()})
    excluded = tuple(Excluded(identifier, "", reason) for identifier, reason in reasons.items())
    digest = hashlib.sha256(f"{hash_file(questions)} {hash_file(path)}".encode()).hexdigest()
    return QuestionSet(name, answered, origin, digest, dict(+counts), excluded)
