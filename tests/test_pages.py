"""Pages to text: no request leaves for a private address, by whatever way, and each page that is left out says why."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import os
import signal
import socket
import time
from typing import Any

import pandas as pd
import pytest
from stub_web import (
    ATTRIBUTES,
    HTML,
    WORDS,
    StubWeb,
    announce_much,
    drip_header,
    html,
    redirect,
    send_short,
    send_without_end,
)

from reproduction.data.page_text import PageReader
from reproduction.debates.guarded import is_public
from reproduction.debates.pages import fetch_pages

PRIVATE = (
    "127.0.0.1 127.9.9.9 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 255.255.255.255 224.0.0.1"
    " 240.0.0.1 192.0.2.1 198.18.0.1 ::1 :: ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::7f00:1 64:ff9b::7f00:1 2002:7f00:1::"
    " 2001:0:7f00:1::1 fe80::1 fe80::1%eth0 fec0::1 fc00::1 fd12::1 ff02::1 ff0e::1 2001:db8::1"
)
HERE = "127.0.0.2"  # a loopback address that stands for the public internet; 127.0.0.1 stands for what is private
ZIPPED = {"Content-Type": "text/html", "Content-Encoding": "gzip"}


def fetch(*addresses: str, **how: Any) -> pd.DataFrame:
    found = pd.DataFrame({"question": "Why?", "address": list(addresses)})
    return fetch_pages(found, **({"pause": 0.0, "seconds": 5.0, "allowed": lambda ip: ip == HERE} | how))


def test_only_addresses_of_the_public_internet_are_allowed():
    assert [address for address in PRIVATE.split() if is_public(address)] == []
    assert all(map(is_public, ["8.8.8.8", "1.1.1.1", "2606:4700::1111"]))


def test_no_request_to_this_machine_however_it_is_written():
    hosts = ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "0", "[::1]", "[::ffff:127.0.0.1]"]
    with StubWeb({"/": html(), "/robots.txt": html()}) as web:
        found = fetch(*[f"http://{host}:{web.port}/" for host in hosts], allowed=is_public)
        assert found.missing.tolist() == ["private_address"] * len(hosts)
        assert web.asked == []


def resolve(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let names have these addresses, one answer a look-up, the last for good; returns the names looked up."""
    asked: list[str] = []

    def answer(host: str, port: int, *_: object, **__: object) -> list[tuple]:
        asked.append(host)
        given = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in given]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def test_a_name_with_one_private_address_is_not_asked_at_all(monkeypatch):
    resolve(monkeypatch, [HERE, "127.0.0.1"])
    with StubWeb({"/": html()}, host=HERE) as web:
        assert fetch(f"http://mixed.example:{web.port}/").missing.tolist() == ["private_address"]
        assert web.asked == []


def test_a_name_that_changes_its_answer_is_looked_up_once_a_request_and_that_answer_is_connected_to(monkeypatch):
    with StubWeb({"/": html()}, host=HERE) as web, StubWeb({"/": html("<p>secret</p>")}, port=web.port) as private:
        names = resolve(monkeypatch, [HERE], ["127.0.0.1"])  # allowed for robots.txt, changed for the page
        found = fetch(f"http://rebound.example:{web.port}/")
        assert found.missing.tolist() == ["private_address"]
        assert names == ["rebound.example"] * 2
        assert (web.asked, private.asked) == (["/robots.txt"], [])
        resolve(monkeypatch, [HERE])
        assert fetch(f"http://steady.example:{web.port}/").text[0] == WORDS.strip()
        assert web.headers[-1]["Host"] == f"steady.example:{web.port}"


def test_the_next_address_of_a_host_is_tried_where_one_does_not_answer(monkeypatch):
    resolve(monkeypatch, ["127.0.0.9", HERE])
    with StubWeb({"/": html()}, host=HERE) as web:
        found = fetch(f"http://two.example:{web.port}/", allowed=lambda ip: ip in ("127.0.0.9", HERE))
        assert found.missing.tolist() == [""]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://127.0.0.1:{port}/secret", "private_address"),
        ("//localhost:{port}/secret", "private_address"),
        ("file:///etc/passwd", "bad_address"),
        ("http://user:word@127.0.0.2:{port}/page", "login_in_address"),
        ("http://[", "bad_address"),
        ("page?x=1#part", ""),
        ("/round", "too_many_redirects"),
    ],
)
def test_every_redirect_is_guarded_as_the_first_request(target, reason):
    with StubWeb({}, host=HERE) as web, StubWeb({"/secret": html()}, port=web.port) as private:
        web.pages |= {"/": redirect(target.format(port=web.port)), "/page": html(), "/round": redirect("/round")}
        assert fetch(f"{web.url}/").missing.tolist() == [reason]
        assert private.asked == []
        assert len(web.asked) <= 7  # robots.txt, the page, five redirects


