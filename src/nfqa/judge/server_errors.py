"""What a model server's refusals mean: which ones pass, which concern one prompt, which every further request meets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

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
_AROUND = 12  # characters beside a phrase that tell whether it was echoed
_NAMES = r"\b(?:temperature|top_p|seed|max_tokens)\b"
_SEVERAL = rf"['\"`]?{_NAMES}['\"`]?(?:,? (?:and|or) ['\"`]?{_NAMES}['\"`]?)*"
_REFUSED = re.compile(  # a field's name alone between quotation marks (no key of an echoed body), or beside such words
    rf"(['\"`]){_NAMES}\1(?!:? *[\d\[{{\"'])"
    rf"|\b(?:parameters?|arguments?|fields?|settings?|unsupported|unknown|unrecognized|invalid)\W+(?:\w+\W+)?{_SEVERAL}"
    rf"|{_SEVERAL} (?:(?:parameters?|is|are) )?(?:fixed|unsupported|deprecated|parameters?\b|not (?:supported|allowed"
    r"|permitted|available)|(?:does|do) not support|(?:cannot|can't|can not|may only|can only|must) )",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"(?<!\w)(?:'([^']|(?<=\w)'(?=\w))*'|`[^`]*`|\u201c[^\u201d]*\u201d)(?!\w)")
_RANGE = re.compile(  # a value of ours that won't do, where another would
    r"[<>\u2264\u2265]=? *[-\d]|\b(?:less|greater|more) than|\bat (?:most|least)\b|\brange\b|\bbetween\b.{0,20}\d"
    r"|\b(?:above|below) m|\bm(?:ax|in)imum\b|\bmust be (?:in\b|non|positive|a number|an? (?:int|float))",
    re.IGNORECASE,
)
_MASKED = re.compile(r"[^\s'\"]{2,}\*{3,}[^\s'\"]*")  # a key as services quote it: its ends, and stars between
_PASSING = {408: "timeout", 409: "server_error", 425: "server_error", 429: "rate_limited"}  # and all from 500 on


class RequestError(Exception):
    """A request that brought no completion. refused_fields: those of ours that the server's words name, the one to be
    left out first before the others."""

    def __init__(self, reason: str, detail: str, *, fatal: bool = False, refused_fields: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.failure, self.refused_fields = Failure(reason, detail, fatal), refused_fields


def judge_status(status: int, body: object, *, clean: Callable[[str], str], prompt: str = "") -> RequestError:
    """What an HTTP error status and what came with it mean; `clean` takes secrets out of the server's words.

    Words that the server echoes from the prompt decide nothing.
    """
    # Cleaned before it is cut: half a key must not be left at the end.
    message = _MASKED.sub("[hidden]", " ".join(clean(_find_message(body))[:_READ].split()))
    shown = message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"
    said = f"the server answered {status}: {shown}"
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(message)):
        return RequestError("too_long", said)
    prompt = " ".join(prompt.split())
    message = _drop_echo(body, message, prompt)
    if status == 401:  # its words often quote part of the key, so they are left out
        detail = "the server answered 401: it wants a key, or another one; set OPENAI_API_KEY"
        return RequestError("no_access", detail, fatal=True)
    if status == 404 or (status < 500 and any(_find_own(_NO_MODEL, message, prompt))):
        return RequestError("unknown_model", said, fatal=True)
    if status in (402, 403) or (status == 429 and _NO_MONEY.search(message)):
        return RequestError("no_access", said, fatal=True)
    if status in _PASSING or status >= 500:
        return RequestError(_PASSING.get(status, "server_error"), said)
    names = _name_fields(body, message, prompt)
    fields = ["max_tokens"] if "max_completion_tokens" in message else [f for f in (*SAMPLING, "seed") if f in names]
    # Every further request meets what is refused without them as well. A value out of range is for the user to mend.
    fatal = not {*SAMPLING}.isdisjoint(fields)
    return RequestError("bad_request", said, fatal=fatal, refused_fields=() if _RANGE.search(message) else fields)


def _open_error(body: object) -> object:
    for _ in range(10):  # one inside another
        body = (body.get("error") or body) if isinstance(body, dict) else body
    return body


def _list_details(body: object) -> list[dict[str, object]]:
    """FastAPI's: each with the field (`loc`), the words (`msg`) and an echo of what was sent (`input`)."""
    error = _open_error(body)
    details = error.get("detail") if isinstance(error, dict) else None
    return [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []


def _drop_echo(body: object, message: str, prompt: str) -> str:
    """The message without the prompt and without quotations of several words, which may be a part of it."""
    if details := _list_details(body):
        message = " ".join(f"{one.get('msg', '')}" for one in details)
    if len(prompt.split()) > 1:
        for echo in (prompt, json.dumps(prompt)[1:-1], repr(prompt)[1:-1]):
            message = message.replace(echo, "")
    return _QUOTED.sub(lambda quoted: quoted[0] if len(quoted[0].split()) < 2 else "", message)


def _name_fields(body: object, message: str, prompt: str) -> set[str]:
    """The fields that an error is about: by its `param` or `loc`, else by its words."""
    error = _open_error(body)
    param = error.get("param") if isinstance(error, dict) else None
    if isinstance(param, str) and param not in ("", "None", "null"):
        return {param}
    if details := _list_details(body):
        return {str(loc[-1]) for one in details if isinstance(loc := one.get("loc"), list) and loc}
    return {name for phrase in _find_own(_REFUSED, message, prompt) for name in re.findall(_NAMES, phrase)}


def _find_own(pattern: re.Pattern[str], message: str, prompt: str) -> Iterator[str]:
    """What matches in the message and isn't, with the characters before or after it, in the prompt as well."""
    padded = "\0" * _AROUND + message + "\0" * _AROUND
    for match in pattern.finditer(padded):
        begin, end = match.span()
        if padded[begin - _AROUND : end] not in prompt and padded[begin : end + _AROUND] not in prompt:
            yield match[0]


def _find_message(body: object) -> str:
    """The words in an error's body, whatever its shape: OpenAI's, vLLM's, FastAPI's, a page of HTML, or nothing."""
    body = _open_error(body)
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
