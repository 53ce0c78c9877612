"""Perplexities from summed losses, by hand; and the switches between two definitions of one score."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nfqa.kernels.perplexity import (
    PAPER,
    RELEASED,
    Settings,
    aggregate_perplexities,
    compute_perplexities,
    settings,
)


def test_the_perplexity_is_that_of_the_target_s_own_tokens():
    # Three tokens of probability 1/2, 1/4 and 1/8: the sum is 6 ln 2, over 3 tokens 2 ln 2, so the perplexity is 4.
    nats = 6 * math.log(2)
    assert compute_perplexities([nats], [3], [13]).tolist() == pytest.approx([4.0])
    # Over all 13 attended tokens less one: 6/12 ln 2, so the square root of 2.
    assert compute_perplexities([nats], [3], [13], denominator="attended").tolist() == pytest.approx([2**0.5])


def test_the_released_value_falls_with_the_context_alone():
    nats, tokens = [50.0] * 3, [10] * 3
    attended = [21, 54, 186]  # contexts of 11, 44 and 176 tokens
    assert np.ptp(compute_perplexities(nats, tokens, attended)) == 0
    released = compute_perplexities(nats, tokens, attended, denominator="attended")
    assert released.tolist() == pytest.approx([math.exp(50 / 20), math.exp(50 / 53), math.exp(50 / 185)])
    assert (np.diff(released) < 0).all()


def test_a_loss_that_is_no_number_gives_none_and_an_overflow_is_infinite():
    found = compute_perplexities([math.nan, math.inf, 2000.0], [1, 1, 2], [2, 2, 3])
    assert np.isnan(found[0])
    assert found[1:].tolist() == [math.inf, math.inf]


def test_one_attended_token_divides_by_one():
    assert compute_perplexities([math.log(3)], [1], [1], denominator="attended").tolist() == pytest.approx([3.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1, 2], [3]), "shapes (1,), (2,) and (1,); expected three equal rows"),
        ((1.0, 1, 3), "shapes (), () and ()"),
        (([1.0, 1.0], [1, 0], [3, 3]), "target 1 has 0 tokens of 3 attended; expected 1 or more"),
        (([1.0], [4], [3]), "target 0 has 4 tokens of 3 attended"),
        (([1.0], [math.nan], [3]), "target 0 has nan tokens"),
    ],
)
def test_what_is_no_loss_is_refused(arguments, message):
    with pytest.raises(ValueError) as caught:
        compute_perplexities(*arguments)
    assert message in str(caught.value)


def test_sum_and_mean():
    assert aggregate_perplexities([2.0, 4.0, 9.0]) == 15.0
    assert aggregate_perplexities([2.0, 4.0, 9.0], aggregate="mean") == 5.0
    assert math.isnan(aggregate_perplexities([]))
    assert math.isnan(aggregate_perplexities([], aggregate="mean"))
    for bad in ([1.0, math.nan], [math.inf], [[1.0]]):
        with pytest.raises(ValueError, match="expected a row of finite numbers"):
            aggregate_perplexities(bad)


@pytest.mark.parametrize("call", [aggregate_perplexities, compute_perplexities])
def test_an_unknown_choice_is_refused(call):
    with pytest.raises(ValueError, match="aggregate is 'median'; expected one of sum, mean"):
        aggregate_perplexities([1.0], aggregate="median")
    with pytest.raises(ValueError, match="denominator is 'all'; expected one of target, attended"):
        compute_perplexities([1.0], [1], [2], denominator="all")


def test_the_two_variants_differ_in_five_switches():
    changed = {
        name: (getattr(PAPER, name), getattr(RELEASED, name))
        for name in Settings.__dataclass_fields__
        if getattr(PAPER, name) != getattr(RELEASED, name)
    }
    assert changed == {
        "aggregate": ("sum", "mean"),
        "denominator": ("target", "attended"),
        "instruction": ("Please restate.", ""),
        "generation_prompt": (True, False),
        "boundary": ("apart", "joint"),
    }
    assert settings() == PAPER
    assert settings("released") == RELEASED
    assert settings("released", aggregate="sum", boundary="apart") == Settings("sum", "attended", "", False, "apart")


def test_every_switch_is_in_the_signature():
    switched = {
        "aggregate": "mean",
        "denominator": "attended",
        "instruction": "Say it again.",
        "generation_prompt": False,
        "boundary": "joint",
        "wrapping": "plain",
        "too_long": "cut_tail",
    }
    assert set(switched) | {"plain_format"} == set(Settings.__dataclass_fields__)
    signatures = {settings(**{name: value}).signature for name, value in switched.items()}
    signatures.add(settings(wrapping="plain", plain_format="{answer}").signature)
    assert len(signatures | {PAPER.signature}) == len(switched) + 2
    assert PAPER.signature == ("agg:sum|per:target|instr:'Please restate.'|wrap:chat|gen:yes|bound:apart|long:error")


def test_what_takes_no_part_moves_no_signature():
    assert settings(plain_format="{answer}").signature == PAPER.signature
    plain = settings(wrapping="plain")
    assert settings(wrapping="plain", generation_prompt=False).signature == plain.signature
    assert settings(aggregate="mean", denominator="attended").reading == PAPER.reading


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"aggregate": "median"}, "aggregate is 'median'; expected one of sum, mean"),
        ({"denominator": "x"}, "denominator is 'x'"),
        ({"generation_prompt": "yes"}, "generation_prompt is 'yes'; expected one of True, False"),
        ({"boundary": "x"}, "boundary is 'x'; expected one of apart, joint"),
        ({"wrapping": "x"}, "wrapping is 'x'; expected one of chat, plain"),
        ({"too_long": "cut"}, "too_long is 'cut'; expected one of error, cut_head, cut_middle, cut_tail"),
        ({"instruction": None}, "instruction is None; expected a text, empty for none"),
        ({"plain_format": "x"}, "plain_format is 'x'; expected a text with {answer} in it once"),
        ({"plain_format": "{answer}{answer}"}, "in it once"),
        ({"agregate": "sum"}, "unknown switch 'agregate'; known: aggregate, denominator, instruction"),
    ],
)
def test_a_switch_that_is_none_is_refused(switches, message):
    with pytest.raises(ValueError) as caught:
        settings(**switches)
    assert message in str(caught.value)


def test_an_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="variant is 'upstream'; expected one of paper, released"):
        settings("upstream")
