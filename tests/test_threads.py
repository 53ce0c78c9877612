"""Threads that score at once through the same models: the numbers of one thread, and each model opened once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_asking import Scripted, make_asker, read, requests_for
from test_embed import make_model
from tiny_models import make_tiny_model

import nfqa
from nfqa.judge.journal import Journal
from nfqa.kernels.perplexity import Settings
from nfqa.models import vectors
from nfqa.models.embed import Embedder
from nfqa.models.evaluator import Evaluator
from nfqa.models.reader import Reader, open_reader
from nfqa.models.restated import Restated
from nfqa.models.roles import parse_role
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


def make_texts(number: int, count: int) -> list[str]:
    """Texts of many lengths that no other number has."""
    words = ["the", "cat", "sat", "on", "a", "mat"]
    return [" ".join([*words[number:], *[words[place % 6]] * (1 + 5 * place)]) + "." * number for place in range(count)]


def embed(folder: Path) -> tuple[Any, Callable[[int], Any]]:
    embedder = Embedder(make_model(folder))
    return embedder, lambda number: embedder.embed_sentences(make_texts(number, 12))


def embed_tokens(folder: Path) -> tuple[Any, Callable[[int], Any]]:
    embedder = Embedder(make_model(folder))
    return embedder, lambda number: np.concatenate(
        [each.tokens for each in embedder.embed_tokens(make_texts(number, 12))]
    )


def read_claims(_: Path) -> tuple[Any, Callable[[int], Any]]:
    reader = Reader()
    return reader, lambda number: reader.read([(text, "a cat") for text in make_texts(number, 6)])


def evaluate(folder: Path) -> tuple[Any, Callable[[int], Any]]:
    evaluator = Evaluator(parse_role("evaluator", f"path:{make_tiny_model(folder)}"), device="cpu")

    def run(number: int) -> list[float]:
        items = [Restated(text, ("the cat", "a mat")) for text in make_texts(number, 8)]
        return [loss.nats for row in evaluator.score(items, Settings()) for loss in row]

    return evaluator, run


@pytest.mark.parametrize("make", [embed, embed_tokens, read_claims, evaluate])
def test_threads_that_share_a_model_get_the_numbers_of_one(make: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(vectors, "_TOKENS_AT_ONCE", 60)  # many batches
    model, work = make(tmp_path)
    expected = [work(number) for number in range(THREADS)]
    for _ in range(5):
        model.forget()
        for result, alone in zip(run_at_once(work), expected, strict=True):
            np.testing.assert_allclose(result, alone, atol=2e-3)


def make_lines(number: int) -> list[dict[str, Any]]:
    """One question of its own."""
    salt = f"Rivers number {number} carry salt into the sea. "
    return [
        {
            "question": f"Why is sea number {number} salt?",
            "references": [salt * 3, salt, "A shop sells it."],
            "partial_answers": [salt + "Rain dissolves rock.", f"Vents {number} add it."],
            "answers": [{"system": name, "text": salt * times} for name, times in (("x", 1), ("y", 5), ("z", 12))],
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
