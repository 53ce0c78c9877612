"""The main text of web pages, read in a process of its own: a page that costs its parser minutes is left out."""

from __future__ import annotations

import json
import multiprocessing
import signal
import threading
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

SECONDS = 10.0  # of a processor, for one page; ordinary ones take a hundredth of it


class PageReader:
    """Reads page after page in one other process, which is ended, and begun anew, where a page takes too long."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds, self._lock = seconds, threading.Lock()
        self._worker: SpawnProcess | None = None
        self._pipe: Connection | None = None

    def read(self, body: bytes, charset: str = "", *, is_html: bool = True) -> tuple[str, str]:
        """A page's address, by its canonical link, and its main text; "" for what it lacks. A plain text comes whole.

        Args: charset: what a header says, which is often wrong: valid UTF-8 is read as such.
        Raises: TimeoutError for a page that took longer than `seconds`; ValueError for one that can't be read.
        Source: trafilatura (Barbaresi 2021).
        """
        with self._lock:
            try:
                pipe = self._pipe or self._start()
                pipe.send((body, charset, is_html, self.seconds))
                address, text, fault = json.loads(pipe.recv_bytes())
            except (EOFError, BrokenPipeError, ConnectionResetError):
                fault = "the parser ended"
                if self.close() == -signal.SIGPROF:
                    raise TimeoutError(f"its text was not found within {self.seconds:g} seconds") from None
        if fault:
            raise ValueError(f"it can't be read ({fault})")
        return address, text

    def close(self) -> int | None:
        """End the process; its exit code, or the signal that ended it before, below 0."""
        if self._worker is None or self._pipe is None:
            return None
        self._pipe.close()  # at which it ends by itself
        self._worker.join()
        code, self._worker, self._pipe = self._worker.exitcode, None, None
        return code

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks and a model's memory
        self._pipe, theirs = context.Pipe()
        self._worker = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._worker.start()
        theirs.close()
        self._pipe.recv_bytes()
        return self._pipe


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, whose end closes the pipe
    _find_text(
        f"<article><p>{'A first page takes longest, as its parser is loaded. ' * 20}</p></article>".encode(), "", True
    )
    pipe.send_bytes(b"ready")
    while True:
        try:
            body, charset, is_html, seconds = pipe.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)  # of its own work, however busy the machine; its end is ours
        try:
            found = (*_find_text(body, charset, is_html), "")
        except Exception as error:  # whatever a page does to a codec or a parser costs that page alone
            found = ("", "", type(error).__name__)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send_bytes(json.dumps(found).encode())


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
    found = trafilatura.extract(tree, include_comments=False, include_tables=False) or ""
    return next((link for link in links if link.startswith("http")), ""), found
