"""Answers of several models to debatable questions: written by them, or read from files in
DebateQA's format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nfqa.files.answers import Generation
from nfqa.files.json_lines import read_items
from nfqa.kernels.texts import name_lack
from reproduction.studies.people import add_groups

if TYPE_CHECKING:
    from nfqa.files.records import QuestionSet

_ENDS = ["dataset", "system", "metric", "statistic", "value", "n"]


@dataclass(frozen=True)
class Answered:
    """Debatable questions, and several systems' answers to them.

    answers: dataset, question, system, text (None where there is no answer). ends: dataset, system,
    metric ("answers"), statistic ("share_cut" and "share_missing" of the questions, "n_unknown" of
    answers to other questions, where there are any), value, n. Without rows where the dataset's own
    systems answered.
    """

    questions: QuestionSet
    answers: pd.DataFrame
    ends: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=_ENDS))

    @property
    def with_questions(self) -> pd.DataFrame:
        """The answers with question_text, which a judge of Dispute Awareness may see."""
        return self.answers.assign(question_text=self.answers.question.map(self.questions.texts_by_name))

    @property
    def over(self) -> str:
        """What was drawn independently: "question", or "group" of people who wrote the views of
        several questions.
        """
        return "group" if len(self.questions.ratings) else "question"

    def add_groups(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Scores with the column `over`."""
        return add_groups(scores, self.questions.ratings) if self.over == "group" else scores

    @classmethod
    def gather(cls, questions: QuestionSet, rows: pd.DataFrame) -> Answered:
        """Of what `answer_questions` or `read_answer_files` found."""
        unknown = rows.ended == "unknown_question"
        answers = rows[~unknown].assign(dataset=questions.name)
        of_system = answers.groupby("system", sort=False)
        ends = pd.DataFrame({
            "share_cut": of_system.ended.agg(lambda ended: (ended == "length").mean()),
            "share_missing": of_system.text.agg(lambda texts: texts.isna().mean()),
            "n_unknown": unknown.groupby(rows.system).sum().replace(0, np.nan),
        })  # fmt: skip
        ends = ends.melt(ignore_index=False, var_name="statistic").dropna().reset_index()
        ends = ends.assign(dataset=questions.name, metric="answers", n=len(questions.questions))
        return cls(questions, answers[["dataset", "question", "system", "text"]], ends)


def read_answer_files(folder: Path, questions: Collection[str]) -> pd.DataFrame:
    """The answers of a folder with one file per system, `{"id", "generation"}` a line, named as the
    system is.

    Args: questions: the names of those that count.
    Returns: as `answer_questions`, every question of every system: `ended` is "no_answer" where a
        file has no line for a question, "empty" or "only_thinking" where the line says nothing, and
        "" for the others. Answers to other questions have `ended` "unknown_question" and no text.
    Raises: ValueError naming the folder without such a file; a file without an answer to any of the
        questions; or file, line and field of what is no such line, or an id that is there twice.
    """
    known = list(dict.fromkeys(questions))
    frames = []
    for path in sorted(folder.glob("*.jsonl")):
        texts = {line.id: line.generation for line in read_items(path, Generation, Counter(), once="id", clean=True)}
        if not texts.keys() & set(known):
            examples = ", ".join([*texts][:3])
            advice = "name the right questions (QUESTIONS=debateqa for DebateQA's)"
            raise ValueError(f"{path}: none of its ids ({examples} ...) is a question's; {advice}")
        rows = [(path.stem, name, texts.get(name)) for name in dict.fromkeys([*known, *texts])]
        frames.append(pd.DataFrame(rows, columns=["system", "question", "text"], dtype=object))
    if not frames:
        raise ValueError(f'{folder}: holds no .jsonl file; expected one a system, with {{"id", "generation"}} a line')
    answers = pd.concat(frames, ignore_index=True)
    unknown = ~answers.question.isin(known)
    lacks = answers.text.fillna("x").map(name_lack)
    ended = lacks.mask(answers.text.isna(), "no_answer")
    answers["text"] = answers.text.mask((lacks != "") | unknown, None)
    return answers.assign(ended=ended.mask(unknown, "unknown_question"), made="")
