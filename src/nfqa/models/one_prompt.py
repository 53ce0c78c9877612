"""One prompt at a time with nothing shared: the plain way, safe for every causal model, and how a token is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


def compute_logprobs_plain(model: Any, tokens: Sequence[int], keep: int = 1) -> Tensor:
    """Log-probabilities of the next token after each of the last `keep`, float32 [keep, V], nothing shared."""
    import torch

    with torch.inference_mode():
        ids = torch.tensor([list(tokens)], device=model.device)
        return model(input_ids=ids, use_cache=False).logits[0, -keep:].float().log_softmax(-1)


def complete_plain(model: Any, tokens: Sequence[int], seed: int, sampling: Sampling) -> list[int]:
    """The tokens of one completion by transformers' own loop, which knows every kind of cache, nothing shared."""
    import torch
    from transformers import GenerationConfig, LogitsProcessorList

    generator = torch.Generator().manual_seed(seed)

    def force_drawn(_: Tensor, scores: Tensor) -> Tensor:
        drawn = draw_tokens(scores, [generator], sampling)
        return torch.full_like(scores, -torch.inf).scatter(1, drawn[:, None], 0.0)

    settings = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        max_new_tokens=sampling.max_tokens,
        eos_token_id=sorted(sampling.stops) or None,
        pad_token_id=min(sampling.stops, default=0),
    )
    ids = torch.tensor([list(tokens)], device=model.device)
    with torch.inference_mode():
        done = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=settings,
            logits_processor=LogitsProcessorList([force_drawn]),
        )
    return done[0, ids.shape[1] :].tolist()


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
