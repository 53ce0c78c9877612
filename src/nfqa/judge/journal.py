"""Every completion is kept: a journal on disk, so that a verdict is paid for once and a table can
be made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from nfqa.files.paths import lock_file
from nfqa.files.store import Store
from nfqa.kernels.parse import Verdict
from nfqa.kernels.texts import replace_surrogates
from nfqa.models.chat import Reply

_COLUMNS = {
    "prompt": "TEXT", "model": "TEXT", "template": "TEXT", "decoding": "TEXT", "seed": "INTEGER", "labels": "TEXT",
    "spec": "TEXT", "text": "TEXT", "logprobs": "TEXT", "finish": "TEXT", "prompt_tokens": "INTEGER",
    "completion_tokens": "INTEGER", "seconds": "REAL", "verdict": "REAL", "reason": "TEXT", "run": "TEXT",
    "written": "TEXT",
}  # fmt: skip
WITHOUT = "|without:"  # after a decoding's signature: the settings that a server would not take
_LISTS = ("labels", "logprobs")  # kept as JSON


@dataclass(frozen=True)
class Entry:
    """What a completion depends on. `prompt` is the sha256 of the rendered prompt, whose text is
    never kept.
    """

    prompt: str
    model: str
    template: str
    decoding: str
    seed: int
    labels: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """sha256 over every field: a change of any one is a miss."""
        return hash_text(json.dumps({"format": 1} | asdict(self), sort_keys=True))


def hash_text(text: str) -> str:
    """sha256 of a text's UTF-8 in hex; a lone surrogate, which has none, has a hash of its own all
    the same.
    """
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


class Journal:
    """Completions by key, in sqlite with a write-ahead log: what was written before a kill stays.

    Several processes may read and write one journal. A completion that is there already is not
    replaced. `run` is written beside each completion, for `count_run`. `committed` is a journal to
    look into for what this one lacks: all that looks for completions sees it, and nothing that
    counts or exports them. `paid` is False for one that can be made again.
    Raises: ValueError naming the file, from every method, where sqlite can't read or write it.
    """

    def __init__(
        self, path: Path | None = None, *, run: str = "", committed: Journal | None = None, paid: bool = True
    ) -> None:
        self.path = path and path.resolve()  # of two links to one file, each would have its own lock
        self.run = run
        self.committed = committed
        self._store = Store(self.path, "replies", paid, **_COLUMNS)

    def lock(self) -> AbstractContextManager[None]:
        """Let no other process ask through this journal meanwhile, so that none pays for what
        another is asking.
        """
        if self.path is None:
            return nullcontext()
        waiting = f"waiting for another process that asks through {self.path}"
        return lock_file(self.path.with_name(f"{self.path.name}.lock"), waiting, wait=True)

    def find(self, entry: Entry) -> Reply | None:
        """The kept completion, or None."""
        rows = self._store.read([entry.key])
        if not rows:
            return self.committed.find(entry) if self.committed else None
        line = _read_row(entry.key, rows[entry.key])
        if line["logprobs"] is not None:
            line["logprobs"] = tuple(-inf if value is None else float(value) for value in line["logprobs"])
        return Reply(**{field.name: line[field.name] for field in dataclasses.fields(Reply)})

    def keep(self, entry: Entry, reply: Reply, verdict: Verdict, *, spec: str = "") -> Reply:
        """Write a completion at once, and what was read from it, for counts and for readers of the
        file.

        Returns the completion that counts, as another process may have been first.
        """
        # JSON has no infinity: a label that can't follow is null.
        logprobs = reply.logprobs and [None if value == -inf else value for value in reply.logprobs]
        line = asdict(entry) | asdict(reply)
        line |= {"text": replace_surrogates(reply.text), "logprobs": logprobs, "seconds": round(reply.seconds, 3)}
        line |= {"key": entry.key, "spec": spec, "verdict": verdict.value, "reason": verdict.reason}
        self.add([line], self.run)
        return self.find(entry) or reply

    def find_models(self, spec: str, *, plain: bool = False) -> list[tuple[str, str]]:
        """Model and template of what was asked under a role spec's identity, plain or not, the most
        used first.

        What is committed comes after what is this journal's own, as a model of the user's own may
        not be mixed with it.
        """
        return self._rank("model, template", "spec = ? AND (template = 'plain') = ?", spec, plain)

    def find_decodings(self, spec: str, signature: str) -> list[str]:
        """The decodings under which a model was asked for one, the most used first: as it is, or
        without a setting.

        What is committed comes last.
        """
        mark = signature + WITHOUT
        condition = "spec = ? AND (decoding = ? OR substr(decoding, 1, ?) = ?)"
        return [row[0] for row in self._rank("decoding", condition, spec, signature, len(mark), mark)]

    def _rank(self, columns: str, condition: str, *values: Any) -> list[tuple[Any, ...]]:
        """What stands in some columns where a condition holds, the most used first and what is
        committed last.
        """
        query = f"""SELECT {columns} FROM {{table}} WHERE {condition}
                    GROUP BY {columns} ORDER BY COUNT(*) DESC, MAX(rowid) DESC"""  # noqa: S608 - names of ours
        committed = self.committed._rank(columns, condition, *values) if self.committed else []
        return list(dict.fromkeys(self._store.select(query, values) + committed))

    def count(self) -> list[dict[str, Any]]:
        """Of each model: completions, those unreadable, tokens in and out."""
        names = ("model", "completions", "unreadable", "prompt_tokens", "completion_tokens")
        query = """SELECT model, COUNT(*), SUM(verdict IS NULL), SUM(prompt_tokens), SUM(completion_tokens)
                   FROM {table} GROUP BY model ORDER BY model"""
        return [dict(zip(names, row, strict=True)) for row in self._store.select(query)]

    def count_run(self, run: str) -> tuple[int, int, int]:
        """Of one run, over all its processes: completions, tokens in, tokens out."""
        query = """SELECT COUNT(*), COALESCE(SUM(prompt_tokens), 0), COALESCE(SUM(completion_tokens), 0)
                   FROM {table} WHERE run = ? AND run != ''"""
        completions, tokens_in, tokens_out = self._store.select(query, (run,))[0]
        return completions, tokens_in, tokens_out

    def list_lines(self) -> list[dict[str, Any]]:
        """The fields of each completion but run and date, ordered by key."""
        return [_read_row(key, row) for key, *row in self._store.select("SELECT * FROM {table} ORDER BY key")]

    def add(self, lines: Iterable[dict[str, Any]], run: str) -> int:
        """Write completions with their keys, as `list_lines` gives them; returns how many were new."""
        common = {"run": run, "written": time.strftime("%Y-%m-%dT%H:%M:%S")}
        rows = [line | common | {name: json.dumps(line[name], allow_nan=False) for name in _LISTS} for line in lines]
        return self._store.write((row["key"], *(row[name] for name in _COLUMNS)) for row in rows)


def find_key(line: dict[str, Any]) -> str:
    """The key that follows from a completion's fields."""
    return Entry(**{field.name: line[field.name] for field in dataclasses.fields(Entry)}).key


def _read_row(key: str, row: Sequence[Any]) -> dict[str, Any]:
    """The fields of a completion, without run and date."""
    fields = {"key": key} | dict(zip(_COLUMNS, row, strict=True))
    del fields["run"], fields["written"]
    return fields | {name: json.loads(fields[name]) for name in _LISTS}
