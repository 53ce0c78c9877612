"""Upstream files: found in the local store, copied from a mirror or downloaded, checked, moved into place."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfqa.lab.strict_yaml import read_yaml

_UPSTREAM = "https://raw.githubusercontent.com"
_TIMEOUT = 20  # seconds without an answer before upstream counts as out of reach


class UnreachableError(Exception):
    """Neither the local store, nor the mirror, nor upstream could give a file. The message says what to do."""


@dataclass(frozen=True)
class UpstreamFile:
    """One pinned file of a public repository, and how it is read."""

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

    @property
    def relative(self) -> Path:
        """OWNER/REPO/COMMIT/PATH: the layout of the store and of mirrors."""
        return Path(self.owner, self.repo, self.commit, self.path)

    @property
    def url(self) -> str:
        return f"{_UPSTREAM}/{self.relative.as_posix()}"


def read_registry(root: Path) -> dict[str, UpstreamFile]:
    """All registered files by name.

    Raises: ValueError when data/registry.yml lacks a field or names one twice.
    """
    path = root / "data" / "registry.yml"
    files: dict[str, UpstreamFile] = {}
    for group, entry in _read_groups(path):
        for name, fields in entry["files"].items():
            if name in files:
                raise ValueError(f"{path}: the file name {name} is registered twice")
            shared: dict[str, Any] = {key: entry[key] for key in ("owner", "repo", "commit", "licence")}
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
        lacking = {"owner", "repo", "commit", "licence", "files"} - set(entry if isinstance(entry, dict) else ())
        if lacking:
            raise ValueError(f"{path}: {group} lacks {', '.join(sorted(lacking))}")
    return list(content.items())


def hash_file(path: Path) -> str:
    """sha256 of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def fetch_file(file: UpstreamFile, store: Path, *, progress: bool = True) -> Path:
    """The verified local copy of an upstream file, fetched if it isn't there.

    A copy in the store whose hash is wrong is replaced. $NFQA_MIRROR, when set, is read instead of the network.

    Raises: ValueError when the fetched bytes don't have the pinned hash (both hashes named, the bytes not kept);
        UnreachableError when there is no way to the file.
    """
    target = store / file.relative
    if target.is_file() and hash_file(target) == file.sha256:
        return target
    import pooch
    import requests

    mirror = os.environ.get("NFQA_MIRROR", "")
    source = Path(mirror).expanduser() / file.relative if mirror else None
    if source is not None and not source.is_file():
        raise UnreachableError(
            f"{file.name}: NFQA_MIRROR has no {source}; unset it to download, or complete the mirror"
        )

    download = pooch.HTTPDownloader(progressbar=progress, timeout=_TIMEOUT)
    got = "none"

    def bring(url: str, output_file: str, pup: Any) -> None:
        nonlocal got
        if source:
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
    except ValueError:
        origin = source or file.url
        raise ValueError(
            f"{file.name}: {origin} has sha256 {got}, expected {file.sha256}; the copy was not kept."
            " Fetch it again, or correct the pin in data/registry.yml if the change is meant"
        ) from None
    return target
