"""What a language model is asked and what it answers: the records that every way in shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import pydantic

Reading = Literal["text", "logits"]
Wrapping = Literal["chat", "plain"]
PASSING = {"timeout", "connection", "rate_limited", "server_error", "bad_reply"}  # worth another attempt at once
UNSETTLED = PASSING | {"bad_request"}  # not of the prompt, as far as can be told: asked again by the next run


@pydantic.dataclasses.dataclass(frozen=True)
class Decoding:
    """How a completion is drawn and read.

    temperature: 0 is greedy. reading: "text" lets the model write and looks for a verdict in what
    it wrote; "logits" forces `[[` after the prompt and reads the distribution of the next token
    over the possible verdicts. wrapping: "chat" puts the prompt into the model's own chat template,
    "plain" hands it over as it is (what LINKAGE's released code did).
    """

    temperature: Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)] = 0.8
    top_p: Annotated[float, pydantic.Field(gt=0, le=1)] = 0.95
    max_tokens: pydantic.PositiveInt = 512
    reading: Reading = "text"
    wrapping: Wrapping = "chat"

    @property
    def signature(self) -> str:
        """How it appears in signatures and in the journal's keys; what reading ignores is not in
        it.
        """
        if self.reading != "text":
            return f"{self.reading}|{self.wrapping}"
        return f"text|{self.wrapping}|t{_show(self.temperature)}|p{_show(self.top_p)}|max{self.max_tokens}"


def _show(number: float) -> str:
    """All digits of a number: two that differ at all must not look alike."""
    return repr(float(number)).removesuffix(".0")


@dataclass(frozen=True)
class Request:
    """One prompt. `labels` are the verdicts that a "logits" reading chooses among, as they stand
    between `[[` and `]]`.

    Requests of one `group` begin alike (the same question and references), so a backend may compute
    that part once.
    """

    prompt: str
    seed: int = 0
    labels: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True)
class Reply:
    """A completion: the model's own text and nothing of the prompt.

    `logprobs`, for a "logits" reading, holds the natural logarithm of each label's probability
    under the whole vocabulary, in the order of `Request.labels`. `finish` is "stop", "length",
    "refused" or "logits".
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: str = "stop"
    seconds: float = 0.0
    logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Failure:
    """Why there is no completion: never kept, asked again by the next run.

    `reason` is a short identifier ("timeout", "rate_limited", "server_error", "too_long", "capped",
    ...), `detail` the message. `fatal` says that every further request would fail alike (unknown
    model, no key), so the run must stop.
    """

    reason: str
    detail: str
    fatal: bool = False


class ChatModel(Protocol):
    """A way to ask a model.

    identity: model and revision, and precision in process. template: what wraps a prompt, a hash of
    the chat template, "plain", or "server". Both enter every key.
    """

    @property
    def identity(self) -> str: ...

    @property
    def template(self) -> str: ...

    def answer(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        """Each request's number with its reply or failure, in the order in which they arrive; each
        exactly once.
        """
        ...

    def close(self) -> None: ...
