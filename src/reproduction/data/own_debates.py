"""A user's own questions and folder of documents, from which partial answers are made: all checked or counted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pandas as pd

from nfqa.files.json_lines import LONGEST_TEXT, AnyText, Extra, Item, check, parse_lines
from nfqa.files.paths import hash_file
from nfqa.metrics.statistics import count_reasons
from reproduction.data.page_text import SECONDS, PageReader

LARGEST = 5_000_000  # bytes of a text or page: a larger one is a book or a dump, and is left out
_EMPTY = ("no text", "it is empty, or a page without a main text")
LINES, PAGES, TEXTS = (".jsonl",), (".html", ".htm", ".xhtml"), (".txt", ".md")


class _Document(Item):
    address: AnyText = ""
    text: AnyText


def read_folder(folder: Path, *, seconds: float = SECONDS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The documents under a folder: .txt and .md as they are, text of .html by trafilatura, .jsonl by lines.

    A line is `{"text", "address": optional}`; a page's address is what it says of itself (its canonical link), a text
    has none. Files and folders that begin with a dot are passed over.

    Args: seconds: to find a page's text in.
    Returns: documents: document (path in the folder, with #LINE of a line), address ("" for none), text; those
        excluded: unit, item, reason (no text, not UTF-8, too large, too slow, a copy, no file, other) and detail.
    Raises: ValueError for no such folder, or one without a document; naming file and line for a line of another shape.
    Source: pages to text by trafilatura (Barbaresi 2021).
    """
    reader = PageReader(seconds)
    rows = [row for path, name in _list_paths(folder) for row in _read_file(path, name, reader)]
    reader.close()
    read = pd.DataFrame(rows, columns=["document", "address", "text", "reason", "detail"])
    read.loc[(read.reason == "") & (read.text.str.strip() == ""), ["reason", "detail"]] = _EMPTY
    firsts = read[read.reason == ""].groupby("text").document.transform("first")
    firsts = firsts[firsts != read.document[firsts.index]]
    read.loc[firsts.index, "reason"], read.loc[firsts.index, "detail"] = "a copy of another's text", "of " + firsts
    lost = read[read.reason != ""].rename(columns={"document": "item"}).assign(unit="document")
    documents = read.loc[read.reason == "", ["document", "address", "text"]].reset_index(drop=True)
    if documents.empty:
        counts = count_reasons(lost.reason) or "no file"
        raise ValueError(f"{folder} has no document with text ({counts}); expected .txt, .html or .jsonl")
    return documents, lost[["unit", "item", "reason", "detail"]].reset_index(drop=True)


def _read_file(path: Path, name: str, reader: PageReader) -> Iterator[tuple[str, str, str, str, str]]:
    """The documents of a file: name, address, text, and why it is excluded, in a word and in words."""
    kind = path.suffix.lower()
    if not path.is_file():
        yield name, "", "", "no file", "it is a linked folder, a broken link, a pipe or a device"
    elif kind in LINES:
        for number, where, item in parse_lines(str(path), path.read_bytes(), Counter()):
            if len(str(item.get("text", ""))) > LONGEST_TEXT:
                yield f"{name}#{number}", "", "", "too large", f"a text of more than {LONGEST_TEXT:,} characters"
            else:
                line = check(_Document, item, where, Extra(Counter()))
                yield f"{name}#{number}", line.address.strip(), line.text, "", ""
    elif kind not in (*PAGES, *TEXTS):
        yield name, "", "", "of another kind", f"{path.suffix or 'no ending'}; known: .txt, .md, .html, .jsonl"
    elif (size := path.stat().st_size) > LARGEST:
        yield name, "", "", "too large", f"{size:,} bytes; at most {LARGEST:,}"
    else:
        try:
            content = path.read_bytes()
            address, text = reader.read(content) if kind in PAGES else ("", content.decode("utf-8-sig"))
            yield name, address, text.replace("\0", ""), "", ""
        except (TimeoutError, ValueError) as error:
            why = {TimeoutError: "too slow", UnicodeDecodeError: "not UTF-8"}.get(type(error), "unreadable")
            yield name, "", "", why, str(error)


def hash_folder(folder: Path) -> str:
    """One hash of the names and contents of a folder's files."""
    listed = [f"{name} {hash_file(path) if path.is_file() else ''}" for path, name in _list_paths(folder)]
    return sha256("\n".join(listed).encode()).hexdigest()


def _list_paths(folder: Path) -> Iterator[tuple[Path, str]]:
    """What is in a folder and its own folders, with its name there; nothing hidden, nothing of a linked folder."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") for part in parts) and (path.is_symlink() or not path.is_dir()):
            yield path, os.fsencode(Path(*parts)).decode(errors="backslashreplace")
