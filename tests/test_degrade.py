"""The rule-based degrader: each technique by hand, and what must hold for any text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.studies.degrade import (
    degrade,
    drop_key_sentences,
    mislead,
    negate,
    omit_details,
    swap_nouns,
    swap_numbers,
)

QUESTION = "how long should bread bake?"
TEXT = (
    "Bread should bake for 40 minutes (less in a small oven). Knock on the crust, such as with a knuckle. "
    "It sounds hollow. My aunt Clara taught me that."
)
POOL = ("Trains leave Lisbon at nine. Short.", "A guitar needs six strings and some patience.")

# Words, letters of several alphabets, digits, signs and line ends, or anything at all.
some_texts = st.one_of(
    st.text(min_size=1),
    st.lists(st.sampled_from(["bread", "Is", "not", "Clara", "40", "two", "(oven)", ". ", "\n", ",", "и", "面包", "é"]))
    .map(" ".join),
).filter(str.strip)  # fmt: skip


def read_words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("Use yeast (dry or fresh) [1].", "Use yeast."),
        # a detail ends at the line, and the next begins there; blanks before no detail stay
        ("Bake,  such as so \n  due to it", "Bake"),
        ("Bake  \n  (dry) [1]   so,  and now", "Bake   so, and now"),
        # shares "bread" 1, "bake" 1, nothing 0: the last goes
        ("Bread rises. It must bake. Have fun.", "Bread rises. It must bake."),
        # two sentences, three clauses: "it is easy" shares nothing
        ("Bake bread, it is easy, then cool the bread. Bake it.", "Bake bread, then cool the bread. Bake it."),
        ("Bake it. Eat it.", "Bake it. Eat it."),
    ],
)
def test_details_are_omitted(text: str, shorter: str) -> None:
    assert omit_details(text, question=QUESTION) == shorter


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        # shares 0, 2 (bread, bake), 1 (bake): half of three, rounded down, is one
        ("Hello. Bread must bake. Bake well.", "Hello. Bake well."),
        # of equals the earlier; half of four is two
        ("One. Two. Three. Four.", "Three. Four."),
        ("Baking bread takes an hour, an oven helps", "an oven helps"),  # "baking" and "bake" differ in five letters
        ("Heat the oven\nBake the bread", "Heat the oven"),
    ],
)
def test_key_sentences_are_those_that_share_most_words_with_the_question(text: str, rest: str) -> None:
    assert drop_key_sentences(text, question=QUESTION) == rest


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
    ],
)
def test_affirmations_are_negated_and_the_reverse(text: str, turned: str) -> None:
    assert negate(text) == turned


def test_numbers_are_swapped_and_all_else_stays() -> None:
    changed = swap_numbers("Bake 40 minutes at 220.5 with two eggs, one by one.", key="k")
    result = re.fullmatch(r"Bake (\d)0 minutes at (\d)20\.(\d) with (\w+) eggs, one by one\.", changed)
    assert result
    assert not any(digit in old for digit, old in zip(result.groups()[:3], ("04", "02", "05"), strict=True))
    assert result[4] != "two"
    assert swap_numbers("No number at all", key="k") == "No number at all"
    assert swap_numbers("Two", key="k")[0].isupper()


def test_nouns_and_names_are_swapped_for_those_of_the_pool_or_among_themselves() -> None:
    # nouns by the rule: "aunt" is short, "Clara" a name, "taught" and "baking" long
    text = "My aunt Clara taught baking to him."
    assert swap_nouns(text, key="k", share=1) != text
    moved = read_words(swap_nouns(text, key="k", share=1))  # without a pool they change places
    assert sorted(word.lower() for word in moved) == sorted(word.lower() for word in read_words(text))
    foreign = read_words(swap_nouns(text, key="k", share=1, pool=POOL[:1]))
    # of the pool: "trains", "leave", "Lisbon" are the long ones; "Short" too, the fourth
    assert [word for word in foreign if word in ("My", "aunt", "to", "him")] == ["My", "aunt", "to", "him"]
    assert len({"trains", "leave", "lisbon", "short"} & {word.lower() for word in foreign}) == 3


def test_a_misleading_statement_is_the_longest_sentence_of_a_text_of_the_pool_or_a_stock_one() -> None:
    assert mislead("Bake it.", key="k", pool=POOL[:1]) == "Bake it. Trains leave Lisbon at nine."
    stock = mislead("Bake it.", key="k")
    assert stock.startswith("Bake it. ")
    assert len(stock) > len("Bake it. ")
    assert mislead("Bake it.", key="k", pool=["..."]) == stock  # a pool text without a word gives no statement


def test_each_level_is_made_from_the_one_before() -> None:
    mild, middle, severe = degrade(TEXT, question=QUESTION, seed=0, pool=POOL)
    assert "(less" not in mild
    assert "40" not in mild
    # Two of the four sentences share words: only the first does. After level 1 three are left; one goes.
    assert not middle.startswith("Bread")
    assert any(sentence in severe for sentence in ("Trains leave Lisbon at nine.", POOL[1]))
    assert degrade("Yes", question="is it?", seed=0)[0].startswith("Yes ")  # nothing to change: a statement is added


@settings(max_examples=200, deadline=None)
@given(
    text=some_texts, question=st.text(max_size=30), seed=st.integers(0, 99), pool=st.sampled_from([(), POOL, ("…",)])
)
def test_any_text_gets_worse_level_by_level_and_the_same_way_twice(text, question, seed, pool) -> None:
    levels = degrade(text, question=question, seed=seed, pool=pool)
    assert levels == degrade(text, question=question, seed=seed, pool=pool)
    words = [tuple(read_words(result)) for result in (text, *levels)]
    assert all(words[1:])
    assert len(set(words)) == 4
