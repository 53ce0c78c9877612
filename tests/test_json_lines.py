"""Strict reading: whatever is wrong with a file's bytes, lines or fields is refused by file, line and field."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from nfqa.files.answers import read_answers
from nfqa.files.json_lines import Item, Name, Text, check, parse_lines
from reproduction.data.load import read_file

GOOD = b'{"name": 7, "text": "why?"}'


class Part(Item):
    bare = "text"
    text: Text
    grade: Annotated[int, Field(ge=0, le=3)] = -1


class Line(Item):
    name: Name
    text: Text = ""
    parts: list[Part] = Field(default_factory=list)


def parse(content: bytes) -> tuple[list[Line], Counter[str]]:
    counts: Counter[str] = Counter()
    return [check(Line, item, where) for _, where, item in parse_lines("f.jsonl", content, counts)], +counts


def test_lines_are_read_and_what_is_odd_about_them_counted() -> None:
    lines, counts = parse(b"\xef\xbb\xbf" + GOOD + b"\r\n \n" + '{"name": " b ", "text": "a\u2028b"}'.encode())
    assert [(line.name, line.text) for line in lines] == [("7", "why?"), ("b", "a\u2028b")]
    assert counts == {"byte_order_mark": 1, "carriage_returns": 1, "blank_lines": 1}
    (line,), counts = parse(b'{"name": "x", "text": null, "parts": ["bare", {"text": "t", "grade": 3}]}\n')
    assert [(part.text, part.grade) for part in line.parts] == [("bare", -1), ("t", 3)]
    assert (line.text, counts) == ("", {})
    (line,), _ = parse(b'{"name": "\\ud800", "text": "cut \\ud83d", "parts": ["\\ud83d\\ude00"]}')
    assert (line.name, line.text, line.parts[0].text) == ("\ufffd", "cut \ufffd", "\U0001f600")


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (GOOD + b"\n" + GOOD[:-4], ("line 2", "cut short")),
        (GOOD[:-4] + b"\n", ("line 1", "not JSON", "character")),
        (b"\xff\xfe{}", ("UTF-16",)),
        (b"\xef\xbb\xbf" + GOOD + b'\n{"name": "caf\xe9"}\n', ("line 2", "0xe9", f"offset {3 + len(GOOD) + 1 + 13}")),
        (b"[1]\n", ("line 1", "a list")),
        (b'{"name": NaN}\n', ("line 1", "name is missing")),
        (b'{"name": 1, "name": 2}\n', ("line 1", "'name'", "duplicated")),
        (b'{"name": null}\n', ("line 1", "name is missing")),
        (b'{"name": true}\n', ("line 1", "name is True", "whole number")),
        (b'{"name": "a\\nb"}\n', ("line 1", "one line")),
        (b'{"name": 1, "text": "  "}\n', ("line 1", "text is '  '", "not empty")),
        (b'{"name": 1, "text": "' + b"x" * 1_000_001 + b'"}\n', ("line 1", "text", "1000000")),
        (b'{"name": 1, "parts": ["t", null]}\n', ("line 1", "parts[1] is null")),
        (b'{"name": 1, "parts": [{"text": "t", "grade": 4}]}\n', ("line 1", "parts[0].grade is 4", "to 3")),
        (b'{"name": 1, "pars": null}\n', ("unknown field 'pars'; did you mean parts?", "known: name, text, parts")),
    ],
)  # fmt: skip
def test_a_fault_is_refused_with_file_line_and_field(content: bytes, facts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError) as caught:
        parse(content)
    said = str(caught.value)
    assert said.startswith("f.jsonl")
    assert [fact for fact in facts if fact not in said] == []
    assert len(re.findall(r"\bline \d", said)) <= 1  # the file's: JSON's own count would begin anew
    assert "\n" not in said
    assert len(said) < 300


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["\ud800", " ", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
POINT = {"point_of_view": "Yes.", "explanation": "So."}
SHAPES: dict[str, Any] = {
    "debateqa": {"id": 1, "question": "why?", "partial_answers": [POINT]},
    "own": {"id": 1, "question": "why?", "references": ["r", "s"], "partial_answers": [POINT],
            "answers": [{"text": "t", "label": 1, "system": "s"}]},
}  # fmt: skip


@st.composite
def mutate(draw: st.DrawFn, value: Any) -> Any:
    """The value with one part of it replaced, or taken away."""
    if not isinstance(value, dict | list) or not value or not draw(st.integers(0, 4)):
        return draw(VALUES)
    key, copied = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value)))), value.copy()
    if draw(st.integers(0, 3)):
        copied[key] = draw(mutate(value[key]))
    else:
        del copied[key]
    return copied


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=30, deadline=None, database=None)
@given(data=st.data())
def test_a_mutated_file_is_read_or_refused_by_name_and_never_fails_otherwise(
    shape: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated.jsonl"
    read = read_answers if shape == "own" else lambda path: read_file(path, shape)
    path.write_text(json.dumps(SHAPES[shape]))
    assert read(path)
    path.write_text(json.dumps(data.draw(mutate(SHAPES[shape])))[: data.draw(st.sampled_from((None, None, None, 9)))])
    said = str(path)
    try:
        read(path)
    except ValueError as error:
        said = str(error)
    assert said.startswith(str(path))
