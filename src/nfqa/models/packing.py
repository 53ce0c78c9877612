"""Several sequences run as one: for which models that may be done, and what each of their tokens may see."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import groupby
from typing import Any

Block = tuple[slice, tuple[slice, ...]]  # queries, and the runs of keys that some of them see
_BLOCKS: ContextVar[Sequence[Block]] = ContextVar("blocks", default=())
# A row of as many tokens has a block of its own: with fewer, to copy what it sees costs more than the square saves
# (measured at 12 heads of 64).
_OWN_BLOCK = 32
_NAME = "nfqa_blocks"  # among transformers' attention functions


def can_pack(model: Any) -> bool:
    """Whether several sequences may be run in one, told apart by positions and a mask, without moving any number.

    False for what keeps a state rather than keys and values (state-space and recurrent layers), what takes no positions
    or doesn't heed them (ALiBi, as in BLOOM and some Falcons), what attends in chunks, sparsely, or to a window that no
    mask knows of (GPT-Neo), for attention that takes no mask of its own, and rotations that change with the length of
    the input.
    """
    config = model.config.get_text_config(decoder=True)
    taken = inspect.signature(model.forward).parameters
    ropes = getattr(config, "rope_parameters", None) or {}
    rope_types = {rope.get("rope_type") for rope in (ropes, *ropes.values()) if isinstance(rope, dict)}
    return (
        {"position_ids", "attention_mask", "past_key_values", "logits_to_keep"} <= set(taken)
        and not model._is_stateful
        and not model.config.is_encoder_decoder
        and config._attn_implementation in ("sdpa", "eager")
        and {*(getattr(config, "layer_types", None) or ())} <= {"full_attention", "sliding_attention"}
        and not getattr(config, "attention_chunk_size", None)
        and not getattr(config, "alibi", False)
        and not getattr(config, "keep_window_size", None)
        and not getattr(config, "attention_layers", None)
        and not rope_types & {"dynamic", "longrope"}
    )


def make_mask(model: Any, positions: Sequence[int], owners: Sequence[tuple[int, int]], done: int) -> Any:
    """What each token after the first `done` may see, to be added to attention's scores: 0, or the lowest number.

    A dictionary by kind of layer for a model whose layers differ. owners: each token's group and row there, -1 for
    what the group begins with, and for the group too for what all groups begin with.
    """
    import torch

    place, group, row = torch.tensor(
        [(at, *owner) for at, owner in zip(positions, owners, strict=True)],
        dtype=torch.int32, device=model.device,
    ).T  # fmt: skip
    own = (row[done:, None] == row) | (row == -1)
    order = torch.arange(len(row), dtype=torch.int32, device=row.device)
    seen = ((group[done:, None] == group) & own | (group == -1)) & (order[done:, None] >= order)
    config = model.config.get_text_config(decoder=True)
    window, masks = getattr(config, "sliding_window", None), {}
    for kind in {*(getattr(config, "layer_types", None) or ("sliding_attention",))}:
        sees = seen
        if window and kind == "sliding_attention":
            sees = seen & (place[done:, None] - place < window)
        none = torch.zeros(sees.shape, dtype=model.dtype, device=row.device)
        masks[kind] = none.masked_fill_(~sees, torch.finfo(model.dtype).min)[None, None]
    return masks if len(masks) > 1 else next(iter(masks.values()))


def make_blocks(owners: Sequence[tuple[int, int]], done: int) -> list[Block]:
    """The parts of the mask in which anything is seen, for the tokens after the first `done`; owners: as `make_mask`.

    Short rows beside each other share a block, in which the mask keeps them apart.
    """
    blocks, begun, end = list[Block](), dict[int, slice](), 0
    least = max(_OWN_BLOCK, done // 8)  # to copy what it sees costs more where that begins with much
    alone = {own for own, size in Counter(owners).items() if own[1] < 0 or size >= least}
    for (group, row), run in groupby(owners, lambda own: own if own in alone else (own[0], len(owners))):
        here = slice(end, end := end + len(list(run)))
        seen = (*(begun[one] for one in (-1, group) if one in begun), here)
        if row < 0:
            begun[group] = here
        if here.start >= done:
            blocks.append((slice(here.start - done, here.stop - done), seen))
    return blocks


@contextmanager
def attend_by_blocks(model: Any, blocks: Sequence[Block]) -> Iterator[None]:
    """While this is open, a model that attends by torch's SDPA passes over what the mask hides as a whole."""
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attend)
    config, token = model.config.get_text_config(decoder=True), _BLOCKS.set(blocks)
    usual = config._attn_implementation
    try:
        if usual == "sdpa":
            config._attn_implementation = _NAME
        yield
    finally:
        config._attn_implementation = usual
        _BLOCKS.reset(token)


def _attend(module: Any, query: Any, key: Any, value: Any, mask: Any, *rest: Any, **how: Any) -> tuple[Any, None]:
    """transformers' own SDPA once a block: [1, H, T, D] each, with a mask [1, 1, T, K], to [1, T, H, D].

    What adds a bias of its own to the mask is run as a whole.
    """
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if how.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, mask, *rest, **how)
    parts = []
    for asked, seen in _BLOCKS.get():
        keys, values = (torch.cat([given[:, :, run] for run in seen], 2) for given in (key, value))
        sees = torch.cat([mask[:, :, asked, run] for run in seen], 3)
        parts.append(sdpa_attention_forward(module, query[:, :, asked], keys, values, sees, *rest, **how)[0])
    return torch.cat(parts, 1), None
