"""A language model's marks for answers to debatable questions: the prompted baselines that P.D. is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, get_args

import pandas as pd

from nfqa.judge.asking import Asker
from nfqa.kernels.parse import Verdict
from nfqa.metrics.judging import LanguageJudge, ask_planned, read_verdict, trim_text
from nfqa.models.chat import Request

Baseline = Literal["direct_score", "g_eval", "count_povs", "delphi_comprehensiveness", "delphi_acknowledgement"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)


def judge_answers(
    answers: pd.DataFrame,
    questions: Mapping[str, str],
    judge: LanguageJudge | None,
    *,
    named: str = "judge",
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
    frames = [
        names.assign(metric=baseline, judge=named).join(mark_answers(pairs, baseline, judge, writer=writer))
        for baseline in BASELINES
    ]
    return pd.concat(frames, ignore_index=True)


def mark_answers(
    pairs: Sequence[tuple[str, str]],
    baseline: str,
    judge: LanguageJudge,
    *,
    writer: Asker | None = None,
    digit: bool = False,
) -> pd.DataFrame:
    """Ask the judge for its mark of every answer.

    direct_score: a mark from 1 to 5. g_eval: likewise, after steps of examination that the model itself wrote first,
    once for all answers; read from logits it is the expected mark, sum of p_i i, as G-Eval has it. count_povs: the
    number of points of view, 0 to 20. delphi_comprehensiveness and delphi_acknowledgement: 1 for an answer that shows
    opposing views, and for one that admits the dispute, else 0.

    Args: pairs: (question, answer), the question "" where its text isn't known; baseline: one of BASELINES, or
        another template with a lowest and a highest mark; judge: whose prompts have templates of these names, as
        prompts/own; writer: who writes g_eval's steps, by default the judge, which can't where it is read from logits;
        digit: as `read_verdict`.
    Returns: score (NaN where no verdict could be had), missing, verdicts (1), unreadable, mass and signature of each
        pair; an empty answer is not asked for and is missing as "no_text", one without a question's text, where the
        prompt shows it, as "no_question"; where g_eval's steps could not be written every mark is missing as
        "no_steps".
    Raises: ValueError for g_eval from logits without a writer.
    Source: DebateQA, section B.1.2; Liu et al. (2023) for G-Eval; Sun et al. (2023) for DELPHI's two. Differs from:
        them, in the words of the prompts; G-Eval's weighting needs logits, and is a single mark where they are not
        read.
    """
    template = judge.prompts.get(baseline)
    asked = ("g_eval_steps", baseline) if baseline == "g_eval" else (baseline,)
    steps = _write_steps(judge, writer or judge.asker) if baseline == "g_eval" else None
    labels = tuple(str(n) for n in range(template.lowest or 0, (template.highest or 0) + 1))
    asks = "question" in template.placeholders
    planned: list[Request | Verdict] = []
    for question, answer in pairs:
        shown, candidate = trim_text(question, judge) if asks else None, trim_text(answer, judge)
        if baseline == "g_eval" and steps is None:
            planned.append(Verdict(None, "no_steps"))
        elif not candidate.strip():
            planned.append(Verdict(None, "no_text"))
        elif shown is not None and not shown.strip():
            planned.append(Verdict(None, "no_question"))
        else:
            prompt = judge.prompts.render(baseline, question=shown, candidate=candidate, steps=steps)
            planned.append(Request(prompt, judge.seed, labels, f"{baseline}|{shown or ''}"))
    found = ask_planned(planned, judge, partial(read_verdict, pick=template.pick, digit=digit))
    marks = {"score": found.value, "missing": found.reason, "verdicts": 1, "unreadable": found.reason}
    signature = f"judge:{judge.asker.identity}|{judge.sign(*asked)}"  # after asking: a model is known once it is open
    return pd.DataFrame(marks | {"mass": found.mass, "signature": signature})


def _write_steps(judge: LanguageJudge, writer: Asker) -> str | None:
    if writer.decoding.reading != "text":
        raise ValueError("g_eval needs a writer for its steps: one that is read from logits writes no text")
    (written,) = writer.write([judge.prompts.get("g_eval_steps").text], seed=judge.seed)
    return written or ("1. Give the mark." if writer.dry else None)  # a plan counts the marks that the steps lead to
