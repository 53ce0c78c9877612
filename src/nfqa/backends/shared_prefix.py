"""Prompts that begin alike, run by a causal language model: the common part once, the rest as rows of a batch.

The plain way, in `one_prompt`, serves the models for which this is not safe, and is what this is tested against.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfqa.backends.one_prompt import Sampling, compute_logprobs_plain, draw_tokens

if TYPE_CHECKING:
    from torch import Tensor

_CONTEXT_FIELDS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")


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


def find_context(config: Any) -> int | None:
    """The longest input of a model, in tokens, or None where its config names none (as of state-space models)."""
    text = config.get_text_config(decoder=True)
    found = (getattr(text, name, None) for name in _CONTEXT_FIELDS)
    return next((int(value) for value in found if value), None)


def find_window(config: Any) -> int | None:
    """The shortest sliding window of a model's layers, in tokens, or None where every layer looks all the way back."""
    from transformers import DynamicCache

    windows = (getattr(layer, "sliding_window", None) for layer in DynamicCache(config=config).layers)
    return min((window for window in windows if window), default=None)


def can_share(model: Any) -> bool:
    """Whether keys and values may be computed once, and rows be padded, without moving any number.

    False for what keeps a state rather than keys and values (state-space and recurrent layers), what takes no positions
    (ALiBi, as in BLOOM), what attends in chunks, and rotations that change with the length of the input.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    config = model.config.get_text_config(decoder=True)
    taken = inspect.signature(model.forward).parameters
    ropes = getattr(config, "rope_parameters", None) or {}
    kinds = {rope.get("rope_type") for rope in (ropes, *ropes.values()) if isinstance(rope, dict)}
    return (
        {"position_ids", "attention_mask", "past_key_values"} <= set(taken)
        and not model._is_stateful
        and not model.config.is_encoder_decoder
        and model.get_output_embeddings() is not None
        and not getattr(config, "attention_chunk_size", None)
        and not kinds & {"dynamic", "longrope"}
        and {type(layer) for layer in DynamicCache(config=model.config).layers}
        <= {DynamicLayer, DynamicSlidingWindowLayer}
    )


def count_common(sequences: Sequence[Sequence[int]]) -> int:
    """The length of the longest common beginning: [1, 2, 3] and [1, 2, 4] have 2 in common."""
    low, high = min(map(tuple, sequences)), max(map(tuple, sequences))  # all others lie between these two
    differ = (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return next(differ, min(len(low), len(high)))


def run_prefix(model: Any, tokens: Sequence[int]) -> Any:
    """Keys and values of what a group's prompts begin with, as a cache of one row."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    if tokens:
        with torch.inference_mode():
            ids = torch.tensor([list(tokens)], device=model.device)
            positions = torch.arange(len(tokens), device=model.device)[None]
            _run(model, ids, torch.ones_like(ids), positions, cache, torch.zeros_like(ids[:, :1]))
    return cache


def run_rows(model: Any, prefix: Any, suffixes: Sequence[Sequence[int]], keep: int = 1) -> Tensor:
    """The logits of `start_rows` alone."""
    return start_rows(model, prefix, suffixes, keep)[0]


def start_rows(model: Any, prefix: Any, suffixes: Sequence[Sequence[int]], keep: int = 1) -> tuple[Tensor, Rows]:
    """Run each suffix, of one token or more, after a prefix of `run_prefix`, which stays as it was.

    Returns: logits after each row's last `keep` tokens, float32 [B, keep, V], and the rows to go on with. A row
    shorter than `keep` repeats its first.
    """
    import torch

    with torch.inference_mode():
        device, begun = model.device, int(prefix.get_seq_length())
        cache = _repeat_cache(prefix, len(suffixes))
        lengths = torch.tensor([len(suffix) for suffix in suffixes], device=device)
        width = int(lengths.max())
        ids = torch.tensor([[*suffix, *[0] * (width - len(suffix))] for suffix in suffixes], device=device)
        places = torch.arange(width, device=device)[None]
        real = (places < lengths[:, None]).long()
        mask = torch.cat([torch.ones(len(suffixes), begun, dtype=torch.long, device=device), real], dim=1)
        positions = (begun + torch.minimum(places, lengths[:, None] - 1)).contiguous()
        wanted = (lengths[:, None] - keep + torch.arange(keep, device=device)).clamp(min=0)
        logits = _run(model, ids, mask, positions, cache, wanted)
        return logits, Rows(cache, mask, lengths + begun)


