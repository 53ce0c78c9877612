"""A real chat server: `transformers serve` with a tiny model, asked as any other."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_models import make_tiny_model

from nfqa.judge.limits import Limits, Meter
from nfqa.judge.openai_server import OpenAIServer
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec

COMMAND = Path(sys.executable).parent / "transformers"
HINT = "install requirements-dev.txt: `transformers serve` needs openai, fastapi, uvicorn and accelerate"
GREEDY = Decoding(temperature=0, top_p=1, max_tokens=8)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoleSpec]:
    """The judge role, filled by a model of random weights."""
    with serve(make_tiny_model(tmp_path_factory.mktemp("served") / "model")) as served:
        yield served


@contextmanager
def serve(model: Path) -> Iterator[RoleSpec]:
    """The judge role, filled by a model behind a server in a process of its own."""
    assert COMMAND.is_file(), HINT
    folder = model.parent
    settings = model / "generation_config.json"  # without do_sample, this server stays greedy at any temperature
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_sample": True}))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    log = folder / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [COMMAND, "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
    try:
        wait_until_ready(process, f"http://127.0.0.1:{port}/health", log)
        yield RoleSpec("judge", "openai", str(model), None, f"http://127.0.0.1:{port}/v1")
    finally:
        process.kill()
        process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + 240  # a busy machine needs it
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server ended: {HINT}\n{log.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"the server did not answer within 240 s\n{log.read_text()[-2000:]}")


def ask(spec: RoleSpec, requests: list[Request], decoding: Decoding) -> list[Reply | Failure]:
    server = OpenAIServer(spec, Meter(Limits(concurrency=2)), timeout=60)
    try:
        found = dict(server.answer(requests, decoding))
    finally:
        server.close()
    return [found[number] for number in range(len(requests))]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("wrapping", ["chat", "plain"])
def test_a_real_server_s_greedy_completion_is_the_one_that_the_model_gives_in_process(spec, wrapping):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompt = "The question asks why the sea is salty. Rank: [["
    decoding = Decoding(temperature=0, top_p=1, max_tokens=8, wrapping=wrapping)
    first, second = ask(spec, [Request(prompt), Request(prompt, seed=1)], decoding)
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert first.text == second.text  # greedy: the seed draws nothing
    tokenizer = AutoTokenizer.from_pretrained(spec.name)
    model = AutoModelForCausalLM.from_pretrained(spec.name)
    framed = f"<s><|user|>{prompt}</s><|assistant|>" if wrapping == "chat" else prompt
    # A chat template writes its own <s>; before a plain prompt the tokenizer puts one, here and in the server.
    ids = tokenizer(framed, return_tensors="pt", add_special_tokens=wrapping == "plain").input_ids  # [1, T]
    with torch.no_grad():
        written = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
    expected = written[0, ids.shape[1] :]
    assert first.text == tokenizer.decode(expected, skip_special_tokens=True)
    assert (first.prompt_tokens, first.completion_tokens) == (ids.shape[1], len(expected))
    assert first.finish == ("length" if len(expected) == 8 else "stop")


def test_a_real_server_draws_by_the_paper_s_decoding(spec):
    replies = ask(spec, [Request("Rank it.", seed) for seed in range(4)], Decoding(max_tokens=8))
    assert all(isinstance(reply, Reply) and reply.completion_tokens > 0 for reply in replies)
    assert len({reply.text for reply in replies if isinstance(reply, Reply)}) > 1


@pytest.mark.parametrize("wrapping", ["chat", "plain"])
def test_a_real_server_that_gives_no_token_probabilities_is_told_to_be_read_from_the_text(spec, wrapping):
    requests = [Request("Rank it.", labels=("1", "2"))]
    (failure,) = ask(spec, requests, Decoding(reading="logits", wrapping=wrapping))
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.fatal) == ("no_logprobs", True)
    assert f"{spec.url} gives no token probabilities" in failure.detail
    assert "use reading=text" in failure.detail
