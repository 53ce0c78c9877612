"""Negation by rule."""

from __future__ import annotations

import pytest

from reproduction.studies.negation import negate


@pytest.mark.parametrize(
    ("text", "turned"),
    [
        ("It is warm.", "It is not warm."),
        ("It is not warm.", "It is warm."),
        ("You can bake it. You should wait.", "You can not bake it. You should not wait."),
        ("You can't. It won't. They don't. Cannot be.", "You can. It will. They do. Can be."),
        ("Always cool it.", "Never cool it."),
        ("It is here and it was there.", "It is not here and it was there."),  # once a sentence
        ("History island", "History island"),  # "is" inside a word is none
        ("It is so.  !\nIt was so.", "It is not so. It was not so."),  # a sentence without a word is dropped
    ],
)
def test_affirmations_are_negated_and_the_reverse(text: str, turned: str) -> None:
    assert negate(text) == turned
