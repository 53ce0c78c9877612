"""A user's own answers, scored by every method that the roles at hand allow, and the rows on what came of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from nfqa.data.own_answers import EXAMPLE, bring_file
from nfqa.data.records import Answer, Question, QuestionSet
from nfqa.data.registry import UnreachableError
from nfqa.kernels.correlation import Method as Coefficient
from nfqa.lab.experiments.agreement import make_row
from nfqa.lab.results import Row
from nfqa.metrics import judging, overlap
from nfqa.metrics.evaluation import Agreement, measure_agreement, summarise
from nfqa.metrics.listwise import Scorer, fit_scorer, judge_draw, make_training_rows, make_zero_shot
from nfqa.metrics.references import Draw
from nfqa.models.embed import Embedder

if TYPE_CHECKING:
    from nfqa.lab.judged import JudgedLab
    from nfqa.lab.notebook import Lab

OVERLAP = ("rouge1", "rouge2", "rougel", "bertscore", "bleu")
LANGUAGE = {
    "pointwise": "pointwise_judge",
    "pointwise_ref": "pointwise_ref_judge",
    "pairwise": "pairwise_judge",
    "listwise": "linkage_judge_0_shot",
}
TRAINING = "antique"
NEEDS_REFERENCES = "needs references"
_HERE = "nfqa.lab.experiments.own_answers"
_MOST_OF_A_GRADE = 3  # as many as in the paper's longest list; a scorer's features are means over good and poor ones
_UNSEEN = Answer("", "-", 0)  # so that no scale is divided by no references; the scores are NaN there


@dataclass(frozen=True)
class Scores:
    """One method's scores, an array a question: `scores` in the method's own units, higher is better; `tens` from 0 to
    10; `ranks` among the references, 1 is best, where the method gives one. NaN where there is none, `notes` say why.
    With `left_out` the method did not run at all, for that reason, and the rest is empty.
    """

    method: str
    signature: str = ""
    kernel: str = ""
    scores: tuple[NDArray[np.float64], ...] = ()
    tens: tuple[NDArray[np.float64], ...] = ()
    ranks: tuple[NDArray[np.float64], ...] = ()
    notes: tuple[str, ...] = ()
    left_out: str = ""


def bring_answers(lab: Lab, path: str, questions: str = "") -> QuestionSet:
    """The user's file, or for "" the bundled example, whose every number is a sample's; `questions` is the file of the
    questions where that of the answers is in the released scripts' format.

    Raises: ValueError as `bring_file`, or for questions without a file of answers.
    """
    if questions and not path:
        raise ValueError(f"questions is {questions!r}, but no file of answers is named")
    example = lab.root / "data" / "sample" / EXAMPLE
    sample = not path or lab.data == "sample"
    name = "own_answers" if path else "sample_own_answers"
    beside = Path(questions) if questions else None
    own = bring_file(Path(path) if path else example, beside, name=name, origin="sample" if sample else "measured")
    lab.use(own)
    return own


def score_overlap(own: QuestionSet, embedder: Embedder) -> list[Scores]:
    """Overlap metrics with the best reference, on the 0-10 scale ten times their value."""
    return [_score_metric(own, overlap.METRICS[name], embedder) for name in OVERLAP]


def score_question_cosine(own: QuestionSet, embedder: Embedder) -> Scores:
    """Cosine of answer and question, which needs no reference: nearness of topic, no more. 10 times it, 0 at least."""
    scores = []
    for question in own.questions:
        vectors = embedder.embed_sentences([question.text, *(answer.text for answer in question.answers)])
        scores.append(np.round(vectors[1:].astype(np.float64) @ vectors[0].astype(np.float64), 10))
    tens = tuple(10 * np.clip(s, 0, 1) for s in scores)
    return _finish(
        Scores("cos_question", "impl:nfqa|cosine", f"{_HERE}:score_question_cosine", tuple(scores), tens), own
    )


def score_embedded(lab: Lab, own: QuestionSet) -> list[Scores]:
    """The embedded judge, with fixed weights and trained.

    Trained weights are fitted on ANTIQUE, on lists of the grades that a question's references have, and on no
    question that is scored here.
    """
    zero_shot, name = make_zero_shot(), "linkage_embedded_trained"
    made = [_score_listwise(own, [zero_shot] * len(own.questions), lab.embedder, "linkage_embedded_zero_shot")]
    if not any(question.references for question in own.questions):
        return [*made, Scores(name, left_out=NEEDS_REFERENCES)]
    try:
        return [*made, _score_listwise(own, _train(lab, own), lab.embedder, name)]
    except UnreachableError as error:
        return [*made, Scores(name, left_out=f"needs {TRAINING} to be trained on: {error}")]
    except ValueError as error:  # a training set too small for such a list
        return [*made, Scores(name, left_out=f"could not be trained: {error}")]


def score_language(lab: JudgedLab, own: QuestionSet) -> list[Scores]:
    """A language model as judge: alone, with references in view, against each reference, and in their list."""
    judge = lab.judge
    if judge is None:
        return [Scores(name, left_out="needs JUDGE, a language model") for name in LANGUAGE.values()]
    return [_ask(own, method, name, judge) for method, name in LANGUAGE.items()]


def measure_means(own: QuestionSet, scored: Sequence[Scores], *, resamples: int) -> list[Row]:
    """The mean on the 0-10 scale, over questions, of all answers and of each system's, and each system's share of wins.

    `win_share_SYSTEM` is the mean over questions of the share of the other systems' answers that it is scored above, a
    tie counting half. Intervals are over questions, and left out where there is only one.
    """
    rows = []
    for method in scored:
        if method.left_out:
            continue
        everything = [np.ones(len(t), dtype=bool) for t in method.tens]
        rows.append(_make_mean(own, method, "mean_ten", _average(method.tens, everything), resamples))
        for name, slug in name_systems(own).items():
            chosen = [np.array(row) == name for row in list_systems(own)]
            rows.append(_make_mean(own, method, f"mean_ten_{slug}", _average(method.tens, chosen), resamples))
            if len(own.systems) > 1:
                wins = [_share_wins(s, row, name) for s, row in zip(method.scores, list_systems(own), strict=True)]
                rows.append(_make_mean(own, method, f"win_share_{slug}", np.array(wins), resamples))
    return rows


def measure_labels(own: QuestionSet, scored: Sequence[Scores], *, resamples: int) -> list[Row]:
    """Kendall and Spearman of scores with the labels given, inside each question with two labelled answers or more."""
    labelled = [np.array(question.labels) >= 0 for question in own.questions]
    if not any(row.sum() > 1 for row in labelled):
        return []
    rows = []
    for method in scored:
        if method.left_out:
            continue
        kept = [row & ~np.isnan(s) for row, s in zip(labelled, method.scores, strict=True)]
        draws = [_keep(question, row) for question, row in zip(own.questions, kept, strict=True)]
        scores = [s[row] for s, row in zip(method.scores, kept, strict=True)]
        for coefficient in _COEFFICIENTS:
            found = measure_agreement([draws], [scores], method=coefficient, resamples=resamples)
            kernels = (method.kernel, f"nfqa.kernels.correlation:_{coefficient}")
            rows.append(_make_row(own, method, coefficient, found, resamples, kernels))
    return rows


def list_systems(own: QuestionSet) -> list[list[str]]:
    """The systems along the questions' answers, "" where none is named: [Q][n]."""
    return [[answer.system for answer in question.answers] for question in own.questions]


