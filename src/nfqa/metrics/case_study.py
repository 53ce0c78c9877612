"""Which sentence of an answer makes a point of view easier to restate: P.D. with each sentence taken out in turn."""

from __future__ import annotations

from typing import Any

import pandas as pd

from nfqa.metrics.coverage import split_answer
from nfqa.metrics.perspective_diversity import score_views
from nfqa.models.evaluator import Evaluator


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
    if without.empty:
        return pd.DataFrame(columns=[*names, "view", "sentence", "place", "loss"])
    whole, part = (score_views(frame, views, evaluator, **how) for frame in (given, without))
    both = part.merge(whole[[*names, "view", "nats", "tokens"]], on=[*names, "view"], suffixes=("", "_whole"))
    both["loss"] = both.nats / both.tokens - both.nats_whole / both.tokens_whole
    best = both.sort_values("loss", ascending=False, kind="stable").drop_duplicates([*names, "view"]).sort_index()
    return best[[*names, "view", "sentence", "place", "loss"]].reset_index(drop=True)
