"""Verdicts in git: what a language model said, one row per completion, read where the same is
asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import exp, isfinite
from pathlib import Path
from typing import Any

from nfqa.files.committed import RowFormat
from nfqa.files.paths import hash_file
from nfqa.judge.journal import CONTENT, Journal, find_key

# The journal's columns without the key, which follows from the others, and without what differs between two runs.
_COLUMNS = {
    "prompt": "string", "model": "string", "template": "string", "decoding": "string", "seed": "int64",
    "labels": "strings", "spec": "string", "text": "string", "logprobs": "doubles", "finish": "string",
    "prompt_tokens": "int32", "completion_tokens": "int32", "verdict": "double", "reason": "string",
}  # fmt: skip
_ROUNDING = 1e-3


def _can_be(row: dict[str, Any]) -> bool:
    """Whether a verdict from logits has a log-probability per label, null where it can't follow.

    A text has none. Probabilities of labels are 1 together at most, a verdict is a number, and
    tokens are counts.
    """
    logprobs = row["logprobs"]
    verdict = row["verdict"]
    counts = [row["prompt_tokens"], row["completion_tokens"]]
    if (verdict is not None and not isfinite(verdict)) or min(counts) < 0:
        return False
    if logprobs is None:
        return not row["decoding"].startswith("logits")
    known = [each for each in logprobs if each is not None]
    if not all(map(isfinite, known)) or max(known, default=0.0) > _ROUNDING:
        return False
    return len(logprobs) == len(row["labels"]) and sum(map(exp, known)) <= 1 + _ROUNDING


VERDICTS = RowFormat(_COLUMNS, find_key, CONTENT, _can_be)


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
