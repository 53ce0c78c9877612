"""Duplicates, domains and searching: hand arithmetic, and exact answers beside fast ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from reproduction.debates.search import (
    cut_documents,
    find_nearest,
    fuse_rankings,
    rank_by_vectors,
    rank_by_words,
    rerank,
    score_by_cosine,
)
from reproduction.debates.sourcing import choose_removed, find_near_duplicates, remove_near_duplicates

TURNS = {"north": 0, "about north": 10, "east": 90, "about east": 95, "south": 180}  # degrees


class Compass:
    """An embedder of two dimensions: a text's vector points where the text says."""

    def embed_sentences(self, texts: list[str]) -> np.ndarray:
        angles = np.deg2rad([TURNS[text] for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def embed_queries(self, queries: list[str]) -> np.ndarray:
        """A query points where the text behind its prompt says: none is embedded as a text."""
        return self.embed_sentences([query.removeprefix("to the ") for query in queries])


def list_pairs(edges: list[tuple[int, int]]) -> pd.DataFrame:
    return pd.DataFrame(edges, columns=["left", "right"]).assign(cosine=1.0)


def test_covers_of_a_star_and_of_a_path() -> None:
    star, path = list_pairs([(0, 4), (1, 4), (2, 4), (3, 4)]), list_pairs([(0, 1), (1, 2), (2, 3)])
    assert [choose_removed(star, method=m) for m in ("greedy", "exact", "components")] == [[4], [4], [1, 2, 3, 4]]
    assert len(choose_removed(path, method="greedy")) == len(choose_removed(path, method="exact")) == 2
    assert choose_removed(path, method="components") == [1, 2, 3]
    assert choose_removed(list_pairs([])) == []


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
    pairs = find_near_duplicates(Compass().embed_sentences(list(TURNS)), threshold=np.cos(np.deg2rad(20)))
    assert pairs[["left", "right"]].to_numpy().tolist() == [[0, 1], [2, 3]]
    np.testing.assert_allclose(pairs.cosine, np.cos(np.deg2rad([10, 5])))
    left, removed = remove_near_duplicates(questions, Compass())  # type: ignore[arg-type]
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


def test_bm25_ranks_by_the_best_chunk_and_leaves_out_what_shares_no_word() -> None:
    result = rank_by_words(["cats", "morning birds", "whales"], cut_documents(DOCUMENTS, size=20), top=2)
    rows = [["cats", "a", 1], ["cats", "b", 2], ["morning birds", "c", 1]]
    assert result[["query", "document", "rank"]].to_numpy().tolist() == rows
    lengths = [4, 3, 3, 2, 1]  # words of the five chunks, of which three have "cats"; "at", "in" and "the" don't count
    idf = np.log(1 + (5 - 3 + 0.5) / (3 + 0.5))
    np.testing.assert_allclose(result.score[0], idf / (1 + 1.5 * (0.25 + 0.75 * 3 / np.mean(lengths))), rtol=1e-6)


def test_vectors_rank_by_cosine() -> None:
    texts = pd.DataFrame({"document": ["n", "e", "s", "n"], "text": ["about north", "about east", "south", "north"]})
    result = rank_by_vectors(["north", "east"], texts, Compass(), top=2)  # type: ignore[arg-type]
    rows = [["north", "n"], ["north", "e"], ["east", "e"], ["east", "n"]]
    assert result[["query", "document"]].to_numpy().tolist() == rows
    np.testing.assert_allclose(result.score, np.cos(np.deg2rad([0, 95, 5, 80])), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_vectors_are_those_of_a_full_sort(seed: int) -> None:
    draw = np.random.default_rng(seed)
    queries, vectors = draw.normal(size=(300, 8)), draw.normal(size=(50, 8))
    places, products = find_nearest(queries, vectors, top=7)
    every = queries @ vectors.T
    np.testing.assert_array_equal(places, np.argsort(-every, axis=1, kind="stable")[:, :7])
    np.testing.assert_allclose(products, np.take_along_axis(every, places, axis=1))


def make_ranking(method: str, *documents: str) -> pd.DataFrame:
    rows = [("q", document, place, 0.0, method) for place, document in enumerate(documents, start=1)]
    return pd.DataFrame(rows, columns=["query", "document", "rank", "score", "method"])


def test_reciprocal_ranks_are_added() -> None:
    fused = fuse_rankings(pd.concat([make_ranking("x", "a", "b", "c"), make_ranking("y", "c", "a")]), top=3)
    assert fused.document.tolist() == ["a", "c", "b"]
    np.testing.assert_allclose(fused.score, [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62])


def test_a_second_scorer_orders_by_its_best_chunk() -> None:
    texts = pd.DataFrame({"document": ["a", "a", "b"], "text": ["south", "about north", "about east"]})
    ranking = make_ranking("x", "b", "a").assign(query="north")
    result = rerank(ranking, texts, score_by_cosine(Compass()), top=2)  # type: ignore[arg-type]
    assert result[["document", "method"]].to_numpy().tolist() == [["a", "reranked"], ["b", "reranked"]]
    np.testing.assert_allclose(result.score, np.cos(np.deg2rad([10, 95])))
