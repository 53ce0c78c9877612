"""Every completion is kept: a journal on disk, so that a verdict is paid for once and a table can be made again."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nfqa.backends.chat import Reply

_FORMAT = 1
_COLUMNS = ("key", "prompt", "model", "template", "decoding", "seed", "labels", "spec", "text", "logprobs", "finish",
            "prompt_tokens", "completion_tokens", "seconds", "verdict", "reason", "run", "written")  # fmt: skip
_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, prompt TEXT NOT NULL, model TEXT NOT NULL, template TEXT NOT NULL, decoding TEXT NOT NULL,
    seed INTEGER NOT NULL, labels TEXT NOT NULL, spec TEXT NOT NULL, text TEXT NOT NULL, logprobs TEXT,
    finish TEXT NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, seconds REAL NOT NULL,
    verdict REAL, reason TEXT NOT NULL, run TEXT NOT NULL, written TEXT NOT NULL)"""


@dataclass(frozen=True)
class Entry:
    """What a completion depends on. `prompt` is the sha256 of the rendered prompt, whose text is never kept."""

    prompt: str
    model: str
    template: str
    decoding: str
    seed: int
    labels: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """sha256 over every field: a change of any one is a miss."""
        return _hash({"format": _FORMAT, **asdict(self)})


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
    """sha256 of a text in hex; a lone surrogate, which has no UTF-8, counts as U+FFFD."""
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()


class Journal:
    """Completions by key, in sqlite with a write-ahead log: what was written before a kill stays.

    Several processes may read and write one journal. A completion that is there already is not replaced.
    """

    def __init__(self, path: Path | None = None, *, run: str = "") -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.run = run
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path or ":memory:", timeout=60, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")  # a verdict may have cost money: not even a power cut loses it
            self._db.execute(_TABLE)
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path}: not a journal of verdicts ({error}); move it away, or restore it") from None

    def __len__(self) -> int:
        return int(self._db.execute("SELECT COUNT(*) FROM replies").fetchone()[0])

    def find(self, entry: Entry) -> Record | None:
        """The kept completion, or None."""
        with self._lock:
            row = self._db.execute(f"SELECT {', '.join(_COLUMNS)} FROM replies WHERE key = ?", (entry.key,)).fetchone()  # noqa: S608
        return None if row is None else _read_row(dict(zip(_COLUMNS, row, strict=True)))

    def keep(self, record: Record) -> None:
        """Write a completion at once."""
        row = _make_row(record, self.run or record.run, time.strftime("%Y-%m-%dT%H:%M:%S"))
        self._insert([row])

    def find_models(self, spec: str, *, plain: bool = False) -> list[tuple[str, str]]:
        """Model and template of what was asked under a role spec's identity, in plain form or not, the latest first."""
        query = """SELECT model, template FROM replies WHERE spec = ? AND (template = 'plain') = ?
                   GROUP BY model, template ORDER BY MAX(written) DESC, model, template"""
        with self._lock:
            return [(model, template) for model, template in self._db.execute(query, (spec, plain))]

    def count(self) -> list[dict[str, Any]]:
        """Of each model: completions, those unreadable, tokens in and out, seconds."""
        query = """SELECT model, COUNT(*), SUM(verdict IS NULL AND reason != 'written'), SUM(prompt_tokens),
                   SUM(completion_tokens), SUM(seconds) FROM replies GROUP BY model ORDER BY model"""
        names = ("model", "completions", "unreadable", "prompt_tokens", "completion_tokens", "seconds")
        with self._lock:
            return [dict(zip(names, row, strict=True)) for row in self._db.execute(query)]

    def export(self) -> Iterator[str]:
        """One JSON line a completion, ordered by key, each with a hash of what it holds; no prompt, run or date."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM replies ORDER BY key"  # noqa: S608
        for row in self._db.execute(query):
            fields = dict(zip(_COLUMNS, row, strict=True))
            line = {name: value for name, value in fields.items() if name not in ("run", "written")}
            line["labels"], line["logprobs"] = json.loads(line["labels"]), json.loads(line["logprobs"] or "null")
            yield json.dumps({**line, "sha256": _hash(line)}, sort_keys=True, ensure_ascii=False)

    def take_in(self, lines: Iterable[str], *, where: str = "import") -> int:
        """Add exported completions, all or none; returns how many were new.

        Raises: ValueError naming the line for what is not an exported completion, one whose content doesn't match its
            hash, whose key doesn't follow from its fields, or that contradicts a completion kept under the same key.
        """
        rows = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                rows.append(self._check_line(f"{where}, line {number}", line))
        before = len(self)
        self._insert(rows)
        return len(self) - before

    def close(self) -> None:
        self._db.close()

    def _insert(self, rows: list[tuple]) -> None:
        marks = ", ".join("?" * len(_COLUMNS))
        with self._lock, self._db:
            self._db.executemany(f"INSERT OR IGNORE INTO replies ({', '.join(_COLUMNS)}) VALUES ({marks})", rows)  # noqa: S608

    def _check_line(self, where: str, line: str) -> tuple:
        try:
            fields = dict(json.loads(line))
            claimed = fields.pop("sha256")
            record = _read_row({**fields, "labels": json.dumps(fields["labels"]), "run": "imported", "written": "",
                                "logprobs": json.dumps(fields["logprobs"])})  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{where}: not an exported completion ({type(error).__name__}: {error})") from None
        if claimed != _hash(fields):
            raise ValueError(f"{where}: its content doesn't match its sha256; it was altered, nothing is taken in")
        if fields["key"] != record.entry.key:
            raise ValueError(f"{where}: its key doesn't follow from its fields; nothing is taken in")
        known = self.find(record.entry)
        if known is not None and known.reply != record.reply:
            raise ValueError(f"{where}: another completion is kept under the same key; nothing is taken in")
        return _make_row(record, "imported", time.strftime("%Y-%m-%dT%H:%M:%S"))


def _hash(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _make_row(record: Record, run: str, written: str) -> tuple:
    entry, reply = record.entry, record.reply
    logprobs = None if reply.logprobs is None else json.dumps(reply.logprobs)
    text = reply.text.encode("utf-8", errors="replace").decode()
    return (entry.key, entry.prompt, entry.model, entry.template, entry.decoding, entry.seed, json.dumps(entry.labels),
            record.spec, text, logprobs, reply.finish, reply.prompt_tokens, reply.completion_tokens,
            round(reply.seconds, 3), record.verdict, record.reason, run, written)  # fmt: skip


def _read_row(row: dict[str, Any]) -> Record:
    entry = Entry(row["prompt"], row["model"], row["template"], row["decoding"], row["seed"],
                  tuple(json.loads(row["labels"])))  # fmt: skip
    logprobs = json.loads(row["logprobs"] or "null")
    reply = Reply(row["text"], row["prompt_tokens"], row["completion_tokens"], row["finish"], row["seconds"],
                  None if logprobs is None else tuple(logprobs))  # fmt: skip
    return Record(entry, reply, row["verdict"], row["reason"], row["spec"], row["run"], row["written"])
