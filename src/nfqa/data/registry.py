"""Upstream files, as data/registry.yml pins them: from the local store, a mirror or upstream, and checked.

A file may be `optional`: a run goes on without it, and says which rows need it. A `local` file can't be downloaded; it
is looked for in the folder $NFQA_LOCAL, and is optional by its nature.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field, model_validator

from nfqa.data.json_lines import Item, Text, check
from nfqa.data.paths import write_atomically

_UPSTREAM = "https://raw.githubusercontent.com"
_ARCHIVES = "https://codeload.github.com"
_TIMEOUT = 20  # seconds without an answer before upstream counts as out of reach
_DEEPEST = 50  # levels of a YAML file: beyond some 10,000 the parser would end the process


class UnreachableError(Exception):
    """Neither the local store, nor the mirror, nor upstream could give a file. The message says what to do."""


def _refuse_outside(text: str) -> str:
    if Path(text).is_absolute() or ".." in Path(text).parts:
        raise ValueError("expected a name or a path that begins with a name and has no '..'")
    return text


Inside = Annotated[str, AfterValidator(_refuse_outside)]  # goes into a path of the store, or of data/sample


class UpstreamFile(Item):
    """One pinned file of a public repository, and how it is read.

    With `gather` it is a folder of many files: `sha256` is that of the one file which `nfqa.data.gather` makes of them.
    """

    name: Text
    owner: Inside = ""
    repo: Inside = ""
    commit: Inside = ""
    path: Annotated[Text, AfterValidator(_refuse_outside)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    licence: Text
    shape: Text
    lowest_label: int = 0  # of a graded dataset
    sample: Inside = ""  # a prompt has none
    gather: bool = False
    optional: bool = False
    local: bool = False

    @property
    def relative(self) -> Path:
        """OWNER/REPO/COMMIT/PATH: the layout of the store and of mirrors."""
        return Path(self.owner, self.repo, self.commit, self.path)

    @property
    def kept(self) -> Path:
        """Where in the store it is kept: a gathered folder is kept as the one file made of it."""
        return self.relative.with_suffix(".jsonl") if self.gather else self.relative

    @property
    def url(self) -> str:
        if self.gather:
            return f"{_ARCHIVES}/{self.owner}/{self.repo}/tar.gz/{self.commit}"
        return f"{_UPSTREAM}/{self.relative.as_posix()}"


class _Group(Item):
    owner: Inside = ""
    repo: Inside = ""
    commit: Inside = ""
    licence: Text
    local: bool = False
    files: dict[str, dict[str, Any]]

    @model_validator(mode="after")
    def _say_where_from(self) -> _Group:
        if not self.local and not (self.owner and self.repo and self.commit):
            raise ValueError("expected owner, repo and commit, or local: true")
        return self


def read_registry(root: Path) -> dict[str, UpstreamFile]:
    """All registered files by name.

    Raises: ValueError when data/registry.yml lacks a field, has an unknown one, or names a file twice.
    """
    path = root / "data" / "registry.yml"
    return _read_registry(path, *stamp(path))


@cache
def _read_registry(path: Path, *_: int) -> dict[str, UpstreamFile]:
    files: dict[str, UpstreamFile] = {}
    for key, group in check(dict[str, _Group], read_yaml(path), str(path)).items():
        shared = group.model_dump(exclude={"files"})
        for name, fields in group.files.items():
            if name in files:
                raise ValueError(f"{path}: the file name {name} is registered twice; give each file its own")
            where, twice = f"{path}: {key}.files.{name}", fields.keys() & {"name", *shared}
            if twice:
                raise ValueError(f"{where}.{min(twice)} is given already, by the file's key or its group; remove it")
            files[name] = check(UpstreamFile, {"name": name} | shared | fields, where)
    return files


class _StrictLoader(yaml.CSafeLoader):
    """Of YAML what JSON has too: no dates, binary data or sets, no key that is no text, no 010 for 8."""

    yaml_constructors = {  # noqa: RUF012
        tag: make
        for tag, make in yaml.CSafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        value = super().construct_object(node, deep)
        if isinstance(value, int | float) and not abs(value) < 2**63:
            raise ValueError(f"line {node.start_mark.line + 1}: {node.value:.60} is no number that can be held")
        if isinstance(value, int | float) and not _is_json(node.value):
            where = f"line {node.start_mark.line + 1}: {node.value:.60}"
            raise ValueError(f"{where} would be read as {json.dumps(value)}; write that, or put it into quotes")
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise ValueError(f"line {line}: the key {key!r:.60} is no text; put it into quotes")
            if key in seen:
                raise ValueError(f"line {line}: the key {key!r} is duplicated; the second would hide the first")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def read_yaml(path: Path) -> Any:
    """What a YAML file holds, of what JSON has too.

    Raises: ValueError naming the file, and the line, when it isn't YAML or holds anything else (a date, an alias, a key
        that is no text), when a key is duplicated in one mapping, and for nesting deeper than any of our files.
    """
    try:
        text, depth = path.read_text(encoding="utf-8"), 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            mark: Any = event.start_mark
            if isinstance(event, yaml.AliasEvent):
                raise yaml.MarkedYAMLError(None, None, "found an alias; write it out", mark)
            if depth > _DEEPEST:
                raise yaml.MarkedYAMLError(None, None, f"nested over {_DEEPEST} levels deep", mark)
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError, KeyError) as error:  # KeyError: !!bool x
        said = " ".join(str(error).split())
        raise ValueError(f"{path}: not YAML that can be read, or holds what JSON has not: {said}") from None


def stamp(path: Path) -> tuple[int, int, int]:
    """What tells a file from the same one edited, so that what is read of it can be kept for a process."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def hash_file(path: Path) -> str:
    """sha256 of a file's bytes, in hex; read once a process, unless the file is edited."""
    return _hash_file(path, *stamp(path))


