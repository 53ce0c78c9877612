"""Pools of documents: disjoint, of equal size, and drawn by seed."""

from __future__ import annotations

import pandas as pd
import pytest

from nfqa.debates.domains import SOURCES, draw_pools


def make_documents(trusted: int, others: int, question: str = "q") -> pd.DataFrame:
    names = [f"d{place}" for place in range(trusted + others)]
    sides = [True] * trusted + [False] * others
    return pd.DataFrame({"question": question, "document": names, "text": names, "trusted": sides})


@pytest.mark.parametrize(("trusted", "others", "size"), [(2, 2, 1), (2, 9, 1), (5, 4, 2), (6, 7, 3)])
def test_pools_share_no_document_and_every_source_has_as_many(trusted, others, size):
    drawn = draw_pools(make_documents(trusted, others), seed=0)
    one, two = (set(drawn.document[drawn.pool == pool]) for pool in (1, 2))
    assert not one & two
    assert (drawn.groupby(["pool", "source"]).size() == size).all()
    assert set(drawn.source) == set(SOURCES)
    assert drawn.trusted[drawn.source == "trusted"].all()
    assert not drawn.trusted[drawn.source == "others"].any()


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_a_text_are_dealt_once(seed):
    documents = make_documents(4, 4).assign(text=["a", "a", "b", "c", "a", "d", "e", "f"])
    drawn = draw_pools(documents, seed=seed)
    one, two = (set(drawn.text[drawn.pool == pool]) for pool in (1, 2))
    assert one
    assert not one & two


def test_the_mixed_source_draws_from_its_own_pool_by_the_seed_alone():
    documents = make_documents(8, 8)
    drawn = draw_pools(documents, seed=1)
    assert drawn.equals(draw_pools(documents, seed=1))
    assert not drawn.equals(draw_pools(documents, seed=2))
    for _, pool in drawn.groupby("pool"):
        mixed = set(pool.document[pool.source == "mixed"])
        assert mixed < set(pool.document[pool.source != "mixed"])


def test_a_question_with_one_document_on_a_side_is_left_out_and_moves_no_other_s_draw():
    few, enough = make_documents(1, 5, "few"), make_documents(4, 4)
    drawn = draw_pools(pd.concat([few, enough]), seed=0)
    assert set(drawn.question) == {"q"}
    assert draw_pools(few, seed=0).empty
