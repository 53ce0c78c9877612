"""The journal: what is kept stays, through kills, between processes and copies; what was altered is refused."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nfqa.judge.journal import Entry, Journal, hash_text
from nfqa.kernels.parse import Verdict
from nfqa.models.chat import Reply
from tools.verdicts import import_completions

ENTRY = Entry(hash_text("prompt"), "openai:m", "server", "text|chat|t0.8|p0.95|max512", 7, ("1", "2"))
REPLY = Reply("so [[2]]", 11, 5, "stop", 0.25)
PROJECT = Path(__file__).parents[1]

WRITER = """
import sys
from pathlib import Path
from nfqa.models.chat import Reply
from nfqa.judge.journal import Entry, Journal
from nfqa.kernels.parse import Verdict
journal = Journal(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    entry = Entry(f"{number:064}", "m", "t", "d", number)
    journal.keep(entry, Reply(f"text {number} " + "x" * 2000, 1, 1), Verdict(None, "unreadable"))
    print(number, flush=True)
"""


def make_entry(number: int = 0) -> Entry:
    return replace(ENTRY, prompt=hash_text(f"prompt {number}"))


def fill(journal: Journal, *texts: str, start: int = 0, spec: str = "openai:m") -> Journal:
    """Replies of these texts to prompts of rising numbers."""
    for number, text in enumerate(texts, start):
        journal.keep(make_entry(number), replace(REPLY, text=text), Verdict(2.0), spec=spec)
    return journal


def start_writer(path: Path, first: int, last: int) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "src")}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), str(last)],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


# Made by the first version of this format: a changed key would make every user's journal worthless.
KEY = "972634eeeca41a814d191483f3d39c99661c500a458e37955c1e7f0786acaf31"


def test_a_key_is_what_it_always_was():
    entry = Entry("p" * 64, "openai:m", "server", "text|chat|t0.8|p0.95|max512", 7, ("1", "é\ud800"))
    assert entry.key == KEY


def test_a_change_of_spec_or_run_is_no_miss_and_what_is_there_is_not_replaced(tmp_path):
    fill(Journal(tmp_path / "journal.sqlite", run="one"), "so [[2]]")._store._db.close()
    again = fill(Journal(tmp_path / "journal.sqlite", run="two"), "another [[1]]", spec="hf:m")
    assert again.find(make_entry()) == REPLY
    assert (len(again.list_lines()), again.count_run("one"), again.count_run("two")) == (1, (1, 11, 5), (0, 0, 0))


def test_a_writer_killed_in_the_middle_loses_nothing_that_it_reported(tmp_path):
    path = tmp_path / "journal.sqlite"
    first = 0
    for lines in (1, 30):
        writer = start_writer(path, first, 10**9)
        reported = [int(writer.stdout.readline()) for _ in range(lines)][-1]
        writer.send_signal(signal.SIGKILL)
        reported = [reported, *map(int, writer.stdout.read().split())][-1]
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
        journal = Journal(path)
        # one more may have been written and not yet reported
        texts = {line["text"] for line in journal.list_lines()}
        first = len(texts)
        assert first in (reported + 1, reported + 2)
        assert texts == {f"text {number} " + "x" * 2000 for number in range(first)}


def test_two_processes_write_one_journal(tmp_path):
    path = tmp_path / "deep" / "journal.sqlite"
    writers = [start_writer(path, 0, 60), start_writer(path, 30, 90)]
    for writer in writers:
        assert len(writer.communicate()[0].split()) == 60
        assert writer.returncode == 0
    journal = Journal(path)
    assert len(journal.list_lines()) == 90  # 0 to 59 and 30 to 89; the common ones once
    assert journal.find(Entry(f"{45:064}", "m", "t", "d", 45)).text.startswith("text 45 ")


def write_other_table(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE replies (key TEXT, answer TEXT)")
    database.close()


def write_other_database(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE bookmarks (url TEXT)")
    database.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("notes " * 300), "not a database"),
        (write_other_table, "other columns"),
        (write_other_database, "another program's"),
        (Path.mkdir, "unable to open"),
    ],
)
def test_what_is_no_journal_is_refused_and_left_alone(tmp_path: Path, make: Callable[[Path], None], message: str):
    path = tmp_path / "journal.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(ValueError, match=rf"journal\.sqlite: .*{message}"):
        Journal(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE replies SET prompt = '8'", "the keys of 3 completions"),
        ("ALTER TABLE replies DROP COLUMN reason", "no such column: reason"),
    ],
)
def test_another_file_or_an_altered_one_is_refused_and_left_alone(tmp_path, change, message):
    other, journal = fill(Journal(tmp_path / "other.sqlite"), *"123"), Journal()
    other._store._db.execute(change)
    other._store._db.commit()
    other._store._db.close()
    before = other.path.read_bytes()
    with pytest.raises(ValueError, match=rf"^{re.escape(str(other.path))}: .*{message}"):
        import_completions(journal, other.path)
    assert (journal.list_lines(), other.path.read_bytes()) == ([], before)


@given(
    text=st.text(st.characters(exclude_categories=("Cs",)), max_size=50),
    logprobs=st.none() | st.lists(st.floats(max_value=0, allow_nan=False), max_size=4).map(tuple),
    verdict=st.none() | st.floats(-1, 10),
    seed=st.integers(-(2**63), 2**63 - 1),
    labels=st.lists(st.text(max_size=3), max_size=3).map(tuple),
)
@settings(max_examples=60)
def test_whatever_is_kept_comes_back(text, logprobs, verdict, seed, labels):
    entry, reply = replace(ENTRY, seed=seed, labels=labels), Reply(text, 1, 2, "stop", 0.5, logprobs)
    journal = Journal()
    assert journal.keep(entry, reply, Verdict(verdict, "r"), spec="s") == reply
    (line,) = journal.list_lines()
    assert (line["verdict"], line["reason"], line["spec"]) == (verdict, "r", "s")
    assert journal.find(entry) == reply
