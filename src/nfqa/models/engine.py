"""Log-probabilities of tokens by a causal language model: what texts begin with is run once, into a
key-value cache.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

_Item = TypeVar("_Item")
_LEAST = 32  # tokens that a beginning must have, as a pass of its own costs about as much as so many
# Tokens of a pass, which bound the logits in memory; and by how many a row may be shorter than the longest of its
# batch, as padding of so many costs about as much as a pass of its own (bench/perplexity.py).
_LARGEST, _PADDING = {"cpu": 2_048, "cuda": 16_384}, {"cpu": 16, "cuda": 1_024}


@dataclass(frozen=True)
class Row:
    """A sequence of tokens, and what is asked of it: the log-probability of each target after its
    place.
    """

    tokens: tuple[int, ...]
    places: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True)
class _Beginning:
    """Tokens that rows begin with, run before them: their keys and values."""

    size: int = 0
    layers: tuple[Any, ...] = ()  # of a cache, each with keys and values, [1, H, size, D]


_PlacedRow = tuple[int, int, Row]  # group, place in it
_Result = tuple[int, int, Any]  # group, place in it, and log-probabilities, or why there was no memory for them


class Engine:
    """A causal language model that runs what rows begin with once.

    The rows of a group follow their common beginning as a batch, padded on the right: no token sees
    what comes after it, so that the numbers are those of one row at a time. batch_tokens bounds the
    tokens of a pass, in which those of a row's beginning count an eighth; it is halved when memory
    runs out.
    share: False runs every row by itself, the reference for all else.
    """

    def __init__(self, model: Any, *, batch_tokens: int, share: bool = True) -> None:
        self.model = model
        self.batch_tokens = batch_tokens
        self.shares = share and can_share(model)

    def find_logprobs(self, groups: Sequence[Sequence[Row]]) -> Iterator[list[_Result]]:
        """Group, place in it and log-probabilities (nats, float64, one a target) of every row,
        batch by batch.

        What the rows of a group begin with is run once. The longest groups come first, so that too
        little memory shows at once. A row too long for the memory has the reason, a text, in place
        of its numbers.
        """
        rows = [(group, place, row) for group, rows in enumerate(groups) for place, row in enumerate(rows)]
        yield [(group, place, self.find_plain(row)) for group, place, row in rows if not row.places]
        rows, single = [each for each in rows if each[2].places], list[_PlacedRow]()
        root = self._begin(rows, _Beginning())
        parts = [list(part) for _, part in groupby(rows, itemgetter(0))]
        for part in sorted(parts, key=lambda part: max(len(row.tokens) for *_, row in part), reverse=True):
            begun = self._begin(part, root)
            if begun is root:
                single += part
            else:
                yield from self._find_after(begun, part)
        yield from self._find_after(root, single)

    def find_plain(self, row: Row) -> Tensor:
        """The log-probabilities of one row by one call of the model, nothing shared: the reference
        implementation.
        """
        import torch

        if not row.places:
            return torch.zeros(0, dtype=torch.float64)
        with torch.inference_mode():
            output = self.model(input_ids=torch.tensor([row.tokens], device=self.model.device), use_cache=False)
            return _find_targets(output.logits[0, list(row.places)], row)

    def run_batches(
        self,
        queue: list[_Item],
        width: Callable[[_Item], int],
        run: Callable[[list[_Item]], Sequence[Any]],
        *,
        most: int = sys.maxsize,
        padding: int = sys.maxsize,
    ) -> Iterator[list[tuple[_Item, Any]]]:
        """Each item with what `run` gave for it, or with a text where there was no memory for it
        alone.

        The widest items come first, and each counts as many tokens as the widest of its batch.
        most: a bound that stays, whatever memory there is. padding: how much narrower an item of a
        batch may be.
        """
        import torch

        queue = sorted(queue, key=width, reverse=True)
        while queue:
            widest = max(width(queue[0]), 1)
            size = max(min(self.batch_tokens, most) // widest, 1) if self.shares else 1
            batch = [item for item in queue[:size] if width(item) >= widest - padding]
            try:
                results = run(batch)
            except torch.OutOfMemoryError as error:
                results = [str(error).partition("\n")[0][:200] or "no more memory"]
            if isinstance(results[0], str):
                torch.cuda.empty_cache()  # out of the handler: its traceback would hold on to the batch's tensors
                if len(batch) > 1:
                    self.batch_tokens = max(1, len(batch) * widest // 2)
                    continue
            yield list(zip(batch, results, strict=True))
            queue = queue[len(batch) :]

    def _begin(self, rows: Sequence[_PlacedRow], after: _Beginning) -> _Beginning:
        """Run what rows begin with, after what is run already; that alone where they are too few or
        too different.

        A token after which something is asked is each row's own.
        """
        import torch

        if len(rows) < 2 or not self.shares:
            return after
        size = min(count_common([row.tokens for *_, row in rows]), *(min(row.places) for *_, row in rows))
        if size - after.size < _LEAST:
            return after
        try:
            output = self._run([rows[0][2].tokens[after.size : size]], after, [])
        except torch.OutOfMemoryError:  # each row then says so itself
            return after
        return _Beginning(size, tuple(output.past_key_values.layers))

    def _find_after(self, begun: _Beginning, rows: list[_PlacedRow]) -> Iterator[list[_Result]]:
        """The log-probabilities of rows by passes after what they begin with."""

        def width(placed: _PlacedRow) -> int:
            return len(placed[2].tokens) - begun.size * 7 // 8

        device, find = "cuda" if self.model.device.type == "cuda" else "cpu", partial(self._find_batch, begun)
        for batch in self.run_batches(rows, width, find, most=_LARGEST[device], padding=_PADDING[device]):
            yield [(group, place, result) for (group, place, _), result in batch]

    def _find_batch(self, begun: _Beginning, placed: Sequence[_PlacedRow]) -> list[Tensor]:
        """The log-probabilities of rows by one pass."""
        rows = [row for *_, row in placed]
        if not self.shares:
            return [self.find_plain(row) for row in rows]
        places = sorted({place - begun.size for row in rows for place in row.places})
        column = {place + begun.size: number for number, place in enumerate(places)}
        output = self._run([row.tokens[begun.size :] for row in rows], begun, places)
        results = []
        for number, row in enumerate(rows):
            results.append(_find_targets(output.logits[number, [column[place] for place in row.places]], row))
        return results

    def _run(self, rows: Sequence[Sequence[int]], begun: _Beginning, places: Sequence[int]) -> Any:
        """The model's output for rows after a beginning, with the logits at some places."""
        import torch
        from transformers import DynamicCache

        width, device = max(map(len, rows)), self.model.device
        with torch.inference_mode():
            cache = DynamicCache()  # of all tokens in every layer: the model's masks know of windows
            for layer in map(copy, begun.layers):  # a view, which the pass replaces
                layer.keys, layer.values = (kv.expand(len(rows), -1, -1, -1) for kv in (layer.keys, layer.values))
                cache.layers.append(layer)
            return self.model(
                input_ids=torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=torch.tensor(places or [0], device=device),
            )


