"""Documents of a question dealt into disjoint pools by their side: trusted, others, or both mixed."""

from __future__ import annotations

import numpy as np
import pandas as pd

SOURCES = ("trusted", "others", "mixed")
FEWEST = 2  # documents of each side: one for the answer, one for the partial answers


def draw_pools(documents: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Two disjoint pools of each question's documents, equal in size: of trusted ones, of others, and of both mixed.

    Of each side 2n documents are drawn, n the whole half of the smaller side, and n go to either pool; the mixed source
    of a pool draws n of its 2n. So no document is in both pools, and every source of a pool has n documents. Of a
    question's documents with the same text only the first is dealt: copies could go to both pools.

    Args: documents: question, document, text, trusted (bool) and any others; a question with fewer than two on a side
        is left out. seed: of the draws, which depend on it and the question's place alone.
    Returns: the rows drawn, once for each source they serve: pool (1 or 2), source (trusted, others, mixed), and the
        columns of documents, in their order.
    Source: ours. Answers from one pool share no document with partial answers from the other.
    """
    documents = documents.drop_duplicates(["question", "text"], ignore_index=True)
    frames = [documents.iloc[:0].assign(pool=0, source="")]
    for place, (_, own) in enumerate(documents.groupby("question", sort=False)):
        sides = {"trusted": own.index[own.trusted], "others": own.index[~own.trusted]}
        size = min(map(len, sides.values())) // FEWEST
        if not size:
            continue
        generator = np.random.default_rng([seed, place])
        drawn = {side: generator.permutation(rows)[: 2 * size] for side, rows in sides.items()}
        for pool in (1, 2):
            parts = {side: rows[(pool - 1) * size : pool * size] for side, rows in drawn.items()}
            parts["mixed"] = generator.permutation(np.concatenate(list(parts.values())))[:size]
            frames += [own.loc[np.sort(rows)].assign(pool=pool, source=source) for source, rows in parts.items()]
    return pd.concat(frames, ignore_index=True)
