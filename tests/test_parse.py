"""Reading verdicts: which number counts, what is no verdict, and the expectation over probabilities by hand."""

from __future__ import annotations

import math
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfqa.kernels.parse import Reading, expect_value, read_choice, read_number

AMBIGUOUS = Reading(None, "ambiguous")
UNREADABLE, EMPTY, OUT = Reading(None, "unreadable"), Reading(None, "empty"), Reading(None, "out_of_range")


def rank(completion: str) -> Reading:
    return read_number(completion, lowest=1, highest=5)


def mark(completion: str) -> Reading:
    return read_number(completion, lowest=0, highest=10, whole=False)


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("[[3]]", Reading(3.0)),
        ("Rank: [[ 3 ]].", Reading(3.0)),
        ("[[\n3\n]]", Reading(3.0)),
        ("[[03]]", Reading(3.0)),
        ("[[3.0]]", Reading(3.0)),
        ("[[+3]]", Reading(3.0)),
        ("[[2]] or rather [[4]]", AMBIGUOUS),  # two different verdicts are none
        ("[[2]], yes: [[2]]", Reading(2.0)),
        ("it quotes [[1]], but: [[5]]", AMBIGUOUS),
        ("<think>the format is [[1]]</think>[[2]]", Reading(2.0)),
        ("from [[N]], so [[4]]", Reading(4.0)),  # brackets that hold something else are passed over
        ("[[[3]]]", Reading(3.0)),
        ("[[ [[3]]", Reading(3.0)),
        ("[[3]", UNREADABLE),
        ("[3]", UNREADABLE),
        ("3", UNREADABLE),
        ("[[]]", UNREADABLE),
        ("[[three]]", UNREADABLE),
        ("[[A]]", UNREADABLE),
        ("[[3, 4]]", UNREADABLE),
        ("[[3/5]]", UNREADABLE),
        ("[[1e0]]", UNREADABLE),
        ("[[٣]]", UNREADABLE),  # a digit of another script
        ("[ [3] ]", UNREADABLE),
        ("\uff3b\uff3b3\uff3d\uff3d", UNREADABLE),
        ("[[" + " " * 50 + "3]]", UNREADABLE),  # further apart than anyone writes a verdict
        ("", EMPTY),
        (" \n\t", EMPTY),
        ("[[0]]", OUT),
        ("[[6]]", OUT),
        ("[[-1]]", OUT),
        ("[[3.5]]", OUT),
        ("[[123456789]]", OUT),
        ("[[9]] no, [[3]]", AMBIGUOUS),  # a number that is no verdict is not passed over for a later one
        ("[[-1]] no, [[3]]", AMBIGUOUS),
        ("[[99999]] no, [[3]]", AMBIGUOUS),
    ],
)
def test_a_rank_is_the_number_between_double_brackets(completion, expected):
    assert rank(completion) == expected


def test_the_first_of_several_counts_where_the_released_code_is_followed():
    assert read_number("[[2]] or rather [[4]]", lowest=1, highest=5, pick="first") == Reading(2.0)
    assert read_number("[[9]] no, [[3]]", lowest=1, highest=5, pick="first") == OUT
    assert read_choice("[[B]] or [[A]]", pick="first") == Reading(-1.0)
    with pytest.raises(ValueError, match="pick is 'last'; expected one of only, first"):
        read_choice("[[A]]", pick="last")


def test_a_mark_may_have_decimals_and_reaches_both_ends():
    assert mark("[[7.5]]") == Reading(7.5)
    assert (mark("[[0]]"), mark("[[10]]"), mark("[[10.0]]")) == (Reading(0.0), Reading(10.0), Reading(10.0))
    assert (mark("[[10.01]]"), mark("[[-0.5]]")) == (OUT, OUT)
    assert mark("[[7.]]") == mark("[[.5]]") == UNREADABLE


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("[[A]]", Reading(1.0)),
        ("[[B]]", Reading(-1.0)),
        ("[[C]]", Reading(0.0)),
        ("so [[ b ]].", Reading(-1.0)),
        ("[[A]] or [[B]]", AMBIGUOUS),
        ("[[a]], so [[A]]", Reading(1.0)),
        ("[[answer A]] that is [[B]]", Reading(-1.0)),
        ("[[[C]]]", Reading(0.0)),
        ("A", UNREADABLE),
        ("[A]", UNREADABLE),
        ("[[D]]", UNREADABLE),
        ("[[1]]", UNREADABLE),
        ("[[]]", UNREADABLE),
        ("", EMPTY),
        ("\n", EMPTY),
    ],
)
def test_a_choice_is_the_letter_between_double_brackets(completion, expected):
    assert read_choice(completion) == expected


