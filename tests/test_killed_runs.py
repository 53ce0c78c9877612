"""A run killed at 20 random moments and resumed each time ends as the undisturbed one, byte for byte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged_run import CONCURRENCY, METHODS
from stub_server import StubServer, hash_request, reply_to

from nfqa.judge.asking import RETRIES
from nfqa.judge.journal import Journal

KILLS = 20
SCRIPT = Path(__file__).with_name("judged_run.py")


def reply_mostly(prompt: str, seed: int) -> str:
    """One in seven completions can't be read, so that a kill also falls between an answer and its next try."""
    return "I would have to think." if hash_request(prompt, seed) % 7 == 0 else reply_to(prompt, seed)


def start(server: StubServer, folder: Path, table: str = "table.json") -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parents[1] / "src"), "OPENAI_API_KEY": "none"}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), server.url, str(folder / "journal.sqlite"), str(folder / table)],
        env=environment,
    )


def wait_for(server: StubServer, answered: int, run: subprocess.Popen[bytes]) -> None:
    """Until so many different requests were answered."""
    while len(server.answered) < answered:
        assert run.poll() is None, "the run ended before it could be killed"
        time.sleep(0.001)


@pytest.fixture
def server() -> Iterator[StubServer]:
    """It lives in this process, which is not killed."""
    with StubServer(reply=reply_mostly, delay=0.01) as stub:
        yield stub


def read_journal(folder: Path) -> list[dict[str, object]]:
    """All that is kept, but for the time that it took."""
    journal = Journal(folder / "journal.sqlite")
    lines = [json.loads(line) for line in journal.export()]
    journal.close()
    return [{name: value for name, value in line.items() if name not in ("seconds", "sha256")} for line in lines]


@pytest.mark.slow
def test_a_run_killed_at_20_random_moments_ends_as_the_undisturbed_one(tmp_path: Path, server: StubServer) -> None:
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    calm.mkdir()
    stormy.mkdir()
    assert start(server, calm).wait(timeout=60) == 0
    undisturbed = dict(server.asked)
    assert set(undisturbed.values()) == {1}
    assert len(read_journal(calm)) == len(undisturbed)
    table = json.loads((calm / "table.json").read_text())
    # 8 questions with 57 candidates, 4 references each: 57 ranks, 228 comparisons, and tries after the unreadable
    assert [len(table[method]) for method in METHODS] == [57, 228]
    assert 285 < len(undisturbed) <= 285 * (1 + RETRIES)

    server.asked.clear()
    server.answered.clear()
    draw = random.Random(3)
    kept = 0
    for moment in sorted(draw.sample(range(len(undisturbed) - 30), KILLS)):
        run = start(server, stormy)
        wait_for(server, moment, run)
        time.sleep(draw.uniform(0, 0.02))
        run.send_signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
        assert not (stormy / "table.json").exists()
        now = len(read_journal(stormy))
        assert max(kept, moment - CONCURRENCY) <= now <= len(server.asked)  # only what was on its way is lost
        kept = now
    assert start(server, stormy).wait(timeout=60) == 0

    assert (stormy / "table.json").read_bytes() == (calm / "table.json").read_bytes()
    assert set(server.asked) == set(undisturbed)
    again = sum(server.asked.values()) - len(undisturbed)
    assert 0 < again <= KILLS * CONCURRENCY  # paid for twice: at most the calls in flight at each kill
    assert read_journal(stormy) == read_journal(calm)

    # and once more: nothing is left to ask
    before = sum(server.asked.values())
    (stormy / "table.json").unlink()
    assert start(server, stormy).wait(timeout=60) == 0
    assert sum(server.asked.values()) == before
    assert (stormy / "table.json").read_bytes() == (calm / "table.json").read_bytes()


def test_two_runs_of_one_journal_pay_for_each_verdict_once(tmp_path: Path, server: StubServer) -> None:
    runs = [start(server, tmp_path, f"{number}.json") for number in range(2)]
    assert [run.wait(timeout=120) for run in runs] == [0, 0]
    assert set(server.asked.values()) == {1}
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
