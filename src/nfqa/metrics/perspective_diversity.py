"""Perspective Diversity: how easily a language model, given an answer, restates each point of view on the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.kernels.perplexity import Settings, Variant, aggregate_perplexities, compute_perplexities, settings
from nfqa.metrics.coverage import split_answer
from nfqa.metrics.statistics import require_columns
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import Restated

_CUT = "answer cut at its end to fit the evaluator"  # the note of a score
# Why an answer has no score although another view has one, the gravest last: of a view alone, whatever the answer. Any
# other reason (a loss that is NaN or infinite, a server's) is the answer's: without that view it would look better.
_OF_A_VIEW = ("empty_answer", "too_long", "no_tokens", "")


def score_diversity(
    answers: pd.DataFrame,
    views: pd.DataFrame,
    evaluator: Evaluator,
    *,
    named: str = "role",
    cache: str = "",
    variant: Variant = "paper",
    **switches: Any,
) -> pd.DataFrame:
    """P.D. of each answer under the points of view on its question: one row an answer, lower is better.

    Formula: the sum (or mean) over views i of exp(nats_i / d_i), nats_i the summed negative log-likelihood of the
    tokens of view i (its point of view and explanation, joined) given the answer in its wrapping, d_i those tokens
    ("target") or all attended less one ("attended"). `variant` sets all switches, each of which may be changed:
    aggregate, denominator, instruction, generation_prompt, boundary, wrapping, plain_format, too_long, marks, between,
    padding; see `Settings`.
    A view without a token that has a probability, or too long for the model even without the answer, adds nothing, for
    every answer to its question: a sum is then over fewer.

    Args: answers: dataset, question, text (NaN where a system gave no answer), and any columns that name the answer;
        views: dataset, question, text (`QuestionSet.views`), under variant "script" point_of_view and explanation;
        named, cache: what the columns `evaluator` and `cache` say.
    Returns: the columns of `answers` but text and grade; metric ("pd"), evaluator, cache, variant, score (unitless, 1
        or more; n views or more under "sum"), missing (the reason where there is no score: "no_answer", "empty_answer",
        "needs views", "not_finite" for a view, or "no_tokens" or "too_long" for all), note (where the answer was cut)
        and signature. In their order.
    Raises: ValueError for a missing column, no view on any question that is answered, an unknown variant or switch,
        chat wrapping without a chat template, a context and target too long for the model under too_long="error".
    Source: Equation 1 of the DebateQA paper; variant "script" is what its released script computes, "released" its five
        differences that matter to any model.
    Differs from: that script in a few cases even as "script". It loads weights in the precision they are kept in
        (NFQA_DTYPE chooses); it scores an empty answer, here missing, and gives a partial answer of which nothing is
        left after the cut the perplexity 1, here left out; it keeps white space around a partial answer's two texts;
        and where padding on the left is longer than the context, it scores the first token too, after padding.
        "released" joins by a blank, breaks a model's control marks in an answer (marks="kept" doesn't), pads nowhere,
        adds no special token to those of the template, and a token that overlaps the target's text is the target's.
        With GPT-2 the script used a template that transformers has since dropped; wrapping="plain",
        plain_format="{answer}<|endoftext|>" is the same. The paper names neither how an empty answer is scored nor what
        happens to texts that are too long.
    """
    chosen = evaluator.adapt(settings(variant, **switches))
    found = _restate(answers, views, evaluator, chosen)
    read = found[found.missing == ""].groupby("place").perplexity
    values = read.agg(lambda own: aggregate_perplexities(own, aggregate=chosen.aggregate))
    weight = found.missing.map(dict(zip(_OF_A_VIEW, range(4), strict=True))).fillna(4)
    gravest = found.loc[weight.sort_values().index].groupby("place").missing.last()
    texts = answers["text"].reset_index(drop=True)
    missing = gravest.reindex(texts.index).fillna("needs views")
    missing = missing.mask(texts.str.strip() == "", "empty_answer").mask(texts.isna(), "no_answer")
    names = answers.drop(columns=["text", "grade"], errors="ignore").reset_index(drop=True)
    was_cut = found.groupby("place").cut.max().reindex(texts.index) > 0
    return names.assign(
        metric="pd", evaluator=named, cache=cache, variant=variant,
        score=values.reindex(texts.index).astype(float).where(missing == ""), missing=missing,
        note=np.where(was_cut, _CUT, ""), signature=f"pd:{chosen.signature}|evaluator:{evaluator.identity}",
    )  # fmt: skip


def score_forms(
    answers: pd.DataFrame,
    views: pd.DataFrame,
    evaluators: Mapping[tuple[str, str], Evaluator],
    forms: Mapping[str, Mapping[str, Any]],
    *,
    wrapping: Literal["chat", "plain"],
) -> pd.DataFrame:
    """P.D. by every evaluator in every form, as `score_diversity` gives it, one below the other.

    Args: evaluators: by what the columns `evaluator` and `cache` say; forms: variant and switches, by what the column
        `variant` says; wrapping: as `choose_wrapping`.
    """
    frames = []
    for (name, cache), model in evaluators.items():
        way = choose_wrapping(model, wrapping)
        for form, switches in forms.items():
            found = score_diversity(answers, views, model, named=name, cache=cache, wrapping=way, **switches)
            frames.append(found.assign(variant=form))
    return pd.concat(frames)


def score_views(
    answers: pd.DataFrame, views: pd.DataFrame, evaluator: Evaluator, *, variant: Variant = "paper", **switches: Any
) -> pd.DataFrame:
    """The parts of P.D.: one row an answer and view, with the loss of the view given the answer.

    Args: as `score_diversity`; views: with their column `view`.
    Returns: the columns of `answers` but text and grade; view, perplexity, nats (summed), tokens (of the view),
        attended (all but padding), cut (answer's tokens taken out); NaN where nothing was run; missing, why there is no
        perplexity. A row whose text is missing gives none.
    Raises: as `score_diversity`.
    """
    given = answers[answers["text"].notna()]
    found = _restate(given, views, evaluator, evaluator.adapt(settings(variant, **switches)))
    names = given.drop(columns=["text", "grade"], errors="ignore").iloc[found.pop("place")].reset_index(drop=True)
    return names.join(found)


def score_alone(views: pd.DataFrame, evaluator: Evaluator, *, wrapping: Literal["chat", "plain"] = "chat") -> pd.Series:
    """The perplexity of each view given no answer, the instruction alone: what `score_views` is compared with.

    Args: views: text; wrapping: as `score_diversity`.
    Returns: in the order of `views`; NaN for a view without a finite perplexity.
    Raises: as `score_diversity`.
    """
    nats = find_nats([""] * len(views), views["text"], evaluator, evaluator.adapt(settings(wrapping=wrapping)))
    return pd.Series(np.exp(nats), views.index).where(np.isfinite)


def find_nats(
    contexts: Iterable[str], views: Iterable[str], evaluator: Evaluator, chosen: Settings
) -> NDArray[np.float64]:
    """Nats a token of each view after the context beside it; NaN for one that has no loss."""
    items = [Restated(context, (view,)) for context, view in zip(contexts, views, strict=True)]
    losses = [loss for (loss,) in evaluator.score(items, chosen)]
    return np.array([loss.nats / loss.tokens if loss.tokens else np.nan for loss in losses])


def remove_sentences(answers: pd.DataFrame) -> pd.DataFrame:
    """Each answer without each of its sentences: a row a sentence, in the answer's order.

    Args: answers: text, and any columns that name the answer. An answer of one sentence gives none.
    Returns: the columns of `answers` with `text` what is left, `place` (of the sentence, from 1) and `sentence`.
    """
    rows = []
    for answer in answers.to_dict("records"):
        sentences = split_answer(answer["text"])
        for place, sentence in enumerate(sentences if len(sentences) > 1 else []):
            left = " ".join(sentences[:place] + sentences[place + 1 :])
            rows.append(answer | {"text": left, "place": place + 1, "sentence": sentence})
    return pd.DataFrame(rows, columns=[*answers.columns, "place", "sentence"])


def find_carriers(answers: pd.DataFrame, views: pd.DataFrame, evaluator: Evaluator, **how: Any) -> pd.DataFrame:
    """The sentence of each answer whose removal makes a point of view hardest to restate, and by how much.

    The loss of a sentence is the rise of the view's mean negative log-likelihood a token when the sentence is taken
    out; the first of equals carries. A negative one means that the view is easier without any of the sentences.

    Args: answers: dataset, question, answer (its name), text; views: dataset, question, view, text; how: as
        `score_views`.
    Returns: dataset, question, answer, view, sentence, place, loss (nats a token).
    """
    names = ["dataset", "question", "answer"]
    given, without = answers[[*names, "text"]], remove_sentences(answers[[*names, "text"]])
    whole, part = (score_views(frame, views, evaluator, **how) for frame in (given, without))
    on = [*names, "view"]
    both = part.merge(whole[[*on, "nats", "tokens"]], on=on, suffixes=("", "_whole"), validate="m:1")
    both["loss"] = both.nats / both.tokens - both.nats_whole / both.tokens_whole
    best = both.sort_values("loss", ascending=False, kind="stable").drop_duplicates([*names, "view"]).sort_index()
    return best[[*names, "view", "sentence", "place", "loss"]].reset_index(drop=True)


def choose_wrapping(evaluator: Evaluator, wrapping: Literal["chat", "plain"]) -> Literal["chat", "plain"]:
    """The given wrapping; for an embedded evaluator its training's, and "plain" for one without a chat template."""
    if evaluator.spec.kind == "embedded":
        return "chat"
    return wrapping if evaluator.chats else "plain"


def _restate(answers: pd.DataFrame, views: pd.DataFrame, evaluator: Evaluator, chosen: Settings) -> pd.DataFrame:
    """A row a view on each answer: place (of the answer's row), and from `view` to `missing` as `score_views`."""
    for frame in (answers, views):
        require_columns(frame, ["dataset", "question", "text"])
    if chosen.between != " ":
        require_columns(views, ["point_of_view", "explanation"])
        views = views.assign(text=views.point_of_view + chosen.between + views.explanation)
    keys = ["dataset", "question"]
    given = answers[keys].assign(place=range(len(answers)), context=answers["text"].fillna(""))
    found = given.merge(views.reindex(columns=[*keys, "view", "text"]), on=keys)
    if len(answers) and found.empty:
        first = tuple(answers[keys].iloc[0])
        raise ValueError(f"no view on any of the questions that are answered, such as {first}; check both frames")
    asked = found[found.context.str.strip() != ""]
    items = [Restated(*item) for item in asked.groupby("place").agg({"context": "first", "text": tuple}).to_numpy()]
    losses = [loss for row in evaluator.score(items, chosen) for loss in row] if items else []
    names = ["nats", "tokens", "attended", "cut", "reason"]
    found = found.assign(perplexity=np.nan).join(pd.DataFrame(losses, asked.index).reindex(columns=names))
    known = found[found.tokens > 0]
    found.loc[known.index, "perplexity"] = compute_perplexities(
        known.nats, known.tokens, known.attended, denominator=chosen.denominator
    )
    finite = np.isfinite(found.perplexity)
    reasons = found.reason.astype(object).replace("", "not_finite").where(~finite, "").fillna("empty_answer")
    found = found.assign(perplexity=found.perplexity.where(finite), missing=reasons)
    return found[["place", "view", "perplexity", "nats", "tokens", "attended", "cut", "missing"]]
