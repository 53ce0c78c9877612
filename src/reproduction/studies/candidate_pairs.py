"""Comparing every two candidates of a question by a language model: pairwise judging without references."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from nfqa.kernels.parse import CHOICES, Verdict
from nfqa.metrics.judging import LanguageJudge, ask_planned, list_scores, read_verdict, trim_text
from nfqa.metrics.references import list_candidates
from nfqa.models.chat import Request


def judge_candidates(draws: pd.DataFrame, judge: LanguageJudge | None, *, named: str = "judge") -> pd.DataFrame:
    """A language model's comparisons of every two candidates of a draw, as each candidate's share of wins.

    Score = (1 + mean of f) / 2, from 0 to 1, over the comparisons with every other candidate, each asked for in both
    orders, so that n candidates take n (n - 1) requests; f is 1 for a win, -1 for a loss and 0 for a tie, or from
    logits what is expected of it. One that can't be read counts for neither candidate.

    Args, Returns: as `nfqa.metrics.judging.judge_by_language_model`, with the metric "pairwise_candidates". A verdict
        is counted at both of its candidates; an only candidate is missing as "fewer_than_two".
    Source: LINKAGE, equation 2. Differs from: it, in that the sum of f is put on a scale from 0 to 1 by the number of
        comparisons read, and that both orders are asked for, where it names none.
    """
    if judge is None or draws.empty:
        return pd.DataFrame()
    rows = list_candidates(draws.assign(place=range(len(draws))), texts=True)
    rows = rows.loc[rows.missing == "", ["place", "answer", "text"]]
    pairs = rows.merge(rows, on="place", suffixes=("_a", "_b")).query("answer_a != answer_b").reset_index(drop=True)
    texts = {text: trim_text(text, judge) for text in pd.concat([pairs.text_a, pairs.text_b]).unique()}
    planned: list[Request | Verdict] = []
    for place, a, b in zip(pairs.place, pairs.text_a.map(texts), pairs.text_b.map(texts), strict=True):
        question = draws.draw.iloc[place].question
        prompt = judge.prompts.render("pairwise", question=trim_text(question.text, judge), answer_a=a, answer_b=b)
        asked = Request(prompt, judge.seed, tuple(CHOICES), f"pairwise|{question.key}")
        planned.append(asked if a.strip() and b.strip() else Verdict(None, "no_text"))
    read = partial(read_verdict, pick=judge.prompts.get("pairwise").pick)
    first = pairs[["place"]].assign(answer=pairs.answer_a).join(ask_planned(planned, judge, read))
    second = first.assign(answer=pairs.answer_b, value=-first.value)
    verdicts = pd.concat([first, second]).rename(columns={"place": "draw"})
    how = f"judge:{judge.asker.identity}|method:pairwise_candidates|{judge.sign('pairwise')}|order:both"
    rows = list_scores(draws, verdicts, how, metric="pairwise_candidates", judge=named, shots=np.nan)
    return rows.assign(score=(1 + rows.score) / 2)