@cache
def _hash_file(path: Path, *_: int) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def has_file(file: UpstreamFile, store: Path) -> bool:
    """Whether a verified copy is at hand without the network: in the store, the mirror or $NFQA_LOCAL.

    Raises: ValueError for a copy with the wrong hash.
    """
    try:
        if not file.local and _find_in_mirror(file) is None:
            kept = store / file.kept
            return kept.is_file() and hash_file(kept) == file.sha256
        fetch_file(file, store)
    except UnreachableError:
        return False
    return True


def fetch_file(file: UpstreamFile, store: Path) -> Path:
    """The verified local copy of an upstream file, fetched if it isn't there.

    A copy in the store whose hash is wrong is replaced. $NFQA_MIRROR, when set, is read instead of the network. A local
    file is read where it lies.

    Raises: ValueError when the fetched bytes don't have the pinned hash (both hashes named, the bytes not kept);
        UnreachableError when there is no way to the file.
    """
    if file.local:
        return _find_local(file)
    target = store / file.kept
    if target.is_file() and hash_file(target) == file.sha256:
        return target
    source = _find_in_mirror(file)
    with write_atomically(target) as scratch:
        if not source:
            _download(file, scratch)
        elif not file.gather:
            shutil.copyfile(source, scratch)
        if file.gather:  # the archive that was downloaded isn't kept
            from nfqa.data.gather import gather

            scratch.write_bytes(gather(file.shape, source or scratch, file.path, f"{file.name}: {source or file.url}"))
        _refuse_hash(file, str(source or file.url), scratch)
    return target


def _download(file: UpstreamFile, target: Path) -> None:
    import pooch
    import requests

    try:
        pooch.HTTPDownloader(progressbar=True, timeout=_TIMEOUT)(file.url, str(target), None)
    except (requests.RequestException, ConnectionError) as error:
        raise UnreachableError(
            f"{file.name}: {file.url} could not be reached ({type(error).__name__}). Connect and run again, or set"
            f" NFQA_MIRROR to a folder that holds {file.relative}"
        ) from None


def _refuse_hash(file: UpstreamFile, origin: str, path: Path) -> None:
    got = hash_file(path)
    if got != file.sha256:
        raise ValueError(
            f"{file.name}: {origin} has sha256 {got}, expected {file.sha256}; it is not used. Take the right file, or"
            " correct the pin in data/registry.yml if the change is meant"
        )


def _find_in_mirror(file: UpstreamFile) -> Path | None:
    """The file, or the folder that is gathered, under $NFQA_MIRROR; None where that isn't set."""
    mirror = os.environ.get("NFQA_MIRROR", "")
    source = Path(mirror).expanduser() / file.relative if mirror else None
    if source is not None and not (source.is_dir() if file.gather else source.is_file()):
        raise UnreachableError(
            f"{file.name}: NFQA_MIRROR has no {source}; unset it to download, or complete the mirror"
        )
    return source


def _find_local(file: UpstreamFile) -> Path:
    folder = os.environ.get("NFQA_LOCAL", "")
    path = Path(folder).expanduser() / file.path
    if not folder or not path.is_file():
        where = f"{folder} has none" if folder else "NFQA_LOCAL is not set"
        raise UnreachableError(f"{file.name}: needs {file.path}, which can't be downloaded; {where}")
    _refuse_hash(file, str(path), path)
    return path
