"""What a topic model's topics are worth: how alike a topic's texts are, and where other texts belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUTLIER = -1  # the topic of what is in none


def score_cohesion(vectors: NDArray[np.floating], topics: Sequence[int]) -> float:
    """How alike the texts of a topic are: the mean cosine of two of its texts, averaged over topics.

    With v the vectors of a topic's n texts it is (|Σ v|² - n) / (n (n - 1)), so that no pair is looked at. Outliers
    have no part; NaN where no topic has two texts.

    Args: vectors: [N, D], of unit length; topics: [N].
    """
    frame = pd.DataFrame(np.asarray(vectors, dtype=np.float64)).groupby(np.asarray(topics))
    sizes = frame.size().drop(index=OUTLIER, errors="ignore")
    sizes = sizes[sizes > 1]
    squares = (frame.sum().loc[sizes.index] ** 2).sum(axis=1)
    return float(((squares - sizes) / (sizes * (sizes - 1))).mean())


def place_nearest(
    vectors: NDArray[np.floating], topics: Sequence[int], others: NDArray[np.floating]
) -> tuple[list[int], list[float]]:
    """The topic whose mean vector is nearest by cosine to each other text, and the cosine.

    Args: vectors: [N, D] and topics: [N], of the texts that the topics were found in, where outliers have no part;
        others: [M, D]; all of unit length.
    Raises: ValueError where every text is an outlier.
    """
    frame = pd.DataFrame(np.asarray(vectors)).groupby(np.asarray(topics)).mean().drop(index=OUTLIER, errors="ignore")
    if frame.empty:
        raise ValueError("no text is in a topic: all are outliers; ask for smaller topics")
    centres = frame.to_numpy() / np.linalg.norm(frame.to_numpy(), axis=1, keepdims=True)
    cosines = others @ centres.T
    return frame.index[cosines.argmax(axis=1)].tolist(), cosines.max(axis=1).tolist()
