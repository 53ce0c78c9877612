"""What a model server's refusals mean: which ones pass, which concern one prompt, which every further request meets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from nfqa.models.chat import Failure

SAMPLING = ("top_p", "temperature")  # of several that a server names, the first is left out first
_LONGEST = 600  # characters of a failure's message
_READ = 2_000  # characters of a server's own words that are looked through
_LEAST_SECRET = 8  # characters; a shorter one stands in too many texts to be searched for
_AROUND = 12  # characters beside a word that tell whether it was echoed
_TOO_LONG = re.compile(
    r"context[_ -]?(?:length|window|size)|maximum context|too long|too many tokens|reduce the length|longer than the m",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|\bmodel\b.{0,120}(?:does not exist|not found|not available|not loaded)|pinned to", re.IGNORECASE
)
_NO_MONEY = re.compile(r"insufficient_quota|billing", re.IGNORECASE)
_FIELD = re.compile(r"\b(?:temperature|top_p|seed|max_completion_tokens)\b")
_RANGE = re.compile(  # a value of ours that won't do, where another would
    r"[<>\u2264\u2265]=? *[-\d]|\b(?:less|greater|more) than|\bat (?:most|least)\b|\brange\b|\bbetween\b.{0,20}\d"
    r"|\b(?:above|below) m|\bm(?:ax|in)imum\b|\bmust be (?:in\b|non|positive|a number|an? (?:int|float))",
    re.IGNORECASE,
)
_MASKED = r"[^\s'\"]{2,}\*{3,}[^\s'\"]*"  # a key as services quote it: its ends, and stars between
_REASONS = {
    401: "no_access", 402: "no_access", 403: "no_access", 404: "unknown_model", 408: "timeout", 409: "server_error",
    413: "too_long", 425: "server_error", 429: "rate_limited",
}  # fmt: skip


class RequestError(Exception):
    """A request that brought no completion. refused_fields: those of ours that the server's words name, the one to be
    left out first before the others."""

    def __init__(self, reason: str, detail: str, *, fatal: bool = False, refused_fields: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.failure, self.refused_fields = Failure(reason, detail, fatal), refused_fields


def judge_status(status: int, body: object, *, prompt: str = "") -> RequestError:
    """What an HTTP error status and what came with it mean.

    Words that the server echoes from the prompt decide nothing. The detail ends in the server's words, which may hold a
    key: `make_cleaner` is for what is shown.
    """
    message, prompt = " ".join(_find_message(body)[:_READ].split()), " ".join(prompt.split())
    detail = f"the server answered {status}: {message}"
    reason = _REASONS.get(status) or ("server_error" if status >= 500 else "bad_request")
    if status in (400, 422) and _TOO_LONG.search(message):
        reason = "too_long"
    elif status not in (401, 404, 413) and status < 500 and any(_find_unechoed(_NO_MODEL, message, prompt)):
        reason = "unknown_model"
    elif status == 429 and _NO_MONEY.search(message):
        reason = "no_access"
    if status == 401:  # its words often quote part of the key, so they are left out
        detail = "the server answered 401: it wants a key, or another one; set OPENAI_API_KEY"
    names = set() if reason != "bad_request" or _RANGE.search(message) else {*_find_unechoed(_FIELD, message, prompt)}
    fields = ["max_tokens"] if "max_completion_tokens" in names else [f for f in (*SAMPLING, "seed") if f in names]
    return RequestError(reason, detail, fatal=reason in ("no_access", "unknown_model"), refused_fields=fields)


def _find_unechoed(pattern: re.Pattern[str], message: str, prompt: str) -> Iterator[str]:
    """What matches in the message and isn't, with the characters before or after it, in the prompt as well."""
    padded = "\0" * _AROUND + message + "\0" * _AROUND
    for match in pattern.finditer(padded):
        begin, end = match.span()
        if padded[begin - _AROUND : end] not in prompt and padded[begin : end + _AROUND] not in prompt:
            yield match[0]


def _find_message(body: object) -> str:
    """The words in an error's body, whatever its shape: OpenAI's, vLLM's, FastAPI's, a page of HTML, or nothing."""
    for _ in range(10):  # one inside another
        body = (body.get("error") or body) if isinstance(body, dict) else body
    if isinstance(body, dict):
        words = [body[name] for name in ("code", "param") if isinstance(body.get(name), str)]
        words += [body[name] for name in ("message", "detail") if body.get(name)] or [body]
        return " ".join(word if isinstance(word, str) else json.dumps(word) for word in words)
    return "no message" if body in (None, "") else str(body)


def make_cleaner(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that takes these secrets out of a text and cuts it. No `repr` or `vars` of it shows them."""
    stripped = {secret.strip() for secret in secrets}
    hidden = sorted((secret for secret in stripped if len(secret) >= _LEAST_SECRET), key=len, reverse=True)
    pattern = re.compile("|".join([*map(re.escape, hidden), _MASKED]))

    def clean(text: str) -> str:
        text = pattern.sub("[hidden]", text)  # before it is cut: half a key must not be left at the end
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"

    return clean
