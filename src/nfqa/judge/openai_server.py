"""A language model behind any server that speaks OpenAI's protocol: many requests at a time,
capped, counted.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from operator import itemgetter
from threading import Semaphore
from typing import Any

from nfqa.judge.limits import Meter
from nfqa.judge.server_replies import (
    SAMPLING,
    RequestError,
    Top,
    judge_status,
    make_cleaner,
    read_completion,
    read_top,
    read_usage,
    spread_labels,
)
from nfqa.kernels.texts import replace_surrogates
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.loading import explain_network
from nfqa.models.roles import RoleSpec, is_address

_TOP = 20  # likely tokens to ask for: as many as OpenAI, and vLLM by default, give
_HEADERS = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")
_LOGIT_FIELDS = ("logprobs", "continue_final_message", "add_generation_prompt")


class OpenAIServer:
    """A model behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, `transformers serve`, a
    paid API.

    Address: the spec's, else OPENAI_BASE_URL, else the client's own. Key: OPENAI_API_KEY, never
        shown or kept.
    timeout: seconds without a byte. max_retries: of lost connections, time-outs, a busy or broken
    server; the `openai` client makes them, with growing, random pauses or those of Retry-After, up
    to two minutes. A reply that can't be read costs one request. `refused_fields` names what the
    server would not take and was asked without: "seed" (so the same completion can't be drawn
    again), "max_tokens" (sent as max_completion_tokens), "temperature" and "top_p" (named by
    `left_out` for keys and signatures, as such completions are drawn otherwise). Greedy, no top_p
    is sent. `meter` counts attempts, tokens and cost over all calls, and keeps to its limits. Half
    a surrogate pair, in a prompt or a reply, becomes U+FFFD, as UTF-8 can't carry it; control
    characters are sent as they are. What a server does with a field is its own affair:
    `transformers serve` ignores the temperature unless the model's generation settings say
    `do_sample`, and draws under one seed for all requests that it serves at once.
    Raises: ValueError with neither address nor key, for a login inside the address, for a key or
        another setting that no header can carry, and naming the variable for a proxy or
        certificates that can't be used.
    """

    template = "server"

    def __init__(
        self, spec: RoleSpec, meter: Meter | None = None, *, timeout: float = 120.0, max_retries: int = 4
    ) -> None:
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        url = spec.url or os.environ.get("OPENAI_BASE_URL", "").strip() or None
        server = f"the server of {spec.identity}"
        if not key and not url:
            raise ValueError(f"{server} isn't named: add @http://HOST:8000/v1, set OPENAI_BASE_URL or OPENAI_API_KEY")
        if url and not is_address(url):
            raise ValueError(
                f"{server}, or OPENAI_BASE_URL, must be like http://HOST:8000/v1, with a port up to 65535 if any,"
                " without login or query"
            )
        _check_headers()
        import openai

        # The client reads these two as well. A server that wants no key is sent a word, as the client insists on one.
        headers = (line.partition(":")[2] for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines())
        self._clean = make_cleaner([key, os.environ.get("OPENAI_ADMIN_KEY", ""), *headers])
        # A redirect would carry custom headers, which may hold a key, to another host.
        meter = meter or Meter()
        self.spec = spec
        self.timeout = timeout
        self.meter = meter

        def reserve(attempt: Any) -> None:  # it holds no server: one dropped unclosed lets go of its connections
            if attempt.method == "POST":
                meter.reserve()

        hooks: dict[str, list[Callable[..., Any]]] = {"request": [reserve]}
        try:
            transport = openai.DefaultHttpxClient(follow_redirects=False, event_hooks=hooks)
        except Exception as error:  # whatever the environment's proxies and certificates may do to it
            raise ValueError(explain_network(error)) from None
        weakref.finalize(self, transport.close)
        self._client = openai.OpenAI(
            api_key=key or "none", base_url=url, timeout=timeout, max_retries=max_retries, http_client=transport
        )
        self.address = str(self._client.base_url).rstrip("/")
        self.refused_fields: set[str] = set()

    @property
    def identity(self) -> str:
        """Model and tag, without the address: a verdict counts wherever the model is served."""
        return self.spec.identity

    @property
    def left_out(self) -> str:
        """The settings of sampling that the server would not take, with commas between."""
        return ",".join(sorted(self.refused_fields & {*SAMPLING}))

    def answer(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        """Each request's number with its reply or failure, as they arrive.

        A request is on its way until its reply was taken from here, so a killed run loses no more
        than those. After a fatal failure no further request is sent; it comes last, for all that
        got no reply, after every reply that was on its way or waiting to be tried again.
        """
        free = Semaphore(self.meter.limits.concurrency)
        ended = False
        fatal = dict[int, Failure]()

        def send() -> Iterator[int]:
            for number in range(len(requests)):
                free.acquire()
                if ended:
                    return
                yield number

        def ask(number: int) -> tuple[int, Reply | Failure]:
            first = [*fatal.values()][:1]  # a copy, as other threads add theirs meanwhile
            result = first[0] if first else self._ask(requests[number], decoding)
            if isinstance(result, Failure) and result.fatal:
                fatal[number] = result
            return number, result

        # ThreadPool's threads are daemons, an executor's are not: an interrupt needn't wait for a server that hangs.
        pool = ThreadPool(max(1, min(self.meter.limits.concurrency, len(requests))))
        try:
            for number, result in pool.imap_unordered(ask, send()):
                if number not in fatal:
                    yield number, result
                free.release()
            yield from fatal.items()
        finally:
            ended = True
            free.release()  # lets `send` end, if it waits
            pool.terminate()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _ask(self, request: Request, decoding: Decoding) -> Reply | Failure:
        ways = {"logits": self._weigh, "text": self._write}
        try:
            return ways[decoding.reading](request, decoding)
        except RequestError as error:
            failure = error.failure
            if failure.reason == "unknown_model":
                detail = f"{self.address} has no model {self.spec.name!r}; {self._list_models()} ({failure.detail})"
                failure = replace(failure, detail=detail)
            return replace(failure, detail=self._clean(failure.detail))

    def _write(self, request: Request, decoding: Decoding) -> Reply:
        options: dict[str, Any] = {"temperature": decoding.temperature, "max_tokens": decoding.max_tokens}
        if decoding.temperature:
            options["top_p"] = decoding.top_p
        return self._post(_frame(request.prompt, "", decoding), options | {"seed": request.seed})[0]

    def _weigh(self, request: Request, decoding: Decoding) -> Reply:
        """A distribution over the labels, by the next token after a forced `[[`; the text is the
        likeliest label.

        Needs a server that continues an unfinished message (vLLM, SGLang), or, for "plain",
        completions with logprobs. Whether a server ignores the request to continue can't be seen;
        the mass that `expect_value` gives is then small.
        """
        looks: list[tuple[int, int, float]] = []
        options: dict[str, Any] = {"temperature": 1, "top_p": 1, "max_tokens": 1, "logprobs": _TOP}
        if decoding.wrapping == "chat":
            options |= {"logprobs": True, "top_logprobs": _TOP}
            options |= {"add_generation_prompt": False, "continue_final_message": True}

        def look(written: str) -> Top:
            top = Top()
            why = "its reply holds none"
            try:
                reply, top = self._post(_frame(request.prompt, "[[" + written, decoding), options, read_top)
                looks.append((reply.prompt_tokens, reply.completion_tokens, reply.seconds))
            except RequestError as error:
                why = error.failure.detail
                if error.failure.reason != "bad_request" or not any(field in why for field in _LOGIT_FIELDS):
                    raise
            if not top:
                detail = f"{self.address} gives no token probabilities after a forced `[[`; use reading=text ({why})"
                raise RequestError("no_logprobs", detail, fatal=True)
            return top

        logprobs = spread_labels(request.labels, look)
        best, label = max(zip(logprobs, request.labels, strict=True), key=itemgetter(0))
        tokens_in, tokens_out, seconds = map(sum, zip(*looks, strict=True))
        text = f"[[{label}]]" if best > -math.inf else ""
        return Reply(text, tokens_in, tokens_out, "logits", seconds, logprobs)

    def _post(
        self,
        framed: dict[str, Any],
        options: dict[str, Any],
        read: Callable[..., Any] = lambda *_: None,
        left_out: Set[str] = frozenset(),
    ) -> tuple[Reply, Any]:
        """A reply, and what `read` makes of its log-probabilities.

        A field that the server refuses is removed at once, and for good if that helped.
        """
        left_out = left_out | self.refused_fields
        fields = {name: value for name, value in options.items() if name not in left_out}
        if "max_tokens" in left_out:
            fields["max_completion_tokens"] = options["max_tokens"]
        try:
            result = self._send(framed, fields, read)
        except RequestError as error:
            refused = [field for field in error.refused if field in fields]
            if not refused:
                raise
            return self._post(framed, options, read, left_out | {refused[0]})
        self.refused_fields |= left_out
        return result

    def _send(self, framed: dict[str, Any], fields: dict[str, Any], read: Callable[..., Any]) -> tuple[Reply, Any]:
        """One request. Raises: RequestError for every way in which it may fail."""
        import openai

        prompt = framed["prompt"] if "prompt" in framed else framed["messages"][0]["content"]
        completions = (self._client.chat if "messages" in framed else self._client).completions
        start = time.perf_counter()
        try:
            # Not the client's own records: it checks none of their fields, and reads no JSON sent as plain text.
            raw = completions.with_raw_response.create(model=self.spec.name, **framed, extra_body=fields)
            seconds = time.perf_counter() - start
            body = raw.http_response.json()
            usage = read_usage(body)
            self.meter.count(*usage or (0, 0))  # a reply that can't be read is paid for as well
            if usage is None and body.get("choices"):
                self.meter.unmetered = True
            text, finish, logprobs = read_completion(body, prompt=prompt)
            reply = Reply(text, *usage or (0, 0), finish, seconds)
            if text and not reply.completion_tokens:  # it was written for something
                self.meter.unmetered = True
            return reply, read(logprobs, reply)
        except RequestError:
            raise
        except openai.APIStatusError as error:
            raise judge_status(error.status_code, error.body, prompt=prompt) from None
        except openai.APITimeoutError:
            raise RequestError("timeout", f"{self.address} was silent for {self.timeout:g} seconds") from None
        except openai.APIConnectionError as error:
            cause = f"{type(error.__cause__).__name__}: {error.__cause__}"
            raise RequestError("connection", f"{self.address}: {cause}") from None
        except Exception as error:  # whatever a reply may do to a parser or a codec
            message = f"the server's reply can't be read ({type(error).__name__}: {error})"
            raise RequestError("bad_reply", message) from None

    def _list_models(self) -> str:
        """What the server offers, as the end of a sentence; it is asked once, and waited for less
        than for a reply.
        """
        client = self._client.with_options(timeout=min(10.0, self.timeout), max_retries=0)
        try:
            names = sorted(str(model.id) for model in client.models.list())[:20]
        except Exception:  # the client checks no shape
            names = []
        unknown = "what it offers could not be listed: check the address, which mostly ends in /v1"
        return f"it offers {', '.join(names)}" if names else unknown


def _check_headers() -> None:
    """Refuse what the client reads from the environment and no header can carry, without showing
    it.
    """
    for name in _HEADERS:
        value = os.environ.get(name, "")
        lines = value.splitlines() if name == "OPENAI_CUSTOM_HEADERS" else [value.strip()]
        if not all(line.isascii() and line.isprintable() for line in lines):
            raise ValueError(f"{name} holds a character that can't be sent; copy it again")


def _frame(prompt: str, begun: str, decoding: Decoding) -> dict[str, Any]:
    prompt = replace_surrogates(prompt)
    if decoding.wrapping == "plain":
        return {"prompt": prompt + begun}
    messages = [{"role": "user", "content": prompt}] + ([{"role": "assistant", "content": begun}] if begun else [])
    return {"messages": messages}
