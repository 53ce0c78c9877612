"""Files and folders: the checkout's top, files written whole, folders of outputs, locks and hashes."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

OUTPUTS = ".nfqa"  # lists what was written into a folder of outputs: the sha256 and name of each file


def find_root() -> Path:
    """The checkout's top folder: $NFQA_ROOT, or the nearest folder upwards with data/registry.yml.

    Raises: ValueError when there is none.
    """
    variable = os.environ.get("NFQA_ROOT")
    here = Path.cwd()
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
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    scratch.touch(exist_ok=False)  # readable by those whom the umask lets
    try:
        yield scratch
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
def explain_parquet(path: Path, advice: str) -> Iterator[None]:
    """Raises: ValueError naming the file where the block can't read it as Parquet."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        first = str(error).partition("\n")[0]
        raise ValueError(f"{path}: no Parquet file, or a damaged one ({first}); {advice}") from None


def refuse_stream(path: Path) -> None:
    """Raises: ValueError for an input that can be read only once, such as a pipe; files are read
    several times.
    """
    if (path.exists() or path.name == "-") and not (path.is_file() or path.is_dir()):
        advice = "save what it gives to a file, and name that"
        raise ValueError(f"{path}: is a pipe or a device, which can be read only once; {advice}")


def refuse_inside(path: Path, folder: Path) -> None:
    """Raises: ValueError for an input that lies in the folder of outputs, as it is named or where a
    link leads.
    """
    places = (path.resolve(), path.parent.resolve() / path.name)
    if folder.exists() and any(parent.samefile(folder) for place in places for parent in place.parents):
        raise ValueError(f"{path}: lies in the output folder {folder}; name another folder with --out")


def refuse_edited(path: Path) -> None:
    """Raises: ValueError for a file that is not as it was written into its folder of outputs."""
    if path.exists() and _describe(path, path.name) not in _read_outputs(path.parent):
        raise ValueError(f"{path}: was edited, or is not nfqa's; move it elsewhere, or name another output folder")


def start_outputs(folder: Path) -> None:
    """Make a folder of outputs, with an empty list where it has none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OUTPUTS).touch()


@contextmanager
def write_output(path: Path) -> Iterator[Path]:
    """As `write_atomically`, into a folder of outputs. Raises: as `refuse_edited`, unless the file
    stays as it is.
    """
    with write_atomically(path) as scratch:
        yield scratch
        if not path.exists() or hash_file(path) != hash_file(scratch):
            refuse_edited(path)
        _list_output(scratch, path.name)  # first: a run may be killed before the file is in place


def copy_outputs(source: Path, folder: Path) -> None:
    """Copy the files of a folder into a folder of outputs, all or none. Raises: as `refuse_edited`."""
    files = sorted(source.iterdir())
    for file in files:
        refuse_edited(folder / file.name)
    for file in files:
        with write_output(folder / file.name) as scratch:
            shutil.copyfile(file, scratch)


def _list_output(path: Path, name: str) -> None:
    line = _describe(path, name)
    if line not in _read_outputs(path.parent):
        with (path.parent / OUTPUTS).open("a", encoding="ascii") as file:
            file.write(f"\n{line}\n")  # the line before may have been cut


def _read_outputs(folder: Path) -> list[str]:
    path = folder / OUTPUTS
    return path.read_text(encoding="ascii", errors="replace").splitlines() if path.exists() else []


def _describe(path: Path, name: str) -> str:
    return f"{hash_file(path)} {name!a}"


@contextmanager
def lock_file(path: Path, message: str, *, wait: bool = False) -> Iterator[None]:
    """Hold a file for this process alone; where another process holds it, say `message`, and wait
    if that is wanted.

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
    """What tells a file from the same one edited, so that what is read of it can be kept for a
    process.
    """
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def hash_file(path: Path) -> str:
    """sha256 of a file's bytes, in hex; read once a process, unless the file is edited."""
    return _hash_file(path, *stamp(path))


def hash_folder(folder: Path) -> str:
    """sha256 of the names and contents of a folder's files and those of its own folders, in hex."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            digest.update(os.fsencode(file.relative_to(folder)))
            digest.update(bytes.fromhex(hash_file(file)))
    return digest.hexdigest()


@cache
def _hash_file(path: Path, *_: int) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
