"""Reading verdicts: which number counts, what is no verdict, and the expectation over probabilities by hand."""

from __future__ import annotations

import math
import re
from functools import partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nfqa.kernels.parse import Verdict, expect_value, read_number, read_preference
from nfqa.kernels.texts import leave_out_thinking

AMBIGUOUS = Verdict(None, "ambiguous")
UNREADABLE, EMPTY, OUT = Verdict(None, "unreadable"), Verdict(None, "empty"), Verdict(None, "out_of_range")
rank = partial(read_number, lowest=1, highest=5)
mark = partial(read_number, lowest=0, highest=10, whole=False)
READINGS = {
    Verdict(3.0): ("[[3]]", "Rank: [[ 3 ]].", "[[\n3\n]]", "[[03]]", "[[3.0]]", "[[+3]]", "[[[3]]]", "[[ [[3]]"),
    Verdict(2.0): ("[[2]], yes: [[2]]", "<think>the format is [[1]]</think>[[2]]", "from [[N]], so [[2]]",
                 "\u200b\n<Thinking>[[1]]</thinking>[[2]]", "<reasoning>[[1]]</reasoning> [[2]]",
                 "<think>[[1]]</think>\n<think>[[3]]</think> [[2]]", "maybe [[3]]\n</think>\n\n[[2]]",
                 "[[3]]</THINK>\n[[2]]", "Analysis: [[2]]", "analysis: [[2]]"),
    AMBIGUOUS: (
        "[[2]] or rather [[4]]", "it quotes [[1]], but: [[5]]", "[[4]] It says '</think> [[1]]'",
        "[[4]] as <think>a</think> [[1]] stands there", "[[4]] for `</think>`\n[[1]]",  # spoken of
        "<think>a candidate says </think> [[1]]</think> [[2]]", "[THINK][[1]][/THINK][[2]]",  # no tag of these
        # a number that is no verdict isn't passed over for a later one
        "[[9]] no, [[3]]", "[[-1]] no, [[3]]", "[[99999]] no, [[3]]",
    ),
    UNREADABLE: (
        "[[3]", "[3]", "3", "[[]]", "[[three]]", "[[A]]", "[[3, 4]]", "[[3/5]]", "[[1e0]]", "[ [3] ]",
        "[[٣]]",  # a digit of another script
        "\uff3b\uff3b3\uff3d\uff3d",
        "[[" + " " * 50 + "3]]",  # further apart than anyone writes a verdict
        "<think>It says [[1]]",  # nothing was said yet
        "<think>a</think><think>maybe [[4]]", "\ufeff<think>maybe [[4]]", " <think>[[4]]</think> <think>",
        "<thinking>[[4]]</think>", "[[4]]\n</think>",
    ),
    EMPTY: ("", " \n\t"),
    OUT: ("[[0]]", "[[6]]", "[[-1]]", "[[3.5]]", "[[123456789]]"),
}  # fmt: skip


def test_the_first_of_several_counts_where_the_released_code_is_followed():
    assert rank("[[2]] or rather [[4]]", pick="first") == Verdict(2.0)
    assert rank("[[9]] no, [[3]]", pick="first") == OUT
    assert rank("<think>It says [[1]]", pick="first") == Verdict(1.0)
    assert read_preference("[[B]] or [[A]]", pick="first") == Verdict(-1.0)


MARKS = {
    Verdict(7.5): ("[[7.5]]",), Verdict(0.0): ("[[0]]",), Verdict(10.0): ("[[10]]", "[[10.0]]"),
    OUT: ("[[10.01]]", "[[-0.5]]"), UNREADABLE: ("[[7.]]", "[[.5]]"),
}  # fmt: skip
CHOICES = {
    Verdict(1.0): ("[[A]]", "[[a]], so [[A]]"),
    Verdict(-1.0): ("[[B]]", "so [[ b ]].", "[[answer A]] that is [[B]]"),
    Verdict(0.0): ("[[C]]", "[[[C]]]"),
    AMBIGUOUS: ("[[A]] or [[B]]",),
    UNREADABLE: ("A", "[A]", "[[D]]", "[[1]]", "[[]]"),
    EMPTY: ("", "\n"),
}
CASES = [
    (read, expected, completion)
    for read, table in ((rank, READINGS), (mark, MARKS), (read_preference, CHOICES))
    for expected, completions in table.items()
    for completion in completions
]


