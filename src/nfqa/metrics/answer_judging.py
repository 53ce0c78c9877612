"""A language model's marks for answers to debatable questions: the prompted baselines that P.D. is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.judge.asking import Asker, Verdict
from nfqa.judge.prompts import Template
from nfqa.kernels.parse import Reading, expect_value, read_number
from nfqa.metrics.judging import LEAST_MASS, LanguageJudge, trim_text
from nfqa.models.chat import Reply, Request

Baseline = Literal["direct_score", "g_eval", "count_povs", "delphi_comprehensiveness", "delphi_acknowledgement"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)


@dataclass(frozen=True)
class Marks:
    """Marks of answers, [n], higher is better, NaN where no verdict could be had, with the verdicts in order."""

    scores: NDArray[np.float64]
    verdicts: tuple[Verdict, ...]
    signature: str

    @property
    def missing(self) -> dict[str, int]:
        """Verdicts that could not be had, by reason."""
        return dict(sorted(Counter(verdict.reason for verdict in self.verdicts if verdict.value is None).items()))


def judge_answers(
    answers: pd.DataFrame,
    questions: Mapping[str, str],
    judge: LanguageJudge | None,
    *,
    named: str = "judge",
    baselines: Sequence[Baseline] = BASELINES,
    writer: Asker | None = None,
) -> pd.DataFrame:
    """A language model's marks of every answer: one row an answer and baseline, as `mark_answers` has them.

    Args: answers: dataset, question, text (NaN where a system gave none), and any columns that name the answer;
        questions: their texts by the column `question`; judge: None where no language model fills the role, for an
        empty frame; named: what the column `judge` calls it; writer: as `mark_answers`.
    Returns: the columns of `answers` but text and grade; metric (the baseline), judge, score, missing (why there is no
        score), verdicts (wanted), unreadable, mass and signature, as `nfqa.metrics.judging.judge_by_language_model`.
    """
    if judge is None or answers.empty:
        return pd.DataFrame()
    texts = answers["text"].fillna("")
    pairs = [(questions[name], text) for name, text in zip(answers["question"], texts, strict=True)]
    names = answers.drop(columns=["text", "grade"], errors="ignore").reset_index(drop=True)
    frames = []
    for baseline in baselines:
        marks = mark_answers(pairs, baseline, judge, writer=writer)
        missing = ["" if verdict.value is not None else verdict.reason for verdict in marks.verdicts]
        masses = np.array([verdict.mass for verdict in marks.verdicts], dtype=np.float64)
        frames.append(names.assign(
            metric=baseline, judge=named, score=marks.scores, missing=missing, verdicts=1, unreadable=missing,
            mass=masses, signature=marks.signature,
        ))  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def mark_answers(
    pairs: Sequence[tuple[str, str]], baseline: Baseline, judge: LanguageJudge, *, writer: Asker | None = None
) -> Marks:
    """Ask the judge for its mark of every answer.

    direct_score: a mark from 1 to 5. g_eval: likewise, after steps of examination that the model itself wrote first,
    once for all answers; read from logits it is the expected mark, sum of p_i i, as G-Eval has it. count_povs: the
    number of points of view, 0 to 20. delphi_comprehensiveness and delphi_acknowledgement: 1 for an answer that shows
    opposing views, and for one that admits the dispute, else 0.

    Args: pairs: (question, answer); judge: whose prompts have templates of these names, as prompts/own; writer: who
        writes g_eval's steps, by default the judge, which can't where it is read from logits.
    Returns: marks; an empty answer is not asked for and is missing as "no_text", one that is too long is cut or
        missing as the judge has it; where g_eval's steps could not be written every mark is missing as "no_steps".
    Raises: ValueError for an unknown baseline, or g_eval from logits without a writer.
    Source: DebateQA, section B.1.2; Liu et al. (2023) for G-Eval; Sun et al. (2023) for DELPHI's two. Differs from:
        them, in the words of the prompts; G-Eval's weighting needs logits, and is a single mark where they are not
        read.
    """
    if baseline not in BASELINES:
        raise ValueError(f"baseline is {baseline!r}; expected one of {', '.join(BASELINES)}")
    template = judge.prompts.get(baseline)
    steps = _write_steps(judge, writer or judge.asker) if baseline == "g_eval" else None
    labels = tuple(str(n) for n in range(template.lowest or 0, (template.highest or 0) + 1))
    planned: list[Request | Verdict] = []
    for question, answer in pairs:
        shown = [trim_text(question, judge), trim_text(answer, judge)]
        if baseline == "g_eval" and steps is None:
            planned.append(Verdict(None, "no_steps"))
        elif not answer.strip():
            planned.append(Verdict(None, "no_text"))
        elif shown[0] is None or shown[1] is None:
            planned.append(Verdict(None, "too_long"))
        else:
            prompt = judge.prompts.render(baseline, question=shown[0], candidate=shown[1], steps=steps)
            planned.append(Request(prompt, judge.seed, labels, f"{baseline}|{question}"))
    return Marks(*ask_planned(planned, judge, partial(_read, template)), sign_marks(baseline, judge))


def ask_planned(
    planned: Sequence[Request | Verdict], judge: LanguageJudge, read: Callable[[Reply, Request], Reading]
) -> tuple[NDArray[np.float64], tuple[Verdict, ...]]:
    """Ask the requests; a `Verdict` among them is kept as it is. Returns values, [n], NaN if missing, and verdicts."""
    answered = iter(judge.asker.ask([one for one in planned if isinstance(one, Request)], read))
    verdicts = tuple(next(answered) if isinstance(one, Request) else one for one in planned)
    return np.array([verdict.value for verdict in verdicts], dtype=np.float64), verdicts


def sign_marks(baseline: Baseline, judge: LanguageJudge) -> str:
    """How marks are made, as `sign_asked`."""
    names = ("g_eval_steps", baseline) if baseline == "g_eval" else (baseline,)
    return sign_asked(judge, *names)


def sign_asked(judge: LanguageJudge, *templates: str) -> str:
    """How verdicts of these templates are made: model, prompts and their hashes, decoding, cut, seed, retries."""
    prompts = "+".join(judge.prompts.signature(name) for name in templates)
    asked = f"{judge.asker.decoding.signature}|{judge.too_long}:{judge.max_words}w"
    return f"judge:{judge.asker.identity}|prompt:{prompts}|{asked}|seed:{judge.seed}|retries:{judge.asker.retries}"


def read_logprobs(logprobs: Sequence[float], request: Request) -> Reading:
    """The expected label from the labels' log-probabilities; missing as "bad_logprobs" or "no_mass"."""
    try:
        found = expect_value(logprobs, [float(label) for label in request.labels])
    except ValueError:  # a NaN, or more than certain: one bad reply is a missing verdict, not the end of a run
        return Reading(None, "bad_logprobs")
    return found if found.mass is None or found.mass >= LEAST_MASS else Reading(None, "no_mass", found.mass)


def _write_steps(judge: LanguageJudge, writer: Asker) -> str | None:
    if writer.decoding.reading != "text":
        raise ValueError("g_eval needs a writer for its steps: one that is read from logits writes no text")
    (written,) = writer.write([judge.prompts.get("g_eval_steps").text], seed=judge.seed)
    return written or ("1. Give the mark." if writer.dry else None)  # a plan counts the marks that the steps lead to


def _read(template: Template, reply: Reply, request: Request) -> Reading:
    if reply.logprobs is not None:
        return read_logprobs(reply.logprobs, request)
    lowest, highest = int(request.labels[0]), int(request.labels[-1])
    return read_number(reply.text, lowest=lowest, highest=highest, pick=template.pick)
