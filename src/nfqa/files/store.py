"""What was computed or fetched once, kept by key in one SQLite file: vectors, losses, pages,
searches, verdicts.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

Key = TypeVar("Key", bytes, str)


class Store:
    """Rows by key, in a table of its own of an SQLite file that several threads and processes may
    share.

    What is written is on disk when `write` returns, so that a killed run loses only what it was
    computing. A row that is there already is not replaced.

    Args: path: the file, made where there is none; None keeps rows for as long as the object lives.
        table: its table. paid: for rows that cost money, which not even a power cut may lose.
        columns: name and SQLite type of each value beside the key.
    Raises: ValueError naming the file, from every method, where it can't be read or written, or is
        something else.
    """

    def __init__(self, path: Path | None, table: str, paid: bool = False, /, **columns: str) -> None:
        self.path = path
        self._table = table
        self._columns = tuple(columns)
        self._explain = partial(_explain_sqlite, path, f"store of {table}", "restore it" if paid else "delete it")
        self._lock = threading.Lock()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._explain():
            self._db = sqlite3.connect(path or ":memory:", timeout=60, check_same_thread=False)
            tables = [name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            if paid and tables and table not in tables:
                raise sqlite3.DatabaseError("it is another program's")
            names = [row[1] for row in self._db.execute(f"PRAGMA table_info({table})")]
            if names not in ([], ["key", *columns]):
                raise sqlite3.DatabaseError("its table has other columns")
            for left in reversed(range(200)):  # where two make it at once, sqlite tells one "locked" and doesn't wait
                try:
                    self._db.execute("PRAGMA journal_mode=WAL")
                    break
                except sqlite3.OperationalError as error:
                    if not left or "locked" not in str(error):
                        raise
                time.sleep(0.05)
            self._db.execute(f"PRAGMA synchronous={'FULL' if paid else 'NORMAL'}")
            typed = "".join(f", {name} {kind}" for name, kind in columns.items())
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {table} (key BLOB PRIMARY KEY{typed})")

    def select(self, query: str, values: Iterable[Any] = ()) -> list[tuple]:
        """The rows of any query of this table, called {table} in it."""
        with self._explain(), self._lock:
            return self._db.execute(query.format(table=self._table), tuple(values)).fetchall()

    def read(self, keys: Iterable[Key], *columns: str) -> dict[Key, tuple]:
        """The values of each key that there is, all columns of it or those named."""
        query = f"SELECT {', '.join(columns or self._columns)} FROM {self._table} WHERE key = ?"  # noqa: S608 - names of ours
        with self._explain(), self._lock:
            rows = ((key, self._db.execute(query, (key,)).fetchone()) for key in keys)
            return {key: row for key, row in rows if row is not None}

    def write(self, rows: Iterable[tuple]) -> int:
        """Keep rows, each its key and then its values, all or none; returns how many were new."""
        marks = ", ".join("?" * (1 + len(self._columns)))
        query = f"INSERT INTO {self._table} VALUES ({marks}) ON CONFLICT (key) DO NOTHING"  # noqa: S608 - a name of ours
        with self._explain(), self._lock, self._db:
            return max(0, self._db.executemany(query, rows).rowcount)

    def forget(self) -> None:
        """Delete all rows of a store without a file."""
        if self.path is None:
            with self._explain(), self._lock, self._db:
                self._db.execute(f"DELETE FROM {self._table}")  # noqa: S608 - a name of ours


@contextmanager
def _explain_sqlite(path: Path | None, what: str, remedy: str) -> Iterator[None]:
    """sqlite's own words name no file. Raises: ValueError naming it and what it should be, with a
    remedy for damage.
    """
    try:
        yield
    except sqlite3.OperationalError as error:  # busy, read-only, a folder, a full disk: the file may be sound
        raise ValueError(f"{path}: this {what} can't be read or written ({error})") from None
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path}: no {what}, or damaged ({error}); {remedy}") from None
