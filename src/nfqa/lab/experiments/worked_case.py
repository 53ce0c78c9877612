"""Figures 1, 3 and 10: one real question, two candidates, and what each way of judging makes of them.

The case is chosen by a rule, not by hand (`choose_case`): it is one on which shared words mislead most, so it shows
how methods can differ and is no evidence for any. Results and figures hold numbers; texts stand in the notebook alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from nfqa.data.records import Answer, QuestionSet
from nfqa.lab.experiments.agreement import train_scorers
from nfqa.lab.experiments.language import KERNEL, find_family
from nfqa.lab.results import Row
from nfqa.metrics.judging import Method, judge_draws, to_ten
from nfqa.metrics.listwise import Scorer, describe_draw, judge_draw, make_zero_shot
from nfqa.metrics.overlap import METRICS, score_draws
from nfqa.metrics.references import COMPOSITIONS, Draw, draw_list
from nfqa.models.embed import Embedder

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

    from nfqa.lab.judged import JudgedLab

OVERLAP = ("rouge1", "rouge2", "rougel", "bleu", "bertscore", "cls_cosine")
SIDES = ("candidate_a", "candidate_b")  # of the better grade, of the poorer one
_HERE = "nfqa.lab.experiments.worked_case"
_LIST = "r3210"
# Systems of a language model, to be filled in with the model's family, and the method behind each.
_ASKED: dict[str, Method] = {
    "pointwise_{}": "pointwise",
    "pointwise_ref_{}": "pointwise_ref",
    "pairwise_{}": "pairwise",
    "linkage_{}_0_shot": "listwise",
}


@dataclass(frozen=True)
class Case:
    """One question's draw with candidates A and B alone, and the scorers of the embedded judge for the question.

    `whole` is the draw with every candidate; `n_pairs` of how many pairs it was chosen.
    """

    dataset: QuestionSet
    draw: Draw
    whole: Draw
    scorers: tuple[Scorer, ...]
    n_pairs: int

    @property
    def mark(self) -> str:
        """The case in signatures: the hash of the question, never its text."""
        return (
            f"question:{self.draw.question.key:016x}|list:{_LIST}|seed:0|rule:widest_rouge1_lead|pairs:{self.n_pairs}"
        )


@dataclass(frozen=True)
class Scores:
    """One method's scores of A and B on the scale from 0 to 10, None where there is no verdict."""

    values: tuple[float | None, float | None]
    signature: str
    kernel: str


def choose_case(dataset: QuestionSet, embedder: Embedder) -> Case:
    """The pair of candidates on which shared words mislead most, over all questions under reference draw 0.

    Of each question with a whole list (3, 2, 1, 0), candidates of its top grade are paired with those of its lowest;
    taken is the pair with the widest gap of grades, then the widest lead of the poorer one in ROUGE-1 against the
    list's best reference. Ties go to the lower hash of the question, then to the answers' ids.
    Raises: ValueError when no question has two candidates of different grade beside a whole list.
    """
    wholes = [draw_list(q, COMPOSITIONS[_LIST], seed=0, short="drop") for q in dataset.questions]
    found: list[tuple[tuple, int, Answer, Answer]] = []
    for number, (draw, scores) in enumerate(zip(wholes, score_draws(METRICS["rouge1"], wholes), strict=True)):
        if draw.dropped or len(set(draw.labels)) < 2:
            continue
        graded = list(zip(draw.candidates, np.nan_to_num(scores), strict=True))
        top, low = max(draw.labels), min(draw.labels)
        better, poorer = ([pair for pair in graded if pair[0].label == grade] for grade in (top, low))
        for (a, score_a), (b, score_b) in product(better, poorer):
            place = (low - top, score_a - score_b, draw.question.key, a.id, b.id)
            found.append((place, number, a, b))
    if not found:
        raise ValueError(f"{dataset.name}: no question has a whole list {_LIST} and two candidates of different grade")
    _, number, a, b = min(found, key=lambda entry: entry[0])
    trained = train_scorers(dataset, dataset, embedder, _LIST)[number]
    draw = replace(wholes[number], candidates=(a, b))
    return Case(dataset, draw, wholes[number], (make_zero_shot(), trained), len(found))


