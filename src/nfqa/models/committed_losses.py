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
_LOSS = [field.name for field in fields(TargetLoss)]
_AT_LEAST_0 = ("nats", "tokens", "attended", "cut", "unscored")
LOSSES = RowFormat(_COLUMNS, itemgetter("key"), _LOSS, lambda row: all(0 <= row[name] < inf for name in _AT_LEAST_0))


def make_loss(row: dict[str, Any]) -> TargetLoss:
    """The loss that a row holds."""
    return TargetLoss(*(row[name] for name in _LOSS))


def open_names(store: Path | None) -> Store:
    """Of each loss in a store, by its key there: its lasting key, its model, and the code that made it."""
    return Store(store, "lasting_keys", lasting="BLOB", model="TEXT", template="TEXT", made_by="TEXT")


def list_losses(store: Path, *, made_by: str) -> list[dict[str, Any]]:
    """The rows of a store's losses by language models. Args: made_by: the hash of the code whose losses count."""
    query = f"SELECT lasting, model, template, {', '.join(_LOSS)} FROM {{table}} JOIN target_losses USING (key)"  # noqa: S608
    rows = open_names(store).select(f"{query} WHERE made_by = ?", (made_by,))
    return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