@pytest.mark.parametrize("piece", ["[", "]", "[[", "]]", "[[1", "[[x]]", "[ ", "1", "[[" + "9" * 39, "\n", "[]"])
def test_a_completion_of_millions_of_characters_is_read_in_linear_time(piece):
    text = piece * (2_000_000 // len(piece))
    started = time.perf_counter()
    assert rank(text + " [[4]]").value in (None, 4.0)
    assert read_choice(text + " [[C]]") == Reading(0.0)
    assert time.perf_counter() - started < 3  # quadratic time would be hours


def test_a_verdict_behind_a_million_others_of_no_kind_is_found():
    assert rank("[[x]]" * 200_000 + "[[2]]") == Reading(2.0)


@given(st.text(alphabet="[]0123456789AB. -\n", max_size=60))
def test_whatever_is_written_gives_a_number_in_range_or_a_reason(completion):
    found = rank(completion)
    assert (found.value in (1, 2, 3, 4, 5)) == (found.reason == "")
    assert found.reason in ("", "empty", "unreadable", "out_of_range")
    choice = read_choice(completion)
    assert (choice.value in (-1, 0, 1)) == (choice.reason == "")
    # the brackets and their number must stand there as such
    assert found.value is None or re.search(rf"\[\[\s*\+?0*{found.value:g}(\.0+)?\s*\]\]", completion)


@given(
    st.text(alphabet=st.characters(exclude_characters="[]"), max_size=40),
    st.integers(1, 5),
    st.text(max_size=40),
)
def test_what_stands_around_a_verdict_changes_nothing(before, number, after):
    assert rank(f"{before}[[{number}]]{after}") == Reading(number)


def test_an_expected_rank_equals_hand_arithmetic():
    # p = 0.5, 0.3, 0.1 on ranks 1, 2, 3: mass 0.9, expectation (0.5 + 0.6 + 0.3) / 0.9 = 1.4 / 0.9
    found = expect_value([math.log(0.5), math.log(0.3), math.log(0.1)], [1, 2, 3])
    assert found.value == pytest.approx(1.4 / 0.9, abs=1e-12)
    assert found.mass == pytest.approx(0.9, abs=1e-12)
    assert found.reason == ""


def test_a_verdict_without_probability_counts_for_nothing():
    # p = 0, 0.2, 0.2: (2 + 5) / 2
    found = expect_value([-math.inf, math.log(0.2), math.log(0.2)], [1, 2, 5])
    assert found.value == pytest.approx(3.5, abs=1e-12)
    assert expect_value([-math.inf, -3.0], [1, 4]) == Reading(4.0, mass=pytest.approx(math.exp(-3)))


def test_without_any_probability_there_is_no_verdict():
    assert expect_value([-math.inf, -math.inf], [1, 2]) == Reading(None, "unreadable", 0.0)


def test_probabilities_too_small_for_a_float_still_weigh():
    # e^-2000 underflows, its ratio to e^-2001 doesn't: weights 1 and 1/e, (1 + 2/e) / (1 + 1/e)
    found = expect_value([-2000.0, -2001.0], [1, 2])
    assert found.value == pytest.approx((1 + 2 / math.e) / (1 + 1 / math.e), abs=1e-12)
    assert found.mass == 0.0


def test_rounding_above_probability_one_is_forgiven_and_mass_stays_at_one():
    assert expect_value([1e-6], [3]) == Reading(3.0, mass=1.0)


@given(
    st.lists(st.tuples(st.floats(-50, 0), st.floats(-10, 10)), min_size=1, max_size=11),
    st.floats(0, 400),
)
def test_an_expectation_lies_among_the_values_and_a_shift_of_all_leaves_it(pairs, shift):
    logs, values = zip(*pairs, strict=True)
    found = expect_value(logs, values)
    assert min(values) - 1e-9 <= found.value <= max(values) + 1e-9
    assert 0 < found.mass <= 1
    moved = expect_value([log - shift for log in logs], values)
    assert moved.value == pytest.approx(found.value, abs=1e-9)


@pytest.mark.parametrize(
    ("logs", "values", "message"),
    [
        ([], [], r"\(0,\) log-probabilities for \(0,\) values; expected two equal rows"),
        ([-1.0], [1, 2], r"\(1,\) log-probabilities for \(2,\) values"),
        ([[-1.0]], [[1]], r"\(1, 1\) log-probabilities"),
        ([math.nan, -1.0], [1, 2], r"log-probabilities are \[nan, -1.0\]; expected natural logarithms, 0 at most"),
        ([0.5, -1.0], [1, 2], r"log-probabilities are \[0.5, -1.0\]"),
        ([math.inf, -1.0], [1, 2], r"log-probabilities are \[inf, -1.0\]"),
        ([-1.0, -1.0], [1, math.nan], r"values are \[1.0, nan\]; expected finite numbers"),
    ],
)
def test_numbers_that_are_no_log_probabilities_are_refused(logs, values, message):
    with pytest.raises(ValueError, match=message):
        expect_value(logs, values)
