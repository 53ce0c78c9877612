"""Dispute Awareness (D.A.): whether an answer makes its reader aware that the question is disputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from nfqa.judge.prompts import PromptSet
from nfqa.kernels.classification import MEASURES, Measure, measure_classification
from nfqa.metrics.answer_judging import mark_answers
from nfqa.metrics.dispute_detector import Detector, open_detector
from nfqa.metrics.dispute_rules import Rule, apply_rule
from nfqa.metrics.judging import LanguageJudge
from nfqa.metrics.statistics import count_reasons, describe_interval, iterate_groups

__all__ = ["compare_decisions", "judge_awareness", "judge_dispute", "open_detector", "score_awareness"]

Form = Literal["dispute_awareness", "dispute_awareness_zero_shot", "dispute_awareness_question"]  # names of templates
_FORMS = dict(zip(get_args(Form), ("demonstrations", "zero_shot", "with_question"), strict=True))


def score_awareness(
    answers: pd.DataFrame, by: Detector | LanguageJudge | Rule, *, form: Form = "dispute_awareness"
) -> pd.DataFrame:
    """D.A. of each answer, 1 where it makes its reader aware of the dispute and 0 where not: one row an answer.

    Args: answers: dataset, question, text (NaN where a system gave no answer), question_text where it is known (a
        language model alone is shown it, and only by a prompt with a place for it), and any columns that name the
        answer; by: the embedded detector, a language model with prompts for D.A. (prompts/own or prompts/upstream), or
        a keyword rule; form: of the prompt.
    Returns: the columns of `answers` but text, question_text and grade; metric ("da"), method ("detector", "judge" or
        the rule), score, probability (of 1; NaN for a rule), missing ("no_answer", or the verdict's reason, such as
        "no_question") and signature.
    Raises: as `judge_awareness`.
    """
    given, texts = answers["text"].notna().to_numpy(), answers["text"].fillna("").tolist()
    if isinstance(by, LanguageJudge):
        marks = judge_awareness(_pair(answers), by, form=form)
        found = marks.assign(method="judge", probability=marks.score, score=_decide(marks.score))
    elif isinstance(by, Detector):
        names = answers["dataset"] + ":" + answers["question"].astype(str)
        found = by.decide(texts, names, [asked for asked, _ in _pair(answers)])
        found = found.assign(method="detector", missing="", signature=by.signature)
    else:
        found = pd.DataFrame({"score": apply_rule(texts, by), "probability": np.nan})
        found = found.assign(method=by, missing="", signature=f"rule:{by}")
    found = found.astype({"score": float})
    found.loc[~given, ["score", "probability", "missing"]] = [np.nan, np.nan, "no_answer"]
    names = answers.drop(columns=["text", "question_text", "grade"], errors="ignore").reset_index(drop=True)
    return names.assign(metric="da").join(found[["method", "score", "probability", "missing", "signature"]])


def judge_dispute(
    answers: pd.DataFrame, judges: Mapping[str, LanguageJudge], *, released: PromptSet | None = None
) -> pd.DataFrame:
    """A language model's decisions on the dispute in each answer, in every way it is asked.

    D.A. with demonstrations and without, and with the question shown, under each reading; with the released prompt, and
    without its demonstrations, read from text; and DELPHI's acknowledgement under the first reading.

    Args: answers: as `score_awareness`; judges: the model by how it is read ("text", "logits"), with prompts as
        prompts/own; none where no language model fills the role, for an empty frame; released: prompts/upstream, None
        to leave the released prompt out.
    Returns: as `score_awareness`, and form ("demonstrations", "zero_shot", "with_question", "released_demonstrations",
        "released_zero_shot", "" for DELPHI) and reading; metric is "da" or "delphi_acknowledgement", whose score is 1
        for a mark of 0.5 or more. One row an answer and way; all but the first two forms show the question, and without
        its text they are missing as "no_question".
    """
    ways = [(reading, "", judge) for reading, judge in judges.items()]
    if released and "text" in judges:
        ways.append(("text", "released_", replace(judges["text"], prompts=released)))
    frames = [
        score_awareness(answers, judge, form=form).assign(form=kind + named, reading=reading)
        for reading, kind, judge in ways
        for form, named in _FORMS.items()
        if form in judge.prompts
    ]
    for reading, judge in list(judges.items())[:1]:
        marks = mark_answers(_pair(answers), "delphi_acknowledgement", judge)
        frames.append(frames[0].assign(
            metric="delphi_acknowledgement", form="", reading=reading, probability=marks.score,
            score=_decide(marks.score), missing=marks.missing, signature=marks.signature,
        ))  # fmt: skip
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def compare_decisions(
    decided: pd.DataFrame,
    *,
    by: Sequence[str],
    against: str = "label",
    measures: Sequence[Measure] = MEASURES,
    over: str = "",
    resamples: int = 1_000,
    seed: int = 0,
) -> pd.DataFrame:
    """How far decisions agree with labels, or with other decisions: one value for each set of conditions and measure.

    Args: decided: score and `against` (0 or 1, NaN without a verdict), the columns of `by`, and where there are any:
        probability (of 1; AUROC ranks by it, and by the score where it is NaN), missing (why there is no score); by:
        the conditions; over: what is resampled as a whole, "" for each row alone.
    Returns: the columns of `by`, statistic (the measure), value, low, high, n, dropped (rows without a verdict on
        either side) and dropped_because, in order of first appearance.
    Source: `nfqa.kernels.classification.measure_classification`.
    """
    rows: list[dict[str, Any]] = []
    for key, group in iterate_groups(decided, by):
        lost = group["score"].isna() | group[against].isna()
        reasons = group.get("missing", pd.Series("", group.index))[lost].replace("", "no_verdict")
        labels, decisions = group[against].fillna(0), group["score"].mask(lost)
        ranks = group.get("probability", decisions).fillna(decisions).mask(lost)
        groups = group[over].tolist() if over else None
        for measure in measures:
            scores = ranks if measure == "auroc" else decisions
            found = measure_classification(
                labels, scores, measure=measure, groups=groups, resamples=resamples, seed=seed
            )
            lacking = {"dropped": found.n_missing, "dropped_because": count_reasons(reasons)}
            rows.append(key | {"statistic": measure} | describe_interval(found, over or "answer") | lacking)
    return pd.DataFrame(rows)


def judge_awareness(
    pairs: Sequence[tuple[str, str]], judge: LanguageJudge, *, form: Form = "dispute_awareness"
) -> pd.DataFrame:
    """Ask the judge of every answer whether it is aware of the dispute: 1, or 0.

    Args: pairs: (question, answer), the question "" where its text isn't known; judge: whose prompts have templates of
        the forms' names, as prompts/own; form: with three demonstrations, the same text without them, or (of ours)
        with the demonstrations and the question shown. Both forms of the released prompt show the question.
    Returns: as `mark_answers`; score is the probability of 1: from text 0 or 1, from logits P("1") / (P("0") + P("1"))
        after a forced `[[`. An empty answer is not asked for and is missing as "no_text", one that is too long is cut
        or missing as the judge has it; a completion without a digit is "unreadable", one with both "ambiguous".
    Raises: ValueError for a reading from logits with a prompt that asks for no `[[`, as the released one.
    Source: DebateQA, section 4 and Table 14. Differs from: the released prompt, unless that is asked for: ours doesn't
        show the question but under "dispute_awareness_question"; it counts as aware also an answer that attributes
        opposing positions to those who hold them, where the released one wants an explicit statement; its three
        demonstrations are others, 0, 1 and 0 for 1, 0 and 0; and the digit comes in double brackets. The released
        script looks for the digit in prompt and completion together, and finds that of its own first demonstration,
        whatever the reply; here the completion alone is read, under either prompt.
    """
    template = judge.prompts.get(form)
    if judge.asker.decoding.reading == "logits" and "[[" not in template.text:
        raise ValueError(f"prompt {template.signature} asks for a bare digit: it has no reading from logits after [[")
    return mark_answers(pairs, form, judge, digit=True)


def _pair(answers: pd.DataFrame) -> list[tuple[str, str]]:
    """Each answer's question and text, "" for what is not there."""
    both = answers.reindex(columns=["question_text", "text"]).astype(object).fillna("")
    return list(both.itertuples(index=False, name=None))


def _decide(probabilities: pd.Series) -> pd.Series:
    """0 or 1, NaN without a verdict."""
    return (probabilities >= 0.5).astype(float).where(probabilities.notna())
