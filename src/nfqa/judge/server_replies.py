"""A model server's replies and refusals: text, ending, usage, probabilities of tokens, and what an
error means.

No server sent what it promises to: whatever reading a reply raises is that request's failure
(`OpenAIServer`).
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import pydantic

from nfqa.kernels.texts import replace_surrogates
from nfqa.models.chat import Failure, Reply

SAMPLING = ("top_p", "temperature")  # of several that a server names, the first is excluded first
# What a server may refuse by name, and the field of ours that is then left out.
_REFUSABLE = {"max_completion_tokens": "max_tokens", "top_p": "top_p", "temperature": "temperature", "seed": "seed"}
_LONGEST = 600  # characters of a failure's message
_READ = 2_000  # characters of a server's message that are looked through
_LEAST_SECRET = 8  # characters; a shorter one stands in too many texts to be searched for
_TOO_LONG = re.compile(
    r"context[_ -]?(?:length|window|size)|maximum context|too long|too many tokens|reduce the length|longer than the m",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|\bmodel\b.{0,120}(?:does not exist|not found|not available|not loaded)|pinned to", re.IGNORECASE
)
_MASKED = r"[^\s'\"]{2,}\*{3,}[^\s'\"]*"  # a key as services quote it: its ends, and stars between
_REASONS = {
    401: "no_access", 402: "no_access", 403: "no_access", 404: "unknown_model", 408: "timeout", 409: "server_error",
    413: "too_long", 425: "server_error", 429: "rate_limited",
}  # fmt: skip
_WHOLE = {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call"}  # finish_reason
_CUT = {"length", "max_tokens", "model_length"}
_ROUNDING = 1e-3  # above 0, that a log-probability may be
Top = list[tuple[str, float]]  # likely next tokens, each with its natural log-probability
# Characters that not every server shows as they are: none, part of a character, and blanks at a token's beginning.


_Count = Annotated[int, pydantic.Field(strict=True, ge=0, lt=10**9)] | None


class _Details(pydantic.BaseModel):
    cached_tokens: _Count = None
    reasoning_tokens: _Count = None


class _Usage(pydantic.BaseModel):
    """What a reply says of its tokens; fields may be missing or null."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    total_tokens: _Count = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class RequestError(Exception):
    """A request that brought no completion. refused: the fields that the server does not accept, in
    the order in which to drop them.
    """

    def __init__(self, reason: str, detail: str, *, fatal: bool = False, refused: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.failure = Failure(reason, detail, fatal)
        self.refused = refused


def judge_status(status: int, body: object, *, prompt: str = "") -> RequestError:
    """What an HTTP error status and what came with it mean.

    Words of the server that stand in the prompt as well may be an echo and decide nothing, but for
    a named `param`. The detail ends in the server's message, which may hold a key: `make_cleaner`
    is for what is shown.
    """
    message = " ".join(_find_message(body)[:_READ].split())
    prompt = " ".join(prompt.split())
    detail = f"the server answered {status}: {message}"
    reason = _REASONS.get(status) or ("server_error" if status >= 500 else "bad_request")
    if status in (400, 422) and _TOO_LONG.search(message):
        reason = "too_long"
    elif (
        status not in (401, 404, 413)
        and status < 500
        and any(words not in prompt for words in _NO_MODEL.findall(message))
    ):
        reason = "unknown_model"
    elif status == 429 and re.search("insufficient_quota|billing", message):
        reason = "no_access"
    if status == 401:  # its message often quotes part of the key
        detail = "the server answered 401: it wants a key, or another one; set OPENAI_API_KEY"
    words = {word for word in re.findall(r"\w+", message) if word not in prompt}
    words.add(str(body.get("param")) if isinstance(body, dict) else "")
    refused = [field for word, field in _REFUSABLE.items() if word in words and reason == "bad_request"]
    return RequestError(reason, detail, fatal=reason in ("no_access", "unknown_model"), refused=refused)


def _find_message(body: object) -> str:
    """The words in an error's body, whatever its shape: OpenAI's, vLLM's, FastAPI's, a page of
    HTML, or nothing.
    """
    if isinstance(body, dict) and body.get("error"):
        body = body["error"]
    if isinstance(body, dict):
        names = ("code", "param", "message", "detail")
        parts = [body[name] for name in names if body.get(name) and not isinstance(body[name], int)] or [body]
        return " ".join(part if isinstance(part, str) else json.dumps(part) for part in parts)
    return str(body or "no message")


def make_cleaner(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that takes these secrets out of a text and cuts it. No `repr` or `vars` of it
    shows them.
    """
    hidden = sorted({s.strip() for s in secrets if len(s.strip()) >= _LEAST_SECRET}, key=len, reverse=True)
    pattern = re.compile("|".join([*map(re.escape, hidden), _MASKED]))
    return lambda text: pattern.sub("[hidden]", text)[:_LONGEST]  # cut last: half a key must not be left at the end


def read_completion(body: Any, *, prompt: str = "") -> tuple[str, str, Any]:
    """The first completion of a reply that came with status 200: text, how it ended, and
    probabilities of its tokens.

    It ended by "stop", "length" or "refused", where the text is the refusal.
    Raises: RequestError, "bad_reply", for a text that may not be whole; as `judge_status` for an
        error inside, by the HTTP status that it gives as its code, else as 500.
    """
    if error := body.get("error"):
        code = error.get("code") if isinstance(error, dict) else None
        raise judge_status(code if isinstance(code, int) and 400 <= code < 600 else 500, error, prompt=prompt)
    choice = body["choices"][0]
    message = choice.get("message", choice)  # in completions the text is beside it
    refusal = message.get("refusal")
    ended = choice.get("finish_reason")
    ended = "stop" if ended is None else ended
    text = message.get("content") if "content" in message or refusal else message["text"]
    if isinstance(text, list):  # a part that is reasoning is none of the text
        text = "".join(part.get("text") or "" for part in text if part.get("type") in (None, "text"))
    text = replace_surrogates(refusal or text or "")
    if refusal or ended == "content_filter":
        return text, "refused", None
    if ended.lower() not in _WHOLE | _CUT:
        raise RequestError("bad_reply", f"the completion ended as {ended!r:.40}, so its text may not be whole")
    # No text at all: thinking took every token.
    return text, "length" if ended.lower() in _CUT else "stop", choice.get("logprobs")


def read_usage(body: Any) -> tuple[int, int] | None:
    """Tokens of the prompt and of the completion, with its reasoning, as they are charged at most.

    Cached tokens are part of the prompt and reasoning is part of the completion, unless they are
    more: some servers count them apart. What the total has beyond the prompt is the completion's.
    Returns: None where the server reports no prompt or no completion, or numbers that can't be
        true.
    """
    try:
        usage = _Usage.model_validate(body.get("usage"))
    except pydantic.ValidationError:
        return None
    cached = usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens
    reasoning = usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens
    if not usage.prompt_tokens or (usage.completion_tokens is None and usage.total_tokens is None):
        return None
    prompt = _add_apart(usage.prompt_tokens, cached or 0)
    completion = _add_apart(usage.completion_tokens or 0, reasoning or 0)
    return prompt, max(completion, (usage.total_tokens or 0) - prompt)


def _add_apart(tokens: int, part: int) -> int:
    """Tokens with a part of them, which is counted apart where it is more than all."""
    return tokens + part if part > tokens else tokens


def read_top(logprobs: Any, _: Reply) -> Top:
    """The likely first tokens, from either endpoint's form; nothing where there are none."""
    if not logprobs:
        return []
    if logprobs.get("content"):
        return [(str(each["token"]), _read_logprob(each["logprob"])) for each in logprobs["content"][0]["top_logprobs"]]
    top = logprobs.get("top_logprobs") or [{}]
    return [(token, _read_logprob(value)) for token, value in top[0].items()]


def spread_labels(labels: Sequence[str], look: Callable[[str], Top]) -> tuple[float, ...]:
    """The natural log-probability of each label, in order.

    look: the likely tokens after `[[` and what it is given; called with "" first. A token counts
    for a label when it is the label, spaces and a closing bracket apart. Where a token is only the
    beginning of a label that is no token itself (10 as 1 and 0), one more look after that token
    splits its mass: onto the longer label, and the rest onto the shorter one, whatever follows it.
    A label that is not among the likely tokens gets minus infinity.
    """
    shares = dict.fromkeys(labels, 0.0)

    def follow(written: str, reached: float) -> None:
        opened = defaultdict[str, float](float)
        for token, logprob in look(written):
            text, bracket, _ = (written + token).strip().partition("]")
            text = text.strip()
            share = reached * math.exp(logprob)
            if bracket and text in shares and text != written:
                shares[text] += share
            elif not bracket and len(text) > len(written):
                opened[text] += share
        if written in shares:
            longer = sum(share for text, share in opened.items() if any(label.startswith(text) for label in labels))
            shares[written] += max(reached - longer, reached * 1e-12)
        for text, share in opened.items():
            if any(label.startswith(text) and label != text and label not in opened for label in labels):
                follow(text, share)
            elif text in shares:
                shares[text] += share

    follow("", 1.0)
    return tuple(math.log(share) if share else -math.inf for share in shares.values())


def _read_logprob(value: Any) -> float:
    if not -math.inf <= float(value) <= _ROUNDING:
        raise ValueError(f"{value} is no log-probability")
    return min(0.0, float(value))
