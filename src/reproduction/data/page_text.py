"""The main text of web pages, read in a process of its own: a page that costs its parser minutes is excluded."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

SECONDS = 10.0  # of a processor, for one page; ordinary ones take a hundredth of it
_FIRST = f"<article><p>{'A first page takes longest, as its parser is loaded. ' * 20}</p></article>"


class PageReader:
    """Reads page after page in one other process, which is ended, and started again, where a page takes too long."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds, self._lock, self._pool = seconds, threading.Lock(), _open_pool()

    def read(self, body: bytes, charset: str = "", *, is_html: bool = True) -> tuple[str, str]:
        """A page's address, by its canonical link, and its main text; "" for what it lacks. A plain text comes whole.

        Args: charset: what a header says, which is often wrong: valid UTF-8 is read as such.
        Raises: TimeoutError for a page that took longer than `seconds`; ValueError for one that can't be read.
        Source: trafilatura (Barbaresi 2021).
        """
        with self._lock:
            begun = time.monotonic()
            try:
                return self._pool.submit(_read, body, charset, is_html, self.seconds).result()
            except BrokenProcessPool:
                self.close()
                self._pool = _open_pool()
                if time.monotonic() - begun < self.seconds:
                    raise ValueError("it can't be read (the parser ended)") from None
                raise TimeoutError(f"its text was not found within {self.seconds:g} seconds") from None
            except Exception as error:  # whatever a page does to a codec or a parser costs that page alone
                raise ValueError(f"it can't be read ({type(error).__name__})") from None

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


def _open_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), _begin)  # a fork would copy threads' locks and a model's memory


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    _find_text(_FIRST.encode(), "", True)


def _read(body: bytes, charset: str, is_html: bool, seconds: float) -> tuple[str, str]:
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of its own work, however busy the machine; its end is ours
    try:
        return _find_text(body, charset, is_html)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _find_text(body: bytes, charset: str, is_html: bool) -> tuple[str, str]:
    import trafilatura
    from bs4 import UnicodeDammit

    charsets = [charset] if charset else []
    text = UnicodeDammit(body, ["utf-8"], user_encodings=charsets, is_html=True).unicode_markup or ""
    if body and (not text or "\0" in text):
        raise ValueError("no text in any encoding")
    if not is_html:
        return "", text
    tree = trafilatura.load_html(text)
    if tree is None:
        return "", ""
    links = [link.get("href", "").strip() for link in tree.iter("link") if link.get("rel") == "canonical"]
    main = trafilatura.extract(tree, include_comments=False, include_tables=False) or ""
    return next((link for link in links if link.startswith("http")), ""), main
