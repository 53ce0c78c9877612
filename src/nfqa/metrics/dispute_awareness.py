"""Dispute Awareness (D.A.): whether an answer makes its reader aware that the question is disputed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from nfqa.metrics.dispute_detector import Detector
from nfqa.metrics.dispute_rules import Rule, apply_rule
from nfqa.metrics.judging import LanguageJudge, mark_answers

Form = Literal["dispute_awareness", "dispute_awareness_zero_shot", "dispute_awareness_question"]  # names of templates


def score_awareness(
    answers: pd.DataFrame, by: Detector | LanguageJudge | Rule, *, form: Form = "dispute_awareness"
) -> pd.DataFrame:
    """D.A. of each answer, 1 where it makes its reader aware of the dispute and 0 where not: one
    row an answer.

    Args: answers: dataset, question, text (NaN where a system gave no answer), question_text where
        it is known (a language model alone is shown it, and only by a prompt with a place for it),
        and any columns that name the answer; by: the detector, a language model with prompts for
        D.A. (prompts/own or prompts/upstream), or a keyword rule; form: of the prompt.
    Returns: the columns of `answers` but text, question_text and grade; metric ("da"), method
        ("detector", "judge" or the rule), score, probability (of 1; NaN for a rule), missing
        ("no_answer", or the verdict's reason, such as "no_question"), signature and note (where a
        text was cut).
    Raises: as `judge_awareness`.
    """
    present = answers["text"].notna().to_numpy()
    texts = answers["text"].fillna("").tolist()
    if isinstance(by, LanguageJudge):
        marks = judge_awareness(pair_texts(answers), by, form=form)
        marks = marks.assign(method="judge", probability=marks.score, score=decide(marks.score))
    elif isinstance(by, Detector):
        marks = by.decide(texts).assign(method="detector", missing="", signature=by.signature)
    else:
        marks = pd.DataFrame({"score": apply_rule(texts, by), "probability": np.nan})
        marks = marks.assign(method=by, missing="", signature=f"rule:{by}", note="")
    marks = marks.astype({"score": float})
    marks.loc[~present, ["score", "probability", "missing"]] = [np.nan, np.nan, "no_answer"]
    names = answers.drop(columns=["text", "question_text", "grade"], errors="ignore").reset_index(drop=True)
    return names.assign(metric="da").join(marks[["method", "score", "probability", "missing", "signature", "note"]])


def judge_awareness(
    pairs: Sequence[tuple[str, str]], judge: LanguageJudge, *, form: Form = "dispute_awareness"
) -> pd.DataFrame:
    """Ask the judge of every answer whether it is aware of the dispute: 1, or 0.

    Args: pairs: (question, answer), the question "" where its text isn't known; judge: whose
        prompts have templates of the forms' names, as prompts/own; form: with three demonstrations,
        the same text without them, or (this project's) with the demonstrations and the question
        shown. Both forms of the released prompt show the question.
    Returns: as `mark_answers`; score is the probability of 1: from text 0 or 1, from logits P("1")
        / (P("0") + P("1")) after a forced `[[`. An empty answer is not asked for and is missing as
        "no_text", one that is too long is cut or missing as the judge has it; a completion without
        a digit is "unreadable", one with both "ambiguous".
    Raises: ValueError for a reading from logits with a prompt that asks for no `[[`, as the
        released one.
    Source: DebateQA, section 4 and Table 14. Differs from: the released prompt, unless that is
        asked for: this one shows the question only under "dispute_awareness_question"; it counts as
        aware also an answer that attributes opposing positions to those who hold them, where the
        released one wants an explicit statement; its three demonstrations are others, 0, 1 and 0
        for 1, 0 and 0; and the digit comes in double brackets. The released script looks for the
        digit in prompt and completion together, and finds that of its own first demonstration,
        whatever the reply; here the completion alone is read, under either prompt.
    """
    template = judge.prompts.get(form)
    if judge.asker.decoding.reading == "logits" and "[[" not in template.text:
        raise ValueError(f"prompt {template.signature} asks for a bare digit: it has no reading from logits after [[")
    return mark_answers(pairs, form, judge, digit=True)


def pair_texts(answers: pd.DataFrame) -> list[tuple[str, str]]:
    """Each answer's question and text, "" for what is not there."""
    both = answers.reindex(columns=["question_text", "text"]).astype(object).fillna("")
    return list(both.itertuples(index=False, name=None))


def decide(probabilities: pd.Series) -> pd.Series:
    """0 or 1, NaN without a verdict."""
    return (probabilities >= 0.5).astype(float).where(probabilities.notna())
