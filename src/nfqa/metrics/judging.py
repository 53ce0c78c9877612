"""A language model as judge: pointwise, pairwise against each reference, and listwise (LINKAGE), over draws."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.data.records import Answer, Question
from nfqa.judge.asking import Asker, Verdict
from nfqa.judge.prompts import PromptSet, Shot
from nfqa.kernels.parse import Pick, Reading, expect_value, read_choice, read_number
from nfqa.metrics.references import Draw, draw_list, list_candidates, sign
from nfqa.models.chat import Reply, Request

Method = Literal["pointwise", "pointwise_ref", "pairwise", "listwise"]
Order = Literal["drawn", "candidate_first", "reference_first"]
TooLong = Literal["cut_tail", "refuse"]
MAX_WORDS = 1_000  # of one text; the longest of the released data has 763
LEAST_MASS = 1e-6  # of the next token's distribution on verdicts: with less, a reading from logits is noise
EQUAL_WEIGHTS = (1.0, 1.0, 1.0, 1.0)  # of a reference of grade 0, 1, 2, 3
CHARACTERS_A_WORD = 20  # a text of few, endless words is too long as well
_SHOT_GRADES = (3, 1, 2, 0)
_SHOT_SEED = 2_000  # apart from any evaluation seed and from the seeds of the embedded judge's training


@dataclass
class LanguageJudge:
    """A model that is asked, the prompts it is asked with, and what happens to a text that is too long.

    A text is too long with more than `max_words` words, or CHARACTERS_A_WORD times as many characters. `cut` counts
    those that were cut there ("cut_tail"); with "refuse" their verdict is missing instead.
    """

    asker: Asker
    prompts: PromptSet
    max_words: int = MAX_WORDS
    too_long: TooLong = "cut_tail"
    seed: int = 0
    cut: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.too_long not in get_args(TooLong) or self.max_words < 1:
            raise ValueError(
                f"too_long is {self.too_long!r} and max_words is {self.max_words};"
                f" expected one of {', '.join(get_args(TooLong))}, and 1 or more"
            )

    def sign(self, method: Method, *, order: Order = "drawn", weights: Sequence[float] = EQUAL_WEIGHTS) -> str:
        """How verdicts of a method are made, for signatures: prompt and its hash, decoding, cut, seed, retries."""
        made = f"prompt:{self.prompts.signature(method)}|{self.asker.decoding.signature}"
        made += f"|{self.too_long}:{self.max_words}w|seed:{self.seed}|retries:{self.asker.retries}"
        if method == "pairwise":
            made += f"|order:{order}|weights:{','.join(f'{weight:g}' for weight in weights)}"
        return made


@dataclass(frozen=True)
class Judgement:
    """What a judge says of a draw's candidates: `scores`, higher is better, NaN where no verdict could be had.

    `verdicts` holds one entry a request, in order, `owners` the candidate that each is of; `positions`, for pairwise,
    whether the candidate was shown first.
    """

    scores: NDArray[np.float64]  # [n]
    verdicts: tuple[Verdict, ...]
    positions: tuple[bool, ...] = ()
    owners: tuple[int, ...] = ()

    @property
    def missing(self) -> dict[str, int]:
        """Verdicts that could not be had, by reason."""
        return dict(sorted(Counter(v.reason for v in self.verdicts if v.value is None).items()))


@dataclass(frozen=True)
class _Call:
    request: Request
    candidate: int
    first: bool  # pairwise: the candidate is answer A
    weight: float


def judge_draws(
    draws: Sequence[Draw],
    method: Method,
    judge: LanguageJudge,
    *,
    shots: Sequence[Shot] = (),
    order: Order = "drawn",
    weights: Sequence[float] = EQUAL_WEIGHTS,
) -> list[Judgement]:
    """Judge every candidate of every draw; a draw that was dropped, or lacks what a method compares with, asks nothing.

    pointwise: Score = the number from 0 to 10 that the model gives, with references in view or not (equation 1).
    pairwise: Score = sum of w_l f / sum of w_l over the references whose comparison could be read, f = 1 where the
        candidate is preferred, -1 where the reference is, 0 for a tie, w_l the weight of the reference's grade l
        (equations 3 and 4). Which of the two stands first is drawn by hash of (judge seed, question, candidate,
        reference), or fixed by `order`.
    listwise: Score = -rank, rank from 1 to R + 1 among the R references (equation 5).

    Args: shots: solved examples, listwise alone; weights: [grade 0, 1, 2, 3].
    Raises: ValueError for an unknown method or order, shots with another method than listwise, or weights that are not
        four finite numbers, 0 or more and not all 0.
    Source: LINKAGE, equations 1 to 5. Differs from: it names no weights, and equal ones are used; the sum is divided
        by the weights in it, so that a comparison that can't be read counts neither as a tie nor as a loss.
    """
    if method not in get_args(Method) or order not in get_args(Order):
        raise ValueError(
            f"method is {method!r} and order is {order!r}; known: {', '.join(get_args(Method))};"
            f" {', '.join(get_args(Order))}"
        )
    if shots and method != "listwise":
        raise ValueError(f"{len(shots)} shots for the method {method}; only listwise takes solved examples")
    if len(weights) != 4 or not np.isfinite(weights).all() or min(weights) < 0 or not any(weights):
        raise ValueError(f"weights are {tuple(weights)}; expected four numbers, of grades 0 to 3, 0 or more, not all 0")
    plans = [_plan(draw, method, judge, shots, order, weights) for draw in draws]
    flat = [call.request for plan in plans for call in plan]
    verdicts = judge.asker.ask(flat, partial(_read, method, judge.prompts.get(method).pick))
    judgements, start = [], 0
    for draw, plan in zip(draws, plans, strict=True):
        judgements.append(_score(draw.candidates, plan, verdicts[start : start + len(plan)], method, judge.too_long))
        start += len(plan)
    return judgements


def judge_by_language_model(
    draws: pd.DataFrame,
    judge: LanguageJudge | None,
    method: Method,
    *,
    named: str = "judge",
    shots: Mapping[str, Sequence[Shot]] | None = None,
) -> pd.DataFrame:
    """A language model's scores of every candidate of every draw, as `judge_draws` gives them.

    Args: draws: as `nfqa.metrics.references.draw_references` gives them, perhaps with columns of conditions; judge:
        None where no language model fills the role, for an empty frame; named: what the column `judge` calls it; shots:
        solved examples for each dataset, listwise alone.
    Returns: a row a candidate: the columns of `draws` but for `draw`, answer, grade, metric (the method), judge, shots,
        score, missing (why there is no score), verdicts (wanted), unreadable (of these, the reasons of those that could
        not be had), mass (of the next token's distribution on verdicts, from logits) and signature.
    """
    if judge is None or draws.empty:
        return pd.DataFrame()
    candidates = list_candidates(draws)
    frames = []
    for dataset, part in draws.groupby("dataset", sort=False):
        examples = tuple((shots or {}).get(str(dataset), ()))
        rows = candidates[candidates.dataset == dataset].copy()
        found = judge_draws(list(part.draw), method, judge, shots=examples)
        judged = pd.DataFrame([row for judgement in found for row in _list_judged(judgement)], columns=_JUDGED)
        kept = rows.missing == ""
        rows[list(_JUDGED)] = [np.nan, "", 0, "", np.nan]
        if kept.any():
            rows.loc[kept, list(_JUDGED)] = judged.to_numpy()
        rows["missing"] = np.where(kept, rows.why, rows.missing)
        signature = sign(rows, f"judge:{judge.asker.identity}|method:{method}|{judge.sign(method)}")
        frames.append(
            rows.drop(columns="why").assign(metric=method, judge=named, shots=len(examples), signature=signature)
        )
    scored = pd.concat(frames, ignore_index=True)
    return scored.astype({"score": float, "verdicts": int, "mass": float})


_JUDGED = ("score", "why", "verdicts", "unreadable", "mass")


def _list_judged(judgement: Judgement) -> list[tuple[float, str, int, str, float]]:
    rows = []
    for place, score in enumerate(judgement.scores):
        own = [v for v, owner in zip(judgement.verdicts, judgement.owners, strict=True) if owner == place]
        reasons = [verdict.reason for verdict in own if verdict.value is None]
        masses = [verdict.mass for verdict in own if verdict.mass is not None]
        mass = float(np.mean(masses)) if masses else float("nan")
        rows.append((float(score), reasons[0] if np.isnan(score) else "", len(own), "; ".join(reasons), mass))
    return rows


def count_verdicts(scores: pd.DataFrame, *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Values of how many verdicts could not be had, and from logits the mean mass on verdicts.

    Args: scores: as `judge_by_language_model` gives them; by: the conditions, all columns that are of no single answer,
        question or seed where empty.
    Returns: a row for each set of conditions and statistic: `missing_verdicts`, a share, with n, dropped and
        dropped_because; `verdict_mass`.
    """
    from nfqa.metrics.statistics import OF_AN_ANSWER

    if scores.empty:
        return pd.DataFrame()
    keys = list(by) or [name for name in scores.columns if name not in (*OF_AN_ANSWER, "question", "seed")]
    rows: list[dict[str, object]] = []
    for key, group in scores.groupby(keys, sort=False, dropna=False):
        reasons = Counter(reason for text in group.unreadable for reason in text.split("; ") if reason)
        wanted, lost = int(group.verdicts.sum()), sum(reasons.values())
        own = dict(zip(keys, key, strict=True))
        rows.append(own | {
            "statistic": "missing_verdicts", "value": lost / wanted if wanted else np.nan, "n": wanted - lost,
            "dropped": lost, "dropped_because": "; ".join(f"{reason} {n}" for reason, n in sorted(reasons.items())),
        })  # fmt: skip
        if group.mass.notna().any():
            rows.append(own | {"statistic": "verdict_mass", "value": group.mass.mean(), "n": int(group.mass.count())})
    return pd.DataFrame(rows)


def make_shots(
    questions: Sequence[Question], composition: Sequence[int], *, count: int, seed: int = 0
) -> tuple[Shot, ...]:
    """Solved examples for listwise prompts, from questions that are not evaluated.

    Questions are taken in the order of a hash of (seed, question), those that can fill the composition before those
    that can't, each once before any serves again; the candidates' grades go round 3, 1, 2, 0 as far as a question has
    them, so that a few examples show different ranks. A candidate's rank is 1 plus the number of references of a
    higher grade: it stands before references of its own.
    Raises: ValueError when there are fewer candidates than `count`.
    """
    draws = [draw_list(question, composition, seed=_SHOT_SEED + seed) for question in questions]
    short = {draw.question.key: len(draw.references) < len(composition) for draw in draws}
    draws.sort(key=lambda draw: (short[draw.question.key], _hash(f"shot|{seed}|{draw.question.key}")))
    left = {draw.question.key: list(draw.candidates) for draw in draws if draw.references}
    shots: list[Shot] = []
    while len(shots) < count and any(left.values()):
        for draw in draws:
            candidates = left.get(draw.question.key)
            if not candidates or len(shots) == count:
                continue
            turn = _SHOT_GRADES[len(shots) % 4 :] + _SHOT_GRADES[: len(shots) % 4]
            name = f"shot|{seed}|{draw.question.key}"
            chosen = min(candidates, key=lambda a: (turn.index(a.label), _hash(f"{name}|{a.id}")))
            candidates.remove(chosen)
            rank = 1 + sum(reference.label > chosen.label for reference in draw.references)
            texts = tuple(reference.text for reference in draw.references)
            shots.append(Shot(draw.question.text, texts, chosen.text, f"[[{rank}]]"))
    if len(shots) < count:
        raise ValueError(f"{count} shots wanted, but the questions leave only {len(shots)} candidates to show")
    return tuple(shots)


def to_ten(scores: NDArray, method: Method, references: int) -> NDArray[np.float64]:
    """A method's scores on one scale from 0 (worst) to 10 (best); pointwise scores are there already."""
    if method == "pairwise":
        return 5 * (np.asarray(scores) + 1)
    if method == "listwise":
        return 10 * (references + 1 + np.asarray(scores)) / references
    return np.asarray(scores, dtype=np.float64)


def _plan(
    draw: Draw, method: Method, judge: LanguageJudge, shots: Sequence[Shot], order: Order, weights: Sequence[float]
) -> list[_Call]:
    if draw.dropped or (method != "pointwise" and not draw.references):
        return []
    question = trim_text(draw.question.text, judge)
    shown = () if method == "pointwise" else draw.references
    references = [trim_text(reference.text, judge) for reference in shown]
    refused = judge.too_long == "refuse" and None in (question, *references)
    group = f"{method}|{draw.question.key}"
    calls = []
    for number, answer in enumerate(draw.candidates):
        candidate = trim_text(answer.text, judge)
        if refused or candidate is None or not candidate.strip() or question is None:
            continue
        if method == "pairwise":
            for reference, text in zip(draw.references, references, strict=True):
                if weights[reference.label]:
                    name = f"{judge.seed}|{draw.question.key}|{answer.id}|{reference.id}"
                    first = order == "candidate_first" or (order == "drawn" and _hash(name)[0] % 2 == 0)
                    pair = (candidate, text) if first else (text, candidate)
                    prompt = judge.prompts.render(method, question=question, answer_a=pair[0], answer_b=pair[1])
                    request = Request(prompt, judge.seed, ("A", "B", "C"), group)
                    calls.append(_Call(request, number, first, weights[reference.label]))
            continue
        texts = tuple(text for text in references if text is not None)
        top = len(references) + 1
        labels = tuple(str(n) for n in (range(1, top + 1) if method == "listwise" else range(11)))
        prompt = judge.prompts.render(
            method, question=question, candidate=candidate, references=texts, shots=tuple(shots)
        )
        calls.append(_Call(Request(prompt, judge.seed, labels, group), number, True, 1.0))
    return calls


def _read(method: Method, pick: Pick, reply: Reply, request: Request) -> Reading:
    if reply.logprobs is not None:
        values = (1.0, -1.0, 0.0) if method == "pairwise" else tuple(float(label) for label in request.labels)
        try:
            found = expect_value(reply.logprobs, values)
        except ValueError:  # a NaN, or more than certain: one bad reply is a missing verdict, not the end of a run
            return Reading(None, "bad_logprobs")
        return found if found.mass is None or found.mass >= LEAST_MASS else Reading(None, "no_mass", found.mass)
    if method == "pairwise":
        return read_choice(reply.text, pick=pick)
    lowest, highest = int(request.labels[0]), int(request.labels[-1])
    return read_number(reply.text, lowest=lowest, highest=highest, whole=method == "listwise", pick=pick)


def _score(
    candidates: Sequence[Answer],
    plan: Sequence[_Call],
    verdicts: Sequence[Verdict],
    method: Method,
    too_long: TooLong,
) -> Judgement:
    total, weight = np.zeros(len(candidates)), np.zeros(len(candidates))
    for call, verdict in zip(plan, verdicts, strict=True):
        if verdict.value is not None:
            sign = {"pairwise": 1.0 if call.first else -1.0, "listwise": -1.0}.get(method, 1.0)
            total[call.candidate] += call.weight * sign * verdict.value
            weight[call.candidate] += call.weight
    scores = np.divide(total, weight, out=np.full(len(candidates), np.nan), where=weight > 0)
    asked = {call.candidate for call in plan}
    why = "too_long" if too_long == "refuse" else "no_weight"  # else each of the references' grades has weight 0
    reasons = [why if answer.text.strip() else "no_text" for answer in candidates]
    unasked = {number: Verdict(None, reason) for number, reason in enumerate(reasons) if number not in asked}
    positions = tuple(call.first for call in plan) if method == "pairwise" else ()
    owners = (*(call.candidate for call in plan), *unasked)
    return Judgement(scores, (*verdicts, *unasked.values()), positions, owners)


def trim_text(text: str, judge: LanguageJudge) -> str | None:
    """The text, or its first `max_words` words, or None where such a text is refused; counted in `judge.cut`."""
    words, most = text.split(None, judge.max_words), CHARACTERS_A_WORD * judge.max_words
    if len(words) <= judge.max_words and len(text) <= most:
        return text
    judge.cut[judge.too_long] += 1
    if judge.too_long == "refuse":
        return None
    kept = text[: len(text) - len(words[-1])] if len(words) > judge.max_words else text
    return kept.strip()[:most].rstrip()


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
