"""Readers of graded datasets, as upstream wrote them: passages with grades, and generated answers with references.

Each file is pinned by its hash in data/registry.yml or bundled with us, and is read as it is.
"""

from __future__ import annotations

from pathlib import Path

from nfqa.data.json_lines import read_json
from nfqa.data.records import Answer, Question


def read_graded(path: Path, lowest_label: int) -> list[Question]:
    """Graded passages by question, `{question: [{doc_id or docid, passage, label}]}`, labels from `lowest_label`."""
    questions = []
    for text, passages in read_json(path).items():
        named = ((str(passage.get("doc_id", passage.get("docid"))), passage) for passage in passages)
        answers = (Answer(name, passage["passage"], passage["label"] - lowest_label) for name, passage in named)
        questions.append(Question(text, tuple(answers)))
    return questions


def read_generated(path: Path, lowest_label: int) -> list[Question]:
    """Answers by models, `{question: {doc_list: [{answer, model, label}], ground0: text, ...}}`; ground3 is the best.

    The ground4 of a few questions is no grade, and is left out.
    """
    questions = []
    for text, body in read_json(path).items():
        answers = (Answer(a["model"], a["answer"], a["label"] - lowest_label, a["model"]) for a in body["doc_list"])
        references = (Answer(f"ground{grade}", body[f"ground{grade}"], grade) for grade in (3, 2, 1, 0))
        questions.append(Question(text, tuple(answers), tuple(references)))
    return questions
