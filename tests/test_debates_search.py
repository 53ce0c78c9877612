"""Duplicates, domains and searching: hand arithmetic, and exact answers beside fast ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from reproduction.debates.search import cut_documents, find_nearest
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


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_vectors_are_those_of_a_full_sort(seed: int) -> None:
    draw = np.random.default_rng(seed)
    queries, vectors = draw.normal(size=(300, 8)), draw.normal(size=(50, 8))
    places, products = find_nearest(queries, vectors, top=7)
    every = queries @ vectors.T
    np.testing.assert_array_equal(places, np.argsort(-every, axis=1, kind="stable")[:, :7])
    np.testing.assert_allclose(products, np.take_along_axis(every, places, axis=1))
