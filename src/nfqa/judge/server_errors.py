"""What a model server's refusals mean: which ones pass, which concern one prompt, which every further request meets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence

from nfqa.models.chat import Failure

SAMPLING = ("top_p", "temperature")  # of several that a server names, the first is left out first
_LONGEST_MESSAGE = 300  # characters of a server's own words in a failure
_READ = 2_000  # characters of them that are looked through
_LEAST_SECRET = 8  # characters; a shorter one stands in too many texts to be searched for
_TOO_LONG = re.compile(
    r"context[_ -]?(?:length|window|size)|maximum context|too long|too many tokens|reduce the length|longer than the m",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|\bmodel\b.{0,120}(?:does not exist|not found|not available|not loaded)|pinned to", re.IGNORECASE
)
_NO_MONEY = re.compile(r"insufficient_quota|billing", re.IGNORECASE)
_MASKED = re.compile(r"[^\s'\"]{2,}\*{3,}[^\s'\"]*")  # a key as services quote it: its ends, and stars between
_PASSING = {408: "timeout", 409: "server_error", 425: "server_error", 429: "rate_limited"}  # and all from 500 on


class RequestError(Exception):
    """A request that brought no completion. refused_fields: those of ours that the server's words name, the one to be
    left out first before the others."""

    def __init__(self, reason: str, detail: str, *, fatal: bool = False, refused_fields: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.failure, self.refused_fields = Failure(reason, detail, fatal), refused_fields


def judge_status(status: int, body: object, *, clean: Callable[[str], str]) -> RequestError:
    """What an HTTP error status and what came with it mean; `clean` takes secrets out of the server's words."""
    # Cleaned before it is cut: half a key must not be left at the end.
    message = _MASKED.sub("[hidden]", " ".join(clean(_find_message(body))[:_READ].split()))
    shown = message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"
    said = f"the server answered {status}: {shown}"
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(message)):
        return RequestError("too_long", said)
    if status == 401:  # its words often quote part of the key, so they are left out
        detail = "the server answered 401: it wants a key, or another one; set OPENAI_API_KEY"
        return RequestError("no_access", detail, fatal=True)
    if status == 404 or (status < 500 and _NO_MODEL.search(message)):
        return RequestError("unknown_model", said, fatal=True)
    if status in (402, 403) or (status == 429 and _NO_MONEY.search(message)):
        return RequestError("no_access", said, fatal=True)
    if status in _PASSING or status >= 500:
        return RequestError(_PASSING.get(status, "server_error"), said)
    fields = [field for field in (*SAMPLING, "seed") if re.search(rf"\b{field}\b", shown)]
    fields = ["max_tokens"] if "max_completion_tokens" in message else fields
    # What is refused without them as well, every further request meets.
    return RequestError("bad_request", said, fatal=not {*SAMPLING}.isdisjoint(fields), refused_fields=fields)


def _find_message(body: object) -> str:
    """The words in an error's body, whatever its shape: OpenAI's, vLLM's, FastAPI's, a page of HTML, or nothing."""
    for _ in range(10):  # one inside another
        body = (body.get("error") or body) if isinstance(body, dict) else body
    if isinstance(body, dict):
        words = [body[name] for name in ("message", "detail") if body.get(name)] or [body]
        code = [body["code"]] if isinstance(body.get("code"), str) else []
        return " ".join(word if isinstance(word, str) else json.dumps(word) for word in [*code, *words])
    return "no message" if body in (None, "") else str(body)


def make_cleaner(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that takes these secrets out of a text. It keeps them to itself: no `repr` or `vars` shows them."""
    stripped = {secret.strip() for secret in secrets}
    hidden = sorted((secret for secret in stripped if len(secret) >= _LEAST_SECRET), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, hidden)) or "(?!)")
    return lambda text: pattern.sub("[hidden]", text)
