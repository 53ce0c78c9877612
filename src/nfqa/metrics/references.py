"""Reference lists of varied quality, drawn with a seed, never left among the candidates."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from nfqa.data.records import Answer, Question

ShortRule = Literal["partial", "drop"]
RemoveRule = Literal["list", "best", "nothing"]

COMPOSITIONS: dict[str, tuple[int, ...]] = {
    "r3210": (3, 2, 1, 0),
    "r33321000": (3, 3, 3, 2, 1, 0, 0, 0),
    "r33221100": (3, 3, 2, 2, 1, 1, 0, 0),
    "r32221110": (3, 2, 2, 2, 1, 1, 1, 0),
}


@dataclass(frozen=True)
class Draw:
    """One question's reference list, best grade first, and the candidates left to judge.

    `best` is the one reference that overlap metrics compare with: the first drawn of the highest grade present.
    `dropped` says why there is nothing to judge, else None.
    """

    question: Question
    references: tuple[Answer, ...]
    candidates: tuple[Answer, ...]
    dropped: str | None = None

    @property
    def best(self) -> Answer:
        return self.references[0]

    @property
    def labels(self) -> list[int]:
        return [answer.label for answer in self.candidates]


def draw_references(
    question: Question,
    composition: Sequence[int],
    *,
    seed: int,
    short: ShortRule = "partial",
    remove: RemoveRule = "list",
    also_remove: Sequence[Sequence[int]] = (),
) -> Draw:
    """Draw a reference list of the grades in `composition` from a question's own answers.

    Answers are ordered by a hash of (seed, question, answer id), and a composition takes the first it needs: lists
    of different compositions but equal seed are nested, one question's draw never depends on another's, nor one
    answer's place on which others there are.

    Args: composition: grades, one a reference, as (3, 2, 1, 0); short: a question with too few answers of a grade
        takes what there is ("partial") or is left out ("drop"); remove: which of the drawn leave the candidates,
        the whole list, the best reference alone, or nothing (to measure the leak); also_remove: further compositions
        whose references leave the candidates too, so that several lists are judged on equal candidates.
    Returns: the draw. A candidate with exactly the text of a removed reference goes with it: a copy would score
        perfectly. Copies that differ in case or blanks stay.
    Raises: ValueError for an empty composition or an unknown rule.
    Source: LINKAGE, sections 3.3.1 and 5.2, which don't say what happens to short questions.
    """
    if not composition:
        raise ValueError("composition is empty; name at least one grade, such as (3, 2, 1, 0)")
    if short not in get_args(ShortRule) or remove not in get_args(RemoveRule):
        raise ValueError(
            f"short is {short!r} and remove is {remove!r}; known: {get_args(ShortRule)}, {get_args(RemoveRule)}"
        )
    shuffled = sorted(question.answers, key=lambda answer: _place(seed, question, answer))
    chosen = _take(shuffled, composition)
    references = tuple(sorted(chosen, key=lambda answer: -answer.label))
    if short == "drop" and len(references) < len(composition):
        return Draw(question, references, (), "short_list")
    if not references:
        return Draw(question, references, (), "no_reference")
    gone = {"list": references, "best": references[:1], "nothing": ()}[remove]
    gone = (*gone, *(answer for other in also_remove for answer in _take(shuffled, other)))
    texts = {answer.text for answer in gone}
    return Draw(question, references, tuple(a for a in question.answers if a.text not in texts))


def use_given_references(question: Question) -> Draw:
    """The draw of a question that comes with its own graded references (WebGLM); dropped when it has none."""
    if not question.references:
        return Draw(question, (), (), "no_reference")
    return Draw(question, question.references, question.answers)


def _place(seed: int, question: Question, answer: Answer) -> bytes:
    return hashlib.sha256(f"{seed}|{question.key}|{answer.id}".encode()).digest()


def _take(shuffled: Sequence[Answer], composition: Sequence[int]) -> list[Answer]:
    wanted = Counter(composition)
    taken = []
    for answer in shuffled:
        if wanted[answer.label] > 0:
            wanted[answer.label] -= 1
            taken.append(answer)
    return taken
