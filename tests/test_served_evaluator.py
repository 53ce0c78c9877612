"""P.D. by a model behind a server: the same losses as in process, and servers that can't give them refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

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
TEN_TEXTS = (
    "\u00c9t\u00e9",
    " \u00e9t\u00e9 \u00c3\u00a9",
    "\U0001f30a\U0001f30a",
    "\U0001f44d\U0001f3fd yes",
    "\u6c34\u662f\u54b8\u7684\u3002",
    "e\u0301te\u0301",
    "\u0915\u094d\u0937\u0947\u0924\u094d\u0930",
    "\u201csalt\u201d \u2026",
    "Stra\u00dfe \u2014 \u00fcber",
    "\u0633\u0645\u0643\u0629\u200d\u2764",
)
QUESTION = {"question": "Is the sea salt?", "partial_answers": ["Yes, rivers carry it.", "No."], "answers": ["It is."]}


def show_alone(parts: list[bytes]) -> list[str]:
    return [part.decode(errors="replace") for part in parts]


def show_as_vllm(parts: list[bytes]) -> list[str]:
    """A token that can't end a character is shown, by the one that ends it, after it."""
    shown, hidden = [], b""
    for part in parts:
        text = (hidden + part).decode(errors="replace")
        hidden = hidden + part if text.endswith(REST) else b""
        shown.append("" if hidden else text)
    return shown


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
        own = [None, *(float(logprobs[place, token]) for place, token in enumerate(ids[0, 1:]))]
        mark, *rest = tokenizer.convert_ids_to_tokens(ids[0])
        parts = [bytes(byte_of[character] for character in token) for token in rest]
        return list(zip([mark, *show(parts)], own, strict=True))

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
        for instruction in ("Please restate.", ""):
            how = served.adapt(settings(instruction=instruction))
            for ours, theirs in zip(served.score(ITEMS, how), inside.score(ITEMS, how), strict=True):
                assert [one.nats for one in ours] == pytest.approx([one.nats for one in theirs], rel=1e-3)
                assert [one.tokens for one in ours] == [one.tokens for one in theirs]
                assert [one.attended for one in ours] == [one.attended for one in theirs]


@pytest.mark.parametrize("composed", [False, True])  # whether the tokenizer puts letters and accents together
@pytest.mark.parametrize("show", FORMS)
def test_characters_of_several_tokens_count_as_in_process(alter, show, composed) -> None:
    folder = alter("gpt2", "tokenizer.json", normalizer={"type": "NFC"} if composed else None)
    inside = Evaluator(parse_role("evaluator", f"path:{folder}"), device="cpu")
    items = [Restated(f"A{text}.\n\n", (*TEN_TEXTS, "\n\n")) for text in ("", *TEN_TEXTS)]
    with StubServer(look_back=look_back_at(folder, show)) as stub:
        served = open_served(stub)
        options = replace(served.adapt(settings(instruction="")), plain_format="{answer}")
        ours, theirs = served.score(items, options), inside.score(items, options)
    for one, other in zip(chain(*ours), chain(*theirs), strict=True):
        assert (one.tokens, one.reason) == (other.tokens, other.reason)
        assert one.nats == pytest.approx(other.nats, rel=1e-3)


@pytest.mark.parametrize(
    ("tokens", "count"),
    [
        (["A", ".", "\n\n", "", "\u00c9", "t", "", "\u00e9"], 5),
        (["A", ".", "\n\n", "\u00c3", "\x89", "t", "\u00c3", "\u00a9"], 5),
        (["A", ".", "\n\n", "\u00c9", "t", "\u00e9"], 3),
    ],
)
def test_tokens_of_a_text_that_begins_with_a_part_of_a_character_are_all_counted(tokens, count) -> None:
    given = {"tokens": tokens, "token_logprobs": [None, *[-1.0] * (len(tokens) - 1)]}
    before, text = "A.\n\n", "\u00c9t\u00e9"
    assert read_echo(given, Reply(before + text, len(tokens), 0), before, text) == (-1.0,) * count


