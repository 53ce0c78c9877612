"""The soak test in short; and that it sees what it is there to see."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from notebook_cells import RuleModel
from soak import STUB, audit, judge_sample, reply_by_rule, storm_askers
from stub_server import Sent

from nfqa.judge.asking import Asker
from nfqa.judge.journal import Journal
from nfqa.models.chat import Decoding, Request


@pytest.mark.slow
@pytest.mark.monthly  # as `make soak`, with fewer calls
def test_processes_killed_at_random_moments_lose_nothing_and_pay_no_more_than_what_was_in_flight(
    tmp_path: Path,
) -> None:
    found = storm_askers(tmp_path / "askers", calls=600, kills=10, seed=1)
    assert not found.broken, found
    assert found.kills == 10
    assert found.kept > 400


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("DELETE FROM replies WHERE rowid = 1", "lost"),
        ("UPDATE replies SET text = '[[hidden]]' WHERE rowid = 1", "wrong"),
        ("UPDATE replies SET verdict = verdict + 1 WHERE verdict IS NOT NULL", "wrong"),
        ("", "paid_twice"),
    ],
)
def test_a_journal_that_breaks_a_promise_is_seen(tmp_path: Path, change: str, fault: str) -> None:
    path, log = tmp_path / "journal.sqlite", list[Sent]()

    def reply(request: Request) -> str:
        log.append(Sent("run", "stub", request.prompt, request.seed, reply_by_rule(request), 0.0))
        return log[-1].text

    journal = Journal(path, run="run")
    judge_sample(Asker(STUB, lambda _: RuleModel(STUB, reply), journal, Decoding()))
    journal._store._db.close()
    assert not audit(log, path, {}, concurrency=4).broken
    with sqlite3.connect(path) as db:
        db.execute(change)
    if not change:
        log.append(log[0])
    found = audit(log, path, {}, concurrency=4)
    assert found.broken
    assert getattr(found, fault) > 0


def test_what_a_killed_run_had_on_its_way_is_no_loss_and_what_it_asks_long_afterwards_is_late(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.sqlite")._store._db.close()
    sent = [Sent("run", "stub", f"prompt {number}", 0, "[[1]]", float(number)) for number in range(4)]
    found = audit(sent, tmp_path / "journal.sqlite", {"run": 3.0}, concurrency=4)
    assert (found.in_flight, found.late) == (4, 0)
    found = audit(sent, tmp_path / "journal.sqlite", {"run": -50.0}, concurrency=3)
    assert found.late == 4
