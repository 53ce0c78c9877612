"""Automatic metrics that compare a candidate with one reference: ROUGE, BLEU, BERTScore."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.kernels.rouge import RougeF, score_rouge_sets
from nfqa.metrics.references import Draw, list_candidates, sign
from nfqa.metrics.systems import note_cut
from nfqa.models.embed import EMBEDDER_CUT, Embedder, TokenVectors

RougeVariant = Literal["rouge1", "rouge2", "rougel"]
Against = Literal["best", "good"]  # the best reference, or each good one of the list
Pairs = Sequence[tuple[str, str]]  # (candidate, reference)
_PAIRS_AT_ONCE = 2_000
LONGEST = 100_000  # characters of a text, about 17,000 words; the longest of the datasets has 14,100
MOST_STOPS = 2_000  # full stops of a text: ROUGE-L compares every sentence of one text with every one of the other


UNSPACED = "no blanks between words, so that a run of letters counts as one word"
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")


class OverlapMetric(NamedTuple):
    """`score` gives one number a pair, higher is better; `signature` says how it is made."""

    signature: str
    score: Callable[..., NDArray[np.float64]]  # of pairs, and of the embedder where it needs one
    needs_embedder: bool = False


def score_overlap(
    draws: pd.DataFrame, metrics: Sequence[str], embedder: Embedder | None = None, *, against: Against = "best"
) -> pd.DataFrame:
    """Scores of every candidate against its draw's best reference: one row a candidate and metric.

    Args: draws: dataset, question, draw, and any columns of conditions; metrics: names in METRICS;
        against: "good" for the highest score against any of the list's good references.
    Returns: the columns of `draws` but for `draw`, answer, grade, metric, score, missing
        ("too_long" for what `score_pairs` excludes), note (where a text was cut, or has no blanks
        between its words), signature.
    """
    together = sorted(draws.draw, key=lambda draw: draw.question.key)
    distinct = list(dict.fromkeys(pair for draw in together for pairs in _pair_up(draw, against) for pair in pairs))
    groups = [pairs for draw in draws.draw for pairs in _pair_up(draw, against)]
    candidates = list_candidates(draws)
    frames = []
    texts: list[list[str]] = [[] for _ in range(len(candidates))]
    for place, pairs in zip(np.flatnonzero(candidates.missing == ""), groups, strict=True):
        texts[place] = [text for pair in pairs for text in pair]
    for name in metrics:
        known = dict(zip(distinct, score_pairs(name, distinct, embedder), strict=True))
        scores = np.full(len(candidates), np.nan)
        scores[candidates.missing == ""] = [np.max([known[pair] for pair in pairs]) for pairs in groups]
        missing = candidates.missing.mask((candidates.missing == "") & np.isnan(scores), "too_long")
        if METRICS[name].needs_embedder and embedder:
            noted = note_cut(texts, embedder, EMBEDDER_CUT)
        else:
            noted = [UNSPACED if any(map(_lacks_blanks, each)) else "" for each in texts]
        signed = sign(candidates, f"{name}|{METRICS[name].signature}|ref:{against}")
        frames.append(candidates.assign(metric=name, score=scores, missing=missing, note=noted, signature=signed))
    return pd.concat(frames, ignore_index=True)


@cache  # a text stands in many pairs, and under several metrics
def _lacks_blanks(text: str) -> bool:
    """Whether most letters are of writing without blanks between words: of Chinese, Japanese, Thai,
    Lao, Khmer, ...
    """
    return 2 * len(_UNSPACED.findall(text)) > sum(map(str.isalpha, text))


def score_pairs(name: str, pairs: Pairs, embedder: Embedder | None = None) -> NDArray[np.float64]:
    """One metric's score of each pair, in blocks, so that token vectors of a few texts at a time
    are in memory.

    Returns: [n]; NaN where a text has more than LONGEST characters or MOST_STOPS full stops,
        whatever the metric: none of them is made for such texts, which would take hours or all
        memory.
    """
    metric = METRICS[name]
    models = (embedder,) if metric.needs_embedder else ()
    texts = {text for pair in pairs for text in pair}
    too_long = {text for text in texts if len(text) > LONGEST or text.count(".") > MOST_STOPS}
    fitting = [place for place, pair in enumerate(pairs) if too_long.isdisjoint(pair)]
    scores = np.full(len(pairs), np.nan)
    for start in range(0, len(fitting), _PAIRS_AT_ONCE):
        block = fitting[start : start + _PAIRS_AT_ONCE]
        scores[block] = metric.score([pairs[place] for place in block], *models)
    return scores


def _pair_up(draw: Draw, against: Against) -> list[list[tuple[str, str]]]:
    """The pairs of each candidate."""
    if not draw.candidates:
        return []
    references = draw.good if against == "good" else (draw.best,)
    return [[(candidate.text, reference.text) for reference in references] for candidate in draw.candidates]


def score_rouge(pairs: Pairs, *, variant: RougeVariant) -> NDArray[np.float64]:
    """F of ROUGE as the LINKAGE authors ran it: n-grams as sets, ROUGE-L as a union over sentences.

    Texts are split into sentences at every full stop and into words at blanks, neither lower-cased
    nor stemmed. A text of full stops alone scores 0.
    Source: PyPI package rouge 1.0.1, equal to `nfqa.kernels.rouge.score_rouge_sets`. Differs from:
        `score_google_rouge`, which counts repeated n-grams, lower-cases, drops punctuation, and
        takes one longest common subsequence over the whole text.
    """
    return np.array([getattr(_rouge(candidate, reference), variant) for candidate, reference in pairs])


@cache
def _rouge(candidate: str, reference: str) -> RougeF:
    return score_rouge_sets(split_sentences(candidate), split_sentences(reference))


@cache
def split_sentences(text: str) -> list[list[str]]:
    """Words by sentence as the package rouge cuts them: sentences at full stops, words at blanks."""
    return [" ".join(part.split()).split(" ") for part in text.split(".") if part]  # a blank part is one empty word


def forget_texts() -> None:
    """Let go of what is kept of the texts that were scored."""
    for cached in (_rouge, split_sentences, _open_google_rouge, _lacks_blanks):
        cached.cache_clear()


def score_google_rouge(pairs: Pairs, *, variant: RougeVariant, stem: bool) -> NDArray[np.float64]:
    """F of Google's ROUGE, with or without Porter stemming: lower-cased, punctuation dropped,
    repeats counted.

    ROUGE-L's longest common subsequence L gives P = L / |candidate|, R = L / |reference|, over
    tokens.
    Source: PyPI package rouge-score, which computes it.
    """
    score = _open_google_rouge(stem)
    named = variant.replace("rougel", "rougeL")
    return np.array([score(reference, candidate)[named].fmeasure for candidate, reference in pairs])


@cache
def _open_google_rouge(stem: bool) -> Callable[[str, str], dict[str, Any]]:
    """All variants of a reference and a candidate, which are asked for one after the other."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    tokenizer = SimpleNamespace(tokenize=cache(DefaultTokenizer(stem).tokenize))  # stemming a text is slow
    return cache(RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=tokenizer).score)


