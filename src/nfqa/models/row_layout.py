"""How several token sequences with a common beginning are laid out as one input, and what the model's head is given."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass
class Rows:
    """A batch under way: keys and values so far, which of them are real, and how many each row has."""

    cache: Any
    mask: Tensor  # [B, L], 1 for a token and 0 for padding
    lengths: Tensor  # [B]

    def keep(self, chosen: Tensor) -> None:
        """Drop all rows but the chosen, [number kept]."""
        self.cache.batch_select_indices(chosen)
        self.mask, self.lengths = self.mask[chosen], self.lengths[chosen]


def lay_rows(model: Any, prefix: Any, suffixes: Sequence[Sequence[int]]) -> tuple[Rows, Tensor, Tensor]:
    """A batch of suffixes padded on the right after a prefix: the rows to be, input ids and positions, both [B, T]."""
    import torch

    device, begun = model.device, int(prefix.get_seq_length())
    lengths = torch.tensor([len(suffix) for suffix in suffixes], device=device)
    width = int(lengths.max())
    ids = torch.tensor([[*suffix, *[0] * (width - len(suffix))] for suffix in suffixes], device=device)
    places = torch.arange(width, device=device)[None]
    real = (places < lengths[:, None]).long()
    mask = torch.cat([torch.ones(len(suffixes), begun, dtype=torch.long, device=device), real], dim=1)
    positions = (begun + torch.minimum(places, lengths[:, None] - 1)).contiguous()
    return Rows(repeat_cache(prefix, len(suffixes)), mask, lengths + begun), ids, positions


def lay_packed(model: Any, prefix: Any, suffixes: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Suffixes in one row after a prefix: input ids [1, T], mask [1, 1, T, prefix + T] and positions [1, T]."""
    import torch

    device, begun = model.device, int(prefix.get_seq_length())
    lengths = torch.tensor([len(suffix) for suffix in suffixes], device=device)
    ids = torch.tensor([[token for suffix in suffixes for token in suffix]], device=device)
    first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)  # [T], where a token's own suffix begins
    places = torch.arange(ids.shape[1], device=device)
    return ids, make_mask(begun, lengths, model.dtype)[None, None], (begun + places - first)[None]


def make_mask(begun: int, lengths: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to attention's scores, [T, begun + T], for suffixes of these lengths, T together, behind a prefix.

    0 where a token sees another, in the prefix or before it in its own suffix, else the dtype's least number.
    """
    import torch

    first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    places = torch.arange(len(first), device=lengths.device)
    seen = (places[:, None] >= places) & (places >= first[:, None])
    seen = torch.cat([seen.new_ones(len(places), begun), seen], dim=1)
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)


def repeat_cache(prefix: Any, rows: int) -> Any:
    """A cache of `rows` equal rows. The tensors are views: a layer grows by making a new one, so none is written to."""
    cache = copy.copy(prefix)
    cache.layers = [copy.copy(layer) for layer in prefix.layers]
    for layer in cache.layers:
        if layer.is_initialized:
            layer.keys = layer.keys.expand(rows, -1, -1, -1)
            layer.values = layer.values.expand(rows, -1, -1, -1)
    return cache


def run_body(model: Any, **inputs: Any) -> Tensor:
    """What the head would be given at every place, [B, T, D], without its product for any but the first.

    Raises: ValueError where the model makes its logits without calling its output embeddings.
    """
    import torch

    given: list[Tensor] = []

    def take(_: Any, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        given.append(states[0])
        return (states[0][:, :1], *states[1:])

    head = model.get_output_embeddings()
    if head is None:
        raise ValueError(f"{type(model).__name__} has no output embeddings; expected a causal language model")
    handle = head.register_forward_pre_hook(take)
    try:
        with torch.inference_mode():
            model(**inputs, use_cache="past_key_values" in inputs)
    finally:
        handle.remove()
    if not given:
        raise ValueError(f"{type(model).__name__} does not call its output embeddings; expected a model that does")
    return given[0]
