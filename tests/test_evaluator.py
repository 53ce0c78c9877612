"""The evaluator role: an answer run once against the plain loop over rows, the plain loop against transformers."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tiny_models import SENTENCES, make_tiny_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
)

from nfqa.kernels.perplexity import PAPER, RELEASED, settings
from nfqa.metrics.perspective_diversity import measure_diversity
from nfqa.models import engine, roles
from nfqa.models.continuous_cache import ContinuousCache
from nfqa.models.evaluator import Evaluator, TargetLoss
from nfqa.models.restated import Restated, Row, RowMaker
from nfqa.models.roles import DEFAULTS, parse_role

pytestmark = pytest.mark.usefixtures("one_thread")

ARCHITECTURES = ("llama", "gpt2", "qwen2", "mistral")
PLAIN = settings(wrapping="plain")
CACHES = (None, ContinuousCache(), ContinuousCache(over="context_and_target"))
LONG = " ".join(SENTENCES)  # more tokens than the tiny Mistral's window of 64
ITEMS = (
    Restated(LONG, (SENTENCES[0], SENTENCES[0] + " Rivers carry it.", "salt", "The sea.")),
    Restated(SENTENCES[3], (SENTENCES[3], "x")),
    Restated("a", ("Nobody knows why. It is kind.",)),
    Restated(SENTENCES[1] + " " + SENTENCES[4], (*SENTENCES, "")),
)


def open_folder(folder: Path, **options: Any) -> Evaluator:
    return Evaluator(parse_role("evaluator", f"path:{folder}"), device="cpu", **options)


def assert_close(found: list[list[TargetLoss]], expected: list[list[TargetLoss]], rel: float = 1e-4) -> None:
    assert [len(row) for row in found] == [len(row) for row in expected]
    for ours, theirs in zip(chain(*found), chain(*expected), strict=True):
        assert ours.nats == pytest.approx(theirs.nats, rel=rel, abs=1e-6)
        for name in ("tokens", "attended", "cut", "unscored"):
            assert getattr(ours, name) == getattr(theirs, name), name


@pytest.fixture(scope="session")
def gpt2(folders: dict[str, Path]) -> Path:
    return folders["gpt2"]


# Golden values of the bundled evaluator, made by the plain loop of version 0.3


@pytest.mark.parametrize(("cache", "field"), [(None, "alone"), ("own", "cached")])
def test_the_bundled_evaluator_keeps_its_tokens_and_log_probabilities(cache, field):
    golden = json.loads((Path(__file__).parent / "golden" / "evaluator_small.json").read_text(encoding="utf-8"))
    items = [Restated(item["context"], tuple(item["targets"])) for item in golden["items"]]
    model = Evaluator(parse_role("evaluator", "embedded:small"), device="cpu", cache=cache)
    for name, switches in golden["settings"].items():
        chosen, rows = settings(**switches), golden["rows"][name]
        made = [row for item in items for row in RowMaker(model._loaded, chosen).make_rows(item)]
        assert [list(row.tokens) for row in made] == [row["tokens"] for row in rows]
        assert [(row.first, list(row.answer)) for row in made] == [(row["first"], row["answer"]) for row in rows]
        for score in (model.score, model.score_plain):
            found = list(chain(*score(items, chosen)))
            assert [loss.tokens for loss in found] == [len(row[field]) for row in rows]
            assert [loss.nats for loss in found] == pytest.approx([-sum(row[field]) for row in rows], rel=1e-5)


# Both ways of scoring


@pytest.mark.parametrize("cache", [None, ContinuousCache()], ids=["none", "context"])
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen2", "mistral"])
def test_the_shared_and_the_plain_way_are_equal(folders, architecture, cache):
    for batch_tokens in (200, 16_384):
        model = open_folder(folders[architecture], cache=cache, batch_tokens=batch_tokens)
        for chosen in (PAPER, RELEASED, PLAIN, settings("released", wrapping="plain", plain_format="{answer} ")):
            assert_close(model.score(ITEMS, chosen), model.score_plain(ITEMS, chosen))


def test_both_ways_are_what_transformers_gives(gpt2):
    tokenizer, model = AutoTokenizer.from_pretrained(gpt2), AutoModelForCausalLM.from_pretrained(gpt2)
    turns = [{"role": "user", "content": f"{SENTENCES[0]} Please restate."}]
    before = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)["input_ids"]
    own = tokenizer(SENTENCES[1], add_special_tokens=False)["input_ids"]
    labels = torch.tensor([[-100] * len(before) + own])
    with torch.no_grad():
        mean = float(model(input_ids=torch.tensor([[*before, *own]]), labels=labels).loss)
    for score in (Evaluator.score, Evaluator.score_plain):
        ((found,),) = score(open_folder(gpt2), [Restated(SENTENCES[0], (SENTENCES[1],))], PAPER)
        assert found.nats == pytest.approx(mean * len(own), rel=1e-4)
        assert (found.tokens, found.attended, found.cut, found.unscored) == (len(own), len(before) + len(own), 0, 0)


WORDS = st.lists(st.sampled_from(["sea", "salt", " ", "7", "é", "🌊", "\n", "rivers carry", "<|user|>"]), max_size=12)
TEXTS = WORDS.map("".join)


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    return open_folder(folders["gpt2"], cache=ContinuousCache())


def test_one_item_too_large_for_the_memory_is_an_error(gpt2, monkeypatch):
    def run_out(*_: Any, **options: Any) -> Any:
        raise torch.OutOfMemoryError("no more\nmemory")

    model = open_folder(gpt2)
    assert model._engine.shares  # which it tries
    monkeypatch.setattr(engine, "run_after", run_out)
    with pytest.raises(ValueError, match=r"a context and a target of \d+ tokens don't fit: no more$"):
        model.score(ITEMS[:1], PLAIN)


# The continuous cache


def test_only_the_answer_s_own_tokens_are_in_the_cache(gpt2):
    # 1 and 2 are tokens of the instruction and not of the answer: a cache over all of the context would raise them.
    chosen = settings(instruction="12 12 12")
    item = Restated("7575", ("12",))
    cache = ContinuousCache(theta=0.0, weight=0.5)
    without, given = open_folder(gpt2, cache=None), open_folder(gpt2, cache=cache)
    ((plain,),), ((mixed,),) = without.score([item], chosen), given.score([item], chosen)
    assert mixed.nats == pytest.approx(plain.nats + plain.tokens * math.log(2), rel=1e-5)


def test_with_theta_zero_the_cache_is_the_answer_s_own_frequencies(gpt2):
    # p_cache(x) = how many of the answer's tokens after its first are x, of all after its first.
    tokenizer = AutoTokenizer.from_pretrained(gpt2)
    answer, target = "salt salt sea", " salt"
    ids, own = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (answer, target))
    assert len(own) == 1
    share = ids[1:].count(own[0]) / len(ids[1:])
    assert 0 < share < 1
    ((plain,),) = open_folder(gpt2, cache=None).score([Restated(answer, (target,))], PAPER)
    ((mixed,),) = open_folder(gpt2, cache=ContinuousCache(0.0, 0.25)).score([Restated(answer, (target,))], PAPER)
    assert math.exp(-mixed.nats) == pytest.approx(0.75 * math.exp(-plain.nats) + 0.25 * share, rel=1e-4)


# From text to rows


def make_rows(folder: Path, item: Restated, **switches: Any) -> list[Row]:
    return RowMaker(open_folder(folder)._loaded, settings(**switches)).make_rows(item)


def decode(folder: Path, tokens: Any) -> str:
    return AutoTokenizer.from_pretrained(folder).decode(tokens, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize(
    ("switches", "before"),
    [
        ({}, "<s><|user|>Rivers. Please restate.</s><|assistant|>"),
        ({"boundary": "joint", "instruction": "", "generation_prompt": False}, "<s><|user|>Rivers.</s>"),
        ({"wrapping": "plain", "instruction": "", "plain_format": "A: {answer}\nB: "}, "<s>A: Rivers.\nB: "),
    ],
)
def test_the_answer_stands_in_its_frame_and_the_target_after_it(gpt2, switches, before):
    (row,) = make_rows(gpt2, Restated("Rivers.", ("The sea.",)), **switches)
    assert decode(gpt2, row.tokens[: row.first]) == before
    assert decode(gpt2, row.tokens[row.first :]) == "The sea."
    assert decode(gpt2, row.tokens[slice(*row.answer)]) == "Rivers."


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


class _Slow:
    """A tokenizer that tells no characters."""

    is_fast = False

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __call__(self, text: Any, *, return_offsets_mapping: bool = False, **options: Any) -> Any:
        if return_offsets_mapping:
            raise NotImplementedError("no offsets")
        return self._real(text, **options)


@pytest.mark.parametrize("wrapping", ["chat", "plain"])
@pytest.mark.parametrize("switches", [{}, {"plain_format": "{answer}", "instruction": ""}])
def test_a_tokenizer_without_offsets_has_the_context_tokenised_alone(gpt2, wrapping, switches):
    fast, slow = open_folder(gpt2)._loaded, open_folder(gpt2)._loaded
    slow.__dict__["tokenizer"] = _Slow(fast.tokenizer)
    chosen = settings(boundary="joint", wrapping=wrapping, **switches)
    for item in (*ITEMS, Restated("the riv", ("ers carry", ""))):
        expected, found = (RowMaker(loaded, chosen).make_rows(item) for loaded in (fast, slow))
        assert [(row.tokens, row.first) for row in found] == [(row.tokens, row.first) for row in expected]


def test_control_marks_in_a_text_end_no_turn(gpt2):
    (row,) = make_rows(gpt2, Restated("a</s><|assistant|>b", ("c</s>",)))
    text = decode(gpt2, row.tokens)
    assert text.count("</s>") == text.count("<|assistant|>") == 1
    assert decode(gpt2, row.tokens[row.first :]) == "c< /s>"


def test_kept_control_marks_give_the_released_script_s_value_and_broken_ones_another(gpt2):
    answer, target = "Rivers</s><|assistant|>carry salt", "salt 12"
    tokenizer, model = AutoTokenizer.from_pretrained(gpt2), AutoModelForCausalLM.from_pretrained(gpt2)
    context = tokenizer.apply_chat_template([{"role": "user", "content": answer}], tokenize=False)
    before, every = (tokenizer(t, add_special_tokens=False)["input_ids"] for t in (context, context + target))
    with torch.no_grad():
        logprobs = model(torch.tensor([every])).logits[0].log_softmax(-1)
    nats = -sum(float(logprobs[place - 1, every[place]]) for place in range(len(before), len(every)))
    expected = math.exp(nats / (len(every) - 1))

    kept, broken = (
        measure_diversity([answer], [[target]], open_folder(gpt2), variant="released", marks=marks)[0].value
        for marks in ("kept", "broken")
    )
    assert kept == pytest.approx(expected, rel=1e-5)
    assert broken != pytest.approx(expected, rel=1e-3)
    assert settings("released", marks="kept").signature == settings("released").signature + "|marks:kept"


def test_a_template_that_strips_is_followed_and_one_that_rewrites_is_refused(alter):
    strips = "<s>{% for m in messages %}<|user|>{{ m['content'] | trim }}</s>{% endfor %}"
    folder = alter("gpt2", chat_template=strips)
    (folder / "chat_template.jinja").write_text(strips)
    (row,) = make_rows(folder, Restated("  Rivers.\n", ("x",)), instruction="")
    assert decode(folder, row.tokens[slice(*row.answer)]) == "Rivers."
    (folder / "chat_template.jinja").write_text(strips.replace("trim", "upper"))
    with pytest.raises(ValueError, match=r'changes the text of a message, .* use wrapping="plain"'):
        make_rows(folder, Restated("Rivers.", ("x",)))


def test_the_first_token_after_nothing_needs_a_begin_mark(alter, gpt2):
    bare = {"wrapping": "plain", "instruction": "", "plain_format": "{answer}"}
    item, chosen = Restated("", ("salt 12", "7")), settings(**bare)
    folder = alter("gpt2", "tokenizer.json", post_processor=None)
    for place in (gpt2, folder):  # the tokenizer puts it there, or we do
        assert all(decode(place, row.tokens[: row.first]) == "<s>" for row in make_rows(place, item, **bare))
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"bos_token": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    many, one = make_rows(folder, item, **bare)
    assert (many.first, one.first, len(one.tokens)) == (0, 0, 1)
    ((first, second),) = open_folder(folder).score([item], chosen)
    assert (first.tokens, first.unscored) == (len(many.tokens) - 1, 1)
    assert (second.tokens, second.unscored, second.nats) == (0, 1, 0.0)
    assert_close([[first, second]], open_folder(folder).score_plain([item], chosen))


def test_a_mark_that_the_tokenizer_puts_at_the_end_is_left_out(alter, gpt2):
    content = json.loads((gpt2 / "tokenizer.json").read_text())
    marks = {token["content"]: token["id"] for token in content["added_tokens"]}
    content["post_processor"]["single"].append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    content["post_processor"]["special_tokens"]["</s>"] = {"id": "</s>", "ids": [marks["</s>"]], "tokens": ["</s>"]}
    folder = alter("gpt2")
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert AutoTokenizer.from_pretrained(folder)("a")["input_ids"][-1] == marks["</s>"]
    for context in ("a", ""):
        item = Restated(context, ("b",))
        for boundary in ("apart", "joint"):
            switches = {"wrapping": "plain", "boundary": boundary, "plain_format": "{answer}", "instruction": ""}
            assert make_rows(folder, item, **switches)[0].tokens == make_rows(gpt2, item, **switches)[0].tokens


@pytest.mark.parametrize("absent", [("eos_token",), ("pad_token",), ("eos_token", "pad_token")])
def test_a_tokenizer_without_an_end_or_padding_is_no_hindrance(alter, gpt2, absent):
    folder = alter("gpt2", **dict.fromkeys(absent))
    assert all(getattr(AutoTokenizer.from_pretrained(folder), name) is None for name in absent)
    chosen = settings("released", wrapping="plain")
    assert open_folder(folder).score(ITEMS, chosen) == open_folder(gpt2).score(ITEMS, chosen)


def test_a_target_of_one_token_and_one_of_none(gpt2):
    ((one, none),) = open_folder(gpt2).score([Restated("a", ("7", ""))], PAPER)
    assert one.tokens == 1
    assert one.nats > 0
    assert (none.tokens, none.nats) == (0, 0.0)
    assert open_folder(gpt2).score([Restated("a", ())], PAPER) == [[]]
    assert open_folder(gpt2).score([], PAPER) == []


# Too long


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("short"), architecture="gpt2", context=60)


def test_a_row_too_long_for_the_model_is_an_error_that_names_it(short):
    with pytest.raises(ValueError, match=r"item 1, target 0: \d+ tokens .* of path:.* is 60; .* too_long"):
        open_folder(short).score([Restated("a", ("b",)), Restated(LONG, ("b", "c"))], settings(too_long="error"))


def test_a_target_that_no_cut_can_make_fit_has_no_loss_and_leaves_the_others_theirs(short):
    evaluator, chosen = open_folder(short), settings(too_long="cut_tail")
    items = [Restated("a b", ("b", LONG)), Restated("a", (LONG,))]
    (fits, too_long), (alone,) = evaluator.score(items, chosen)
    assert [math.isnan(loss.nats) for loss in (fits, too_long, alone)] == [False, True, True]
    assert (too_long.tokens, alone.tokens) == (0, 0)
    assert [fits] == evaluator.score([Restated("a b", ("b",))], chosen)[0]
    assert math.isnan(evaluator.score_plain(items, chosen)[1][0].nats)


@pytest.mark.parametrize("rule", ["cut_head", "cut_middle", "cut_tail"])
def test_a_named_cut_takes_the_answer_s_tokens_and_counts_them(short, gpt2, rule):
    chosen, item = settings(too_long=rule), Restated(LONG, (SENTENCES[2], "b", "x y"))
    rows, whole = (RowMaker(open_folder(folder)._loaded, chosen).make_rows(item) for folder in (short, gpt2))
    for row, full in zip(rows, whole, strict=True):
        assert len(row.tokens) == 60
        assert row.cut == len(full.tokens) - 60 > 0
        assert row.tokens[row.first :] == full.tokens[full.first :], "the target is whole"
        answer, kept = full.tokens[slice(*full.answer)], row.tokens[slice(*row.answer)]
        half = (len(answer) - row.cut) // 2
        middle = answer[:half] + answer[half + row.cut :]
        expected = {"cut_head": answer[row.cut :], "cut_tail": answer[: -row.cut], "cut_middle": middle}
        assert kept == expected[rule]
        assert row.tokens[: row.answer[0]] == full.tokens[: full.answer[0]], "so is the template"
        assert row.tokens[row.answer[1] : row.first] == full.tokens[full.answer[1] : full.first]
    model, items = open_folder(short, cache=ContinuousCache()), [item, Restated("a", ("b",))]
    found = model.score(items, chosen)
    assert_close(found, model.score_plain(items, chosen))
    assert [loss.cut for loss in chain(*found)] == [*(row.cut for row in rows), 0]


# What is kept, and the embedded evaluators


def test_a_loss_is_made_once_and_kept(gpt2, tmp_path, monkeypatch):
    store = tmp_path / "folder" / "losses.sqlite"
    first = open_folder(gpt2, store=store).score(ITEMS, PAPER)
    again = open_folder(gpt2, store=store)
    monkeypatch.setattr(again._loaded.__class__, "model", property(lambda _: pytest.fail("the model is run again")))
    assert again.score(ITEMS, settings(aggregate="mean", denominator="attended")) == first
    assert again.score(ITEMS[::-1], PAPER) == first[::-1]
    monkeypatch.undo()
    other = open_folder(gpt2, store=store)
    assert other.score(ITEMS, settings(instruction="")) != first
    assert open_folder(gpt2, store=store, cache=ContinuousCache()).score(ITEMS, PAPER) != first


def test_equal_texts_are_run_once(gpt2, monkeypatch):
    model, seen, run = open_folder(gpt2), [], engine.run_after
    assert model._engine.shares
    monkeypatch.setattr(engine, "run_after", lambda m, b, n, *o, **k: seen.append(len(n)) or run(m, b, n, *o, **k))
    item = Restated("sea", ("salt", "salt", "rivers"))
    found = model.score([item, item, Restated("sea", ("rivers",))], PAPER)
    assert sum(seen) == 2
    assert found[0] == found[1]
    assert found[0][0] == found[0][1]
    assert found[2][0] == found[0][2]


def test_a_killed_run_keeps_its_finished_batches(gpt2, tmp_path, monkeypatch):
    store, run, done = tmp_path / "losses.sqlite", engine.run_after, []

    def stop(*given: Any, **options: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return run(*given, **options)

    model = open_folder(gpt2, store=store, batch_tokens=1000)
    assert model._engine.shares
    monkeypatch.setattr(engine, "run_after", stop)
    with pytest.raises(KeyboardInterrupt):
        model.score([Restated(f"{LONG} {i}", (LONG,)) for i in range(9)], PAPER)
    with sqlite3.connect(store) as db:
        assert db.execute("SELECT COUNT(*) FROM losses").fetchone()[0] >= 1
    db.close()


def test_a_file_that_is_no_store_is_told_from_one_that_can_not_be_written(gpt2, tmp_path):
    path = tmp_path / "losses.sqlite"
    path.write_text("something else, longer than a header of sqlite would be" * 10)
    with pytest.raises(ValueError, match=r"losses\.sqlite: not a store of losses"):
        open_folder(gpt2, store=path)
    with pytest.raises(ValueError, match="can't be opened for writing"):
        open_folder(gpt2, store=tmp_path)


def test_a_loss_that_is_no_number_is_given_and_not_kept(gpt2, tmp_path):
    store = tmp_path / "losses.sqlite"
    model = open_folder(gpt2, store=store)
    with torch.no_grad():
        model._engine.model.lm_head.weight[7] = math.nan
    ((found,),) = model.score([Restated("sea", ("salt",))], PAPER)
    assert math.isnan(found.nats)
    with sqlite3.connect(store) as db:
        assert db.execute("SELECT COUNT(*) FROM losses").fetchone() == (0,)
    db.close()


@pytest.fixture
def embedded(gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(roles, "MODELS", tmp_path)
    folder = tmp_path / "evaluator_small"
    shutil.copytree(gpt2, folder)
    (folder / "evaluator.json").write_text(json.dumps({"cache": {"theta": 3.0, "weight": 0.4}}))
    return folder


def test_an_embedded_evaluator_brings_its_own_cache(embedded):
    spec = parse_role("evaluator", DEFAULTS["evaluator"])
    assert (spec.kind, spec.name) == ("embedded", "small")
    own, none = Evaluator(spec, device="cpu"), Evaluator(spec, device="cpu", cache=None)
    assert own.cache == ContinuousCache(3.0, 0.4)
    assert own.identity.startswith(f"{spec.identity}|float32|cache:theta=3.0,weight=0.4")
    assert spec.identity.startswith("embedded:small@")
    assert none.identity == f"{spec.identity}|float32|cache:none"
    assert_close(own.score(ITEMS, PAPER), open_folder(embedded, cache=own.cache).score_plain(ITEMS, PAPER))
    assert open_folder(embedded).cache is None, "a folder's own is not taken"
    (embedded / "evaluator.json").write_text(json.dumps({"cache": None}))
    assert Evaluator(spec, device="cpu").cache is None


@pytest.mark.parametrize(
    "content", ["", "{}", '{"cache": {"theta": -1}}', '{"cache": {"tetha": 1}}', '{"cache": 3}', "[]"]
)
def test_an_embedded_evaluator_without_a_readable_cache_is_refused(embedded, content):
    (embedded / "evaluator.json").write_text(content)
    with pytest.raises(ValueError, match=r"evaluator\.json: field cache can't be read"):
        Evaluator(parse_role("evaluator", "embedded:small"))


def test_an_embedded_evaluator_that_is_not_there_says_how_to_get_it(embedded):
    with pytest.raises(ValueError, match=r"embedded:tiny is not at .*evaluator_tiny; .* `make train-evaluator`"):
        Evaluator(parse_role("evaluator", "embedded:tiny"))
    with pytest.raises(ValueError, match="no embedded evaluator is named 'x'; known: tiny, small, medium"):
        roles.find_evaluator("x")


def test_the_identity_tells_model_precision_and_cache_apart(gpt2, folders):
    options = ({}, {"cache": ContinuousCache()}, {"cache": ContinuousCache(theta=9)}, {"dtype": "bfloat16"})
    identities = {open_folder(gpt2, **option).identity for option in options}
    identities |= {open_folder(gpt2, cache=CACHES[2]).identity, open_folder(folders["llama"]).identity}
    assert len(identities) == 6
    assert open_folder(gpt2).identity.endswith("|float32|cache:none")
    rough, exact = (open_folder(gpt2, dtype=dtype).score(ITEMS[:1], PAPER)[0][0] for dtype in ("bfloat16", "auto"))
    assert rough.nats == pytest.approx(exact.nats, rel=0.1)


def test_wrong_arguments_are_refused(gpt2):
    with pytest.raises(ValueError, match="batch_tokens is 0; expected 1 or more"):
        open_folder(gpt2, batch_tokens=0)
    with pytest.raises(ValueError, match="the spec is of role judge"):
        Evaluator(parse_role("judge", f"path:{gpt2}"))
