"""The product with the output matrix, made where a target token needs it and a block of the vocabulary at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfqa.models.row_layout import run_body

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = {"cpu": (1_024, 4_096), "cuda": (8_192, 8_192)}  # states and vocabulary at once: 16 MB of logits, or 256


@dataclass(frozen=True)
class Head:
    """What turns the head's input into logits.

    run: [K, D] to float32 [K, V]. divisible: whether that is the output matrix alone, so that a block of the
    vocabulary can be had without the rest.
    """

    run: Callable[[Tensor], Tensor]
    output: Any
    divisible: bool

    @property
    def vocabulary(self) -> int:
        """V."""
        return int(self.output.weight.shape[0])

    def multiply(self, states: Tensor, begin: int, end: int) -> Tensor:
        """The logits of the tokens from begin to end, float32."""
        from torch.nn.functional import linear

        bias = self.output.bias
        return linear(states, self.output.weight[begin:end], None if bias is None else bias[begin:end]).float()


def open_head(model: Any) -> Head:
    """The head of a model, which may do more to its product (a cap, a scale), as a trial shows.

    Then the model runs on one token, and the states take that token's place before the head.
    """
    import torch

    output = model.get_output_embeddings()

    def replace_input(states: Tensor) -> Tensor:
        handle = output.register_forward_pre_hook(lambda _, given: (states[None], *given[1:]))
        try:
            return model(input_ids=torch.ones(1, 1, dtype=torch.long, device=model.device)).logits[0].float()
        finally:
            handle.remove()

    with torch.inference_mode():
        ids = torch.arange(1, 9, device=model.device)[None] % output.weight.shape[0]
        plain = model(input_ids=ids).logits[0].float()
        simple = torch.allclose(output(run_body(model, input_ids=ids)[0]).float(), plain, rtol=1e-4, atol=1e-4)
    if simple:
        return Head(lambda states: output(states).float(), output, type(output) is torch.nn.Linear)
    return Head(replace_input, output, divisible=False)


def find_logprobs(head: Head, states: Tensor, targets: Tensor) -> Tensor:
    """The log-probability of each target token, float32 [K], from the state that predicts it, [K, D].

    Formula: z_target - ln(sum over the vocabulary of exp(z)), z the logits in float32. The product with the output
    matrix is made in blocks of states and vocabulary, the logarithm of the sum carried on from block to block, so that
    [K, V] is never held; blocks of states alone where the head is not divisible.
    """
    import torch

    deep, wide = _BLOCK["cuda" if states.is_cuda else "cpu"]
    if not head.divisible:
        deep, wide = max(1, deep * wide // head.vocabulary), head.vocabulary
    found = []
    for start in range(0, len(targets), deep):
        part, wanted = states[start : start + deep], targets[start : start + deep]
        total = torch.full(wanted.shape, -torch.inf, device=states.device)
        picked = torch.zeros_like(total)
        for begin in range(0, head.vocabulary, wide):
            logits = head.multiply(part, begin, begin + wide) if head.divisible else head.run(part)
            total = torch.logaddexp(total, logits.logsumexp(-1))
            place = wanted - begin
            inside = (place >= 0) & (place < logits.shape[1])
            own = logits.gather(1, place.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
            picked = torch.where(inside, own, picked)
        found.append(picked - total)
    return torch.cat(found)
