"""A model server's reply: the text, how it ended, the usage, and the probabilities of next tokens."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from os.path import commonprefix
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, ValidationError

from nfqa.files.json_lines import check
from nfqa.judge.server_errors import RequestError, judge_status
from nfqa.judge.token_ends import find_ends
from nfqa.kernels.texts import replace_surrogates
from nfqa.models.chat import Reply

_WHOLE = {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call"}  # finish_reason
_CUT = {"length", "max_tokens", "model_length"}
_ROUNDING = 1e-3  # above 0, that a log-probability may be
T = TypeVar("T")
Top = list[tuple[str, float]]  # likely next tokens, each with its natural log-probability
_Tokens = Annotated[int, Field(ge=0, lt=10**9)]  # of one request
_Logprob = Annotated[float, Field(le=_ROUNDING)]


class _Shape(BaseModel):
    """Only what is read of a reply: servers differ in the rest."""

    model_config = ConfigDict(strict=True)


class _Usage(_Shape):
    prompt_tokens: _Tokens
    completion_tokens: _Tokens | None = None


class _Part(_Shape):
    type: str | None = None
    text: str | None = None


class _Choice(_Shape):
    """Its text is in its message in chat completions, beside that in completions."""

    content: Annotated[
        str | list[_Part] | None, Field(validation_alias=AliasChoices(AliasPath("message", "content"), "text"))
    ] = None
    refusal: Annotated[str | None, Field(validation_alias=AliasPath("message", "refusal"))] = None
    finish_reason: str | None = None
    logprobs: Any = None


class _Reply(_Shape):
    choices: Annotated[list[_Choice], Field(min_length=1)]


class _Token(_Shape):
    token: str
    logprob: _Logprob


class _Position(_Shape):
    top_logprobs: list[_Token]


class _Logprobs(_Shape):
    """`content` in chat completions, `top_logprobs` in completions."""

    content: list[_Position] | None = None
    top_logprobs: list[dict[str, _Logprob]] | None = None


class _Echo(_Shape):
    tokens: list[str] = Field(default_factory=list)
    token_logprobs: list[_Logprob | None] = Field(default_factory=list)


def read_completion(found: object, *, clean: Callable[[str], str], prompt: str = "") -> tuple[str, str, object]:
    """The first completion of a reply that came with status 200: text, how it ended, and probabilities of its tokens.

    It ended by "stop", "length" or "refused", where the text is the refusal.
    Raises: RequestError, "bad_reply", for one of another shape, and for a text that may not be whole; as `judge_status`
        for an error inside, by the HTTP status that it gives as its code, else as 500.
    """
    error = found.get("error") if isinstance(found, dict) else None
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise judge_status(status, found, clean=clean, prompt=prompt)
    choice = _check(_Reply, found, clean).choices[0]
    text = choice.content
    if isinstance(text, list):  # a part that is reasoning is none of the text
        text = "".join(part.text or "" for part in text if part.type in (None, "text"))
    if choice.refusal or choice.finish_reason == "content_filter":
        return replace_surrogates(choice.refusal or text or ""), "refused", None
    if "content" not in choice.model_fields_set:
        raise RequestError("bad_reply", "the server's reply holds no text")
    ended = (choice.finish_reason or "stop").lower()
    if ended not in _WHOLE | _CUT:
        raise RequestError("bad_reply", f"the completion ended as {ended!r:.40}, so its text may not be whole")
    # No text at all: thinking took every token.
    return replace_surrogates(text or ""), "length" if ended in _CUT else "stop", choice.logprobs


def read_usage(found: object) -> tuple[int, int] | None:
    """Tokens of the prompt and of the completion; None where the server reports none, or numbers that can't be true."""
    try:
        usage = _Usage.model_validate(found.get("usage") if isinstance(found, dict) else None)
    except ValidationError:
        return None
    return usage.prompt_tokens, usage.completion_tokens or 0


def read_top(logprobs: object) -> Top:
    """The likely first tokens, from either endpoint's form; nothing where there are none.

    Raises: RequestError, "bad_reply", for another shape, and for a log-probability that is NaN or above 0.
    """
    found = _check(_Logprobs, logprobs or {}, str)
    pairs: list[tuple[str, float]] = []
    if found.content:
        pairs = [(each.token, each.logprob) for each in found.content[0].top_logprobs]
    elif found.top_logprobs:
        pairs = list(found.top_logprobs[0].items())
    return [(token, min(0.0, logprob)) for token, logprob in pairs]


def read_echo(logprobs: object, before: str, text: str, reply: Reply) -> tuple[float, ...]:
    """The log-probability of each token of a text after what stands before it; a token over both is the text's.

    A token with nothing before it has none. A tokenizer may have put letters and accents together (Unicode's NFC).
    reply: of which the tokens are; its text is the prompt and what was written after it, which may be nothing.
    Raises: RequestError, "bad_reply", for tokens that aren't the prompt's, or a log-probability that can't be one.
    """
    found = _check(_Echo, logprobs or {}, str)
    beyond = max(0, len(found.tokens) - reply.prompt_tokens)
    count = len(found.tokens) - (beyond if reply.text == before + text else reply.completion_tokens)
    known = found.token_logprobs[:count]
    if len(found.token_logprobs) == len(found.tokens) and None not in known[1:]:
        for form in (str, partial(unicodedata.normalize, "NFC")):
            prompt = form(before + text)
            ends = find_ends(found.tokens[:count], prompt)
            if ends is not None:
                begin = len(commonprefix([form(before), prompt]))  # noqa: RUF071
                pairs = zip(ends, known, strict=True)
                return tuple(min(0.0, value) for end, value in pairs if end > begin and value is not None)
    raise RequestError("bad_reply", "the tokens in the server's reply aren't those of the prompt")


def spread_labels(labels: Sequence[str], look: Callable[[str], Top]) -> tuple[float, ...]:
    """The natural log-probability of each label, in order.

    look: the likely tokens after `[[` and what it is given; called with "" first. A token counts for a label when it
    is the label, spaces and a closing bracket apart. Where a token is only the beginning of a label that is no token
    itself (10 as 1 and 0), one more look after that token splits its mass: onto the longer label, and the rest onto
    the shorter one, whatever follows it. A label that is not among the likely tokens gets minus infinity.
    """
    mass = dict.fromkeys(labels, -math.inf)

    def follow(written: str, reached: float) -> None:
        opened: dict[str, float] = {}
        for token, logprob in look(written):
            text, bracket, _ = (written + token).strip().partition("]")
            text, value = text.strip(), reached + logprob
            if bracket and text in mass and text != written:
                mass[text] = float(np.logaddexp(mass[text], value))
            elif not bracket and len(text) > len(written):
                opened[text] = float(np.logaddexp(opened.get(text, -math.inf), value))
        if written in mass:
            begun = [text for text in opened if any(label.startswith(text) for label in labels)]
            longer = sum(math.exp(opened[text] - reached) for text in begun)
            mass[written] = float(np.logaddexp(mass[written], reached + math.log(max(1 - longer, 1e-12))))
        for text, value in opened.items():
            if any(label.startswith(text) and label != text and label not in opened for label in labels):
                follow(text, value)
            elif text in mass:
                mass[text] = float(np.logaddexp(mass[text], value))

    follow("", 0.0)
    return tuple(mass[label] for label in labels)


def _check(shape: type[T], value: object, clean: Callable[[str], str]) -> T:
    try:
        return check(shape, value, "the server's reply")
    except ValueError as error:
        raise RequestError("bad_reply", clean(str(error))) from None
