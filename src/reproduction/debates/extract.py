"""Points of view, explanations and answers made of documents' own sentences: a proxy for a language
model.

Nothing here understands a text. Sentences near to the question in an embedder's space are taken to
answer it, groups of them to be points of view; that two of them disagree is neither sought nor
seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nfqa.metrics.coverage import split_answer

if TYPE_CHECKING:
    from nfqa.models.embed import Embedder

_WORDS = (6, 60)  # of a sentence that can say something alone, and is no list or menu without a full stop
_CANDIDATES = 40  # sentences per question that may be points of view
_EACH = 8  # of these from one document
FEWEST = 3  # points of view: DebateQA excludes questions with fewer
MOST = 5  # points of view; a question of DebateQA has 3.7 on average
_RELEVANCE = 0.3  # of nearness to the question beside what a statement covers
_NEAR = 0.3  # cosine to the point of view from which a sentence may explain it


def split_documents(documents: pd.DataFrame) -> pd.DataFrame:
    """The documents' sentences that can stand alone: 6 to 60 words, no question, each once, in its
    first document.

    Args: documents: question, document, text.
    Returns: question, document, place (of the sentence in its document, from 1), text.
    """
    if documents.empty:
        return pd.DataFrame(columns=["question", "document", "place", "text"])
    cut = documents[["question", "document"]].assign(text=[split_answer(text) for text in documents.text])
    cut = cut.explode("text").dropna(subset="text")
    cut = cut.assign(place=cut.groupby(level=0).cumcount() + 1)
    words = cut.text.str.split().str.len()
    sentences = cut[words.between(*_WORDS) & ~cut.text.str.endswith("?")].drop_duplicates(["question", "text"])
    return sentences[["question", "document", "place", "text"]].reset_index(drop=True)


def extract_views(sentences: pd.DataFrame, embedder: Embedder, *, length: int = 6, most: int = MOST) -> pd.DataFrame:
    """Points of view and explanations for each question, as sentences of its documents.

    Of a question's sentences the 40 nearest to it, 8 a document at most, may be statements. One
    after another that statement v is taken which adds most to

        sum_d 1/|d| sum_(s in d) max_v max(0, cos(s, v)) + 0.3 sum_v cos(v, question)

    over documents d and their sentences s: together they are near to what the documents say, each
    document counting alike. The explanation of a statement is made of the `length` sentences
    nearest to it, of those to which no other statement is nearer, in their order, and at a cosine
    of 0.3 or more.

    Args: sentences: as `split_documents` gives them; most: statements a question.
    Returns: one row per sentence: question, view (QUESTION.1, QUESTION.2 ...), part (point_of_view
        or explanation), document, place, text.
    Source: greedy maximisation of facility location (Nemhauser, Wolsey and Fisher 1978), as
        summarisers use it.
    """
    from tqdm import tqdm

    groups = tqdm(list(sentences.groupby("question", sort=False)), desc="points of view", disable=None)
    frames = [_extract(part, embedder, length, most) for _, part in groups]
    columns = ["question", "view", "part", "document", "place", "text"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def _extract(sentences: pd.DataFrame, embedder: Embedder, length: int, most: int) -> pd.DataFrame:
    question = sentences.question.iloc[0]
    vectors = embedder.embed_sentences(sentences.text.tolist())
    near = vectors @ embedder.embed_sentences([question])[0]
    sentences = sentences.assign(near=near, row=range(len(sentences)))
    ordered = sentences.sort_values("near", ascending=False, kind="stable")
    chosen = ordered[ordered.groupby("document").cumcount() < _EACH][:_CANDIDATES].row.to_numpy()
    cosines = np.clip(vectors @ vectors[chosen].T, 0, None)  # [sentences, candidates]
    weights = 1 / sentences.groupby("document").row.transform("size").to_numpy()
    covered = np.zeros(len(sentences))
    statements = list[int]()
    for _ in range(min(most, len(chosen))):
        gains = weights @ np.maximum(cosines - covered[:, None], 0) + _RELEVANCE * near[chosen]
        gains[statements] = -np.inf
        statements.append(int(gains.argmax()))
        covered = np.maximum(covered, cosines[:, statements[-1]])
    cosines = cosines[:, statements]
    cosines[chosen[statements]] = -1  # a statement explains nothing
    views = [f"{question}.{place}" for place in range(1, len(statements) + 1)]
    points = sentences.iloc[chosen[statements]].assign(view=views, part="point_of_view")
    nearest = sentences.assign(view=np.array(views, dtype=object)[cosines.argmax(1)], cosine=cosines.max(1))
    nearest = nearest[nearest.cosine >= _NEAR].sort_values("cosine", ascending=False, kind="stable")
    explained = nearest[nearest.groupby("view").cumcount() < length].sort_values("row").assign(part="explanation")
    both = pd.concat([points, explained])
    return both.assign(order=both["view"].map(views.index)).sort_values("order", kind="stable")


def join_views(parts: pd.DataFrame) -> pd.DataFrame:
    """One row per view of `extract_views`: question, view, point_of_view, explanation ("" for
    none), documents.
    """
    texts = parts.pivot_table("text", ["question", "view"], "part", aggfunc=" ".join, sort=False)
    texts = texts.reindex(columns=["point_of_view", "explanation"], fill_value="").fillna("")
    sources = parts.drop_duplicates(["question", "view", "document"]).groupby(["question", "view"], sort=False)
    return texts.assign(documents=sources.document.agg("; ".join)).rename_axis(columns=None).reset_index()
