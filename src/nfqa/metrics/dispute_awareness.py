"""Dispute Awareness (D.A.): whether an answer makes its reader aware that the question is disputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.judge.asking import Verdict
from nfqa.kernels.parse import Reading, expect_value, read_digit
from nfqa.metrics.dispute_detector import THRESHOLD, Detector, Features
from nfqa.metrics.dispute_rules import Rule, apply_rule
from nfqa.metrics.dispute_sentences import read_sentences
from nfqa.metrics.judging import LEAST_MASS, LanguageJudge, trim_text
from nfqa.models.chat import Reply, Request
from nfqa.models.embed import Embedder

Form = Literal["dispute_awareness", "dispute_awareness_zero_shot"]  # names of templates
LABELS = ("0", "1")


@dataclass(frozen=True)
class Awareness:
    """What a judge decides of each answer, [n]: NaN where no verdict could be had.

    decisions: 0 or 1. probabilities: of 1; from text the same as the decisions, from logits P("1") / (P("0") + P("1")).
    """

    decisions: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    verdicts: tuple[Verdict, ...]
    signature: str

    @property
    def missing(self) -> dict[str, int]:
        """Verdicts that could not be had, by reason."""
        return dict(sorted(Counter(verdict.reason for verdict in self.verdicts if verdict.value is None).items()))

    @property
    def share(self) -> float:
        """D.A. of a system: the share of its answers that are aware, of those with a verdict; NaN without any."""
        known = self.decisions[~np.isnan(self.decisions)]
        return float(known.mean()) if len(known) else float("nan")


def score_awareness(
    answers: pd.DataFrame, by: Detector | LanguageJudge | Rule, *, form: Form = "dispute_awareness"
) -> pd.DataFrame:
    """D.A. of each answer, 1 where it makes its reader aware of the dispute and 0 where not: one row an answer.

    Args: answers: text (NaN where a system gave no answer) and any columns that name the answer; by: the embedded
        detector, a language model with prompts for D.A. (as prompts/own), or a keyword rule; form: of the prompt.
    Returns: the columns of `answers` but text and grade; metric ("da"), method ("detector", "judge" or the rule),
        score, probability (of 1; NaN for a rule), missing ("no_answer" or the verdict's reason) and signature.
    Raises: as `judge_awareness` and `nfqa.metrics.dispute_rules.apply_rule`.
    """
    given = answers["text"].notna().to_numpy()
    texts = answers["text"][given].tolist()
    scores, probabilities = np.full(len(answers), np.nan), np.full(len(answers), np.nan)
    missing = np.where(given, "", "no_answer").astype(object)
    if isinstance(by, Detector):
        method, signature = "detector", by.signature
        probabilities[given] = by.probabilities(texts)
        scores[given] = probabilities[given] >= THRESHOLD
    elif isinstance(by, LanguageJudge):
        found = judge_awareness(texts, by, form=form)
        method, signature = "judge", found.signature
        scores[given], probabilities[given] = found.decisions, found.probabilities
        missing[given] = [verdict.reason if verdict.value is None else "" for verdict in found.verdicts]
    else:
        method, signature = by, f"rule:{by}"
        scores[given] = apply_rule(texts, by)
    names = answers.drop(columns=["text", "grade"], errors="ignore").reset_index(drop=True)
    return names.assign(
        metric="da", method=method, score=scores, probability=probabilities, missing=missing, signature=signature
    )


def judge_awareness(answers: Sequence[str], judge: LanguageJudge, *, form: Form = "dispute_awareness") -> Awareness:
    """Ask the judge of every answer whether it is aware of the dispute: 1, or 0.

    Args: answers: texts alone, as the metric looks at nothing else; judge: whose prompts have templates of the forms'
        names, as prompts/own; form: with three demonstrations, or the same text without them.
    Returns: one decision an answer. An empty answer is not asked for and is missing as "no_text", one that is too long
        is cut or missing as the judge has it, and a completion without a digit is "unreadable", with both "ambiguous".
        From logits the decision is 1 where P("1") >= P("0") after a forced `[[`.
    Raises: ValueError for an unknown form.
    Source: DebateQA, section 4 and Table 14. Differs from: its prompt, in the words. The released script looks for the
        digit in prompt and completion together, and finds that of its own first demonstration; here the completion
        alone is read.
    """
    if form not in get_args(Form):
        raise ValueError(f"form is {form!r}; expected one of {', '.join(get_args(Form))}")
    verdicts: list[Verdict] = [Verdict(None, "no_text") for _ in answers]
    asked, requests = [], []
    for number, answer in enumerate(answers):
        shown = trim_text(answer, judge) if answer.strip() else None
        if shown is not None:
            asked.append(number)
            requests.append(Request(judge.prompts.render(form, candidate=shown), judge.seed, LABELS, form))
        elif answer.strip():
            verdicts[number] = Verdict(None, "too_long")
    for number, verdict in zip(asked, judge.asker.ask(requests, read_reply), strict=True):
        verdicts[number] = verdict
    values = np.array([np.nan if verdict.value is None else verdict.value for verdict in verdicts])
    decisions = np.where(np.isnan(values), np.nan, (values >= 0.5).astype(np.float64))
    return Awareness(decisions, values, tuple(verdicts), sign_awareness(judge, form))


def sign_awareness(judge: LanguageJudge, form: Form) -> str:
    """How decisions are made, for signatures: model, prompt and its hash, decoding, cut, seed, retries."""
    asked = f"{judge.asker.decoding.signature}|{judge.too_long}:{judge.max_words}w"
    named = f"judge:{judge.asker.identity}|prompt:{judge.prompts.signature(form)}"
    return f"{named}|{asked}|seed:{judge.seed}|retries:{judge.asker.retries}"


def read_reply(reply: Reply, request: Request) -> Reading:
    """The digit of a completion, or P("1") from the labels' log-probabilities."""
    if reply.logprobs is None:
        return read_digit(reply.text, digits=request.labels)
    try:
        found = expect_value(reply.logprobs, [float(label) for label in request.labels])
    except ValueError:  # a NaN, or more than certain: one bad reply is a missing verdict, not the end of a run
        return Reading(None, "bad_logprobs")
    return found if found.mass is None or found.mass >= LEAST_MASS else Reading(None, "no_mass", found.mass)


def open_detector(embedder: Embedder | None, *, features: Features = "text_and_vectors") -> Detector:
    """The embedded detector, trained on data/dispute_sentences.csv when it is first used.

    Raises: ValueError for unknown features, features that need an embedder that isn't there, or a table of sentences
        that doesn't fit.
    """
    identity = "" if embedder is None else embedder.spec.identity
    return Detector(embedder, read_sentences(), features=features, embedder_identity=identity)
