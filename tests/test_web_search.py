"""Searching by a SearXNG: what is asked, kept, tried again and refused, and which pages it leads to are fetched."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from conftest import PROJECT
from stub_web import StubWeb, html

from reproduction.cli import main
from reproduction.data.registry import UnreachableError
from reproduction.debates.pipeline import expand_questions, search_web
from reproduction.debates.web_search import SearchError, SearXNG, search_pages

HERE = "127.0.0.2"  # stands for the public internet
MAKE = ["debates", "data/sample/debate_questions.jsonl"]
A_PAGE, TOTAL = 10, 23  # results that the stub has of every query


class Server(StubWeb):
    """Answers as SearXNG does; `faults` are statuses or bodies that come first."""

    def __init__(self, *faults: object, addresses: tuple[str, ...] = ()) -> None:
        self.faults, self.addresses = list(faults), addresses
        super().__init__({"/searx/search": self.answer})

    def answer(self, handler: Any) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(handler.path).query).items()}
        assert asked["format"] == "json"
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, int):
            return handler.send(fault, {}, b"no")
        places = range(TOTAL)[(int(asked["pageno"]) - 1) * A_PAGE :][:A_PAGE]
        own = self.addresses or [f"https://{asked['q']}.example.org/{place + 1}" for place in places]
        found = {"results": [{"url": url, "title": "T", "content": None, "score": 1.0} for url in own]}
        return handler.send(200, {}, fault if isinstance(fault, bytes) else json.dumps(found).encode())

    def open(self, cache: Path | None = None, **how: Any) -> SearXNG:
        return SearXNG(f"{self.url}/searx/", cache, **({"backoff": 0.01, "seconds": 2.0} | how))


def test_results_come_in_order_page_by_page_until_there_are_enough():
    with Server() as server:
        found = server.open().search(["a", "b"], top=15)
        assert list(found) == ["query", "rank", "address", "title", "text"]
        assert found["query"].tolist() == ["a"] * 15 + ["b"] * 15
        assert found["rank"].tolist() == [*range(1, 16), *range(1, 16)]
        assert found.address[14] == "https://a.example.org/15"
        assert len(server.asked) == 4
        assert len(server.open().search(["c"], top=100)) == TOTAL
        assert server.open().search(["a"], top=2).text.tolist() == ["", ""]


def test_what_was_found_is_not_asked_for_again_and_a_run_that_failed_goes_on(tmp_path):
    with Server(b'{"results": []}', 500) as server:
        with pytest.raises(SearchError, match="500"):
            server.open(tmp_path / "s.sqlite", attempts=1).search(["a", "b"], top=5)
        first = server.open(tmp_path / "s.sqlite").search(["a", "b"], top=5)
        pd.testing.assert_frame_equal(server.open(tmp_path / "s.sqlite").search(["a", "b"], top=5), first)
        assert [parse_qs(urlsplit(path).query)["q"][0] for path in server.asked] == ["a", "b", "b"]
        assert set(first["query"]) == {"b"}


BUSY = b'{"results": [], "unresponsive_engines": [["brave", "too many requests"]]}'


@pytest.mark.parametrize("fault", [500, 429, b"not JSON", b"[1]", b'{"results": 7}', b'{"results": [7]}', BUSY])
def test_what_may_pass_is_tried_again(fault):
    with Server(fault, fault) as server:
        assert len(server.open().search(["a"], top=5)) == 5
        assert len(server.asked) == 3
        server.faults = [fault] * 2
        with pytest.raises(SearchError, match=server.url):
            server.open(attempts=2).search(["a"], top=5)


def test_a_server_that_does_not_answer_costs_its_time_out():
    with Server() as server:
        server.pages["/searx/search"] = lambda handler: server.closing.wait(5)
        with pytest.raises(SearchError, match="ReadTimeout"):
            server.open(seconds=0.1, attempts=2).search(["a"], top=5)


@pytest.mark.parametrize(("status", "said"), [(403, "formats.*json.*settings.yml"), (404, "404"), (302, "302")])
def test_a_refusal_is_final_and_says_what_to_do(status, said):
    with Server(status) as server:
        with pytest.raises(UnreachableError, match=said):
            server.open().search(["a"], top=5)
        assert len(server.asked) == 1
    with pytest.raises(UnreachableError, match="start it"):
        server.open().search(["a"], top=5)


def test_pages_of_trusted_domains_are_fetched_and_private_ones_are_not_though_the_server_is_here():
    with StubWeb({"/good": html()}, host=HERE) as web, StubWeb({"/": html()}) as private:
        addresses = (f"{web.url}/good", f"{web.url}/gone", f"{private.url}/", "https://shop.com/x")
        with Server(addresses=addresses) as server:
            how = {"trusted": ["", "org"], "pause": 0.0, "allowed": lambda ip: ip == HERE}  # an IP has no suffix
            questions = pd.DataFrame({"id": ["q"], "question": ["Why?"]})
            search = search_pages(server.open(), top=4, **how)
            kept, dropped = search_web(questions, expand_questions(questions), search)
        assert kept.document.tolist() == [f"{web.url}/good"]
        assert kept.text[0].startswith("A sentence of some length")
        assert set(zip(dropped["item"], dropped.reason, strict=True)) == {
            (f"q: {web.url}/gone", "http 404"), (f"q: {private.url}/", "private address"),
            ("q: https://shop.com/x", "domain not trusted"),
        }  # fmt: skip
        assert (web.asked.count("/good"), private.asked) == (1, [])


@pytest.mark.parametrize(
    ("searcher", "arguments", "said"),
    [
        (
            "searxng:http://localhost:1",
            [*MAKE, "--documents", "data/sample/debate_documents"],
            "DOCUMENTS and SEARCHER",
        ),
        ("searxng:localhost", MAKE, "or searxng:http:"),
        ("searxng:http://me:word@localhost", MAKE, "without login"),
        ("search:google", MAKE, "searxng:http"),
        ("searxng:http://localhost:1", MAKE, "does not answer"),
        ("searxng:http://localhost:1", ["status", "debateqa/table_10"], "SEARCHER is set"),  # no notebook searches
    ],
)
def test_the_command_refuses_what_can_not_be_searched(searcher, arguments, said, monkeypatch, capsys):
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("SEARCHER", searcher)
    assert main(arguments) == 2
    refused = capsys.readouterr().err.splitlines()[-1]
    assert re.search(said, refused), refused
    assert "word" not in refused
