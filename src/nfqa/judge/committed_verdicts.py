"""Verdicts in git: what a language model said, a row a completion, read where the same is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nfqa.data.committed import read_rows, write_rows
from nfqa.data.registry import hash_file
from nfqa.judge.journal import Journal, find_key, says_the_same

# The journal's columns without the key, which follows from the others, and without what differs between two runs.
COLUMNS = {
    "prompt": "string", "model": "string", "template": "string", "decoding": "string", "seed": "int64",
    "labels": "strings", "spec": "string", "text": "string", "logprobs": "floats?", "finish": "string",
    "prompt_tokens": "int32", "completion_tokens": "int32", "verdict": "double?", "reason": "string",
}  # fmt: skip


def open_committed(files: Sequence[Path], cache: Path) -> Journal | None:
    """A journal of all verdicts in Parquet files, kept in the folder `cache` and made once for these files.

    Returns: None where there is no file. Raises: ValueError naming a file that can't be read, or a row that contradicts
        another one.
    """
    if not files:
        return None
    digest = hashlib.sha256("".join(map(hash_file, files)).encode()).hexdigest()[:16]
    journal = Journal(cache / f"verdicts-{digest}.sqlite")
    if not journal.count():  # filled at once: of two processes that make it, one adds nothing
        journal.add([line for file in files for line in _place_lines(file)], "committed")
    return journal


def write_verdicts(journal: Journal, path: Path, *, model: str = "") -> tuple[int, int, int]:
    """Write a journal's completions into a Parquet file, beside those that it holds.

    Args: model: the beginning of a model's identity; "" for all models.
    Returns: how many completions the file has, how many of them are new, and how many stayed though the journal has
        another under the same key.
    Raises: ValueError for a file that can't be read, or log-probabilities of more than six digits.
    """
    held = Journal()
    before, differing = held.add(_place_lines(path) if path.is_file() else [], "committed"), 0
    lines = {line["key"]: line for line in held.list_lines()}
    for line in journal.list_lines():
        if line["model"].startswith(model):
            differing += not says_the_same(lines.setdefault(line["key"], line), line)
    write_rows(path, COLUMNS, (lines[key] for key in sorted(lines)))
    return len(lines), len(lines) - before, differing


def _place_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each row stands, and its fields as an exported line has them."""
    for number, row in enumerate(read_rows(path, COLUMNS), 1):
        yield f"{path}, row {number}", row | {"key": find_key(row), "seconds": 0.0}
