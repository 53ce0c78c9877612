"""How debates are made, by hand: sources, domains, duplicates, search, views; what each step keeps or counts."""

from __future__ import annotations

from itertools import combinations
from math import cos, radians, sin
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tiny_models import LetterEmbedder, VectorEmbedder

from nfqa.files.records import Question, QuestionSet
from reproduction.data.web import load_frame
from reproduction.debates import pipeline
from reproduction.debates.checking import check_views
from reproduction.debates.domains import add_domains
from reproduction.debates.extract import extract_views, join_views, split_documents
from reproduction.debates.search import cut_documents, find_nearest
from reproduction.debates.sourcing import choose_removed, find_near_duplicates, list_questions, remove_near_duplicates


def make_set(name: str, *texts: str) -> QuestionSet:
    return QuestionSet(name, tuple(Question(text, id=str(n)) for n, text in enumerate(texts)), "measured", "0")


def test_each_question_stands_once_a_source() -> None:
    claims = pd.DataFrame({"dataset": "b", "source": ["x", "y", "x"], "question": ["One?", "One?", "One?"], "more": 1})
    result = list_questions(make_set("a", "One?", "Two?", "One?"), claims)
    rows = [["a", "", "One?"], ["a", "", "Two?"], ["b", "x", "One?"], ["b", "y", "One?"]]
    assert result.to_numpy().tolist() == rows


@pytest.mark.parametrize(
    ("address", "domain", "suffix", "trusted"),
    [
        ("https://www.example.org/a?b=c.com", "example.org", "org", True),
        ("https://gov.evil.com/", "evil.com", "com", False),
        ("https://www.parliament.gov.uk/", "parliament.gov.uk", "gov.uk", False),
        ("http://10.0.0.1/x.org", "10.0.0.1", "", False),
        ("http://[2001:db8::1]/", "[2001:db8::1]", "", False),
        ("", "", "", False),
    ],
)
def test_an_address_is_trusted_by_its_public_suffix(address: str, domain: str, suffix: str, trusted: bool) -> None:
    row = add_domains(pd.DataFrame({"address": [address]})).iloc[0]
    assert (row.domain, row.suffix, bool(row.trusted)) == (domain, suffix, trusted)


TURNS = {"north": 0, "about north": 10, "east": 90, "about east": 95, "south": 180}  # degrees
COMPASS: Any = VectorEmbedder({text: (cos(radians(turn)), sin(radians(turn))) for text, turn in TURNS.items()})


def list_pairs(edges: list[tuple[int, int]]) -> pd.DataFrame:
    return pd.DataFrame(edges, columns=["left", "right"]).assign(cosine=1.0)


@pytest.mark.parametrize("seed", range(8))
def test_the_exact_cover_is_the_smallest_and_the_greedy_one_is_a_cover(seed: int) -> None:
    draw = np.random.default_rng(seed)
    size = int(draw.integers(2, 9))
    edges = [pair for pair in combinations(range(size), 2) if draw.random() < 0.4] or [(0, 1)]
    covers = [
        set(chosen)
        for count in range(size + 1)
        for chosen in combinations(range(size), count)
        if all(a in chosen or b in chosen for a, b in edges)
    ]
    greedy, exact, components = (choose_removed(list_pairs(edges), method=m) for m in ("greedy", "exact", "components"))
    assert set(exact) in covers
    assert len(exact) == len(covers[0])
    assert set(greedy) in covers
    assert len(greedy) <= len(components)


def test_pairs_of_near_duplicates_and_which_question_each_is_near_to() -> None:
    questions = pd.DataFrame({"question": list(TURNS), "source": "x"})
    pairs = find_near_duplicates(COMPASS.embed_sentences(list(TURNS)), threshold=np.cos(np.deg2rad(20)))
    assert pairs[["left", "right"]].to_numpy().tolist() == [[0, 1], [2, 3]]
    np.testing.assert_allclose(pairs.cosine, np.cos(np.deg2rad([10, 5])), rtol=1e-6)
    left, removed = remove_near_duplicates(questions, COMPASS)
    assert left.question.tolist() == ["north", "east", "south"]
    assert removed[["question", "nearest"]].to_numpy().tolist() == [["about north", "north"], ["about east", "east"]]


DOCUMENTS = pd.DataFrame({
    "document": ["a", "b", "c"],
    "text": ["Cats sleep all day.\n\nCats eat fish.", "Dogs bark at cats.", "Birds sing in the morning."],
})  # fmt: skip


def test_documents_are_cut_into_numbered_chunks() -> None:
    cut = cut_documents(pd.concat([DOCUMENTS, pd.DataFrame({"document": ["d"], "text": [""]})]), size=20)
    rows = [[1, "Cats sleep all day."], [2, "Cats eat fish."]]
    assert cut[cut.document == "a"][["chunk", "text"]].to_numpy().tolist() == rows
    assert cut.text.str.len().max() <= 20
    assert "d" not in cut.document.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_vectors_are_those_of_a_full_sort(seed: int) -> None:
    draw = np.random.default_rng(seed)
    queries, vectors = draw.normal(size=(300, 8)), draw.normal(size=(50, 8))
    places, products = find_nearest(queries, vectors, top=7)
    every = queries @ vectors.T
    np.testing.assert_array_equal(places, np.argsort(-every, axis=1, kind="stable")[:, :7])
    np.testing.assert_allclose(products, np.take_along_axis(every, places, axis=1))


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
