"""Losses in git that a language model gave as an evaluator: by a key that outlives the code that made them."""

from __future__ import annotations

from dataclasses import fields
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

from nfqa.files.committed import RowFormat
from nfqa.files.store import Store
from nfqa.models.restated import TargetLoss

# key: a hash of model, template, settings and texts, as `nfqa.models.evaluator.Evaluator` has it.
_COLUMNS = {
    "key": "binary", "model": "string", "template": "string", "nats": "double", "tokens": "int32",
    "attended": "int32", "cut": "int32", "unscored": "int32", "reason": "string",
}  # fmt: skip
LOSS = [field.name for field in fields(TargetLoss)]
_AT_LEAST_0 = ("nats", "tokens", "attended", "cut", "unscored")
LOSSES = RowFormat(_COLUMNS, itemgetter("key"), LOSS, lambda row: all(0 <= row[name] < inf for name in _AT_LEAST_0))


def make_loss(row: dict[str, Any]) -> TargetLoss:
    """The loss that a row holds."""
    return TargetLoss(*(row[name] for name in LOSS))


def open_losses(store: Path | None) -> Store:
    """A store of losses, each with the key that outlives its code, its model, and the code that made it."""
    counts = dict.fromkeys(LOSS[1:-1], "INTEGER")
    about = dict.fromkeys(("model", "template", "made_by"), "TEXT")
    return Store(store, "losses", nats="REAL", **counts, reason="TEXT", lasting="BLOB", **about)


def list_losses(store: Path, *, made_by: str) -> list[dict[str, Any]]:
    """The rows of a store's losses by language models. Args: made_by: the hash of the code whose losses count."""
    columns = ", ".join(["lasting", *list(_COLUMNS)[1:]])
    query = f"SELECT {columns} FROM {{table}} WHERE made_by = ? AND model NOT LIKE 'embedded:%'"  # noqa: S608
    return [dict(zip(_COLUMNS, row, strict=True)) for row in open_losses(store).select(query, (made_by,))]
