"""How a causal language model writes: transformers' own loop, after what several prompts share, drawing row by row."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfqa.models.head import run_body

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn. temperature 0 is greedy; `stops` are the tokens that end a completion."""

    temperature: float
    top_p: float
    max_tokens: int
    stops: frozenset[int]


def run_prefix(model: Any, tokens: Sequence[int]) -> Any:
    """Keys and values of what a group's prompts begin with, as a cache of one row; None for no tokens."""
    import torch
    from transformers import DynamicCache

    if not tokens:
        return None
    cache = DynamicCache(config=model.config)
    ids = torch.tensor([list(tokens)], device=model.device)
    run_body(model, input_ids=ids, attention_mask=torch.ones_like(ids), past_key_values=cache)
    return cache


def complete(
    model: Any, prefix: Any, rows: Sequence[Sequence[int]], seeds: Sequence[int], sampling: Sampling
) -> list[list[int]]:
    """The tokens of one completion for each row, its stop token included.

    prefix: what `run_prefix` gives for the tokens that all rows begin with, which stays as it was; None to share
    nothing. Shorter rows have padding after it. Each row draws from its own generator, so what it draws depends
    neither on the other rows nor on their order. Without a prefix, one row works for every causal model.
    """
    import torch
    from transformers import GenerationConfig, LogitsProcessorList

    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def force_drawn(_: Tensor, scores: Tensor) -> Tensor:
        drawn = draw_tokens(scores, generators, sampling)
        return torch.full_like(scores, -torch.inf).scatter(1, drawn[:, None], 0.0)

    settings = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        max_new_tokens=sampling.max_tokens,
        eos_token_id=sorted(sampling.stops) or None,
        pad_token_id=min(sampling.stops, default=0),
    )
    begun = prefix.get_seq_length() if prefix is not None else 0
    width = max(map(len, rows))
    ids = [[*row[:begun], *[0] * (width - len(row)), *row[begun:]] for row in rows]
    mask = [[1] * begun + [0] * (width - len(row)) + [1] * (len(row) - begun) for row in rows]
    with torch.inference_mode():
        done = model.generate(
            torch.tensor(ids, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            generation_config=settings,
            logits_processor=LogitsProcessorList([force_drawn]),
            **({} if prefix is None else {"past_key_values": _repeat_cache(prefix, len(rows))}),
        )
    written = done[:, width:].tolist()
    ends = [next((i for i, token in enumerate(row, 1) if token in sampling.stops), len(row)) for row in written]
    return [row[:end] for row, end in zip(written, ends, strict=True)]


def draw_tokens(logits: Tensor, generators: Sequence[torch.Generator], sampling: Sampling) -> Tensor:
    """One token a row from the smallest set whose probability reaches top_p: logits [B, V], tokens [B].

    A row's uniform number comes from its own generator; the token is where the sorted probabilities' sum passes it.
    """
    import torch

    if sampling.temperature == 0:
        return logits.argmax(-1)
    probabilities, order = (logits.float() / sampling.temperature).softmax(-1).sort(descending=True, stable=True)
    summed = probabilities.cumsum(-1)
    kept = summed - probabilities < sampling.top_p  # [B, V]
    uniform = torch.stack([torch.rand((), generator=generator) for generator in generators]).to(logits.device)
    place = (summed < (uniform * (probabilities * kept).sum(-1))[:, None]).sum(-1)
    place = place.minimum(kept.sum(-1) - 1)
    return order.gather(1, place[:, None])[:, 0]


def _repeat_cache(prefix: Any, rows: int) -> Any:
    """A cache of `rows` equal rows. The tensors are views: a layer grows by making a new one, so none is written to."""
    cache = copy.copy(prefix)
    cache.layers = [copy.copy(layer) for layer in prefix.layers]
    for layer in cache.layers:
        if layer.is_initialized:
            layer.keys = layer.keys.expand(rows, -1, -1, -1)
            layer.values = layer.values.expand(rows, -1, -1, -1)
    return cache
