"""Debatable questions of several sources: near-duplicates among them, how many are left, and what
topics they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nfqa.files.records import QuestionSet
    from nfqa.models.embed import Embedder

Method = Literal["greedy", "exact", "components"]
THRESHOLD = 0.9  # cosine from which two questions are taken for one; DebateQA's own is not in our sources
OUTLIER = -1  # the topic of what is in none
_ROWS = 2_000  # of the cosine matrix at a time: 100,000 texts need 800 MB of float32 for a block


def find_near_duplicates(vectors: NDArray[np.floating], *, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Every pair of texts whose cosine is at least the threshold.

    Args: vectors: [N, D], of unit length.
    Returns: left, right (places, left < right), cosine; sorted by places.
    """
    pairs = []
    for first in range(0, len(vectors), _ROWS):
        cosines = vectors[first : first + _ROWS] @ vectors[first:].T
        rows, columns = np.nonzero(np.triu(cosines >= threshold - 1e-6, k=1))
        block = {"left": rows + first, "right": columns + first, "cosine": cosines[rows, columns]}
        pairs.append(pd.DataFrame(block))
    return pd.concat(pairs, ignore_index=True) if pairs else pd.DataFrame(columns=["left", "right", "cosine"])


def choose_removed(pairs: pd.DataFrame, *, method: Method = "greedy") -> list[int]:
    """The texts to remove so that no pair is left whole: a vertex cover of the graph of pairs.

    greedy: the text in most pairs goes first, of equals the later one, until no pair is left.
    exact: the fewest texts that do it, as an integer program: minimise Σ x_i with x_i + x_j >= 1
    for each pair; for small graphs. components: all but the first text of each connected component,
    though its ends may be unlike.

    Returns: places, in rising order.
    Source: DebateQA, section A.1, for the greedy one. Without its code, the rule for equals is this
        project's.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if pairs.empty:
        return []
    places, ends = np.unique(pairs[["left", "right"]].to_numpy(dtype=np.intp), return_inverse=True)
    ends = ends.reshape(-1, 2)  # [pairs, 2]
    size = len(places)
    if method == "components":
        _, component = connected_components(coo_matrix((np.ones(len(ends)), ends.T), shape=(size, size)))
        chosen = np.flatnonzero(pd.Series(component).duplicated())
    elif method == "exact":
        pair = np.repeat(np.arange(len(ends)), 2)
        covered = LinearConstraint(coo_matrix((np.ones(ends.size), (pair, ends.ravel()))), lb=1)
        chosen = np.flatnonzero(milp(np.ones(size), constraints=covered, integrality=1, bounds=Bounds(0, 1)).x > 0.5)
    else:
        removed = []
        while len(ends):
            degrees = np.bincount(ends.ravel(), minlength=size)
            removed.append(size - 1 - int(degrees[::-1].argmax()))  # of equals the later one
            ends = ends[(ends != removed[-1]).all(axis=1)]
        chosen = np.sort(removed)
    return places[chosen].tolist()


def remove_near_duplicates(questions: pd.DataFrame, embedder: Embedder) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The questions of which no two are near-duplicates, and those removed with the nearest one
    that was kept.

    Args: questions: question (its text), and any columns.
    Returns: what is kept, as it was; removed: the columns of questions, nearest (the kept question)
        and cosine.
    """
    vectors = embedder.embed_sentences(questions.question.tolist())
    gone = choose_removed(find_near_duplicates(vectors))
    left = np.setdiff1d(np.arange(len(questions)), gone)
    cosines = vectors[gone] @ vectors[left].T  # [removed, kept]
    nearest = left[cosines.argmax(axis=1)] if len(gone) else left[:0]
    texts = questions.question.to_numpy()[nearest]
    return questions.iloc[left], questions.iloc[gone].assign(nearest=texts, cosine=cosines.max(axis=1, initial=-1))


def list_questions(*sources: QuestionSet | pd.DataFrame) -> pd.DataFrame:
    """The questions of all sources, each once a source, in the sources' order.

    Args: sources: sets of questions, or frames with dataset, question (its text) and maybe source.
    Returns: dataset, source (a part of the dataset, "" where it has none), question (its text).
    """
    frames = [
        each if isinstance(each, pd.DataFrame)
        else pd.DataFrame({"dataset": each.name, "question": [question.text for question in each.questions]})
        for each in sources
    ]  # fmt: skip
    listed = pd.concat(frames).reindex(columns=["dataset", "source", "question"])
    return listed.assign(source=listed.source.astype(object).fillna("")).drop_duplicates(ignore_index=True)
