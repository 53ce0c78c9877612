"""P.D. by a model behind a server: the same losses as in process, and servers that can't give them refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from stub_server import StubServer
from tiny_models import SENTENCES
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

import nfqa
from nfqa.judge.asking import StoppedError
from nfqa.judge.server_replies import RequestError, read_echo
from nfqa.kernels.perplexity import settings
from nfqa.models.chat import Reply
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import Restated
from nfqa.models.roles import parse_role
from nfqa.opening import open_evaluator

pytestmark = pytest.mark.usefixtures("one_thread")

LookBack = Callable[[str], Sequence[tuple[str, float | None]]]
ITEMS = (
    Restated(
        "The sea is salt, \u201cthey say\u201d.", (SENTENCES[0], "Caf\u00e9s \u2014 salt \U0001f30a", SENTENCES[3])
    ),
    Restated("The sea is \U0001f30a", ("\U0001f30a salt", "\u201cSalt.", SENTENCES[3])),
    Restated(SENTENCES[1], (SENTENCES[2],)),
)
REST = "\ufffd"  # a part of a character
ODD_TEXTS = ("\u00c9t\u00e9", "\U0001f30a\U0001f30a", "\u6c34\u662f\u54b8\u7684", "e\u0301te\u0301", "\u201csalt\u201d")
QUESTION = {"question": "Is the sea salt?", "partial_answers": ["Yes, rivers carry it.", "No."], "answers": ["It is."]}


def show_alone(parts: list[bytes]) -> list[str]:
    return [part.decode(errors="replace") for part in parts]


def show_as_vllm(parts: list[bytes]) -> list[str]:
    """A token that can't end a character is shown, by the one that ends it, after it."""
    texts, hidden = [], b""
    for part in parts:
        text = (hidden + part).decode(errors="replace")
        hidden = hidden + part if text.endswith(REST) else b""
        texts.append("" if hidden else text)
    return texts


def show_as_sglang(parts: list[bytes]) -> list[str]:
    return [part.decode("latin-1") if REST in part.decode(errors="replace") else part.decode() for part in parts]


def show_as_llama_cpp(parts: list[bytes]) -> list[str]:
    return [part.decode(errors="ignore") for part in parts]


FORMS = [show_alone, show_as_vllm, show_as_sglang, show_as_llama_cpp]


