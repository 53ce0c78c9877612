"""A folder of many files becomes one: no names of folders in it, equal bytes for equal content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from reproduction.data.gather import gather
from reproduction.data.load import read_file
from reproduction.data.registry import UpstreamFile, fetch_file

RATED = "To what extent is your perspective represented in this response?"
SHOWN = "Question: Is it good? <br> <hr> LLM generated response: <br> <br> Yes.<br><br>And no.<br><br>"


def make_rows(view: str = "Mine.", rating: str = "4", choice: str = "Option 1") -> list[dict[str, Any]]:
    return [
        {"id": "consent", "displayed_text": "agree", "label_annotations": {}},
        {"id": "3_question", "displayed_text": "[Question] Is it good?",
         "label_annotations": {"answer": {"text_box": view}}},
        {"id": "3_select", "displayed_text": "[Question] Is it good?<br> <br> [Options]",
         "label_annotations": {"selection": {choice: "x"}}},
        {"id": "3_o4-mini", "displayed_text": SHOWN, "label_annotations": {RATED: {f"scale_{rating}": rating}},
         "behavioral_data": {"time_string": "1 s"}},
    ]  # fmt: skip


def dump(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_folder(folder: Path, **people: bytes) -> Path:
    for name, content in people.items():
        (folder / name / "deeper").mkdir(parents=True)
        (folder / name / "annotated_instances.jsonl").write_bytes(content)
        (folder / name / "deeper" / "annotated_instances.jsonl").write_bytes(b"not read")
    return folder


def gather_people(folder: Path, **people: bytes) -> bytes:
    return gather("debate_ratings", write_folder(folder, **people))


def test_the_gathered_file_is_read_as_a_set(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_bytes(gather_people(tmp_path / "a", a=dump(make_rows())))
    (question,), _ = read_file(path, "debate_ratings")
    assert (question.id, question.text) == ("3", "Is it good?")
    assert [(answer.system, answer.text) for answer in question.answers] == [("o4_mini", "Yes.\n\nAnd no.")]
    assert [(p.id, p.text, p.stance) for p in question.partial_answers] == [("3.r001", "Mine.", "for")]
    assert [(r.system, r.value) for r in question.ratings] == [("o4_mini", 4)]


def test_neither_order_nor_names_of_folders_nor_unused_screens_matter(tmp_path: Path) -> None:
    one, two = make_rows("Mine."), make_rows("Theirs.", "2")
    first = gather_people(tmp_path / "a", secret_id=dump(one), other_id=dump(two))
    assert gather_people(tmp_path / "b", a001=dump(two), a002=dump(one)) == first
    assert gather_people(tmp_path / "c", a001=dump(two[1:]), a002=dump(one[1:])) == first
    assert b"secret_id" not in first
    assert b"time_string" not in first


def register(content: bytes) -> UpstreamFile:
    sha256 = hashlib.sha256(content).hexdigest()
    fields = {"name": "set", "owner": "owner", "repo": "repo", "commit": "c0ffee", "path": "x/pilot"}
    return UpstreamFile(**fields, sha256=sha256, licence="none", shape="debate_ratings")


def test_a_folder_is_gathered_from_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gather_people(tmp_path / "a", a=dump(make_rows()))
    monkeypatch.setenv("NFQA_MIRROR", str(tmp_path / "mirror"))
    write_folder(tmp_path / "mirror" / register(content).relative, a001=dump(make_rows()))
    path = fetch_file(register(content), tmp_path / "store")
    assert path == tmp_path / "store" / "owner" / "repo" / "c0ffee" / "x" / "pilot.jsonl"
    assert path.read_bytes() == content
