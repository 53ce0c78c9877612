"""The steps that make partial answers of questions, from frame to frame; each gives what it keeps
and what it drops.

What is dropped: unit (question, document or point of view), item, reason (of few, to count by) and
detail, what more there is to say: how many were found and are needed, the cosine and its threshold,
what another is a copy of.
Source: DebateQA, sections 3.1 to 3.3 and A.1 to A.4, its Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from reproduction.debates.domains import TRUSTED, add_domains
from reproduction.debates.extract import FEWEST, extract_views, split_documents
from reproduction.debates.search import PairScorer, cut_documents, rerank
from reproduction.debates.sourcing import remove_near_duplicates

if TYPE_CHECKING:
    from nfqa.models.embed import Embedder

Stage = tuple[pd.DataFrame, pd.DataFrame]
DROPPED = ["unit", "item", "reason", "detail"]
PARTS = ["id", "question", "view", "part", "document", "place", "text", "cosine"]  # of a sentence of a point of view
KEPT = 5  # documents per question at most: the paper's
FEWEST_DOCUMENTS = 3  # documents per question that are needed: the paper's
CHUNK = 2_000  # characters
NEAR = 0.3  # cosine of a document's best chunk from which it is about the question: ours, and not tuned


def list_dropped(
    unit: str, items: Collection[object], reason: str, details: Collection[object] | str = ""
) -> pd.DataFrame:
    """Items that a step drops for one reason."""
    rows = {"unit": unit, "item": [str(item) for item in items], "reason": reason}
    return pd.DataFrame(rows).assign(detail=details if isinstance(details, str) else [str(d) for d in details])[DROPPED]


def say_cosine(cosine: float, needed: float) -> str:
    """Why a text is too far from another, in words."""
    return "no sentence to compare with" if np.isnan(cosine) else f"cosine {cosine:.3f}; {needed} needed"


def list_results(documents: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Questions, and the documents that came with each, as if a search had found them.

    Args: documents: question, document, address, text, and any columns that are the same in all
        rows of a question.
    Returns: questions: id (w1, w2 ...), question and these columns; found: id, question, document
        (ID: NAME), address, text and rank, from 1.
    """
    same = [name for name in documents if name not in ("document", "address", "text")]
    questions = documents[same].drop_duplicates("question").reset_index(drop=True)
    questions.insert(0, "id", [f"w{place}" for place in range(1, len(questions) + 1)])
    results = documents[["question", "document", "address", "text"]].merge(questions[["id", "question"]], on="question")
    ranks = results.groupby("id", sort=False).cumcount() + 1
    return questions, results.assign(document=results.id + ": " + results.document, rank=ranks)


def drop_repeats(questions: pd.DataFrame, embedder: Embedder) -> Stage:
    """Questions of which no two are near-duplicates, as `remove_near_duplicates` has them. Columns:
    id, question.
    """
    left, removed = remove_near_duplicates(questions, embedder)
    details = [f"cosine {row.cosine:.3f} with: {row.nearest}" for row in removed.itertuples()]
    return left.reset_index(drop=True), list_dropped("question", removed.id, "near-duplicate", details)


def keep_trusted(documents: pd.DataFrame, *, every: bool = False) -> Stage:
    """Documents of trusted suffixes, as `add_domains` has them; one without an address, a user's
    own file, is kept too.

    Args: every: keep all documents, and only say which are trusted.
    """
    rated = add_domains(documents)
    rated = rated.assign(trusted=rated.trusted | (rated.address.str.strip() == ""))
    untrusted = rated[~rated.trusted & (not every)]
    hosts = ("domain " + untrusted.domain.astype(str)).where(untrusted.domain != "", "an address without a domain")
    details = hosts + f", not under {', '.join(TRUSTED)}"
    dropped = list_dropped("document", untrusted.id + ": " + untrusted.document, "domain not trusted", details)
    return rated.drop(untrusted.index).reset_index(drop=True), dropped


def keep_nearest(
    questions: pd.DataFrame, documents: pd.DataFrame, score: PairScorer,
    *, top: int = KEPT, fewest: int = FEWEST_DOCUMENTS, near: float = NEAR,
) -> Stage:  # fmt: skip
    """The `top` documents of each question by their best chunk's score; questions with fewer than
    `fewest` are dropped.

    Args: score: of (question, text) pairs; near: the score that a document needs, -inf for none.
    Returns: the columns of `found` with rank and score.
    """
    if documents.empty:
        none = list_dropped("question", questions.id, f"fewer than {fewest} documents", f"none left; {fewest} needed")
        return documents.assign(score=0.0), none
    chunks = cut_documents(documents.drop_duplicates("document")[["document", "text"]], size=CHUNK)
    ranked = rerank(documents.rename(columns={"question": "query"}), chunks, score, top=len(chunks))
    ranked = ranked.rename(columns={"query": "question"})[["question", "document", "rank", "score"]]
    scored = documents.drop(columns="rank").merge(ranked, on=["question", "document"], sort=False, validate="m:1")
    far = scored.score < near
    late = scored["rank"] > top
    nearest = scored[~far & ~late]
    late = late & ~far
    nearest = nearest.iloc[np.lexsort([nearest["rank"], pd.factorize(nearest.id)[0]])]
    counts = questions.id.map(nearest.id.value_counts()).fillna(0).astype(int)
    few = questions.id[counts < fewest]
    sizes = scored.id.value_counts()
    details = [f"{counts[i]} of {sizes.get(name, 0)} are near enough; {fewest} needed" for i, name in few.items()]
    names = scored.id + ": " + scored.document
    ranks = scored["rank"].map("rank {}".format)
    dropped = [
        list_dropped("document", names[far], "far from the question", [say_cosine(x, near) for x in scored.score[far]]),
        list_dropped("document", names[late], f"not among the {top} nearest", ranks[late]),
        list_dropped("question", few, f"fewer than {fewest} documents", details),
    ]
    return nearest[~nearest.id.isin(few)].reset_index(drop=True), pd.concat(dropped, ignore_index=True)


def extract_parts(documents: pd.DataFrame, embedder: Embedder, **options: int) -> pd.DataFrame:
    """Points of view and explanations of each question's own sentences, by `extract_views`, as
    `how` has it.

    Returns: id, question, view (ID.1, ID.2 ...), part, document, place, text, cosine (1: a sentence
        of its document).
    """
    sentences = split_documents(documents)
    if len(sentences):
        embedder.prepare(sentences.text, tokens=False)  # all at once: short batches of one question cost more
    parts = extract_views(sentences, embedder, **options)
    ids = documents.drop_duplicates("question").set_index("question").id
    parts = parts.assign(id=parts.question.map(ids).astype(object), cosine=1.0)
    return parts.assign(view=parts.id + "." + parts["view"].str.replace(r"(?s).*\.", "", regex=True))[PARTS]


def keep_debatable(questions: pd.DataFrame, parts: pd.DataFrame) -> Stage:
    """The rows of questions with at least `FEWEST` points of view (DebateQA, section A.3); the
    others are dropped.

    Args: parts: id, view, and any columns: one row per sentence, or per point of view.
    """
    views = parts.groupby("id")["view"].unique().reindex(questions.id, fill_value=())
    few = views[views.map(len) < FEWEST]
    details = [f"{len(names)} left ({', '.join(names) or 'none'}); {FEWEST} needed" for names in few]
    reason = f"fewer than {FEWEST} points of view"
    return parts[~parts.id.isin(few.index)].reset_index(drop=True), list_dropped("question", few.index, reason, details)
