"""Answers and what they are judged by, as the library's functions take them; and their scores, as these give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Frames:
    """Answers and what they are judged by, as tidy frames; `dataclasses.replace` puts another frame in a place.

    answers: dataset, question (its name), answer (its id), system ("" for none), text, grade (0 to 3, or NaN).
    references: dataset, question, reference, place (1 is best), text, grade. views: dataset, question, view,
    point_of_view, explanation, stance, text (the first two). texts_by_name: each question's text by its name.
    noticed: what was left out, put right or is worth knowing, counted by name.
    """

    answers: pd.DataFrame
    references: pd.DataFrame
    views: pd.DataFrame
    texts_by_name: dict[str, str]
    noticed: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        frames = {"answers": self.answers, "references": self.references, "points of view": self.views}
        counts = ", ".join(f"{len(frame):,} {name}" for name, frame in frames.items())
        return f"Frames({counts}{''.join(f'; {name}: {count:,}' for name, count in self.noticed.items())})"


def finish_scores(frames: Frames, score: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """The scores of the answers, one row each or several, with their grades, signed by how texts were changed."""
    from nfqa.metrics.references import sign_texts

    scores = score(frames.answers.assign(**{"row of answer": range(len(frames.answers))}))
    grades = frames.answers.grade.to_numpy()[scores.pop("row of answer")]
    scores.insert(scores.columns.get_loc("system") + 1, "grade", grades)
    return sign_texts(scores.astype({"missing": str}), frames.noticed)
