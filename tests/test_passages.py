"""DebateQA's retrieved documents: which shapes are read, and how one that is not is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reproduction.data.load import load
from reproduction.data.passages import read_passages
from reproduction.data.web import load_frame

DOCUMENTS = [{"link": "https://a.org", "text": "One."}, {"link": "https://b.gov", "text": "Two."}]
POINTS = [{"point_of_view": "Yes.", "index": [1, 2]}, {"point_of_view": "No.", "index": 2}]


def write(folder: Path, *lines: dict[str, Any], name: str = "part_0.jsonl") -> Path:
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def make_line(documents: Any = DOCUMENTS, points: Any = POINTS, **more: Any) -> dict[str, Any]:
    return {"question": "Why?", "ranked_retrieve_docs": documents, "partial_answers": points} | more


def test_each_document_has_the_points_of_view_that_it_is_behind(tmp_path: Path) -> None:
    result = read_passages(write(tmp_path, make_line(id=7, partial=None)))
    assert result.columns.tolist() == ["question", "kind", "document", "address", "text", "views"]
    assert result.to_numpy().tolist() == [
        ["Why?", "debatable", "d1", "https://a.org", "One.", ("Yes.",)],
        ["Why?", "debatable", "d2", "https://b.gov", "Two.", ("Yes.", "No.")],
    ]


def test_numbers_count_from_0_where_any_of_any_file_is_0(tmp_path: Path) -> None:
    write(tmp_path, make_line(points=[{"point_of_view": "Yes.", "source": ["1"]}]))
    assert read_passages(tmp_path).views.tolist() == [("Yes.",), ()]
    write(tmp_path, make_line(points=[{"point_of_view": "No.", "index": 0}]), name="part_1.jsonl")
    assert read_passages(tmp_path).views.tolist() == [(), ("Yes.",), ("No.",), ()]


def test_other_names_are_known_and_a_document_without_text_keeps_its_number(tmp_path: Path) -> None:
    documents = [{"url": "https://a.org", "content": None}, {"url": None, "content": "Two.", "title": "B"}]
    result = read_passages(write(tmp_path, make_line(documents)))
    assert result[["document", "address", "text", "views"]].to_numpy().tolist() == [["d2", "", "Two.", ("Yes.", "No.")]]


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ({"query": "Why?"}, r"line 1: .*the question, called question; found none of the fields query$"),
        (make_line("text"), r"line 1: .*ranked_retrieve_docs; found none of the fields question, ranked_.*, partial_"),
        (make_line([{"href": "a", "title": "t"}]), r"document 1: .*its text, called text or .* none of .*href, title$"),
        (make_line(points=[{"point_of_view": "Yes.", "index": "d1"}]), "numbers of its documents; found none of"),
        (make_line(points=[{"point_of_view": "Yes.", "index": 1, "n": 2}]), "found index, n of the fields point_of"),
        (make_line(points=[{"point_of_view": "Yes.", "index": 3}]), "answer 1: it names document 3; there are 2"),
    ],
)
def test_another_shape_is_refused_by_file_line_field_and_what_was_found(
    tmp_path: Path, line: dict[str, Any], facts: str
) -> None:
    with pytest.raises(ValueError, match=rf"part_0\.jsonl, .*{facts}"):
        read_passages(write(tmp_path, line))


def test_the_bundled_documents_are_those_of_the_bundled_test_split() -> None:
    result, digest = load_frame("debateqa_passages", data="sample")
    assert len(digest) == 64
    views = load("debateqa_test", data="sample").views
    named = result.explode("views").dropna(subset="views").groupby("question", sort=False).views.unique().map(sorted)
    texts = load("debateqa_test", data="sample").texts_by_name
    held = views.groupby(views.question.map(texts), sort=False).point_of_view.unique().map(sorted)
    assert named.to_dict() == held.to_dict()
