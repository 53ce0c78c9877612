"""Perspective Diversity: how easily a language model, given an answer, restates each point of view
on the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from nfqa.kernels.perplexity import Settings, Variant, aggregate_perplexities, compute_perplexities, settings
from nfqa.metrics.statistics import require_columns
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import Restated

_CUT = {  # the note of a score
    "cut_head": "answer cut at its beginning to fit the evaluator",
    "cut_middle": "answer cut in its middle to fit the evaluator",
    "cut_tail": "answer cut at its end to fit the evaluator",
}
# Why an answer has no score although another view has one, the gravest last: of a view alone, whatever the answer. Any
# other reason (a loss that is NaN or infinite) is the answer's: without that view it would look better.
_OF_A_VIEW = ("empty_answer", "too_long", "no_tokens", "")


def score_diversity(
    answers: pd.DataFrame,
    views: pd.DataFrame,
    evaluator: Evaluator,
    *,
    named: str = "role",
    variant: Variant = "paper",
    questions: Mapping[str, str] | None = None,
    **switches: Any,
) -> pd.DataFrame:
    """P.D. of each answer under the points of view on its question: one row an answer, lower is
    better.

    Formula: the sum (or mean) over views i of exp(nats_i / d_i), nats_i the summed negative
    log-likelihood of the tokens of view i (its point of view and explanation, joined) given the
    answer in its wrapping, d_i those tokens ("target") or all attended less one ("attended").
    `variant` sets all switches, each of which may be changed: aggregate, denominator, instruction,
    generation_prompt, boundary, wrapping, plain_format, too_long; see `Settings`. A view without a
    token that has a probability, or too long for the model even without the answer, adds nothing,
    for every answer to its question: a sum is then over fewer.

    Args: answers: dataset, question, text (NaN where a system gave no answer), and any columns that
        name the answer; views: dataset, question, text (`QuestionSet.views`); named: what the
        column `evaluator` says; questions: their texts by the column `question`, for the share.
    Returns: the columns of `answers` but text and grade; metric ("pd"), evaluator, variant, score
        (unitless, 1 or more; n views or more under "sum"), with questions share (as
        `measure_share`), missing (the reason where there is no score: "no_answer", "empty_answer",
        "needs views", "not_finite" for a view, or "no_tokens" or "too_long" for all), note (where a
        text was cut) and signature. In their order.
    Raises: ValueError for a missing column, no view on any question that is answered, an unknown
        variant or switch, chat wrapping without a chat template, a context and target too long for
        the model under too_long="error".
    Source: Equation 1 of the DebateQA paper; variant "released" has the five differences of its
        released script that matter to any model.
    Differs from: that script, which joins a point of view and its explanation by ". ", keeps a
        model's control marks in an answer, pads batches on the tokenizer's side, and scores an
        empty answer, here missing. With GPT-2 it used a template that transformers has since
        dropped; wrapping="plain", plain_format="{answer}<|endoftext|>" is the same. The paper names
        neither how an empty answer is scored nor what happens to texts that are too long.
    """
    chosen = _choose_settings(variant, switches)
    contexts = [answers] if questions is None else [answers, _list_ends(answers, views, questions)]
    losses = _restate(pd.concat(contexts, ignore_index=True), views, evaluator, chosen)
    share = {} if questions is None else {"share": measure_share(losses, *contexts)}
    losses = losses[losses.place < len(answers)]
    read = losses[losses.missing == ""].groupby("place").perplexity
    values = read.agg(lambda each: aggregate_perplexities(each, aggregate=chosen.aggregate))
    weight = losses.missing.map(dict(zip(_OF_A_VIEW, range(4), strict=True))).fillna(4)
    gravest = losses.loc[weight.sort_values().index].groupby("place").missing.last()
    texts = answers["text"].reset_index(drop=True)
    missing = gravest.reindex(texts.index).fillna("needs views")
    missing = missing.mask(texts.str.strip() == "", "empty_answer").mask(texts.isna(), "no_answer")
    names = answers.drop(columns=["text", "grade"], errors="ignore").reset_index(drop=True)
    was_cut = losses.groupby("place").cut.max().reindex(texts.index) > 0
    return names.assign(
        metric="pd", evaluator=named, variant=variant,
        score=values.reindex(texts.index).astype(float).where(missing == ""), **share, missing=missing,
        note=np.where(was_cut, _CUT.get(chosen.too_long, ""), ""),
        signature=f"pd:{chosen.signature}|evaluator:{evaluator.identity}",
    )  # fmt: skip


def _choose_settings(variant: Variant, switches: Mapping[str, Any]) -> Settings:
    """The settings of a variant with its switches. Raises: ValueError naming a switch that does not
    fit.
    """
    try:
        return settings(variant, **switches)
    except ValidationError as error:
        fault = error.errors()[0]
        name = "".join(f"{part} is {fault['input']!r}: " for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        known = ", ".join(field.name for field in fields(Settings))
        raise ValueError(f"{name}{message}; switches known: {known}") from None


def measure_share(losses: pd.DataFrame, answers: pd.DataFrame, ends: pd.DataFrame) -> pd.Series:
    """How much of the way from its bare question to the points of view an answer covers: a measure
    of this project's.

    Formula: the mean over views i of (l_i(question) - l_i(answer)) / (l_i(question) - l_i(views)),
    l_i(x) the nats a token of view i given x. It is 0 for the question in the answer's place and 1
    for all the views, below 0 for what makes a view harder to restate than the question does;
    unlike P.D. it compares answers to different questions.
    Args: losses: as `_restate` gives them of answers and then ends; ends: as `_list_ends`.
    Returns: [n answers]; NaN where a view has no loss, or costs no less given the views than given
        the question.
    """
    keys = ["dataset", "question"]
    size = len(answers)
    rows = losses.assign(loss=(losses.nats / losses.tokens).where(losses.missing == ""))
    is_end = rows.place >= size
    named = rows[is_end].join(ends.set_axis(ends.index + size)[[*keys, "end"]], on="place")
    base = named.pivot(index=[*keys, "view"], columns="end", values="loss").reindex(columns=["question", "views"])
    base.columns = pd.Index(["of_question", "of_views"])
    each = rows[~is_end].join(answers[keys].reset_index(drop=True), on="place").join(base, on=[*keys, "view"])
    way = (each.of_question - each.of_views).where(lambda gap: gap > 0)
    shares = ((each.of_question - each.loss) / way).groupby(each.place).agg(lambda part: part.mean(skipna=False))
    return shares.reindex(range(size))


def _list_ends(answers: pd.DataFrame, views: pd.DataFrame, questions: Mapping[str, str]) -> pd.DataFrame:
    """What the share is measured between, in the place of answers: of each question its text, and
    all its views.
    """
    keys = ["dataset", "question"]
    unique = answers[keys].drop_duplicates()
    every = views.groupby(keys, sort=False)["text"].agg("\n".join).reset_index().merge(unique)
    both = [unique.assign(text=unique.question.map(questions), end="question"), every.assign(end="views")]
    return pd.concat(both, ignore_index=True)


def score_views(
    answers: pd.DataFrame, views: pd.DataFrame, evaluator: Evaluator, *, variant: Variant = "paper", **switches: Any
) -> pd.DataFrame:
    """The parts of P.D.: one row an answer and view, with the loss of the view given the answer.

    Args: as `score_diversity`; views: with their column `view`.
    Returns: the columns of `answers` but text and grade; view, perplexity, nats (summed), tokens
        (of the view), attended (all but padding), cut (answer's tokens taken out); NaN where
        nothing was run; missing, why there is no perplexity. A row whose text is missing gives
        none.
    Raises: as `score_diversity`.
    """
    present = answers[answers["text"].notna()]
    losses = _restate(present, views, evaluator, settings(variant, **switches))
    names = present.drop(columns=["text", "grade"], errors="ignore").iloc[losses.pop("place")].reset_index(drop=True)
    return names.join(losses)


def _restate(answers: pd.DataFrame, views: pd.DataFrame, evaluator: Evaluator, chosen: Settings) -> pd.DataFrame:
    """One row per view on each answer: place (of the answer's row), and from `view` to `missing` as
    `score_views`.
    """
    for frame in (answers, views):
        require_columns(frame, ["dataset", "question", "text"])
    keys = ["dataset", "question"]
    contexts = answers[keys].assign(place=range(len(answers)), context=answers["text"].fillna(""))
    rows = contexts.merge(views.reindex(columns=[*keys, "view", "text"]), on=keys)
    if len(answers) and rows.empty:
        first = tuple(answers[keys].iloc[0])
        raise ValueError(f"no view on any of the questions that are answered, such as {first}; check both frames")
    requests = rows[rows.context.str.strip() != ""]
    items = [Restated(*item) for item in requests.groupby("place").agg({"context": "first", "text": tuple}).to_numpy()]
    losses = [loss for row in evaluator.score(items, chosen) for loss in row] if items else []
    names = ["nats", "tokens", "attended", "cut", "reason"]
    rows = rows.assign(perplexity=np.nan).join(pd.DataFrame(losses, requests.index).reindex(columns=names))
    known = rows[rows.tokens > 0]
    rows.loc[known.index, "perplexity"] = compute_perplexities(
        known.nats, known.tokens, known.attended, denominator=chosen.denominator
    )
    finite = np.isfinite(rows.perplexity)
    reasons = rows.reason.astype(object).replace("", "not_finite").where(~finite, "").fillna("empty_answer")
    rows = rows.assign(perplexity=rows.perplexity.where(finite), missing=reasons)
    return rows[["place", "view", "perplexity", "nats", "tokens", "attended", "cut", "missing"]]
