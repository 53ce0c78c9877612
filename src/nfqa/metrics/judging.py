"""A language model as judge: pointwise, pairwise against each reference, and listwise (LINKAGE),
over draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from nfqa.files.records import Answer
from nfqa.judge.asking import Asker
from nfqa.judge.prompts import PromptSet, Shot
from nfqa.kernels.parse import CHOICES, Pick, Verdict, expect_value, read_digit, read_number, read_preference
from nfqa.metrics.references import Draw, hash_name, list_candidates, list_texts, sign
from nfqa.models.chat import Reply, Request

JudgeMethod = Literal["pointwise", "pointwise_ref", "pairwise", "listwise"]
PairOrder = Literal["drawn", "candidate_first", "reference_first"]
MAX_WORDS = 1_000  # of one text; the longest of the released data has 763
LEAST_MASS = 1e-6  # of the next token's distribution on verdicts: with less, a reading from logits is noise
CHARACTERS_A_WORD = 20  # a text of few, endless words is too long as well
JUDGE_CUT = "a text was cut at its end to fit the judge"  # the note of a score
_CHOICES = tuple(CHOICES)
_LACKS = {"steps": "no_steps", "candidate": "no_text", "question": "no_question"}  # an empty text, why nothing is asked


@dataclass
class LanguageJudge:
    """A model that is asked, the prompts it is asked with, and how long a text may be.

    A text with more than `max_words` words, or CHARACTERS_A_WORD times as many characters, is cut
    there. `cut` counts.
    """

    asker: Asker
    prompts: PromptSet
    max_words: int = MAX_WORDS
    seed: int = 0
    cut: int = 0

    def sign(self, *templates: str) -> str:
        """How verdicts of these templates are made, for signatures: prompts, decoding, cut, seed
        and retries.
        """
        prompts = "+".join(self.prompts.signature(name) for name in templates)
        request = f"{self.asker.signature}|cut_tail:{self.max_words}w"
        return f"prompt:{prompts}|{request}|seed:{self.seed}|retries:{self.asker.retries}"


def trim_text(text: str, judge: LanguageJudge) -> str:
    """The text, or its first `max_words` words; counted in `judge.cut`."""
    if not is_cut(text, judge):
        return text
    judge.cut += 1
    words = text.split(None, judge.max_words)
    most = CHARACTERS_A_WORD * judge.max_words
    start = text[: len(text) - len(words[-1])] if len(words) > judge.max_words else text
    return start.strip()[:most].rstrip()


def is_cut(text: str, judge: LanguageJudge) -> bool:
    """Whether the judge sees no more than the beginning of the text."""
    words = text.split(None, judge.max_words)
    return len(words) > judge.max_words or len(text) > CHARACTERS_A_WORD * judge.max_words


def note_long(read: Sequence[Sequence[str]], judge: LanguageJudge) -> list[str]:
    """The note of each row: whether one of the texts behind it was cut."""
    return [JUDGE_CUT if any(is_cut(text, judge) for text in each) else "" for each in read]


def ask_planned(
    planned: Sequence[Request | Verdict], judge: LanguageJudge, read: Callable[[Reply, Request], Verdict]
) -> pd.DataFrame:
    """Ask the requests; a `Verdict` among them is kept as it is. Returns: value (NaN if missing),
    reason and mass.
    """
    answered = iter(judge.asker.ask([one for one in planned if isinstance(one, Request)], read))
    verdicts = [next(answered) if isinstance(one, Request) else one for one in planned]
    table = pd.DataFrame(verdicts, columns=["value", "reason", "mass"])
    return table.astype({"value": float, "reason": object, "mass": float})


def read_verdict(reply: Reply, request: Request, *, pick: Pick, whole: bool = True, digit: bool = False) -> Verdict:
    """The number or choice that a completion gives, or the expected one from its labels'
    log-probabilities.

    Args: pick, whole: as `nfqa.kernels.parse.read_number`; digit: as `read_digit`, without brackets
        too.
    Returns: a choice as 1 for the text shown first and -1 for the second; from log-probabilities it
        may be missing as "bad_logprobs" or "no_mass".
    """
    if reply.logprobs is not None:
        values = [CHOICES[label] if label in CHOICES else float(label) for label in request.labels]
        verdict = expect_value(reply.logprobs, values)
        return verdict if verdict.mass is None or verdict.mass >= LEAST_MASS else Verdict(None, "no_mass", verdict.mass)
    if reply.finish == "length" and (pick == "only" or digit):  # another verdict may have been on its way
        return Verdict(None, "cut_short")
    if digit:
        return read_digit(reply.text, digits=request.labels)
    if request.labels == _CHOICES:
        return read_preference(reply.text, pick=pick)
    lowest = int(request.labels[0])
    highest = int(request.labels[-1])
    return read_number(reply.text, lowest=lowest, highest=highest, whole=whole, pick=pick)


def judge_draws(
    draws: Iterable[Draw],
    method: JudgeMethod,
    judge: LanguageJudge,
    *,
    shots: Sequence[Shot] = (),
    order: PairOrder = "drawn",
) -> pd.DataFrame:
    """Ask for the verdicts on every candidate of every draw; a draw that was dropped asks nothing.

    pointwise: the number from 0 to 10 that the model gives, with references in view or not
        (equation 1).
    pairwise: f of equation 4 for each reference, 1 where the candidate is preferred, -1 where the
        reference is, 0 for a tie. Which of the two is shown first is drawn by hash of (judge seed,
        question, candidate, reference), or fixed by `order`.
    listwise: -rank, rank from 1 to R + 1 among the R references (equation 5).

    Args: shots: solved examples, listwise alone.
    Returns: one row per verdict: draw (its place), answer, grade, first (whether the candidate was
        shown first, None where nothing was asked), value (higher is better, NaN where there is no
        verdict), reason (why not) and mass (on verdicts, from logits). A candidate that is not
        asked about has one row.
    Raises: ValueError for a reference without a grade in a pairwise comparison.
    Source: LINKAGE, equations 1 and 3 to 5.
    """
    planned = [(place, *one) for place, draw in enumerate(draws) for one in _plan(draw, method, judge, shots, order)]
    read = partial(read_verdict, pick=judge.prompts.get(method).pick, whole=method == "listwise")
    verdicts = ask_planned([request for *_, request in planned], judge, read)
    rows = [(place, answer.id, float(answer.label), first) for place, answer, first, _ in planned]
    table = pd.DataFrame(rows, columns=["draw", "answer", "grade", "first"])
    own_side = -1.0 if method == "listwise" else np.where(table["first"].eq(True), 1.0, -1.0)
    return table.join(verdicts.assign(value=verdicts.value * own_side))


def _plan(
    draw: Draw, method: JudgeMethod, judge: LanguageJudge, shots: Sequence[Shot], order: PairOrder
) -> Iterator[tuple[Answer, bool | None, Request | Verdict]]:
    """The requests about each candidate: whether it is shown first, and a verdict where nothing is
    asked.
    """
    if draw.dropped:
        return
    question = trim_text(draw.question.text, judge)
    references = [trim_text(one.text, judge) for one in (() if method == "pointwise" else draw.references)]
    ranks = range(1, len(references) + 2) if method == "listwise" else range(11)
    labels = _CHOICES if method == "pairwise" else tuple(map(str, ranks))
    request = partial(Request, seed=judge.seed, labels=labels, group=f"{method}|{draw.question.key}")
    ungraded = [one.id for one in draw.references if not 0 <= one.label <= 3]
    if method == "pairwise" and ungraded:
        where = f"reference {ungraded[0]!r} of question {draw.question.id!r}"
        raise ValueError(f"{where} has no grade, by which a comparison counts; give each one from 0 to 3")
    for answer in draw.candidates:
        candidate = trim_text(answer.text, judge)
        if not candidate.strip():
            yield answer, None, Verdict(None, "no_text")
        elif method == "pairwise":
            for reference, text in zip(draw.references, references, strict=True):
                name = f"{judge.seed}|{draw.question.key}|{answer.id}|{reference.id}"
                first = order == "candidate_first" or (order == "drawn" and hash_name(name)[0] % 2 == 0)
                pair = (candidate, text) if first else (text, candidate)
                prompt = judge.prompts.render(method, question=question, answer_a=pair[0], answer_b=pair[1])
                yield answer, first, request(prompt, group=f"{draw.question.key}|{pair[0]}")  # those that begin alike
        else:
            prompt = judge.prompts.render(
                method, question=question, candidate=candidate, references=references, shots=shots
            )
            yield answer, True, request(prompt)


def judge_by_language_model(
    draws: pd.DataFrame,
    judge: LanguageJudge | None,
    method: JudgeMethod,
    *,
    named: str = "judge",
    shots: Mapping[str, Sequence[Shot]] | None = None,
) -> pd.DataFrame:
    """A language model's scores of every candidate of every draw.

    Score = the mean of the verdicts f that could be read (`judge_draws`).

    Args: draws: dataset, draw, and any columns of conditions; judge: None where no language model
        fills the role, for an empty frame; named: what the column `judge` calls it; shots: solved
        examples for each dataset, listwise alone.
    Returns: one row per candidate: the columns of `draws` but for `draw`, answer, grade, metric
        (the method), judge, shots (NaN but for listwise), score, missing (why there is no score),
        verdicts (wanted), unreadable (of these, the reasons of those that failed), mass (of the
        next token's distribution on verdicts, from logits), signature and note (where a text was
        cut).
    Source: LINKAGE, equation 3. Differs from: it, in that references of every grade weigh alike, as
        it names no weights, and that the sum is divided by the verdicts in it, so that a comparison
        that can't be read counts neither as a tie nor as a loss.
    """
    if judge is None or draws.empty:
        return pd.DataFrame()
    frames = []
    for dataset, part in draws.groupby("dataset", sort=False):
        examples = tuple((shots or {}).get(str(dataset), ()))
        verdicts = judge_draws(part.draw, method, judge, shots=examples)
        signature = sign_verdicts(judge, method)  # after asking: a model is known whole once it is open
        count = float(len(examples)) if method == "listwise" else np.nan  # other forms have no examples
        read = [texts for draw in part.draw for texts in list_texts(draw, references=method != "pointwise")]
        about = {"metric": method, "judge": named, "shots": count, "note": note_long(read, judge)}
        frames.append(gather_verdicts(part, verdicts, signature, **about))
    return pd.concat(frames, ignore_index=True)


def gather_verdicts(draws: pd.DataFrame, verdicts: pd.DataFrame, signature: str, **columns: object) -> pd.DataFrame:
    """One row per candidate with the score of its verdicts, as `judge_by_language_model` has it.

    Args: verdicts: as `judge_draws` gives them; signature: how they were made; columns: further
        ones.
    """
    rows = list_candidates(draws.assign(place=range(len(draws))))
    rows = rows.join(score_verdicts(verdicts), on=["place", "answer"]).drop(columns="place")
    rows["missing"] = rows.pop("why").fillna(rows.missing.replace("", "fewer_than_two"))
    rows = rows.fillna({"verdicts": 0, "unreadable": ""}).assign(**columns, signature=sign(rows, signature))
    return rows.astype({"score": float, "verdicts": int, "mass": float})


def score_verdicts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """One row per candidate of what `judge_draws` gives: score, why (there is none), verdicts,
    unreadable and mass.
    """
    read = verdicts.assign(read=verdicts.value.notna(), value=verdicts.value.fillna(0.0))
    groups = read.groupby(["draw", "answer"], sort=False)
    reasons = groups.reason.agg(lambda each: "; ".join(filter(None, each))).astype(str)
    scores = groups.value.sum() / groups.read.sum()
    why = reasons.str.replace("; .*", "", regex=True).where(scores.isna(), "")
    return pd.DataFrame(
        {"score": scores, "why": why, "verdicts": groups.size(), "unreadable": reasons, "mass": groups.mass.mean()}
    )


def sign_verdicts(judge: LanguageJudge, method: JudgeMethod, *, order: PairOrder = "drawn") -> str:
    """How verdicts of `judge_draws` are made, for signatures."""
    signature = f"judge:{judge.asker.identity}|method:{method}|{judge.sign(method)}"
    return signature + f"|order:{order}|weights:1,1,1,1" * (method == "pairwise")


def mark_answers(
    pairs: Sequence[tuple[str, str]], name: str, judge: LanguageJudge, *, steps: str | None = None, digit: bool = False
) -> pd.DataFrame:
    """Ask the judge for its mark of every answer.

    Args: pairs: (question, answer), the question "" where its text isn't known; name: of a template
        with a lowest and a highest mark; steps: of examination, for a prompt with a place for them;
        digit: as `read_verdict`.
    Returns: score (NaN where there is no verdict; from logits the expected mark), missing, verdicts
        (1), unreadable, mass, signature and note (where a text was cut) of each pair. An empty
        answer is not asked for and is missing as "no_text", one without a question's text, where
        the prompt shows it, as "no_question"; where `steps` is "", all as "no_steps".
    """
    texts = [{"steps": steps, "candidate": answer, "question": question} for question, answer in pairs]
    return mark_texts(texts, name, judge, shared="question", digit=digit)


def mark_texts(
    texts: Sequence[Mapping[str, str | None]], name: str, judge: LanguageJudge, *, shared: str, digit: bool = False
) -> pd.DataFrame:
    """Ask the judge for its mark of each group of texts, by placeholder of the template.

    Args: texts: None, or one that the template has no place for, is not shown; shared: the
        placeholder of the text that several requests begin with; name, digit: as `mark_answers`.
    Returns: as `mark_answers`. A request with an empty text is not asked for, and is missing as
        `_LACKS` has it.
    """
    template = judge.prompts.get(name)
    labels = tuple(str(n) for n in range(template.lowest or 0, (template.highest or 0) + 1))
    planned: list[Request | Verdict] = []
    read: list[list[str]] = []
    for each in texts:
        shown = {field: text for field, text in each.items() if text is not None and field in template.placeholders}
        to_cut = [field for field in shown if field != "steps"]  # steps are instructions, which are never cut
        fitting: dict[str, Any] = shown | {field: trim_text(shown[field], judge) for field in to_cut}
        lacking = [reason for field, reason in _LACKS.items() if field in fitting and not fitting[field].strip()]
        read.append([shown[field] for field in to_cut])
        if lacking:
            planned.append(Verdict(None, lacking[0]))
        else:
            prompt = judge.prompts.render(name, **fitting)
            planned.append(Request(prompt, judge.seed, labels, f"{name}|{fitting.get(shared, '')}"))
    verdicts = ask_planned(planned, judge, partial(read_verdict, pick=template.pick, digit=digit))
    marks = {"score": verdicts.value, "missing": verdicts.reason, "verdicts": 1, "unreadable": verdicts.reason}
    signature = f"judge:{judge.asker.identity}|{judge.sign(name)}"  # after asking: a model is known once it is open
    return pd.DataFrame(marks | {"mass": verdicts.mass, "signature": signature, "note": note_long(read, judge)})
