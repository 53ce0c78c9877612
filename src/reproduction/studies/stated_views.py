"""Does a passage state a point of view? Cosine, and P.D.'s own perplexity, held against people's labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nfqa.files.records import Answer, Question
from nfqa.kernels.perplexity import settings
from nfqa.metrics.coverage import sign_coverage
from nfqa.metrics.references import Draw, hash_name
from nfqa.metrics.statistics import iterate_groups, require_columns
from nfqa.models.adapters import COVERAGE
from nfqa.models.embed import Embedder
from nfqa.models.evaluator import Evaluator
from reproduction.studies.baselines import measure_each
from reproduction.studies.decisions import resample_auroc
from reproduction.studies.diversity import find_nats


def is_held_out(claim: str) -> bool:
    """Whether a claim is one of the half, by a hash, that coverage is measured on and never trained on."""
    return Question(claim).key % 2 == 0


def keep_apart(claims: pd.DataFrame, wordings: pd.DataFrame) -> pd.DataFrame:
    """The claims of which no two share a wording, so that each was drawn by itself.

    Args: claims, wordings: as `pair_wordings`. Returns: rows of `claims`, those kept that come first by a hash.
    """
    texts, used, kept = wordings.set_index("wording").text, set[str](), []
    for place, views in claims.views[sorted(claims.index, key=lambda row: hash_name(claims.question[row]))].items():
        said = {texts[wording] for _, ids in views for wording in ids}
        if used.isdisjoint(said):
            kept.append(place)
            used |= said
    return claims.loc[sorted(kept)]


def pair_wordings(claims: pd.DataFrame, wordings: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Answers and points of view out of wordings that people gave to the same and to other points of view on a claim.

    Of a claim, one point of view with two wordings or more and one other are drawn: a wording of the first is the
    answer, another wording of it the view that is stated, and a wording of the other the view that is not (`changed` is
    "view"). In a third pair that wording is the answer in place of the first ("answer"): the view is not stated there.

    Args: claims: dataset, question, views (stance and wordings' ids of each); wordings: wording, text.
    Returns: dataset, question, text (the answer), point_of_view, stated, changed ("" where stated), stance (whether the
        other view's is the "same" or "opposite"): three rows a claim, claims and draws in the order of a hash of their
        text. A claim without such points of view has none.
    """
    rows = []
    for question, dataset, _, views in _read_views(claims, wordings, seed):
        (stance, own), *_ = [*_shuffle(seed, question, [view for view in views if len(view[1]) > 1]), ("", [])]
        others = [(side, said[0]) for side, said in _shuffle(seed, question, views) if not set(said) & set(own)]
        if own and others:
            (side, other), (answer, view, *_) = others[0], own
            named = (dataset, question, "same" if side == stance else "opposite")
            rows += [(*named, answer, view, True, ""), (*named, answer, other, False, "view")]
            rows += [(*named, other, view, False, "answer")]
    return pd.DataFrame(rows, columns=["dataset", "question", "stance", "text", "point_of_view", "stated", "changed"])


