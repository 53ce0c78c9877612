"""Addresses to text: pages fetched as politely as a reader would, each one that is left out counted with its reason."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.robotparser import RobotFileParser

import httpx
import pandas as pd
from tqdm import tqdm

from nfqa.files.store import Store
from reproduction.data import page_text
from reproduction.data.page_text import PageReader
from reproduction.debates.guarded import Allowed, LeftOutError, get, is_public, open_pool, read_address

AGENT = "nfqa"  # as robots.txt may name us
LARGEST, REDIRECTS = 5_000_000, 5  # bytes of a page; how often it may send us on
_AT_ONCE = 8  # hosts that are asked side by side
_LONGEST_PAUSE = 10  # seconds between two requests of one host, though its robots.txt may wish for more
_ROBOTS = 500 * 1024  # bytes of a robots.txt that are read: RFC 9309 asks for no more
_HTML, _PLAIN = ("", "text/html", "application/xhtml+xml"), ("text/plain", "text/markdown")
_Ask = Callable[[httpx.URL], Coroutine[Any, Any, httpx.Response]]
MISSING = {
    "bad_address": "its address is not one of http or https with a host",
    "login_in_address": "its address carries a login",
    "private_address": "its host is not on the public internet",
    "no_such_host": "its host has no IP address",
    "connection": "the connection failed",
    "timeout": "it took longer than a request may",
    "robots": f"its robots.txt excludes {AGENT}, or can't be had",
    "too_many_redirects": f"it sends on more than {REDIRECTS} times",
    "too_large": f"it has more than {LARGEST:,} bytes",
    "compressed": "it came compressed, though none was asked for",
    "too_slow": f"its text was not found within {page_text.SECONDS:g} seconds",
    "pdf": "it is a PDF, of which no text is taken",
    "not_text": "it is neither HTML nor plain text",
    "unreadable": "its bytes can't be read as a text",
    "empty": "the server sent nothing",
    "no_text": "it has no main text, nothing but menus",
    "domain not trusted": "DOMAINS=all fetches it",
}


def explain_missing(reason: str) -> str:
    """Why a page has no text, in words; "" for a page that has one."""
    return f"the server answered {reason[5:]}" if reason.startswith("http_") else MISSING.get(reason, "")


def fetch_pages(
    found: pd.DataFrame, *, cache: Path | None = None, seconds: float = 20.0, pause: float = 1.0,
    reading: float = page_text.SECONDS, allowed: Allowed = is_public,
) -> pd.DataFrame:  # fmt: skip
    """The main text of each page, or why there is none.

    Hosts are asked side by side, eight of them, each with one request at a time and a pause after it. Every request
    is guarded as `reproduction.debates.guarded.get` has it, also for robots.txt and wherever a page sends us on.

    Args: found: address, and any columns; cache: a file that keeps pages and lasting refusals; seconds: for one request
        as a whole; pause: seconds; reading: seconds to find a page's text in; allowed: which IP
        addresses may be asked.
    Returns: the columns of found with text ("" for none) and missing, "" or one of `MISSING`, or http_404 and the like.
        What may pass (no_such_host, connection, timeout, http_429, http_5..) is not kept: the next run asks again.
    Source: main text by trafilatura (Barbaresi 2021); robots.txt by `urllib.robotparser`.
    Differs from: RFC 9309 in that the first rule of robots.txt that fits counts, and * in a path is a plain letter.
    """
    store, reader = Store(cache, "pages", text="TEXT", missing="TEXT"), PageReader(reading)
    keys = {address: f"page 2 {address}".encode() for address in found.address}  # 2: of how texts are read
    pages = store.read(keys.values())
    wanted = [address for address, key in keys.items() if key not in pages]
    agent = f"{AGENT}/{version('nfqa')} (research; respects robots.txt)"
    ask = partial(get, open_pool(allowed), agent=agent, seconds=seconds, largest=LARGEST)
    visits, room, hosts = _Visits(ask, reader, pause), asyncio.Semaphore(_AT_ONCE), defaultdict(list)
    for address in wanted:
        hosts["".join(address.split("/")[2:3])].append(address)

    async def fetch(own: list[str]) -> None:
        for address in own:
            async with room:
                text, missing, lasting = await visits.read(address)
            pages[keys[address]] = (text, missing)
            if lasting:
                store.write([(keys[address], text, missing)])
            bar.update()

    async def fetch_all() -> None:
        async with asyncio.TaskGroup() as tasks:
            for own in hosts.values():
                tasks.create_task(fetch(own))

    bar = tqdm(total=len(wanted), desc="pages", disable=None if wanted else True)
    with bar, ThreadPoolExecutor(1) as thread:  # JupyterLab has a loop of its own in the main one
        thread.submit(asyncio.run, fetch_all()).result()
    reader.close()
    read = [pages[keys[address]] for address in found.address]
    return found.assign(text=[text for text, _ in read], missing=[missing for _, missing in read])


class _Visits:
    """Requests to many hosts: whose turn it is, and what their robots.txt say."""

    def __init__(self, ask: _Ask, reader: PageReader, pause: float) -> None:
        self._ask, self._reader, self._pause = ask, reader, pause
        self._robots: dict[str, RobotFileParser] = {}  # by origin
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._free: dict[str, float] = defaultdict(float)  # by host: the loop's time from which it may be asked again

    async def read(self, address: str) -> tuple[str, str, bool]:
        """A page's text, why it has none, and whether that will last."""
        try:
            reply = await self._follow(read_address(address), ask_robots=True)
            if reply.status_code != 200:
                passing = reply.status_code in (408, 425, 429) or reply.status_code >= 500
                return "", f"http_{reply.status_code}", not passing
            return await asyncio.to_thread(self._read_text, reply), "", True
        except LeftOutError as error:
            return "", error.reason, not error.passing
        except TimeoutError:
            return "", "too_slow", True
        except ValueError:
            return "", "unreadable", True

    def _read_text(self, reply: httpx.Response) -> str:
        kind = re.split("[;,]", reply.headers.get("content-type", ""))[0].strip().lower()
        if not reply.content.strip():
            raise LeftOutError("empty")
        if kind == "application/pdf" or reply.content[:1024].lstrip().startswith(b"%PDF-"):
            raise LeftOutError("pdf")
        if kind not in (*_HTML, *_PLAIN):
            raise LeftOutError("not_text")
        _, text = self._reader.read(reply.content, reply.charset_encoding or "", is_html=kind in _HTML)
        if not text.strip():
            raise LeftOutError("no_text")
        return text.strip()

    async def _follow(self, url: httpx.URL, *, ask_robots: bool) -> httpx.Response:
        for _ in range(REDIRECTS + 1):
            robots = await self._read_robots(url) if ask_robots else None
            if robots and not robots.can_fetch(AGENT, str(url)):
                raise LeftOutError("robots")
            reply = await self._take_turn(url, int(robots.crawl_delay(AGENT) or 0) if robots else 0)
            if not reply.has_redirect_location:
                return reply
            url = read_address(reply.headers["location"], url)
        raise LeftOutError("too_many_redirects")

    async def _take_turn(self, url: httpx.URL, wished: int) -> httpx.Response:
        loop = asyncio.get_running_loop()
        async with self._turns[url.host]:
            await asyncio.sleep(max(0.0, self._free[url.host] - loop.time()))
            try:
                return await self._ask(url)
            finally:
                self._free[url.host] = loop.time() + max(self._pause, min(wished, _LONGEST_PAUSE))

    async def _read_robots(self, url: httpx.URL) -> RobotFileParser:
        """What the host says to robots: nothing where it has no such file; none may come where it can't be had."""
        origin = f"{url.scheme}://{url.netloc.decode()}"
        if origin not in self._robots:
            try:
                reply = await self._follow(url.copy_with(raw_path=b"/robots.txt"), ask_robots=False)
            except LeftOutError as error:
                reason = error.reason if error.passing or error.reason == "private_address" else "robots"
                raise LeftOutError(reason, passing=error.passing) from None
            if reply.status_code == 429 or reply.status_code >= 500:
                raise LeftOutError("robots", passing=True)
            content = reply.content[:_ROBOTS] if reply.status_code == 200 else b""
            robots = RobotFileParser()
            robots.parse(content.decode("utf-8-sig", errors="replace").splitlines())
            self._robots[origin] = robots
        return self._robots[origin]
