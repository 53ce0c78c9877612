"""The journal: what is kept stays, through kills, between processes and over export; what was altered is refused."""

from __future__ import annotations

import hashlib
import json
import math
import os
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


def sign(fields: dict) -> str:
    """An exported line with the right hash for what it holds, as someone who forges one would make it."""
    fields = {name: value for name, value in fields.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
    return json.dumps(fields | {"sha256": digest})


# Made by the first version of this format: a changed key would make every user's journal worthless.
KEY = "972634eeeca41a814d191483f3d39c99661c500a458e37955c1e7f0786acaf31"


def test_a_key_is_what_it_always_was():
    entry = Entry("p" * 64, "openai:m", "server", "text|chat|t0.8|p0.95|max512", 7, ("1", "é\ud800"))
    assert entry.key == KEY


def test_a_change_of_spec_or_run_is_no_miss_and_what_is_there_is_not_replaced(tmp_path):
    fill(Journal(tmp_path / "journal.sqlite", run="one"), "so [[2]]")._store._db.close()
    again = fill(Journal(tmp_path / "journal.sqlite", run="two"), "another [[1]]", spec="hf:m")
    assert again.find(make_entry()) == REPLY
    assert (len([*again.export()]), again.count_run("one"), again.count_run("two")) == (1, (1, 11, 5), (0, 0, 0))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("half \ud800 of a pair", "half \ufffd of a pair"),
        ("whole \ud83d\ude00", "whole \U0001f600"),
        *((text, text) for text in ("nul \0 and \x1b", "line\u2028ends\u0085and\r\nmore", "x" * 3_000_000)),
    ],
)
def test_any_text_is_kept_and_goes_out_and_in_again(tmp_path, text, kept):
    journal = fill(Journal(), text)
    assert journal.find(make_entry()).text == kept
    path = tmp_path / "out.jsonl"
    path.write_text("".join(line + "\n" for line in journal.export()), encoding="utf-8", newline="\n")
    other = Journal()
    with path.open(encoding="utf-8") as handle:
        assert other.import_lines(handle) == 1
    assert list(other.export()) == list(journal.export())


def test_a_writer_killed_in_the_middle_loses_nothing_that_it_reported(tmp_path):
    path = tmp_path / "journal.sqlite"
    first = 0
    for lines in (1, 7, 40):
        writer = start_writer(path, first, 10**9)
        reported = [int(writer.stdout.readline()) for _ in range(lines)][-1]
        writer.send_signal(signal.SIGKILL)
        reported = [reported, *map(int, writer.stdout.read().split())][-1]
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
        journal = Journal(path)
        # one more may have been written and not yet reported
        assert len([*journal.export()]) in (reported + 1, reported + 2)
        texts = {json.loads(line)["text"] for line in journal.export()}
        assert texts == {f"text {number} " + "x" * 2000 for number in range(len([*journal.export()]))}
        first = len([*journal.export()])


def test_two_processes_write_one_journal(tmp_path):
    path = tmp_path / "deep" / "journal.sqlite"
    writers = [start_writer(path, 0, 60), start_writer(path, 30, 90)]
    for writer in writers:
        assert len(writer.communicate()[0].split()) == 60
        assert writer.returncode == 0
    journal = Journal(path)
    assert len([*journal.export()]) == 90  # 0 to 59 and 30 to 89; the common ones once
    assert journal.find(Entry(f"{45:064}", "m", "t", "d", 45)).text.startswith("text 45 ")


def write_other_table(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE replies (key TEXT, answer TEXT)")
    database.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_text("notes " * 300), "not a database"),
        (write_other_table, "other columns"),
        (Path.mkdir, "unable to open"),
    ],
)
def test_what_is_no_journal_is_refused_and_left_alone(tmp_path: Path, make: Callable[[Path], None], said: str):
    path = tmp_path / "journal.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(ValueError, match=rf"journal\.sqlite: .*{said}"):
        Journal(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


def damage(path: Path) -> None:
    """Garbage past the first page, as a failing disk leaves it."""
    fill(Journal(path), *["x" * 2000] * 100)._store._db.close()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))


@pytest.mark.parametrize(
    "use",
    [
        lambda journal: [journal.find(make_entry(number)) for number in range(100)],
        lambda journal: fill(journal, *[""] * 100, start=1000),
        lambda journal: journal.count(),
        lambda journal: list(journal.export()),
    ],
    ids=["find", "keep", "count", "export"],
)
def test_a_damaged_journal_is_named(tmp_path: Path, use: Callable[[Journal], object]):
    damage(tmp_path / "journal.sqlite")
    with pytest.raises(ValueError, match=r"journal\.sqlite.*malformed"):
        use(Journal(tmp_path / "journal.sqlite"))


def test_a_link_to_a_journal_shares_its_lock(tmp_path: Path):
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "journal.sqlite")
    assert Journal(tmp_path / "journal.sqlite").path == Journal(tmp_path / "link.sqlite").path


def test_an_export_is_ordered_by_key_and_free_of_prompts_runs_and_dates():
    texts = [f"[[{n % 5}]] é\u2028" for n in range(9)]
    one, two = fill(Journal(run="secret run"), *texts), Journal()
    for number in reversed(range(9)):
        fill(two, texts[number], start=number)
    lines = list(one.export())
    assert lines == list(two.export())
    fields = [json.loads(line) for line in lines]
    assert [f["key"] for f in fields] == sorted(make_entry(n).key for n in range(9))
    assert {"run", "written"}.isdisjoint(fields[0])
    assert not any("prompt 3" in line or "secret" in line for line in lines)


