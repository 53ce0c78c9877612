"""Files of JSON lines, read strictly: every fault is refused with file, line and field."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn


def read_bytes(path: Path) -> bytes:
    """A file's bytes.

    Raises: ValueError for a folder, a missing file, or UTF-16.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise ValueError(f"{path}: {what}; expected a file of JSON lines")
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path}: is UTF-16; save it as UTF-8")
    return content


def split_lines(path: Path, content: bytes, counts: Counter[str]) -> list[str]:
    """Lines end at a line feed alone: other separators may stand inside a JSON text."""
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        shift = path.stat().st_size - len(content)  # of a byte order mark
        raise ValueError(
            f"{path}, line {line}: byte 0x{content[error.start]:02x} at offset {error.start + shift} is not UTF-8;"
            " save the whole file as UTF-8"
        ) from None
    counts["carriage_returns"] = sum(line.endswith("\r") for line in lines)
    return [line.removesuffix("\r") for line in lines]


def parse_line(where: str, line: str, cut: bool) -> dict[str, Any]:
    """One line's object. `cut` says that the file ends inside the line.

    Raises: ValueError for anything but one whole JSON object, or a field that stands twice in one.
    """
    try:
        item = json.loads(line, object_pairs_hook=lambda pairs: _refuse_twins(where, pairs), parse_constant=_refuse_nan)
    except _FieldTwiceError as error:
        raise ValueError(str(error)) from None
    except (ValueError, RecursionError) as error:
        said = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        hint = "; the file ends inside this line, so it may have been cut short" if cut else ""
        raise ValueError(f"{where}: not a JSON object ({said}){hint}; expected one whole object a line") from None
    if not isinstance(item, dict):
        raise ValueError(f"{where}: found {name_type(item)}; expected one JSON object a line")
    return item


class _FieldTwiceError(ValueError):
    pass


def _refuse_twins(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twins = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if twins:
        raise _FieldTwiceError(f"{where}: the field {twins[0]!r} stands twice in one object; keep one of them")
    return dict(pairs)


def _refuse_nan(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def check_fields(where: str, item: dict[str, Any], known: Sequence[str]) -> None:
    """Refuse a field that is not known.

    Raises: ValueError.
    """
    unknown = sorted(set(item) - set(known))
    if unknown:
        raise ValueError(f"{where}: unknown field {unknown[0]!r}; known: {', '.join(known)}")


def read_text(where: str, field: str, value: Any) -> str:
    """A text that is not empty.

    Raises: ValueError.
    """
    if not isinstance(value, str) or not value.strip():
        refuse(where, field, value, "a text that is not empty")
    check_unicode(where, field, value)
    return value


def read_name(where: str, field: str, value: Any) -> str:
    """An id or a system: a text or a whole number; "" for none."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        refuse(where, field, value, "a text that is not empty, or a whole number")
    check_unicode(where, field, str(value))
    return str(value).strip()


def check_unicode(where: str, field: str, text: str) -> None:
    """Refuse half a character.

    Raises: ValueError.
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{where}: {field} holds half of a character (a lone surrogate); write the file anew as UTF-8")


def refuse(where: str, field: str, value: Any, expected: str) -> NoReturn:
    """Raise the error that names place, field, what was found and what was expected."""
    found = "missing" if value is None else f"{value!r:.60}" if isinstance(value, str | int | float) else ""
    raise ValueError(f"{where}: {field} is {found or name_type(value)}; expected {expected}")


def name_type(value: Any) -> str:
    """What kind of JSON value it is, in words."""
    if value in ([], {}):
        return "empty"
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
