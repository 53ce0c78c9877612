"""Readers of debatable questions: from the files as upstream wrote them, every irregularity refused or counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nfqa.data.debate_lines import check_fields, clean_text, read_identifier, read_lines, read_points, read_text
from nfqa.data.records import Answer, PartialAnswer, Question, Rating

SHAPES = ("debate_demo", "debateqa", "debatewise", "debate_ratings", "debate_systems", "debate_povs")
OFF_TOPIC = ("55", "567", "615", "1210", "1818")  # of dev_povs: points of view of another question, at their source
_STANCES = {"Option 1": "for", "Option 2": "against", "Neutral": ""}


def parse_debates(path: Path, *, shape: str) -> tuple[list[Question], Counter[str]]:
    """Read a file of one of the SHAPES; returns its questions, and counts by name of what was left out.

    Raises: ValueError naming file, line or item, and field.
    """
    readers: dict[str, Callable[[Path, Counter[str]], Iterator[Question]]] = {
        "debate_demo": _read_demo, "debateqa": _read_debateqa, "debatewise": _read_debatewise,
        "debate_ratings": _read_ratings, "debate_systems": _read_systems, "debate_povs": _read_povs,
    }  # fmt: skip
    if shape not in readers:
        raise ValueError(f"{path}: unknown shape {shape!r} in data/registry.yml; known: {', '.join(readers)}")
    counts: Counter[str] = Counter()
    questions = list(readers[shape](path, counts))
    if not questions:
        raise ValueError(f"{path}: holds no question; fetch it again")
    twin = next((i for i, n in Counter(question.id for question in questions).items() if n > 1), None)
    if twin is not None:
        raise ValueError(f"{path}: the id {twin!r} stands twice; give each question an id of its own")
    return questions, counts


def _read_demo(path: Path, counts: Counter[str]) -> Iterator[Question]:
    for where, item in read_lines(path, counts):
        check_fields(where, item, ("generation", "id"))
        answer = read_text(where, "generation", item.get("generation"))
        yield Question("", (_make_answer("demo", answer),), id=read_identifier(where, item.get("id")))


def _read_debateqa(path: Path, counts: Counter[str]) -> Iterator[Question]:
    for where, item in read_lines(path, counts):
        check_fields(where, item, ("id", "question", "partial_answers"))
        identifier = read_identifier(where, item.get("id"))
        text = read_text(where, "question", item.get("question"))
        points = read_points(where, identifier, item.get("partial_answers"), counts)
        yield Question(text, id=identifier, partial_answers=points)


def _read_debatewise(path: Path, counts: Counter[str]) -> Iterator[Question]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a JSON file ({error}); fetch it again") from None
    if not isinstance(content, list):
        raise ValueError(f"{path}: found {type(content).__name__}; expected a list of claims")
    for place, claim in enumerate(content):
        where = f"{path}: claim {place}"
        if not isinstance(claim, dict):
            raise ValueError(f"{where}: found {type(claim).__name__}; expected an object")
        text = clean_text(read_text(where, "claim_title", claim.get("claim_title")))
        points: list[PartialAnswer] = []
        for stance in ("for", "against"):
            items = claim.get(f"perspectives_{stance}")
            if not isinstance(items, list):
                raise ValueError(f"{where}: perspectives_{stance} is missing; expected a list")
            for number, item in enumerate(items):
                point = _read_perspective(f"{where}, perspectives_{stance}[{number}]", item)
                if not point.point_of_view or not point.explanation:
                    counts["perspectives_without_text"] += 1
                else:
                    counts["repeated_perspectives"] += point.text in {other.text for other in points}
                    identifier = f"{place}.{len(points) + 1}"
                    points.append(PartialAnswer(identifier, point.point_of_view, point.explanation, stance))
        if points:
            yield Question(text, id=str(place), partial_answers=tuple(points))
        else:
            counts["claims_without_perspectives"] += 1


def _read_perspective(where: str, item: Any) -> PartialAnswer:
    argument = item.get("argument") if isinstance(item, dict) else None
    title = item.get("perspective_title") if isinstance(item, dict) else None
    parts = argument.get("description") if isinstance(argument, dict) else None
    if not isinstance(title, str) or not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{where}: expected perspective_title, a text, and argument.description, a list of texts")
    return PartialAnswer("", clean_text(title), clean_text(" ".join(parts)))


def _read_ratings(path: Path, counts: Counter[str]) -> Iterator[Question]:
    """A file made by `nfqa.data.gather`: lines of questions, then lines of annotators."""
    questions: dict[str, tuple[str, dict[str, str]]] = {}
    views: dict[str, list[PartialAnswer]] = {}
    ratings: dict[str, list[Rating]] = {}
    for where, item in read_lines(path, counts):
        if "question" in item:
            check_fields(where, item, ("question", "text", "answers"))
            identifier = read_identifier(where, item["question"])
            questions[identifier] = (read_text(where, "text", item.get("text")), dict(item.get("answers") or {}))
            views[identifier], ratings[identifier] = [], []
            continue
        check_fields(where, item, ("annotator", "views", "choices", "ratings"))
        person = read_identifier(where, item.get("annotator"), "annotator")
        for identifier in sorted({*item["views"], *item["ratings"]}, key=lambda text: (len(text), text)):
            if identifier not in questions:
                raise ValueError(f"{where}: question {identifier} is not among the questions of the file")
            given = item["ratings"].get(identifier, {})
            text = item["views"].get(identifier, "")
            if not text.strip():
                counts["views_missing"] += 1
                counts["ratings_without_a_view"] += len(given)
                continue
            stance = _STANCES.get(item["choices"].get(identifier, "Neutral"), "")
            view = PartialAnswer(f"{identifier}.{person}", text, stance=stance)
            views[identifier].append(view)
            ratings[identifier] += [Rating(person, view.id, system, value) for system, value in sorted(given.items())]
            counts["ratings_missing"] += len(set(questions[identifier][1]) - set(given))
    for identifier, (text, answers) in questions.items():
        given = tuple(_make_answer(system, answer) for system, answer in sorted(answers.items()))
        unknown = {rating.system for rating in ratings[identifier]} - set(answers)
        if unknown:
            raise ValueError(f"{path}: question {identifier} has ratings of {sorted(unknown)[0]}, which has no answer")
        yield Question(text, given, (), identifier, tuple(views[identifier]), tuple(ratings[identifier]))


def _read_systems(path: Path, counts: Counter[str]) -> Iterator[Question]:
    for place, (where, item) in enumerate(read_lines(path, counts)):
        answers = item.get("answers")
        if not isinstance(answers, dict) or not answers:
            raise ValueError(f"{where}: answers is {answers!r:.40}; expected an object of texts by system")
        given = (_make_answer(name, read_text(where, f"answers.{name}", text)) for name, text in answers.items())
        yield Question(read_text(where, "question", item.get("question")), tuple(given), id=str(place))


def _read_povs(path: Path, counts: Counter[str]) -> Iterator[Question]:
    for where, item in read_lines(path, counts):
        identifier = read_identifier(where, item.get("dev_index"), "dev_index")
        points = read_points(where, identifier, item.get("points_of_view"), counts)
        if identifier in OFF_TOPIC:
            counts["questions_off_topic"] += 1
            continue
        yield Question(read_text(where, "question", item.get("question")), id=identifier, partial_answers=points)


def _make_answer(system: str, text: str) -> Answer:
    return Answer(system, text, system=system)