def test_lines_are_imported_in_any_order_and_once():
    journal = fill(Journal(), *["[[1]]"] * 20)
    journal.keep(make_entry(90), Reply("", 9, 1, "logits", 0.125, (-0.1, -math.inf)), Verdict(None, "unreadable"))
    lines = list(journal.export())
    assert not any("Infinity" in line or "NaN" in line for line in lines)  # JSON that any reader takes
    other = Journal()
    assert other.import_lines([*reversed(lines), "", "  \n", lines[3]]) == 21
    assert list(other.export()) == lines
    assert other.import_lines(lines) == other.import_lines([]) == 0  # known already


ALTERED = {"text": "so [[1]]", "verdict": 1.0, "logprobs": [-0.5], "seconds": 9.5, "prompt_tokens": 1,
           "finish": "length", "reason": "altered", "spec": "altered"}  # fmt: skip
FORGED = {"seed": 8, "labels": ["1"], **dict.fromkeys(["key", "prompt", "model", "template", "decoding"], "0" * 64)}


@pytest.mark.parametrize(
    ("field", "value", "write", "message"),
    [
        *((*item, json.dumps, "its content doesn't match its sha256") for item in ALTERED.items()),
        *((*item, sign, "its key doesn't follow from its fields") for item in FORGED.items()),
    ],
)
def test_altered_or_forged_content_is_refused_and_nothing_is_taken_in(field, value, write, message):
    lines = list(fill(Journal(), *"1234").export())
    lines[2] = write(json.loads(lines[2]) | {field: value})
    journal = Journal()
    with pytest.raises(ValueError, match=f"mine, line 3: {message}"):
        journal.import_lines(lines, where="mine")
    assert len([*journal.export()]) == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda line: line[: len(line) // 2], r"not JSON"),
        (lambda line: "[" * 100_000, r"recursion"),
        (lambda line: '{"text": 1, ' + line[1:], r"'text' is duplicated"),
    ],
)
def test_what_is_no_exported_completion_is_refused_and_nothing_is_taken_in(spoil, message):
    lines = list(fill(Journal(), *"123").export())
    lines[2] = spoil(lines[2])
    journal = Journal()
    with pytest.raises(ValueError, match=rf"import, line 3: not an exported completion.*{message}"):
        journal.import_lines(lines)
    assert len([*journal.export()]) == 0


def test_a_completion_that_contradicts_a_kept_one_is_refused_and_nothing_is_taken_in():
    lines = list(fill(Journal(), *"111").export())
    number = [make_entry(n).key for n in range(3)].index(json.loads(lines[2])["key"])
    journal, other = fill(Journal(), "5", start=number), Journal()
    for taker, offered in ((journal, lines), (other, [*lines[1:], *journal.export()])):  # kept, or on an earlier line
        before = len([*taker.export()])
        with pytest.raises(ValueError, match=r"import, line 3: another completion is kept under the same key; nothing"):
            taker.import_lines(offered)
        assert len([*taker.export()]) == before


def test_models_are_found_by_spec_the_most_used_first_and_plain_apart():
    journal = Journal()
    assert journal.find_models("hf:m") == []
    for number, (model, template) in enumerate(
        [("hf:m@1", "aa"), ("hf:m@2", "bb"), ("hf:m@1", "plain"), ("hf:m@1", "aa"), ("hf:m@2", "cc")]
    ):
        journal.keep(replace(make_entry(number), model=model, template=template), REPLY, Verdict(2.0), spec="hf:m")
    fill(journal, "1", start=99, spec="hf:other")
    # twice, then once each, the later first
    assert journal.find_models("hf:m") == [("hf:m@1", "aa"), ("hf:m@2", "cc"), ("hf:m@2", "bb")]
    assert journal.find_models("hf:m", plain=True) == [("hf:m@1", "plain")]


def test_a_count_sums_tokens_and_the_unreadable_of_each_model():
    journal = fill(Journal(), "1", "2")
    journal.keep(make_entry(2), REPLY, Verdict(None, "unreadable"))
    # three replies of 11 + 5 tokens
    assert journal.count() == [
        {"model": "openai:m", "completions": 3, "unreadable": 1, "prompt_tokens": 33, "completion_tokens": 15}
    ]
    assert Journal().count() == []


@given(
    text=st.text(st.characters(exclude_categories=("Cs",)), max_size=50),
    logprobs=st.none() | st.lists(st.floats(max_value=0, allow_nan=False), max_size=4).map(tuple),
    verdict=st.none() | st.floats(-1, 10),
    seed=st.integers(-(2**63), 2**63 - 1),
    labels=st.lists(st.text(max_size=3), max_size=3).map(tuple),
)
@settings(max_examples=60)
def test_whatever_is_kept_comes_back_and_survives_the_round_trip(text, logprobs, verdict, seed, labels):
    entry, reply = replace(ENTRY, seed=seed, labels=labels), Reply(text, 1, 2, "stop", 0.5, logprobs)
    journal, other = Journal(), Journal()
    assert journal.keep(entry, reply, Verdict(verdict, "r"), spec="s") == reply
    lines = list(journal.export())
    assert [(line["verdict"], line["reason"], line["spec"]) for line in map(json.loads, lines)] == [(verdict, "r", "s")]
    assert other.import_lines(lines) == 1
    assert other.find(entry) == reply
    assert list(other.export()) == lines