def look_back_at(folder: Path, show: Callable[[list[bytes]], list[str]]) -> LookBack:
    """Each token of a prompt as a server's maker shows it, and its log-probability."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}

    def find(prompt: str) -> list[tuple[str, float | None]]:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        with torch.inference_mode():
            logprobs = model(ids).logits[0].float().log_softmax(-1)
        values = [None, *(float(logprobs[place, token]) for place, token in enumerate(ids[0, 1:]))]
        mark, *rest = tokenizer.convert_ids_to_tokens(ids[0])
        parts = [bytes(byte_of[character] for character in token) for token in rest]
        return list(zip([mark, *show(parts)], values, strict=True))

    return find


@pytest.fixture(scope="module")
def look_back(folders: dict[str, Path]) -> LookBack:
    return look_back_at(folders["gpt2"], show_alone)


def open_served(stub: StubServer, journal: Path | None = None) -> Any:
    open_evaluator.cache_clear()
    return open_evaluator(f"openai:stub@{stub.url}", journal)


def test_losses_are_those_in_process(folders: dict[str, Path], look_back: LookBack) -> None:
    inside = Evaluator(parse_role("evaluator", f"path:{folders['gpt2']}"), device="cpu")
    with StubServer(look_back=look_back) as stub:
        served = open_served(stub)
        chosen = served.adapt(settings(instruction="Please restate."))
        for ours, theirs in zip(chain(*served.score(ITEMS, chosen)), chain(*inside.score(ITEMS, chosen)), strict=True):
            assert ours.nats == pytest.approx(theirs.nats, rel=1e-3)
            assert (ours.tokens, ours.attended) == (theirs.tokens, theirs.attended)


@pytest.mark.parametrize("composed", [False, True])  # whether the tokenizer puts letters and accents together
@pytest.mark.parametrize("show", FORMS)
def test_characters_of_several_tokens_count_as_in_process(alter, show, composed) -> None:
    folder = alter("gpt2", "tokenizer.json", normalizer={"type": "NFC"} if composed else None)
    inside = Evaluator(parse_role("evaluator", f"path:{folder}"), device="cpu")
    items = [Restated(f"A{text}.\n\n", (*ODD_TEXTS, "\n\n")) for text in ("", *ODD_TEXTS)]
    with StubServer(look_back=look_back_at(folder, show)) as stub:
        served = open_served(stub)
        options = replace(served.adapt(settings(instruction="")), plain_format="{answer}")
        ours, theirs = served.score(items, options), inside.score(items, options)
    for one, other in zip(chain(*ours), chain(*theirs), strict=True):
        assert (one.tokens, one.reason) == (other.tokens, other.reason)
        assert one.nats == pytest.approx(other.nats, rel=1e-3)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "how many tokens it read"),  # llama.cpp: of the written token alone
        ([("The", None), (" cat", 0.0), (" sat", 0.0)], "aren't those"),  # cut short
        ([(word, 0.0) for word in ["The", "cat", "sat", "on", "the", "mat."]] * 2, "holds none"),
    ],
)
def test_a_server_without_log_probabilities_is_refused(
    tokens: list[tuple[str, float | None]], message: str, tmp_path: Path
) -> None:
    with StubServer(look_back=lambda _: tokens) as stub:
        served = open_served(stub, tmp_path / "kept.sqlite")
        with pytest.raises(StoppedError, match="gives no log-probabilities of a prompt") as caught:
            served.score(ITEMS, served.adapt(settings()))
        assert message in str(caught.value)
        assert "vllm serve" in str(caught.value)
        assert served.asker.journal.list_lines() == []


def test_by_name_each_loss_is_asked_for_once_and_without_one_the_answer_has_no_score(
    look_back: LookBack, tmp_path: Path
) -> None:
    def score(stub: StubServer) -> pd.DataFrame:
        open_evaluator.cache_clear()
        return nfqa.perspective_diversity([QUESTION], f"openai:stub@{stub.url}", journal=tmp_path / "kept.sqlite")

    with StubServer(look_back=look_back, script=[None, None, "too_long"]) as stub:  # the trial, a view, a view
        without = score(stub)
        assert (without.score.isna().all(), without.missing.item()) == (True, "server: too_long")
        first = score(stub)
        assert score(stub).equals(first)
        assert len(stub.bodies) == 3 + 2  # another trial, and the view that has failed
    assert first.score.item() >= 2
    assert "bound:joint" in first.signature.item()


@pytest.mark.parametrize(
    ("tokens", "count"),
    [(["<s>", "\u2581The", "\u2581sea"], 1), (["The", " ", "sea"], 2), (["Th", "e sea"], 1)],  # one over both counts
)
@pytest.mark.parametrize("more", [[], ["!"]])
def test_tokens_are_found_by_their_text(tokens: list[str], count: int, more: list[str]) -> None:
    logprobs = {"tokens": tokens + more, "token_logprobs": [None, *[-1.0] * (len(tokens + more) - 1)]}
    reply = Reply("".join(["The sea", *more]), len(tokens), 1)
    assert read_echo(logprobs, reply, "The", " sea") == (-1.0,) * count


@pytest.mark.parametrize(
    ("tokens", "before", "text"),
    [
        (["A", " sea"], "", "The sea"),
        (["The", "x", " sea"], "", "The sea"),
        ([REST, "Yes"], "", "Salt \U0001f30a is good.\n\nYes"),
        (["Salt", ".", "\n\n"], "", "Salt.\n\nYes"),
        ([REST, REST, REST, REST], "\u00e9", "\u00e9"),  # where the text begins can't be seen
    ],
)
def test_tokens_of_another_text_are_refused(tokens: list[str], before: str, text: str) -> None:
    logprobs = {"tokens": tokens, "token_logprobs": [-1.0] * len(tokens)}
    with pytest.raises(RequestError, match="aren't those"):
        read_echo(logprobs, Reply(before + text, len(tokens), 0), before, text)
