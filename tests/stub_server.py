"""A chat server that thinks nothing: replies by a rule, fails on command or by chance, and keeps count.

The rule (`reply_to`): a prompt that shows `[[A]]` gets `[[A]]`, `[[B]]` or `[[C]]`; one that says "write" and shows no
double brackets gets a sentence; every other gets `[[n]]`, n = 1 + hash(prompt, seed) % 5. So equal prompt and seed get
equal replies, in any order, from any process.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What the client tries again, and replies of an odd shape; a number after a colon, as in "rate_limit:3", says how long.
RETRIED = ("rate_limit", "error_500", "drop", "cut_body", "status:503")
ODD = ("truncated", "no_choices", "error_inside", "deep")
WHOLE = ("plain_text",)  # a reply all the same
Top = Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Sent:
    """A reply that went out whole, so that it is paid for; `run` is what the client says of itself in X-Run."""

    run: str
    model: str
    prompt: str
    seed: int
    text: str
    time: float


def hash_request(prompt: str, seed: int) -> int:
    """A number that depends on both."""
    return int(hashlib.sha256(f"{seed}\n{prompt}".encode()).hexdigest()[:8], 16)


def reply_to(prompt: str, seed: int) -> str:
    """The rule of this module's first lines."""
    number = hash_request(prompt, seed)
    if "[[A]]" in prompt:
        return f"Weighing both, my verdict is [[{'ABC'[number % 3]}]]."
    if "write" in prompt.lower() and "[[" not in prompt:
        return f"Reason {number % 97} comes first, and reason {number % 89} follows from it."
    return f"It is fair but thin. [[{1 + number % 5}]]"


def need_tokens(stub: StubServer, least: int) -> Callable[[dict[str, Any]], object]:
    """An `edit` of a model that reasons: below so many tokens its reply is cut before any text."""

    def edit(whole: dict[str, Any]) -> dict[str, Any]:
        most = stub.bodies[-1]["max_tokens"]  # the same for all
        cut = whole["choices"][0] | {"message": {"content": ""}, "finish_reason": "length"}
        usage = {"prompt_tokens": 3, "completion_tokens": most}
        return whole if most >= least else whole | {"choices": [cut], "usage": usage}

    return edit