def show_case(case: Case) -> Styler:
    """The texts, for the notebook's page."""
    import pandas as pd

    question = case.draw.question
    lines = [("question", "", question.text)]
    lines += [(f"reference {i}", str(r.label), r.text) for i, r in enumerate(case.draw.references, start=1)]
    lines += [(f"candidate {n}", str(c.label), c.text) for n, c in zip("AB", case.draw.candidates, strict=True)]
    look = "white-space: pre-wrap; text-align: left; vertical-align: top"
    frame = pd.DataFrame(lines, columns=["what", "grade", "text"]).style.format(escape="html")
    return frame.set_table_styles([{"selector": "td", "props": look}]).hide(axis="index")


def score_case(case: Case, embedder: Embedder) -> dict[str, Scores]:
    """Every method that needs no language model, by system, on the scale from 0 to 10.

    Overlap metrics: 10 times the metric against the best reference, 0 where it is negative or undefined. Embedded
    judge: 10 (R + 1 - rank) / R for the rank; for its score, which has no ends, 10 times the share of the question's
    other candidates that it puts lower, a tie counting half. The human grade: 10/3 times the grade.
    """
    grades = tuple(round(10 * label / 3, 10) for label in case.draw.labels)
    scores = {"human_grade": Scores((grades[0], grades[1]), "grade|scale:10/3", f"{_HERE}:score_case")}
    for name in OVERLAP:
        metric = METRICS[name]
        values = 10 * np.clip(np.nan_to_num(score_draws(metric, [case.draw], embedder)[0]), 0, 1)
        scores[name] = Scores(_pair(values), f"{metric.signature}|ref:best|scale:10", metric.kernel)
    ids = [answer.id for answer in case.whole.candidates]
    for scorer in case.scorers:
        verdicts = judge_draw(case.whole, scorer, embedder)
        at = [ids.index(candidate.id) for candidate in case.draw.candidates]
        count = len(case.draw.references)
        ranks = to_ten(-verdicts.ranks[at].astype(float), "listwise", count)
        mine = verdicts.scores[at][:, None]
        lower = (verdicts.scores[None, :] < mine).sum(1) + 0.5 * ((verdicts.scores[None, :] == mine).sum(1) - 1)
        mark, kernel = f"judge:{scorer.name}|trained_on:{scorer.trained_on}", "nfqa.metrics.listwise:judge_draw"
        scores[f"linkage_embedded_{scorer.name}"] = Scores(
            _pair(10 * lower / max(1, len(ids) - 1)), f"{mark}|out:share_put_lower|scale:10", kernel
        )
        scores[f"linkage_embedded_{scorer.name}_rank"] = Scores(_pair(ranks), f"{mark}|out:rank|scale:10", kernel)
    return scores


def ask_case(lab: JudgedLab, case: Case) -> dict[str, Scores]:
    """The language model's methods by system, on the scale from 0 to 10; nothing when the judge is embedded."""
    judge = lab.judge
    if judge is None:
        return {}
    scores = {}
    for system, method in _ASKED.items():
        (judgement,) = judge_draws([case.draw], method, judge)
        signature = f"judge:{judge.asker.identity}|method:{method}|{judge.sign(method)}|scale:10"
        values = to_ten(judgement.scores, method, len(case.draw.references))
        scores[system.format(find_family(lab))] = Scores(_pair(values), signature, KERNEL)
    return scores


def name_missing(lab: JudgedLab) -> list[str]:
    """The systems that only a language model could fill, when there is none."""
    return [system.format("judge") for system in _ASKED] if lab.judge is None else []


def make_score_rows(case: Case, scores: Mapping[str, Scores]) -> list[Row]:
    """Two rows a method: candidate A and candidate B."""
    return [
        _make_row(case, system, side, value, entry.signature, entry.kernel)
        for system, entry in scores.items()
        for side, value in zip(SIDES, entry.values, strict=True)
    ]


