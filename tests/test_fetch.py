"""Upstream files arrive whole and right, or not at all."""

from __future__ import annotations

import errno
import hashlib
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


def test_a_mirror_is_copied_and_verified(tmp_path: Path, mirror: Path) -> None:
    (mirror / register().relative).write_bytes(GOOD)
    path = fetch_file(register(), tmp_path / "store", progress=False)
    assert path == tmp_path / "store" / "owner" / "repo" / "c0ffee" / "dataset" / "set.json"
    assert path.read_bytes() == GOOD


@pytest.mark.parametrize("bad", [GOOD[:-3], b"<html>not found</html>", b""])
def test_a_wrong_hash_names_both_and_keeps_nothing(tmp_path: Path, mirror: Path, bad: bytes) -> None:
    (mirror / register().relative).write_bytes(bad)
    with pytest.raises(ValueError) as error:
        fetch_file(register(), tmp_path / "store", progress=False)
    assert hashlib.sha256(bad).hexdigest() in str(error.value)
    assert register().sha256 in str(error.value)
    assert list_files(tmp_path / "store") == []


def test_an_altered_local_copy_is_replaced(tmp_path: Path, mirror: Path) -> None:
    (mirror / register().relative).write_bytes(GOOD)
    path = fetch_file(register(), tmp_path / "store", progress=False)
    path.write_bytes(b"altered")
    assert fetch_file(register(), tmp_path / "store", progress=False).read_bytes() == GOOD


def test_a_good_local_copy_needs_no_mirror(tmp_path: Path, mirror: Path) -> None:
    (mirror / register().relative).write_bytes(GOOD)
    fetch_file(register(), tmp_path / "store", progress=False)
    shutil.rmtree(mirror)
    assert fetch_file(register(), tmp_path / "store", progress=False).read_bytes() == GOOD


def test_a_mirror_without_the_file_says_which(tmp_path: Path, mirror: Path) -> None:
    with pytest.raises(UnreachableError, match=r"NFQA_MIRROR has no .*set\.json; unset it to download"):
        fetch_file(register(), tmp_path / "store", progress=False)


def test_no_network_says_how_to_get_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NFQA_MIRROR", raising=False)

    def refuse(*_: Any, **__: Any) -> None:
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "get", refuse)
    with pytest.raises(UnreachableError, match="a folder that holds owner/repo"):
        fetch_file(register(), tmp_path / "store", progress=False)
    assert list_files(tmp_path / "store") == []


def test_a_full_disk_keeps_nothing(tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mirror / register().relative).write_bytes(GOOD)

    def fill(source: Path, target: str) -> None:
        Path(target).write_bytes(GOOD[:4])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill)
    with pytest.raises(OSError, match="No space left"):
        fetch_file(register(), tmp_path / "store", progress=False)
    assert list_files(tmp_path / "store") == []


def test_the_registry_pins_every_file_by_commit_and_hash() -> None:
    registry = read_registry(PROJECT)
    prompts = {name for name, file in registry.items() if file.shape == "prompt"}
    methods = ("listwise", "pointwise", "pointwise_ref", "pairwise", "write_lower")
    assert prompts == {f"prompt_{method}" for method in methods}
    local = {name for name, file in registry.items() if file.local}
    optional = {name for name, file in registry.items() if file.optional}
    assert local == {"system_answers", "dev_povs"}
    assert optional == {"debateqa_test", "debateqa_dev"}
    graded, debates = {"antique", "trec_dl_nf", "webglm"}, {"debatewise", "overton", "demo_answers"}
    assert set(registry) - prompts - local - optional == graded | debates
    for name, file in registry.items():
        assert len(file.commit) == (0 if name in local else 40)
        assert len(file.sha256) == 64
        bundled = name in graded | debates
        assert (PROJECT / "data" / "sample" / file.sample).is_file() if bundled else file.sample == ""


def test_a_registry_that_lacks_a_field_names_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    fields = "{path: p, shape: graded, lowest_label: 1, sample: s}"
    text = f"g: {{owner: o, repo: r, commit: c, licence: l, files: {{a: {fields}}}}}"
    (tmp_path / "data" / "registry.yml").write_text(text)
    with pytest.raises(ValueError, match=r"g\.files\.a: .*sha256"):
        read_registry(tmp_path)
