"""Readers of graded and of debatable questions, as upstream wrote them: what is excluded or odd is
counted by name.

A file that is pinned by its hash, or bundled with us, is read as it is; of a shape that users may
bring it is checked.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from nfqa.files.json_lines import read_json, read_lines
from nfqa.files.records import Answer, PartialAnswer, Question, Rating

_STANCES = {"Option 1": "for", "Option 2": "against", "Neutral": ""}
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def read_demo(path: Path, _: Counter[str]) -> Iterator[Question]:
    """`{id, generation}` a line: the answers of one system to questions whose text isn't given."""
    for line in read_lines(path.read_bytes()):
        yield Question("", _make_answers({"demo": line["generation"]}), id=str(line["id"]))


def read_debatewise(path: Path, counts: Counter[str]) -> Iterator[Question]:
    """A list of claims with perspectives for and against; one without a title or an argument is
    excluded.
    """
    for place, claim in enumerate(read_json(path)):
        points: list[PartialAnswer] = []
        sides = {"for": claim["perspectives_for"], "against": claim["perspectives_against"]}
        for stance, perspective in ((stance, each) for stance, side in sides.items() for each in side):
            view = _clean(perspective["perspective_title"])
            explanation = _clean(" ".join(perspective["argument"]["description"]))
            if not view or not explanation:
                counts["perspectives_without_text"] += 1
                continue
            point = PartialAnswer(f"{place}.{len(points) + 1}", view, explanation, stance)
            counts["repeated_perspectives"] += point.text in {other.text for other in points}
            points.append(point)
        if points:
            yield Question(_clean(claim["claim_title"]), id=str(place), partial_answers=tuple(points))
        else:
            counts["claims_without_perspectives"] += 1


def _clean(text: str) -> str:
    """The text without tags, its runs of white space one blank each."""
    return " ".join(_TAG.sub(" ", text).split())


def read_ratings(path: Path, counts: Counter[str]) -> Iterator[Question]:
    """A file made by `reproduction.data.gather`: one line per question, then one line per person,
    known by a number.

    A person's own view becomes a partial answer, QUESTION.PERSON, which that person's ratings are
    about; what a person rated without writing a view is excluded and counted.
    """
    lines = read_lines(path.read_bytes())
    questions = [line for line in lines if "question" in line]
    answers = {str(line["question"]): dict(sorted(line["answers"].items())) for line in questions}
    views: dict[str, list[PartialAnswer]] = defaultdict(list)
    ratings: dict[str, list[Rating]] = defaultdict(list)
    for person in (line for line in lines if "annotator" in line):
        for name in sorted({*person["views"], *person["ratings"]}):
            by_system = person["ratings"].get(name, {})
            text = person["views"].get(name, "")
            if not text.strip():
                counts["views_missing"] += 1
                counts["ratings_without_a_view"] += len(by_system)
                continue
            stance = _STANCES[person["choices"].get(name, "Neutral")]
            view = PartialAnswer(f"{name}.{person['annotator']}", text, stance=stance)
            views[name].append(view)
            ratings[name] += [Rating(person["annotator"], view.id, *rating) for rating in sorted(by_system.items())]
            counts["ratings_missing"] += len(answers[name]) - len(by_system)
    for line, (name, texts) in zip(questions, answers.items(), strict=True):
        yield Question(line["text"], _make_answers(texts), (), name, tuple(views[name]), tuple(ratings[name]))


def _make_answers(texts: dict[str, str]) -> tuple[Answer, ...]:
    return tuple(Answer(system, text, system=system) for system, text in texts.items())


def read_graded(path: Path, lowest_label: int) -> Iterator[Question]:
    """Graded passages by question, `{question: [{doc_id or docid, passage, label}]}`, labels from
    `lowest_label`.
    """
    for text, passages in read_json(path).items():
        pairs = ((str(passage.get("doc_id", passage.get("docid"))), passage) for passage in passages)
        answers = (Answer(name, passage["passage"], passage["label"] - lowest_label) for name, passage in pairs)
        yield Question(text, tuple(answers))


def read_generated(path: Path, lowest_label: int) -> Iterator[Question]:
    """Answers by models, `{question: {doc_list: [{answer, model, label}], ground0: text, ...}}`;
    ground3 is the best.

    The ground4 of a few questions is no grade, and is excluded.
    """
    for text, body in read_json(path).items():
        answers = (Answer(a["model"], a["answer"], a["label"] - lowest_label, a["model"]) for a in body["doc_list"])
        references = (Answer(f"ground{grade}", body[f"ground{grade}"], grade) for grade in (3, 2, 1, 0))
        yield Question(text, tuple(answers), tuple(references))
