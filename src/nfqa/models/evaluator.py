"""The evaluator role: how many nats a causal language model needs for texts, given an answer before them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nfqa.kernels.perplexity import Settings
from nfqa.models.continuous_cache import ContinuousCache
from nfqa.models.engine import Engine
from nfqa.models.pretrained import Pretrained
from nfqa.models.restated import Restated, Row, RowMaker
from nfqa.models.roles import RoleSpec, find_evaluator

if TYPE_CHECKING:
    from torch import Tensor

# Names the arithmetic in the keys of kept losses: the modules that made them in version 0.3, by hash. When a change
# moves the golden numbers of the tests, put any other text here: kept losses are then made again.
_VERSION = (
    "ba590392bb3d7492c894ee7573c375161579eb6717abdc3123fd743608d5f5a6|"
    "2f682e9241e68428113161a9032734b997f9166f751ec66caab124472cfc4ca8|"
    "3d02958441af0b9499dde4139f5c0dae6453155859f6d618d7dc68da3f1f491d|"
    "2154d6fc2ef447bd4c680ed055a6dfa12e13e6bd989efd779815b0922c6e1c62|"
    "08b73f0e83302a4eef732c769e7fe881a9f50596901ca18d4b65fc59982ebf88|"
    "60e1469dfe0e899d3f381ad3a943d02708ad708d0a6c3c31645dad8eeaed9790|"
    "82466bd047f02e866f6d1077016a1e3afec6bd8ed20b860533fe78ecac52dbfe|"
    "207c3e034f455dcac3be703df04f6581cf5678b744c8661aafb647085d68e94c|"
    "552edd532aaf66dee861359dc2c83f0eeebea97df06aca6f3481a2301a87ca1c"
)


@dataclass(frozen=True)
class TargetLoss:
    """What one target costs after its context.

    nats: summed negative log-likelihood of the target's own tokens, natural logarithm. tokens: how many were summed.
    attended: all tokens of context and target. cut: answer tokens taken out to make them fit. unscored: target tokens
    with nothing before them, which have no probability (the first one after an empty context, for a tokenizer without
    a begin mark), 0 or 1. With tokens 0 there is no loss: nats is 0, or NaN for a target too long for the model.
    """

    nats: float
    tokens: int
    attended: int
    cut: int = 0
    unscored: int = 0


TOO_LONG = TargetLoss(math.nan, 0, 0)  # of a target that doesn't fit the model even without the answer


class Evaluator:
    """A causal language model that scores texts as restatements: `embedded:NAME`, `hf:NAME[@REVISION]`, `path:FOLDER`.

    cache: a continuous cache over the answer, None for none, or "own": what the model's evaluator.json names for an
    embedded model, none for any other. dtype "auto" is float32 on every device, so that scores don't depend on it; a
    model too large for that takes bfloat16 by name, and is then no closer than about 1 % to its own plain way.
    batch_tokens is the `Engine`'s.
    store: a file that keeps losses by evaluator, settings and texts; another process may share it.
    Losses are rounded to six digits when they are made: batches and threads move the last ones.
    Raises: ValueError for what `Pretrained` refuses, a missing embedded model, or one without a
        readable evaluator.json.
    """

    def __init__(
        self,
        spec: RoleSpec,
        *,
        cache: ContinuousCache | Literal["own"] | None = "own",
        device: str = "auto",
        dtype: str = "auto",
        batch_tokens: int = 16_384,
        trust_remote_code: bool = False,
        progress: bool = False,
        store: Path | None = None,
    ) -> None:
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens is {batch_tokens}; expected 1 or more")
        if spec.role != "evaluator":
            raise ValueError(f"the spec is of role {spec.role}; expected parse_role('evaluator', ...)")
        self.spec = spec
        own = spec.kind == "embedded"
        where = RoleSpec("evaluator", "path", str(find_evaluator(spec.name))) if own else spec
        self.cache = cache if cache != "own" else _read_cache(Path(where.name)) if own else None
        self._loaded = Pretrained(
            where,
            device=device,
            dtype="float32" if dtype == "auto" else dtype,
            trust_remote_code=trust_remote_code,
            progress=progress,
        )
        self._batch_tokens, self._progress = batch_tokens, progress
        self._store = _Store(store)

    @cached_property
    def identity(self) -> str:
        """Model and its commit or hash, precision, and the cache."""
        name = self._loaded.identity
        if self.spec.kind == "embedded":
            name = f"{self.spec.identity}|{self._loaded.precision}"
        return f"{name}|{self.cache.signature if self.cache else 'cache:none'}"

    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        """The loss of each target of each item, in the items' order.

        An item's context is run once for all its targets, items of about the same length in one batch. The numbers
        are those of `score_plain` to 1e-4 of each, whatever the batch and the order.
        Raises: ValueError as `RowMaker` (no chat template, too long where nothing is to be cut), or for a model that
            can't be loaded.
        """
        keys = [[self._hash(item.context, target, settings) for target in item.targets] for item in items]
        known = self._store.read({key for row in keys for key in row})
        missing = [i for i, row in enumerate(keys) if any(key not in known for key in row)]
        if missing:
            maker = RowMaker(self._loaded, settings)
            groups, places = [], []
            for i in missing:
                wanted = {key: j for j, key in enumerate(keys[i]) if key not in known}
                known |= dict.fromkeys(wanted, TOO_LONG)  # an equal item further on need not be run
                item = Restated(items[i].context, tuple(items[i].targets[j] for j in wanted.values()))
                made = zip(maker.make_rows(item, f"item {i}"), wanted, strict=True)
                fitting = [(row, key) for row, key in made if row is not None]  # the others keep TOO_LONG
                if fitting:
                    groups.append([row for row, _ in fitting])
                    places.append([key for _, key in fitting])
            self._run(groups, places, known)
        return [[known[key] for key in row] for row in keys]

    def score_plain(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        """The same by a loop over single rows with nothing shared, batched or kept: what `score` is held against."""
        maker = RowMaker(self._loaded, settings)
        rows = [maker.make_rows(item, f"item {number}") for number, item in enumerate(items)]
        return [
            [TOO_LONG if row is None else _describe(row, self._engine.find_plain(row.asked)) for row in group]
            for group in rows
        ]

    def close(self) -> None:
        """Let go of the model's memory; the next call loads it again."""
        self._loaded.drop_model()
        self.__dict__.pop("_engine", None)

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self._loaded.model, batch_tokens=self._batch_tokens, cache=self.cache)

    def _run(self, groups: list[list[Row]], places: list[list[bytes]], known: dict[bytes, TargetLoss]) -> None:
        """Losses of all rows, into `known` and the store; killed half-way, the store keeps every finished batch."""
        from tqdm import tqdm

        with tqdm(total=sum(map(len, groups)), desc="scoring texts", unit="text", disable=not self._progress) as bar:
            for batch in self._engine.find_logprobs([[row.asked for row in group] for group in groups]):
                fresh: dict[bytes, TargetLoss] = {}
                for number, place, logprobs in batch:
                    row, key = groups[number][place], places[number][place]
                    if isinstance(logprobs, str):
                        raise ValueError(f"a context and a target of {len(row.tokens):,} tokens don't fit: {logprobs}")
                    fresh[key] = known[key] = _describe(row, logprobs)
                    bar.update()
                self._store.write(fresh)

    @cached_property
    def _made_by(self) -> str:
        """The versions of the code behind a loss; read once, as looking a package up takes milliseconds."""
        return "|".join([_VERSION, *(importlib.metadata.version(name) for name in ("transformers", "torch"))])

    def _hash(self, context: str, target: str, settings: Settings) -> bytes:
        parts = json.dumps([self._made_by, self.identity, self._loaded.template, settings.reading, context, target])
        return hashlib.sha256(parts.encode()).digest()


