"""The evaluator role: an answer run once against the plain loop over rows, the plain loop against transformers."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tiny_models import SENTENCES, make_tiny_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from nfqa.files import code
from nfqa.kernels.perplexity import PAPER, RELEASED, settings
from nfqa.models import embed, evaluator
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import TOO_LONG, Restated, RowMaker, TargetLoss, TargetRow
from nfqa.models.roles import parse_role

pytestmark = pytest.mark.usefixtures("one_thread")

PLAIN = settings(wrapping="plain")
LONG = " ".join(SENTENCES)  # more tokens than the tiny Mistral's window of 64
ITEMS = (
    Restated(LONG, (SENTENCES[0], SENTENCES[0] + " Rivers carry it.", "salt", "The sea.")),
    Restated(SENTENCES[3], (SENTENCES[3], "x")),
    Restated("a", ("Nobody knows why. It is kind.",)),
    Restated(SENTENCES[1] + " " + SENTENCES[4], (*SENTENCES, "")),
)


def open_folder(folder: Path, **options: Any) -> Evaluator:
    return Evaluator(parse_role("evaluator", f"path:{folder}"), device="cpu", **options)


def assert_close(losses: list[list[TargetLoss]], expected: list[list[TargetLoss]]) -> None:
    for ours, theirs in zip(chain(*losses), chain(*expected), strict=True):
        assert ours == replace(theirs, nats=pytest.approx(theirs.nats, rel=1e-4, abs=1e-6))


@pytest.fixture(scope="session")
def gpt2(folders: dict[str, Path]) -> Path:
    return folders["gpt2"]


# Both ways of scoring


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen2", "mistral"])
def test_the_shared_and_the_plain_way_are_equal(folders, architecture):
    for batch_tokens in (200, 16_384):
        model = open_folder(folders[architecture], batch_tokens=batch_tokens)
        for chosen in (PAPER, RELEASED, PLAIN, settings("released", wrapping="plain", plain_format="{answer} ")):
            assert_close(model.score(ITEMS, chosen), model.score_plain(ITEMS, chosen))


def test_both_ways_are_what_transformers_gives(gpt2):
    tokenizer, model = AutoTokenizer.from_pretrained(gpt2), AutoModelForCausalLM.from_pretrained(gpt2)
    turns = [{"role": "user", "content": f"{SENTENCES[0]} Please restate."}]
    before = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)["input_ids"]
    ids = tokenizer(SENTENCES[1], add_special_tokens=False)["input_ids"]
    labels = torch.tensor([[-100] * len(before) + ids])
    with torch.no_grad():
        mean = float(model(input_ids=torch.tensor([[*before, *ids]]), labels=labels).loss)
    for score in (Evaluator.score, Evaluator.score_plain):
        ((result,),) = score(open_folder(gpt2), [Restated(SENTENCES[0], (SENTENCES[1],))], PAPER)
        assert result.nats == pytest.approx(mean * len(ids), rel=1e-4)
        assert (result.tokens, result.attended, result.cut, result.unscored) == (len(ids), len(before) + len(ids), 0, 0)


WORDS = st.lists(st.sampled_from(["sea", "salt", " ", "7", "é", "🌊", "\n", "rivers carry", "<|user|>"]), max_size=12)
TEXTS = WORDS.map("".join)


@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=4)), min_size=1, max_size=5),
    boundary=st.sampled_from(["apart", "joint"]),
    wrapping=st.sampled_from(["chat", "plain"]),
    padding=st.sampled_from(["left", "right"]),
    order=st.randoms(use_true_random=False),
)
def test_texts_padding_side_and_order_move_nothing(opened, items, boundary, wrapping, padding, order):
    chosen = settings(boundary=boundary, wrapping=wrapping, instruction="")
    given_items = [Restated(context, tuple(targets)) for context, targets in items]
    opened._loaded.tokenizer.padding_side = padding
    places = order.sample(range(len(items)), len(items))
    plain = opened.score_plain(given_items, chosen)
    assert_close(opened.score([given_items[i] for i in places], chosen), [plain[i] for i in places])


@pytest.fixture(scope="module")
def opened(folders: dict[str, Path]) -> Evaluator:
    return open_folder(folders["gpt2"])


# From text to rows


def make_rows(folder: Path, item: Restated, **switches: Any) -> list[TargetRow]:
    return RowMaker(open_folder(folder)._loaded, settings(**switches)).make_rows(item)


def decode(folder: Path, tokens: Any) -> str:
    return AutoTokenizer.from_pretrained(folder).decode(tokens, clean_up_tokenization_spaces=False)


def test_a_token_across_the_boundary_is_the_target_s(gpt2):
    switches = {"wrapping": "plain", "instruction": "", "plain_format": "{answer}"}
    apart, joint = (
        make_rows(gpt2, Restated("the riv", ("ers carry",)), boundary=boundary, **switches)[0]
        for boundary in ("apart", "joint")
    )
    assert decode(gpt2, joint.tokens) == decode(gpt2, apart.tokens) == "<s>the rivers carry"
    assert decode(gpt2, apart.tokens[apart.first :]) == "ers carry"
    assert decode(gpt2, joint.tokens[joint.first :]) == " rivers carry"
    assert joint.answer[1] <= joint.first, "it counts as the target's, not as the answer's"


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("short"), architecture="gpt2", context=60)


def test_a_row_too_long_for_the_model_is_an_error_that_names_it(short):
    with pytest.raises(ValueError, match=r"item 1, target 0: \d+ tokens .* of path:.* is 60; .* too_long"):
        open_folder(short).score([Restated("a", ("b",)), Restated(LONG, ("b", "c"))], settings(too_long="error"))


def test_a_target_that_no_cut_can_make_fit_has_no_loss_and_leaves_the_others_theirs(short):
    model, chosen = open_folder(short), settings(too_long="cut_tail")
    items = [Restated("a b", ("b", LONG)), Restated("a", (LONG,))]
    (fits, too_long), (alone,) = model.score(items, chosen)
    assert (fits.reason, too_long, alone) == ("", TOO_LONG, TOO_LONG)
    assert [fits] == open_folder(short).score([Restated("a b", ("b",))], chosen)[0]
    assert model.score_plain(items, chosen)[1] == [TOO_LONG]


@pytest.mark.parametrize("rule", ["cut_head", "cut_middle", "cut_tail"])
def test_a_named_cut_takes_the_answer_s_tokens_and_counts_them(short, gpt2, rule):
    chosen, item = settings(too_long=rule), Restated(LONG, (SENTENCES[2], "b", "x y"))
    rows, whole = (RowMaker(open_folder(folder)._loaded, chosen).make_rows(item) for folder in (short, gpt2))
    for row, full in zip(rows, whole, strict=True):
        assert (len(row.tokens), row.cut) == (60, len(full.tokens) - 60)
        (begin, end), cut = full.answer, row.cut
        start = {"cut_head": begin, "cut_middle": begin + (end - begin - cut) // 2, "cut_tail": end - cut}[rule]
        assert row.tokens == full.tokens[:start] + full.tokens[start + cut :]  # template and target are whole
        assert (row.answer, row.first) == ((begin, end - cut), full.first - cut)
    model, items = open_folder(short), [item, Restated("a", ("b",))]
    result = model.score(items, chosen)
    assert_close(result, model.score_plain(items, chosen))
    assert [loss.cut for loss in chain(*result)] == [*(row.cut for row in rows), 0]


# What is kept


def test_a_loss_is_made_once_and_kept(gpt2, tmp_path, monkeypatch):
    store = tmp_path / "folder" / "losses.sqlite"
    first = open_folder(gpt2, store=store).score(ITEMS, PAPER)
    with monkeypatch.context() as patch:
        patch.setattr(evaluator, "find_losses", lambda *_: pytest.fail("the model is run again"))
        assert open_folder(gpt2, store=store).score(ITEMS, settings(aggregate="mean", denominator="attended")) == first
        assert open_folder(gpt2, store=store).score(ITEMS[::-1], PAPER) == first[::-1]
    assert open_folder(gpt2, store=store).score(ITEMS, settings(instruction="")) != first


# no code, or what an identity says
NAMING = {"nfqa.models", "nfqa.models.roles", "nfqa.models.loading"}


@pytest.mark.parametrize(
    ("made_by", "others"),
    [
        (evaluator._CODE, {"nfqa.kernels", *NAMING, "nfqa.models.chat", "nfqa.models.gguf"}),
        (embed._CODE, NAMING),
    ],
)
def test_nothing_that_a_loss_or_a_vector_is_made_by_is_left_out_of_its_key(made_by, others):
    assert set(code.hash_modules(made_by, within=("nfqa.models", "nfqa.kernels"))) - {*made_by} == others


def test_the_identity_tells_model_and_precision_apart(gpt2, folders, monkeypatch):
    identities = {open_folder(gpt2).identity, open_folder(gpt2, dtype="bfloat16").identity}
    assert len(identities | {open_folder(folders["llama"]).identity}) == 3
    assert open_folder(gpt2).identity.endswith("|float32|cache:none")
    rough, exact = (open_folder(gpt2, dtype=dtype).score(ITEMS[:1], PAPER)[0][0] for dtype in ("bfloat16", "auto"))
    assert rough.nats == pytest.approx(exact.nats, rel=0.1)
    monkeypatch.setenv("NFQA_DTYPE", "bfloat16")
    assert open_folder(gpt2).identity == open_folder(gpt2, dtype="bfloat16").identity
