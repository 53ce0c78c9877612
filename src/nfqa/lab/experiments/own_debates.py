"""A user's own answers to debatable questions: Perspective Diversity and Dispute Awareness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import PartialAnswer, QuestionSet
from nfqa.lab.experiments.own_answers import Scores
from nfqa.metrics.dispute_awareness import judge_awareness, open_detector
from nfqa.metrics.perspective_diversity import Diversity, Switches, Variant, measure_diversity, settings

if TYPE_CHECKING:
    from nfqa.lab.debate_lab import DebateLab
    from nfqa.lab.judged import JudgedLab
    from nfqa.models.embed import Embedder

NEEDS_POINTS = "needs partial answers"
_WORST = 4  # decades of perplexity: a mean of 10,000 is the scale's 0, one of 1 its 10


def score_diversity(lab: DebateLab, own: QuestionSet, *, wrapping: Literal["chat", "plain"]) -> list[Scores]:
    """P.D. as the paper and as released; an answer that the evaluator can't hold loses its end, which the notes say.

    A score is -P.D., so that higher is better. On the 0-10 scale it is 10 (1 - log10(mean perplexity) / 4), kept
    within: 10 for a mean perplexity of 1, a view that the answer makes certain, 0 for 10,000 or more.
    """
    names: dict[str, Variant] = {f"pd_{variant}": variant for variant in get_args(Variant)}
    if not any(_list_points(own)):
        return [Scores(name, left_out=NEEDS_POINTS) for name in names]
    return [_score_variant(lab, own, name, variant, wrapping) for name, variant in names.items()]


def score_awareness(own: QuestionSet, embedder: Embedder) -> Scores:
    """D.A. by the embedded detector: the probability that an answer says that the matter is disputed. 10 times it.

    Only questions with partial answers are taken to be debatable.
    """
    if not any(_list_points(own)):
        return Scores("da_detector", left_out=NEEDS_POINTS)
    detector = open_detector(embedder)
    scores = _spread(own, detector.probabilities(_list_asked(own)))
    return Scores(
        "da_detector", detector.signature, "nfqa.metrics.dispute_detector:Detector", scores,
        tuple(10 * s for s in scores), notes=_note(own, [""] * len(own.questions)),
    )  # fmt: skip


def score_judged_awareness(lab: JudgedLab, own: QuestionSet) -> Scores:
    """D.A. by a language model, 0 or 1, or P("1") where its verdicts are read from logits. 10 times it.

    The prompt is ours, whatever set the lab asks with: no other has one.
    """
    if not any(_list_points(own)):
        return Scores("da_judge", left_out=NEEDS_POINTS)
    if lab.judge is None:
        return Scores("da_judge", left_out="needs JUDGE, a language model")
    judge = replace(lab.judge, prompts=lab.read_prompts("own"))
    found = judge_awareness(_list_asked(own), judge)
    scores = _spread(own, found.probabilities)
    reasons = iter(verdict.reason for verdict in found.verdicts)
    notes = []
    for question, points in zip(own.questions, _list_points(own), strict=True):
        missing = [reason for reason in (next(reasons) for _ in question.answers) if reason] if points else []
        notes.append("no verdict: " + ", ".join(dict.fromkeys(missing)) if missing else "")
    kernel = "nfqa.metrics.dispute_awareness:judge_awareness"
    return Scores("da_judge", found.signature, kernel, scores, tuple(10 * s for s in scores), notes=_note(own, notes))


def describe_debates(own: QuestionSet, scored: Sequence[Scores]) -> list[str]:
    """How many questions are debatable, and what P.D. left out or cut."""
    count = sum(map(bool, _list_points(own)))
    if not count:
        return []
    views = sum(map(len, _list_points(own)))
    sentences = [
        f"{count:,} questions are debatable, with {views:,} partial answers; the other methods know nothing of these.",
        f"P.D. on the scale from 0 to 10 is 10 (1 - log10(p) / {_WORST}), p the mean perplexity of a partial answer;"
        " the file of scores has its plain value with the sign turned, so that more is better there too.",
    ]
    for method in scored:
        notes = Counter(note for note in method.notes if note and note != NEEDS_POINTS and method.method[:3] == "pd_")
        said = "; ".join(f"{note} ({n} questions)" for note, n in sorted(notes.items()))
        sentences += [f"{method.method}: {said}."] if said else []
    return sentences


def _score_variant(
    lab: DebateLab, own: QuestionSet, name: str, variant: Variant, wrapping: Literal["chat", "plain"]
) -> Scores:
    texts, views = [], []
    for question, points in zip(own.questions, _list_points(own), strict=True):
        for answer in question.answers if points else ():
            texts.append(answer.text)
            views.append([point.text for point in points])
    switches: Switches = {"wrapping": wrapping, "too_long": "cut_tail"}
    found = measure_diversity(texts, views, lab.evaluator, variant=variant, **switches)
    chosen = settings(variant, **switches)
    means = np.array([_average(each) for each in found])
    tens = np.clip(10 * (1 - np.log10(means) / _WORST), 0, 10)
    each_note = iter(_describe(one) for one in found)
    notes = [
        "; ".join(dict.fromkeys(note for note in (next(each_note) for _ in q.answers) if note)) if points else ""
        for q, points in zip(own.questions, _list_points(own), strict=True)
    ]
    return Scores(
        name,
        f"{chosen.signature}|evaluator:{lab.evaluator.identity}|sign:-",
        "nfqa.metrics.perspective_diversity:measure_diversity",
        _spread(own, np.array([-one.value for one in found])),
        _spread(own, tens),
        notes=_note(own, notes),
    )


def _list_asked(own: QuestionSet) -> list[str]:
    """The answers to debatable questions, in order."""
    return [
        answer.text
        for q, points in zip(own.questions, _list_points(own), strict=True)
        if points
        for answer in q.answers
    ]


def _average(found: Diversity) -> float:
    """The mean perplexity of the partial answers that have one; NaN for an answer that is left out."""
    finite = found.perplexities[np.isfinite(found.perplexities)]
    return float(finite.mean()) if np.isfinite(found.value) and len(finite) else float("nan")


def _describe(found: Diversity) -> str:
    parts = [f"{reason.replace('_', ' ')}: {count}" for reason, count in sorted(found.dropped.items())]
    return ", ".join([*parts, *(["an answer cut at its end to fit the evaluator"] if found.cut else [])])


def _spread(own: QuestionSet, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """One array a question: its answers' values in order, NaN where it has no partial answers."""
    rest, parts = values, []
    for question, points in zip(own.questions, _list_points(own), strict=True):
        count = len(question.answers)
        parts.append(rest[:count] if points else np.full(count, np.nan))
        rest = rest[count:] if points else rest
    return tuple(parts)


def _note(own: QuestionSet, notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(note if points else NEEDS_POINTS for note, points in zip(notes, _list_points(own), strict=True))


def _list_points(own: QuestionSet) -> list[tuple[PartialAnswer, ...]]:
    return [question.partial_answers for question in own.questions]
