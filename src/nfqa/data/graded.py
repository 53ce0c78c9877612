"""Readers of graded datasets, as upstream wrote them: passages with grades, and generated answers with references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from nfqa.data.json_lines import Item, Name, Text, check, read_json
from nfqa.data.records import Answer, Question

LABELS = 4  # the graded datasets have four grades; the common scale is 0 (worst) to 3


def _shift(label: int, given: ValidationInfo) -> int:
    """A label of the file on the common scale."""
    lowest: int = (given.context or {})["lowest"]
    if not lowest <= label < lowest + LABELS:
        raise ValueError(f"expected {lowest} to {lowest + LABELS - 1}")
    return label - lowest


Label = Annotated[int, AfterValidator(_shift)]


class _Passage(Item):
    doc_id: Name = ""  # spelt in two ways
    docid: Name = ""
    passage: Text
    label: Label

    @model_validator(mode="after")
    def _need_one_id(self) -> _Passage:
        if bool(self.doc_id) == bool(self.docid):
            raise ValueError("expected one of doc_id and docid")
        return self


class _Generated(Item):
    answer: Text
    model: Name
    label: Label


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
    content = check(Passages, read_json(path), str(path), lowest=lowest_label)
    return [
        Question(text, tuple(Answer(p.doc_id or p.docid, p.passage, p.label) for p in passages))
        for text, passages in content.items()
    ]


def read_generated(path: Path, lowest_label: int) -> list[Question]:
    """A file of answers by models, `{question: {doc_list: [{answer, model, label}], ground0: text, ...}}`.

    Raises: ValueError naming file, question, place and field.
    """
    questions = []
    for text, body in check(Bodies, read_json(path), str(path), lowest=lowest_label).items():
        answers = tuple(Answer(a.model, a.answer, a.label, a.model) for a in body.doc_list)
        grounds = (body.ground3, body.ground2, body.ground1, body.ground0)  # best first
        references = tuple(Answer(f"ground{3 - i}", ground, 3 - i) for i, ground in enumerate(grounds))
        questions.append(Question(text, answers, references))
    return questions
