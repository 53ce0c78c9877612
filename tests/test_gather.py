"""A folder of many upstream files becomes one, without names of people, and is read as a set or table."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from reproduction.data.gather import gather
from reproduction.data.load import read_file
from reproduction.data.registry import UpstreamFile, fetch_file
from reproduction.data.web import (
    read_claims,
    read_documents,
    read_stated_views,
    read_wordings,
)

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


_PLACE = "sft_inference_pipeline_v2/data/splits"


def write_lines(path: Path, *rows: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def make_query(number: int, kind: str = "No conflict", **more: object) -> dict:
    documents = [{"doc_id": "d1", "source_url": "https://a.org/", "snippet": " One. ", "timestamp": ""}]
    fields = {"query": f"What is {number}?", "conflict_type": kind, "retrieved_docs": documents, "think": "SECRET"}
    return {"id": f"#{number:04}"} | fields | more


def test_documents_are_united_over_files_without_made_up_ones(tmp_path: Path) -> None:
    write_lines(tmp_path / _PLACE / "val.jsonl", make_query(7, "Conflicting opinions or research outcomes"))
    same = make_query(7, "Conflicting opinions and research outcomes")
    write_lines(tmp_path / _PLACE / "test.jsonl", same, make_query(3), make_query(459))
    write_lines(tmp_path / "elsewhere" / "val.jsonl", make_query(9))
    content = gather("web_documents", tmp_path)
    assert b"SECRET" not in content
    (tmp_path / "set.jsonl").write_bytes(content)
    frame = read_documents(tmp_path / "set.jsonl")
    assert frame[["question", "kind"]].to_numpy().tolist() == [
        ["What is 3?", "no_conflict"],
        ["What is 7?", "conflicting_opinions"],
    ]
    assert frame.drop(columns=["question", "kind"]).drop_duplicates().to_numpy().tolist() == [
        ["d1", "https://a.org/", "One."]
    ]


def test_stated_views_claims_and_wordings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text("id\tquestion\tdocument\tperspective\tlabel\n007\tQ?\tNA\tYes.\t1\n")
    assert read_stated_views(path).to_numpy().tolist() == [["Q?", "007", "NA", "Yes.", True]]
    path.write_text(json.dumps([{"pId": 7, "text": "It is so.", "source": "x"}, {"pId": 8, "text": "It is so."}]))
    assert read_wordings(path).to_numpy().tolist() == [[7, "It is so."], [8, "It is so."]]
    views = [{"pids": [7], "stance_label_3": "SUPPORT"}]
    path.write_text(json.dumps([{"cId": 1, "text": "Q", "source": "s", "topics": ["b", "a"], "perspectives": views}]))
    assert read_claims(path).to_numpy().tolist() == [["Q", "s", "a b", [("SUPPORT", [7])]]]


ARGUMENTS = (
    "Topic ID,Discussion ID,Argument ID,Logical Quality,Rhetorical Quality,Dialectical Quality,Premise\n"
    "1,7,1,4,4,3,Good.\n1,7,2,1,1,2,Poor.\n2,7,3,-2,-2,-2,None at all.\n2,7,4,2,3,3,\n"
)
TOPICS = "Topic ID,Query\n1,cats\n2,cats\n"
RANKED = '#id\trank\targument\na1\t0.1\tBest, "quoted\nd1\t0.9\tWorst\nb1\t0.2\tSecond\nc1\t0.3\tThird\n'
PREFERRED = (
    "annotator\tquestion_text\tans1_text\tans2_text\tans_preference\tans1_label\tans2_label\n"
    "Zoe\t Why? \tWrong\tRight\tAnswer 2\thuman_answer\tmodel_answer\n"
    "Abe\tHow?\tSo.\tNo.\tAnswer 1\tmodel_answer\thuman_answer\n"
)
FILES = {
    "arguments": {"arguments.csv": ARGUMENTS, "topics.csv": TOPICS},
    "convincing": {"ban-cats_no-never.csv": RANKED},
    "preferred": {"HaluQuestQA.csv": PREFERRED},
}
READ = {
    "arguments": ("cats", {"Good.": 3, "Poor.": 0, "None at all.": 0}),
    "convincing": ("ban cats: no never", {'Best, "quoted': 3, "Second": 2, "Third": 1, "Worst": 0}),
    "preferred": ("Why?", {"Right": 1, "Wrong": 0}),
}


@pytest.mark.parametrize("shape", FILES)
def test_a_set_is_gathered_and_read_by_grades(shape: str, tmp_path: Path) -> None:
    for name, text in (FILES[shape] | {"notes.txt": "not read"}).items():
        (tmp_path / name).write_text(text)
    made = gather(shape, tmp_path)
    (path := tmp_path / "gathered.jsonl").write_bytes(made)
    (question, *_), _ = read_file(path, shape)
    assert (question.text, {answer.text: answer.label for answer in question.answers}) == READ[shape]


def test_an_expert_is_a_number_and_an_answer_says_who_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "HaluQuestQA.csv").write_text(PREFERRED)
    made = gather("preferred", tmp_path)
    rows = [json.loads(line) for line in made.splitlines()]
    assert [(row["id"], row["system"]) for row in rows[1:3]] == [("1-2", "model"), ("2-1", "model")]
    assert b"Zoe" not in made