class _Store:
    """Losses by key, in sqlite; without a path, none are kept. A loss that is not a finite number is never kept."""

    def __init__(self, path: Path | None) -> None:
        self._db: sqlite3.Connection | None = None
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, timeout=60)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS losses (key BLOB PRIMARY KEY, nats REAL NOT NULL, tokens INTEGER NOT NULL,"
                " attended INTEGER NOT NULL, cut INTEGER NOT NULL, unscored INTEGER NOT NULL)"
            )
        except sqlite3.OperationalError as error:  # busy, read-only, a folder: the file itself may be sound
            raise ValueError(f"{path}: the store of losses can't be opened for writing ({error})") from None
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path}: not a store of losses ({error}); delete it, it is made again") from None

    def read(self, keys: set[bytes]) -> dict[bytes, TargetLoss]:
        """The losses at hand."""
        if self._db is None:
            return {}
        query = "SELECT nats, tokens, attended, cut, unscored FROM losses WHERE key = ?"
        rows = ((key, self._db.execute(query, (key,)).fetchone()) for key in keys)
        return {key: TargetLoss(*row) for key, row in rows if row is not None}

    def write(self, losses: dict[bytes, TargetLoss]) -> None:
        """Keep losses; one that another process has kept meanwhile stays as it is."""
        kept = [
            (key, loss.nats, loss.tokens, loss.attended, loss.cut, loss.unscored)
            for key, loss in losses.items()
            if math.isfinite(loss.nats)
        ]
        if self._db is not None and kept:
            with self._db:
                self._db.executemany("INSERT OR IGNORE INTO losses VALUES (?, ?, ?, ?, ?, ?)", kept)


def _describe(row: Row, logprobs: Tensor) -> TargetLoss:
    rounded = float(f"{0.0 - float(logprobs.sum()):.6g}")
    return TargetLoss(rounded, row.scored, len(row.tokens), row.cut, len(row.tokens) - row.first - row.scored)


def _read_cache(folder: Path) -> ContinuousCache | None:
    """The cache that an embedded model's evaluator.json names; null is none."""
    path = folder / "evaluator.json"
    try:
        named = json.loads(path.read_text(encoding="utf-8"))["cache"]
        return None if named is None else ContinuousCache(**named)
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected = 'expected {"cache": {"theta": ..., "weight": ...}} or {"cache": null}'
        raise ValueError(f"{path}: field cache can't be read ({error!r}); {expected}") from None
