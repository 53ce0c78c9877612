"""A user's own questions and folder of documents, from which partial answers are made: all checked or counted."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from nfqa.data.json_lines import AnyText, LooseItem, Name, Text, check, parse_lines, refuse_twin
from nfqa.data.registry import hash_file

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 5_000_000  # bytes of a text or page: a larger one is a book or a dump, and is left out
LINES, PAGES, TEXTS = (".jsonl",), (".html", ".htm", ".xhtml"), (".txt", ".md")


class _Asked(LooseItem):
    id: Name = ""
    question: Text


class _Given(LooseItem):
    address: AnyText = ""
    text: AnyText


def read_questions(path: Path) -> pd.DataFrame:
    """Questions of a file of JSON lines, `{"question", "id": optional}` each; other fields are passed over.

    Returns: id (by default q1, q2 ... by line), question.
    Raises: ValueError naming file and line for another shape, an id or a question that is there twice, or no question.
    """
    import pandas as pd

    seen: dict[tuple[str, str], int] = {}
    rows = []
    for number, where, item in parse_lines(str(path), path.read_bytes(), Counter()):
        line = check(_Asked, item, where)
        row = {"id": line.id or f"q{number}", "question": " ".join(line.question.split())}
        for field, value in row.items():
            refuse_twin(seen, number, where, field, value)
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: holds no question; expected a line such as {{'question': 'Should ...?'}}")
    return pd.DataFrame(rows)


def read_folder(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The documents under a folder: .txt and .md as they are, text of .html by trafilatura, .jsonl a document a line.

    A line is `{"text", "address": optional}`; a page's address is what it says of itself (its canonical link), a text
    has none. Files that begin with a dot are passed over.

    Returns: documents: document (path in the folder, with #LINE of a line), address ("" for none), text; those left
        out: unit, item, reason (empty, no text, not UTF-8, too large, a copy, of another kind) and detail.
    Raises: ValueError for no such folder, or one without a document; naming file and line for a line of another shape.
    Source: pages to text by trafilatura (Barbaresi 2021).
    """
    import pandas as pd

    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; expected one with .txt, .html or .jsonl files")
    rows: list[tuple[str, str, str]] = []
    left: list[tuple[str, str, str]] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        name, size = os.fsencode(path.relative_to(folder)).decode(errors="backslashreplace"), path.stat().st_size
        if path.suffix.lower() in LINES:
            for number, where, item in parse_lines(str(path), path.read_bytes(), Counter()):
                line = check(_Given, item, where)
                rows.append((f"{name}#{number}", line.address.strip(), line.text))
        elif path.suffix.lower() not in (*PAGES, *TEXTS):
            left.append((name, "of another kind", f"{path.suffix or 'no ending'}; known: .txt, .md, .html, .jsonl"))
        elif size > LARGEST:
            left.append((name, "too large", f"{size:,} bytes; at most {LARGEST:,}"))
        else:
            read = _read_page if path.suffix.lower() in PAGES else _read_text
            try:
                rows.append((name, *read(path.read_bytes())))
            except UnicodeDecodeError as error:
                left.append((name, "not UTF-8", f"byte 0x{error.object[error.start]:02x} at offset {error.start}"))
    documents = pd.DataFrame(rows, columns=["document", "address", "text"])
    empty, copies = documents.text.str.strip() == "", documents.text.duplicated()
    left += [(name, "no text", "it is empty, or a page without a main text") for name in documents.document[empty]]
    first = documents.drop_duplicates("text").set_index("text").document
    left += [
        (row.document, "a copy of another's text", f"of {first[row.text]}")
        for row in documents[copies & ~empty].itertuples()
    ]
    documents = documents[~empty & ~copies].reset_index(drop=True)
    if documents.empty:
        said = ", ".join(f"{reason}: {count}" for reason, count in Counter(row[1] for row in left).items())
        raise ValueError(f"{folder} holds no document with text ({said or 'no file'}); expected .txt, .html or .jsonl")
    gone = pd.DataFrame(left, columns=["item", "reason", "detail"])
    gone.insert(0, "unit", "document")
    return documents, gone


def hash_folder(folder: Path) -> str:
    """One hash of the names and contents of a folder's files."""
    from hashlib import sha256

    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    listed = [os.fsencode(path.relative_to(folder)) + f" {hash_file(path)}".encode() for path in files]
    return sha256(b"\n".join(listed)).hexdigest()


def _read_text(content: bytes) -> tuple[str, str]:
    return "", content.decode("utf-8-sig").replace("\0", "")


def _read_page(content: bytes) -> tuple[str, str]:
    """A page's address, by its canonical link, and its main text; "" for what it lacks."""
    import trafilatura

    tree = trafilatura.load_html(content)  # which finds the encoding
    if tree is None:
        return "", ""
    text = trafilatura.extract(tree, include_comments=False, include_tables=False) or ""
    links = [link.get("href", "") for link in tree.iter("link") if link.get("rel") == "canonical"]
    return next((link.strip() for link in links if link.startswith("http")), ""), text
