"""Searching the web by a SearXNG that the user runs, and the main text of the pages that it lists.

Pages are fetched from public addresses alone, as robots.txt allows, within bounds of size and time.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from multiprocessing import TimeoutError as NoReplyError
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from urllib.robotparser import RobotFileParser

import pandas as pd
import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidURL, RequestException, Timeout
from requests_hardened.ip_filter import InvalidIPAddress
from requests_hardened.ip_filter_adapter import IPFilterAdapter
from tqdm import tqdm
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from nfqa import __version__
from nfqa.files.json_lines import AnyText, LooseItem, check
from nfqa.files.store import Store
from reproduction.data.page_text import PageReader
from reproduction.data.registry import UnreachableError
from reproduction.debates.domains import add_domains
from reproduction.debates.pipeline import Search

AGENT = "nfqa"  # as robots.txt may name us
LARGEST, REDIRECTS, AT_ONCE, LONGEST_PAUSE = 5_000_000, 5, 8, 10  # of a page; hosts; seconds of a pause
PASSING = r"timeout|connection|http (?:408|425|429|5\d\d)"  # reasons for which a page is asked for again
_HEADERS = {"User-Agent": f"{AGENT}/{__version__} (research; respects robots.txt)", "Accept": "text/html, text/plain"}
_BUSY = Retry(3, connect=0, read=False, status_forcelist={429, *range(500, 600)}, backoff_factor=1, retry_after_max=30)
_REASONS: Mapping[type[Exception], str] = {  # of an error the first that fits
    InvalidIPAddress: "private address", InvalidURL: "bad address", NoReplyError: "timeout", Timeout: "timeout",
    RequestException: "connection", HTTPError: "connection", TimeoutError: "too slow", ValueError: "unreadable",
}  # fmt: skip
logging.getLogger("requests_hardened").setLevel(logging.ERROR)  # a refused address is counted with its reason


class PageError(Exception):
    """Why a page has no text: a reason to count by, and more in words."""


class _Result(LooseItem):
    url: AnyText = ""


class _Results(LooseItem):
    results: list[_Result]
    unresponsive_engines: Any = None


def search_pages(url: str, cache: Path | None = None, *, top: int = 10, every: bool = False, **options: Any) -> Search:
    """A search by a SearXNG that brings pages' texts, as `reproduction.debates.pipeline.search_web` takes it.

    Args: url: of the server; cache: a folder for what it lists and for pages; top: results of a query; every: fetch
        pages of domains that are not trusted too; options: of `fetch_pages`.
    Returns: a function of queries that gives query, rank, document, address, text, and of a page without a text
        missing and detail.
    """
    store = Store(cache and cache / "searches.sqlite", "addresses", listed="TEXT")
    untrusted = {"text": "", "missing": "domain not trusted", "detail": "DOMAINS=all fetches it"}

    def search(queries: Sequence[str]) -> pd.DataFrame:
        rows = []
        for query in dict.fromkeys(queries):
            key = f"{url} {query}"
            if not store.read([key]):
                store.write([(key, json.dumps(ask_searxng(url, query)))])
            ranked = enumerate(json.loads(store.read([key])[key][0])[:top], start=1)
            rows += [(query, rank, address, address) for rank, address in ranked]
        results = add_domains(pd.DataFrame(rows, columns=["query", "rank", "document", "address"]))
        wanted = results[results.trusted | every].address.unique()
        pages = fetch_pages(wanted.tolist(), cache and cache / "pages.sqlite", **options)
        return results.merge(pages, "left", "address").fillna(untrusted)

    return search


def ask_searxng(url: str, query: str, *, seconds: float = 20.0) -> list[str]:
    """The addresses that a SearXNG server lists for a query, on its first page of results; a busy one is asked again.

    Raises: OSError or ValueError where this query fails. UnreachableError where no server answers, or it refuses: no
        other query would fare better.
    Source: docs.searxng.org/dev/search_api.html. Differs from: DebateQA, section A.2, which asked Google.
    """
    server, fields = f"SearXNG at {url}", {"q": query, "format": "json"}
    with requests.Session() as session:
        session.mount(url, HTTPAdapter(max_retries=_BUSY))
        try:
            reply = session.get(f"{url.rstrip('/')}/search", params=fields, timeout=seconds, allow_redirects=False)
        except requests.ConnectionError as error:
            raise UnreachableError(f"{server} does not answer ({error}); start it, or correct SEARCHER") from None
    if reply.status_code != 200 or "json" not in reply.headers.get("content-type", ""):
        advice = "name its first page, and set `search: formats: [html, json]` in its settings.yml"
        raise UnreachableError(f"{server} answered {reply.status_code} without JSON; {advice}")
    page = check(_Results, reply.json(), server)
    if not page.results and page.unresponsive_engines:  # as after too many requests: there may be results later
        raise ValueError(f"no engine of {server} answered: {str(page.unresponsive_engines)[:200]}")
    return [*dict.fromkeys(result.url.strip() for result in page.results)]


def fetch_pages(addresses: Sequence[str], cache: Path | None = None, **options: Any) -> pd.DataFrame:
    """The main text of each page, or why there is none; hosts are asked side by side, each one page at a time.

    Args: addresses: each once; cache: a file that keeps pages and lasting refusals; options: of `PoliteClient`.
    Returns: address, text ("" for none), missing (a reason, "" for none) and detail. What may pass (`PASSING`) is not
        cached: the next run asks again.
    Source: main text by trafilatura (Barbaresi 2021).
    """
    store, reader = Store(cache, "page_texts", text="TEXT", missing="TEXT", detail="TEXT"), PageReader()
    pages = store.read(addresses)
    wanted = pd.Series([address for address in addresses if address not in pages], dtype=str)
    hosts = [pages_of_host for _, pages_of_host in wanted.groupby(wanted.str.split("/").str[2].fillna(""))]

    def visit(host: Iterable[str]) -> list[tuple[str, str, str, str]]:
        client = PoliteClient(**options)
        return [(address, *client.read(address, reader)) for address in host]

    with closing(reader), ThreadPool(AT_ONCE) as pool:
        for rows in tqdm(pool.imap_unordered(visit, hosts), "hosts", len(hosts), disable=None if hosts else True):
            store.write(row for row in rows if not re.fullmatch(PASSING, row[2]))
            pages |= {address: tuple(page) for address, *page in rows}
    return pd.DataFrame([(url, *pages[url]) for url in addresses], columns=["address", "text", "missing", "detail"])


class PoliteClient:
    """Reads pages one after another, as robots.txt of every host on the way allows.

    Args: seconds: for one request, from looking up the name to the last byte; pause: seconds before each request;
        loopback: whether this machine may be asked, as tests do.
    Differs from: RFC 9309 in that the first rule of robots.txt that fits counts, and * in a path is a plain letter.
    """

    def __init__(self, seconds: float = 20.0, pause: float = 1.0, *, loopback: bool = False) -> None:
        self._seconds, self._pause, self._loopback = seconds, pause, loopback
        self._robots: dict[str, RobotFileParser] = {}

    def read(self, address: str, reader: PageReader) -> tuple[str, str, str]:
        """A page's text, why it has none, to count by, and the same in words; "" for what there is not."""
        try:
            status, headers, body = self._follow(address.strip(), ask_robots=True)
            if status != 200:
                raise PageError(f"http {status}", f"the server answered {status}")
            kind = headers.get("content-type", "").lower()
            if not re.match(r"text/(html|plain|markdown)|application/xhtml|\s*$", kind) or b"%PDF-" in body[:1024]:
                raise PageError("not text", f"it is neither HTML nor plain text but {kind}")
            charset, is_html = kind.partition("charset=")[2].strip("\"' "), not re.match("text/[pm]", kind)
            text = reader.read(body, charset, is_html=is_html)[1].strip()
            return (text, "", "") if text else ("", "no text", "it has no main text, nothing but menus")
        except PageError as error:
            return "", *error.args
        except tuple(_REASONS) as error:
            reason = next(reason for kind, reason in _REASONS.items() if isinstance(error, kind))
            return "", reason, str(error)[:200] or f"more than {self._seconds:g} seconds"

    def _follow(self, url: str, *, ask_robots: bool) -> tuple[int, Mapping[str, str], bytes]:
        for _ in range(REDIRECTS + 1):
            time.sleep(self._check_robots(url) if ask_robots else self._pause)
            with ThreadPool(1) as pool:  # a thread that a server holds up is left behind
                reply = pool.apply_async(_get, (url, self._seconds, self._loopback)).get(self._seconds)
            if not 300 <= reply[0] < 400 or "location" not in reply[1]:
                return reply
            url = urljoin(url, reply[1]["location"])
        raise PageError("too many redirects", f"it redirects more than {REDIRECTS} times")

    def _check_robots(self, url: str) -> float:
        """The pause that a host wishes for. Raises: PageError where its robots.txt excludes nfqa, or is unavailable."""
        where = urljoin(url, "/robots.txt")
        if where not in self._robots:
            (status, _, body), robots = self._follow(where, ask_robots=False), RobotFileParser()
            if status == 429 or status >= 500:
                raise PageError("connection", f"its robots.txt answered {status}")
            robots.parse(body.decode("utf-8-sig", "replace").splitlines() if status == 200 else [])
            self._robots[where] = robots
        if not self._robots[where].can_fetch(AGENT, url):
            raise PageError("robots", f"its robots.txt excludes {AGENT}")
        return max(self._pause, min(int(self._robots[where].crawl_delay(AGENT) or 0), LONGEST_PAUSE))


def _get(url: str, seconds: float, loopback: bool) -> tuple[int, Mapping[str, str], bytes]:
    """One GET, not followed where it redirects: a session would read the whole body of a redirect, however large.

    The name is looked up once: the address that was checked is connected to. No proxy, cookie or login is used.
    Raises: PageError for a page that is too large, or what `_REASONS` names.
    """
    if not re.match("https?://[^@/?#]+([/?#]|$)", url.lower()):
        raise InvalidURL("expected http or https with a host, and no login")
    request = requests.Request("GET", url, _HEADERS).prepare()
    adapter = IPFilterAdapter(is_https_proto=url.lower().startswith("https:"), allow_loopback=loopback)
    with closing(adapter), adapter.send(request, stream=True, timeout=seconds) as reply:
        body = reply.raw.read(LARGEST + 1, decode_content=True)
    if len(body) > LARGEST:
        raise PageError("too large", f"it has more than {LARGEST:,} bytes")
    return reply.status_code, reply.headers, body
