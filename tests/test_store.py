"""Kept rows, and the hash of the code behind them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nfqa.files import code
from nfqa.files.store import Store


def test_rows_stay_on_disk_and_are_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "numbers.sqlite"
    store = Store(path, "numbers", value="REAL", note="TEXT")
    store.write([(b"a", 1.5, "first"), (b"b", 2.5, "")])
    store.write([(b"a", 9.0, "again")])
    again = Store(path, "numbers", value="REAL", note="TEXT")
    assert again.read([b"a", b"c"]) == {b"a": (1.5, "first")}
    assert store.read([b"a"], "note") == {b"a": ("first",)}
    assert again.write([(b"a", 9.0, "again"), (b"c", 0.5, "new"), (b"c", 0.5, "twin")]) == 1
    assert store.select("SELECT count(*) FROM {table}") == [(3,)]
    for _ in range(2):  # without a path, rows live as long as the object
        store = Store(None, "texts", text="TEXT")
        assert store.read([b"k"]) == {}
        store.write([(b"k", "t")])
        assert store.read([b"k"]) == {b"k": ("t",)}


def test_a_hash_follows_the_code_and_not_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "nfqa"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text('"""Words."""\ndef f():\n    """More."""\n    from nfqa import b\n    return b.x\n')
    (package / "b.py").write_text("x = 1\n")
    monkeypatch.setattr(code, "_SOURCE", tmp_path)
    before = code.hash_modules(["nfqa.a.f", "nfqa.a"])
    assert set(before) == {"nfqa", "nfqa.a", "nfqa.b"}
    (package / "a.py").write_text('"""Other words."""\ndef f():\n    from nfqa import b  # why\n    return b.x\n')
    assert code.hash_modules(["nfqa.a"]) == before
    (package / "b.py").write_text("x = 22\n")
    assert code.hash_modules(["nfqa.a"])["nfqa.b"] != before["nfqa.b"]


def test_what_a_process_has_imported_is_what_the_walk_finds() -> None:
    told = "import sys, nfqa.models.evaluator as e; print(*[m for m in sys.modules if m.split('.')[0] == 'nfqa'])"
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    found = set(run.stdout.split()) - {"nfqa", "nfqa.functions", "nfqa.summaries"}  # which import as they are called
    assert found <= set(code.hash_modules(["nfqa.models.evaluator"]))
