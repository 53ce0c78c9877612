"""A small web of our own: pages by path, and all that servers do wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Page = tuple[int, dict[str, str], bytes]
WORDS = "A sentence of some length that says what the page is about, with words enough to be its main text. " * 4
HTML = f"<html><head><title>T</title></head><body><nav>Menu</nav><article><p>{WORDS}</p></article></body></html>"
ATTRIBUTES = f"<p {' '.join(f'a{n}=1' for n in range(300_000))}>{WORDS}</p>"  # parsers need the square of their number


def html(text: str = HTML, *, charset: str = "; charset=utf-8", encoding: str = "utf-8") -> Page:
    return 200, {"Content-Type": f"text/html{charset}"}, text.encode(encoding)


class StubWeb:
    """Serves `pages`, a path's reply or a function of the handler; what was asked, with headers and times, is kept."""

    def __init__(
        self, pages: dict[str, Page | Callable[[Any], None]], *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.pages = pages
        self.times: list[tuple[str, float]] = []
        self.at_once = self.most_at_once = 0
        self.lock, self.closing = threading.Lock(), threading.Event()
        self._http = _Listener((host, port), _Handler)
        self._http.stub = self
        self.host, self.port = self._http.server_address[:2]
        self.url = f"http://{self.host}:{self.port}"
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []

    def __enter__(self) -> StubWeb:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    stub: StubWeb

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def do_GET(self) -> None:
        stub = self.server.stub
        with stub.lock:
            stub.asked.append(self.path)
            stub.headers.append({name.title(): value for name, value in self.headers.items()})
            stub.times.append((self.path, time.monotonic()))
            stub.at_once += 1
            stub.most_at_once = max(stub.most_at_once, stub.at_once)
        try:
            page = stub.pages.get(self.path.partition("?")[0], (404, {}, b"not here"))
            if callable(page):
                page(self)
            else:
                self.send(*page)
        finally:
            with stub.lock:
                stub.at_once -= 1

    def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def redirect(where: str) -> Page:
    return 302, {"Location": where}, b""


def announce_much(handler: Any) -> None:
    """50 MB by the header, of which a reader that believes it takes nothing."""
    handler.send_response(200)
    handler.send_header("Content-Length", "50000000")
    handler.end_headers()


def send_without_end(handler: Any) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html")
    handler.end_headers()
    for _ in range(2_000):
        handler.wfile.write(b"x" * 65_536)


def drip_header(handler: Any) -> None:
    """A byte of a header line every tenth of a second: no single wait is long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.server.stub.closing.wait(0.1):
        handler.wfile.write(b"x")


def send_short(handler: Any) -> None:
    handler.send(200, {"Content-Type": "text/html", "Content-Length": "9000"}, HTML.encode())
