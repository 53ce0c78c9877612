"""Upstream files arrive whole and right, or not at all."""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import requests

from nfqa.data.registry import UnreachableError, UpstreamFile, fetch_file, read_registry

PROJECT = Path(__file__).parents[1]
GOOD = b'{"why?": []}'


def register(sha256: str = hashlib.sha256(GOOD).hexdigest()) -> UpstreamFile:
    fields = {"name": "set", "owner": "owner", "repo": "repo", "commit": "c0ffee", "path": "dataset/set.json"}
    return UpstreamFile(**fields, sha256=sha256, licence="none", shape="graded", lowest_label=1, sample="cqa.json")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mirror"
    (folder / register().relative).parent.mkdir(parents=True)
    monkeypatch.setenv("NFQA_MIRROR", str(folder))
    return folder


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_file_is_copied_once_from_a_mirror_and_an_altered_copy_replaced(tmp_path: Path, mirror: Path) -> None:
    (mirror / register().relative).write_bytes(GOOD)
    path = fetch_file(register(), tmp_path / "store")
    assert path == tmp_path / "store" / "owner" / "repo" / "c0ffee" / "dataset" / "set.json"
    path.write_bytes(b"altered")
    assert fetch_file(register(), tmp_path / "store").read_bytes() == GOOD
    shutil.rmtree(mirror)
    assert fetch_file(register(), tmp_path / "store").read_bytes() == GOOD


@pytest.mark.parametrize("bad", [GOOD[:-3], b"<html>not found</html>", b""])
def test_a_wrong_hash_names_both_and_keeps_nothing(tmp_path: Path, mirror: Path, bad: bytes) -> None:
    (mirror / register().relative).write_bytes(bad)
    with pytest.raises(ValueError, match=f"has sha256 {hashlib.sha256(bad).hexdigest()}, expected {register().sha256}"):
        fetch_file(register(), tmp_path / "store")
    assert list_files(tmp_path / "store") == []


def test_a_mirror_without_the_file_says_which(tmp_path: Path, mirror: Path) -> None:
    with pytest.raises(UnreachableError, match=r"NFQA_MIRROR has no .*set\.json; unset it to download"):
        fetch_file(register(), tmp_path / "store")


def test_no_network_says_how_to_get_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NFQA_MIRROR", raising=False)

    def refuse(*_: Any, **__: Any) -> None:
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "get", refuse)
    with pytest.raises(UnreachableError, match="a folder that holds owner/repo"):
        fetch_file(register(), tmp_path / "store")
    assert list_files(tmp_path / "store") == []


def test_a_full_disk_keeps_nothing(tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mirror / register().relative).write_bytes(GOOD)

    def fill(source: Path, target: str) -> None:
        Path(target).write_bytes(GOOD[:4])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill)
    with pytest.raises(OSError, match="No space left"):
        fetch_file(register(), tmp_path / "store")
    assert list_files(tmp_path / "store") == []


def test_the_registry_pins_every_file_by_commit_and_hash() -> None:
    registry = read_registry(PROJECT)
    prompts = {f"prompt_{name}" for name in ("listwise", "pointwise", "pointwise_ref", "pairwise", "write_lower")}
    assert {name for name, file in registry.items() if file.shape == "prompt"} == prompts
    assert {name for name, file in registry.items() if file.local} == {"system_answers", "dev_povs"}
    assert {name for name, file in registry.items() if file.optional} == {"debateqa_test", "debateqa_dev"}
    bundled = {name for name, file in registry.items() if file.sample}
    graded, debates = {"antique", "trec_dl_nf", "webglm"}, {"debatewise", "overton", "demo_answers"}
    claims = {"perspectrum", "perspectrum_wordings"}
    assert bundled == graded | debates | claims | {"web_documents", "source_reliability", "stated_views"}
    assert all((PROJECT / "data" / "sample" / registry[name].sample).is_file() for name in bundled)
    assert {len(file.commit) for file in registry.values() if not file.local} == {40}


FIELDS = f"path: p, shape: graded, sha256: {'a' * 64}"


@pytest.mark.parametrize(
    ("group", "files", "facts"),
    [
        ("owner: o, repo: r, commit: c, licence: l", "a: {path: p, shape: graded}", "g.files.a: sha256 is missing"),
        ("owner: o, repo: r, commit: c, licence: l", f"a: {{{FIELDS}, size: 1}}", "g.files.a: unknown field 'size'"),
        ("owner: o, repo: r, commit: c, licence: l", f"a: {{{FIELDS}, optional: 1}}", "g.files.a: optional is 1"),
        ("owner: o, repo: r, commit: c", "", "g.licence is missing"),
        ("owner: o, licence: l", "", "expected owner, repo and commit"),
        ("owner: /etc, repo: r, commit: c, licence: l", f"a: {{{FIELDS}}}", "g.owner is '/etc'; expected a name"),
        ("owner: o, repo: .., commit: c, licence: l", f"a: {{{FIELDS}}}", "g.repo is '..'; expected a name"),
        ("local: true, licence: l", f"a: {{{FIELDS.replace('p,', '../p,')}}}", "a: path is '../p'; expected a name"),
        ("local: true, licence: l", f"a: {{{FIELDS}, sample: /etc/hosts}}", "a: sample is '/etc/hosts'; expected"),
        ("local: true, licence: l", f"a: {{{FIELDS}, name: b}}", "g.files.a.name is given already"),
        ("local: true, licence: l", f"a: {{{FIELDS}, licence: m}}", "g.files.a.licence is given already"),
        ("local: true, licence: l", "a: 1, a: 2", "line 1: the key 'a' is duplicated"),
    ],
)
def test_a_registry_that_does_not_fit_is_refused_by_file_and_field(
    tmp_path: Path, group: str, files: str, facts: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "registry.yml").write_text(f"g: {{{group}, files: {{{files}}}}}")
    with pytest.raises(ValueError, match=rf"registry\.yml.*{re.escape(facts)}"):
        read_registry(tmp_path)
