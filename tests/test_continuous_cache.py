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


def mix_every_token(cache, logits, state, past, keys, followers):
    """The probability of each token of the vocabulary at one place, after `past` target tokens and their states."""
    states, tokens = past
    found = []
    for token in range(V):
        targets = torch.cat([tokens, torch.tensor([token])])
        logprobs = torch.cat([torch.zeros(len(tokens)), logits.log_softmax(-1)[[token]]])
        mixed = mix_logprobs(cache, logprobs, torch.cat([states, state[None]]), targets, keys, followers)
        found.append(float(mixed[-1].exp()))
    return found


def test_two_pairs_by_hand():
    # State (2, 0) against keys (1, 0) and (0, 3): cosines 1 and 0, theta ln 3, so weights 3 and 1 of 4.
    cache = ContinuousCache(theta=math.log(3), weight=0.2)
    keys, followers = torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([4, 5])
    states = torch.tensor([[2.0, 0.0]]).repeat(3, 1)
    logprobs = torch.tensor([0.5, 0.25, 0.1]).log()
    found = mix_logprobs(cache, logprobs, states, torch.tensor([4, 5, 6]), keys, followers).exp()
    # 0.8 x 0.5 + 0.2 x 0.75 = 0.55; 0.8 x 0.25 + 0.2 x 0.25 = 0.25; 0.8 x 0.1 = 0.08
    assert found.tolist() == pytest.approx([0.55, 0.25, 0.08])


def test_the_target_s_own_past_counts_up_to_where_it_is_predicted():
    # No pair of the answer. The second token's only pair would be itself, so it has none; the third sees the pair of
    # the second: token 4 after a state that is its own, so p_cache(4) = 1.
    cache = ContinuousCache(theta=5.0, weight=0.5, over="context_and_target")
    states, targets = torch.tensor([[1.0, 0.0]] * 3), torch.tensor([4, 4, 4])
    logprobs = torch.tensor([0.1, 0.1, 0.1]).log()
    nothing = (torch.zeros(0, 2), torch.zeros(0, dtype=torch.long))
    found = mix_logprobs(cache, logprobs, states, targets, *nothing).exp()
    assert found.tolist() == pytest.approx([0.1, 0.1, 0.5 * 0.1 + 0.5])


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    pairs=st.integers(0, 6),
    past=st.integers(0, 4),
    theta=st.floats(0, 30),
    weight=st.floats(0, 0.99),
    over=st.sampled_from(["context", "context_and_target"]),
)
def test_the_mixture_sums_to_one_over_the_vocabulary(seed, pairs, past, theta, weight, over):
    draw = torch.Generator().manual_seed(seed)
    keys, states = torch.randn(pairs, 3, generator=draw), torch.randn(past + 1, 3, generator=draw)
    followers = torch.randint(0, V, (pairs,), generator=draw)
    tokens = torch.randint(0, V, (past,), generator=draw)
    logits = torch.randn(V, generator=draw)
    cache = ContinuousCache(theta, weight, over)
    found = mix_every_token(cache, logits, states[-1], (states[:-1], tokens), keys, followers)
    assert sum(found) == pytest.approx(1, abs=1e-5)
    assert min(found) >= 0


def test_a_token_that_followed_a_similar_state_gains_and_the_others_lose():
    logits, keys = torch.zeros(V), torch.eye(3)
    past = (torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
    followers = torch.tensor([1, 2, 3])
    found = mix_every_token(ContinuousCache(), logits, torch.tensor([0.0, 5.0, 0.1]), past, keys, followers)
    assert found[2] == pytest.approx(0.8 / 7 + 0.2, abs=1e-3)
    assert found[0] == pytest.approx(0.8 / 7)


def test_without_weight_or_without_pairs_the_model_stands_alone():
    logprobs, states, targets = torch.tensor([-1.0, -2.0]), torch.ones(2, 3), torch.tensor([1, 1])
    keys, followers = torch.ones(1, 3), torch.tensor([1])
    assert mix_logprobs(ContinuousCache(weight=0), logprobs, states, targets, keys, followers).tolist() == [-1, -2]
    for over in ("context", "context_and_target"):
        none = mix_logprobs(ContinuousCache(over=over), logprobs[:1], states[:1], targets[:1], keys[:0], followers[:0])
        assert none.tolist() == [-1.0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"theta": -1.0}, "theta is -1.0 and weight 0.2; expected 0 or more, and 0 or more below 1"),
        ({"theta": math.inf}, "theta is inf"),
        ({"theta": math.nan}, "theta is nan"),
        ({"weight": 1.0}, "weight 1.0"),
        ({"over": "target"}, "over is 'target'; expected one of context, context_and_target"),
    ],
)
def test_a_cache_that_can_not_be_is_refused(fields, message):
    with pytest.raises(ValueError) as caught:
        ContinuousCache(**fields)
    assert message in str(caught.value)
