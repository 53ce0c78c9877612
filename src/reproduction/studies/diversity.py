"""P.D. by several evaluators and in several forms; the loss of a view alone, and the sentence that
carries it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.kernels.perplexity import Settings, settings
from nfqa.metrics.coverage import split_answer
from nfqa.metrics.perspective_diversity import score_diversity, score_views
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import Restated


def score_forms(
    answers: pd.DataFrame,
    views: pd.DataFrame,
    evaluators: Mapping[str, Evaluator],
    forms: Mapping[str, Mapping[str, Any]],
    *,
    wrapping: Literal["chat", "plain"],
    without_released: Collection[str] = (),
) -> pd.DataFrame:
    """P.D. by every evaluator in every form, as `score_diversity` gives it, one below the other.

    Args: evaluators: by what the column `evaluator` says; forms: variant and switches, by what the
        column `variant` says; wrapping: as `choose_wrapping`; without_released: evaluators that do
        not score it so.
    """
    frames = []
    for (name, model), (form, switches) in product(evaluators.items(), forms.items()):
        if name in without_released and switches.get("variant") == "released":
            continue
        options = dict(switches, named=name, wrapping=choose_wrapping(model, wrapping))
        frames.append(score_diversity(answers, views, model, **options).assign(variant=form))
    return pd.concat(frames)


def score_alone(views: pd.DataFrame, evaluator: Evaluator, *, wrapping: Literal["chat", "plain"] = "chat") -> pd.Series:
    """The perplexity of each view given no answer, the instruction alone: what `score_views` is
    compared with.

    Args: views: text; wrapping: as `score_diversity`.
    Returns: in the order of `views`; NaN for a view without a finite perplexity.
    Raises: as `score_diversity`.
    """
    nats = find_nats([""] * len(views), views["text"], evaluator, settings(wrapping=wrapping))
    return pd.Series(np.exp(nats), views.index).where(np.isfinite)


def find_nats(
    contexts: Iterable[str], views: Iterable[str], evaluator: Evaluator, chosen: Settings
) -> NDArray[np.float64]:
    """Nats a token of each view after the context beside it; NaN for one that has no loss."""
    items = [Restated(context, (view,)) for context, view in zip(contexts, views, strict=True)]
    losses = [loss for (loss,) in evaluator.score(items, chosen)]
    return np.array([loss.nats / loss.tokens if loss.tokens else np.nan for loss in losses])


def remove_sentences(answers: pd.DataFrame) -> pd.DataFrame:
    """Each answer without each of its sentences: one row per sentence, in the answer's order.

    Args: answers: text, and any columns that name the answer. An answer of one sentence gives none.
    Returns: the columns of `answers` with `text` what is left, `place` (of the sentence, from 1)
        and `sentence`.
    """
    rows = []
    for answer in answers.to_dict("records"):
        sentences = split_answer(answer["text"])
        for place, sentence in enumerate(sentences if len(sentences) > 1 else []):
            left = " ".join(sentences[:place] + sentences[place + 1 :])
            rows.append(answer | {"text": left, "place": place + 1, "sentence": sentence})
    return pd.DataFrame(rows, columns=[*answers.columns, "place", "sentence"])


def find_carriers(answers: pd.DataFrame, views: pd.DataFrame, evaluator: Evaluator, **options: Any) -> pd.DataFrame:
    """The sentence of each answer whose removal makes a point of view hardest to restate, and by
    how much.

    The loss of a sentence is the rise of the view's mean negative log-likelihood a token when the
    sentence is taken out; the first of equals carries. A negative one means that the view is easier
    without any of the sentences.

    Args: answers: dataset, question, answer (its name), text; views: dataset, question, view, text;
        how: as `score_views`.
    Returns: dataset, question, answer, view, sentence, place, loss (nats a token).
    """
    names = ["dataset", "question", "answer"]
    texts = answers[[*names, "text"]]
    without = remove_sentences(answers[[*names, "text"]])
    whole, part = (score_views(frame, views, evaluator, **options) for frame in (texts, without))
    on = [*names, "view"]
    both = part.merge(whole[[*on, "nats", "tokens"]], on=on, suffixes=("", "_whole"), validate="m:1")
    both["loss"] = both.nats / both.tokens - both.nats_whole / both.tokens_whole
    best = both.sort_values("loss", ascending=False, kind="stable").drop_duplicates([*names, "view"]).sort_index()
    return best[[*names, "view", "sentence", "place", "loss"]].reset_index(drop=True)


def choose_wrapping(evaluator: Evaluator, wrapping: Literal["chat", "plain"]) -> Literal["chat", "plain"]:
    """The given wrapping, or "plain" for an evaluator without a chat template."""
    return wrapping if evaluator.chats else "plain"
