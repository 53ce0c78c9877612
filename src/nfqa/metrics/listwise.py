"""LINKAGE without a language model: rank a candidate among graded references by their vectors
alone.

The embedded judge sees what LINKAGE's judge sees, the question, the graded references in order and
one candidate, and turns it into a row of features. A linear scorer over them, with fixed weights
("zero_shot") or weights and vectors that were learned from other questions ("trained"), gives a
continuous score; the candidate's rank is 1 plus the number of references that score higher, each
reference being scored against the rest of its list as if it were a candidate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.metrics.references import GOOD_FROM, Draw, list_candidates, list_texts, sign
from nfqa.models.adapters import ADAPTERS, name_adapter
from nfqa.models.embed import EMBEDDER_CUT, Embedder

FEATURES = (
    "cos_question",  # cosine of candidate and question
    "mean_good",  # mean cosine to references of grade GOOD_FROM or more
    "mean_poor",  # mean cosine to the references below it
    "beaten",  # share of references less similar to the question than the candidate is
    "log_words",  # log(1 + words)
)
KERNEL = {"grade_near": 0.05, "grade_about": 0.1, "grade_around": 0.2}
"""Read by a scorer with eight weights: the references' mean grade, weighted by the softmax of cosine / temperature."""
_OWN = ("cos_question", "log_words")  # what a text has without a list
# Chosen on a half of ANTIQUE, from weights 1, 2 and penalties 0, 1/4, 1/2, 3/4, 1.
ZERO_SHOT = (1.0, 2.0, -1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Scorer:
    """A linear scorer: score = weights . features. `trained_on` counts the questions it was fitted
    on.

    With five weights it reads FEATURES, with eight KERNEL as well. `adapter` names what the
    embedder's vectors are changed by, "" for nothing.
    """

    name: str
    weights: NDArray[np.float64]  # [F]
    trained_on: int
    adapter: str = ""


def make_zero_shot() -> Scorer:
    """The scorer with fixed weights: cos(q, c) + 2 mean cos(c, good references) - mean cos(c, poor
    references).
    """
    return Scorer("zero_shot", np.array(ZERO_SHOT), 0)


def read_trained(embedder: Embedder, fold: int | None = None) -> Scorer:
    """The trained scorer that comes with nfqa: of all of ANTIQUE, or of all but one fold
    (`tools/train_judge.py`).

    It reads FEATURES and KERNEL, of vectors that an adapter has changed where the embedder is the
    packaged one.
    """
    name = name_adapter(fold)
    scorer = json.loads((ADAPTERS / "judge.json").read_text(encoding="utf-8"))["made"][name]
    return Scorer("trained", np.array(scorer["weights"]), scorer["questions"], name if embedder.can_tune else "")


def judge_draw(draw: Draw, scorer: Scorer, embedder: Embedder) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Score and rank every candidate of a draw.

    Returns: scores, [n], higher is better, and ranks, [n], from 1, the best, to the number of
    references + 1. Ties between a candidate and a reference go to the candidate. With one reference
    the rank is 1 or 2, by closeness to the question and length, since similarity to each other is
    the same for both.
    Raises: ValueError for candidates without references.
    Source: LINKAGE, equation 5, with the language model replaced. Differs from: it, in that equal
        inputs always get equal ranks, and that the rank follows from a score rather than from
        generated text.
    """
    if not draw.candidates:  # a dropped draw has none, and no references either
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    if not draw.references:
        raise ValueError(f"question {draw.question.text!r} has no references to rank among")
    references, candidates = describe_draw(draw, embedder, scorer)
    scores = np.round(candidates @ scorer.weights, 10)
    if len(draw.references) == 1:  # no rest of a list to hold it against: the two stand on what is their own
        of_text = np.array([name in _OWN for name in (*FEATURES, *KERNEL)])[: len(scorer.weights)]
        references = references[:, of_text]
        candidates = candidates[:, of_text]
        alone = np.round((references - candidates) @ scorer.weights[of_text], 10) > 0
        return scores, 1 + alone.astype(np.int64)
    beaten_by = np.round(references @ scorer.weights, 10)[None, :] > scores[:, None]
    return scores, 1 + beaten_by.sum(1)


def judge_by_vectors(
    draws: pd.DataFrame, scorers: Scorer | Mapping[tuple[str, str], Scorer], embedder: Embedder
) -> pd.DataFrame:
    """The embedded judge's scores and ranks of every candidate of every draw.

    Args: draws: dataset, question, draw, and any columns of conditions; scorers:
        one scorer for all, or that of each (dataset, question).
    Returns: two rows a candidate, `output` "score" and "rank" (its score is minus the rank): the
        columns of `draws` but for `draw`, answer, grade, metric ("embedded_judge"), training,
        output, score, missing, signature, note (where a text was cut).
    """
    keys = list(zip(draws.dataset, draws.question, strict=True))
    one = dict.fromkeys(keys, scorers) if isinstance(scorers, Scorer) else scorers
    adapters = [one[key].adapter for key in keys]
    for name in filter(None, dict.fromkeys(adapters)):  # all at once: short batches of one question cost more
        each = [draw for draw, adapter in zip(draws.draw, adapters, strict=True) if adapter == name]
        embedder.tune(name).prepare([text for draw in each for text in draw.texts], tokens=False)
    verdicts = [judge_draw(draw, one[key], embedder) for key, draw in zip(keys, draws.draw, strict=True)]
    counts = pd.Series([scorer.trained_on for scorer in one.values()], [dataset for dataset, _ in one])
    ends = counts.groupby(level=0).agg(lambda each: "-".join(map(str, sorted({each.min(), each.max()}))))
    name = next(iter(one.values())).name.replace("_", "-")
    candidates = list_candidates(draws)
    weights = f"weights:{name}|adapters:{'judge' if any(adapters) else 'none'}"
    signature = sign(candidates, f"embedded_judge|{weights}|trained_on:" + candidates.dataset.map(ends))
    cut = {
        adapter: embedder.tune(adapter).find_cut(
            [text for draw, each in zip(draws.draw, adapters, strict=True) if each == adapter for text in draw.texts]
        )
        for adapter in dict.fromkeys(adapters)
    }
    note = [
        EMBEDDER_CUT if not cut[adapter].isdisjoint(read) else ""
        for draw, adapter in zip(draws.draw, adapters, strict=True)
        for read in list_texts(draw)
    ]
    judged = candidates.assign(metric="embedded_judge", training=name, signature=signature, note=note)
    values = pd.DataFrame(np.nan, candidates.index, ["score", "rank"])
    values.loc[candidates.missing == ""] = np.concatenate([np.zeros((0, 2)), *map(np.column_stack, verdicts)])
    frames = [judged.assign(output="score", score=values.score), judged.assign(output="rank", score=-values["rank"])]
    return pd.concat(frames, ignore_index=True)


def describe_draw(
    draw: Draw, embedder: Embedder, scorer: Scorer | None = None, *, kernel: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Feature rows of the references, [R, F], each excluded from its own list, and of the
    candidates, [n, F].

    Args: scorer: whose features these are to be, of vectors by its adapter; kernel: without a
        scorer, whether the features of KERNEL follow those of FEATURES.

    A list without good (or poor) references uses all of them in their place.
    """
    if scorer is not None:
        embedder = embedder.tune(scorer.adapter)
        kernel = len(scorer.weights) > len(FEATURES)
    texts = draw.texts
    vectors = embedder.embed_sentences(texts).astype(np.float64)
    grades = np.array([answer.label for answer in draw.references])
    count = len(grades)
    # Equal rows of one matrix product can differ in their last bits; rounded, equal texts get equal features.
    to_question = np.round(vectors[1:] @ vectors[0], 12)  # [R + n]
    to_references = np.round(vectors[1:] @ vectors[1 : 1 + count].T, 12)  # [R + n, R]
    seen = np.ones_like(to_references, dtype=bool)
    if count > 1:
        seen[np.arange(count), np.arange(count)] = False
    means = []
    for mask in (seen & (grades >= GOOD_FROM), seen & (grades < GOOD_FROM)):
        mask = np.where(mask.any(1, keepdims=True), mask, seen)
        means.append(np.where(mask, to_references, 0.0).sum(1) / mask.sum(1))
    beaten = (to_question[:count] < to_question[:, None]) & seen
    words = np.log1p([len(text.split()) for text in texts[1:]])
    columns = [to_question, *means, beaten.sum(1) / seen.sum(1), words]
    for temperature in KERNEL.values() if kernel else ():
        weights = np.where(seen, np.exp((to_references - 1) / temperature), 0.0)
        columns.append(weights @ grades / weights.sum(1))
    rows = np.column_stack(columns)
    return rows[:count], rows[count:]
