"""Coverage, P.D., D.A. and the LINKAGE rank by name inside other evaluation frameworks: one answer
at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any, Literal

import nfqa
from nfqa.files.answers import LACKS
from nfqa.kernels.texts import name_lack

Measure = Literal["coverage", "perspective_diversity", "dispute_awareness", "linkage"]
_ONE = Lock()  # a model serves one call at a time


def score_answer(
    measure: Measure, question: str, answer: str, metadata: Mapping[str, Any] | None, **options: Any
) -> tuple[float, str]:
    """One answer's score, and why it has none (the score is NaN then).

    Args: metadata: `partial_answers` for coverage and P.D., `references` (best first) for LINKAGE,
        texts or objects as in JSON lines; options: as the function of that name in `nfqa`.
    Returns: coverage (0 to 1, mean over the views), P.D. (lower is better), D.A. (0 or 1), or the
        rank (1 is best).
    Raises: ValueError where what the measure needs is not given.
    """
    if lack := name_lack(answer):
        return float("nan"), LACKS[lack]
    more = {name: metadata[name] for name in ("partial_answers", "references") if metadata and name in metadata}
    with _ONE:
        scores = getattr(nfqa, measure)([{"question": question, "answers": [answer]} | more], **options)
    score = scores["rank" if measure == "linkage" else "score"].astype(float).mean()  # one row, or one per view
    return float(score), scores.missing.iloc[0]
