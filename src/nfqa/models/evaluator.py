"""The evaluator role: how many nats a causal language model needs for texts, given an answer before
them.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import cached_property
from itertools import chain
from pathlib import Path

from nfqa.files.code import hash_maker
from nfqa.kernels.perplexity import Settings
from nfqa.models.committed_losses import LOSS, LOSSES, make_loss, open_losses
from nfqa.models.loading import one_at_a_time, read_precision
from nfqa.models.pretrained import Pretrained
from nfqa.models.restated import Restated, RowMaker, TargetLoss, find_losses, find_plain_losses
from nfqa.models.roles import COMMITTED_PRECISIONS, RoleSpec

# A change of the code that makes a loss makes all of them anew, and so does another version of these packages.
# What opens a model, names it and keeps its losses is not in it: `Evaluator.identity` says which model it is.
_CODE = ("nfqa.models.restated", "nfqa.models.engine", "nfqa.models.pretrained", "nfqa.kernels.perplexity")
_PACKAGES = ("torch", "transformers", "tokenizers")
_PLANNED = TargetLoss(math.nan, 0, 0, reason="planned")


class Evaluator:
    """A causal language model that scores texts as restatements: any that `Pretrained` opens.

    dtype "auto" is what NFQA_DTYPE names, or that of the model's committed losses, or float32 on
    every device, so that scores don't depend on it; a model too large or too slow for that takes
    bfloat16, and is then no closer than about 1 % to its own plain way. batch_tokens is the
    `Engine`'s.
    store: a file that keeps losses by evaluator, settings and texts; another process may share it.
    A loss that is not a finite number isn't kept. `progress` receives how many losses of a call are
    made, and of how many.
    committed: Parquet files of a language model's losses, for what the store lacks. Their keys hold
    no code or versions of packages: `make spot-check` checks whether they are still what the model
    gives.
    note: receives every call, and nothing is computed: what is neither stored nor committed is
    missing as "planned". Losses are rounded to six digits when they are made: batches and threads
    move the last ones.
    Raises: ValueError for what `Pretrained` refuses.
    """

    def __init__(
        self,
        spec: RoleSpec,
        *,
        device: str = "auto",
        dtype: str = "auto",
        batch_tokens: int = 16_384,
        store: Path | None = None,
        committed: Sequence[Path] = (),
        note: Callable[[Evaluator, Sequence[Restated], Settings], None] | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        self.spec = spec
        self._progress = progress
        self._note = note
        self._lock = threading.RLock()
        dtype = read_precision(COMMITTED_PRECISIONS.get(spec.identity, "float32")) if dtype == "auto" else dtype
        self._loaded = Pretrained(spec, device=device, dtype=dtype, batch_tokens=batch_tokens)
        self._store = open_losses(store)
        self._committed = LOSSES.read(committed)

    @cached_property
    def identity(self) -> str:
        """Model and its commit or hash, and precision. The end is a part of the keys of committed
        losses.
        """
        return f"{self._loaded.identity}|cache:none"

    @property
    def chats(self) -> bool:
        """Whether it has a chat template."""
        return self._template != "none"

    @cached_property
    def _template(self) -> str:
        """The model's chat template by hash; as committed losses have it, for which the model need
        not be here.
        """
        known = (row["template"] for row in self._committed.values() if row["model"] == self.identity)
        return next(known, "") or self._loaded.template

    @one_at_a_time
    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        """The loss of each target of each item, in the items' order.

        An item's context is run once for all its targets, items of about the same length in one
        batch. The numbers are those of `score_plain` to 1e-4 of each, whatever the batch and the
        order.
        Raises: ValueError as `RowMaker` (no chat template, too long where nothing is to be cut), or
            for a model that can't be loaded.
        """
        hashed = [[self._hash(item, target, settings) for target in item.targets] for item in items]
        keys = [[key for key, _ in row] for row in hashed]
        lasting = dict(chain.from_iterable(hashed))
        known = {key: make_loss(self._committed[name]) for key, name in lasting.items() if name in self._committed}
        known |= {key: TargetLoss(*values) for key, values in self._store.read(lasting, *LOSS).items()}
        if self._note:
            self._note(self, items, settings)
            return [[known.get(key, _PLANNED) for key in row] for row in keys]
        missing: dict[int, dict[bytes, str]] = {}  # the targets of each item by key, each key once
        seen = set(known)
        for number, (row, item) in enumerate(zip(keys, items, strict=True)):
            fresh = {key: target for key, target in zip(row, item.targets, strict=True) if key not in seen}
            seen |= fresh.keys()
            if fresh:
                missing[number] = fresh
        if missing:
            done = 0
            total = sum(map(len, missing.values()))
            about = (self.identity, self._template, hash_losses_code())
            self._progress(done, total)
            todo = {i: Restated(items[i].context, tuple(targets.values())) for i, targets in missing.items()}
            for batch in find_losses(self._loaded.engine, RowMaker(self._loaded, settings), todo):
                made = {list(missing[number])[place]: loss for number, place, loss in batch}
                finite = {key: astuple(loss) for key, loss in made.items() if math.isfinite(loss.nats)}
                self._store.write((key, *loss, lasting[key], *about) for key, loss in finite.items())
                known |= made
                done += len(batch)
                self._progress(done, total)
        return [[known[key] for key in row] for row in keys]

    def find_committed(self, item: Restated, target: str, settings: Settings) -> TargetLoss | None:
        """A committed loss, or None."""
        row = self._committed.get(self._hash(item, target, settings)[1])
        return make_loss(row) if row else None

    @one_at_a_time
    def score_plain(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        """Losses by a loop over single rows with nothing shared, batched or stored: the reference
        implementation.
        """
        return find_plain_losses(self._loaded.engine, RowMaker(self._loaded, settings), items)

    def forget(self) -> None:
        """Let go of all losses that are not on disk."""
        self._store.forget()

    @one_at_a_time
    def close(self) -> None:
        """Let go of the model's memory; the next call loads it again."""
        self._loaded.close()

    def _hash(self, item: Restated, target: str, settings: Settings) -> tuple[bytes, bytes]:
        """The key of a loss in the store; and the one without code and versions, under which it is
        committed.
        """
        parts = [self.identity, self._template, settings.reading, item.context, target]
        lasting = hashlib.sha256(json.dumps(parts).encode()).digest()
        return hashlib.sha256(hash_losses_code().encode() + lasting).digest(), lasting


def hash_losses_code() -> str:
    """A hash of the code that makes losses, and of the versions of its packages."""
    return hash_maker(*_CODE, within=_CODE, packages=_PACKAGES)
