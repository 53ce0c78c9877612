"""Many contexts, each with its targets, as one sequence: no padding, and attention only where something is seen.

All layers but attention work token by token, so they take the whole sequence at once. Attention is done piece by
piece: a context within itself, each target within itself and its context. That is what a block mask over the whole
sequence would give, without the products that such a mask throws away.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfqa.models.one_prompt import compute_logprobs_plain
from nfqa.models.row_layout import make_mask, run_body

if TYPE_CHECKING:
    from torch import Tensor

_NAME = "nfqa_segments"
# Suffix tokens in one call of attention: a processor does best without any product that a mask throws away, a graphics
# card with fewer calls.
_TOGETHER = {"cpu": 0, "cuda": 1_024}


@dataclass(frozen=True)
class Segment:
    """What several rows share, and what each has of its own, one token or more."""

    prefix: tuple[int, ...]
    suffixes: tuple[tuple[int, ...], ...]

    @property
    def length(self) -> int:
        """All its tokens."""
        return len(self.prefix) + sum(map(len, self.suffixes))


@dataclass(frozen=True)
class _Piece:
    """Suffixes of one context: where that and they begin and end, and the mask [T, context + T]."""

    context: slice
    own: slice
    mask: Tensor | None


@dataclass(frozen=True)
class _Layout:
    contexts: tuple[slice, ...]
    pieces: tuple[_Piece, ...]


_current: ContextVar[_Layout] = ContextVar("layout")


def run_segments(model: Any, segments: Sequence[Segment]) -> list[Tensor]:
    """What the head would be given after each token: of each segment, [its length, D], prefix first.

    Positions begin at 0 in each segment, and each suffix counts on from its prefix.
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
    layout = _lay_out(segments, model)
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
    return list(torch.split(states, [part.length for part in segments]))


def can_segment(model: Any) -> bool:
    """Whether `run_segments` gives the plain way's numbers, tried on a few tokens.

    Not so for a model that brings its own attention, or adds to it what is not passed on (a cap, sinks, a bias).
    """
    if model.config._attn_implementation not in ("sdpa", "eager"):
        return False
    tried = [Segment((1, 2, 3, 4, 5), ((6, 7), (8, 9, 10))), Segment((), ((6, 11, 2),))]
    try:
        states = run_segments(model, tried)
    except (TypeError, ValueError, KeyError, RuntimeError):
        return False
    output = model.get_output_embeddings()
    rows = [(segment.prefix + suffix) for segment in tried for suffix in segment.suffixes]
    ends = [states[0][6], states[0][9], states[1][2]]
    return all(_agree(output, model, end, row) for end, row in zip(ends, rows, strict=True))


def _agree(output: Any, model: Any, state: Tensor, row: tuple[int, ...]) -> bool:
    """Whether a state found by segments gives the next token's distribution after a row run alone."""
    import torch

    handle = output.register_forward_pre_hook(lambda _, given: (state[None, None], *given[1:]))
    try:
        with torch.inference_mode():
            found = compute_logprobs_plain(model, row[:1])[0]
    finally:
        handle.remove()
    apart = float((found - compute_logprobs_plain(model, row)[0]).abs().max())
    return apart < (1e-3 if model.dtype.itemsize > 2 else 0.25)


def _lay_out(segments: Sequence[Segment], model: Any) -> _Layout:
    import torch

    most = _TOGETHER["cuda" if model.device.type == "cuda" else "cpu"]
    contexts, pieces, masks, place = [], [], {}, 0
    for segment in segments:
        begun = len(segment.prefix)
        context = slice(place, place + begun)
        if begun:
            contexts.append(context)
        place += begun
        for sizes in _gather([len(suffix) for suffix in segment.suffixes], most):
            if (begun or len(sizes) > 1) and (begun, sizes) not in masks:
                masks[begun, sizes] = make_mask(begun, torch.tensor(sizes, device=model.device), model.dtype)
            pieces.append(_Piece(context, slice(place, place + sum(sizes)), masks.get((begun, sizes))))
            place += sum(sizes)
    return _Layout(tuple(contexts), tuple(pieces))


def _gather(sizes: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Neighbours together, as long as they sum to at most `most`."""
    gathered: list[tuple[int, ...]] = []
    for size in sizes:
        if gathered and sum(gathered[-1]) + size <= most:
            gathered[-1] = (*gathered[-1], size)
        else:
            gathered.append((size,))
    return gathered


def _attend(
    _module: Any, query: Tensor, key: Tensor, value: Tensor, _mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention as transformers calls it: query [1, H, T, d], keys and values [1, heads of theirs, T, d]."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    refused = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
    if refused:
        raise ValueError(f"attention with {refused[0]} can't be done in segments")
    layout, scale = _current.get(), options.get("scaling")
    if key.shape[1] != query.shape[1]:
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    found = torch.empty(*query.shape[:-1], value.shape[-1], dtype=query.dtype, device=query.device)
    for part in layout.contexts:
        found[:, :, part] = attend(query[:, :, part], key[:, :, part], value[:, :, part], is_causal=True, scale=scale)
    for piece in layout.pieces:
        own = piece.own
        if piece.mask is None:
            found[:, :, own] = attend(query[:, :, own], key[:, :, own], value[:, :, own], is_causal=True, scale=scale)
            continue
        keys, values = (torch.cat([x[:, :, piece.context], x[:, :, own]], dim=2) for x in (key, value))
        found[:, :, own] = attend(query[:, :, own], keys, values, attn_mask=piece.mask, scale=scale)
    return found.transpose(1, 2).contiguous(), None
