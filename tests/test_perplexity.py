"""Perplexities from summed losses, by hand; and the switches between two definitions of one score."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

from nfqa.kernels.perplexity import PAPER, RELEASED, Settings, aggregate_perplexities, compute_perplexities, settings


def test_the_perplexity_is_that_of_the_target_s_own_tokens():
    # Three tokens of probability 1/2, 1/4 and 1/8: the sum is 6 ln 2, over 3 tokens 2 ln 2, so the perplexity is 4.
    nats = 6 * math.log(2)
    assert compute_perplexities([nats], [3], [13]).tolist() == pytest.approx([4.0])
    # Over all 13 attended tokens less one: 6/12 ln 2, so the square root of 2.
    assert compute_perplexities([nats], [3], [13], denominator="attended").tolist() == pytest.approx([2**0.5])


def test_sums_means_and_what_is_missing_or_overflows():
    found = compute_perplexities([math.nan, math.inf, 2000.0], [1, 1, 2], [2, 2, 3])
    np.testing.assert_array_equal(found, [math.nan, math.inf, math.inf])
    assert aggregate_perplexities([2.0, 4.0, 9.0]) == 15.0
    assert aggregate_perplexities([2.0, 4.0, 9.0], aggregate="mean") == 5.0
    assert aggregate_perplexities([2.0, 4.0, 8.0], aggregate="mean_log") == pytest.approx(math.log(4.0))


def test_the_two_variants_differ_in_five_switches():
    paper, released = asdict(PAPER), asdict(RELEASED)
    changed = {name: (paper[name], released[name]) for name in paper if paper[name] != released[name]}
    assert changed == {
        "aggregate": ("sum", "mean"), "denominator": ("target", "attended"), "instruction": ("Please restate.", ""),
        "generation_prompt": (True, False), "boundary": ("apart", "joint"),
    }  # fmt: skip
    assert settings() == PAPER
    assert settings("released") == RELEASED
    assert settings("released", aggregate="sum", boundary="apart") == Settings("sum", "attended", "", False, "apart")


def test_every_switch_is_in_the_signature():
    switched = {
        "aggregate": "mean", "denominator": "attended", "instruction": "Say it again.", "generation_prompt": False,
        "boundary": "joint", "wrapping": "plain", "too_long": "cut_tail",
    }  # fmt: skip
    assert set(switched) | {"plain_format"} == set(Settings.__dataclass_fields__)
    signatures = {settings(**{name: value}).signature for name, value in switched.items()}
    signatures.add(settings(wrapping="plain", plain_format="{answer}").signature)
    assert len(signatures | {PAPER.signature}) == len(switched) + 2
    assert PAPER.signature == "agg:sum|per:target|instr:'Please restate.'|wrap:chat|gen:yes|bound:apart|long:error"

    # what has no effect is left out
    assert settings(plain_format="{answer}").signature == PAPER.signature
    plain = settings(wrapping="plain")
    assert settings(wrapping="plain", generation_prompt=False).signature == plain.signature
    assert settings(aggregate="mean", denominator="attended").reading == PAPER.reading
