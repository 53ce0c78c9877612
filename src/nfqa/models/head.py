"""A model's head, the product with its output matrix: run where it is needed, a block of the vocabulary at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = {"cpu": (1_024, 4_096), "cuda": (8_192, 8_192)}  # states and vocabulary at once: 16 MB of logits, or 256


@dataclass(frozen=True)
class Head:
    """What turns states into logits.

    run: [K, D] to float32 [K, V]. output: the model's output embeddings. divisible: whether those are all that is done,
    so that a block of the vocabulary can be had without the rest.
    """

    run: Callable[[Tensor], Tensor]
    output: Any
    divisible: bool

    def multiply(self, states: Tensor, begin: int, end: int) -> Tensor:
        """The logits of the tokens from begin to end, float32."""
        from torch.nn.functional import linear

        bias = self.output.bias
        return linear(states, self.output.weight[begin:end], None if bias is None else bias[begin:end]).float()

    def find_logprobs(self, states: Tensor, targets: Tensor) -> Tensor:
        """The log-probability of each target, float32 [K], from the state that predicts it, [K, D].

        Formula: z_target - ln(sum over the vocabulary of exp(z)), z the logits in float32, the logarithm of the sum
        carried on from block to block, so that [K, V] is never held. Without blocks of the vocabulary the head takes a
        quarter more time on a processor, an evaluator of GPT-2's shape a tenth.
        """
        import torch

        vocabulary = int(self.output.weight.shape[0])
        deep, wide = _BLOCK["cuda" if states.is_cuda else "cpu"]
        if not self.divisible:
            deep, wide = max(1, deep * wide // vocabulary), vocabulary
        found = []
        for part, wanted in zip(torch.split(states, deep), torch.split(targets, deep), strict=True):
            total = torch.full(wanted.shape, -torch.inf, device=states.device)
            picked = torch.zeros_like(total)
            for begin in range(0, vocabulary, wide):
                logits = self.multiply(part, begin, begin + wide) if self.divisible else self.run(part)
                total = torch.logaddexp(total, logits.logsumexp(-1))
                place = wanted - begin
                own = logits.gather(1, place.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
                picked = torch.where((place >= 0) & (place < logits.shape[1]), own, picked)
            found.append(picked - total)
        return torch.cat(found)


def open_head(model: Any) -> Head:
    """The head of a model, which may do more to its product (a cap, a scale), as a trial shows.

    Then the model runs on one token, and the states take that token's place before the head.
    """
    import torch

    output = model.get_output_embeddings()

    def replace_input(states: Tensor) -> Tensor:
        with _change_input(model, lambda _: states[None]):
            return model(input_ids=torch.ones(1, 1, dtype=torch.long, device=model.device)).logits[0].float()

    with torch.inference_mode():
        ids = torch.arange(1, 9, device=model.device)[None] % output.weight.shape[0]
        plain = model(input_ids=ids).logits[0].float()
        if torch.allclose(output(run_body(model, input_ids=ids)[0]).float(), plain, rtol=1e-4, atol=1e-4):
            return Head(lambda states: output(states).float(), output, type(output) is torch.nn.Linear)
    return Head(replace_input, output, divisible=False)


def run_body(model: Any, **inputs: Any) -> Tensor:
    """What the head would be given at every place, [B, T, D], without its product for any but the first.

    Raises: ValueError where the model makes its logits without calling its output embeddings.
    """
    given: list[Tensor] = []

    def take(states: Tensor) -> Tensor:
        given.append(states)
        return states[:, :1]

    with _change_input(model, take):
        model(**inputs, use_cache="past_key_values" in inputs)
    if not given:
        raise ValueError(f"{type(model).__name__} does not call its output embeddings; expected a model that does")
    return given[0]


@contextmanager
def _change_input(model: Any, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Within it, the model's head is given something else; no gradient is kept."""
    import torch

    hook = model.get_output_embeddings().register_forward_pre_hook(lambda _, given: (change(given[0]), *given[1:]))
    try:
        with torch.inference_mode():
            yield
    finally:
        hook.remove()
