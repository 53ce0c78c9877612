"""Tables of the web: what is gathered of upstream's files, what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

from reproduction.data.gather import gather
from reproduction.data.web import (
    load_frame,
    read_claims,
    read_documents,
    read_stated_views,
    read_wordings,
)

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


def test_the_sample_s_claims_have_wordings() -> None:
    claims, wordings = (load_frame(name, data="sample")[0] for name in ("perspectrum", "perspectrum_wordings"))
    named = [wording for views in claims.views for _, ids in views for wording in ids]
    assert sorted(named) == wordings.wording.tolist() == list(range(1, len(wordings) + 1))
