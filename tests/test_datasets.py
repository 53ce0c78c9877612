"""Loaders meet everything that real files hold, and refuse the rest with a message that says where and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nfqa.data.graded_sets import parse_file
from nfqa.data.load import find_path, load

PROJECT = Path(__file__).parents[1]


def write(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "file.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def graded(**changes: Any) -> dict[str, Any]:
    return {"why?": [{"doc_id": "a", "passage": "because", "label": 2} | changes]}


def generated(**changes: Any) -> dict[str, Any]:
    body = {"doc_list": [{"answer": "x", "model": "m", "label": 1}, {"answer": "y", "model": "n", "label": 3}]}
    body |= {f"ground{grade}": f"reference {grade}" for grade in range(4)}
    return {"why?": body | changes}


def test_labels_of_both_ranges_come_to_one_scale(tmp_path: Path) -> None:
    path = write(
        tmp_path, {"q?": [{"doc_id": "a", "passage": "x", "label": 4}, {"docid": "b", "passage": "y", "label": 1}]}
    )
    assert parse_file(path, shape="graded", lowest_label=1)[0].labels == (3, 0)
    path = write(
        tmp_path, {"q?": [{"docid": "a", "passage": "x", "label": 3}, {"doc_id": "b", "passage": "y", "label": 0}]}
    )
    assert parse_file(path, shape="graded", lowest_label=0)[0].labels == (3, 0)


def test_both_id_keys_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path, {"q?": [{"doc_id": "a", "passage": "x", "label": 1}, {"docid": "b", "passage": "y", "label": 1}]}
    )
    assert [answer.id for answer in parse_file(path, shape="graded", lowest_label=0)[0].answers] == ["a", "b"]


def test_references_come_best_first_and_the_ungraded_one_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, generated(ground4="a fifth"))
    question = parse_file(path, shape="generated", lowest_label=1)[0]
    assert [(r.label, r.text) for r in question.references] == [(g, f"reference {g}") for g in (3, 2, 1, 0)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"why?": [', "not a JSON file"),
        ("[]", "expected an object of questions"),
        ({}, "expected an object of questions"),
        ({"why?": []}, "expected a list of answers, found none"),
        ({"why?": {"a": 1}}, "expected a list of answers, found dict"),
        ({"why?": ["text"]}, "answer 0: expected an object, found str"),
        (graded(score=1), "has keys doc_id, label, passage, score"),
        (graded(docid="b"), "one of doc_id, docid"),
        ({"why?": [{"doc_id": "a", "passage": "x"}]}, "has keys doc_id, passage"),
        (graded(label="4"), "label is '4'; expected a whole number"),
        (graded(label=2.5), "label is 2.5; expected a whole number"),
        (graded(label=True), "label is True; expected a whole number"),
        (graded(label=None), "label is None; expected a whole number"),
        (graded(label=5), "label is 5; expected 1 to 4"),
        (graded(label=0), "label is 0; expected 1 to 4"),
        (graded(passage="  "), "passage is '  '; expected text that is not empty"),
        (graded(passage=None), "passage is None; expected text that is not empty"),
        ({" ": [{"doc_id": "a", "passage": "x", "label": 1}]}, "question is ' '; expected text"),
        ('{"why?": [{"doc_id": "a", "passage": "x", "label": 1}], "why?": []}', "the key 'why?' stands twice"),
    ],
)
def test_a_graded_file_is_refused_with_place_and_reason(tmp_path: Path, content: Any, words: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ValueError) as error:
        parse_file(path, shape="graded", lowest_label=1)
    assert words in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (generated(doc_list=[]), "filled doc_list"),
        ({"why?": []}, "filled doc_list"),
        (generated(ground5="x"), "unknown key 'ground5'"),
        (generated(ground2=""), "ground2 is ''; expected text"),
        ({"why?": {k: v for k, v in generated()["why?"].items() if k != "ground1"}}, "ground1 is missing"),
        (generated(doc_list=[{"answer": "x", "label": 1}]), "has keys answer, label"),
    ],
)
def test_a_generated_file_is_refused_with_place_and_reason(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_file(write(tmp_path, content), shape="generated", lowest_label=1)
    assert words in str(error.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(b'{"why?": "\xff\xfe"}')
    with pytest.raises(ValueError, match="not a JSON file"):
        parse_file(path, shape="graded", lowest_label=1)


def test_an_unknown_shape_data_set_data_or_treatment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown shape 'odd'"):
        parse_file(write(tmp_path, graded()), shape="odd", lowest_label=1)
    with pytest.raises(ValueError, match="unknown dataset 'antiqe'; known: antique, trec_dl_nf, webglm"):
        load("antiqe", root=PROJECT)
    with pytest.raises(ValueError, match="'prompt_listwise' is a prompt, no dataset; known: antique, trec_dl_nf"):
        load("prompt_listwise", root=PROJECT)
    with pytest.raises(ValueError, match="data is 'some'"):
        load("antique", data="some", root=PROJECT)
    with pytest.raises(ValueError, match="repeats is 'twice'"):
        load("antique", data="sample", repeats="twice", root=PROJECT)  # type: ignore[arg-type]


def test_repeated_passages_are_treated_as_named(tmp_path: Path) -> None:
    root = tmp_path
    (root / "data" / "sample").mkdir(parents=True)
    (root / "data" / "registry.yml").write_text((PROJECT / "data" / "registry.yml").read_text())
    answers = [("a", "same", 4), ("b", "same", 2), ("c", "twin", 3), ("d", "twin", 3), ("e", "alone", 1)]
    content = {"q?": [{"doc_id": i, "passage": text, "label": label} for i, text, label in answers]}
    (root / "data" / "sample" / "cqa.json").write_text(json.dumps(content))
    kept = {
        repeats: [a.id for a in load("antique", data="sample", repeats=repeats, root=root).questions[0].answers]  # type: ignore[arg-type]
        for repeats in ("keep", "first", "drop_conflicting")
    }
    assert kept == {"keep": ["a", "b", "c", "d", "e"], "first": ["a", "c", "e"], "drop_conflicting": ["c", "d", "e"]}


def test_a_limit_chooses_by_the_question_and_keeps_the_files_order() -> None:
    whole = load("antique", data="sample", root=PROJECT).questions
    part = load("antique", data="sample", limit=5, root=PROJECT).questions
    smaller = load("antique", data="sample", limit=3, root=PROJECT).questions
    assert len(part) == 5
    assert [q for q in whole if q in part] == list(part)
    assert set(smaller) < set(part)


@pytest.mark.parametrize(("name", "least"), [("antique", 12), ("trec_dl_nf", 8)])
def test_the_bundled_sample_is_large_and_graded_enough(name: str, least: int) -> None:
    dataset = load(name, data="sample", root=PROJECT)
    assert dataset.name == f"sample_{name}"
    assert dataset.origin == "sample"
    assert len(dataset.questions) >= least
    for question in dataset.questions:
        assert len(question.answers) >= 8
        assert set(question.labels) == {0, 1, 2, 3}
        assert len({answer.text for answer in question.answers}) == len(question.answers)


def test_the_file_behind_a_dataset_is_found_and_a_missing_stand_in_refused() -> None:
    assert find_path("antique", data="sample") == PROJECT / "data" / "sample" / "cqa.json"
    with pytest.raises(ValueError, match="system_answers has no bundled sample"):
        find_path("system_answers", data="sample")


def test_the_bundled_generated_answers_have_references_and_ties() -> None:
    dataset = load("webglm", data="sample", root=PROJECT)
    assert all(len(question.references) == 4 for question in dataset.questions)
    assert any(len(set(question.labels)) < 3 for question in dataset.questions)
