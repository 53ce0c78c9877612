"""The evaluator role: how many nats a causal language model needs for texts, given an answer before them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import cached_property
from pathlib import Path
from typing import Literal

from nfqa.data.code import hash_maker
from nfqa.data.store import Store
from nfqa.kernels.perplexity import Settings
from nfqa.models.continuous_cache import ContinuousCache
from nfqa.models.engine import Engine
from nfqa.models.precision import read_precision
from nfqa.models.pretrained import Pretrained
from nfqa.models.restated import Restated, RowMaker, TargetLoss, find_losses, find_plain_losses
from nfqa.models.roles import RoleSpec, find_evaluator

# A change of the code that makes a loss makes all of them anew, and so does another version of these packages.
# What opens a model, names it and keeps its losses is not in it: `Evaluator.identity` says which model it is.
_CODE = (
    "nfqa.models.restated", "nfqa.models.engine", "nfqa.models.packing", "nfqa.models.continuous_cache",
    "nfqa.models.pretrained", "nfqa.kernels.perplexity",
)  # fmt: skip
_PACKAGES = ("torch", "transformers", "tokenizers")


class Evaluator:
    """A causal language model that scores texts as restatements: `embedded:NAME`, `hf:NAME[@REVISION]`, `path:FOLDER`.

    cache: a continuous cache over the answer, None for none, or "own": what the model's evaluator.json names for an
    embedded model, none for any other. dtype "auto" is what NFQA_DTYPE names, or float32 on every device, so that
    scores don't depend on it; a model too large or too slow for that takes bfloat16, and is then no closer than about
    1 % to its own plain way.
    batch_tokens is the `Engine`'s.
    store: a file that keeps losses by evaluator, settings and texts; another process may share it. A loss that is not
    a finite number isn't kept. `progress` is told how many losses of a call are made, and of how many.
    Losses are rounded to six digits when they are made: batches and threads move the last ones.
    Raises: ValueError for what `Pretrained` refuses, or a missing embedded model.
    """

    def __init__(
        self,
        spec: RoleSpec,
        *,
        cache: ContinuousCache | Literal["own"] | None = "own",
        device: str = "auto",
        dtype: str = "auto",
        batch_tokens: int = 16_384,
        store: Path | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        self.spec, self._progress = spec, progress
        own = spec.kind == "embedded"
        where = RoleSpec("evaluator", "path", str(find_evaluator(spec.name))) if own else spec
        self.cache = cache if cache != "own" else _read_cache(Path(where.name)) if own else None
        self._loaded = Pretrained(where, device=device, dtype=read_precision("float32") if dtype == "auto" else dtype)
        self._batch_tokens = batch_tokens
        counts = dict.fromkeys(("tokens", "attended", "cut", "unscored"), "INTEGER")
        self._store = Store(store, "target_losses", nats="REAL", **counts, reason="TEXT")

    @cached_property
    def identity(self) -> str:
        """Model and its commit or hash, precision, and the cache."""
        name = self._loaded.identity
        if self.spec.kind == "embedded":
            name = f"{self.spec.identity}|{self._loaded.precision}"
        return f"{name}|{self.cache.signature if self.cache else 'cache:none'}"

    @property
    def chats(self) -> bool:
        """Whether it has a chat template."""
        return self._loaded.template != "none"

    def adapt(self, settings: Settings) -> Settings:
        """The settings as this evaluator can keep to them: all of them."""
        return settings

    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        """The loss of each target of each item, in the items' order.

        An item's context is run once for all its targets, items of about the same length in one batch. The numbers
        are those of `score_plain` to 1e-4 of each, whatever the batch and the order.
        Raises: ValueError as `RowMaker` (no chat template, too long where nothing is to be cut), or for a model that
            can't be loaded.
        """
        keys = [[self._hash(item, target, settings) for target in item.targets] for item in items]
        asked = {key for row in keys for key in row}
        known = {key: TargetLoss(*values) for key, values in self._store.read(asked).items()}
        missing: dict[int, dict[bytes, str]] = {}  # the targets of each item by key, each key once
        seen = set(known)
        for number, (row, item) in enumerate(zip(keys, items, strict=True)):
            # Under padding each loss depends on the other targets too.
            whole = settings.padding != "none" and not seen.issuperset(row)
            fresh = {key: target for key, target in zip(row, item.targets, strict=True) if whole or key not in seen}
            seen |= fresh.keys()
            missing |= {number: fresh} if fresh else {}
        if missing:
            done, total = 0, sum(map(len, missing.values()))
            self._progress(done, total)
            wanted = {i: Restated(items[i].context, tuple(targets.values())) for i, targets in missing.items()}
            for batch in find_losses(self._engine, RowMaker(self._loaded, settings), wanted):
                made = {list(missing[number])[place]: loss for number, place, loss in batch}
                self._store.write((key, *astuple(loss)) for key, loss in made.items() if math.isfinite(loss.nats))
                known |= made
                done += len(batch)
                self._progress(done, total)
        return [[known[key] for key in row] for row in keys]

    def score_plain(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        """The same by a loop over single rows with nothing shared, batched or kept: the reference implementation."""
        return find_plain_losses(self._engine, RowMaker(self._loaded, settings), items)

    def forget(self) -> None:
        """Let go of all losses that are not on disk."""
        self._store.forget()

    def close(self) -> None:
        """Let go of the model's memory; the next call loads it again."""
        self._loaded.drop_model()
        self.__dict__.pop("_engine", None)

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self._loaded.model, batch_tokens=self._batch_tokens, cache=self.cache)

    def _hash(self, item: Restated, target: str, settings: Settings) -> bytes:
        made_by = hash_maker(*_CODE, within=_CODE, packages=_PACKAGES)
        parts = json.dumps([made_by, self.identity, self._loaded.template, settings.reading, item.context, target])
        parts += json.dumps(item.targets) if settings.padding != "none" else ""
        return hashlib.sha256(parts.encode()).digest()


def _read_cache(folder: Path) -> ContinuousCache | None:
    """The cache that an embedded model's evaluator.json names; null is none."""
    named = json.loads((folder / "evaluator.json").read_text(encoding="utf-8"))["cache"]
    return None if named is None else ContinuousCache(**named)
