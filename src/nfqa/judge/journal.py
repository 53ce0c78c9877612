"""Every completion is kept: a journal on disk, so that a verdict is paid for once and a table can be made again."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nfqa.data.json_lines import WholeText, check, parse_object
from nfqa.models.chat import Reply

_FORMAT = 1
_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, prompt TEXT NOT NULL, model TEXT NOT NULL, template TEXT NOT NULL, decoding TEXT NOT NULL,
    seed INTEGER NOT NULL, labels TEXT NOT NULL, spec TEXT NOT NULL, text TEXT NOT NULL, logprobs TEXT,
    finish TEXT NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, seconds REAL NOT NULL,
    verdict REAL, reason TEXT NOT NULL, run TEXT NOT NULL, written TEXT NOT NULL)"""
_Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # as sqlite has them
_Tokens = Annotated[int, Field(ge=0, lt=2**40)]  # of one completion


class _Line(BaseModel):
    """An exported completion, its sha256 apart."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    key: str
    prompt: WholeText
    model: WholeText
    template: WholeText
    decoding: WholeText
    seed: _Whole
    labels: list[WholeText]
    spec: WholeText
    text: WholeText
    logprobs: list[float | None] | None
    finish: Literal["stop", "length", "refused", "logits"]
    prompt_tokens: _Tokens
    completion_tokens: _Tokens
    seconds: Annotated[float, Field(ge=0)]
    verdict: float | None
    reason: WholeText


_COLUMNS = (*_Line.model_fields, "run", "written")


@dataclass(frozen=True)
class Entry:
    """What a completion depends on. `prompt` is the sha256 of the rendered prompt, whose text is never kept."""

    prompt: str
    model: str
    template: str
    decoding: str
    seed: int
    labels: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """sha256 over every field: a change of any one is a miss."""
        return _hash({"format": _FORMAT} | {each.name: getattr(self, each.name) for each in fields(self)})


@dataclass(frozen=True)
class Record:
    """A kept completion, and the verdict read from it when it arrived (None with a reason where none could be)."""

    entry: Entry
    reply: Reply
    verdict: float | None
    reason: str
    spec: str = ""
    run: str = ""
    written: str = field(default="", compare=False)


def hash_text(text: str) -> str:
    """sha256 of a text's UTF-8 in hex; a lone surrogate, which has none, is told apart all the same."""
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def replace_surrogates(text: str) -> str:
    """The text with pairs of surrogates joined and half ones replaced by U+FFFD, so that UTF-8 can carry it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Journal:
    """Completions by key, in sqlite with a write-ahead log: what was written before a kill stays.

    Several processes may read and write one journal. A completion that is there already is not replaced.
    `trouble` says, once a completion could not be written, why, where it was put instead, and what to do.
    Raises: ValueError naming the file, from every method but `keep`, where sqlite can't read or write it.
    """

    def __init__(self, path: Path | None = None, *, run: str = "") -> None:
        if path is not None:
            path = path.resolve()  # of two links to one file, each would have a lock of its own
            path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.run = run
        self.trouble = ""
        self.spares: list[Path] = []
        self._unsaved: dict[str, Record] = {}
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(path or ":memory:", timeout=60, check_same_thread=False)
            tables = [name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            columns = tuple(name for _, name, *_ in self._db.execute("PRAGMA table_info(replies)"))
            if tables and columns != _COLUMNS:
                raise sqlite3.DatabaseError(f"it holds other tables: {', '.join(tables)}")
            _use_write_ahead_log(self._db)
            self._db.execute("PRAGMA synchronous=FULL")  # a verdict may have cost money: not even a power cut loses it
            self._db.execute(_TABLE)
        except sqlite3.OperationalError as error:  # busy, read-only, a folder: the file itself may be sound
            raise ValueError(f"{path}: the journal of verdicts can't be opened for writing ({error})") from None
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path}: not a journal of verdicts ({error}); move it away, or restore it") from None

    def __len__(self) -> int:
        return int(self._query("SELECT COUNT(*) FROM replies")[0][0])

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let no other process ask through this journal meanwhile, so that none pays for what another is asking."""
        if self.path is None:
            yield
            return
        with self.path.with_name(f"{self.path.name}.lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"waiting for another process that asks through {self.path}", flush=True)
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def find(self, entry: Entry) -> Record | None:
        """The kept completion, or None."""
        if entry.key in self._unsaved:
            return self._unsaved[entry.key]
        rows = self._query(f"SELECT {', '.join(_COLUMNS)} FROM replies WHERE key = ?", (entry.key,))  # noqa: S608
        return _read_row(dict(zip(_COLUMNS, rows[0], strict=True))) if rows else None

    def keep(self, record: Record) -> Record:
        """Write a completion at once; returns the one that counts, as another process may have been first.

        One that the journal can't take, as on a full disk, is held in memory and added to a file that `take_in` reads:
        next to the journal, else in the folder for temporary files. `spares` are these files.
        """
        row = _make_row(record, self.run or record.run)
        try:
            self._insert([row])
            return self.find(record.entry) or record
        except ValueError as error:
            self._unsaved[record.entry.key] = record
            spare = self._write_spare(_make_line(dict(zip(_COLUMNS, row, strict=True))))
            said = [str(error)] if spare else [f"{error}; the last could be written nowhere else either"]
            self.spares += [spare] if spare and spare not in self.spares else []
            if self.spares:
                commands = ", ".join(f"`make import-verdicts FILE={file}`" for file in self.spares)
                said.append(
                    f"what it could not take is kept apart: make room or mend it, then {commands}, and run again"
                )
            self.trouble = "; ".join(said)
            return record

    def find_models(self, spec: str, *, plain: bool = False) -> list[tuple[str, str]]:
        """Model and template of what was asked under a role spec's identity, plain or not, the most used first."""
        query = """SELECT model, template FROM replies WHERE spec = ? AND (template = 'plain') = ?
                   GROUP BY model, template ORDER BY COUNT(*) DESC, MAX(rowid) DESC"""
        return [(model, template) for model, template in self._query(query, (spec, plain))]

    def count(self) -> list[dict[str, Any]]:
        """Of each model: completions, those unreadable, tokens in and out."""
        query = """SELECT model, COUNT(*), SUM(verdict IS NULL), CAST(TOTAL(prompt_tokens) AS INTEGER),
                   CAST(TOTAL(completion_tokens) AS INTEGER) FROM replies GROUP BY model ORDER BY model"""
        names = ("model", "completions", "unreadable", "prompt_tokens", "completion_tokens")
        return [dict(zip(names, row, strict=True)) for row in self._query(query)]

    def count_run(self, run: str) -> tuple[int, int, int]:
        """Of one run, over all its processes: completions, tokens in, tokens out."""
        query = """SELECT COUNT(*), CAST(TOTAL(prompt_tokens) AS INTEGER), CAST(TOTAL(completion_tokens) AS INTEGER)
                   FROM replies WHERE run = ? AND run != ''"""
        completions, inside, outside = self._query(query, (run,))[0]
        return int(completions), int(inside), int(outside)

    def export(self) -> Iterator[str]:
        """One JSON line a completion, ordered by key, each with a hash of what it holds; no prompt, run or date."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM replies ORDER BY key"  # noqa: S608
        with self._naming():
            for row in self._db.execute(query):
                yield _make_line(dict(zip(_COLUMNS, row, strict=True)))

    def take_in(self, lines: Iterable[str], *, where: str = "import") -> int:
        """Add exported completions, all or none; returns how many were new.

        Raises: ValueError naming the line for what is not an exported completion, one whose content doesn't match its
            hash, whose key doesn't follow from its fields, or that contradicts a completion kept under the same key,
            here or on an earlier line.
        """
        rows, seen = [], dict[str, Reply]()
        for number, line in enumerate(lines, 1):
            if line.strip():
                record = _read_line(f"{where}, line {number}", line)
                self._refuse_another(f"{where}, line {number}", record, seen)
                rows.append(_make_row(record, "imported"))
        return self._insert(rows)

    def close(self) -> None:
        self._db.close()

    def _insert(self, rows: list[tuple]) -> int:
        """All or none; what is there already stays, and anything else that the table doesn't take is an error."""
        marks = ", ".join("?" * len(_COLUMNS))
        query = f"INSERT INTO replies ({', '.join(_COLUMNS)}) VALUES ({marks}) ON CONFLICT (key) DO NOTHING"  # noqa: S608
        with self._lock, self._naming(), self._db:
            return max(0, self._db.executemany(query, rows).rowcount)

    def _query(self, query: str, values: Sequence[Any] = ()) -> list[tuple]:
        with self._lock, self._naming():
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """sqlite's own words name no file, and say no more of a damaged one than "malformed"."""
        try:
            yield
        except sqlite3.IntegrityError:  # a fault of ours, not of the file
            raise
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path}: the journal of verdicts can't be read or written ({error})") from None

    def _write_spare(self, line: str) -> Path | None:
        """Add a line to the first file that takes it."""
        name = f"unsaved-verdicts-{os.getpid()}.jsonl"
        folders = [self.path.parent] if self.path else []
        for file in [folder / name for folder in (*folders, Path(tempfile.gettempdir()))]:
            with suppress(OSError), file.open("ab", buffering=0) as handle:
                size = handle.tell()
                data = f"{line}\n".encode()
                if handle.write(data) == len(data):
                    os.fsync(handle.fileno())
                    return file
                handle.truncate(size)  # half a line on a full disk
        return None

    def _refuse_another(self, where: str, record: Record, seen: dict[str, Reply]) -> None:
        kept = self.find(record.entry)
        known = kept.reply if kept else seen.setdefault(record.entry.key, record.reply)
        # The same completion may have taken another while to come.
        if replace(known, seconds=record.reply.seconds) != record.reply:
            raise ValueError(f"{where}: another completion is kept under the same key; nothing is taken in")


