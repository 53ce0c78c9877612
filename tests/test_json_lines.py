"""Strict reading: whatever is wrong with a file's bytes, lines or fields is refused by file, line and field."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from nfqa.data.json_lines import Item, LooseItem, Name, Text, check, parse_lines, read_json
from nfqa.data.load import DEBATES, GRADED, read_file
from nfqa.data.own_answers import read_answers

GOOD = b'{"name": 7, "text": "why?"}'


class Part(Item):
    bare = "text"
    text: Text
    grade: Annotated[int, Field(ge=0, le=3)] = -1


class Line(Item):
    name: Name
    text: Text = ""
    parts: list[Part] = Field(default_factory=list)
    scores: dict[str, int] = Field(default_factory=dict)


class Loose(LooseItem):
    name: Name


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
    assert check(Loose, {"name": 1, "other": []}, "f").name == "1"


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (GOOD + b"\n" + GOOD[:-4], ("line 2", "cut short")),
        (GOOD[:-4] + b"\n", ("line 1", "not JSON", "column")),
        (b"\xff\xfe{}", ("UTF-16",)),
        (b"\xef\xbb\xbf" + GOOD + b'\n{"name": "caf\xe9"}\n', ("line 2", "0xe9", f"offset {3 + len(GOOD) + 1 + 13}")),
        (b"[1]\n", ("line 1", "a list")),
        (b"7\n", ("line 1", "found 7")),
        (b'{"name": NaN}\n', ("line 1", "NaN")),
        (b"[" * 100_000 + b"\n", ("line 1", "recursion")),
        (b'{"name": ' + b"9" * 5_000 + b"}\n", ("line 1", "digits")),
        (b'{"name": 1, "name": 2}\n', ("line 1", "'name'", "duplicated")),
        (b'{"name": 1, "scores": {"a": 1, "a": 2}}\n', ("line 1", "'a'", "duplicated")),
        (b"{}\n", ("line 1", "name is missing")),
        (b'{"name": null}\n', ("line 1", "name is missing")),
        (b'{"name": true}\n', ("line 1", "name is True", "whole number")),
        (b'{"name": 1.5}\n', ("line 1", "name is 1.5")),
        (b'{"name": " "}\n', ("line 1", "name is ' '")),
        (b'{"name": 1, "text": "  "}\n', ("line 1", "text is '  '", "not empty")),
        (b'{"name": 1, "text": 7}\n', ("line 1", "text is 7", "string")),
        (b'{"name": 1, "text": "\\ud800"}\n', ("line 1", "text is '\\ud800'", "surrogate")),
        (b'{"name": 1, "text": ["t"]}\n', ("line 1", "text is a list")),
        (b'{"name": 1, "parts": {}}\n', ("line 1", "parts is empty", "list")),
        (b'{"name": 1, "parts": ["t", null]}\n', ("line 1", "parts[1] is null")),
        (b'{"name": 1, "parts": [""]}\n', ("line 1", "parts[0].text is ''")),
        (b'{"name": 1, "parts": [{"text": "t", "grade": 2.0}]}\n', ("line 1", "parts[0].grade is 2.0", "integer")),
        (b'{"name": 1, "parts": [{"text": "t", "grade": true}]}\n', ("line 1", "parts[0].grade is True", "integer")),
        (b'{"name": 1, "parts": [{"text": "t", "grade": 4}]}\n', ("line 1", "parts[0].grade is 4", "to 3")),
        (b'{"name": 1, "parts": [{"text": "t", "grade": -1}]}\n', ("line 1", "parts[0].grade is -1", "to 0")),
        (b'{"name": 1, "scores": {"a b": "1"}}\n', ("line 1", "scores['a b'] is '1'")),
        (b'{"name": 1, "score": null}\n', ("unknown field 'score'; did you mean scores?", "known: name, text, parts")),
        (b'{"name": 1, "parts": [{"label": 1}]}\n', ("parts[0]: unknown field 'label'", "known: text, grade")),
        (b'{"name": 1, "\\ud800": 1}\n', ("line 1", "unknown field '\\ud800'")),
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


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        for read in (read_json, read_answers):
            with pytest.raises((OSError, ValueError), match=str(path)):
                read(path)
    for content in (b'{"a": [1,', b"\xef\xbb\xbf{}"):
        (tmp_path / "bad.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"bad\.json: not JSON"):
            read_json(tmp_path / "bad.json")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["\ud800", " ", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
POINT = {"point_of_view": "Yes.", "explanation": "So."}
SHAPES: dict[str, Any] = {
    "graded": {"why?": [{"doc_id": "a", "passage": "p", "label": 2}]},
    "generated": {
        "why?": {"doc_list": [{"answer": "x", "model": "m", "label": 1}]} | {f"ground{i}": "r" for i in range(4)}
    },
    "debate_demo": {"id": 1, "generation": "text"},
    "debateqa": {"id": 1, "question": "why?", "partial_answers": [POINT]},
    "debatewise": [
        {"claim_title": "c", "perspectives_for": [{"perspective_title": "p", "argument": {"description": ["d"]}}],
         "perspectives_against": []}
    ],
    "debate_ratings": {"question": 1, "text": "why?", "answers": {"a": "text"}},
    "debate_systems": {"question": "why?", "answers": {"a": "text"}},
    "debate_povs": {"dev_index": 3, "question": "why?", "points_of_view": ["Yes."]},
    "own": {"id": 1, "question": "why?", "references": ["r", "s"], "partial_answers": [POINT],
            "answers": [{"text": "t", "label": 1, "system": "s"}]},
}  # fmt: skip


@st.composite
def mutate(draw: st.DrawFn, value: Any) -> Any:
    """The value with one part of it replaced, added or taken away."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
        copied = value.copy()
        action = draw(st.sampled_from(("inside", "inside", "inside", "lose", "add")))
        if action == "inside":
            copied[key] = draw(mutate(value[key]))
        elif action == "lose":
            del copied[key]
        elif isinstance(copied, dict):
            copied[draw(st.text(max_size=2))] = draw(VALUES)
        else:
            copied.append(draw(VALUES))
        return copied
    return draw(VALUES)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=150, deadline=None, database=None)
@given(data=st.data())
def test_a_mutated_file_is_read_or_refused_by_name_and_never_fails_otherwise(
    shape: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated.jsonl"
    content = json.dumps(data.draw(mutate(SHAPES[shape])), ensure_ascii=data.draw(st.booleans()), indent=None)
    path.write_bytes(content.encode("utf-8", "surrogatepass")[: data.draw(st.sampled_from((None, None, None, 9)))])
    said, questions = "", ()
    try:
        questions = read_answers(path).questions if shape == "own" else tuple(read_file(path, shape, 1)[0])
    except ValueError as error:
        said = str(error)
    assert said.encode().startswith(b"" if questions else bytes(path))
    for question in questions:
        assert isinstance(question.name, str)
        assert question.name.strip()
        assert all(isinstance(a.text, str) and isinstance(a.label, int) and a.label < 4 for a in question.answers)


def test_every_shape_has_an_unchanged_example_that_is_read(tmp_path: Path) -> None:
    assert set(SHAPES) == {*GRADED, *DEBATES, "own"}
    path = tmp_path / "set.jsonl"
    for shape, content in SHAPES.items():
        path.write_text(json.dumps(content))
        assert len(read_answers(path).questions if shape == "own" else read_file(path, shape, 1)[0]) == 1
    with pytest.raises(ValueError, match="unknown shape 'odd'"):
        read_file(path, "odd")
