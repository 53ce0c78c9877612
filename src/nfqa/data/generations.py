"""A system's answers in the released scripts' format, `{"id", "generation"}` a line, put to their questions."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from nfqa.data.debate_lines import check_fields, read_identifier, read_lines
from nfqa.data.debate_sets import parse_debates
from nfqa.data.json_lines import check_unicode, read_bytes, refuse
from nfqa.data.own_answers import Excluded, OwnAnswers, read_own_answers
from nfqa.data.records import Answer, Question, QuestionSet

UNKNOWN, MISSING, EMPTY = "answer to an unknown question", "no answer", "empty answer"


@dataclass(frozen=True)
class Exclusion:
    """Something that is not scored, and why: UNKNOWN, MISSING or EMPTY."""

    question: str
    reason: str


@dataclass(frozen=True)
class Generations:
    """Questions with one system's answers, and what was left out. `debates.irregularities` counts it by name:
    answers_to_unknown_questions, questions_without_answer, empty_answers.
    """

    debates: QuestionSet
    excluded: tuple[Exclusion, ...] = ()


def read_generations(path: Path, debates: QuestionSet, *, system: str = "") -> Generations:
    """Read a file of answers and put each to its question, by id; 7 and "7" are one id.

    An answer to an id that the set lacks, a question without an answer, and an empty answer are excluded, each named
    and counted. `system` is what the answers are called, "" for the file's name without its ending.
    Raises: ValueError naming file, line and field for a file cut short, bytes that are no UTF-8, a line of another
        shape, an id that stands twice, or a file none of whose answers belongs to the set or says anything.
    """
    counts: Counter[str] = Counter()
    lines: dict[str, int] = {}
    answers: dict[str, str] = {}
    for number, (where, item) in enumerate(read_lines(path, counts), start=1):
        check_fields(where, item, ("id", "generation"))
        identifier = read_identifier(where, item.get("id"))
        text = item.get("generation")
        if not isinstance(text, str):
            refuse(where, "generation", text, "a text")
        check_unicode(where, "generation", text)
        if identifier in answers:
            raise ValueError(
                f"{where}: the id {identifier!r} was answered before, by answer {lines[identifier]};"
                " keep one answer an id"
            )
        answers[identifier], lines[identifier] = text, number
    if not answers:
        raise ValueError(f"{path}: holds no answer; expected one {{id, generation}} object a line")
    name = system or path.stem
    questions: list[Question] = []
    excluded: list[Exclusion] = []
    for question in debates.questions:
        found = answers.pop(question.id, None)
        if found is None or not found.strip():
            excluded.append(Exclusion(question.id, MISSING if found is None else EMPTY))
        else:
            questions.append(replace(question, answers=(Answer(name, found, system=name),)))
    excluded += [Exclusion(identifier, UNKNOWN) for identifier in answers]
    reasons = Counter(exclusion.reason for exclusion in excluded)
    if not questions:
        said = ", ".join(f"{reason}: {count}" for reason, count in sorted(reasons.items()))
        raise ValueError(f"{path}: no answer belongs to a question of {debates.name} ({said}); check the ids")
    counts |= {"answers_to_unknown_questions": reasons[UNKNOWN], "questions_without_answer": reasons[MISSING]}
    counts["empty_answers"] = reasons[EMPTY]
    digest = hashlib.sha256(f"{debates.sha256} {hashlib.sha256(read_bytes(path)).hexdigest()}".encode()).hexdigest()
    irregular = dict(+(Counter(debates.irregularities) + counts))
    return Generations(
        replace(debates, questions=tuple(questions), sha256=digest, irregularities=irregular), tuple(excluded)
    )


def read_debateqa(path: Path, *, name: str = "own_debates") -> QuestionSet:
    """Questions in the shape of the released `test.jsonl`: `{"id", "question", "partial_answers"}` a line.

    Raises: ValueError naming file, line and field.
    """
    questions, counts = parse_debates(path, shape="debateqa")
    digest = hashlib.sha256(read_bytes(path)).hexdigest()
    return QuestionSet(name, tuple(questions), "measured", digest, dict(+counts))


def bring_file(
    path: Path, questions: Path | None, *, name: str = "own_answers", origin: str = "measured"
) -> OwnAnswers:
    """A user's answers: a file with questions in it, or one in the released format beside a file of its questions.

    Raises: ValueError as `read_own_answers`, `read_generations` and `read_debateqa`, and for two questions with one
        text, since the first would hide the second.
    """
    if questions is None:
        return read_own_answers(path, name=name, origin=origin)
    found = read_generations(path, read_debateqa(questions), system="")
    debates = found.debates.questions
    twin = next((text for text, count in Counter(q.text for q in debates).items() if count > 1), None)
    if twin is not None:
        raise ValueError(f"{questions}: two questions have the text {twin!r:.80}; keep one of them")
    dataset = QuestionSet(
        name,
        tuple(replace(q, answers=(Answer("a1", q.answers[0].text),)) for q in debates),
        origin,
        found.debates.sha256,
        found.debates.irregularities,
    )
    excluded = tuple(Excluded(each.question, "", each.reason) for each in found.excluded)
    return OwnAnswers(dataset, excluded)
