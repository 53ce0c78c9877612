"""Files and folders: the checkout's top, files written whole, locks and hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


def find_root() -> Path:
    """The checkout's top folder: $NFQA_ROOT, or the nearest folder upwards with data/registry.yml.

    Raises: ValueError when there is none.
    """
    variable, here = os.environ.get("NFQA_ROOT"), Path.cwd()
    candidates = [Path(variable).resolve()] if variable else [here, *here.parents]
    for folder in candidates:
        if (folder / "data" / "registry.yml").is_file():
            return folder
    advice = "git clone the project (see README.md) and run there, or set NFQA_ROOT"
    raise ValueError(f"no data/registry.yml in {candidates[0]} or above; {advice}")


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Give a scratch path beside `path`, and move it into place only if the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        scratch.chmod(0o644)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, moved into place whole."""
    with write_atomically(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, in place whole or not at all."""
    with write_atomically(target) as scratch:
        shutil.copyfile(source, scratch)


@contextmanager
def lock_file(path: Path, message: str, *, wait: bool = False) -> Iterator[None]:
    """Hold a file for this process alone; where another process holds it, say `message`, and wait if that is wanted.

    Raises: ValueError, saying `message`, where it is not.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise ValueError(message) from None
        print(message, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def stamp(path: Path) -> tuple[int, int, int]:
    """What tells a file from the same one edited, so that what is read of it can be kept for a process."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def hash_file(path: Path, *, blob: bool = False) -> str:
    """sha256 of a file's bytes, or its id as a git blob, in hex; read once a process, unless the file is edited."""
    return _hash_file(path, blob, *stamp(path))


@cache
def _hash_file(path: Path, blob: bool, *_: int) -> str:
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode()) if blob else hashlib.sha256()  # noqa: S324 - git's
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: digest).hexdigest()
