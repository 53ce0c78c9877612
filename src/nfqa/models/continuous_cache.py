"""A continuous cache: what followed similar hidden states in the context is likelier to follow now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ContinuousCache:
    """A language model's distribution mixed with one over the tokens of the text that it has before it.

    Formula: p(x | h) = (1 - weight) p_lm(x | h) + weight p_cache(x | h), where p_cache(x | h) is the share of
    exp(theta cos(h, h_i)) that falls on pairs (h_i, x_i) with x_i = x. h is the state that the output matrix would
    multiply; x_i is the token that came after h_i.
    over: "context" takes pairs of the answer alone: h_i at each token of the answer but its last, x_i the next token
    of the answer. What the template or the instruction adds does not count, nor does the target's own past.
    Both p_lm and p_cache sum to 1 over the vocabulary, so p does. Where there is no pair yet, p is p_lm.
    Raises: ValueError for a theta below 0 or not finite, a weight outside [0, 1), or another `over`.
    Source: Grave, Joulin and Usunier (2017), linear interpolation. Differs from: it, as states are scaled to unit
        length, so that theta means the same in every model; and in what is remembered, there all of the recent past.
    """

    theta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    weight: Annotated[float, Field(ge=0, lt=1)] = 0.2
    over: Literal["context"] = "context"

    @property
    def signature(self) -> str:
        """How it appears in an evaluator's identity."""
        return f"cache:theta={self.theta!r},weight={self.weight!r},over={self.over}"


def mix_logprobs(
    cache: ContinuousCache, logprobs: Tensor, states: Tensor, targets: Tensor, keys: Tensor, followers: Tensor
) -> Tensor:
    """The log-probability of each target token under model and cache together, float32 [T].

    logprobs: [T], each target token's under the model alone, in nats. states: [T, D], the state that predicts it.
    targets: [T]. keys: [C, D] and followers: [C], the answer's pairs.
    """
    import torch
    from torch.nn.functional import normalize

    if not len(followers):
        return logprobs.float()
    queries, remembered = normalize(states.float(), dim=-1), normalize(keys.float(), dim=-1)
    scores = cache.theta * queries @ remembered.T  # [T, C]
    right = scores.masked_fill(followers != targets[:, None], -torch.inf).logsumexp(-1)
    weight = torch.tensor(cache.weight, dtype=torch.float32, device=scores.device)
    return torch.logaddexp(logprobs.float() + torch.log1p(-weight), right - scores.logsumexp(-1) + weight.log())
