"""The engine that judges and evaluators share: what it shares and batches against one row at a time by transformers."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import count_tokens
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    GptOssConfig,
    LlamaConfig,
    MambaConfig,
)

from nfqa.models import causal_lm
from nfqa.models.causal_lm import complete, draw_tokens
from nfqa.models.chat import Decoding
from nfqa.models.engine import Engine, Row

pytestmark = pytest.mark.usefixtures("one_thread")

GREEDY, SAMPLED, STOPS = Decoding(0, 1.0, 9), Decoding(1.0, 0.9, 9), frozenset({1})
SMALL = {"vocab_size": 400, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 3, "initializer_range": 0.3}
SHAPE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
HEADS = {"num_key_value_heads": 2, "head_dim": 4}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
OTHERS = {
    "capped scores and logits, windows": Gemma2Config(
        sliding_window=16, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, query_pre_attn_scalar=4,
        **HEADS, **SHAPE, **SMALL,
    ),
    "sinks": GptOssConfig(
        sliding_window=16, num_local_experts=2, num_experts_per_tok=1,
        layer_types=["sliding_attention", "full_attention"],
        **HEADS, **SHAPE, **SMALL,
    ),
    "no positions": BloomConfig(hidden_size=16, n_layer=2, n_head=2, **SMALL),
    "a state, no keys": MambaConfig(hidden_size=16, num_hidden_layers=2, state_size=4, **SMALL),
    "changing rotations": LlamaConfig(max_position_embeddings=2048, rope_parameters=DYNAMIC, **SHAPE, **SMALL),
}  # fmt: skip
ALONE = {"a state, no keys", "changing rotations"}


def make_groups(seed: int = 0, *, longest: int = 90, rows: int = 4) -> list[list[Row]]:
    """Random contexts, each with random targets after it, one of them empty and one asked about twice."""
    rng = random.Random(seed)
    groups = []
    for _ in range(4):
        context = tuple(rng.randrange(5, 400) for _ in range(rng.randrange(1, longest)))
        group = []
        for _ in range(rng.randrange(rows + 1)):
            targets = tuple(rng.randrange(5, 400) for _ in range(rng.randrange(20)))
            places = tuple(range(len(context) - 1, len(context) - 1 + len(targets)))
            group.append(Row(context + targets, places, targets))
        groups.append([*group, *group[:1]])
    return groups


def collect(batches: Any) -> dict[tuple[int, int], Any]:
    outcome = [item for batch in batches for item in batch]
    assert len({(group, place) for group, place, _ in outcome}) == len(outcome)
    return {(group, place): result for group, place, result in outcome}


def assert_plain(run: Engine, groups: list[list[Row]]) -> None:
    outcome = collect(run.find_logprobs(groups))
    assert set(outcome) == {(i, j) for i, rows in enumerate(groups) for j in range(len(rows))}
    for (i, j), logprobs in outcome.items():
        assert logprobs.dtype == torch.float64
        assert logprobs.tolist() == pytest.approx(run.find_plain(groups[i][j]).tolist(), rel=1e-4, abs=1e-4)


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> dict[str, Any]:
    made = {name: AutoModelForCausalLM.from_pretrained(folder).eval() for name, folder in folders.items()}
    for name, config in OTHERS.items():
        torch.manual_seed(0)
        made[name] = AutoModelForCausalLM.from_config(config).eval()
    return made


# Reading: rows after a shared beginning equal single ones


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen2", "mistral", *OTHERS])
def test_rows_of_shared_beginnings_equal_the_plain_loop(models, architecture):
    groups = make_groups()
    root = tuple(range(5, 55))  # which all groups begin with

    def put_behind(row: Row) -> Row:
        return replace(row, tokens=root + row.tokens, places=tuple(50 + n for n in row.places))

    rooted = [list(map(put_behind, rows)) for rows in groups]
    run = Engine(models[architecture], batch_tokens=60)
    assert run.shares == (architecture not in ALONE)
    assert_plain(run, groups)
    sizes, hook = count_tokens(run.model)
    with hook:
        collect(run.find_logprobs(rooted))
    assert sizes.count(len(root)) == 1 or not run.shares
    assert_plain(run, rooted)


@hypothesis_settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), architecture=st.sampled_from(["gpt2", "mistral"]), batch_tokens=st.integers(1, 400))
def test_shapes_and_batches_move_nothing(models, seed, architecture, batch_tokens):
    assert_plain(Engine(models[architecture], batch_tokens=batch_tokens), make_groups(seed))


def test_too_little_memory_halves_the_batch_and_one_row_too_large_says_so(models):
    rows = [Row((*range(40), *range(60 * n, 60 * n + 9)), (39,), (5,)) for n in range(1, 6)]
    made = Engine(models["gpt2"], batch_tokens=4096)
    seen, hook = count_tokens(made.model, 39)  # the beginning, or three rows, 10 tokens each
    with hook:
        collect(made.find_logprobs([rows]))
    assert seen == [39, 50, 20, 20, 10]
    assert made.batch_tokens < 50
    groups = make_groups()
    for most in (60, 40):  # beginnings that fit alone, and rows that don't
        with count_tokens(made.model, most)[1]:
            results = collect(made.find_logprobs(groups)).values()
        assert {type(result) for result in results} == {str, torch.Tensor}
        assert {result for result in results if isinstance(result, str)} == {"no more"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen2", "mistral"])
def test_a_cuda_device_gives_the_same_numbers(models, folders, architecture):
    there = Engine(AutoModelForCausalLM.from_pretrained(folders[architecture]).cuda(), batch_tokens=4096)
    here = Engine(models[architecture], batch_tokens=1)
    for (i, j), logprobs in collect(there.find_logprobs(make_groups())).items():
        assert logprobs.tolist() == pytest.approx(here.find_plain(make_groups()[i][j]).tolist(), abs=1e-3)


# Writing: completions in batches equal those one by one


def make_prompts() -> list[tuple[int, ...]]:
    rng = random.Random(1)
    begin = [rng.randrange(5, 400) for _ in range(80)]
    return [(*begin, *(rng.randrange(5, 400) for _ in range(size))) for size in (3, 9, 1, 5, 5)]


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen2", "mistral", *OTHERS])
def test_completions_equal_those_one_by_one(models, architecture, sampling):
    model, prompts, seeds = models[architecture], make_prompts(), [4, 3, 2, 1, 0]
    expected = [complete(model, [p], [s], sampling, STOPS)[0] for p, s in zip(prompts, seeds, strict=True)]
    if sampling is GREEDY:
        ids = model.generate(torch.tensor([prompts[0]]), do_sample=False, max_new_tokens=9, pad_token_id=3)
        assert expected[0] == ids[0, len(prompts[0]) :].tolist()
    if architecture not in ALONE:
        assert complete(model, prompts, seeds, sampling, STOPS) == expected


def test_only_the_smallest_set_that_reaches_top_p_is_drawn_from():
    # 0.5 + 0.3 reaches 0.7; within these two the first has 0.5 / 0.8 = 0.625
    logits = torch.tensor([0.15, 0.5, 0.05, 0.3]).log().repeat(4000, 1)
    generators = [torch.Generator().manual_seed(seed) for seed in range(4000)]
    tokens = draw_tokens(logits, generators, Decoding(1.0, 0.7, 1)).tolist()
    assert set(tokens) == {1, 3}
    assert tokens.count(1) / 4000 == pytest.approx(0.625, abs=0.03)  # four standard errors
    assert draw_tokens(torch.tensor([[1.0, 3.0, 2.0]]), [], Decoding(0, 0.1, 1)).tolist() == [1]


@pytest.mark.parametrize("top_p", [0.3, 1.0])
def test_what_is_drawn_depends_not_on_how_many_are_sorted_first(monkeypatch, top_p):
    logits = (torch.randn(50, 3000, generator=torch.Generator().manual_seed(0)) * 3).round()  # many are equal

    def draw(likeliest: int) -> list[int]:
        monkeypatch.setattr(causal_lm, "_LIKELIEST", likeliest)
        generators = [torch.Generator().manual_seed(number) for number in range(50)]
        return draw_tokens(logits, generators, Decoding(0.8, top_p, 1)).tolist()

    assert draw(1) == draw(3000)
