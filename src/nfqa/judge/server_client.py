"""One request to an OpenAI-compatible server and its retries: what to send again, when, and what to leave out."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nfqa.judge.limits import Meter
from nfqa.judge.server_errors import RequestError, judge_status, make_cleaner, read_retry_after
from nfqa.judge.server_replies import Completion, read_completion, read_usage
from nfqa.models.chat import Failure
from nfqa.models.roles import RoleSpec

if TYPE_CHECKING:
    from openai import OpenAI
    from tenacity import RetryCallState

Sent = tuple[Completion, tuple[int, int], float]  # its tokens in and out, and the seconds of the last attempt
LONGEST_WAIT = 120.0  # seconds; a server that asks for a longer pause gets this one
_LONGEST_BACKOFF = 30.0


class Run:
    """A batch of requests: whether it has ended, and by which failure."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.fatal: Failure | None = None

    def end(self, failure: Failure) -> None:
        """Let nothing more be sent."""
        self.fatal = self.fatal or failure
        self.stop.set()  # wakes those that wait to try again


class ServerClient:
    """The openai client with retries of our own. `clean` takes the secrets that it was opened with out of a text."""

    def __init__(self, spec: RoleSpec, meter: Meter, *, timeout: float, attempts: int, backoff: float) -> None:
        self.meter, self.timeout, self.attempts, self.backoff = meter, timeout, attempts, backoff
        self.refused_fields: set[str] = set()
        self._client, self.clean = _open_client(spec, timeout)
        parts = urlsplit(str(self._client.base_url))
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def post(self, body: dict[str, Any], run: Run) -> Sent:
        """Send until a reply can be read.

        Raises: RequestError once `attempts` have failed, the failure is not a passing one, or `run` has ended.
        """
        from tenacity import Retrying, retry_if_exception, sleep_using_event, stop_after_attempt, stop_when_event_set

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, RequestError) and error.passing),
            wait=self._choose_pause,
            stop=stop_after_attempt(self.attempts) | stop_when_event_set(run.stop),
            sleep=sleep_using_event(run.stop),
            reraise=True,
        )
        try:
            return retrying(self._try, body, run)
        except RequestError as error:
            tried = retrying.statistics["attempt_number"]
            if error.passing and tried > 1:
                error.failure = replace(error.failure, detail=f"{error.failure.detail} (attempt {tried} failed too)")
            raise

    def _choose_pause(self, state: RetryCallState) -> float:
        from tenacity import wait_exponential_jitter, wait_random

        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, RequestError) and error.wait is not None:  # not all at the same moment
            return min(error.wait, LONGEST_WAIT) + wait_random(0, self.backoff)(state)
        return wait_exponential_jitter(multiplier=self.backoff, max=_LONGEST_BACKOFF, jitter=self.backoff)(state)

    def _try(self, body: dict[str, Any], run: Run) -> Sent:
        """One attempt; a field that the server refuses is left out at once, and for good if that helped."""
        left_out = set(self.refused_fields)
        while True:
            try:
                result = self._send(_leave_out(body, left_out), run)
            except RequestError as error:
                if error.refused_field is None or error.refused_field in left_out:
                    raise
                left_out.add(error.refused_field)
            else:
                self.refused_fields |= left_out
                return result

    def _send(self, body: dict[str, Any], run: Run) -> Sent:
        import openai

        if run.stop.is_set():
            raise RequestError(run.fatal or Failure("stopped", "the run was stopped", fatal=True))
        if capped := self.meter.reserve():
            raise RequestError(capped)
        started = time.perf_counter()
        try:
            path = "/chat/completions" if "messages" in body else "/completions"
            # A redirect would carry custom headers, which may hold a key, to another host.
            found = self._client.post(path, cast_to=object, body=body, options={"follow_redirects": False})
        except openai.APIStatusError as error:
            wait = read_retry_after(error.response.headers.get("retry-after"))
            raise judge_status(error.status_code, error.body, clean=self.clean, wait=wait) from None
        except openai.APITimeoutError:
            silent = Failure("timeout", f"{self.address} was silent for {self.timeout:g} seconds")
            raise RequestError(silent) from None
        except openai.APIConnectionError as error:
            why = self.clean(f"{type(error.__cause__).__name__}: {error.__cause__}")
            raise RequestError(Failure("connection", f"{self.address}: {why}")) from None
        except Exception as error:  # whatever a reply may do to a parser or a codec: it costs this request alone
            why = "is broken JSON" if isinstance(error, ValueError | RecursionError) else "can't be decoded"
            raise RequestError(Failure("bad_reply", f"the server's reply {why}")) from None
        seconds, usage = time.perf_counter() - started, read_usage(found)
        if usage:  # a reply that can't be read is paid for as well
            self.meter.count(usage)
        try:
            completion = read_completion(found, clean=self.clean)
        except RequestError:
            raise
        except Exception as error:
            why = f"the server's reply can't be read ({type(error).__name__})"
            raise RequestError(Failure("bad_reply", why)) from None
        if not usage:
            self.meter.count(None)
        return completion, usage or (0, 0), seconds

    def list_models(self) -> str:
        """What the server offers, as the end of a sentence."""
        import openai

        patient = self._client.with_options(timeout=min(10.0, self.timeout))
        try:
            names = sorted(self.clean(str(model.id)) for model in patient.models.list())
        except (openai.OpenAIError, ValueError, TypeError, AttributeError):  # the client checks no shape
            names = []
        if not names:
            return "what it offers could not be listed: check the address, which mostly ends in /v1"
        return "it offers " + ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _open_client(spec: RoleSpec, timeout: float) -> tuple[OpenAI, Callable[[str], str]]:
    """The client, and what takes its secrets out of a text."""
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    url = spec.url or os.environ.get("OPENAI_BASE_URL", "").strip() or None
    if not key and not url:
        raise ValueError(
            f"{spec.identity} has neither a server nor a key: name the server, as in"
            f" {spec.identity}@http://localhost:8000/v1 or in OPENAI_BASE_URL, or set OPENAI_API_KEY"
        )
    if url and not re.fullmatch(r"https?://[^/?#@]+(?:/[^?#@]*)?", url):
        raise ValueError(
            f"the address of {spec.identity}'s server, in the role or in OPENAI_BASE_URL, must be like"
            " http://localhost:8000/v1, with no login and no query inside; put a key into OPENAI_API_KEY"
        )
    if not key.isascii() or not key.isprintable():
        raise ValueError("OPENAI_API_KEY holds a character that can't be sent; copy the key again")
    import openai

    # The client reads these two as well. A server that wants no key is sent a word, as the client insists on one.
    headers = (line.partition(":")[2] for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines())
    clean = make_cleaner([key, os.environ.get("OPENAI_ADMIN_KEY", ""), *headers])
    return openai.OpenAI(api_key=key or "none", base_url=url, timeout=timeout, max_retries=0), clean


def _leave_out(body: dict[str, Any], refused: set[str]) -> dict[str, Any]:
    left = {name: value for name, value in body.items() if name not in refused}
    if "max_tokens" in refused:
        left["max_completion_tokens"] = body["max_tokens"]
    return left
