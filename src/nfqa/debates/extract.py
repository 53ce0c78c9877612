"""Points of view, explanations and answers made of documents' own sentences: what stands in for a language model.

Nothing here understands a text. Sentences near to the question in an embedder's space are taken to answer it, groups of
them to be points of view; that two of them disagree is neither sought nor seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.metrics.coverage import split_answer

if TYPE_CHECKING:
    from nfqa.models.embed import Embedder

_WORDS = (6, 60)  # of a sentence that can say something alone, and is no list or menu without a full stop
_CANDIDATES, _EACH = 40, 8  # sentences a question that may be points of view; of one document
FEWEST, MOST = 3, 5  # points of view: DebateQA leaves out questions with fewer; a question has 3.7 there on average
_NEAR = 0.3  # cosine to the point of view from which a sentence may explain it


def split_documents(documents: pd.DataFrame) -> pd.DataFrame:
    """The documents' sentences that can stand alone: 6 to 60 words, no question, each once a question.

    Args: documents: question, document, text.
    Returns: question, document, place (of the sentence in its document, from 1), text.
    """
    if documents.empty:
        return pd.DataFrame(columns=["question", "document", "place", "text"])
    cut = documents[["question", "document"]].assign(text=[split_answer(text) for text in documents.text])
    cut = cut.explode("text").dropna(subset="text")
    cut = cut.assign(place=cut.groupby(level=0).cumcount() + 1)
    words = cut.text.str.split().str.len()
    kept = cut[words.between(*_WORDS) & ~cut.text.str.endswith("?")].drop_duplicates(["question", "text"])
    return kept[["question", "document", "place", "text"]].reset_index(drop=True)


def extract_views(
    sentences: pd.DataFrame, embedder: Embedder, *, length: int = 6, fewest: int = FEWEST, most: int = MOST
) -> pd.DataFrame:
    """Points of view and explanations for each question, as sentences of its documents.

    Of a question's sentences the 40 nearest to it, 8 a document at most, are grouped by average linkage on cosine
    distance into `fewest` to `most` groups, the number of the best silhouette. Each group is a point of view, those
    with the most documents first; its sentence nearest to the question is its statement. The explanation is made of the
    `length` other sentences nearest to the statement, from the documents of its group, in their order; a sentence
    serves one point of view, its nearest.

    Args: sentences: as `split_documents` gives them.
    Returns: a row a sentence: question, view (QUESTION.1, QUESTION.2 ...), part (point_of_view or explanation),
        document, place, text. A question with no more sentences than `fewest` has one point of view for each.
    """
    from tqdm import tqdm

    groups = tqdm(list(sentences.groupby("question", sort=False)), desc="points of view", disable=None)
    found = [_extract(part, embedder, length, fewest, most) for _, part in groups]
    columns = ["question", "view", "part", "document", "place", "text"]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def _extract(sentences: pd.DataFrame, embedder: Embedder, length: int, fewest: int, most: int) -> pd.DataFrame:
    question = sentences.question.iloc[0]
    vectors = embedder.embed_sentences(sentences.text.tolist())
    sentences = sentences.assign(near=vectors @ embedder.embed_sentences([question])[0], row=range(len(sentences)))
    ordered = sentences.sort_values("near", ascending=False, kind="stable")
    chosen = ordered[ordered.groupby("document").cumcount() < _EACH][:_CANDIDATES]
    chosen = chosen.assign(group=_group(vectors[chosen.row], fewest, most))
    size = chosen.groupby("group").agg(documents=("document", "nunique"), near=("near", "max"))
    kept = size.sort_values(["documents", "near"], ascending=False).index
    stated = chosen.drop_duplicates("group").set_index("group").loc[kept]
    cosines = vectors @ vectors[stated.row].T  # [sentences, views]
    for place, group in enumerate(kept):  # a view is explained by its own documents alone
        own = sentences.document.isin(chosen.document[chosen.group == group])
        cosines[~own.to_numpy(), place] = -1
    cosines[stated.row] = -1
    views = [f"{question}.{place}" for place in range(1, len(kept) + 1)]
    points = stated.assign(view=views, part="point_of_view")
    nearest = sentences.assign(view=np.array(views, dtype=object)[cosines.argmax(1)], cosine=cosines.max(1))
    nearest = nearest[nearest.cosine >= _NEAR].sort_values("cosine", ascending=False, kind="stable")
    explained = nearest[nearest.groupby("view").cumcount() < length].sort_values("row").assign(part="explanation")
    both = pd.concat([points, explained])
    return both.assign(order=both["view"].map(views.index)).sort_values("order", kind="stable")


def _group(vectors: NDArray[np.floating], fewest: int, most: int) -> NDArray[np.intp]:
    """The group of each vector, of the number of groups with the best silhouette; of equals the fewest."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import silhouette_score

    if len(vectors) <= fewest:
        return np.arange(len(vectors))
    distances = np.clip(1 - vectors @ vectors.T, 0, 2)
    np.fill_diagonal(distances, 0)
    counts = range(fewest, min(most, len(vectors) - 1) + 1)
    ways = [AgglomerativeClustering(count, metric="precomputed", linkage="average") for count in counts]
    grouped = [way.fit_predict(distances) for way in ways]
    return max(grouped, key=lambda labels: silhouette_score(distances, labels, metric="precomputed"))


def join_views(parts: pd.DataFrame) -> pd.DataFrame:
    """A row a view of `extract_views`: question, view, point_of_view, explanation ("" for none), documents."""
    texts = parts.pivot_table("text", ["question", "view"], "part", aggfunc=" ".join, sort=False)
    texts = texts.reindex(columns=["point_of_view", "explanation"], fill_value="").fillna("")
    named = parts.drop_duplicates(["question", "view", "document"]).groupby(["question", "view"], sort=False).document
    return texts.assign(documents=named.agg("; ".join)).rename_axis(columns=None).reset_index()


def answer_by_sentences(
    sentences: pd.DataFrame, embedder: Embedder, *, length: int = 8, spread: float = 0.5
) -> pd.DataFrame:
    """An answer to each question, of sentences near to it and unlike one another, by maximal marginal relevance.

    The next sentence is argmax (1 - spread) cos(s, question) - spread max_t cos(s, t) over those chosen before.

    Args: sentences: as `split_documents` gives them; spread: 0 for the nearest sentences whatever they repeat.
    Returns: question, text, documents (of the chosen sentences, "; " between them), n_sentences.
    Source: Carbonell and Goldstein 1998. Stands in for a language model that writes from the same documents.
    """
    rows = []
    for question, part in sentences.groupby("question", sort=False):
        vectors = embedder.embed_sentences(part.text.tolist())
        near = vectors @ embedder.embed_sentences([str(question)])[0]
        chosen: list[int] = []
        worth = (1 - spread) * near
        for _ in range(min(length, len(part))):
            chosen.append(int(worth.argmax()))
            like = (vectors @ vectors[chosen].T).max(axis=1)
            worth = (1 - spread) * near - spread * like
            worth[chosen] = -np.inf
        said = part.iloc[chosen]
        rows.append((question, " ".join(said.text), "; ".join(said.document.unique()), len(said)))
    return pd.DataFrame(rows, columns=["question", "text", "documents", "n_sentences"])