def make_sketch_rows(case: Case) -> list[Row]:
    """What each way of judging asks for one candidate: requests, and words of question and answers that are read."""
    length = count_words(case)
    references = [length[f"reference_{n}"] for n in range(1, len(case.draw.references) + 1)]
    both = length["question"] + length["candidate_a"]
    facts = {
        "judging_pointwise": (1, both),
        "judging_pointwise_ref": (1, both + sum(references)),
        "judging_pairwise": (len(references), len(references) * both + sum(references)),
        "judging_listwise": (1, both + sum(references)),
    }
    kernel = f"{_HERE}:make_sketch_rows"
    rows = [
        _make_row(case, system, metric, value, "for:candidate_a", kernel)
        for system, values in facts.items()
        for metric, value in zip(("requests", "words_read"), values, strict=True)
    ]
    rows += [_make_row(case, "word_count", part, value, "split:blanks", kernel) for part, value in length.items()]
    return rows


def make_detail_rows(case: Case, embedder: Embedder) -> list[Row]:
    """Grade, words, and likeness to each reference; the embedded judge's score of every text of the list."""
    rows = [
        _make_row(case, "word_count", part, n, "split:blanks", f"{_HERE}:count_words")
        for part, n in count_words(case).items()
    ]
    for part, answer in name_answers(case).items():
        rows.append(_make_row(case, "human_grade", part, answer.label, "grade", f"{_HERE}:make_detail_rows"))
    vectors = embedder.embed_sentences([a.text for a in (*case.draw.candidates, *case.draw.references)]).astype(float)
    cosines = vectors[:2] @ vectors[2:].T
    rouge = METRICS["rouge1"]
    for number, reference in enumerate(case.draw.references, start=1):
        against = rouge.score([(c.text, reference.text) for c in case.draw.candidates], None)
        for side, shared, cosine in zip(SIDES, against, cosines[:, number - 1], strict=True):
            metric = f"{side}_reference_{number}"
            rows.append(_make_row(case, "rouge1", metric, np.nan_to_num(shared), rouge.signature, rouge.kernel))
            rows.append(
                _make_row(case, "sentence_cosine", metric, round(cosine, 6), "cosine", f"{_HERE}:make_detail_rows")
            )
    for scorer in case.scorers:
        references, candidates = describe_draw(case.draw, embedder)
        scores = np.round(np.concatenate([references, candidates]) @ scorer.weights, 10)
        mark = f"judge:{scorer.name}|trained_on:{scorer.trained_on}|out:score"
        for part, value in zip(name_answers(case), scores, strict=True):
            system = f"linkage_embedded_{scorer.name}"
            rows.append(_make_row(case, system, part, value, mark, "nfqa.metrics.listwise:describe_draw"))
    return rows


def count_words(case: Case) -> dict[str, int]:
    """Words of the question and of every text, by part."""
    counts = {part: len(answer.text.split()) for part, answer in name_answers(case).items()}
    return {"question": len(case.draw.question.text.split()), **counts}


def name_answers(case: Case) -> dict[str, Answer]:
    """The list's references and the two candidates, by the names that they have in rows."""
    references = {f"reference_{n}": answer for n, answer in enumerate(case.draw.references, start=1)}
    return references | dict(zip(SIDES, case.draw.candidates, strict=True))


def _pair(values: Sequence[float] | np.ndarray) -> tuple[float | None, float | None]:
    first, second = (None if np.isnan(value) else round(float(value), 10) for value in values)
    return first, second


def _make_row(case: Case, system: str, metric: str, value: float | None, signature: str, kernel: str) -> Row:
    return Row(
        system=system, dataset=case.dataset.name, metric=metric, value=value,
        signature=f"{system}|{signature}|{case.mark}|v1", kernels=(kernel,), origin=case.dataset.origin,
    )  # fmt: skip