def _read_line(where: str, line: str) -> Record:
    refused = f"{where}: not an exported completion"
    fields = parse_object(refused, line)
    claimed = fields.pop("sha256", None)
    check(_Line, fields, refused)
    record = _read_row({**fields, "labels": json.dumps(fields["labels"]), "logprobs": json.dumps(fields["logprobs"]),
                        "run": "imported", "written": ""})  # fmt: skip
    if claimed != _hash(fields):
        raise ValueError(f"{where}: its content doesn't match its sha256; it was altered, nothing is taken in")
    if fields["key"] != record.entry.key:
        raise ValueError(f"{where}: its key doesn't follow from its fields; nothing is taken in")
    return record


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Two processes that make a journal at once: sqlite tells one of them "locked" and doesn't wait, so we do."""
    for _ in range(200):
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(0.05)
    db.execute("PRAGMA journal_mode=WAL")


def _hash(value: dict[str, Any]) -> str:
    return hash_text(json.dumps(value, sort_keys=True))


def _make_line(row: dict[str, Any]) -> str:
    fields = {name: value for name, value in row.items() if name not in ("run", "written")}
    fields |= {"labels": json.loads(row["labels"]), "logprobs": json.loads(row["logprobs"] or "null")}
    return json.dumps({**fields, "sha256": _hash(fields)}, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _make_row(record: Record, run: str) -> tuple:
    entry, reply = record.entry, record.reply
    # JSON has no infinity: a label that can't follow is null.
    logs = None if reply.logprobs is None else [None if value == -inf else value for value in reply.logprobs]
    logprobs = None if logs is None else json.dumps(logs, allow_nan=False)
    return (entry.key, entry.prompt, entry.model, entry.template, entry.decoding, entry.seed, json.dumps(entry.labels),
            record.spec, replace_surrogates(reply.text), logprobs, reply.finish, reply.prompt_tokens, reply.completion_tokens,
            round(reply.seconds, 3), record.verdict, record.reason, run,
            time.strftime("%Y-%m-%dT%H:%M:%S"))  # fmt: skip


def _read_row(row: dict[str, Any]) -> Record:
    entry = Entry(row["prompt"], row["model"], row["template"], row["decoding"], row["seed"],
                  tuple(json.loads(row["labels"])))  # fmt: skip
    logprobs = json.loads(row["logprobs"] or "null")
    reply = Reply(row["text"], row["prompt_tokens"], row["completion_tokens"], row["finish"], row["seconds"],
                  None if logprobs is None else tuple(-inf if v is None else float(v) for v in logprobs))  # fmt: skip
    return Record(entry, reply, row["verdict"], row["reason"], row["spec"], row["run"], row["written"])
