"""A continuous cache: what followed similar hidden states in the context is likelier to follow now."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from torch import Tensor

Over = Literal["context", "context_and_target"]


@dataclass(frozen=True)
class ContinuousCache:
    """A language model's distribution mixed with one over the tokens of the text that it has before it.

    Formula: p(x | h) = (1 - weight) p_lm(x | h) + weight p_cache(x | h), where p_cache(x | h) is the share of
    exp(theta cos(h, h_i)) that falls on pairs (h_i, x_i) with x_i = x. h is the state that the output matrix would
    multiply; x_i is the token that came after h_i.
    over: "context" takes pairs of the answer alone: h_i at each token of the answer but its last, x_i the next token
    of the answer. What the template or the instruction adds does not count. "context_and_target" adds the target's
    own past, its tokens before the one that is predicted, each but the first paired with the state before it.
    Both p_lm and p_cache sum to 1 over the vocabulary, so p does. Where there is no pair yet, p is p_lm.
    Raises: ValueError for a theta below 0 or not finite, a weight outside [0, 1), or an unknown `over`.
    Source: Grave, Joulin and Usunier (2017), linear interpolation. Differs from: it, as states are scaled to unit
        length, so that theta means the same in every model; and in what is remembered, there all of the recent past.
    """

    theta: float = 10.0
    weight: float = 0.2
    over: Over = "context"

    def __post_init__(self) -> None:
        if not 0 <= self.theta < math.inf or not 0 <= self.weight < 1:
            raise ValueError(
                f"theta is {self.theta} and weight {self.weight}; expected 0 or more, and 0 or more below 1"
            )
        if self.over not in get_args(Over):
            raise ValueError(f"over is {self.over!r}; expected one of {', '.join(get_args(Over))}")

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

    own = cache.over == "context_and_target"
    queries = normalize(states.float(), dim=-1)
    remembered = normalize(keys.float(), dim=-1)
    if own:
        remembered, followers = torch.cat([remembered, queries[1:]]), torch.cat([followers, targets[1:]])
    if not len(followers):
        return logprobs.float()
    scores = cache.theta * queries @ remembered.T  # [T, C]
    if own:
        place = torch.arange(len(targets), device=targets.device)
        hidden = place[1:] >= place[:, None]  # a token does not predict itself
        scores[:, len(keys) :] = scores[:, len(keys) :].masked_fill(hidden, -torch.inf)
    every = scores.logsumexp(-1)
    right = scores.masked_fill(followers != targets[:, None], -torch.inf).logsumexp(-1)
    weight = torch.tensor(cache.weight, dtype=torch.float32, device=scores.device)
    mixed = torch.logaddexp(logprobs.float() + torch.log1p(-weight), right - every + weight.log())
    return torch.where(every == -torch.inf, logprobs.float(), mixed)
