"""Verdicts in git: what a language model said, one row per completion, read where the same is
asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nfqa.files.committed import RowFormat
from nfqa.files.paths import hash_file
from nfqa.judge.journal import Journal, find_key

# The journal's columns without the key, which follows from the others, and without what differs between two runs.
_COLUMNS = {
    "prompt": "string", "model": "string", "template": "string", "decoding": "string", "seed": "int64",
    "labels": "strings", "spec": "string", "text": "string", "logprobs": "doubles", "finish": "string",
    "prompt_tokens": "int32", "completion_tokens": "int32", "verdict": "double", "reason": "string",
}  # fmt: skip


VERDICTS = RowFormat(_COLUMNS, find_key)


def open_committed(files: Sequence[Path], cache: Path) -> Journal | None:
    """A journal of all verdicts in Parquet files, kept in the folder `cache` and made once for
    these files.

    Returns: None where there is no file. Raises: ValueError as
        `nfqa.files.committed.RowFormat.read`.
    """
    if not files:
        return None
    digest = hashlib.sha256("".join(map(hash_file, files)).encode()).hexdigest()[:16]
    journal = Journal(cache / f"verdicts-{digest}.sqlite", paid=False)
    if not journal.count():  # filled at once: of two processes that make it, one adds nothing
        journal.add(read_verdicts(files), "committed")
    return journal


def read_verdicts(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The rows of Parquet files as a journal takes them. Raises: as
    `nfqa.files.committed.RowFormat.read`.
    """
    return [row | {"key": key, "seconds": 0.0} for key, row in VERDICTS.read(files).items()]
