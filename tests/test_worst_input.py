"""Patterns that meet foreign text, on long texts made to slow them: time grows as the text, not as its square."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import process_time
from timeit import timeit  # it keeps the garbage collector out
from typing import Any

import numpy as np
import pytest

from nfqa.judge import prompts, server_replies
from nfqa.kernels import parse, texts
from nfqa.metrics import coverage, dispute_rules
from nfqa.models import pretrained
from reproduction.data import gather, readers
from reproduction.studies import compose, generated, negation

SIZES = (60_000, 250_000)  # characters; a quadratic search fails at the second
AT_ONCE = 0.1  # seconds that any text may take
GROWTH = 8.0  # what four times the text may cost: 4 where time grows as the text, 16 where as its square
ANYWHERE = (" ", "\n", "a")


def show(head: str) -> Callable[[str], object]:
    return lambda text: gather._read_shown(head + text)


ANSWER = "Question: q <br> LLM generated response: a"
WORST: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {  # what is called, and what is repeated
    "split_answer": (
        coverage.split_answer,
        ("A. ", ".) ", '."', "1) ", "\n- ", ".", "狗叫。", "so a. ", "… ", "*", "<p ", '"a ', "- a ", "1. 2. "),
    ),
    "one_word": (partial(dispute_rules.apply_rule, rule="one_word"), ("debat", "debate")),
    "list_cues": (dispute_rules.list_cues, ("some ", "others a-b 'c ", "some-", "no single ", "views ", "diverse ")),
    "split_answers": (partial(generated.split_answers, count=3), ("answer", "answer 1: ", "*_#[", "> ", "- ")),
    "drop_words": (lambda text: compose._drop_words(text, 0.5, np.random.default_rng(0)), ("a. ", "? \n")),
    "topic_words": (compose._WORD.findall, ("abcd1", "abcd ")),
    "negate": (negation.negate, ("is ", "is not ", "don", "could  ")),
    "read_number": (partial(parse.read_number, lowest=1, highest=5), ("[[", "[[1", "[[1]] ", "<think>", "</think>")),
    "user_text": (
        lambda text: [change(text) for change in texts.CHANGES.values()] and texts.name_lack(text),
        ("</think>", "</think> ", "analysis", "assistantfinal", "\u200b", "\u00a0 ", "\ud83d", "<answer>"),
    ),
    "read_first_number": (partial(parse.read_number, lowest=1, highest=5, pick="first"), ("</think>", "[[1")),
    "read_preference": (parse.read_preference, ("[[", "[[A", "[[A]]")),
    "read_digit": (parse.read_digit, ("1", "1.", "1%", "-0-1", "+", "[[1]]")),
    "bracketed_marks": (pretrained._BRACKETED.findall, ("[a", "<a", "[<", "<")),
    "clean": (readers._clean, ("<a", "</", "<", "<b>")),
    "shown_question": (show("Question: q"), ("<br> ", "<b", " x")),
    "shown_answer": (show(ANSWER), ("<br>", "\n<br> ", "x<b")),
    "instance": (gather._INSTANCE.fullmatch, ("1", "1_")),
    "clean_text": (prompts.clean_text, ("<<", "< / s ", "<s", "<question x", "[ / INST", "<|", "\r", "\x00")),
    "judge_status": (lambda text: server_replies.judge_status(400, text), ("model ", "a*", "*", "context_")),
}
CASES = [(name, text) for name, (_, own) in WORST.items() for text in dict.fromkeys((*own, *ANYWHERE))]


def call(function: Callable[[str], Any], text: str) -> None:
    with suppress(ValueError):  # a refusal
        function(text)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_no_text_makes_a_pattern_slow(name, text):
    function, seconds = WORST[name][0], AT_ONCE
    for size in SIZES:
        worst, allowed = text * (size // len(text)) + "x!", AT_ONCE + GROWTH * seconds
        for _ in range(3):  # again where it was slow: the machine may have been busy
            seconds = timeit(partial(call, function, worst), timer=process_time, number=1)
            if seconds <= allowed:
                break
        assert seconds <= allowed, f"{size:,} characters took {seconds:.2f} seconds, more than {allowed:.2f}"
