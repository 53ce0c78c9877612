"""Documents in chunks, the vectors nearest to a query, and documents in the order of a scorer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nfqa.models.embed import Embedder

_QUERIES = 256  # at a time against all vectors: for 100,000 texts, 100 MB of cosines
PairScorer = Callable[[Sequence[tuple[str, str]]], NDArray[np.floating]]  # (query, text) pairs -> scores [pairs]


def cut_documents(documents: pd.DataFrame, *, size: int) -> pd.DataFrame:
    """Documents in chunks of at most `size` characters, cut at paragraphs, then lines, then blanks,
    then anywhere.

    Args: documents: document, text, and any columns.
    Returns: one row per chunk with the columns of documents, text being the chunk's, and chunk, its
        number from 1. A document without text has none.
    Source: RecursiveCharacterTextSplitter of LangChain, as DebateQA cut its documents (section
        D.1), without overlap.
    """
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=0)
    cut = documents.assign(text=documents.text.map(splitter.split_text)).explode("text").dropna(subset="text")
    return cut.assign(chunk=cut.groupby(level=0).cumcount() + 1).reset_index(drop=True)


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


def rerank(rankings: pd.DataFrame, texts: pd.DataFrame, score: PairScorer, *, top: int) -> pd.DataFrame:
    """The `top` documents of each query in the order of a scorer; a document's best chunk counts.

    Args: rankings: query, document; texts: document, text of its chunks; score: of (query, text)
        pairs.
    Returns: query, document, rank (from 1), score (high is near), the queries in their order; of
        equals the first row.
    """
    pairs = rankings[["query", "document"]].merge(texts[["document", "text"]], on="document", sort=False)
    scored = pairs.assign(score=score(list(zip(pairs["query"], pairs.text, strict=True))))
    best = scored.sort_values("score", ascending=False, kind="stable").drop_duplicates(["query", "document"])
    best = best.assign(rank=best.groupby("query").cumcount() + 1)
    place = best["query"].map({query: place for place, query in enumerate(scored["query"].unique())})
    best = best.iloc[np.argsort(place, kind="stable")]
    return best.loc[best["rank"] <= top, ["query", "document", "rank", "score"]].reset_index(drop=True)


def score_by_cosine(embedder: Embedder) -> PairScorer:
    """Cosine of query and text, for `rerank`: over texts that are sentences, a document counts by
    its nearest one.
    """

    def score(pairs: Sequence[tuple[str, str]]) -> NDArray[np.floating]:
        queries = embedder.embed_queries([query for query, _ in pairs])
        return np.einsum("pd,pd->p", queries, embedder.embed_sentences([text for _, text in pairs]))

    return score
