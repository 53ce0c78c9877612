"""Many prefixes, each with its suffixes, as one sequence: no padding, and attention only where something is seen.

All layers but attention work token by token, so they take the whole sequence at once. Attention is done piece by
piece: a prefix within itself, each suffix within itself and its prefix. That is what a block mask over the whole
sequence would give, without the products that such a mask throws away.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfqa.models.head import run_body

if TYPE_CHECKING:
    from torch import Tensor

_NAME = "nfqa_packed"
# Suffix tokens in one call of attention: a processor does best without any product that a mask throws away, a graphics
# card with fewer calls.
_TOGETHER = {"cpu": 0, "cuda": 1_024}


@dataclass(frozen=True)
class Segment:
    """What several sequences share, and what each has of its own, one token or more."""

    prefix: tuple[int, ...]
    suffixes: tuple[tuple[int, ...], ...]

    @property
    def length(self) -> int:
        """All its tokens."""
        return len(self.prefix) + sum(map(len, self.suffixes))


@dataclass(frozen=True)
class _Piece:
    """Neighbours that attention takes in one call: the prefix before them, their own tokens, and each one's length."""

    prefix: slice
    own: slice
    sizes: tuple[int, ...]


@dataclass
class _Layout:
    """The pieces of a sequence, and what attention leaves there: masks to use again, and the windows it was told."""

    pieces: list[_Piece]
    masks: dict[tuple[int, tuple[int, ...], int | None], Tensor] = field(default_factory=dict)
    windows: set[int | None] = field(default_factory=set)


_current: ContextVar[_Layout] = ContextVar("layout")


def run_segments(model: Any, segments: Sequence[Segment]) -> list[Tensor]:
    """What the head would be given after each token: of each segment, [its length, D], prefix first.

    Positions begin at 0 in each segment, and each suffix counts on from its prefix.
    Raises: ValueError for a model that adds to attention, or has windows, of which attention isn't told.
    """
    import torch
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attend)
    flat = [token for part in segments for piece in (part.prefix, *part.suffixes) for token in piece]
    positions = [
        torch.arange(begin, begin + size)
        for part in segments
        for begin, size in [(0, len(part.prefix)), *((len(part.prefix), len(own)) for own in part.suffixes)]
    ]
    layout = _Layout(_lay_out(segments, _TOGETHER["cuda" if model.device.type == "cuda" else "cpu"]))
    before, token = model.config._attn_implementation, _current.set(layout)
    model.config._attn_implementation = _NAME
    try:
        states = run_body(
            model,
            input_ids=torch.tensor([flat], device=model.device),
            attention_mask=torch.zeros(1, 1, 1, 1, dtype=model.dtype, device=model.device),  # a mask, so none is made
            position_ids=torch.cat(positions)[None].to(model.device),
        )[0]
    finally:
        model.config._attn_implementation = before
        _current.reset(token)
    if layout.windows != set(_list_windows(model)):
        raise ValueError(f"{type(model).__name__} doesn't tell attention its sliding windows")
    return list(torch.split(states, [part.length for part in segments]))


def can_share(model: Any) -> bool:
    """Whether keys and values may be computed once for several sequences without moving any number.

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


def find_window(model: Any) -> int | None:
    """The shortest sliding window of a model's layers, in tokens, or None where every layer looks all the way back."""
    return min((window for window in _list_windows(model) if window), default=None)


def _list_windows(model: Any) -> list[int | None]:
    from transformers import DynamicCache

    return [getattr(layer, "sliding_window", None) for layer in DynamicCache(config=model.config).layers]


def _lay_out(segments: Sequence[Segment], together: int) -> list[_Piece]:
    """The pieces of all segments: each prefix, and suffixes next to each other as long as they have few tokens."""
    pieces, place = [], 0
    for segment in segments:
        prefix = slice(place, place + len(segment.prefix))
        pieces.append(_Piece(slice(place, place), prefix, (len(segment.prefix),)))
        place = prefix.stop
        sizes: tuple[int, ...] = ()
        for size in (len(suffix) for suffix in segment.suffixes):
            if sizes and sum(sizes) + size > together:
                pieces.append(_Piece(prefix, slice(place, place + sum(sizes)), sizes))
                place, sizes = place + sum(sizes), ()
            sizes = (*sizes, size)
        pieces.append(_Piece(prefix, slice(place, place + sum(sizes)), sizes))
        place += sum(sizes)
    return [piece for piece in pieces if sum(piece.sizes)]


def _attend(
    _module: Any, query: Tensor, key: Tensor, value: Tensor, _mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention as transformers calls it: query [1, H, T, d], keys and values [1, heads of theirs, T, d]."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    if options.get("position_bias") is not None:
        raise ValueError("attention with a bias by position can't be done in pieces")
    layout, scale, window = _current.get(), options.get("scaling"), options.get("sliding_window")
    cap, sinks = options.get("softcap"), options.get("s_aux")
    layout.windows.add(window)
    if key.shape[1] != query.shape[1]:
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    found = torch.empty(*query.shape[:-1], value.shape[-1], dtype=query.dtype, device=query.device)
    for piece in layout.pieces:
        own, begun = piece.own, piece.prefix.stop - piece.prefix.start
        near = window if window and begun + max(piece.sizes) > window else None
        kind = (begun, piece.sizes, near)
        mask = None  # torch's own causal mask does
        if begun or len(piece.sizes) > 1 or near or cap is not None or sinks is not None:
            mask = layout.masks[kind] = layout.masks[kind] if kind in layout.masks else _make_mask(*kind, query)
        asked, keys, values = query[:, :, own], key[:, :, own], value[:, :, own]
        if begun:
            keys, values = (
                torch.cat([x[:, :, piece.prefix], part], dim=2) for x, part in ((key, keys), (value, values))
            )
        if mask is None or (cap is None and sinks is None):
            causal = mask is None
            attended = scaled_dot_product_attention(asked, keys, values, attn_mask=mask, is_causal=causal, scale=scale)
        else:
            attended = _attend_plainly(asked, keys, values, mask, scale, cap, sinks)
        found[:, :, own] = attended
    return found.transpose(1, 2).contiguous(), None


def _attend_plainly(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float | None, cap: float | None, sinks: Any
) -> Tensor:
    """Attention with capped scores (Gemma 2), or with a sink in each head that takes a share of it (GPT-OSS)."""
    import torch

    scores = query @ keys.transpose(2, 3) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = (scores if cap is None else cap * torch.tanh(scores / cap)) + mask
    if sinks is not None:
        scores = torch.cat([scores, sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], dim=-1)
    shares = scores.softmax(-1, dtype=torch.float32).to(values.dtype)
    return shares[..., : keys.shape[2]] @ values


def _make_mask(begun: int, sizes: tuple[int, ...], window: int | None, like: Tensor) -> Tensor:
    """What is added to attention's scores, [T, begun + T], for suffixes of these sizes, T together, behind a prefix.

    0 where a token sees another, in the prefix or before it in its own suffix, and within the window; else the dtype's
    least number.
    """
    import torch

    lengths = torch.tensor(sizes, device=like.device)
    first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)  # [T], where a token's own suffix begins
    places = torch.arange(len(first), device=like.device)
    seen = (places[:, None] >= places) & (places >= first[:, None])
    seen = torch.cat([seen.new_ones(len(places), begun), seen], dim=1)
    if window is not None:
        positions = begun + places - first
        before = torch.cat([torch.arange(begun, device=like.device), positions])
        seen &= positions[:, None] - before < window
    return torch.zeros(seen.shape, dtype=like.dtype, device=like.device).masked_fill(~seen, torch.finfo(like.dtype).min)
