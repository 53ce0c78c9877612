"""The documents that DebateQA's partial answers were written from, and which of them are behind each point of view.

This project has not seen the files. What upstream's page says of them is read, and nothing else is guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nfqa.files.json_lines import parse_lines

TEXTS = ("text", "content", "passage", "document", "doc", "page_content", "body")  # of a document's text
LINKS = ("link", "url", "address", "source", "href")  # and its address


def _is_text(value: Any) -> bool:
    return isinstance(value, str | None)


def _are_objects(value: Any) -> bool:
    return bool(value) and isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _are_numbers(value: Any) -> bool:
    return all(re.fullmatch(r"\d+", str(number)) for number in (value if isinstance(value, list) else [value]))


def _pick(
    item: dict[str, Any], where: str, what: str, names: Sequence[str] = (), fits: Callable[[Any], bool] = _is_text
) -> Any:
    """The value of the one field that has one of the names, any without some, and fits."""
    matches = [name for name in names or item if name in item and fits(item[name])]
    if len(matches) == 1:
        return "" if item[matches[0]] is None else item[matches[0]]
    options = f", called {' or '.join(names)}" if names else ""
    fields = f"{', '.join(matches) or 'none'} of the fields {', '.join(item)}"
    raise ValueError(f"{where}: expected one field with {what}{options}; found {fields}")


def read_passages(path: Path) -> pd.DataFrame:
    """`{question, ranked_retrieve_docs: [document], partial_answers: [{point_of_view, numbers}]}` a line of each file.

    A document is an object with one text and one link, under one of the names in `TEXTS` and `LINKS`; one without text
    is excluded. The numbers of the documents behind a point of view are its one field that is a whole number or a list
    of them, whatever its name; they count from 0 where any of them in all files is 0, else from 1.

    Args: path: a file, or a folder with all of them.
    Returns: question (its text), kind ("debatable"), document (d1, d2 ... inside the question), address, text, views
        (a tuple of the points of view that the document is behind, maybe empty).
    Raises: ValueError naming file, line, object and field for another shape, with the fields that are there, and for a
        number that no document has.
    Source: DebateQA's released files, as their page describes them.
    """
    lines = []
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        for _, where, item in parse_lines(str(file), file.read_bytes(), Counter()):
            question = _pick(item, where, "the question", ["question"]).strip()
            documents, points = [], []
            for n, each in enumerate(_pick(item, where, "objects", ["ranked_retrieve_docs"], _are_objects), start=1):
                place = f"{where}, document {n}"
                documents.append((_pick(each, place, "its link", LINKS), _pick(each, place, "its text", TEXTS)))
            for n, each in enumerate(_pick(item, where, "objects", ["partial_answers"], _are_objects), start=1):
                place = f"{where}, partial answer {n}"
                numbers = _pick(each, place, "the numbers of its documents", (), _are_numbers)
                view = _pick(each, place, "its point of view", ["point_of_view"]).strip()
                points += [(place, view, int(number)) for number in np.ravel(numbers)]
            lines.append((question, documents, points))
    start = min([1, *(number for _, _, points in lines for _, _, number in points)])
    rows = []
    for question, documents, points in lines:
        for place, _, number in points:
            if number - start >= (size := len(documents)):
                raise ValueError(f"{place}: it names document {number}; there are {size}, counted from {start}")
        for n, (link, text) in enumerate(documents):
            views = tuple(view for _, view, number in points if number - start == n)
            rows.append((question, "debatable", f"d{n + 1}", link, text, views))
    table = pd.DataFrame(rows, columns=["question", "kind", "document", "address", "text", "views"])
    return table[table.text.str.strip() != ""].reset_index(drop=True)