def name_systems(own: QuestionSet) -> dict[str, str]:
    """An identifier for each named system, for the names of rows."""
    found: dict[str, str] = {}
    for name in own.systems:
        slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "system"
        twins = sum(re.fullmatch(rf"{slug}(_\d+)?", other) is not None for other in found.values())
        found[name] = f"{slug}_{twins + 1}" if slug in found.values() else slug
    return found


_COEFFICIENTS: tuple[Coefficient, ...] = ("kendall", "spearman")


def _score_metric(own: QuestionSet, metric: overlap.OverlapMetric, embedder: Embedder) -> Scores:
    draws = [_draw(question) for question in own.questions if question.references]
    found = iter(overlap.score_draws(metric, draws, embedder))
    scores = tuple(next(found) if q.references else _lack(q) for q in own.questions)
    tens = tuple(10 * np.clip(s, 0, 1) for s in scores)
    return _finish(Scores(metric.name, f"{metric.signature}|ref:best", metric.kernel, scores, tens), own)


def _score_listwise(own: QuestionSet, scorers: Sequence[Scorer | None], embedder: Embedder, name: str) -> Scores:
    scores, ranks = [], []
    for question, scorer in zip(own.questions, scorers, strict=True):
        if scorer is None or not question.references:
            scores.append(_lack(question))
            ranks.append(_lack(question))
        else:
            verdicts = judge_draw(_draw(question), scorer, embedder)
            scores.append(verdicts.scores)
            ranks.append(verdicts.ranks.astype(np.float64))
    tens = tuple(judging.to_ten(-r, "listwise", len(q.references)) for r, q in _pair(ranks, own))
    trained = sorted({scorer.trained_on for scorer in scorers if scorer is not None})
    signature = f"judge:{name.removeprefix('linkage_embedded_')}|trained_on:{trained[0] if trained else 0}|list:given"
    kernel = "nfqa.metrics.listwise:judge_draw"
    return _finish(Scores(name, signature, kernel, tuple(scores), tens, tuple(ranks)), own)


