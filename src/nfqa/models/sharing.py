"""What several rows begin with, run once: for which models that may be done, and its keys and values used again."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Beginnings:
    """Beginnings that have been run as one batch, with padding before the shorter ones.

    mask: [G, P], 0 for padding. cache: their keys and values, None where all are empty. states: [G, P, D], the last
    layer's, where they were asked for.
    """

    mask: Tensor
    cache: Any = None
    states: Tensor | None = None

    def repeat(self, numbers: Sequence[int]) -> Any:
        """A cache of the beginnings with these numbers, in this order; what it is made from stays as it was."""
        import torch

        if self.cache is None:
            return None
        made = copy.copy(self.cache)
        made.layers = [copy.copy(layer) for layer in self.cache.layers]
        made.batch_select_indices(torch.tensor(numbers, device=self.mask.device))
        return made


def run_beginnings(model: Any, beginnings: Sequence[Sequence[int]], *, states: bool = False) -> Beginnings:
    """Run the beginnings, each on its own; some or all may be empty."""
    import torch
    from transformers import DynamicCache

    width = max(map(len, beginnings))
    ids = [[*[0] * (width - len(tokens)), *tokens] for tokens in beginnings]
    mask = [[0] * (width - len(tokens)) + [1] * len(tokens) for tokens in beginnings]
    masks = torch.tensor(mask, dtype=torch.long, device=model.device).view(len(beginnings), width)
    if not width:
        return Beginnings(masks)
    cache = DynamicCache(config=model.config)
    found = _run(model, ids, masks, past_key_values=cache, logits_to_keep=1, output_hidden_states=states)
    return Beginnings(masks, cache, found.hidden_states[-1] if states else None)


def run_after(
    model: Any,
    begun: Beginnings,
    numbers: Sequence[int],
    rows: Sequence[Sequence[int]],
    keep: Sequence[int],
    **more: Any,
) -> Any:
    """The model's output for each row's own tokens, one or more, after the beginning with its number.

    keep: the places among a row's own tokens whose logits are made. Shorter rows have padding after them.
    """
    import torch

    width = max(map(len, rows))
    ids = [[*tokens, *[0] * (width - len(tokens))] for tokens in rows]
    own = torch.tensor([[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in rows], device=model.device)
    mask = torch.cat([begun.mask[list(numbers)], own], dim=1)
    kept = torch.tensor(keep, device=model.device)
    return _run(model, ids, mask, past_key_values=begun.repeat(numbers), logits_to_keep=kept, **more)


def _run(model: Any, ids: list[list[int]], mask: Tensor, **more: Any) -> Any:
    """mask: [B, T], for all tokens so far, of which `ids` are the last ones."""
    import torch

    positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -len(ids[0]) :]
    given = torch.tensor(ids, device=model.device)
    use_cache = more["past_key_values"] is not None
    with torch.inference_mode():
        return model(input_ids=given, attention_mask=mask, position_ids=positions, use_cache=use_cache, **more)


def can_share(model: Any) -> bool:
    """Whether keys and values may be computed once for several sequences without moving any number.

    False for what keeps a state rather than keys and values (state-space and recurrent layers), what takes no positions
    or doesn't heed them (ALiBi, as in BLOOM and some Falcons), what attends in chunks, sparsely, or to a window that
    its cache doesn't know of (GPT-Neo), and rotations that change with the length of the input.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    config = model.config.get_text_config(decoder=True)
    taken = inspect.signature(model.forward).parameters
    ropes = getattr(config, "rope_parameters", None) or {}
    kinds = {rope.get("rope_type") for rope in (ropes, *ropes.values()) if isinstance(rope, dict)}
    return (
        {"position_ids", "attention_mask", "past_key_values", "logits_to_keep"} <= set(taken)
        and not model._is_stateful
        and not model.config.is_encoder_decoder
        and not getattr(config, "attention_chunk_size", None)
        and not getattr(config, "alibi", False)
        and not getattr(config, "keep_window_size", None)
        and "local" not in (getattr(config, "attention_layers", None) or ())
        and not kinds & {"dynamic", "longrope"}
        and {type(layer) for layer in DynamicCache(config=model.config).layers}
        <= {DynamicLayer, DynamicSlidingWindowLayer}
    )
