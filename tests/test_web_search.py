"""Searching by a SearXNG, and fetching what it lists: bounded, polite, cached, and never from a private address."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
from conftest import PROJECT

from reproduction.cli import main
from reproduction.data.registry import UnreachableError
from reproduction.debates.web_search import fetch_pages, search_pages

WORDS = "A sentence of some length that says what the page is about, with words enough to be its main text. " * 4
HTML = f"<html><body><nav>Menu</nav><article><p>{WORDS}</p></article></body></html>".encode()
JSON, HERE = {"Content-Type": "application/json"}, "searxng:http://localhost:1"
BUSY = b'{"results": [], "unresponsive_engines": [["brave", "too many requests"]]}'
NO_PAGE = (404, {}, b"not here")
MAKE = ["debates", "data/sample/debate_questions.jsonl"]


class Handler(BaseHTTPRequestHandler):
    log_message = Mock()  # says nothing

    def do_GET(self) -> None:
        web = self.server.web  # type: ignore[attr-defined]
        web.paths.append(self.path)
        web.times.append(time.monotonic())
        web.headers = self.headers
        page = web.pages.get(self.path.partition("?")[0], NO_PAGE)
        status, headers, body = page(self) if callable(page) else page
        self.send_response(status)
        for header in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve(pages: dict[str, Any], host: str = "127.0.0.1") -> Iterator[Any]:
    """A server of `pages`, a path's (status, headers, body) or a function that gives it; its requests are listed."""
    with ThreadingHTTPServer((host, 0), Handler) as server:
        server.handle_error, server.daemon_threads = Mock(), True  # type: ignore[method-assign]
        port = server.server_port
        web = SimpleNamespace(url=f"http://{host}:{port}", port=port, pages=pages, paths=[], times=[])
        server.web = web  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield web
        server.shutdown()


def fetch(*addresses: str, **options: Any) -> pd.DataFrame:
    return fetch_pages(addresses, **({"pause": 0.0, "seconds": 5.0, "loopback": True} | options))


def test_no_request_leaves_for_a_private_address_however_it_is_written():
    private = """127.0.0.1 localhost 2130706433 0x7f000001 127.1 0 [::1] [::ffff:127.0.0.1] [64:ff9b::7f00:1] 10.1.2.3
        172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 224.0.0.1 [fe80::1] [fd12::1]"""
    with serve({}) as web:
        pages = fetch(*[f"http://{host}:{web.port}/" for host in re.findall(r"\S+", private)], loopback=False)
        assert (set(pages.missing), web.paths) == ({"private address"}, [])
    bad = ["", "example.org/page", "ftp://example.org", "http://", "http://exa mple.org", "http://name:word@a.org/"]
    assert set(fetch(*bad).missing) == {"bad address"}


@pytest.mark.parametrize("start", ["/", "/robots.txt"])
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://10.0.0.1/", "private address"), ("//[::ffff:10.0.0.1]/", "private address"), ("ftp:/x", "bad address"),
        ("//user:word@127.0.0.2/", "bad address"), ("/page?x=1#part", "http 404"), ("/round", "too many redirects"),
    ],
)  # fmt: skip
def test_every_redirect_is_checked_as_the_first_request(start, target, reason):
    with serve({"/round": (302, {"Location": "/round"}, b""), start: (302, {"Location": target}, b"")}) as web:
        assert fetch(f"{web.url}/").missing.tolist() == [reason]
        assert len(web.paths) <= 7  # robots.txt, the page, five redirects


def test_a_name_is_looked_up_once_a_request_and_the_address_that_was_checked_is_connected_to(monkeypatch):
    answers = ["127.0.0.1", "10.0.0.1"]  # allowed for robots.txt, changed for the page

    def look_up(host: str, port: int, *_: object, **__: object) -> list[tuple]:
        address = answers.pop(0) if host == "moved.example" else host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with serve({}) as web:
        assert fetch(f"http://moved.example:{web.port}/").missing.tolist() == ["private address"]
        assert (web.paths, answers, web.headers["Host"]) == (["/robots.txt"], [], f"moved.example:{web.port}")


@pytest.mark.parametrize(
    ("status", "robots", "reason"),
    [
        (200, b"User-agent: *\nDisallow: /", "robots"),
        (200, b"\xef\xbb\xbfUser-agent: nfqa\nDisallow: /page\n\nUser-agent: *\nAllow: /", "robots"),
        (200, "User-agent: *\nCrawl-delay: ²\nDisallow: /page".encode(), "unreadable"),  # it may exclude us
        (200, b"User-agent: other\nDisallow: /", "http 404"), (404, b"", "http 404"), (503, b"", "connection"),
    ],
)  # fmt: skip
def test_robots_txt_is_respected_also_of_a_host_that_a_page_redirects_to(status, robots, reason):
    page = {"/": lambda _: (302, {"Location": f"{web.url}/page"}, b"")}
    with serve({"/robots.txt": (status, {}, robots)}) as web, serve(page, "127.0.0.2") as other:
        assert fetch(f"{web.url}/page", f"{other.url}/").missing.tolist() == [reason] * 2
        assert ("/page" in web.paths, web.headers["User-Agent"][:5]) == (reason == "http 404", "nfqa/")