def run_packed(model: Any, prefix: Any, suffixes: Sequence[Sequence[int]], keep: int = 1) -> Tensor:
    """The logits of `start_rows`, with the suffixes one after another in a single row.

    No padding is run and the prefix isn't repeated; a mask lets each suffix see the prefix and itself alone, and
    positions count on from the prefix for each. What comes after such a row can't be written, so it is for reading.
    """
    import torch

    with torch.inference_mode():
        device, begun = model.device, int(prefix.get_seq_length())
        lengths = torch.tensor([len(suffix) for suffix in suffixes], device=device)
        ends = lengths.cumsum(0)
        starts = ends - lengths
        ids = torch.tensor([[token for suffix in suffixes for token in suffix]], device=device)  # [1, T]
        places = torch.arange(ids.shape[1], device=device)
        first = torch.repeat_interleave(starts, lengths)  # [T], where a token's own suffix begins
        seen = (places[:, None] >= places) & (places >= first[:, None])  # [T, T]
        seen = torch.cat([seen.new_ones(len(places), begun), seen], dim=1)
        mask = torch.zeros(seen.shape, dtype=model.dtype, device=device)
        mask = mask.masked_fill(~seen, torch.finfo(model.dtype).min)[None, None]
        wanted = (ends[:, None] - keep + torch.arange(keep, device=device)).maximum(starts[:, None])
        positions = (begun + places - first)[None]
        logits = _run(model, ids, mask, positions, _repeat_cache(prefix, 1), wanted.reshape(1, -1))
        return logits.view(len(suffixes), keep, -1)


def can_pack(model: Any) -> bool:
    """Whether `run_packed` gives the plain way's numbers, tried on a few tokens: not every model heeds such a mask."""
    if model.config._attn_implementation not in ("sdpa", "eager"):
        return False
    prefix, suffixes = [1, 2, 3, 4, 5], [[6, 7], [8, 9, 10], [6, 11]]
    packed = run_packed(model, run_prefix(model, prefix), suffixes).log_softmax(-1)[:, 0]
    apart = [
        float((row - compute_logprobs_plain(model, prefix + suffix)[0]).abs().max())
        for row, suffix in zip(packed, suffixes, strict=True)
    ]
    return max(apart) < (1e-3 if model.dtype.itemsize > 2 else 0.25)


def step_rows(model: Any, rows: Rows, tokens: Tensor) -> Tensor:
    """Put one more token, [B], at the end of each row; returns the logits after it, float32 [B, V]."""
    import torch

    with torch.inference_mode():
        rows.mask = torch.cat([rows.mask, torch.ones_like(rows.mask[:, :1])], dim=1)
        logits = _run(
            model, tokens[:, None], rows.mask, rows.lengths[:, None], rows.cache, torch.zeros_like(tokens)[:, None]
        )
        rows.lengths = rows.lengths + 1
        return logits[:, -1]


def complete_rows(
    model: Any, prefix: Any, suffixes: Sequence[Sequence[int]], seeds: Sequence[int], sampling: Sampling
) -> list[list[int]]:
    """The tokens of one completion for each suffix, its stop token included.

    Each row draws from its own generator, so what it draws hangs neither on the other rows nor on their order.
    """
    import torch

    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    written: list[list[int]] = [[] for _ in suffixes]
    going = list(range(len(suffixes)))
    logits, rows = start_rows(model, prefix, suffixes)
    scores = logits[:, -1]
    while True:
        tokens = draw_tokens(scores, [generators[i] for i in going], sampling)
        for i, token in zip(going, tokens.tolist(), strict=True):
            written[i].append(token)
        on = [
            j for j, i in enumerate(going)
            if written[i][-1] not in sampling.stops and len(written[i]) < sampling.max_tokens
        ]  # fmt: skip
        if not on:
            return written
        if len(on) < len(going):
            chosen = torch.tensor(on, device=tokens.device)
            with torch.inference_mode():
                rows.keep(chosen)
            tokens, going = tokens[chosen], [going[j] for j in on]
        scores = step_rows(model, rows, tokens)


def _repeat_cache(prefix: Any, rows: int) -> Any:
    """A cache of `rows` equal rows. The tensors are views: a layer grows by making a new one, so none is written to."""
    cache = copy.copy(prefix)
    cache.layers = [copy.copy(layer) for layer in prefix.layers]
    for layer in cache.layers:
        if layer.is_initialized:
            layer.keys = layer.keys.expand(rows, -1, -1, -1)
            layer.values = layer.values.expand(rows, -1, -1, -1)
    return cache


def _run(model: Any, ids: Tensor, mask: Tensor, positions: Tensor, cache: Any, wanted: Tensor) -> Tensor:
    """Logits at the wanted places, float32 [B, K, V].

    The head sees those hidden states alone: [B, T, V] of a long prompt would not fit. What the model does to the
    head's output (a cap, a scale) still happens.
    """
    import torch

    lines = torch.arange(len(ids), device=ids.device)[:, None]
    picked = []

    def pick(_: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        picked.append(True)
        return (given[0][lines, wanted], *given[1:])

    handle = model.get_output_embeddings().register_forward_pre_hook(pick)
    try:
        logits = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
        ).logits
    finally:
        handle.remove()
    return (logits if picked else logits[lines, wanted]).float()
