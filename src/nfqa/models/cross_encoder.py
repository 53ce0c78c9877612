"""Cross-encoders: models that read a query and a text together and say how near they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from nfqa.models.roles import RoleSpec


def open_cross_encoder(spec: RoleSpec) -> Callable[[Sequence[tuple[str, str]]], NDArray[np.floating]]:
    """A scorer of (query, text) pairs by any CrossEncoder of sentence-transformers: one number a pair, high is near.

    No remote code is run; a text over the model's limit is cut at its end.
    Raises: ValueError for a model with several outputs a pair, such as one trained for entailment.
    """
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(spec.name, revision=spec.revision, trust_remote_code=False)
    if model.num_labels != 1:
        raise ValueError(f"{spec.identity} gives {model.num_labels} numbers a pair; expected a reranker, which gives 1")

    def score(pairs: Sequence[tuple[str, str]]) -> NDArray[np.floating]:
        return np.asarray(model.predict(list(pairs), show_progress_bar=False), dtype=np.float64)

    return score
