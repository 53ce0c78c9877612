"""How a causal language model writes: transformers' own loop, each row drawing by its own seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nfqa.models.chat import Decoding

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LIKELIEST = 512  # sorting only these of 49,152 probabilities takes a fifteenth of the time


def complete(
    model: Any, rows: Sequence[Sequence[int]], seeds: Sequence[int], decoding: Decoding, stops: frozenset[int]
) -> list[list[int]]:
    """The tokens of one completion for each row, its stop token included. Shorter rows have padding before them.

    Each row draws from its own generator, so what it draws depends neither on the other rows nor on their order.
    One row works for every causal model.
    """
    import torch
    from transformers import GenerationConfig, LogitsProcessorList

    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def force_drawn(_: Tensor, scores: Tensor) -> Tensor:
        drawn = draw_tokens(scores, generators, decoding)
        return torch.full_like(scores, -torch.inf).scatter(1, drawn[:, None], 0.0)

    settings = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        max_new_tokens=decoding.max_tokens,
        eos_token_id=sorted(stops) or None,
        pad_token_id=min(stops, default=0),
    )
    width = max(map(len, rows))
    ids = [[*[0] * (width - len(row)), *row] for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    with torch.inference_mode():
        done = model.generate(
            torch.tensor(ids, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            generation_config=settings,
            logits_processor=LogitsProcessorList([force_drawn]),
        )
    written = done[:, width:].tolist()
    ends = [next((i for i, token in enumerate(row, 1) if token in stops), len(row)) for row in written]
    return [row[:end] for row, end in zip(written, ends, strict=True)]


def draw_tokens(logits: Tensor, generators: Sequence[torch.Generator], decoding: Decoding) -> Tensor:
    """One token a row from the smallest set whose probability reaches top_p: logits [B, V], tokens [B].

    A row's uniform number comes from its own generator; the token is where the sum of the sorted probabilities, in
    double precision, passes it.
    """
    import torch

    if decoding.temperature == 0:
        return logits.argmax(-1)
    probabilities = (logits.double() / decoding.temperature).softmax(-1)
    order = probabilities.topk(min(LIKELIEST, probabilities.shape[-1])).indices.sort(-1).values
    ordered, place = probabilities.gather(1, order).sort(descending=True, stable=True)  # of equal ones the first token
    order = order.gather(1, place)
    if (ordered[:, :-1].sum(-1) <= decoding.top_p).any():  # some row's set is larger
        ordered, order = probabilities.sort(descending=True, stable=True)
    summed = ordered.cumsum(-1)
    kept = summed - ordered < decoding.top_p  # [B, V or LIKELIEST]
    uniform = torch.stack([torch.rand((), generator=generator) for generator in generators]).to(logits.device)
    place = (summed < (uniform * (ordered * kept).sum(-1))[:, None]).sum(-1)
    place = place.minimum(kept.sum(-1) - 1)
    return order.gather(1, place[:, None])[:, 0]