def drip_header(handler: Any) -> tuple[int, dict[str, str], bytes]:
    """A byte of a header line every tenth of a second: no single wait is long."""
    while not time.sleep(0.1):
        handler.wfile.write(b"H")
    return NO_PAGE


def test_size_and_time_are_bounded_and_a_page_without_text_says_why(tmp_path):
    kind, zipped = {"Content-Type": "text/html"}, {"Content-Encoding": "gzip"}
    pages = {
        "too large": (200, {"Content-Length": "900000000"}, b"x" * 6_000_000), "timeout": drip_header,
        "not text": (200, kind, b"\n%PDF-1.7 x"), "unreadable": (200, {"Content-Type": "text/plain"}, b"\x00\xff" * 9),
        "no text": (200, kind, b"<html><body><script>var x = 1;</script></body></html>"), "http 404": NO_PAGE,
        "http 503": (503, {}, b""), "connection": (200, {"Content-Length": "9000"}, HTML), "": (200, kind, HTML),
        "too large#": (200, zipped, gzip.compress(b"x" * 50_000_000)), "#": (200, zipped, gzip.compress(HTML)),
    }  # fmt: skip
    with serve({f"/{place}": page for place, page in enumerate(pages.values())}) as web:
        addresses = [f"{web.url}/{place}" for place in range(len(pages))]
        texts = fetch(*addresses, seconds=2.0, cache=tmp_path / "pages.sqlite")
        assert texts.missing.tolist() == [reason.strip("#") for reason in pages]
        assert texts.text[texts.detail == ""].tolist() == [WORDS.strip()] * 2
        times = dict(zip(web.paths, web.times, strict=True))
        assert 1.9 <= times["/2"] - times["/1"] < 9
        web.paths.clear()
        fetch(*addresses, seconds=2.0, cache=tmp_path / "pages.sqlite")  # what may pass is asked for again, no more
        assert web.paths == ["/robots.txt", "/1", "/6", "/7"]


def test_requests_to_a_host_have_its_pause_and_hosts_are_asked_side_by_side(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # which is not used
    pages = {"/robots.txt": (200, {}, b"User-agent: *\nCrawl-delay: 1")}
    with serve(pages) as one, serve(pages, "127.0.0.2") as other:
        assert set(fetch(*[f"{web.url}/{n}" for n in (1, 2) for web in (one, other)]).missing) == {"http 404"}
        assert min(pd.Series(web.times).diff().min() for web in (one, other)) >= 1
        assert max(one.times[0], other.times[0]) < min(one.times[-1], other.times[-1])


def test_results_come_in_order_are_cached_and_a_busy_server_is_asked_again(tmp_path):
    with serve({}, "127.0.0.2") as web:
        urls = [f"{web.url}/2", "http://10.0.0.1/", f"{web.url}/2", f"{web.url}/1"]
        replies = [(429, {}, b""), (200, JSON, json.dumps({"results": [{"url": url} for url in urls]}).encode())]
        with serve({"/searx/search": lambda _: replies.pop(0)}) as server:
            for every, reasons in ((False, ["domain not trusted"] * 2), (True, ["http 404", "private address"])):
                options = {"top": 2, "every": every, "pause": 0.0, "loopback": True}
                table = search_pages(f"{server.url}/searx/", tmp_path, **options)(["Why?", "Why?"])
                assert (table.address.tolist(), table.missing.tolist()) == (urls[:2], reasons)
        assert web.paths == ["/robots.txt", "/2"]
        assert server.paths == ["/searx/search?q=Why%3F&format=json"] * 2


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        *(((status, {}, b""), UnreachableError, f"{status} .*settings.yml") for status in (302, 403, 404)),
        ((200, {"Content-Type": "text/html"}, HTML), UnreachableError, "without JSON; name its first page"),
        ((200, JSON, BUSY), ValueError, "no engine .*too many requests"), ((200, JSON, b"{"), ValueError, "line 1"),
        ((200, JSON, b'{"results": 7}'), ValueError, "SearXNG at http.*results"),
    ],
)  # fmt: skip
def test_a_server_that_gives_no_results_says_what_to_do(reply, error, message):
    with serve({"/search": reply}) as server:
        with pytest.raises(error, match=message):
            search_pages(server.url)(["Why?"])
        assert len(server.paths) == 1
    with pytest.raises(UnreachableError, match=r"does not answer .*; start it, or correct SEARCHER"):
        search_pages(server.url)(["Why?"])


@pytest.mark.parametrize(
    ("searcher", "arguments", "message"),
    [
        (HERE, [*MAKE, "--documents", "data/sample"], "DOCUMENTS and SEARCHER"),
        ("searxng:http://me:word@localhost", MAKE, "without login"), ("searxng:localhost", MAKE, "or searxng:http:"),
        (HERE, ["status"], "SEARCHER is set"), pytest.param(HERE, MAKE, "does not answer", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_command_refuses_what_can_not_be_searched(searcher, arguments, message, monkeypatch, capsys):
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("SEARCHER", searcher)
    assert main(arguments) == 2
    refusal = capsys.readouterr().err.splitlines()[-1]
    assert re.search(message, refusal), refusal
    assert "word" not in refusal
