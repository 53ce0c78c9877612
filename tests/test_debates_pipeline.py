"""The steps that make partial answers, by hand: each keeps or counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from tiny_models import LetterEmbedder

from reproduction.debates import pipeline
from reproduction.debates.checking import check_views

EMBEDDER: Any = LetterEmbedder()


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_untrusted_domains_go_and_a_user_s_own_texts_stay() -> None:
    result = frame(id="q", document=["d0", "d1", "d2"], address=["", "https://a.org/x", "https://a.com/x.org"])
    left, dropped = pipeline.keep_trusted(result)
    assert (left.document.tolist(), dropped["item"].tolist()) == (["d0", "d1"], ["q: d2"])
    assert len(pipeline.keep_trusted(result, every=True)[0]) == 3


def test_the_nearest_five_are_kept_and_three_are_needed() -> None:
    scores = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6, "e": 0.5, "f": 0.4, "g": 0.1}
    many = frame(id="q", question="?", document=list(scores), text=list(scores), rank=1)
    few = frame(id="r", question="!", document=["a", "g"], text=["a", "g"], rank=1)
    questions = frame(id=["q", "r", "s"], question=["?", "!", "."])
    nearest, dropped = pipeline.keep_nearest(
        questions, pd.concat([many, few]), lambda pairs: np.array([scores[text] for _, text in pairs])
    )
    assert nearest.document.tolist() == ["a", "b", "c", "d", "e"]
    assert nearest["rank"].tolist() == [1, 2, 3, 4, 5]
    assert dropped.groupby(["unit", "reason"]).size().to_dict() == {
        ("document", "far from the question"): 2,
        ("document", "not among the 5 nearest"): 1,
        ("question", "fewer than 3 documents"): 2,
    }


def test_three_points_of_view_make_a_question_debatable() -> None:
    parts = frame(id=[*"qqqqrr"], view=["q.1", "q.1", "q.2", "q.3", "r.1", "r.2"])
    left, dropped = pipeline.keep_debatable(frame(id=["q", "r", "s"]), parts)
    assert left["view"].tolist() == ["q.1", "q.1", "q.2", "q.3"]
    assert dropped[["item", "reason", "detail"]].to_numpy().tolist() == [
        ["r", "fewer than 3 points of view", "2 left (r.1, r.2); 3 needed"],
        ["s", "fewer than 3 points of view", "0 left (none); 3 needed"],
    ]


def test_a_point_of_view_is_checked_for_its_likeness_to_others_question_and_explanation() -> None:
    views = frame(
        id="q", question="aaaa", view=[f"q.{n}" for n in range(1, 6)],
        point_of_view=["aaab", "aaab ", "zzzz", "aacc", "aadd"],
        explanation=["aaab.", "aaab.", "zzzz.", "", "zzzz yyyy."],
    )  # fmt: skip
    right, dropped = check_views(views, EMBEDDER)
    assert right[["view", "explanation"]].to_numpy().tolist() == [["q.1", "aaab."], ["q.4", ""], ["q.5", ""]]
    assert dropped[["unit", "item", "reason"]].to_numpy().tolist() == [  # of each the first reason
        ["point of view", "q.2", "duplicate"],
        ["point of view", "q.3", "far from the question"],
        ["explanation", "q.5", "explanation far from it"],
    ]
