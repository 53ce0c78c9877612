"""A language model behind any server that speaks OpenAI's protocol: asked at once, retried, capped, counted."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from threading import Semaphore
from typing import Any

from nfqa.judge.journal import mend_text
from nfqa.judge.limits import Limits, Meter
from nfqa.judge.server_client import Run, ServerClient
from nfqa.judge.server_errors import RequestError
from nfqa.judge.server_replies import Top, spread_labels
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec

_TOP = 20  # likely tokens to ask for: as many as OpenAI, and vLLM by default, give
_LOGIT_FIELDS = ("logprobs", "continue_final_message", "add_generation_prompt")


class OpenAIServer:
    """A model behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, `transformers serve`, a paid API.

    Address: the spec's, else OPENAI_BASE_URL, else the client's own. Key: OPENAI_API_KEY, never shown or kept.
    timeout: seconds without a byte. attempts: in all, for what may pass (lost connections, time-outs, a busy or broken
    server, replies that can't be read); between them growing, random pauses from `backoff` seconds on, or what
    Retry-After says, up to LONGEST_WAIT. `refused_fields` names what the server would not take and was asked without:
    "seed" (so the same completion can't be drawn again), "max_tokens" (sent as max_completion_tokens).
    `meter` counts requests, tokens and cost over all calls, from `used` on. Half a surrogate pair, in a prompt or a
    reply, becomes U+FFFD, as UTF-8 can't carry it; control characters are sent as they are. What a server does with a
    field is its own affair: `transformers serve` ignores the temperature unless the model's generation settings say
    `do_sample`, and draws under one seed for all requests that it serves at once.
    Raises: ValueError with neither address nor key, for a login inside the address, for a key that no header can
        carry, and for `attempts` or `timeout` below what makes sense.
    """

    template = "server"

    def __init__(
        self,
        spec: RoleSpec,
        *,
        timeout: float = 120.0,
        attempts: int = 5,
        backoff: float = 1.0,
        limits: Limits | None = None,
        used: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        if attempts < 1 or timeout <= 0:
            raise ValueError(f"attempts is {attempts}, timeout {timeout:g}; expected 1 or more, and above 0 seconds")
        self.spec = spec
        self.meter = Meter(limits or Limits(), used)
        self._client = ServerClient(spec, self.meter, timeout=timeout, attempts=attempts, backoff=backoff)
        self.refused_fields = self._client.refused_fields

    @property
    def identity(self) -> str:
        """Model and tag, without the address: a verdict counts wherever the model is served."""
        return self.spec.identity

    def answer(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        """Each request's number with its reply or failure, as they arrive.

        A request is on its way until its reply was taken from here, so a killed run loses no more than those. A fatal
        failure ends the sending, also of requests that wait to be tried again; it comes last, for all that got no
        reply, after every reply that was on its way.
        Raises: ValueError for a "logits" reading of a request without labels.
        """
        bare = [i for i, request in enumerate(requests) if not request.labels]
        if decoding.reading == "logits" and bare:
            raise ValueError(f'request {bare[0]} has no labels; a "logits" reading needs the verdicts to choose among')
        concurrency = self.meter.limits.concurrency
        run, free, unanswered = Run(), Semaphore(concurrency), set(range(len(requests)))

        def send() -> Iterator[tuple[int, Request]]:
            for numbered in enumerate(requests):
                free.acquire()
                if run.stop.is_set():
                    return
                yield numbered

        def ask(numbered: tuple[int, Request]) -> tuple[int, Reply | Failure]:
            return numbered[0], self._ask(numbered[1], decoding, run)

        # ThreadPool's threads are daemons, an executor's are not: an interrupt needn't wait for a server that hangs.
        pool = ThreadPool(max(1, min(concurrency, len(requests))))
        try:
            for number, result in pool.imap_unordered(ask, send()):
                if not (isinstance(result, Failure) and result.fatal):
                    unanswered.remove(number)
                    yield number, result
                free.release()
            if run.fatal:
                yield from ((number, run.fatal) for number in sorted(unanswered))
        finally:
            run.stop.set()
            free.release()  # lets `send` end, if it waits
            pool.terminate()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _ask(self, request: Request, decoding: Decoding, run: Run) -> Reply | Failure:
        try:
            return (self._weigh if decoding.reading == "logits" else self._write)(request, decoding, run)
        except RequestError as error:
            failure = error.failure
            if failure.reason == "unknown_model" and failure is not run.fatal:
                detail = f"{self._client.address} has no model {self.spec.name!r} ({failure.detail})"
                failure = replace(failure, detail=f"{detail}; {self._client.list_models()}")
            if failure.fatal:
                run.end(failure)
            return failure

    def _write(self, request: Request, decoding: Decoding, run: Run) -> Reply:
        body = self._frame(request.prompt, "", decoding)
        body |= {"temperature": decoding.temperature, "top_p": decoding.top_p, "max_tokens": decoding.max_tokens}
        found, usage, seconds = self._client.post(body | {"seed": request.seed}, run)
        return Reply(found.text, *usage, finish=found.finish, seconds=seconds)

    def _weigh(self, request: Request, decoding: Decoding, run: Run) -> Reply:
        """A distribution over the labels, by the next token after a forced `[[`; the text is the likeliest label.

        Needs a server that goes on with an unfinished message (vLLM, SGLang), or, for "plain", completions with
        logprobs. A server that passes the wish to go on over in silence can't be told from here; the mass that
        `expect_value` gives is then small.
        """
        used, started = list[tuple[int, int]](), time.perf_counter()
        wish: dict[str, Any] = {"temperature": 1, "top_p": 1, "max_tokens": 1, "logprobs": _TOP}
        if decoding.wrapping == "chat":
            wish |= {"logprobs": True, "top_logprobs": _TOP}
            wish |= {"add_generation_prompt": False, "continue_final_message": True}

        def look(written: str) -> Top:
            try:
                found, usage, _ = self._client.post(self._frame(request.prompt, "[[" + written, decoding) | wish, run)
            except RequestError as error:
                said = error.failure.detail
                if error.failure.reason != "bad_request" or not any(field in said for field in _LOGIT_FIELDS):
                    raise
                raise self._lack_logprobs(said) from None
            if not found.top:
                raise self._lack_logprobs("its reply holds none")
            used.append(usage)
            return found.top

        logprobs = spread_labels(request.labels, look)
        prompt_tokens, completion_tokens = (sum(counts) for counts in zip(*used, strict=True))
        seconds = time.perf_counter() - started
        best = max(range(len(logprobs)), key=logprobs.__getitem__)
        text = f"[[{request.labels[best]}]]" if logprobs[best] > -math.inf else ""
        return Reply(text, prompt_tokens, completion_tokens, "logits", seconds, logprobs)

    def _lack_logprobs(self, why: str) -> RequestError:
        detail = f"{self._client.address} gives no token probabilities after a forced `[[` ({why}); use reading=text"
        return RequestError(Failure("no_logprobs", detail, fatal=True))

    def _frame(self, prompt: str, begun: str, decoding: Decoding) -> dict[str, Any]:
        prompt = mend_text(prompt)
        if decoding.wrapping == "plain":
            return {"model": self.spec.name, "prompt": prompt + begun}
        messages = [{"role": "user", "content": prompt}] + ([{"role": "assistant", "content": begun}] if begun else [])
        return {"model": self.spec.name, "messages": messages}
