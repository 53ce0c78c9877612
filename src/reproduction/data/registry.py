"""Upstream files, as data/registry.yml pins them: from the local store, a mirror or upstream, and checked.

A file may be `optional`: a run goes on without it, and says which rows need it. A `local` file can't be downloaded; it
is looked for in the folder $NFQA_LOCAL, and is optional by its nature.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from pathlib import Path
from typing import Annotated

from pydantic import Field

from nfqa.files.json_lines import Item, Text, check, read_yaml
from nfqa.files.paths import hash_file, write_atomically
from reproduction.data.gather import gather

_TIMEOUT = 20  # seconds without an answer before upstream counts as out of reach


class UnreachableError(Exception):
    """Neither the local store, nor the mirror, nor upstream could give a file. The message says what to do."""


Blob = Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


class UpstreamFile(Item):
    """One file of a public repository, pinned by one of sha256, blob and parts, and how it is read.

    With `gather` it is a folder of many files: `sha256` is that of the one file which `gather` makes of them.
    With `parts` it is a folder of a few, each checked for itself. `blob` is the id that git gives a file's bytes, for a
    file of which no sha256 is known: the sha1 of "blob", a blank, their number, a zero byte and the bytes.
    """

    name: Text
    owner: str = ""
    repo: str = ""
    commit: str = ""
    path: Text
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = ""
    blob: Blob = ""
    parts: dict[Text, Blob] = Field(default_factory=dict)  # the blob of each file in the folder `path`
    licence: Text
    shape: Text
    lowest_label: int = 0  # of a graded dataset
    sample: str = ""  # a prompt has none
    gather: bool = False
    optional: bool = False
    local: bool = False

    @property
    def pin(self) -> str:
        """What its bytes are checked by; of several parts one hash."""
        return self.sha256 or self.blob or hashlib.sha256(" ".join(self.parts.values()).encode()).hexdigest()

    @property
    def files(self) -> list[UpstreamFile]:
        """Its parts, each a file."""
        changed = [{"path": f"{self.path}/{name}", "blob": blob, "parts": {}} for name, blob in self.parts.items()]
        return [self.model_copy(update=each) for each in changed]

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
        archive = f"https://codeload.github.com/{self.owner}/{self.repo}/tar.gz/{self.commit}"
        return archive if self.gather else f"https://raw.githubusercontent.com/{self.relative.as_posix()}"


def read_registry(root: Path) -> dict[str, UpstreamFile]:
    """All files of data/registry.yml by name.

    Raises: ValueError naming the file that lacks a field or has an unknown one.
    """
    path = root / "data" / "registry.yml"
    return {
        name: check(UpstreamFile, {"name": name} | group | fields, f"{path}: {name}")
        for group in read_yaml(path).values()
        for name, fields in group.pop("files").items()
    }


def has_file(file: UpstreamFile, store: Path) -> bool:
    """Whether a verified copy is at hand without the network: in the store, the mirror or $NFQA_LOCAL.

    Where some of its parts are and others aren't, a warning names these.
    Raises: ValueError for a copy with the wrong hash.
    """
    if file.parts:
        lacking = [name for name, part in zip(file.parts, file.files, strict=True) if not has_file(part, store)]
        if 0 < len(lacking) < len(file.parts):
            warnings.warn(f"{file.name} is left out, as it lacks {', '.join(lacking)}", stacklevel=2)
        return not lacking
    try:
        return bool(_find_kept(file, store) or (_find_near(file) and fetch_file(file, store)))
    except UnreachableError:
        return False


def fetch_file(file: UpstreamFile, store: Path) -> Path:
    """The verified local copy of an upstream file, fetched if it isn't there; of one with parts, their folder.

    A copy in the store whose hash is wrong is replaced. $NFQA_MIRROR, when set, is read instead of the network. A local
    file is read where it lies.

    Raises: ValueError when the fetched bytes don't have the pinned hash (both hashes named, the bytes not kept);
        UnreachableError when there is no way to the file, or to one of its parts.
    """
    if file.parts:
        return {fetch_file(part, store).parent for part in file.files}.pop()
    if kept := _find_kept(file, store):
        return kept
    source, target = _find_near(file), store / file.kept
    if file.local and source:
        _refuse_hash(file, str(source), source)
        return source
    with write_atomically(target) as scratch:
        if not source:
            _download(file, scratch)
        elif not file.gather:
            shutil.copyfile(source, scratch)
        if file.gather:  # the archive that was downloaded isn't kept
            scratch.write_bytes(gather(file.shape, source or scratch, file.path, f"{file.name}: {source or file.url}"))
        _refuse_hash(file, str(source or file.url), scratch)
    return target


def _download(file: UpstreamFile, target: Path) -> None:
    import pooch
    import requests

    try:
        pooch.HTTPDownloader(progressbar=True, timeout=_TIMEOUT)(file.url, str(target), None)
    except (requests.RequestException, ConnectionError) as error:
        what = f"{file.name}: {file.url} could not be reached ({type(error).__name__})"
        raise UnreachableError(f"{what}; connect, or set NFQA_MIRROR to a folder with {file.relative}") from None


def _refuse_hash(file: UpstreamFile, origin: str, path: Path) -> None:
    if (got := hash_file(path, blob=bool(file.blob))) != file.pin:
        what = f"{file.name}: {origin} has {'git blob' if file.blob else 'sha256'} {got}, expected {file.pin}"
        raise ValueError(f"{what}; take the right file, or correct data/registry.yml if the change is meant")


def _find_kept(file: UpstreamFile, store: Path) -> Path | None:
    path = store / file.kept
    return path if not file.local and path.is_file() and hash_file(path, blob=bool(file.blob)) == file.pin else None


def _find_near(file: UpstreamFile) -> Path | None:
    """The file, or the folder that is gathered, under $NFQA_MIRROR or, if local, $NFQA_LOCAL; None to download it."""
    folder = os.environ.get(variable := "NFQA_LOCAL" if file.local else "NFQA_MIRROR", "")
    path = Path(folder).expanduser() / file.relative
    if folder and path.exists():
        return path
    if folder or file.local:
        instead = "it can't be downloaded" if file.local else "unset it to download, or complete the mirror"
        raise UnreachableError(f"{file.name}: {variable} has no {path}; {instead}")
    return None
