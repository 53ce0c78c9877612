"""What the task nfqa_debatable of lm-evaluation-harness calls: its questions, and the scores of a
model's answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from datasets import Dataset

from nfqa.files.debateqa import read_debateqa
from nfqa.frameworks import score_answer
from nfqa.functions import EVALUATOR
from nfqa.models.roles import find_package_file
from nfqa.opening import refuse_vectors_for_awareness


def load_questions(
    *, questions: str = "", evaluator: str = EVALUATOR, judge: str = "", **others: Any
) -> dict[str, Dataset]:
    """A file of questions as DebateQA releases them, as the split "test".

    Arguments come from the harness's `--metadata`; those of its own are passed over.
    Raises: ValueError where no file is named, naming file, line and field for what doesn't fit,
        where an embedded judge is named, or where SmolLM2 is to score and is not installed.
    """
    if "reader" in others:
        raise ValueError("the metadata name a reader; what reads answers is called judge")
    if not questions:
        raise ValueError("""name the questions, as in --metadata '{"questions": "debates.jsonl"}'""")
    refuse_vectors_for_awareness(judge)
    if EVALUATOR in (evaluator, judge or EVALUATOR):
        find_package_file(EVALUATOR.partition(":")[2])  # before a model answers anything
    debates = list(read_debateqa(Path(questions), Counter()))
    if not debates:
        raise ValueError(f"{questions}: holds no question; expected DebateQA's lines, as test.jsonl")
    rows = [{"question": q.text, "views": [view.text for view in q.partial_answers]} for q in debates]
    return {"test": Dataset.from_list([row | {"evaluator": evaluator, "judge": judge} for row in rows])}


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Coverage, P.D. and D.A. of a model's answer, those that it has."""
    pair = (doc["question"], results[0])
    metadata = {"partial_answers": doc["views"]}
    scores = {
        "coverage": score_answer("coverage", *pair, metadata, judge=doc["judge"])[0],
        "perspective_diversity": score_answer("perspective_diversity", *pair, metadata, evaluator=doc["evaluator"])[0],
        "dispute_awareness": score_answer("dispute_awareness", *pair, metadata, judge=doc["judge"])[0],
    }
    return {name: value for name, value in scores.items() if isfinite(value)}