class StubServer:
    """The server, on a free port of loopback, in a thread of this process; a context manager.

    faults, share: this share of attempts meets a fault, chosen by `random_seed`, prompt, seed and attempt, so that the
    order of arrival changes nothing. script: faults for the first attempts in order of arrival, None for a reply.
    delay: seconds before each reply. key: the only one let in. refuses: a field that is answered with status 400.
    top: the likely tokens after a prompt that ends in `[[` and more; without it logprobs are passed over in silence.
    edit: a last word on the reply's JSON. model: None takes any name. listed: another list of models.
    """

    def __init__(
        self,
        *,
        faults: Sequence[str] = RETRIED,
        share: float = 0.0,
        script: Sequence[str | None] = (),
        reply: Callable[[str, int], str] = reply_to,
        delay: float = 0.0,
        key: str | None = None,
        refuses: Sequence[str] = (),
        top: Callable[[str], Top] | None = None,
        edit: Callable[[dict[str, Any]], object] | None = None,
        model: str | None = None,
        listed: object = None,
        random_seed: int = 0,
    ) -> None:
        self.faults, self.share, self.script, self.reply, self.delay = faults, share, list(script), reply, delay
        self.key, self.refuses, self.top, self.edit, self.model = key, refuses, top, edit, model
        self.listed, self.random_seed = listed, random_seed
        self.asked: Counter[tuple[str, int]] = Counter()  # attempts
        self.answered: Counter[tuple[str, int]] = Counter()  # replies that went out whole
        self.sent: list[Sent] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self._http = _Listener(("127.0.0.1", 0), _Handler)
        self._http.stub = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> StubServer:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()  # ends what hangs
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def choose_fault(self, prompt: str, seed: int) -> str | None:
        """What this attempt meets; counts it."""
        with self.lock:
            attempt = self.asked[prompt, seed]
            self.asked[prompt, seed] += 1
            if self.script:
                return self.script.pop(0)
        chance = random.Random(f"{self.random_seed}|{prompt}|{seed}|{attempt}")
        return chance.choice(self.faults) if chance.random() < self.share else None


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    stub: StubServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            return self.send(404, {"detail": "Not Found"})
        names = [self.server.stub.model or "stub", "other-model"]
        models = {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
        return self.send(200, self.server.stub.listed or models)

    def do_POST(self) -> None:
        stub = self.server.stub
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with stub.lock:
            stub.bodies.append(body)
            stub.paths.append(self.path)
            stub.at_once += 1
            stub.most_at_once = max(stub.most_at_once, stub.at_once)
        try:
            self.respond(stub, body)
        finally:
            with stub.lock:
                stub.at_once -= 1

    def respond(self, stub: StubServer, body: dict[str, Any]) -> None:
        if self.path not in ("/v1/chat/completions", "/v1/completions"):
            return self.send(404, {"detail": "Not Found"})
        said = self.headers.get("Authorization", "")
        if stub.key and said != f"Bearer {stub.key}":
            return self.send(401, {"error": {"message": f"Incorrect API key: {said}", "code": "invalid_api_key"}})
        if stub.model and body["model"] != stub.model:
            message = f"The model `{body['model']}` does not exist."
            return self.send(404, {"error": {"message": message, "code": "model_not_found"}})
        for field in stub.refuses:
            if field in body:
                hint = " Use 'max_completion_tokens' instead." if field == "max_tokens" else ""
                message = f"Unrecognized request argument supplied: {field}.{hint}"
                return self.send(400, {"error": {"message": message}})
        chat = "messages" in body
        prompt = body["messages"][0]["content"] if chat else body["prompt"]
        begun = body["messages"][1]["content"] if chat and len(body["messages"]) > 1 else prompt
        fault = stub.choose_fault(prompt, body.get("seed", 0))
        stub.closing.wait(stub.delay)
        text = stub.reply(prompt, body.get("seed", 0))
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if stub.top and body.get("logprobs"):
            top = stub.top(begun)
            tokens = [{"token": token, "logprob": logprob} for token, logprob in top]
            choice["logprobs"] = (
                {"content": [tokens[0] | {"top_logprobs": tokens}]} if chat else {"top_logprobs": [dict(top)]}
            )
        used = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
        whole: dict[str, Any] = {"object": "completion", "choices": [choice], "usage": used}
        sent = Sent(self.headers.get("X-Run", ""), body["model"], prompt, body.get("seed", 0), text, time.monotonic())
        if fault and fault not in WHOLE:
            return self.fail(fault, whole)
        with stub.lock:
            stub.answered[sent.prompt, sent.seed] += 1
            stub.sent.append(sent)
        if fault:
            return self.fail(fault, whole)
        return self.send(200, stub.edit(whole) if stub.edit else whole)

    def fail(self, fault: str, whole: dict[str, Any]) -> None:
        name, _, number = fault.partition(":")
        text, code = json.dumps(whole), int(number) if number.isdigit() else 0
        # With what the client sent as its key, as careless servers have it.
        echo = f"went wrong, Authorization: {self.headers.get('Authorization')}"
        replies: dict[str, tuple[int, object, dict[str, str]]] = {
            "rate_limit": (429, {"error": {"message": "Rate limit reached"}}, {"Retry-After": number or "0"}),
            "status": (code, {"error": {"message": echo}}, {}),
            "error_500": (500, "<html><body>Internal Server Error</body></html>", {"Content-Type": "text/html"}),
            "error_inside": (200, {"error": {"message": "overloaded", "code": code or None}}, {}),
            "no_choices": (200, whole | {"choices": []}, {}),
            "redirect": (307, {}, {"Location": number}),
            "plain_text": (200, text, {"Content-Type": "text/plain"}),
            "deep": (200, '{"choices":' + "[" * 100_000, {}),
            "truncated": (200, text[:-20], {}),
        }
        if name in replies:
            return self.send(*replies[name])
        if name == "cut_body":  # fewer bytes than announced
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
        elif name == "hang":
            self.server.stub.closing.wait(60)
        elif name != "drop":
            raise ValueError(f"unknown fault {fault!r}")
        self.close_connection = True
        # Reset rather than closed in order, as a crash would.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        return None

    def send(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        """A text goes out as it is, all else as JSON."""
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        own = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        for name, value in (own | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
