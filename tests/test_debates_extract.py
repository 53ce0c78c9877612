"""Extracted points of view and answers: every sentence is a document's own, and serves once."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from tiny_models import LetterEmbedder

from reproduction.data.web import load_frame
from reproduction.debates.extract import extract_views, join_views, split_documents

EMBEDDER: Any = LetterEmbedder()


@pytest.fixture(scope="module")
def sentences() -> pd.DataFrame:
    return split_documents(load_frame("web_documents", data="sample")[0])


def test_sentences_that_cannot_stand_alone_are_left_out() -> None:
    text = "Is this a question that somebody asks here? Too short. This sentence has enough words to stand alone."
    documents = pd.DataFrame({"question": "q", "document": ["d1", "d2", "d3"], "text": [text, text, ""]})
    assert split_documents(documents).to_numpy().tolist() == [
        ["q", "d1", 3, "This sentence has enough words to stand alone."]
    ]
    assert extract_views(split_documents(documents[2:]), EMBEDDER).empty


def test_every_sentence_of_a_view_is_a_document_s_own_and_serves_once(sentences: pd.DataFrame) -> None:
    views = extract_views(sentences, EMBEDDER, length=2)
    merged = views.merge(sentences, on=["question", "document", "place", "text"])
    assert len(merged) == len(views)
    assert not views.duplicated(["question", "text"]).any()
    stated = views[views.part == "point_of_view"]
    assert stated.groupby("question")["view"].nunique().between(3, 5).all()
    assert extract_views(sentences, EMBEDDER, most=2).groupby("question")["view"].nunique().le(2).all()
    assert not stated.duplicated("view").any()
    assert (views[views.part == "explanation"].groupby("view").size() <= 2).all()
    pd.testing.assert_frame_equal(extract_views(sentences, EMBEDDER, length=2), views)
    joined = join_views(views)
    assert joined.columns.tolist() == ["question", "view", "point_of_view", "explanation", "documents"]
    assert joined["view"].tolist() == stated["view"].tolist()
    assert (joined.point_of_view != "").all()
