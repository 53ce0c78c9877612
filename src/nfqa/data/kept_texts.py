"""Texts by key in one file, each written at once: what was fetched or found is not asked for a second time."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class KeptTexts:
    """A dictionary of texts in sqlite; without a path, they are kept for as long as the object lives.

    Raises: ValueError naming the file where it can't be opened, or is no such store.
    """

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path or ":memory:", timeout=60, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS texts (key TEXT PRIMARY KEY, text TEXT NOT NULL)")
        except sqlite3.OperationalError as error:  # busy, read-only, a folder: the file itself may be sound
            raise ValueError(f"{path}: the store of texts can't be opened for writing ({error})") from None
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path}: not a store of texts ({error}); delete it, it is made again") from None

    def get(self, key: str) -> str | None:
        """The text of a key, None where there is none."""
        found = self._db.execute("SELECT text FROM texts WHERE key = ?", (key,)).fetchone()
        return None if found is None else found[0]

    def put(self, key: str, text: str) -> None:
        """Keep a text in the place of another one of that key."""
        self._db.execute("INSERT OR REPLACE INTO texts VALUES (?, ?)", (key, text))
