"""A language model behind any server that speaks OpenAI's protocol: asked at once, retried, capped, counted."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.pool import ThreadPool
from queue import SimpleQueue
from typing import Any

from nfqa.judge.limits import Limits, Meter
from nfqa.judge.server_client import Run, ServerClient
from nfqa.judge.server_errors import RequestError
from nfqa.judge.server_replies import Top, mend_text, read_text, read_top, spread_labels
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec

__all__ = ["Limits", "OpenAIServer"]

_TOP = 20  # likely tokens to ask for: as many as OpenAI, and vLLM by default, give
_LOGIT_FIELDS = ("logprobs", "continue_final_message", "add_generation_prompt")


class OpenAIServer:
    """A model behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, `transformers serve`, a paid API.

    Address: the spec's, else OPENAI_BASE_URL, else the client's own. Key: OPENAI_API_KEY, never shown or kept.
    timeout: seconds without a byte. attempts: in all, for what may pass (lost connections, time-outs, a busy or broken
    server, replies that can't be read); between them growing, random pauses from `backoff` seconds on, or what
    Retry-After says, up to LONGEST_WAIT. `refused_fields` names what the server would not take and was asked without:
    "seed" (so the same completion can't be drawn again), "max_tokens" (sent as max_completion_tokens).
    `meter` counts requests, tokens and cost over all calls. Half a surrogate pair, in a prompt or a reply, becomes
    U+FFFD, as UTF-8 can't carry it; control characters are sent as they are. What a server does with a field is its
    own affair: `transformers serve` ignores the temperature unless the model's generation settings say `do_sample`,
    and draws under one seed for all requests that it serves at once.
    Raises: ValueError with neither address nor key, for a login inside the address, for a key that no header can
        carry, and for `concurrency`, `attempts` or `timeout` below what makes sense.
    """

    template = "server"

    def __init__(
        self,
        spec: RoleSpec,
        *,
        concurrency: int = 16,
        timeout: float = 120.0,
        attempts: int = 5,
        limits: Limits | None = None,
        progress: bool = False,
        backoff: float = 1.0,
    ) -> None:
        if concurrency < 1 or attempts < 1 or timeout <= 0:
            raise ValueError(
                f"concurrency is {concurrency}, attempts {attempts}, timeout {timeout:g};"
                " expected 1 or more, 1 or more, and above 0 seconds"
            )
        self.spec, self.concurrency, self.progress = spec, concurrency, progress
        self.meter = Meter(limits or Limits())
        self._client = ServerClient(spec, self.meter, timeout=timeout, attempts=attempts, backoff=backoff)

    @property
    def identity(self) -> str:
        """Model and tag, without the address: a verdict counts wherever the model is served."""
        return self.spec.identity

    @property
    def refused_fields(self) -> frozenset[str]:
        """What the server would not take and is asked without."""
        return frozenset(self._client.refused_fields)

    @property
    def requests_sent(self) -> int:
        """Every attempt, over all calls."""
        return self.meter.requests_sent

    @property
    def prompt_tokens(self) -> int:
        """As the server counts them; 0 from one that doesn't."""
        return self.meter.prompt_tokens

    @property
    def completion_tokens(self) -> int:
        """As the server counts them; 0 from one that doesn't."""
        return self.meter.completion_tokens

    @property
    def cost(self) -> float | None:
        """At the prices of the limits; None without prices."""
        return self.meter.cost

    def answer(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        """Each request's number with its reply or failure, as they arrive, at most `concurrency` on their way.

        A request is on its way until its reply was taken from here, so a killed run loses no more than those. A fatal
        failure ends the sending, also of requests that wait to be tried again; fatal failures come last, after every
        reply that was on its way.
        Raises: ValueError for a "logits" reading of a request without labels.
        """
        from tqdm import tqdm

        bare = [i for i, request in enumerate(requests) if not request.labels]
        if decoding.reading == "logits" and bare:
            raise ValueError(f'request {bare[0]} has no labels; a "logits" reading needs the verdicts to choose among')
        run, numbers, held = Run(), iter(range(len(requests))), dict[int, Failure]()
        arrived: SimpleQueue[tuple[int, Reply | Failure] | BaseException] = SimpleQueue()
        # ThreadPool's threads are daemons, an executor's are not: an interrupt needn't wait for a server that hangs.
        pool = ThreadPool(max(1, min(self.concurrency, len(requests))))

        def hand_over(number: int, result: Reply | Failure) -> None:
            arrived.put((number, result))

        def send_next() -> int:
            number = None if run.fatal else next(numbers, None)
            if number is None:
                return 0
            back = partial(hand_over, number)
            pool.apply_async(self._ask, (requests[number], decoding, run), callback=back, error_callback=arrived.put)
            return 1

        bar = tqdm(total=len(requests), desc=f"asking {self.spec.name}", unit="request", disable=not self.progress)
        try:
            flying = sum(send_next() for _ in range(self.concurrency))
            while flying:
                item = arrived.get()
                if isinstance(item, BaseException):
                    raise item
                number, result = item
                if isinstance(result, Failure) and result.fatal:
                    held[number] = result
                else:
                    bar.update()
                    yield number, result
                flying += send_next() - 1
            if run.fatal:
                held |= dict.fromkeys(numbers, run.fatal)
            yield from sorted(held.items())
        finally:
            run.stop.set()
            pool.terminate()
            bar.close()

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
        (text, finish), usage, seconds = self._client.post(body | {"seed": request.seed}, read_text, run)
        return Reply(self._client.clean(text), *usage, finish=finish, seconds=seconds)

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
                top, usage, _ = self._client.post(
                    self._frame(request.prompt, "[[" + written, decoding) | wish, read_top, run
                )
            except RequestError as error:
                said = error.failure.detail
                if error.failure.reason != "bad_request" or not any(field in said for field in _LOGIT_FIELDS):
                    raise
                raise self._lack_logprobs(said) from None
            if not top:
                raise self._lack_logprobs("its reply holds none")
            used.append(usage)
            return top

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
