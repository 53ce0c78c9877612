"""Upstream files, as data/registry.yml pins them: from the local store, a mirror or upstream, and
checked.

An `optional` file is read and fetched only where a run names it.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from pydantic import Field

from nfqa.files.json_lines import Item, Text, check, read_yaml
from nfqa.files.paths import hash_file, write_atomically
from reproduction.data.gather import SETS, gather

_FILES = "https://raw.githubusercontent.com"
_ARCHIVES = "https://codeload.github.com"
_ADVICE = (
    "it is cut short, another page or another version: run again to fetch it anew, put the right one into NFQA_MIRROR,"
    " or correct data/registry.yml if the change is meant"
)
_TIMEOUT = 20  # seconds without an answer before upstream counts as out of reach


class UnreachableError(Exception):
    """Neither the local store, nor the mirror, nor upstream gives a file. The message says what to
    do.
    """


class UpstreamFile(Item):
    """One file of a public repository, pinned by its sha256, and how it is read.

    Of a shape in `reproduction.data.gather.SETS` it is a folder of many: `sha256` is that of the
    one file made of them.
    """

    name: Text
    owner: Text
    repo: Text
    commit: Text
    path: Text
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    licence: Text
    shape: Text
    lowest_label: int = 0  # of a graded dataset
    sample: str = ""  # a prompt has none
    optional: bool = False

    @property
    def gathered(self) -> bool:
        """Whether it is a folder of many files, of which one is made."""
        return self.shape in SETS

    @property
    def relative(self) -> Path:
        """OWNER/REPO/COMMIT/PATH: the layout of the store and of mirrors."""
        return Path(self.owner, self.repo, self.commit, self.path)

    @property
    def stored(self) -> Path:
        """Its path in the store: a gathered folder is kept as the one file made of it."""
        return self.relative.with_suffix(".jsonl") if self.gathered else self.relative

    @property
    def url(self) -> str:
        """Its address at GitHub, or at the server $NFQA_UPSTREAM; of a gathered folder that of the
        repository.
        """
        server = os.environ.get("NFQA_UPSTREAM", "").rstrip("/")
        if self.gathered:
            return f"{server or _ARCHIVES}/{self.owner}/{self.repo}/tar.gz/{self.commit}"
        return f"{server or _FILES}/{self.relative.as_posix()}"


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


def fetch_file(file: UpstreamFile, store: Path) -> Path:
    """The verified copy of an upstream file in the store, fetched if it isn't there.

    A copy in the store whose hash is wrong is replaced. $NFQA_MIRROR, when set, is read instead of
    the network.
    Raises: ValueError when the fetched bytes don't have the pinned hash (both hashes named, the
        bytes not kept); UnreachableError when there is no way to the file.
    """
    target = store / file.stored
    if target.is_file() and hash_file(target) == file.sha256:
        return target
    with _open_source(file) as source, write_atomically(target) as scratch:
        if file.gathered:
            scratch.write_bytes(_gather(file, source))
        else:
            shutil.copyfile(source, scratch)
        measured = hash_file(scratch)
        if measured != file.sha256:
            hashes = f"sha256 {measured}, expected {file.sha256}"
            raise ValueError(f"{file.name}: {file.relative} has {hashes}; {_ADVICE}")
    return target


def _gather(file: UpstreamFile, folder: Path) -> bytes:
    """The one file that is made of a folder. Raises: ValueError where the folder holds something
    else.
    """
    try:
        return gather(file.shape, folder)
    except Exception as error:  # of files that have another shape than the pinned ones, in any way
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{file.name}: {file.relative} is not the pinned folder ({reason}); {_ADVICE}") from error


@contextmanager
def _open_source(file: UpstreamFile) -> Iterator[Path]:
    """The file, or the folder that is gathered: under $NFQA_MIRROR, or downloaded for a while."""
    folder = os.environ.get("NFQA_MIRROR", "")
    path = Path(folder).expanduser() / file.relative
    if folder and path.exists():
        yield path
    elif folder:
        advice = "unset it to download, or complete the mirror"
        raise UnreachableError(f"{file.name}: NFQA_MIRROR has no {path}; {advice}")
    else:
        with TemporaryDirectory() as scratch:
            yield _download(file, Path(scratch))


def _download(file: UpstreamFile, folder: Path) -> Path:
    import pooch

    try:
        pooch.HTTPDownloader(progressbar=True, timeout=_TIMEOUT)(file.url, str(folder / "download"), None)
        if not file.gathered:
            return folder / "download"
        shutil.unpack_archive(folder / "download", folder, "gztar", filter="data")
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:  # OSError: those of requests are ones
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        what = f"{file.name}: {file.url} could not be fetched whole ({reason})"
        raise UnreachableError(f"{what}; connect, or set NFQA_MIRROR to a folder with {file.relative}") from None
    return folder / f"{file.repo}-{file.commit}" / file.path
