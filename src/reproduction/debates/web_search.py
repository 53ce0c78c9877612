"""Searching the web by a SearXNG server that the user runs; what it found is kept and not asked for a second time."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
from pydantic import Field
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from nfqa.files.json_lines import AnyText, LooseItem, check
from nfqa.files.store import Store
from reproduction.data.registry import UnreachableError
from reproduction.debates.domains import TRUSTED, add_domains
from reproduction.debates.pages import explain_missing, fetch_pages
from reproduction.debates.pipeline import Search

MOST = 10  # pages of results that are asked for, until there are enough
_FORMATS = "JSON is switched off there; set `search: formats: [html, json]` in its settings.yml and start it again"


class SearchError(RuntimeError):
    """A query that brought no results; another one may."""


class _Result(LooseItem):
    url: AnyText = ""
    title: AnyText = ""
    content: AnyText = ""


class _Results(LooseItem):
    results: list[_Result]
    unresponsive_engines: list[Any] = Field(default_factory=list)


class SearXNG:
    """A SearXNG server's JSON API: GET URL/search?q=...&format=json&pageno=N.

    Args: cache: a file that keeps results; seconds: for one request; attempts: at what may pass, with longer and longer
        pauses of `backoff` seconds and more.
    Source: docs.searxng.org/dev/search_api.html. Differs from: DebateQA, section A.2, which asked Google.
    """

    def __init__(
        self, url: str, cache: Path | None = None, *, seconds: float = 20.0, attempts: int = 4, backoff: float = 1.0
    ) -> None:
        self.url, self._store, self._seconds = url.rstrip("/"), Store(cache, "searches", results="TEXT"), seconds
        wait = wait_exponential_jitter(multiplier=backoff, max=30.0, jitter=backoff)
        failed, stop = retry_if_exception_type(SearchError), stop_after_attempt(attempts)
        self._ask_again = retry(retry=failed, wait=wait, stop=stop, reraise=True)(self._ask)

    def search(self, queries: Sequence[str], *, top: int) -> pd.DataFrame:
        """The first `top` results of each query, as the server orders them.

        Returns: query, rank (from 1), address, title, text (a snippet, not the page's text).
        Raises: SearchError for the first query that fails, after all attempts: what came before is kept.
            UnreachableError where no server answers, or it refuses: no other query would fare better.
        """
        rows = []
        for query in dict.fromkeys(queries):
            hits: dict[str, dict[str, str]] = {}
            for number in range(1, MOST + 1):
                page = self._read_page(query, number)
                for hit in page:
                    hits.setdefault(hit["url"].strip(), hit)
                if not page or len(hits) >= top:
                    break
            hits.pop("", None)
            ranked = enumerate(list(hits.items())[:top], start=1)
            rows += [(query, rank, address, hit["title"], hit["content"]) for rank, (address, hit) in ranked]
        return pd.DataFrame(rows, columns=["query", "rank", "address", "title", "text"])

    def _read_page(self, query: str, number: int) -> list[dict[str, str]]:
        key = json.dumps([self.url, query, number]).encode()
        kept = self._store.read([key])
        if key not in kept:
            kept[key] = (json.dumps(self._ask_again(query, number)),)
            self._store.write([(key, *kept[key])])
        return list(json.loads(kept[key][0]))

    def _ask(self, query: str, number: int) -> list[dict[str, str]]:
        asked, server = {"q": query, "format": "json", "pageno": str(number)}, f"SearXNG at {self.url}"
        try:
            reply = httpx.get(f"{self.url}/search", params=asked, timeout=self._seconds)
        except httpx.ConnectError as error:
            raise UnreachableError(f"{server} does not answer ({error}); start it, or correct SEARCHER") from None
        except httpx.HTTPError as error:
            raise SearchError(f"{server}: {type(error).__name__}") from None
        status = reply.status_code
        if 300 <= status < 500 and status not in (408, 429):
            what = _FORMATS if status == 403 else "is it the address of its first page?"
            raise UnreachableError(f"{server} answered {status}: {what}")
        if status != 200:
            raise SearchError(f"{server} answered {status}")
        try:
            found = check(_Results, reply.json(), server)
        except (ValueError, RecursionError) as error:
            raise SearchError(f"{server} gave no list of results ({str(error)[:200]})") from None
        if not found.results and found.unresponsive_engines:  # as after too many requests: there may be results later
            raise SearchError(f"no engine of {server} answered: {str(found.unresponsive_engines)[:200]}")
        return [result.model_dump() for result in found.results]


def search_pages(
    searcher: SearXNG, *, top: int = 10, trusted: Collection[str] = TRUSTED, every: bool = False, **how: Any
) -> Search:
    """A search that brings pages' texts, as `reproduction.debates.pipeline.search_web` takes it.

    A page of a domain that is not trusted is not fetched, unless `every` is. Of each page that brings no text, missing
    says why. how: as `fetch_pages` has it.
    """

    def search(queries: Sequence[str]) -> pd.DataFrame:
        found = add_domains(searcher.search(queries, top=top), trusted=trusted)
        fetched = found[found.trusted | every].drop_duplicates("address")
        pages = fetch_pages(fetched[["address"]], **how)
        found = found.drop(columns="text").merge(pages, "left", "address", validate="m:1")
        found = found.assign(text=found.text.fillna(""), missing=found.missing.fillna("domain not trusted"))
        found = found.assign(document=found.address, detail=found.missing.map(explain_missing))
        return found[["query", "rank", "document", "address", "title", "text", "missing", "detail"]]

    return search
