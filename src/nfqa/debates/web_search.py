"""Searching the web by Google's Custom Search, as DebateQA did; every page of results is kept and never asked twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nfqa.data.json_lines import AnyText, LooseItem, check
from nfqa.data.kept_texts import KeptTexts
from nfqa.data.registry import UnreachableError
from nfqa.judge.limits import Limits, Meter
from nfqa.judge.server_errors import find_message, make_cleaner, read_retry_after

if TYPE_CHECKING:
    import pandas as pd
    from tenacity import RetryCallState

ADDRESS = "https://customsearch.googleapis.com/customsearch/v1"
KEY, ENGINE = "GOOGLE_API_KEY", "GOOGLE_SEARCH_ENGINE"
MOST = 100  # results of a query: the service gives no more
_A_PAGE = 10
_LONGEST_WAIT = 60.0  # seconds; a service that asks for a longer pause has ended the day
FOUND = ["query", "rank", "address", "title", "text"]


class SearchError(RuntimeError):
    """A query that brought no result page. wait: seconds that the service asks for; passing: worth another attempt."""

    def __init__(self, said: str, *, passing: bool, wait: float | None = None) -> None:
        super().__init__(said)
        self.passing, self.wait = passing, wait


class _Result(LooseItem):
    link: AnyText = ""
    title: AnyText = ""
    snippet: AnyText = ""


class _Results(LooseItem):
    items: list[_Result] = Field(default_factory=list)


class GoogleSearch:
    """Google's Custom Search JSON API. The key (GOOGLE_API_KEY) and the search engine's id (GOOGLE_SEARCH_ENGINE) come
    from the environment; the key is sent as a header, so that it is in no address that could be logged.

    Raises: ValueError where either is unset, or the key can't be sent.
    Source: DebateQA, section A.2; the service's reference at developers.google.com/custom-search/v1.
    """

    def __init__(
        self,
        cache: Path | None = None,
        *,
        limits: Limits | None = None,
        address: str = ADDRESS,
        seconds: float = 20.0,
        attempts: int = 4,
        backoff: float = 1.0,
    ) -> None:
        import httpx

        key, self._engine = (os.environ.get(name, "").strip() for name in (KEY, ENGINE))
        if not key or not self._engine:
            raise ValueError(f"a search by Google needs {KEY} and {ENGINE}, the id of a programmable search engine")
        if not key.isascii() or not key.isprintable():
            raise ValueError(f"{KEY} holds a character that can't be sent; copy the key again")
        self._clean, self._store = make_cleaner([key, self._engine]), KeptTexts(cache)
        self._meter = Meter(limits or Limits.from_environment())
        self._address, self._attempts, self._backoff = address, attempts, backoff
        self._client = httpx.Client(headers={"x-goog-api-key": key}, timeout=seconds, follow_redirects=False)
        self._ended = ""  # why nothing more is asked in this run

    @property
    def n_requests(self) -> int:
        """How many requests were sent, failed attempts included."""
        return self._meter.requests_sent

    def search(self, queries: Sequence[str], *, top: int = _A_PAGE) -> pd.DataFrame:
        """The first `top` results of each query, as the service orders them.

        Returns: query, rank (from 1), address, title, text (the service's snippet, not the page's text).
        Raises: SearchError for the first query that fails, after `attempts`, or once MAX_REQUESTS are sent: what came
            before is kept. UnreachableError where the service refuses the key: no other query would fare better.
            ValueError for no query or a top outside of 1 to 100.
        """
        import pandas as pd

        if not 1 <= top <= MOST or not queries or not all(query.strip() for query in queries):
            raise ValueError(f"{len(queries)} queries, top {top}; expected queries with words, and 1 to {MOST} results")
        rows = []
        for query in dict.fromkeys(queries):
            found: list[dict[str, str]] = []
            for start in range(1, top + 1, _A_PAGE):
                page = self._read_page(query, start)
                found += page
                if len(page) < _A_PAGE:
                    break
            hits = {hit["link"]: hit for hit in found[::-1] if hit["link"].strip()}  # of repeats the first
            rows += [
                (query, rank, hit["link"], hit["title"], hit["snippet"])
                for rank, hit in enumerate(list(hits.values())[::-1][:top], start=1)
            ]
        return pd.DataFrame(rows, columns=FOUND)

    def _read_page(self, query: str, start: int) -> list[dict[str, str]]:
        asked = {"q": query, "start": start, "num": _A_PAGE, "cx": self._engine}
        key = "google 1 " + hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()  # no id in the file
        kept = self._store.get(key)
        if kept is None:
            kept = json.dumps(self._ask(asked))
            self._store.put(key, kept)
        return json.loads(kept)

    def _ask(self, asked: dict[str, Any]) -> list[dict[str, str]]:
        from tenacity import Retrying, retry_if_exception, stop_after_attempt

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, SearchError) and error.passing),
            wait=self._choose_pause,
            stop=stop_after_attempt(self._attempts),
            reraise=True,
        )
        try:
            return retrying(self._send, asked)
        except SearchError as error:
            if error.wait is not None:  # busy to the last: the day's share is used up, and others would wait in vain
                self._ended = str(error)
            raise

    def _choose_pause(self, state: RetryCallState) -> float:
        from tenacity import wait_exponential_jitter

        error = state.outcome.exception() if state.outcome else None
        wait = error.wait if isinstance(error, SearchError) else None
        longer = wait_exponential_jitter(multiplier=self._backoff, max=30 * self._backoff, jitter=self._backoff)(state)
        return max(longer, min(wait or 0.0, _LONGEST_WAIT))

    def _send(self, asked: dict[str, Any]) -> list[dict[str, str]]:
        import httpx

        if self._ended:
            raise SearchError(self._ended, passing=False)
        if capped := self._meter.reserve():
            self._ended = capped.detail
            raise SearchError(capped.detail, passing=False)
        try:
            reply = self._client.get(self._address, params=asked)
        except httpx.HTTPError as error:  # its words and its request hold the address alone, yet are not needed
            raise SearchError(f"Google's search: {type(error).__name__}", passing=True) from None
        try:
            body = reply.json()
        except (ValueError, RecursionError):
            body = None
        if reply.status_code != 200:
            raise self._explain(reply.status_code, body, reply.headers.get("retry-after"))
        try:
            return [result.model_dump() for result in check(_Results, body, "Google's search").items]
        except ValueError as error:
            raise SearchError(
                f"Google's search gave no list of results ({self._clean(str(error))})", passing=True
            ) from None

    def _explain(self, status: int, body: object, wait: str | None) -> Exception:
        said = f"Google's search answered {status}: {' '.join(self._clean(find_message(body)).split())[:200]}"
        if status == 429:
            return SearchError(said, passing=True, wait=read_retry_after(wait) or 0.0)
        if status == 408 or status >= 500:
            return SearchError(said, passing=True)
        if status in (401, 403) or "key" in said.lower():
            return UnreachableError(f"{said}; check {KEY} and {ENGINE}")
        return SearchError(said, passing=False)