def draw_wordings(claims: pd.DataFrame, wordings: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """A reference for each claim out of people's wordings, and candidates: a paraphrase, other views, unrelated texts.

    Of a claim, one point of view with two wordings or more is drawn. One wording of it is the reference of grade 3,
    another the candidate "paraphrase"; "same_stance" and "opposite_stance" are wordings of other points of view. To
    each of these belongs an unrelated text ("paraphrase_unrelated" ...) of as many words, or as near as there is: a
    wording on a claim that shares no topic with this one. A further one is the reference of grade 0.

    Args: claims: dataset, question, topics, views; wordings: wording, text. A claim without topics is left out, as is
        one that lacks any of the views.
    Returns: dataset, question, draw (of `nfqa.metrics.references`), claims and draws in the order of a hash of their
        text.
    """
    read = _read_views(claims[claims.topics != ""], wordings, seed)
    topics_by_text: dict[str, set[str]] = {}
    for _, _, topics, views in read:
        for text in (text for _, texts in views for text in texts):
            topics_by_text.setdefault(text, set()).update(topics)
    pool = pd.DataFrame(topics_by_text.items(), columns=["text", "topics"], index=map(_count_words, topics_by_text))
    rows = []
    for question, dataset, topics, views in read:
        for stance, own in _shuffle(seed, question, [view for view in views if len(view[1]) > 1]):
            others = [(side, texts[0]) for side, texts in _shuffle(seed, question, views) if not set(texts) & set(own)]
            found = {"same_stance" if side == stance else "opposite_stance": text for side, text in reversed(others)}
            if len(found) == 2:
                chosen = {"reference": own[0], "paraphrase": own[1], **dict(sorted(found.items()))}
                apart = pool.text[pool.topics.map(topics.isdisjoint)]
                for name, text in [*chosen.items()]:
                    gap = abs(apart.index - _count_words(text))
                    chosen[f"{name}_unrelated"] = _shuffle(seed, f"{question}|{name}", apart[gap == gap.min()])[0]
                answers = {name: Answer(name, text, 3 * (name == "reference")) for name, text in chosen.items()}
                references = answers.pop("reference"), answers.pop("reference_unrelated")
                rows += [(dataset, question, Draw(Question(question), references, tuple(answers.values())))]
                break
    return pd.DataFrame(rows, columns=["dataset", "question", "draw"])


def _read_views(claims: pd.DataFrame, wordings: pd.DataFrame, seed: int) -> list[tuple[str, str, set[str], list[Any]]]:
    """Question, dataset, topics and views (stance, distinct texts) of each claim, all in the order of a hash."""
    texts = wordings.set_index("wording").text
    found = []
    for question, own in claims.drop_duplicates("question").set_index("question").iterrows():
        views = [(stance, _shuffle(seed, str(question), {texts[i] for i in ids})) for stance, ids in own["views"]]
        found.append((str(question), own["dataset"], {*own.get("topics", "").split()}, views))
    return sorted(found, key=lambda one: hash_name(f"{seed}||{one[0]}"))


def _shuffle(seed: int, question: str, items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: hash_name(f"{seed}|{question}|{item}"))


def score_stated_views(pairs: pd.DataFrame, embedder: Embedder, evaluators: Mapping[str, Evaluator]) -> pd.DataFrame:
    """How far each passage states a point of view, by each measure; higher is more.

    cosine: of the passage and the point of view. nearest_sentence: of the passage's nearest sentence. coverage: the
    same by the embedder with coverage's adapter. shared_words: the share of the point of view's distinct words that the
    passage has. pd_view: -exp(nats / tokens) of the point of view given the passage, what P.D. sums. pd_gain: how many
    nats a token the passage saves against no text before the same instruction, log(perplexity without / perplexity
    with); pd_gain_question: against the question in its place.

    Args: pairs: dataset, question, text (the passage), point_of_view, and any columns that name the pair; evaluators:
        by what the column `evaluator` says.
    Returns: the columns of `pairs` but text, metric, evaluator ("" for the first four), score and signature: a row a
        pair and measure, in the order of the pairs.
    """
    require_columns(pairs, ["dataset", "question", "text", "point_of_view"])
    texts, views = pairs.text.tolist(), pairs.point_of_view.tolist()
    cosines = np.einsum("nd,nd->n", embedder.embed_sentences(texts), embedder.embed_sentences(views))
    nearest, covered = (measure_each(texts, views, one) for one in (embedder, embedder.tune(COVERAGE)))
    words = [(set(text.lower().split()), set(view.lower().split())) for text, view in zip(texts, views, strict=True)]
    made = f"embedder:{embedder.spec.identity}"
    found = [
        ("cosine", "", cosines, f"cosine|{made}"),
        ("nearest_sentence", "", nearest, f"cosine:nearest_sentence|{made}"),
        ("coverage", "", covered, sign_coverage(embedder)),
        ("shared_words", "", [len(own & said) / len(own) for said, own in words], "words:split"),
    ]
    chosen = settings("paper", too_long="cut_tail")
    for name, model in evaluators.items():
        given = {"passage": texts, "nothing": [""] * len(pairs), "question": pairs.question.tolist()}
        nats = {what: find_nats(contexts, views, model, chosen) for what, contexts in given.items()}
        signature = f"{chosen.signature}|evaluator:{model.identity}"
        found += [
            ("pd_view", name, -np.exp(nats["passage"]), f"pd_view:{signature}|sign:-"),
            ("pd_gain", name, nats["nothing"] - nats["passage"], f"pd_gain:{signature}|without:no text"),
            ("pd_gain_question", name, nats["question"] - nats["passage"], f"pd_gain:{signature}|without:question"),
        ]
    named = pairs.drop(columns="text")
    frames = [named.assign(metric=m, evaluator=e, score=scores, signature=s) for m, e, scores, s in found]
    return pd.concat(frames, ignore_index=True)


def resample_stated(
    scores: pd.DataFrame, *, by: Sequence[str], within: Sequence[str] = (), resamples: int = 1_000, seed: int = 0
) -> pd.DataFrame:
    """The AUROC of each measure as measured and in resamples of the questions, equal for all, so that they pair.

    Args: scores: question, stated (bool), score and those of `by`, all without a NaN; within: the columns that two
        pairs must share to be compared, none for all.
    Returns: the columns of `by`, `resample` (0: as measured), `measured`, `units` (questions) and `n` (pairs), as
        `find_intervals` takes.
    """
    frames = []
    for key, group in iterate_groups(scores, by):
        strata = group.groupby(list(within)).ngroup().to_numpy() if within else None
        drawn = resample_auroc(group.stated, group.score, group.question, strata=strata, resamples=resamples, seed=seed)
        counts = {"units": group.question.nunique(), "n": len(group)}
        frames.append(pd.DataFrame(key | {"resample": range(len(drawn)), "measured": drawn} | counts))
    return pd.concat(frames, ignore_index=True)


def _count_words(text: str) -> int:
    return len(text.split())
