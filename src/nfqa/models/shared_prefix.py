"""Prompts that begin alike, run by a causal language model: the common part once, the rest as rows of a batch.

The plain way, in `one_prompt`, serves the models for which this is not safe, and is what this is tested against.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nfqa.models.one_prompt import Sampling, compute_logprobs_plain, draw_tokens
from nfqa.models.row_layout import Rows, lay_packed, lay_rows, repeat_cache, run_body

if TYPE_CHECKING:
    from torch import Tensor

_CONTEXT_FIELDS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")


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
    or doesn't heed them (ALiBi, as in BLOOM and some Falcons), what attends in chunks or to a window that its cache
    doesn't know of (GPT-Neo), and rotations that change with the length of the input.
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
        and not getattr(config, "alibi", False)
        and "local" not in (getattr(config, "attention_layers", None) or ())
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
    return start_prefix(model, tokens)[0]


def start_prefix(model: Any, tokens: Sequence[int]) -> tuple[Any, Tensor]:
    """Keys and values as of `run_prefix`, and the states that the head would be given, [tokens, D]."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        if not tokens:
            return cache, model.get_output_embeddings().weight.new_zeros(0, 1)
        ids = torch.tensor([list(tokens)], device=model.device)
        positions = torch.arange(len(tokens), device=model.device)[None]
        return cache, run_body(
            model, input_ids=ids, attention_mask=torch.ones_like(ids), position_ids=positions, past_key_values=cache
        )[0]


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
        rows, ids, positions = lay_rows(model, prefix, suffixes)
        lengths = rows.lengths - prefix.get_seq_length()
        wanted = (lengths[:, None] - keep + torch.arange(keep, device=model.device)).clamp(min=0)
        return _run(model, ids, rows.mask, positions, rows.cache, wanted), rows


def find_row_states(model: Any, prefix: Any, suffixes: Sequence[Sequence[int]]) -> Tensor:
    """What the head would be given after each token of each suffix, run as rows: [all suffixes' tokens, D]."""
    import torch

    with torch.inference_mode():
        rows, ids, positions = lay_rows(model, prefix, suffixes)
        states = run_body(
            model, input_ids=ids, attention_mask=rows.mask, position_ids=positions, past_key_values=rows.cache
        )
        return states[rows.mask[:, prefix.get_seq_length() :].bool()]


def run_packed(model: Any, prefix: Any, suffixes: Sequence[Sequence[int]], keep: int = 1) -> Tensor:
    """The logits of `start_rows`, with the suffixes one after another in a single row.

    No padding is run and the prefix isn't repeated; a mask lets each suffix see the prefix and itself alone, and
    positions count on from the prefix for each. What comes after such a row can't be written, so it is for reading.
    """
    import torch

    with torch.inference_mode():
        lengths = torch.tensor([len(suffix) for suffix in suffixes], device=model.device)
        ends = lengths.cumsum(0)
        ids, mask, positions = lay_packed(model, prefix, suffixes)
        wanted = (ends[:, None] - keep + torch.arange(keep, device=model.device)).maximum((ends - lengths)[:, None])
        logits = _run(model, ids, mask, positions, repeat_cache(prefix, 1), wanted.reshape(1, -1))
        return logits.view(len(suffixes), keep, -1)


def find_packed_states(model: Any, prefix: Any, suffixes: Sequence[Sequence[int]]) -> Tensor:
    """What the head would be given after each token of each suffix, run as `run_packed`: [all suffixes' tokens, D]."""
    import torch

    with torch.inference_mode():
        ids, mask, positions = lay_packed(model, prefix, suffixes)
        cache = repeat_cache(prefix, 1)
        return run_body(model, input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache)[0]


def can_pack(model: Any) -> bool:
    """Whether `run_packed` gives the plain way's numbers, tried on a few tokens: not every model heeds such a mask."""
    if model.config._attn_implementation not in ("sdpa", "eager"):
        return False
    prefix, suffixes = [1, 2, 3, 4, 5], [[6, 7], [8, 9, 10], [6, 11]]
    try:
        packed = run_packed(model, run_prefix(model, prefix), suffixes).log_softmax(-1)[:, 0]
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False  # such a mask isn't even taken
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
