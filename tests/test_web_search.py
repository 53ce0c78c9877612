"""Searching by a service: what is asked, kept, retried and refused, and that the key is nowhere to be read."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from conftest import PROJECT
from stub_web import StubWeb, html

from nfqa.data.registry import UnreachableError
from nfqa.debates import pipeline
from nfqa.debates.pipeline import expand_questions, search_web
from nfqa.debates.searcher import LocalSearch, open_searcher, search_pages
from nfqa.debates.web_search import GoogleSearch, SearchError
from nfqa.judge.limits import Limits
from nfqa.lab.cli import main

SECRET, ENGINE = "key-that-is-secret-0123", "engine-0123456789"
TOTAL = 23  # results that the stub has of every query


@pytest.fixture(autouse=True)
def access(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", SECRET)
    monkeypatch.setenv("GOOGLE_SEARCH_ENGINE", ENGINE)
    monkeypatch.delenv("MAX_REQUESTS", raising=False)


class Service(StubWeb):
    """Answers as the service does; `faults` are statuses or bodies that come first."""

    def __init__(self, *faults: object) -> None:
        self.faults = list(faults)
        super().__init__({"/v1": self.answer})

    def answer(self, handler: Any) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(handler.path).query).items()}
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, int):
            echo = f"Something about {SECRET} and {ENGINE}: {handler.headers['X-Goog-Api-Key']}"
            return handler.send(fault, {}, json.dumps({"error": {"code": fault, "message": echo}}).encode())
        if isinstance(fault, bytes):
            return handler.send(200, {"Content-Type": "application/json"}, fault)
        start = int(asked["start"])
        places = range(start, min(start + int(asked["num"]), TOTAL + 1))
        items = [
            {"link": f"https://{asked['q']}.example.org/{n}", "title": f"Page {n}", "snippet": "of it"} for n in places
        ]
        return handler.send(200, {}, json.dumps({"kind": "customsearch#search", "items": items}).encode())

    def open(self, cache: Path | None = None, **how: Any) -> GoogleSearch:
        return GoogleSearch(cache, address=f"{self.url}/v1", **({"backoff": 0.01, "seconds": 2.0} | how))


def test_results_come_in_order_page_by_page_and_the_key_goes_in_a_header_alone():
    with Service() as service:
        found = service.open().search(["a", "b"], top=15)
        assert list(found) == ["query", "rank", "address", "title", "text"]
        assert found["query"].tolist() == ["a"] * 15 + ["b"] * 15
        assert found["rank"].tolist() == [*range(1, 16), *range(1, 16)]
        assert found.address[14] == "https://a.example.org/15"
        assert len(service.asked) == 4
        assert SECRET not in str(service.asked)
        assert {headers["X-Goog-Api-Key"] for headers in service.headers} == {SECRET}


def test_a_query_ends_with_the_service_s_results():
    with Service() as service:
        assert len(service.open().search(["a"], top=100)) == TOTAL
        assert len(service.asked) == 3
    with Service(b'{"kind": "customsearch#search"}') as service:
        assert service.open().search(["a"]).empty


def test_what_was_found_is_not_asked_for_again_and_no_secret_is_kept(tmp_path):
    cache = tmp_path / "searches.sqlite"
    with Service() as service:
        first = service.open(cache).search(["a"], top=20)
        again = service.open(cache)
        pd.testing.assert_frame_equal(again.search(["a"], top=20), first)
        assert again.n_requests == 0
        assert len(again.search(["a", "b"], top=10)) == 20
        assert len(service.asked) == 3
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"a.example.org" in held
    assert SECRET.encode() not in held
    assert ENGINE.encode() not in held


def test_a_run_that_was_killed_asks_for_what_is_left(tmp_path):
    with Service(b"{}", b"{}", 400) as service:
        with pytest.raises(SearchError):
            service.open(tmp_path / "s.sqlite").search(["a", "b", "c"])
        service.open(tmp_path / "s.sqlite").search(["a", "b", "c"])
        asked = [parse_qs(urlsplit(path).query)["q"][0] for path in service.asked]
        assert asked == ["a", "b", "c", "c"]


@pytest.mark.parametrize("fault", [500, 503, 408, 429, b"not JSON", b"[1]", b'{"items": 7}', b'{"items": [7]}'])
def test_what_may_pass_is_tried_again(fault):
    with Service(fault, fault) as service:
        searcher = service.open()
        assert len(searcher.search(["a"])) == 10
        assert searcher.n_requests == 3


def test_a_service_that_stays_busy_is_not_asked_by_every_question():
    with Service(*[429] * 50) as service:
        searcher = service.open(attempts=3)
        for _ in range(3):
            with pytest.raises(SearchError, match="429"):
                searcher.search(["a"])
        assert searcher.n_requests == 3


def test_a_service_that_does_not_answer_costs_its_time_out():
    with Service() as service:
        service.pages["/v1"] = lambda handler: service.closing.wait(5)
        with pytest.raises(SearchError, match="ReadTimeout"):
            service.open(seconds=0.1, attempts=2).search(["a"])


def test_requests_are_capped_failed_ones_included():
    with Service(500) as service:
        searcher = service.open(limits=Limits(max_requests=2))
        assert len(searcher.search(["a"])) == 10
        with pytest.raises(SearchError, match="MAX_REQUESTS=2"):
            searcher.search(["b"])
        assert len(service.asked) == 2


@pytest.mark.parametrize(("status", "error"), [(401, UnreachableError), (403, UnreachableError), (404, SearchError)])
def test_a_refusal_is_final_and_does_not_show_the_key(status, error, caplog):
    with Service(status, status) as service, caplog.at_level(logging.DEBUG):
        searcher = service.open()
        with pytest.raises(error, match=str(status)) as raised:
            searcher.search(["a"])
        assert searcher.n_requests == 1
        shown = f"{raised.value} {raised.value!r} {searcher!r} {vars(searcher)} {caplog.text}"
        assert SECRET not in shown


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("GOOGLE_API_KEY", "", "needs GOOGLE_API_KEY"), ("GOOGLE_SEARCH_ENGINE", " ", "GOOGLE_SEARCH_ENGINE"),
     ("GOOGLE_API_KEY", "two\nlines", "can't be sent")],
)  # fmt: skip
def test_a_search_without_its_key_is_refused_before_anything_is_asked(name, value, said, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=said):
        open_searcher("search:google")


@pytest.mark.parametrize(("queries", "top"), [([], 5), (["a", " "], 5), (["a"], 0), (["a"], 101)])
def test_an_idle_query_is_refused(queries, top):
    with pytest.raises(ValueError, match="expected queries"):
        GoogleSearch().search(queries, top=top)


def test_a_search_of_pages_fetches_the_trusted_ones_and_says_why_the_others_have_no_text():
    class Fixed:
        def search(self, queries: list[str], *, top: int) -> pd.DataFrame:
            addresses = [f"{web.url}/good", f"{web.url}/gone", "https://shop.com/x"]
            rows = [(query, n, where, "T", "snippet") for query in queries for n, where in enumerate(addresses, 1)]
            return pd.DataFrame(rows, columns=["query", "rank", "address", "title", "text"])

    with StubWeb({"/good": html()}, host="127.0.0.2") as web:
        how = {"trusted": ["", "org"], "pause": 0.0, "allowed": lambda ip: ip == "127.0.0.2"}  # an IP has no suffix
        search = search_pages(Fixed(), **how)
        questions = pd.DataFrame({"id": ["q"], "question": ["Why?"]})
        kept, dropped = search_web(questions, expand_questions(questions), search)
        assert kept.document.tolist() == [f"{web.url}/good"]
        assert kept.text[0].startswith("A sentence of some length")
        assert set(zip(dropped["item"], dropped.reason, strict=True)) == {
            (f"q: {web.url}/gone", "http 404"), ("q: https://shop.com/x", "domain not trusted"),
        }  # fmt: skip
        assert web.asked.count("/good") == 1


def test_a_local_search_ranks_documents_of_a_collection(monkeypatch):
    def rank(queries: list[str], chunks: pd.DataFrame, *_: object, top: int) -> pd.DataFrame:
        return pd.DataFrame({"query": queries[0], "document": ["d2", "d1"], "rank": [1, 2]})

    monkeypatch.setattr(pipeline, "rank_by_vectors", rank)
    documents = pd.DataFrame({"document": ["d1", "d2"], "text": ["no word of it", "a zebra runs"]})
    found = LocalSearch(documents, embedder=None).search(["zebra"], top=2)
    assert found[["query", "rank", "document", "address", "text"]].to_numpy().tolist() == [
        ["zebra", 1, "d2", "", "a zebra runs"], ["zebra", 2, "d1", "", "no word of it"],
    ]  # fmt: skip
    with pytest.raises(ValueError, match="name a folder"):
        open_searcher("embedded:local")


def test_the_command_refuses_a_folder_beside_a_search_and_a_search_without_a_key(monkeypatch, capsys):
    asked, folder = "data/sample/debate_questions.jsonl", "data/sample/debate_documents"
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("SEARCHER", "search:google")
    assert main(["debates", asked, "--documents", folder]) == 2
    monkeypatch.delenv("GOOGLE_API_KEY")
    assert main(["debates", asked]) == 2
    monkeypatch.setenv("SEARCHER", "search:gogle")
    assert main(["debates", asked]) == 2
    monkeypatch.setenv("SEARCHER", "search:google")
    assert main(["status", "debateqa/table_10"]) == 2  # no notebook searches the web
    both, keyless, unknown, idle = capsys.readouterr().err.splitlines()
    assert "DOCUMENTS and SEARCHER" in both
    assert "needs GOOGLE_API_KEY" in keyless
    assert "expected search:google" in unknown
    assert "SEARCHER is set" in idle
