"""Readers of graded datasets, as upstream wrote them: passages with grades, and generated answers with references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field

from nfqa.data.json_lines import Item, LooseItem, Name, Text, check, read_json
from nfqa.data.records import Answer, Question

GRADES = 4  # the graded datasets have four grades; the common scale is 0 (worst) to 3


class _Passage(LooseItem):
    id: Annotated[Name, Field(validation_alias=AliasChoices("doc_id", "docid"))]  # spelt in two ways
    passage: Text
    label: int


class _Generated(Item):
    answer: Text
    model: Name
    label: int


class _Body(Item):
    doc_list: Annotated[list[_Generated], Field(min_length=1)]
    ground0: Text
    ground1: Text
    ground2: Text
    ground3: Text
    ground4: Text = ""  # in a few questions; it is no grade


Passages = Annotated[dict[Text, Annotated[list[_Passage], Field(min_length=1)]], Field(min_length=1)]
Bodies = Annotated[dict[Text, _Body], Field(min_length=1)]


def read_graded(path: Path, lowest_label: int) -> list[Question]:
    """A file of graded passages by question, `{question: [{doc_id, passage, label}]}`, labels from `lowest_label`.

    Raises: ValueError naming file, question, place and field.
    """
    content = check(Passages, read_json(path), str(path))
    return [
        Question(text, tuple(Answer(p.id, p.passage, _grade(path, text, p.label, lowest_label)) for p in passages))
        for text, passages in content.items()
    ]


def read_generated(path: Path, lowest_label: int) -> list[Question]:
    """A file of answers by models, `{question: {doc_list: [{answer, model, label}], ground0: text, ...}}`.

    Raises: ValueError naming file, question, place and field.
    """
    questions = []
    for text, body in check(Bodies, read_json(path), str(path)).items():
        grades = [_grade(path, text, given.label, lowest_label) for given in body.doc_list]
        answers = [Answer(a.model, a.answer, grade, a.model) for a, grade in zip(body.doc_list, grades, strict=True)]
        grounds = (body.ground3, body.ground2, body.ground1, body.ground0)  # best first
        references = tuple(Answer(f"ground{3 - i}", ground, 3 - i) for i, ground in enumerate(grounds))
        questions.append(Question(text, tuple(answers), references))
    return questions


def _grade(path: Path, question: str, label: int, lowest: int) -> int:
    """A label of the file on the common scale."""
    if not lowest <= label < lowest + GRADES:
        raise ValueError(f"{path}: {question!r:.60}: label is {label}; expected {lowest} to {lowest + GRADES - 1}")
    return label - lowest
