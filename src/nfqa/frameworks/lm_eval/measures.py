"""What the task nfqa_debatable of lm-evaluation-harness calls: its questions, and the scores of a model's answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset

from nfqa.frameworks import score_answer


def load_questions(*, questions: str, evaluator: str = "embedded:small", **_: Any) -> dict[str, Dataset]:
    """The questions of a file of JSON lines, each with `question` and `partial_answers`, as the split "test".

    Arguments come from the harness's `--metadata`; those of its own are passed over.
    """
    texts = filter(str.strip, Path(questions).read_text(encoding="utf-8").splitlines())
    rows = [{"question": json.loads(text)["question"], "line": text, "evaluator": evaluator} for text in texts]
    return {"test": Dataset.from_list(rows)}


def score(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    """P.D. and D.A. of a model's answer; NaN where it has none."""
    asked = doc["question"], results[0], json.loads(doc["line"])
    diversity, _ = score_answer("perspective_diversity", *asked, evaluator=doc["evaluator"])
    return {"perspective_diversity": diversity, "dispute_awareness": score_answer("dispute_awareness", *asked)[0]}
