"""Reading files of debatable questions line by line: what every shape of them shares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nfqa.data.json_lines import check_fields as check_fields
from nfqa.data.json_lines import check_unicode, parse_line, read_bytes, refuse, split_lines
from nfqa.data.json_lines import read_text as read_text
from nfqa.data.records import PartialAnswer

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def read_lines(path: Path, counts: Counter[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line's object with the words that say where it stands.

    Raises: ValueError naming file and line for bytes that are no UTF-8, a line that is no object, or a file cut short.
    """
    content = read_bytes(path)
    if content.startswith(b"\xef\xbb\xbf"):
        content, counts["byte_order_mark"] = content[3:], 1
    lines = split_lines(path, content, counts)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parse_line(where, line, cut=number == len(lines) and not content.endswith(b"\n"))


def read_identifier(where: str, value: Any, field: str = "id") -> str:
    """An id: a text or a whole number, as a text; 7 and "7" are one id.

    Raises: ValueError.
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        refuse(where, field, value, "a text that is not empty, or a whole number")
    check_unicode(where, field, str(value))
    return str(value).strip()


def read_points(where: str, question: str, items: Any, counts: Counter[str]) -> tuple[PartialAnswer, ...]:
    """Partial answers: texts, or objects with point_of_view and, maybe, explanation. Repeated ones count, and are kept.

    Raises: ValueError for none at all, and for one without a point of view.
    """
    if not isinstance(items, Sequence) or isinstance(items, str) or not items:
        refuse(where, "partial_answers", items, "a list of at least one, each a text or {point_of_view, explanation}")
    points: list[PartialAnswer] = []
    for place, item in enumerate(items):
        field = f"partial_answers[{place}]"
        fields = item if isinstance(item, dict) else {"point_of_view": item}
        if isinstance(item, dict):
            check_fields(f"{where}: {field}", item, ("point_of_view", "explanation"))
        view = read_text(where, f"{field}.point_of_view", fields.get("point_of_view")).strip()
        explanation = fields.get("explanation") or ""
        if not isinstance(explanation, str):
            refuse(where, f"{field}.explanation", explanation, "a text")
        check_unicode(where, field, explanation)
        point = PartialAnswer(f"{question}.{len(points) + 1}", view, explanation.strip())
        counts["repeated_partial_answers"] += point.text in {other.text for other in points}
        points.append(point)
    return tuple(points)


def clean_text(text: str) -> str:
    """The text without tags, its runs of white space one blank each."""
    return " ".join(_TAG.sub(" ", text).split())
