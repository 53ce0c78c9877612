"""Sets beyond the papers whose texts people graded or ranked: gathered into one line a text, and
read as graded.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from nfqa.files.json_lines import read_lines
from nfqa.files.records import Answer, Question

Rows = Iterable[dict[str, Any]]
_QUALITIES = ("Logical Quality", "Rhetorical Quality", "Dialectical Quality")


def gather_arguments(files: Sequence[Path]) -> Rows:
    """SIGIR-19: arguments on a query; the grade is the mean of three qualities from 1 to 4,
    rounded, less 1.

    What is no argument, -2 upstream, has grade 0.
    """
    arguments, topics = files
    queries = {row["Topic ID"]: row["Query"] for row in _read_table(topics)}
    for row in _read_table(arguments):
        label = max(0, round(sum(float(row[quality]) for quality in _QUALITIES) / 3 - 1))
        name = "-".join(row[key] for key in ("Topic ID", "Discussion ID", "Argument ID"))
        yield {"question": queries[row["Topic ID"]], "id": name, "text": row["Premise"], "label": label}


def gather_convincing(files: Sequence[Path]) -> Rows:
    """UKPConvArg1: arguments for one side of a debate, ranked; the grade is the quarter of the
    side's ranks, 3 best.
    """
    for file in files:
        rows = sorted(_read_table(file, delimiter="\t", quoting=csv.QUOTE_NONE), key=lambda row: float(row["rank"]))
        question = file.stem.replace("_", ": ").replace("-", " ")
        for place, row in enumerate(rows):
            label = 3 - 4 * place // len(rows)
            yield {"question": question, "id": row["#id"], "text": row["argument"], "label": label}


def gather_preferred(files: Sequence[Path]) -> Rows:
    """Experts' preferences between two long answers: the grade is 1 for the preferred one, else 0.

    `id` is the expert's number, by their place in the file, and the answer's; `system` is who wrote
    it.
    """
    (file,) = files
    experts: dict[str, int] = {}
    for row in _read_table(file, delimiter="\t"):
        name = experts.setdefault(row["annotator"], len(experts) + 1)
        for place in "12":
            texts = {"question": row["question_text"].strip(), "id": f"{name}-{place}", "text": row[f"ans{place}_text"]}
            label = int(row["ans_preference"] == f"Answer {place}")
            yield texts | {"label": label, "system": row[f"ans{place}_label"].removesuffix("_answer")}


def read_rated(path: Path, lowest_label: int) -> Iterator[Question]:
    """`{question, id, text, label}` a line, maybe `system`; labels from `lowest_label`. An empty
    text is excluded.
    """
    by_question: dict[str, list[Answer]] = {}
    for row in (line for line in read_lines(path.read_bytes()) if line["text"].strip()):
        answer = Answer(str(row["id"]), row["text"], row["label"] - lowest_label, row.get("system", ""))
        by_question.setdefault(row["question"], []).append(answer)
    return (Question(text, tuple(answers)) for text, answers in by_question.items())


def _read_table(path: Path, **options: Any) -> Iterable[dict[str, str]]:
    return csv.DictReader(StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), **options)