def test_perspective_diversity_by_name(look_back: LookBack, tmp_path: Path) -> None:
    with StubServer(look_back=look_back) as stub:
        first, again = (
            nfqa.perspective_diversity([QUESTION], f"openai:stub@{stub.url}", journal=tmp_path / "kept.sqlite")
            for _ in range(2)
        )
        asked = len(stub.bodies)
        open_evaluator.cache_clear()
        later = nfqa.perspective_diversity([QUESTION], f"openai:stub@{stub.url}", journal=tmp_path / "kept.sqlite")
        assert len(stub.bodies) == asked == 1 + 2  # a trial, and each view once
    assert first.score.item() == again.score.item() == later.score.item() >= 2
    assert "bound:joint" in first.signature.item()
    assert "wrap:plain" in first.signature.item()


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([], "how many tokens it read"),  # llama.cpp: of the written token alone
        ([("The", None), (" cat", 0.0), (" sat", 0.0)], "aren't those"),  # cut short
        ([(word, 0.0) for word in ["The", "cat", "sat", "on", "the", "mat."]] * 2, "holds none"),
    ],
)
def test_a_server_without_log_probabilities_is_refused(
    tokens: list[tuple[str, float | None]], said: str, tmp_path: Path
) -> None:
    with StubServer(look_back=lambda _: tokens) as stub:
        served = open_served(stub, tmp_path / "kept.sqlite")
        with pytest.raises(StoppedError, match="gives no log-probabilities of a prompt") as caught:
            served.score(ITEMS, served.adapt(settings()))
        assert said in str(caught.value)
        assert "vllm serve" in str(caught.value)
        assert served.asker.journal.list_lines() == []


def test_what_has_no_loss_leaves_the_answer_without_a_score(look_back: LookBack) -> None:
    open_evaluator.cache_clear()
    with StubServer(look_back=look_back, script=[None, None, "too_long"]) as stub:  # the trial, a view, a view
        found = nfqa.perspective_diversity([QUESTION], f"openai:stub@{stub.url}")
    assert found.score.isna().all()
    assert list(found.missing) == ["server: too_long"]


def test_caps_hold(look_back: LookBack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_REQUESTS", "2")
    with StubServer(look_back=look_back) as stub:
        served = open_served(stub)
        with pytest.raises(StoppedError, match="MAX_REQUESTS"):
            served.score(ITEMS, served.adapt(settings()))
        assert len(stub.bodies) == 2


@pytest.mark.parametrize(
    ("tokens", "count"),
    [
        (["The", " sea"], 1),
        (["<s>", "The", " sea"], 1),
        (["<s>", "\u2581The", "\u2581sea"], 1),
        (["The", "sea"], 1),
        (["The", " ", "sea"], 2),
        (["Th", "e sea"], 1),
    ],
)
def test_tokens_are_found_by_their_text(tokens: list[str], count: int) -> None:
    for written in ([], ["!"]):
        given = {"tokens": [*tokens, *written], "token_logprobs": [None, *[-1.0] * (len(tokens + written) - 1)]}
        reply = Reply("".join(["The sea", *written]), len(tokens), 1)
        assert read_echo(given, reply, "The", " sea") == (-1.0,) * count


@pytest.mark.parametrize(
    ("tokens", "before", "text"),
    [
        (["The"], "", "The sea"),
        (["A", " sea"], "", "The sea"),
        (["The", " lake"], "", "The sea"),
        (["The", "x", " sea"], "", "The sea"),
        (["Salt", ".", "\n\n", "Yes"], "", "Salt.\n\nNot at all Yes"),
        (["\n", "\n", "Yes"], "", "Salt is good.\n\nYes"),
        ([REST, "Yes"], "", "Salt \U0001f30a is good.\n\nYes"),
        (["Salt", ".", "\n\n"], "", "Salt.\n\nYes"),
        ([REST, REST, REST, REST], "\u00e9", "\u00e9"),  # where the text begins can't be seen
    ],
)
def test_tokens_of_another_text_are_refused(tokens: list[str], before: str, text: str) -> None:
    given = {"tokens": tokens, "token_logprobs": [-1.0] * len(tokens)}
    with pytest.raises(RequestError, match="aren't those"):
        read_echo(given, Reply(before + text, len(tokens), 0), before, text)


def test_a_log_probability_above_0_is_refused() -> None:
    given = {"tokens": ["The", " sea"], "token_logprobs": [None, 0.5]}
    with pytest.raises(ValueError, match=r"0\.5 is no log-probability"):
        read_echo(given, Reply("The sea", 2, 0), "The", " sea")