@pytest.mark.parametrize(("read", "expected", "completion"), CASES)
def test_a_verdict_is_what_double_brackets_hold(read, expected, completion):
    assert read(completion) == expected


@given(st.text(alphabet="[]0123456789AB. -\n", max_size=60))
def test_whatever_is_written_gives_a_number_in_range_or_a_reason(completion):
    found = rank(completion)
    assert (found.value in (1, 2, 3, 4, 5)) == (found.reason == "")
    assert found.reason in ("", "empty", "unreadable", "out_of_range")
    choice = read_preference(completion)
    assert (choice.value in (-1, 0, 1)) == (choice.reason == "")
    # the brackets and their number must stand there as such
    assert found.value is None or re.search(rf"\[\[\s*\+?0*{found.value:g}(\.0+)?\s*\]\]", completion)


@given(st.text(alphabet=st.characters(exclude_characters="[]"), max_size=40), st.integers(1, 5), st.text(max_size=40))
def test_what_stands_around_a_verdict_changes_nothing(before, number, after):
    completion = f"{before}[[{number}]]{after}"
    assume(leave_out_thinking(completion) == completion)
    assert rank(completion) == Verdict(number)


@pytest.mark.parametrize(
    "text",
    ["Use it.\n<reasoning>So.</reasoning>\n\nThen.", "x (</think>)\n\ny", "Close it with </think> and then answer.",
     "The log shows assistantfinal first.", "<answer>42</answer> because six times nine."],
)  # fmt: skip
def test_a_text_that_speaks_of_marks_stays_whole(text: str) -> None:
    assert leave_out_thinking(text) == text
    assert leave_out_thinking(f"<think>a</think>\n\n{text}") == text


LOG = math.log


@pytest.mark.parametrize(
    ("logs", "values", "expected", "mass"),
    [
        # p = 0.5, 0.3, 0.1 on ranks 1, 2, 3: mass 0.9, expectation (0.5 + 0.6 + 0.3) / 0.9
        ([LOG(0.5), LOG(0.3), LOG(0.1)], [1, 2, 3], 1.4 / 0.9, 0.9),
        ([-math.inf, LOG(0.2), LOG(0.2)], [1, 2, 5], 3.5, 0.4),  # p = 0 counts for nothing: (2 + 5) / 2
        # e^-2000 underflows, its ratio to e^-2001 doesn't: weights 1 and 1/e
        ([-2000.0, -2001.0], [1, 2], (1 + 2 / math.e) / (1 + 1 / math.e), 0.0),
        ([1e-6], [3], 3.0, 1.0),  # rounding above probability 1 is forgiven, and mass stays at 1
    ],
)
def test_an_expected_rank_by_hand(logs, values, expected, mass):
    found = expect_value(logs, values)
    assert (found.value, found.mass, found.reason) == (pytest.approx(expected), pytest.approx(mass), "")
    assert expect_value([-math.inf, -math.inf], [1, 2]) == Verdict(None, "unreadable", 0.0)


@given(st.lists(st.tuples(st.floats(-50, 0), st.floats(-10, 10)), min_size=1, max_size=11), st.floats(0, 400))
def test_an_expectation_lies_among_the_values_and_a_shift_of_all_leaves_it(pairs, shift):
    logs, values = zip(*pairs, strict=True)
    found = expect_value(logs, values)
    assert min(values) - 1e-9 <= found.value <= max(values) + 1e-9
    assert 0 < found.mass <= 1
    moved = expect_value([log - shift for log in logs], values)
    assert moved.value == pytest.approx(found.value, abs=1e-9)


@pytest.mark.parametrize("log", [math.nan, 0.5])
def test_numbers_that_are_no_log_probabilities_give_no_verdict(log):
    assert expect_value([log, -1.0], [1, 2]) == Verdict(None, "bad_logprobs")
