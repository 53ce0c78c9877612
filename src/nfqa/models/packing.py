"""Several sequences run as one: for which models that may be done, and what each of their tokens may see."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any


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
    what the group begins with.
    """
    import torch

    place, group, row = torch.tensor(
        [(at, *owner) for at, owner in zip(positions, owners, strict=True)],
        dtype=torch.int32, device=model.device,
    ).T  # fmt: skip
    own = (row[done:, None] == row) | (row == -1)
    order = torch.arange(len(row), dtype=torch.int32, device=row.device)
    seen = (group[done:, None] == group) & own & (order[done:, None] >= order)
    config = model.config.get_text_config(decoder=True)
    window, masks = getattr(config, "sliding_window", None), {}
    for kind in {*(getattr(config, "layer_types", None) or ("sliding_attention",))}:
        sees = seen
        if window and kind == "sliding_attention":
            sees = seen & (place[done:, None] - place < window)
        none = torch.zeros(sees.shape, dtype=model.dtype, device=row.device)
        masks[kind] = none.masked_fill_(~sees, torch.finfo(model.dtype).min)[None, None]
    return masks if len(masks) > 1 else next(iter(masks.values()))
