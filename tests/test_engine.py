"""The engine that judges and evaluators share: what it packs or shares against one row at a time by transformers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    CohereConfig,
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPTNeoConfig,
    GptOssConfig,
    LlamaConfig,
    LogitsProcessorList,
    MambaConfig,
    OPTConfig,
    TopPLogitsWarper,
)

from nfqa.models import completing, engine, head, packing
from nfqa.models.completing import Sampling, draw_tokens
from nfqa.models.continuous_cache import ContinuousCache
from nfqa.models.engine import Engine, Row, count_common
from nfqa.models.packing import can_share, find_window

pytestmark = pytest.mark.usefixtures("one_thread")

CACHES = (None, ContinuousCache(), ContinuousCache(over="context_and_target"))
GREEDY = Sampling(0, 1.0, 9, frozenset({1}))
SAMPLED = Sampling(1.0, 0.9, 9, frozenset({1}))
SMALL = {"vocab_size": 400, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 3, "initializer_range": 0.3}
SHAPE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
HEADS = {"num_key_value_heads": 2, "head_dim": 4}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
PACKED = {
    "scaled logits": CohereConfig(num_key_value_heads=2, logit_scale=0.3, **SHAPE, **SMALL),
    "capped scores and logits, windows": Gemma2Config(
        sliding_window=16, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, query_pre_attn_scalar=4,
        **HEADS, **SHAPE, **SMALL,
    ),
    "a window in some layers": Gemma3TextConfig(
        sliding_window=16, layer_types=["sliding_attention", "full_attention"], **HEADS, **SHAPE, **SMALL
    ),
    "sinks": GptOssConfig(
        sliding_window=16, num_local_experts=2, num_experts_per_tok=1,
        layer_types=["sliding_attention", "full_attention"],
        **HEADS, **SHAPE, **SMALL,
    ),
    "places that begin at two": OPTConfig(
        hidden_size=16, ffn_dim=32, num_hidden_layers=2, num_attention_heads=2, word_embed_proj_dim=16,
        init_std=0.3, **{k: v for k, v in SMALL.items() if k != "initializer_range"},
    ),
}  # fmt: skip
ALONE = {
    "no positions": BloomConfig(hidden_size=16, n_layer=2, n_head=2, **SMALL),
    "a state, no keys": MambaConfig(hidden_size=16, num_hidden_layers=2, state_size=4, **SMALL),
    "a window of its own": GPTNeoConfig(
        hidden_size=16, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]], window_size=8,
        max_position_embeddings=2048, **SMALL,
    ),
    "ALiBi with positions": FalconConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, alibi=True, **SMALL
    ),
    "changing rotations": LlamaConfig(max_position_embeddings=2048, rope_parameters=DYNAMIC, **SHAPE, **SMALL),
}  # fmt: skip


def make_groups(seed: int = 0, *, longest: int = 90, rows: int = 4) -> list[list[Row]]:
    """Random contexts, each with random targets after it, one of them empty and one asked about twice."""
    rng = random.Random(seed)
    groups = []
    for _ in range(4):
        context = tuple(rng.randrange(5, 400) for _ in range(rng.randrange(1, longest)))
        group = []
        for _ in range(rng.randrange(rows + 1)):
            own = tuple(rng.randrange(5, 400) for _ in range(rng.randrange(20)))
            places = tuple(range(len(context) - 1, len(context) - 1 + len(own)))
            group.append(Row(context + own, places, own, (0, len(context) - 1)))
        groups.append([*group, *group[:1]])
    return groups


def collect(batches: Any) -> dict[tuple[int, int], Any]:
    found = [item for batch in batches for item in batch]
    assert len({(group, place) for group, place, _ in found}) == len(found)
    return {(group, place): result for group, place, result in found}


def assert_plain(run: Engine, groups: list[list[Row]]) -> None:
    found = collect(run.find_logprobs(groups))
    assert set(found) == {(i, j) for i, rows in enumerate(groups) for j in range(len(rows))}
    for (i, j), logprobs in found.items():
        assert logprobs.dtype == torch.float64
        assert logprobs.tolist() == pytest.approx(run.find_plain(groups[i][j]).tolist(), rel=1e-4, abs=1e-4)


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> dict[str, Any]:
    return {name: AutoModelForCausalLM.from_pretrained(folder).eval() for name, folder in folders.items()}


@pytest.fixture(scope="session")
def others() -> dict[str, Any]:
    made = {}
    for name, config in (PACKED | ALONE).items():
        torch.manual_seed(0)
        made[name] = AutoModelForCausalLM.from_config(config).eval()
    return made


# Reading: packed rows equal single ones


@pytest.mark.parametrize("cache", CACHES, ids=["none", "context", "context_and_target"])
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen2", "mistral"])
def test_packed_rows_equal_the_plain_loop(models, architecture, cache):
    for batch_tokens in (1, 60, 150, 4096):
        run = Engine(models[architecture], batch_tokens=batch_tokens, cache=cache)
        assert run.packs
        assert_plain(run, make_groups())


@pytest.mark.parametrize("what", PACKED | ALONE)
@pytest.mark.parametrize("cache", CACHES[:2], ids=["none", "context"])
def test_other_models_are_packed_or_run_alone_and_equal_the_plain_loop(others, what, cache):
    run = Engine(others[what], batch_tokens=300, cache=cache)
    assert (run.shares, run.packs) == ((what in PACKED),) * 2
    if cache is None or what != "places that begin at two":
        assert_plain(run, make_groups())


@pytest.mark.parametrize("what", ["llama", *ALONE])
def test_the_plain_loop_is_what_transformers_gives(models, others, what):
    model = (models | others)[what]
    row = max((row for rows in make_groups() for row in rows), key=lambda row: len(row.targets))
    labels = torch.tensor([[-100] * (len(row.tokens) - len(row.targets)) + list(row.targets)])
    with torch.no_grad():
        loss = float(model(input_ids=torch.tensor([row.tokens]), labels=labels).loss)
    assert float(Engine(model, batch_tokens=1).find_plain(row).sum()) == pytest.approx(
        -loss * len(row.targets), rel=1e-4
    )


@hypothesis_settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    architecture=st.sampled_from(["gpt2", "mistral"]),
    together=st.sampled_from([0, 30, 1024]),
    batch_tokens=st.integers(1, 400),
)
def test_shapes_batches_and_shared_calls_of_attention_move_nothing(models, seed, architecture, together, batch_tokens):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(packing._TOGETHER, "cpu", together)
        assert_plain(Engine(models[architecture], batch_tokens=batch_tokens), make_groups(seed))


def test_what_a_group_shares_is_run_once_and_a_group_is_divided_only_if_it_must(models, monkeypatch):
    seen: list[list[int]] = []
    run = engine.run_segments
    monkeypatch.setattr(engine, "run_segments", lambda m, s: seen.append([part.length for part in s]) or run(m, s))

    def ask(*sizes: int, begin: int = 40) -> list[Row]:
        contexts = range(begin, begin + 40)
        return [Row((*contexts, *range(100 * n, 100 * n + size)), (39,), (5,)) for n, size in enumerate(sizes, 1)]

    cases = {4096: [57, 52, 41], 109: [57, 52, 41], 56: [52, 45, 52, 41], 1: [43, 49, 45, 43, 49, 41]}
    for batch_tokens, widths in cases.items():
        made = Engine(models["gpt2"], batch_tokens=batch_tokens)
        assert made.packs
        seen.clear()
        list(made.find_logprobs([ask(3, 9), ask(1), ask(3, 9, 5)]))
        assert seen == {4096: [widths], 109: [[57, 52], [41]]}.get(batch_tokens, [[width] for width in widths])


def test_the_output_matrix_is_used_where_it_is_asked_for_and_in_blocks(models, monkeypatch):
    run, groups, made, multiply = Engine(models["gpt2"], batch_tokens=4096), make_groups(), [], head.Head.multiply
    assert run.packs

    def watch(self: Any, states: Any, begin: int, end: int) -> Any:
        logits = multiply(self, states, begin, end)
        made.append(tuple(logits.shape))
        return logits

    monkeypatch.setattr(head.Head, "multiply", watch)
    monkeypatch.setitem(head._BLOCK, "cpu", (16, 150))
    assert_plain(run, groups)
    assert max(deep for deep, _ in made) <= 16
    assert max(wide for _, wide in made) <= 150
    asked = sum(len(row.targets) for rows in groups for row in rows)
    assert sum(a * b for a, b in made) == asked * len(models["gpt2"].lm_head.weight)


def test_a_head_that_does_more_is_run_whole(others):
    scaled = ("scaled logits", "capped scores and logits, windows")
    assert {what: head.open_head(others[what]).divisible for what in PACKED} == {w: w not in scaled for w in PACKED}


def test_too_little_memory_halves_the_batch_and_one_row_too_large_says_so(models, monkeypatch):
    run, groups, sizes = engine.run_segments, make_groups(), []

    def run_out(model: Any, segments: Any) -> Any:
        sizes.append(sum(part.length for part in segments))
        if sizes[-1] > most:
            raise torch.OutOfMemoryError("no more\nmemory")
        return run(model, segments)

    most, made = 100, Engine(models["gpt2"], batch_tokens=4096)
    monkeypatch.setattr(engine, "run_segments", run_out)
    expected = {key: made.find_plain(groups[key[0]][key[1]]) for key in collect(made.find_logprobs(groups))}
    sizes.clear()
    for key, logprobs in collect(made.find_logprobs(groups)).items():
        assert logprobs.tolist() == pytest.approx(expected[key].tolist(), rel=1e-4)
    assert made.batch_tokens <= 100
    assert max(sizes) <= 100, "what did not fit once is not tried again"
    most = 40
    found = collect(made.find_logprobs(groups))
    for (group, place), logprobs in found.items():
        row = groups[group][place]
        assert (logprobs == "no more") == (len(row.tokens) > 40 and len(row.places) > 0)


def test_the_trial_finds_a_model_that_heeds_no_layout(models, folders, monkeypatch):
    model = AutoModelForCausalLM.from_pretrained(folders["llama"])
    forward = model.forward
    with monkeypatch.context() as patch:
        patch.setattr(model, "forward", lambda *, position_ids=None, **options: forward(**options))
        patch.setattr(engine, "can_share", lambda _: True)
        assert not Engine(model, batch_tokens=100).packs
    monkeypatch.setattr(model.config, "_attn_implementation_internal", "flash_attention_2")
    assert not Engine(model, batch_tokens=100).packs
    assert Engine(models["mistral"], batch_tokens=100).packs
    monkeypatch.setattr(packing, "_list_windows", lambda _: [32])
    assert not Engine(models["mistral"], batch_tokens=100).packs, "a window that attention isn't told"


def test_windows_are_found_and_the_usual_architectures_share(models, others):
    assert {name: find_window(model) for name, model in models.items()} == {
        "llama": None, "gpt2": None, "qwen2": None, "mistral": 64,
    }  # fmt: skip
    assert find_window(others["sinks"]) == 16
    assert all(can_share(model) for model in models.values())


@pytest.mark.parametrize(
    ("sequences", "common"), [([[1, 2, 3], [1, 2, 4]], 2), ([[1], [1, 2]], 1), ([[1], [2], [1]], 0)]
)
def test_the_common_beginning_is_counted(sequences, common):
    assert count_common(sequences) == common


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen2", "mistral"])
def test_a_cuda_device_gives_the_same_numbers(models, folders, architecture):
    there = Engine(AutoModelForCausalLM.from_pretrained(folders[architecture]).cuda(), batch_tokens=4096)
    here = Engine(models[architecture], batch_tokens=1)
    for (i, j), logprobs in collect(there.find_logprobs(make_groups())).items():
        assert logprobs.tolist() == pytest.approx(here.find_plain(make_groups()[i][j]).tolist(), abs=1e-3)


# Writing: completions after a shared beginning equal those one by one


def make_prompts(shared: int = 80) -> list[tuple[int, ...]]:
    rng = random.Random(1)
    begin = [rng.randrange(5, 400) for _ in range(shared)]
    return [(*begin, *(rng.randrange(5, 400) for _ in range(size))) for size in (3, 9, 1, 5, 5)]


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("what", ["llama", "gpt2", "qwen2", "mistral", *PACKED, *ALONE])
def test_completions_equal_those_one_by_one(models, others, what, sampling):
    model, prompts, seeds = (models | others)[what], make_prompts(), [4, 3, 2, 1, 0]
    expected = [completing.complete(model, None, [p], [s], sampling)[0] for p, s in zip(prompts, seeds, strict=True)]
    if sampling is GREEDY:
        ids = model.generate(torch.tensor([prompts[0]]), do_sample=False, max_new_tokens=9, pad_token_id=3)
        assert expected[0] == ids[0, len(prompts[0]) :].tolist()
    alone = collect(Engine(model, batch_tokens=4096, share=False).complete(prompts, seeds, sampling))
    assert [alone[0, place] for place in range(5)] == expected
    for batch_tokens in (4096, 300, 1):
        found = collect(Engine(model, batch_tokens=batch_tokens).complete(prompts, seeds, sampling))
        assert [found[0, place] for place in range(5)] == expected, batch_tokens


def test_prompts_share_what_they_begin_with_and_batches_keep_under_the_bound(models, monkeypatch):
    begun, sizes = [], []
    start, write = engine.run_prefix, engine.complete
    monkeypatch.setattr(engine, "run_prefix", lambda m, tokens: begun.append(len(tokens)) or start(m, tokens))
    monkeypatch.setattr(
        engine, "complete", lambda m, p, rows, *more: sizes.append([len(r) for r in rows]) or write(m, p, rows, *more)
    )
    list(Engine(models["llama"], batch_tokens=300).complete(make_prompts(), range(5), GREEDY))
    assert begun == [80]
    assert sizes == [[81, 83, 85], [85, 89]]
    sizes.clear()
    list(Engine(models["mistral"], batch_tokens=900).complete(make_prompts(), range(5), GREEDY))
    assert sizes == [[81], [83], [85, 85], [89]], "padding would shorten a window"


def test_a_batch_of_prompts_that_does_not_fit_is_halved_and_one_alone_fails_alone(models, monkeypatch):
    write, sizes = engine.complete, []

    def limit(model: Any, prefix: Any, rows: Any, *more: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > 2 or len(rows[-1]) > 88:
            raise torch.OutOfMemoryError("tried to allocate too much\nand more")
        return write(model, prefix, rows, *more)

    monkeypatch.setattr(engine, "complete", limit)
    found = collect(Engine(models["llama"], batch_tokens=4096).complete(make_prompts(), range(5), GREEDY))
    assert found.pop((0, 1)) == "tried to allocate too much"
    assert all(isinstance(tokens, list) for tokens in found.values())
    assert sizes[0] == 5
    assert max(sizes[2:]) <= 2


def test_only_the_smallest_set_that_reaches_top_p_is_drawn_from():
    # 0.5 + 0.3 reaches 0.7; within these two the first has 0.5 / 0.8 = 0.625
    logits = torch.tensor([0.15, 0.5, 0.05, 0.3]).log().repeat(4000, 1)
    generators = [torch.Generator().manual_seed(seed) for seed in range(4000)]
    drawn = draw_tokens(logits, generators, Sampling(1.0, 0.7, 1, frozenset())).tolist()
    assert set(drawn) == {1, 3}
    assert drawn.count(1) / 4000 == pytest.approx(0.625, abs=0.03)  # four standard errors
    assert draw_tokens(torch.tensor([[1.0, 3.0, 2.0]]), [], Sampling(0, 0.1, 1, frozenset())).tolist() == [1]


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.95, 1.0])
def test_the_set_drawn_from_is_the_library_s(top_p):
    logits = torch.randn(1, 30, generator=torch.Generator().manual_seed(1)) * 2
    kept = LogitsProcessorList([TopPLogitsWarper(top_p)])(None, logits / 0.8)[0].isfinite()
    generators = [torch.Generator().manual_seed(seed) for seed in range(3000)]
    drawn = draw_tokens(logits.repeat(3000, 1), generators, Sampling(0.8, top_p, 1, frozenset()))
    seen = torch.zeros(30, dtype=torch.bool)
    seen[drawn] = True
    assert not (seen & ~kept).any()
    likely = (logits[0] / 0.8).softmax(-1) > 0.005  # such a one is missed by 3,000 draws once in three million
    assert (seen[likely] == kept[likely]).all()
