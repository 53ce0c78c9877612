"""Draws: a question's graded references, best first, and the candidates to judge; and their rows as
frames.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nfqa.files.records import UNLABELLED, Answer, Question
from nfqa.kernels.texts import sign_changes

GOOD_FROM = 2  # the grade from which a reference is a good one


@dataclass(frozen=True)
class Draw:
    """One question's reference list, best grade first, and the candidates left to judge.

    `best` is the one reference that overlap metrics compare with: the first drawn of the highest
    grade present. `dropped` says why there is nothing to judge, else None.
    """

    question: Question
    references: tuple[Answer, ...]
    candidates: tuple[Answer, ...]
    dropped: str | None = None

    @property
    def best(self) -> Answer:
        return self.references[0]

    @property
    def good(self) -> tuple[Answer, ...]:
        """The references of grade GOOD_FROM or more, or `best` alone where there is none."""
        return tuple(answer for answer in self.references if answer.label >= GOOD_FROM) or (self.best,)

    @property
    def labels(self) -> list[int]:
        return [answer.label for answer in self.candidates]

    @property
    def texts(self) -> list[str]:
        """The question's text, the references' and the candidates'."""
        return [self.question.text, *(answer.text for answer in (*self.references, *self.candidates))]


def list_candidates(draws: pd.DataFrame, *, texts: bool = False) -> pd.DataFrame:
    """One row per candidate of every draw: the draw's own columns, answer, grade, missing, and the
    text if `texts`.

    A draw without candidates keeps one row, whose answer is blank and whose `missing` says why it
    was dropped.
    """
    columns = [name for name in draws.columns if name != "draw"]
    places = []
    rows = []
    for place, draw in enumerate(draws.draw):
        items = [(answer.id, answer.text, float(answer.label), "") for answer in draw.candidates]
        rows += items or [("", "", float("nan"), draw.dropped or "fewer_than_two")]
        places += [place] * max(1, len(items))
    unfolded = pd.DataFrame(rows, columns=["answer", "text", "grade", "missing"])
    unfolded = pd.concat([draws[columns].iloc[places].reset_index(drop=True), unfolded], axis=1)
    return unfolded if texts else unfolded.drop(columns="text")


def list_texts(draw: Draw, *, references: bool = True) -> list[tuple[str, ...]]:
    """The texts behind each row that `list_candidates` gives of a draw: question, references and
    candidate.
    """
    shared = draw.texts[: 1 + len(draw.references)] if references else [draw.question.text]
    return [(answer.text, *shared) for answer in draw.candidates] or [()]


def sign(candidates: pd.DataFrame, scored_by: str | pd.Series) -> pd.Series:
    """The column `signature` of scores: how their draws were made, where these say so, then how
    they were judged.
    """
    judged = pd.Series(scored_by, candidates.index)
    if "signature" not in candidates:
        return judged
    return judged.where(candidates.signature.isna(), candidates.signature.astype(str) + "|" + judged)


def hash_name(name: str) -> bytes:
    """The order of draws: a hash of a text that names seed, question and item."""
    return hashlib.sha256(name.encode()).digest()


def gather_draws(
    answers: pd.DataFrame, references: pd.DataFrame, texts_by_name: Mapping[str, str], *, ungraded: bool
) -> pd.DataFrame:
    """All references and answers of each question as one draw, of questions without references only
    where `ungraded`.

    Args: as `nfqa.Frames` has them. Returns: dataset, question, draw.
    """

    def gather(frame: pd.DataFrame, name: str) -> dict[Any, tuple[Answer, ...]]:
        texts = frame["text"]
        grades = frame.grade.fillna(UNLABELLED).astype(int)
        items = pd.Series(map(Answer, frame[name].astype(str), texts, grades), frame.index, dtype=object)
        return items.groupby([frame.dataset, frame.question], sort=False).agg(tuple).to_dict()

    known = gather(references, "reference")
    rows = [
        (*key, Draw(Question(texts_by_name[key[1]], id=key[1]), known.get(key, ()), candidates))
        for key, candidates in gather(answers, "answer").items()
        if ungraded or key in known
    ]
    return pd.DataFrame(rows, columns=["dataset", "question", "draw"])


def sign_texts(scores: pd.DataFrame, counts: Mapping[str, int]) -> pd.DataFrame:
    """Scores whose signatures say, once, how the user's texts were changed when they were read.

    Args: counts: as `Frames.warnings`.
    """
    end = sign_changes(counts)
    if not end:
        return scores
    signed = scores.signature.str.removesuffix(end) + end
    return scores.assign(signature=signed.where(scores.signature != "", ""))