def test_addresses_that_nobody_can_be_asked_for():
    bad = ["", "example.org/page", "ftp://example.org", "http://", "http://exa mple.org", "javascript:1", "http://[::1"]
    found = fetch(*bad, "http://name:word@example.org/", bad[0])
    assert list(found) == ["question", "address", "text", "missing"]
    assert found.missing.tolist() == ["bad_address"] * len(bad) + ["login_in_address", "bad_address"]
    assert (found.text == "").all()
    assert fetch().empty


def test_a_name_without_an_address_is_counted(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert fetch("http://nowhere.example/").missing.tolist() == ["no_such_host"]


@pytest.mark.parametrize(
    ("status", "robots", "reason"),
    [
        (200, b"User-agent: *\nDisallow: /", "robots"),
        (200, b"User-agent: nfqa\nDisallow: /page\n\nUser-agent: *\nAllow: /", "robots"),
        (200, b"\xef\xbb\xbfUser-agent: *\nDisallow: /page", "robots"),
        (200, "User-agent: *\nCrawl-delay: ²\nDisallow: //[\nDisallow: /page".encode(), "unreadable"),
        (200, b"User-agent: *\nCrawl-delay: " + b"9" * 5_000, "unreadable"),  # what can't be read may exclude us
        *((200, f"User-agent: *\nCrawl-delay: {odd}\nRequest-rate: {odd}".encode(), "") for odd in ("-1", "nan", "")),
        (200, b"User-agent: other\nDisallow: /", ""),
        (200, b"User-agent: *\nDisallow: /elsewhere", ""),
        (200, b"\xff\xfe\x00 what is this", ""),
        (404, b"", ""),
        (503, b"", "robots"),
        (200, b"#" * 6_000_000, "robots"),
    ],
)
def test_robots_txt_is_respected(status, robots, reason):
    with StubWeb({"/robots.txt": (status, {}, robots), "/page": html()}, host=HERE) as web:
        assert fetch(f"{web.url}/page").missing.tolist() == [reason]
        assert web.asked == ["/robots.txt", "/page"][: 1 if reason else 2]
        assert all(headers["User-Agent"].startswith("nfqa/") for headers in web.headers)


def test_robots_txt_of_the_host_that_a_page_sends_on_to_counts_too():
    with StubWeb({"/robots.txt": (200, {}, b"User-agent: *\nDisallow: /"), "/page": html()}, host=HERE) as closed:
        with StubWeb({"/": redirect(f"{closed.url}/page")}, host=HERE) as web:
            assert fetch(f"{web.url}/").missing.tolist() == ["robots"]
        assert closed.asked == ["/robots.txt"]


@pytest.mark.parametrize("page", [announce_much, send_without_end])
def test_a_large_page_is_left_out_and_not_read_to_its_end(page):
    with StubWeb({"/": page, "/after": html()}, host=HERE) as web:
        assert fetch(f"{web.url}/", f"{web.url}/after").missing.tolist() == ["too_large", ""]


def test_a_page_that_never_ends_its_header_costs_the_time_that_is_given_and_no_more():
    with StubWeb({"/": drip_header, "/after": html()}, host=HERE) as web:
        found = fetch(f"{web.url}/", f"{web.url}/after", seconds=0.7)
        times = dict(web.times)
        assert found.missing.tolist() == ["timeout", ""]
        assert 0.6 < times["/after"] - times["/"] < 3


def test_a_page_that_takes_its_parser_too_long_is_dropped_and_the_next_one_is_read():
    with StubWeb({"/slow": html(ATTRIBUTES), "/after": html()}, host=HERE) as web:
        found = fetch(f"{web.url}/slow", f"{web.url}/after", reading=4.0)  # the slow one takes minutes
        assert found.missing.tolist() == ["too_slow", ""]


def test_a_reader_whose_process_ended_begins_another():
    reader = PageReader()
    assert reader.read(HTML.encode())[1] == WORDS.strip()
    os.kill(next(iter(reader._pool._processes)), signal.SIGKILL)
    with pytest.raises(ValueError, match="the parser ended"):
        reader.read(HTML.encode())
    assert reader.read(HTML.encode())[1] == WORDS.strip()
    reader.close()


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ((200, {"Content-Type": "application/pdf"}, b"%PDF-1.7 x"), "pdf"),
        ((200, {"Content-Type": "text/html"}, b"\n%PDF-1.7 x"), "pdf"),
        ((200, {"Content-Type": "image/png"}, b"\x89PNG"), "not_text"),
        ((200, {"Content-Type": "text/html"}, b" \n"), "empty"),
        ((200, {"Content-Type": "text/html"}, b"<html><body><script>var x = 1;</script></body></html>"), "no_text"),
        ((200, {"Content-Type": "text/plain"}, bytes(range(256)) * 9), "unreadable"),
        ((200, ZIPPED, gzip.compress(HTML.encode())), "compressed"),
        ((404, ZIPPED, gzip.compress(HTML.encode())), "http_404"),
        (send_short, "connection"),
        ((404, {}, b"gone"), "http_404"),
        ((500, {}, b"oh"), "http_500"),
    ],
)
def test_a_page_without_text_says_why(page, reason):
    with StubWeb({"/": page}, host=HERE) as web:
        found = fetch(f"{web.url}/")
        assert (found.text[0], found.missing[0]) == ("", reason)


