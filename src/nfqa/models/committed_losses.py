"""Losses in git that a language model gave as an evaluator: by a key that outlives the code that
made them.
"""

from __future__ import annotations

from dataclasses import fields
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
LOSSES = RowFormat(_COLUMNS, itemgetter("key"))


def make_loss(row: dict[str, Any]) -> TargetLoss:
    """The loss that a row holds."""
    return TargetLoss(*(row[name] for name in LOSS))


def open_losses(store: Path | None) -> Store:
    """A store of losses, each with the key that outlives its code, its model, and the code that
    made it.
    """
    counts = dict.fromkeys(LOSS[1:-1], "INTEGER")
    about = dict.fromkeys(("model", "template", "made_by"), "TEXT")
    return Store(store, "losses", nats="REAL", **counts, reason="TEXT", lasting="BLOB", **about)
