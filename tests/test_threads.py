"""Threads that score at once through the same models: the numbers of one thread, and each model opened once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pytest
from test_asking import Scripted, make_asker, read, requests_for

import nfqa
from nfqa.judge.journal import Journal
from nfqa.models.reader import open_reader
from nfqa.opening import open_embedder, open_evaluator

THREADS = 4


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Threads take turns a thousand times as often as they usually do."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(interval)


def run_at_once(work: Callable[[int], Any], times: int = THREADS) -> list[Any]:
    """What the work gives for each number, all begun at the same moment."""
    barrier = threading.Barrier(times)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(run, range(times)))


def make_lines(number: int) -> list[dict[str, Any]]:
    """One question of its own."""
    salt = f"Rivers number {number} carry salt into the sea. "
    return [
        {
            "question": f"Why is sea number {number} salt?",
            "references": [salt * 3, salt, "A shop sells it."],
            "partial_answers": [salt + "Rain dissolves rock.", f"Vents {number} add it."],
            "answers": [{"system": name, "text": salt * times} for name, times in (("x", 1), ("y", 2))],
        }
    ]


FUNCTIONS = [nfqa.linkage, nfqa.coverage, nfqa.perspective_diversity, nfqa.dispute_awareness]


def test_the_public_functions_give_in_threads_what_they_give_one_by_one() -> None:
    """Each function in two threads, on the same questions: what is opened is shared."""

    def run(number: int) -> pd.DataFrame:
        return FUNCTIONS[number % 4](make_lines(number // 4))

    at_once = run_at_once(run, 8)
    for model in (
        open_embedder(nfqa.functions.EMBEDDER),
        open_reader(),
        open_evaluator(nfqa.functions.EVALUATOR),
    ):
        model.forget()
    for number, frame in enumerate(at_once):
        pd.testing.assert_frame_equal(frame, run(number), atol=2e-3)


def test_threads_that_share_a_judge_ask_one_after_the_other() -> None:
    inside, most, opened = 0, 0, []

    def answer(prompt: str, seed: int) -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.002)
        inside -= 1
        return "[[1]]"

    asker = make_asker(Scripted(answer), Journal())
    opens = asker.open_model
    asker.open_model = lambda spec: opened.append(spec) or opens(spec)
    verdicts = run_at_once(lambda number: asker.ask(requests_for(f"first {number}", "same"), read))
    assert [verdict.value for each in verdicts for verdict in each] == [1.0] * 2 * THREADS
    assert (most, len(opened)) == (1, 1)
    assert (asker.tally.verdicts, asker.tally.requests, asker.tally.cached) == (8, 5, 3)
