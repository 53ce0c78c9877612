"""A GPT-2 with copying heads put in repeats what stands in its context, before any training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from train_evaluator.copying_heads import put_in_copying_heads
from transformers import GPT2Config, GPT2LMHeadModel


def _make_model(*, layers: int = 2, width: int = 192, heads: int = 3) -> Any:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=500, n_positions=256, n_embd=width, n_layer=layers, n_head=heads, bos_token_id=0, eos_token_id=0
    )
    return GPT2LMHeadModel(config).eval()


def _share_copied(model: Any) -> float:
    """20 other tokens, 40 random tokens, 7 others, and the 40 once more: the share of these that is foreseen."""
    draw = torch.Generator().manual_seed(1)
    repeated = torch.randint(500, (4, 40), generator=draw)
    before, between = torch.randint(500, (4, 20), generator=draw), torch.randint(500, (4, 7), generator=draw)
    with torch.inference_mode():
        said = model(torch.cat([before, repeated, between, repeated], 1)).logits.argmax(-1)
    return float((said[:, -40:-1] == repeated[:, 1:]).float().mean())


@pytest.mark.parametrize(("layers", "width", "heads"), [(2, 192, 3), (3, 256, 4), (4, 320, 5)])
def test_copies_before_training(layers: int, width: int, heads: int) -> None:
    model = _make_model(layers=layers, width=width, heads=heads)
    assert _share_copied(model) < 0.05  # as made by transformers: chance is 1 in 500
    put_in_copying_heads(model, seed=3)
    assert _share_copied(model) > 0.85
