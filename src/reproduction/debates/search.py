"""Finding documents for queries: BM25, vectors, both fused by reciprocal rank, and a second look at the best.

Every function gives a ranking, the frame: query, document, rank (from 1), score (high is near), method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nfqa.models.embed import Embedder

FUSION = 60  # k of reciprocal rank fusion, as its authors set it
_QUERIES = 256  # at a time against all vectors: for 100,000 texts, 100 MB of cosines
Scorer = Callable[[Sequence[tuple[str, str]]], NDArray[np.floating]]  # (query, text) pairs -> scores [pairs]


def cut_documents(documents: pd.DataFrame, *, size: int) -> pd.DataFrame:
    """Documents in chunks of at most `size` characters, cut at paragraphs, then lines, then blanks, then anywhere.

    Args: documents: document, text, and any columns.
    Returns: one row per chunk with the columns of documents, text being the chunk's, and chunk, its number from 1. A
        document without text has none.
    Source: RecursiveCharacterTextSplitter of LangChain, as DebateQA cut its documents (section D.1), without overlap.
    """
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=0)
    cut = documents.assign(text=documents.text.map(splitter.split_text)).explode("text").dropna(subset="text")
    return cut.assign(chunk=cut.groupby(level=0).cumcount() + 1).reset_index(drop=True)


def rank_by_words(queries: Sequence[str], texts: pd.DataFrame, *, top: int) -> pd.DataFrame:
    """Rankings by BM25 over lower-cased words without English stop words, k1 = 1.5 and b = 0.75.

    Args: texts: document and text, one row per document or one of its chunks: its best chunk counts.
    Returns: at most `top` documents a query; those that share no word with it are excluded.
    Source: Robertson and Zaragoza 2009, in Lucene's form, as the package bm25s has it.
    """
    import bm25s

    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(bm25s.tokenize(texts.text.tolist(), stopwords="en", show_progress=False), show_progress=False)

    def find(batch: Sequence[str], depth: int) -> tuple[NDArray, NDArray]:
        tokens = bm25s.tokenize(list(batch), stopwords="en", return_ids=False, show_progress=False)
        return index.retrieve(tokens, k=depth, show_progress=False)

    ranked = _rank_chunks(queries, texts, find, top, "bm25")
    return ranked[ranked.score > 0].reset_index(drop=True)


def rank_by_vectors(queries: Sequence[str], texts: pd.DataFrame, embedder: Embedder, *, top: int) -> pd.DataFrame:
    """Rankings by cosine of query and text; as `rank_by_words`, but each query has `top` documents where there are."""
    vectors = dict(zip(queries, embedder.embed_queries(list(queries)), strict=True))
    held = embedder.embed_sentences(texts.text.tolist())

    def find(batch: Sequence[str], depth: int) -> tuple[NDArray, NDArray]:
        return find_nearest(np.stack([vectors[query] for query in batch]), held, top=depth)

    return _rank_chunks(queries, texts, find, top, "vectors")


def _rank_chunks(
    queries: Sequence[str], texts: pd.DataFrame, find: Callable[..., tuple[NDArray, NDArray]], top: int, method: str
) -> pd.DataFrame:
    """The documents of the best chunks, a few queries at a time: the chunks of long documents are many rows for each.

    Other chunks of the documents before may come between: so many chunks hold the best `top` documents for sure.
    """
    depth = min(int(texts.document.value_counts()[: top - 1].sum()) + 1, len(texts))
    distinct, ranked = list(dict.fromkeys(queries)), []
    for first in range(0, len(distinct), _QUERIES):
        part = distinct[first : first + _QUERIES]
        places, scores = find(part, depth)
        order = np.argsort(places, axis=1)  # of equal scores the first text
        places, scores = np.take_along_axis(places, order, axis=1), np.take_along_axis(scores, order, axis=1)
        rows = {"query": np.repeat(part, depth), "document": texts.document.to_numpy()[places.ravel()]}
        ranked.append(_number(pd.DataFrame(rows | {"score": scores.ravel().astype(float)}), top, method))
    return pd.concat(ranked, ignore_index=True)


def find_nearest(
    queries: NDArray[np.floating], vectors: NDArray[np.floating], *, top: int
) -> tuple[NDArray[np.intp], NDArray[np.floating]]:
    """The `top` vectors of largest dot product with each query, exact, in blocks that bound memory.

    Args: queries: [Q, D]; vectors: [N, D], N >= top.
    Returns: places and products, [Q, top], nearest first; of equals the first.
    """
    places = np.empty((len(queries), top), dtype=np.intp)
    for first in range(0, len(queries), _QUERIES):
        products = queries[first : first + _QUERIES] @ vectors.T
        best = np.sort(np.argpartition(-products, top - 1, axis=1)[:, :top], axis=1)
        order = np.argsort(-np.take_along_axis(products, best, axis=1), axis=1, kind="stable")
        places[first : first + _QUERIES] = np.take_along_axis(best, order, axis=1)
    return places, np.einsum("qd,qtd->qt", queries, vectors[places])


def fuse_rankings(rankings: pd.DataFrame, *, top: int) -> pd.DataFrame:
    """One ranking of several methods': a document's score is Σ 1 / (60 + rank) over the methods that found it.

    Of equal scores the document found first in `rankings` comes first.
    Source: Cormack, Clarke and Büttcher 2009, k = 60.
    """
    shares = rankings.assign(score=1 / (FUSION + rankings["rank"]))
    return _number(shares.groupby(["query", "document"], sort=False, as_index=False).score.sum(), top, "fused")


def rerank(rankings: pd.DataFrame, texts: pd.DataFrame, score: Scorer, *, top: int) -> pd.DataFrame:
    """The ranked documents in the order of another scorer of query and text; a document's best chunk counts.

    Args: score: a cross-encoder's `predict`, for one, of (query, text) pairs.
    """
    pairs = rankings[["query", "document"]].merge(texts[["document", "text"]], on="document", sort=False)
    scored = pairs.assign(score=score(list(zip(pairs["query"], pairs.text, strict=True))))
    return _number(scored, top, "reranked")


def score_by_cosine(embedder: Embedder) -> Scorer:
    """Cosine of query and text, for `rerank`: over texts that are sentences, a document counts by its nearest one."""

    def score(pairs: Sequence[tuple[str, str]]) -> NDArray[np.floating]:
        queries = embedder.embed_queries([query for query, _ in pairs])
        return np.einsum("pd,pd->p", queries, embedder.embed_sentences([text for _, text in pairs]))

    return score


def _number(scored: pd.DataFrame, top: int, method: str) -> pd.DataFrame:
    """The `top` documents of each query by their best row, the queries in their order; of equals the first row."""
    best = scored.sort_values("score", ascending=False, kind="stable").drop_duplicates(["query", "document"])
    best = best.assign(rank=best.groupby("query").cumcount() + 1, method=method)
    place = best["query"].map({query: place for place, query in enumerate(scored["query"].unique())})
    best = best.iloc[np.argsort(place, kind="stable")]
    return best.loc[best["rank"] <= top, ["query", "document", "rank", "score", "method"]].reset_index(drop=True)