def _find_targets(logits: Tensor, row: Row) -> Tensor:
    """The log-probability of each target: logits at the row's places, [K, V]."""
    import torch

    targets = torch.tensor(row.targets, dtype=torch.long, device=logits.device)
    return logits.float().log_softmax(-1).gather(1, targets[:, None])[:, 0].cpu().double()


def can_share(model: Any) -> bool:
    """Whether rows may follow what they begin with, kept as keys and values, without moving any
    number.

    False for what keeps a state (state-space and recurrent layers) or something else than each
    token's keys and values, for an encoder with a decoder, and for rotations that change with the
    length of the input.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    config = model.config.get_text_config(decoder=True)
    ropes = getattr(config, "rope_parameters", None) or {}
    rope_types = {rope.get("rope_type") for rope in (ropes, *ropes.values()) if isinstance(rope, dict)}
    return (
        {"past_key_values", "logits_to_keep"} <= set(inspect.signature(model.forward).parameters)
        and not model._is_stateful
        and not model.config.is_encoder_decoder
        and {type(layer) for layer in DynamicCache(config=config).layers} <= {DynamicLayer, DynamicSlidingWindowLayer}
        and not rope_types & {"dynamic", "longrope"}
    )


def count_common(sequences: Sequence[Sequence[int]]) -> int:
    """The length of the longest common beginning: [1, 2, 3] and [1, 2, 4] have 2 in common."""
    low, high = min(map(tuple, sequences)), max(map(tuple, sequences))  # all others lie between these two
    differ = (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return next(differ, min(len(low), len(high)))