def _train(lab: Lab, own: QuestionSet) -> list[Scorer | None]:
    """A scorer for each question that has references, one for each make-up of grades."""
    known = {question.text for question in own.questions}
    training = [question for question in lab.load(TRAINING).questions if question.text not in known]
    scorers: dict[tuple[int, ...], Scorer] = {}
    chosen: list[Scorer | None] = []
    for question in own.questions:
        counts = Counter(reference.label for reference in question.references)
        grades = tuple(g for g in sorted(counts, reverse=True) for _ in range(min(counts[g], _MOST_OF_A_GRADE)))
        if grades and grades not in scorers:
            scorers[grades] = fit_scorer(make_training_rows(other, grades, lab.embedder) for other in training)
        chosen.append(scorers.get(grades))
    return chosen


def _ask(own: QuestionSet, method: str, name: str, judge: judging.LanguageJudge) -> Scores:
    pointwise = method == "pointwise"
    draws = [_draw(question) for question in own.questions if question.references or pointwise]
    way: judging.Method = next(known for known in get_args(judging.Method) if known == method)
    found = iter(judging.judge_draws(draws, way, judge))
    judged = [next(found) if q.references or pointwise else None for q in own.questions]
    scores = tuple(_lack(q) if j is None else j.scores for q, j in zip(own.questions, judged, strict=True))
    tens = tuple(judging.to_ten(s, way, len(q.references)) for s, q in _pair(scores, own))
    ranks = tuple(-s for s in scores) if method == "listwise" else ()
    notes = ["" if j is None else "no verdict: " + ", ".join(j.missing) for j in judged]
    shots = "|shots:0" if method == "listwise" else ""
    signature = f"judge:{judge.asker.identity}|method:{method}|{judge.sign(way)}{shots}|list:given"
    return _finish(Scores(name, signature, "nfqa.metrics.judging:judge_draws", scores, tens, ranks, tuple(notes)), own)


def _finish(made: Scores, own: QuestionSet) -> Scores:
    """A note a question for what has no score; a method that no question could have is left out."""
    needs = made.method not in ("cos_question", LANGUAGE["pointwise"])
    if needs and not any(question.references for question in own.questions):
        return Scores(made.method, left_out=NEEDS_REFERENCES)
    notes = made.notes or ("",) * len(own.questions)
    lacking = [needs and not question.references for question in own.questions]
    return replace(
        made, notes=tuple(NEEDS_REFERENCES if lack else note for lack, note in zip(lacking, notes, strict=True))
    )


def _pair(values: Sequence[NDArray], own: QuestionSet) -> list[tuple[NDArray, Question]]:
    """Each question with its values; one without references has none, and stands in with itself."""
    return list(
        zip(values, [q if q.references else replace(q, references=(_UNSEEN,)) for q in own.questions], strict=True)
    )


def _draw(question: Question) -> Draw:
    return Draw(question, question.references, question.answers)


def _keep(question: Question, kept: NDArray[np.bool_]) -> Draw:
    return Draw(question, (), tuple(answer for answer, ok in zip(question.answers, kept, strict=True) if ok))


def _lack(question: Question) -> NDArray[np.float64]:
    return np.full(len(question.answers), np.nan)


def _average(values: Sequence[NDArray], chosen: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    parts = [v[c & ~np.isnan(v)] for v, c in zip(values, chosen, strict=True)]
    return np.array([part.mean() if len(part) else np.nan for part in parts])


def _share_wins(scores: NDArray, systems: Sequence[str], name: str) -> float:
    """Of all pairs of an answer of `name` and one of another named system, both scored, the share that `name` wins."""
    mine = np.array([system == name for system in systems])
    others = np.array([system not in ("", name) for system in systems])
    difference = scores[mine][:, None] - scores[others][None, :]
    difference = difference[~np.isnan(difference)]
    return float((np.sign(difference) + 1).mean() / 2) if difference.size else float("nan")


def _make_mean(own: QuestionSet, method: Scores, metric: str, values: NDArray, resamples: int) -> Row:
    reasons = Counter(
        note or "no such answer" for note, value in zip(method.notes, values, strict=True) if np.isnan(value)
    )
    found = summarise(
        values, {reason.replace(" ", "_"): count for reason, count in sorted(reasons.items())}, resamples=resamples
    )
    return _make_row(own, method, metric, found, resamples, (method.kernel, f"{_HERE}:measure_means"))


def _make_row(
    own: QuestionSet, method: Scores, metric: str, found: Agreement, resamples: int, kernels: tuple[str, ...]
) -> Row:
    signature = f"{method.method}|{method.signature}|boot:{resamples}|v1"
    kernels = (*kernels, "nfqa.kernels.resample:bootstrap_mean")
    row = make_row(own, method.method, metric, found, signature, kernels).model_copy(update={"seeds": ()})
    return row if found.n > 1 else row.model_copy(update={"ci_low": None, "ci_high": None})
