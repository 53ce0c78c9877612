"""The continuous cache, by hand, and as a distribution over the whole vocabulary."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nfqa.models.continuous_cache import ContinuousCache, mix_logprobs

V = 7


def mix_every_token(cache, logits, state, keys, followers):
    """The probability of each token of the vocabulary at one place."""
    logprobs = logits.log_softmax(-1)
    found = mix_logprobs(cache, logprobs, state.repeat(V, 1), torch.arange(V), keys, followers)
    return found.exp().tolist()


def test_two_pairs_by_hand():
    # State (2, 0) against keys (1, 0) and (0, 3): cosines 1 and 0, theta ln 3, so weights 3 and 1 of 4.
    cache = ContinuousCache(theta=math.log(3), weight=0.2)
    keys, followers = torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([4, 5])
    states = torch.tensor([[2.0, 0.0]]).repeat(3, 1)
    logprobs = torch.tensor([0.5, 0.25, 0.1]).log()
    found = mix_logprobs(cache, logprobs, states, torch.tensor([4, 5, 6]), keys, followers).exp()
    # 0.8 x 0.5 + 0.2 x 0.75 = 0.55; 0.8 x 0.25 + 0.2 x 0.25 = 0.25; 0.8 x 0.1 = 0.08
    assert found.tolist() == pytest.approx([0.55, 0.25, 0.08])


@hypothesis_settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), pairs=st.integers(0, 6), theta=st.floats(0, 30), weight=st.floats(0, 0.99))
def test_the_mixture_sums_to_one_over_the_vocabulary(seed, pairs, theta, weight):
    draw = torch.Generator().manual_seed(seed)
    keys, state = torch.randn(pairs, 3, generator=draw), torch.randn(3, generator=draw)
    followers = torch.randint(0, V, (pairs,), generator=draw)
    logits = torch.randn(V, generator=draw)
    found = mix_every_token(ContinuousCache(theta, weight), logits, state, keys, followers)
    assert sum(found) == pytest.approx(1, abs=1e-5)
    assert min(found) >= 0


@pytest.mark.parametrize(("weight", "pairs"), [(0.0, 1), (0.2, 0)])
def test_without_weight_or_without_pairs_the_model_stands_alone(weight, pairs):
    logprobs, states, targets = torch.tensor([-1.0, -2.0]), torch.ones(2, 3), torch.tensor([1, 1])
    keys, followers = torch.ones(1, 3)[:pairs], torch.tensor([1])[:pairs]
    found = mix_logprobs(ContinuousCache(weight=weight), logprobs, states, targets, keys, followers)
    assert found.tolist() == [-1, -2]
