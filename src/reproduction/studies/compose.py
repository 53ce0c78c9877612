"""Answers made of perspectives by rule, so that what an answer covers is known: what P.D. should
and shouldn't follow.

Everything is drawn from a seed and the question's key alone: no order of files, no global state.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from nfqa.files.records import PartialAnswer, Question
from reproduction.studies.negation import SENTENCE_END

SentenceOrder = Literal["kept", "shuffled"]
_WORD = re.compile(r"[^\W\d_]{5,}")  # shorter words say little of what a claim is about
_COMMON_WORDS = (
    "about after again against always because being better between could every great other people rather really"
    " shall should still their there these thing things think those through under until using which while whole would"
    " world years banned allowed legal illegal abolished government governments society support"
)
_COMMON = frozenset(_COMMON_WORDS.split())


def choose_points(question: Question, n: int, *, seed: int, words: int | None = None) -> tuple[PartialAnswer, ...]:
    """Draw n of a question's perspectives, all of them where it has fewer, in an order that is
    drawn too.

    Args: words: each explanation is cut so that a perspective has at most so many words, None for
        whole ones.
    """
    rng = np.random.default_rng([seed, question.key])
    points = (question.partial_answers[i] for i in rng.permutation(len(question.partial_answers))[:n])
    return tuple(point if words is None else _cut(point, words) for point in points)


def compose_answers(
    points: Sequence[PartialAnswer], *, start: str, seed: int, order: SentenceOrder = "kept", drop: float = 0.0
) -> tuple[str, ...]:
    """The answers that cover the first k of n perspectives, for k = 0 to n.

    The answer for k = 0 is `start`, a text that covers none of them. With order "shuffled" the
    sentences of the whole answer are mixed; `drop` is the share of each perspective's words that
    are excluded, rounded down. Both are drawn once a perspective, so that the answer for k + 1
    holds just what that for k holds, in the same order, and more.

    Returns: [n + 1].
    """
    content = hashlib.sha256("\n".join(point.text for point in points).encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(content[:8], "big")])
    placed: list[tuple[float, str]] = []
    answers = [start]
    for number, point in enumerate(points):
        sentences = _drop_words(point.text, drop, rng)
        places = rng.random(len(sentences)) if order == "shuffled" else number + np.arange(len(sentences)) / 1e6
        placed += zip(places.tolist(), sentences, strict=True)
        answers.append(" ".join(sentence for _, sentence in sorted(placed)))
    return tuple(answers)


def draw_unrelated(question: Question, others: Sequence[Question], *, words: int, seed: int) -> str:
    """A text of `words` words made of perspectives on other claims.

    A claim that has a longer word in common with the question's text or points of view may be about
    the same matter, and gives nothing. Fewer words come back when the rest holds no more.

    Raises: ValueError when no claim is left.
    """
    topic = _find_topic(question)
    rng = np.random.default_rng([seed, question.key])
    parts: list[str] = []
    for i in rng.permutation(len(others)):
        if topic & _find_topic(others[i]) or others[i].id == question.id or not others[i].partial_answers:
            continue
        points = others[i].partial_answers
        parts += points[int(rng.integers(len(points)))].text.split()
        if len(parts) >= words:
            return " ".join(parts[:words])
    if not parts:
        raise ValueError(f"question {question.id}: every other claim shares a word with it; give more claims")
    return " ".join(parts)


def _find_topic(question: Question) -> set[str]:
    text = " ".join([question.text, *(point.point_of_view for point in question.partial_answers)])
    return set(_WORD.findall(text.lower())) - _COMMON


def _cut(point: PartialAnswer, words: int) -> PartialAnswer:
    view = point.point_of_view.split()
    explanation = point.explanation.split()
    if len(view) + len(explanation) <= words:
        return point
    left = explanation[: max(0, words - len(view))]
    return replace(point, point_of_view=" ".join(view[:words]), explanation=" ".join(left))


def _drop_words(text: str, share: float, rng: np.random.Generator) -> list[str]:
    """The text's sentences without a share of its words; a sentence that has lost them all is gone."""
    sentences = [sentence.split() for sentence in SENTENCE_END.split(text) if sentence.strip()]
    count = sum(map(len, sentences))
    dropped = set(rng.permutation(count)[: int(share * count)].tolist())
    places = itertools.count()
    texts = [" ".join(word for word in words if next(places) not in dropped) for words in sentences]
    return [sentence for sentence in texts if sentence]