def score_bleu(pairs: Pairs, *, smoothing: str) -> NDArray[np.float64]:
    """Sentence BLEU-4 on words split at blanks, as the LINKAGE authors ran it ("none").

    BLEU = min(1, exp(1 - |reference| / |candidate|)) times the geometric mean of p_1 to p_4, p_n
    the candidate's n-grams that the reference has, each at most as often, over all of them; 0
    without a common word. Unsmoothed, a p_n of 0 counts as the smallest float, so most scores lie
    near 1e-78, 1e-155 or 1e-231: their order says how many orders match and little more. "method1"
    adds 0.1 to empty counts, "method3" halves them.
    Source: Papineni et al. (2002); Chen and Cherry (2014) for the smoothings; nltk's sentence_bleu,
        which computes it.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smooth = None if smoothing == "none" else getattr(SmoothingFunction(), smoothing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of orders without a match, which are most
        scores = [sentence_bleu([each.split()], text.split(), smoothing_function=smooth) for text, each in pairs]
    return np.array(scores, dtype=np.float64)


def score_sacrebleu(pairs: Pairs) -> NDArray[np.float64]:
    """Sentence BLEU of sacrebleu (13a tokens, exponential smoothing, effective order), scaled to
    [0, 1].

    Source: Post (2018).
    """
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(effective_order=True)
    return np.array([bleu.sentence_score(candidate, [reference]).score / 100 for candidate, reference in pairs])


def score_bertscore(pairs: Pairs, embedder: Embedder) -> NDArray[np.float64]:
    """BERTScore F over the embedder's last layer, no idf weights, no baseline rescaling.

    P = mean over the candidate's words of the highest cosine with any reference token, R the same
    the other way round, F = 2PR / (P + R). [CLS] and [SEP] can be matched but carry no weight of
    their own.
    Source: Zhang et al. (2020). Differs from: what the LINKAGE authors call BERTScore, see
        `score_cls_cosine`.
    """
    tokens = _read_tokens(pairs, embedder)
    return np.array([_match_tokens(tokens[c], tokens[r]) for c, r in pairs])


def _match_tokens(candidate: TokenVectors, reference: TokenVectors) -> float:
    cosines = _normalise(candidate.tokens) @ _normalise(reference.tokens).T  # [Tc, Tr]
    words_c = ~candidate.special
    words_r = ~reference.special
    if not words_c.any() or not words_r.any():
        return 0.0
    precision = float(cosines.max(1)[words_c].mean())
    recall = float(cosines.max(0)[words_r].mean())
    return min(1.0, 2 * precision * recall / (precision + recall)) if precision + recall > 0 else 0.0


def score_cls_cosine(pairs: Pairs, embedder: Embedder) -> NDArray[np.float64]:
    """Cosine of the two first-token vectors: what the released LINKAGE code computes under the name
    BERTScore.

    Source: the authors' baseline script. Differs from: it, in the encoder where the embedder isn't
        PAPER_ENCODER.
    """
    tokens = _read_tokens(pairs, embedder)
    first = {text: vectors.tokens[0] / np.linalg.norm(vectors.tokens[0]) for text, vectors in tokens.items()}
    return np.array([min(1.0, float(first[c] @ first[r])) for c, r in pairs])


def _read_tokens(pairs: Pairs, embedder: Embedder) -> dict[str, TokenVectors]:
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    return dict(zip(texts, embedder.embed_tokens(texts), strict=True))


def _normalise(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


METRICS: dict[str, OverlapMetric] = {}
for _variant in get_args(RougeVariant):
    METRICS[_variant] = OverlapMetric("impl:sets,as-rouge-1.0.1|stem:no", partial(score_rouge, variant=_variant))
    for _suffix, _stemmer in (("", "no"), ("_stem", "porter")):
        _score = partial(score_google_rouge, variant=_variant, stem=bool(_suffix))
        METRICS[f"google_{_variant}{_suffix}"] = OverlapMetric(f"impl:rouge-score-0.1.2|stem:{_stemmer}", _score)
for _suffix, _smoothing in (("", "none"), ("_smooth1", "method1"), ("_smooth3", "method3")):
    _score = partial(score_bleu, smoothing=_smoothing)
    METRICS[f"bleu{_suffix}"] = OverlapMetric(f"impl:nltk-sentence|tok:blanks|smooth:{_smoothing}", _score)
METRICS["sacrebleu"] = OverlapMetric("impl:sacrebleu|tok:13a|smooth:exp|effective:yes", score_sacrebleu)
METRICS["bertscore"] = OverlapMetric("impl:nfqa|layer:last|idf:no|rescale:no", score_bertscore, needs_embedder=True)
METRICS["cls_cosine"] = OverlapMetric("impl:nfqa|pool:cls|cosine", score_cls_cosine, needs_embedder=True)
