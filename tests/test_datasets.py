"""Graded datasets as upstream wrote them, and loading any dataset by name: what is read, chosen and refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nfqa.data.load import load, read_file

PROJECT = Path(__file__).parents[1]


def write(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("lowest", [0, 1])
def test_labels_of_both_ranges_come_to_one_scale_and_both_id_keys_are_read(tmp_path: Path, lowest: int) -> None:
    passages = [{"doc_id": "a", "passage": "x", "label": lowest + 3}, {"docid": 7, "passage": "y", "label": lowest}]
    (question,), _ = read_file(write(tmp_path, {"q?": passages}), "graded", lowest)
    assert [(answer.id, answer.label) for answer in question.answers] == [("a", 3), ("7", 0)]


def test_references_come_best_first_and_the_ungraded_one_is_left_out(tmp_path: Path) -> None:
    body = {"doc_list": [{"answer": "x", "model": "m", "label": 1}, {"answer": "y", "model": "n", "label": 3}]}
    body |= {f"ground{grade}": f"reference {grade}" for grade in range(5)}  # type: ignore[misc]
    (question,), _ = read_file(write(tmp_path, {"why?": body}), "generated", 1)
    assert [(r.label, r.text) for r in question.references] == [(g, f"reference {g}") for g in (3, 2, 1, 0)]
    assert [(a.system, a.text, a.label) for a in question.answers] == [("m", "x", 0), ("n", "y", 2)]


@pytest.mark.parametrize(
    ("name", "options", "facts"),
    [
        ("antiqe", {}, "unknown dataset 'antiqe'; known: antique, trec_dl_nf"),
        ("prompt_listwise", {}, "'prompt_listwise' is a prompt"),
        ("debateqa_test", {}, "debateqa_test has no bundled sample"),
    ],
)
def test_wrong_arguments_are_refused(name: str, options: dict[str, Any], facts: str) -> None:
    with pytest.raises(ValueError, match=re.escape(facts)):
        load(name, root=PROJECT, **({"data": "sample"} | options))


def test_repeated_passages_are_treated_as_named(tmp_path: Path) -> None:
    (tmp_path / "data" / "sample").mkdir(parents=True)
    (tmp_path / "data" / "registry.yml").write_text((PROJECT / "data" / "registry.yml").read_text())
    answers = [("a", "same", 4), ("b", "same", 2), ("c", "twin", 3), ("d", "twin", 3), ("e", "alone", 1)]
    content = {"q?": [{"doc_id": i, "passage": text, "label": label} for i, text, label in answers]}
    (tmp_path / "data" / "sample" / "cqa.json").write_text(json.dumps(content))
    for repeats, kept in (("keep", "abcde"), ("first", "ace"), ("drop_conflicting", "cde")):
        found = load("antique", data="sample", repeats=repeats, root=tmp_path)  # type: ignore[arg-type]
        assert "".join(found.answers["answer"]) == kept
        assert found.irregularities == ({} if repeats == "keep" else {"dropped_repeats": 2})


@pytest.mark.parametrize("name", ["antique", "debatewise"])
def test_a_limit_chooses_by_the_question_and_keeps_the_files_order(name: str) -> None:
    whole = load(name, data="sample", root=PROJECT).questions
    part = load(name, data="sample", limit=5, root=PROJECT).questions
    assert list(part) == [question for question in whole if question.key in sorted(q.key for q in whole)[:5]]
