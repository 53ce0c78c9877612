"""Answers composed of k perspectives of a claim, and their P.D.: what Equation 7 is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import Question, QuestionSet
from nfqa.kernels.perplexity import settings
from nfqa.lab.experiments.diversity import find_wrapping, score_answers, sign, tabulate
from nfqa.metrics.compose import choose_points, compose_answers, draw_unrelated, pad_answers, repeat_point
from nfqa.metrics.perspective_diversity import Diversity

if TYPE_CHECKING:
    from nfqa.models.evaluator import Evaluator

POINTS = 4  # perspectives of a claim that are scored; an answer holds k = 0 to 4 of them
DROP = 0.3  # of the words, in the paraphrased answers
NEUTRAL = "There is not much that I can say about this."


@dataclass(frozen=True)
class Probes:
    """Claims with their POINTS perspectives as partial answers, and the answers composed for each, by form.

    exact, paraphrased: [POINTS + 1], k = 0 to POINTS, the first an unrelated text as long as one perspective. neutral:
    [1], words that hold nothing. padded: [POINTS], the exact answers for k = 1 on with an unrelated text at the end.
    reordered: [2], all perspectives in other orders. repeated: [1], the first perspective POINTS times.
    """

    dataset: QuestionSet
    claims: tuple[Question, ...]
    forms: dict[str, tuple[tuple[str, ...], ...]]  # form -> [Q][answers]
    signature: str
    too_few: int


@dataclass(frozen=True)
class Scored:
    """P.D. of every composed answer, by form, [Q, answers], and what it is made of."""

    system: str
    values: dict[str, NDArray[np.float64]]
    diversities: dict[str, list[list[Diversity | None]]]
    signature: str


def build_probes(dataset: QuestionSet, *, words: int | None, seed: int = 0, limit: int | None = None) -> Probes:
    """Compose answers for every claim with POINTS perspectives or more.

    Args: words: each perspective is cut after so many, None for whole ones; limit: at most so many claims, by key.
    Raises: ValueError when no claim has enough perspectives.
    """
    enough = [question for question in dataset.questions if len(question.partial_answers) >= POINTS]
    chosen = sorted(enough, key=lambda question: question.key)[:limit]
    if not chosen:
        raise ValueError(f"{dataset.name}: no claim has {POINTS} perspectives; use a larger set")
    claims: list[Question] = []
    forms: dict[str, list[tuple[str, ...]]] = {}
    for question in chosen:
        points = choose_points(question, POINTS, seed=seed, words=words)
        length = max(1, round(np.mean([len(point.text.split()) for point in points])))
        unrelated = draw_unrelated(question, dataset.questions, words=2 * length, seed=seed)
        start = " ".join(unrelated.split()[:length])
        exact = compose_answers(points, start=start, seed=seed)
        claims.append(replace(question, partial_answers=points))
        answers = {
            "exact": exact,
            "paraphrased": compose_answers(points, start=start, seed=seed, order="shuffled", drop=DROP),
            "neutral": (NEUTRAL,),
            "padded": pad_answers(exact[1:], unrelated),
            "reordered": tuple(" ".join(p.text for p in turned) for turned in (points[::-1], points[2:] + points[:2])),
            "repeated": repeat_point(points[0], POINTS)[-1:],
        }
        for form, texts in answers.items():
            forms.setdefault(form, []).append(texts)
    cut = "whole" if words is None else f"first {words} words"
    return Probes(
        dataset, tuple(claims), {form: tuple(rows) for form, rows in forms.items()},
        f"claims:{len(claims)}|points:{POINTS}, {cut}|drop:{DROP}|padding:twice a perspective|seed:{seed}",
        len(dataset.questions) - len(enough),
    )  # fmt: skip


def score_probes(
    evaluator: Evaluator,
    label: str,
    probes: Probes,
    *,
    variant: Literal["paper", "released"] = "paper",
    forms: Sequence[str] = (),
    wrapping: Literal["chat", "plain"] = "chat",
) -> Scored:
    """P.D. of the composed answers, of all forms or of those named, in one call."""
    names = list(forms or probes.forms)
    way = find_wrapping(evaluator, wrapping)
    joined = [[text for name in names for text in probes.forms[name][q]] for q in range(len(probes.claims))]
    table = score_answers(evaluator, probes.claims, joined, variant=variant, wrapping=way)
    values, diversities, start = {}, {}, 0
    for name in names:
        width = len(probes.forms[name][0])
        diversities[name] = [row[start : start + width] for row in table]
        values[name] = tabulate(diversities[name])
        start += width
    mark = f"{sign(evaluator, settings(variant, wrapping=way))}|{probes.signature}"
    return Scored(f"pd_{variant}_{label}", values, diversities, mark)
