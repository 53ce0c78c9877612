"""Upstream files: found in the local store, copied from a mirror or downloaded, checked, moved into place.

A file may be `optional`: a run goes on without it, and says which rows need it. A `local` file can't be downloaded; it
is looked for in the folder $NFQA_LOCAL, and is optional by its nature.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfqa.data.strict_yaml import read_yaml

_UPSTREAM = "https://raw.githubusercontent.com"
_ARCHIVES = "https://codeload.github.com"
_TIMEOUT = 20  # seconds without an answer before upstream counts as out of reach


class UnreachableError(Exception):
    """Neither the local store, nor the mirror, nor upstream could give a file. The message says what to do."""


@dataclass(frozen=True)
class UpstreamFile:
    """One pinned file of a public repository, and how it is read.

    With `gather` it is a folder of many files: `sha256` is that of the one file which `nfqa.data.gather` makes of them.
    """

    name: str
    owner: str
    repo: str
    commit: str
    path: str
    sha256: str
    licence: str
    shape: str
    lowest_label: int = 0  # of a data set
    sample: str = ""  # a prompt has none
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


def read_registry(root: Path) -> dict[str, UpstreamFile]:
    """All registered files by name.

    Raises: ValueError when data/registry.yml lacks a field or names one twice.
    """
    path = root / "data" / "registry.yml"
    files: dict[str, UpstreamFile] = {}
    for group, entry in _read_groups(path):
        shared: dict[str, Any] = {key: entry.get(key, "") for key in ("owner", "repo", "commit", "licence")}
        shared["local"] = entry.get("local", False)
        for name, fields in entry["files"].items():
            if name in files:
                raise ValueError(f"{path}: the file name {name} is registered twice")
            try:
                files[name] = UpstreamFile(name=name, **shared, **fields)
            except TypeError as error:
                raise ValueError(f"{path}: {group}.files.{name}: {error}") from None
    return files


def _read_groups(path: Path) -> list[tuple[str, dict[str, Any]]]:
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected groups of files by name")
    for group, entry in content.items():
        given = entry if isinstance(entry, dict) else {}
        needed = {"licence", "files"} | (set() if given.get("local") else {"owner", "repo", "commit"})
        lacking = needed - set(given)
        if lacking:
            raise ValueError(f"{path}: {group} lacks {', '.join(sorted(lacking))}")
    return list(content.items())


def hash_file(path: Path) -> str:
    """sha256 of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def has_file(file: UpstreamFile, store: Path) -> bool:
    """Whether a verified copy is at hand without the network: in the store, the mirror or $NFQA_LOCAL.

    Raises: ValueError for a copy with the wrong hash.
    """
    try:
        if file.local:
            _find_local(file)
            return True
        source = _find_in_mirror(file)
        kept = store / file.kept
        if not (kept.is_file() and hash_file(kept) == file.sha256):
            if source is None:
                return False
            fetch_file(file, store)
    except UnreachableError:
        return False
    return True


def fetch_file(file: UpstreamFile, store: Path, *, progress: bool = True) -> Path:
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
    import pooch
    import requests

    source = _find_in_mirror(file)
    download = pooch.HTTPDownloader(progressbar=progress, timeout=_TIMEOUT)
    got = "none"

    def bring(url: str, output_file: str, pup: Any) -> None:
        nonlocal got
        if file.gather:
            _gather(file, source, Path(output_file), lambda archive: download(url, archive, pup))
        elif source:
            shutil.copyfile(source, output_file)
        else:
            download(url, output_file, pup)
        got = hash_file(Path(output_file))

    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    pooch.get_logger().setLevel("ERROR")
    try:
        pooch.retrieve(file.url, f"sha256:{file.sha256}", target.name, target.parent, downloader=bring)
    except (requests.RequestException, ConnectionError) as error:
        raise UnreachableError(
            f"{file.name}: {file.url} could not be reached ({type(error).__name__}). Connect and run again, or set"
            f" NFQA_MIRROR to a folder that holds {file.relative}"
        ) from None
    except ValueError as error:
        origin = source or file.url
        if got == "none":
            raise ValueError(f"{file.name}: {origin}: {error}") from None
        raise ValueError(
            f"{file.name}: {origin} has sha256 {got}, expected {file.sha256}; the copy was not kept."
            " Fetch it again, or correct the pin in data/registry.yml if the change is meant"
        ) from None
    return target


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
    got = hash_file(path)
    if got != file.sha256:
        raise ValueError(
            f"{file.name}: {path} has sha256 {got}, expected {file.sha256}."
            " Take the right file, or correct the pin in data/registry.yml if the change is meant"
        )
    return path


def _gather(file: UpstreamFile, source: Path | None, target: Path, download: Callable[[str], None]) -> None:
    """Write what is made of a folder: of the mirror's, or of that in the repository's archive, which isn't kept."""
    from nfqa.data.gather import gather_archive, gather_folder

    if source:
        target.write_bytes(gather_folder(source))
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        archive = Path(scratch) / "archive.tar.gz"
        download(str(archive))
        target.write_bytes(gather_archive(archive, file.path))
