"""A journal that can't be written or read: what was paid for is put elsewhere, and the message names the file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from stub_server import StubServer
from test_journal import fill, make_record

from nfqa.judge.asking import Asker, StoppedError
from nfqa.judge.journal import Journal
from nfqa.judge.openai_server import OpenAIServer
from nfqa.kernels.parse import Reading, read_number
from nfqa.models.chat import Decoding, Reply, Request
from nfqa.models.roles import parse_role

REQUESTS = [Request(f"prompt {number} " + "x" * 200) for number in range(200)]


def read(reply: Reply, _: Request) -> Reading:
    return read_number(reply.text, lowest=1, highest=5)


def open_full(path: Path) -> Journal:
    """A journal whose disk fills up in the middle of a run."""
    journal = Journal(path)
    pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
    journal._db.execute(f"PRAGMA max_page_count = {pages + 10}")
    return journal


def damage(path: Path) -> None:
    """Garbage past the first page, as a failing disk leaves it."""
    fill(Journal(path), *(make_record(number, text="x" * 2000) for number in range(100))).close()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))


def make_asker(server: StubServer, journal: Journal, **settings: object) -> Asker:
    spec = parse_role("judge", f"openai:stub@{server.url}")
    return Asker(spec, lambda spec: OpenAIServer(spec, backoff=0.01), journal, Decoding(), **settings)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_what_a_full_disk_does_not_take_is_put_aside_and_nothing_is_paid_again(tmp_path: Path, temporary: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with StubServer() as server:
        journal = open_full(path)
        with pytest.raises(StoppedError) as caught:
            make_asker(server, journal).ask(REQUESTS, read)
        assert journal.spares
        assert all(part in str(caught.value) for part in (str(path), "full", f"FILE={journal.spares[0]}"))
        assert 0 < len(journal) < len(REQUESTS) == len(server.asked)
        kept = len(journal)
        assert make_asker(server, journal, dry=True).ask(REQUESTS, read)[0].value  # what is put aside is found
        journal.close()

        later = Journal(path)
        assert later.take_in(journal.spares[0].read_text(encoding="utf-8").splitlines()) == len(REQUESTS) - kept
        verdicts = make_asker(server, later).ask(REQUESTS, read)
        assert {verdict.reason for verdict in verdicts} == {""}
        assert set(server.asked.values()) == {1}


@pytest.mark.parametrize("blocked", ["journal's folder", "both"])
def test_where_no_room_is_beside_the_journal_the_temporary_folder_is_next(
    tmp_path: Path, temporary: Path, blocked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 4321)
    name = "unsaved-verdicts-4321.jsonl"
    (tmp_path / name).mkdir()
    if blocked == "both":
        (temporary / name).mkdir()
    with StubServer() as server:
        journal = open_full(tmp_path / "journal.sqlite")
        with pytest.raises(StoppedError) as caught:
            make_asker(server, journal).ask(REQUESTS, read)
        assert journal.spares == ([] if blocked == "both" else [temporary / name])
        if blocked == "both":  # it stops at once: what more it asked would be lost
            assert "nowhere else" in str(caught.value)
            assert len(server.answered) < len(REQUESTS)
        else:
            assert len(server.answered) == len(REQUESTS)


@pytest.mark.parametrize(
    "use",
    [
        lambda journal: [journal.find(make_record(number).entry) for number in range(100)],
        lambda journal: journal.count(),
        lambda journal: journal.count_run("one"),
        lambda journal: journal.find_models("openai:m"),
        lambda journal: list(journal.export()),
        len,
    ],
    ids=["find", "count", "count_run", "find_models", "export", "len"],
)
def test_a_damaged_journal_is_named(tmp_path: Path, use: Callable[[Journal], object]) -> None:
    path = tmp_path / "journal.sqlite"
    damage(path)
    with pytest.raises(ValueError, match=r"journal\.sqlite.*malformed"):
        use(Journal(path))


def test_a_completion_that_a_damaged_journal_can_not_take_is_put_aside(tmp_path: Path, temporary: Path) -> None:
    damage(tmp_path / "journal.sqlite")
    journal = Journal(tmp_path / "journal.sqlite")
    records = [make_record(number, text="so [[2]]") for number in range(1000, 1020)]
    fill(journal, *records)
    assert journal.spares
    assert Journal().take_in(journal.spares[0].read_text(encoding="utf-8").splitlines()) == len(records)
    assert [journal.find(record.entry) for record in records] == records


def test_a_link_to_a_journal_shares_its_lock(tmp_path: Path) -> None:
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "journal.sqlite")
    first, second = Journal(tmp_path / "journal.sqlite"), Journal(tmp_path / "link.sqlite")
    assert first.path == second.path
    assert fill(first, make_record(1)).find(make_record(1).entry) == second.find(make_record(1).entry)