UMLAUTS = HTML.replace("A sentence", "Größe für Bücher, “déjà vu”")


@pytest.mark.parametrize(
    "page",
    [
        html(UMLAUTS),
        html(UMLAUTS, charset="; charset=iso-8859-1"),  # the header is wrong
        html(UMLAUTS, charset="; charset=no-such"),
        html(UMLAUTS, charset="; charset=windows-1252", encoding="windows-1252"),
        html(UMLAUTS.replace("<head>", '<head><meta charset="windows-1252">'), charset="", encoding="windows-1252"),
        html('<?xml version="1.0" encoding="utf-8"?>' + UMLAUTS),
        (200, ZIPPED | {"Content-Encoding": "identity"}, UMLAUTS.encode()),
        (200, {"Content-Type": "text/plain"}, UMLAUTS.encode()),
        (200, {}, UMLAUTS.encode()),
    ],
)
def test_a_page_is_read_in_the_encoding_that_it_has(page):
    with StubWeb({"/": page}, host=HERE) as web:
        found = fetch(f"{web.url}/")
        assert found.missing[0] == ""
        assert "Größe für Bücher, “déjà vu”" in found.text[0]
        assert "Menu" not in found.text[0] or page[1].get("Content-Type") == "text/plain"


def test_what_lasts_is_kept_and_what_may_pass_is_asked_again(tmp_path):
    pages = {"/good": html(), "/gone": (404, {}, b""), "/busy": (503, {}, b""), "/large": announce_much}
    with StubWeb(pages, host=HERE) as web:
        addresses = [f"{web.url}{path}" for path in pages]
        first = fetch(*addresses, addresses[0], cache=tmp_path / "pages.sqlite")
        assert first.missing.tolist() == ["", "http_404", "http_503", "too_large", ""]
        assert web.asked.count("/good") == 1
        web.asked.clear()
        web.pages["/busy"] = html()
        second = fetch(*addresses, cache=tmp_path / "pages.sqlite")
        assert second.missing.tolist() == ["", "http_404", "", "too_large"]
        assert web.asked == ["/robots.txt", "/busy"]
        assert second.text[0] == first.text[0] == WORDS.strip()


def test_a_host_is_asked_once_at_a_time_with_a_pause_and_hosts_side_by_side():
    def be_slow(handler: Any) -> None:
        time.sleep(0.05)
        handler.send(*html())

    pages = {f"/{n}": be_slow for n in range(3)}
    with StubWeb(pages, host=HERE) as one, StubWeb(dict(pages), host="127.0.0.3") as other:
        addresses = [f"{web.url}{path}" for path in pages for web in (one, other)]
        found = fetch(*addresses, pause=0.2, allowed=lambda ip: ip in (HERE, "127.0.0.3"))
        assert (found.missing == "").all()
        for web in (one, other):
            assert web.most_at_once == 1
            times = [when for _, when in web.times]
            assert min(b - a for a, b in itertools.pairwise(times)) >= 0.2
        assert one.times[0][1] < other.times[-1][1]
        assert other.times[0][1] < one.times[-1][1]


def test_a_host_that_wishes_for_a_longer_pause_gets_it():
    robots = (200, {}, b"User-agent: *\nCrawl-delay: 1")
    with StubWeb({"/robots.txt": robots, "/1": html(), "/2": html()}, host=HERE) as web:
        fetch(f"{web.url}/1", f"{web.url}/2")
        times = dict(web.times)
        assert times["/2"] - times["/1"] >= 1


def test_nothing_of_ours_is_sent_along(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text(f"machine {HERE} login me password word")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    pages = {"/1": (200, {"Set-Cookie": "id=7; Path=/"} | html()[1], HTML.encode()), "/2": html()}
    with StubWeb(pages, host=HERE) as web:
        assert fetch(f"{web.url}/1", f"{web.url}/2").missing.tolist() == ["", ""]
        assert not {"Cookie", "Authorization", "Referer"} & {name for headers in web.headers for name in headers}


def test_pages_are_fetched_inside_a_running_loop_as_jupyterlab_has_one():
    async def work() -> pd.DataFrame:
        return fetch(f"{web.url}/")

    with StubWeb({"/": html()}, host=HERE) as web:
        assert asyncio.run(work()).text[0] == WORDS.strip()
