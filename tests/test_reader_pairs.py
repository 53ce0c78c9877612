"""The pairs that the reader was trained on: which are stated, and what is kept out."""

from __future__ import annotations

import random

import pytest

from reproduction.data.web import load_frame
from reproduction.studies.stated_views import is_held_out
from tools import reader_pairs


@pytest.mark.parametrize("read", [reader_pairs.read_perspectrum, reader_pairs.read_debatewise])
def test_no_text_of_a_held_out_claim_is_trained_on(read):
    pairs = read(random.Random(0), "sample")
    assert {pair.stated for pair in pairs} == {True, False}
    claims, held = reader_pairs.read_claims("sample")
    assert len(claims) + len(held) == len(load_frame("perspectrum", data="sample")[0])
    seen = {reader_pairs.plain(text) for pair in pairs for text in (pair.answer, pair.view, pair.claim)}
    assert seen.isdisjoint(reader_pairs.list_plain(held))
    assert not any(is_held_out(claim) for claim in claims.question)


def test_a_negated_view_is_stated_by_a_negated_text_alone():
    claims, _ = reader_pairs.read_claims("sample")
    views = {
        text: (row.question, number)
        for row in claims.itertuples()
        for number, (_, texts) in enumerate(row.views)
        for text in texts
    }
    kinds = set()
    for pair in reader_pairs.read_perspectrum(random.Random(1), "sample"):
        assert pair.answer != pair.view
        answer, view = views.get(pair.answer), views.get(pair.view)
        if answer and view:  # both are people's words
            assert pair.stated == (answer == view)
        else:
            assert pair.stated == (answer is None and view is None)
        kinds.add((answer is None, view is None))
    assert kinds == {(False, False), (False, True), (True, True), (True, False)}
