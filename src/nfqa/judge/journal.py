"""Every completion is kept: a journal on disk, so that a verdict is paid for once and a table can be made again."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nfqa.data.json_lines import WholeText, check, parse_object
from nfqa.data.store import explain_sqlite
from nfqa.kernels.parse import Verdict
from nfqa.models.chat import Reply

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
    finish: Literal["stop", "length", "refused", "logits", "echo"]
    prompt_tokens: _Tokens
    completion_tokens: _Tokens
    seconds: Annotated[float, Field(ge=0)]
    verdict: float | None
    reason: WholeText


_COLUMNS = (*_Line.model_fields, "run", "written")
_LISTS = ("labels", "logprobs")  # kept as JSON
_SAID = ("text", "logprobs", "finish", "prompt_tokens", "completion_tokens")  # how long it took may differ
# What is there already stays; anything else that the table doesn't take is an error.
_INSERT = f"INSERT INTO replies VALUES (:{', :'.join(_COLUMNS)}) ON CONFLICT (key) DO NOTHING"  # noqa: S608


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
        return _hash({"format": 1} | asdict(self))


def hash_text(text: str) -> str:
    """sha256 of a text's UTF-8 in hex; a lone surrogate, which has none, is told apart all the same."""
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def replace_surrogates(text: str) -> str:
    """The text with pairs of surrogates joined and half ones replaced by U+FFFD, so that UTF-8 can carry it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Journal:
    """Completions by key, in sqlite with a write-ahead log: what was written before a kill stays.

    Several processes may read and write one journal. A completion that is there already is not replaced. `run` is
    written beside each completion, for `count_run`.
    Raises: ValueError naming the file, from every method, where sqlite can't read or write it.
    """

    def __init__(self, path: Path | None = None, *, run: str = "") -> None:
        if path is not None:
            path = path.resolve()  # of two links to one file, each would have a lock of its own
            path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.run = path, run
        self._lock = threading.Lock()
        self._explain = partial(explain_sqlite, path, "journal of verdicts", "restore it")
        with self._explain():
            self._db = sqlite3.connect(path or ":memory:", timeout=60, check_same_thread=False)
            self._db.row_factory = sqlite3.Row
            columns = tuple(row["name"] for row in self._db.execute("PRAGMA table_info(replies)"))
            if columns != _COLUMNS and self._db.execute("SELECT name FROM sqlite_master").fetchone():
                raise sqlite3.DatabaseError("it holds other tables")
            for _ in range(200):  # where two processes make it at once, sqlite tells one "locked" and doesn't wait
                with suppress(sqlite3.OperationalError):
                    self._db.execute("PRAGMA journal_mode=WAL")
                    break
                time.sleep(0.05)
            else:
                self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")  # a verdict may have cost money: not even a power cut loses it
            self._db.execute(_TABLE)

    def __len__(self) -> int:
        return int(self._query("SELECT COUNT(*) FROM replies")[0][0])

    @contextmanager
    def lock(self) -> Iterator[None]:
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

    def find(self, entry: Entry) -> Reply | None:
        """The kept completion, or None."""
        line = self._look_up(entry.key)
        if line is None:
            return None
        logprobs = line["logprobs"] and [-inf if value is None else float(value) for value in line["logprobs"]]
        fields = {field.name: line[field.name] for field in dataclasses.fields(Reply)}
        return Reply(**fields | {"logprobs": None if logprobs is None else tuple(logprobs)})

    def keep(self, entry: Entry, reply: Reply, verdict: Verdict, *, spec: str = "") -> Reply:
        """Write a completion at once, and what was read from it, for counts and for readers of an export.

        Returns the completion that counts, as another process may have been first.
        """
        # JSON has no infinity: a label that can't follow is null.
        logprobs = reply.logprobs and [None if value == -inf else value for value in reply.logprobs]
        line = asdict(entry) | asdict(reply)
        line |= {"text": replace_surrogates(reply.text), "logprobs": logprobs, "seconds": round(reply.seconds, 3)}
        line |= {"key": entry.key, "spec": spec, "verdict": verdict.value, "reason": verdict.reason}
        self._insert([line], self.run)
        return self.find(entry) or reply

    def find_models(self, spec: str, *, plain: bool = False) -> list[tuple[str, str]]:
        """Model and template of what was asked under a role spec's identity, plain or not, the most used first."""
        query = """SELECT model, template FROM replies WHERE spec = ? AND (template = 'plain') = ?
                   GROUP BY model, template ORDER BY COUNT(*) DESC, MAX(rowid) DESC"""
        return [(model, template) for model, template in self._query(query, (spec, plain))]

    def count(self) -> list[dict[str, Any]]:
        """Of each model: completions, those unreadable, tokens in and out."""
        query = """SELECT model, COUNT(*) AS completions, SUM(verdict IS NULL) AS unreadable,
                   SUM(prompt_tokens) AS prompt_tokens, SUM(completion_tokens) AS completion_tokens
                   FROM replies GROUP BY model ORDER BY model"""
        return [dict(row) for row in self._query(query)]

    def count_run(self, run: str) -> tuple[int, int, int]:
        """Of one run, over all its processes: completions, tokens in, tokens out."""
        query = """SELECT COUNT(*), COALESCE(SUM(prompt_tokens), 0), COALESCE(SUM(completion_tokens), 0)
                   FROM replies WHERE run = ? AND run != ''"""
        completions, tokens_in, tokens_out = self._query(query, (run,))[0]
        return completions, tokens_in, tokens_out

    def export(self) -> Iterator[str]:
        """One JSON line a completion, ordered by key, each with a hash of what it holds; no prompt, run or date."""
        with self._explain():
            for row in self._db.execute("SELECT * FROM replies ORDER BY key"):
                line = _read_row(row)
                line["sha256"] = _hash(line)
                yield json.dumps(line, sort_keys=True, ensure_ascii=False, allow_nan=False)

    def import_lines(self, lines: Iterable[str], *, where: str = "import") -> int:
        """Add exported completions, all or none; returns how many were new.

        Raises: ValueError naming the line for what is not an exported completion, one whose content doesn't match its
            hash, whose key doesn't follow from its fields, or that contradicts a completion kept under the same key,
            here or on an earlier line.
        """
        new: dict[str, dict[str, Any]] = {}
        for number, text in enumerate(lines, 1):
            if text.strip():
                line = _read_line(f"{where}, line {number}", text)
                kept = self._look_up(line["key"]) or new.setdefault(line["key"], line)
                if any(kept[name] != line[name] for name in _SAID):
                    raise ValueError(
                        f"{where}, line {number}: another completion is kept under the same key; nothing is imported"
                    )
        return self._insert(new.values(), "imported")

    def close(self) -> None:
        self._db.close()

    def _insert(self, lines: Iterable[dict[str, Any]], run: str) -> int:
        """All or none; what is there already stays."""
        common = {"run": run, "written": time.strftime("%Y-%m-%dT%H:%M:%S")}
        rows = [line | common | {name: json.dumps(line[name], allow_nan=False) for name in _LISTS} for line in lines]
        with self._lock, self._explain(), self._db:
            return max(0, self._db.executemany(_INSERT, rows).rowcount)

    def _query(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._lock, self._explain():
            return self._db.execute(query, values).fetchall()

    def _look_up(self, key: str) -> dict[str, Any] | None:
        rows = self._query("SELECT * FROM replies WHERE key = ?", (key,))
        return _read_row(rows[0]) if rows else None


def _hash(value: dict[str, Any]) -> str:
    return hash_text(json.dumps(value, sort_keys=True))


def _read_row(row: sqlite3.Row) -> dict[str, Any]:
    """The fields of an exported line."""
    fields = {name: row[name] for name in _Line.model_fields}
    return fields | {name: json.loads(fields[name] or "null") for name in _LISTS}


def _read_line(where: str, text: str) -> dict[str, Any]:
    refused = f"{where}: not an exported completion"
    line = parse_object(refused, text)
    claimed = line.pop("sha256", None)
    check(_Line, line, refused)
    if claimed != _hash(line):
        raise ValueError(f"{where}: its content doesn't match its sha256; it was altered, nothing is imported")
    if line["key"] != Entry(**{field.name: line[field.name] for field in dataclasses.fields(Entry)}).key:
        raise ValueError(f"{where}: its key doesn't follow from its fields; nothing is imported")
    return line
