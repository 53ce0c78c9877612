"""Upstream files arrive whole and right, or not at all; the registry that pins them is checked."""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import requests

from reproduction.data.registry import UnreachableError, UpstreamFile, fetch_file, has_file, read_registry

PROJECT = Path(__file__).parents[1]
GOOD = b'{"why?": []}'
FIELDS = {"name": "set", "owner": "owner", "repo": "repo", "commit": "c0ffee", "path": "dataset/set.json"}
FILE = UpstreamFile(**FIELDS, sha256=hashlib.sha256(GOOD).hexdigest(), licence="none", shape="graded")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mirror"
    (folder / FILE.relative).parent.mkdir(parents=True)
    monkeypatch.setenv("NFQA_MIRROR", str(folder))
    return folder


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_file_is_copied_once_from_a_mirror_and_an_altered_copy_replaced(tmp_path: Path, mirror: Path) -> None:
    (mirror / FILE.relative).write_bytes(GOOD)
    path = fetch_file(FILE, tmp_path / "store")
    assert path == tmp_path / "store" / "owner" / "repo" / "c0ffee" / "dataset" / "set.json"
    path.write_bytes(b"altered")
    assert fetch_file(FILE, tmp_path / "store").read_bytes() == GOOD
    shutil.rmtree(mirror)
    assert fetch_file(FILE, tmp_path / "store").read_bytes() == GOOD


def test_a_wrong_hash_names_both_and_keeps_nothing(tmp_path: Path, mirror: Path) -> None:
    bad = GOOD[:-3]
    (mirror / FILE.relative).write_bytes(bad)
    with pytest.raises(ValueError, match=f"has sha256 {hashlib.sha256(bad).hexdigest()}, expected {FILE.sha256}"):
        fetch_file(FILE, tmp_path / "store")
    assert list_files(tmp_path / "store") == []


def test_without_mirror_file_or_network_it_is_said_what_to_do(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise requests.ConnectionError("no route")

    with pytest.raises(UnreachableError, match=r"NFQA_MIRROR has no .*set\.json"):
        fetch_file(FILE, tmp_path / "store")
    monkeypatch.delenv("NFQA_MIRROR")
    monkeypatch.setattr(requests, "get", refuse)
    with pytest.raises(UnreachableError, match="NFQA_MIRROR to a folder with owner/repo"):
        fetch_file(FILE, tmp_path / "store")
    assert list_files(tmp_path / "store") == []


def test_parts_are_checked_as_git_names_them_and_what_is_lacking_is_named(tmp_path: Path, mirror: Path) -> None:
    blob = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"  # `printf hello | git hash-object --stdin`
    parts = {"one.jsonl": blob, "two.jsonl": blob}
    file = UpstreamFile(**FIELDS | {"path": "raw"}, parts=parts, licence="none", shape="passages")
    folder, store = (mirror / file.relative), tmp_path / "store"
    folder.mkdir()
    (folder / "two.jsonl").write_bytes(b"hello")
    with pytest.warns(UserWarning, match="set is excluded, as it lacks one.jsonl"):
        assert not has_file(file, store)
    with pytest.raises(UnreachableError, match=r"no .*raw/one\.jsonl"):
        fetch_file(file, store)
    (folder / "one.jsonl").write_bytes(b"hallo")
    with pytest.raises(ValueError, match=rf"one\.jsonl has git blob {'[0-9a-f]' * 40}, expected {blob}"):
        fetch_file(file, store)
    (folder / "one.jsonl").write_bytes(b"hello")
    assert fetch_file(file, store) == store / file.relative
    assert {path.name: path.read_bytes() for path in list_files(store)} == dict.fromkeys(parts, b"hello")
    assert file.model_copy(update={"parts": parts | {"two.jsonl": "a" * 40}}).pin != file.pin


def test_a_full_disk_keeps_nothing(tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mirror / FILE.relative).write_bytes(GOOD)

    def fill(source: Path, target: str) -> None:
        Path(target).write_bytes(GOOD[:4])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill)
    with pytest.raises(OSError, match="No space left"):
        fetch_file(FILE, tmp_path / "store")
    assert list_files(tmp_path / "store") == []


def test_the_registry_pins_every_file_by_commit_and_has_the_bundled_ones() -> None:
    registry = read_registry(PROJECT)
    assert {len(file.commit) for file in registry.values() if not file.local} == {40}
    optional = {"debateqa_test", "debateqa_dev", "debateqa_passages"}
    assert {name for name, file in registry.items() if file.optional} == optional
    assert list(registry["debateqa_passages"].parts) == [f"passages_and_index_of_POV_0{n}.jsonl" for n in range(9)]
    bundled = [file.sample for file in registry.values() if file.sample]
    assert len(set(bundled)) == 14
    assert all((PROJECT / "data" / "sample" / name).is_file() for name in bundled)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("g: {licence: l, files: {a: {path: p, shape: s, blob: a1}}}", "blob is 'a1'"),
        ("g: {files: {a: 1, a: 2}}", "line 1: the key 'a' is duplicated"),
        ("g: [", "not YAML"),
        ("a: !!python/object/apply:os.getcwd []", "not YAML"),  # plain data alone
    ],
)
def test_a_registry_that_does_not_fit_is_refused_by_file_and_field(tmp_path: Path, content: str, facts: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "registry.yml").write_text(content)
    with pytest.raises(ValueError, match=rf"registry\.yml.*{re.escape(facts)}"):
        read_registry(tmp_path)
