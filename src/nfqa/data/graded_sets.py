"""Readers of graded datasets: from the files as upstream wrote them, every irregularity refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from nfqa.data.records import Answer, Question

SHAPES = ("graded", "generated")
LABELS = 4  # both graded sets have four grades; the common scale is 0 (worst) to 3


def parse_file(path: Path, *, shape: str, lowest_label: int) -> list[Question]:
    """Read a file of graded passages ("graded") or of generated answers with references ("generated")."""
    try:
        content = json.loads(
            path.read_text(encoding="utf-8"), object_pairs_hook=lambda pairs: _refuse_twins(path, pairs)
        )
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a JSON file ({error}); fetch it again") from None
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path}: expected an object of questions, found {type(content).__name__}, or an empty one")
    read = {"graded": _read_graded, "generated": _read_generated}
    if shape not in read:
        raise ValueError(f"{path}: unknown shape {shape!r} in data/registry.yml; known: {', '.join(read)}")
    return [read[shape](f"{path}: question {text!r}", text, body, lowest_label) for text, body in content.items()]


def _refuse_twins(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        twin = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"{path}: the key {twin!r} stands twice in one object; the second would hide the first")
    return content


def _read_graded(where: str, text: str, body: Any, lowest: int) -> Question:
    if not isinstance(body, list) or not body:
        raise ValueError(f"{where}: expected a list of answers, found {'none' if body == [] else type(body).__name__}")
    return Question(
        _read_text(where, "question", text), _read_answers(where, body, "passage", {"doc_id", "docid"}, lowest)
    )


def _read_generated(where: str, text: str, body: Any, lowest: int) -> Question:
    if not isinstance(body, dict) or not isinstance(body.get("doc_list"), list) or not body["doc_list"]:
        raise ValueError(f"{where}: expected an object with a filled doc_list")
    grounds = [f"ground{grade}" for grade in reversed(range(LABELS))]
    unknown = set(body) - {"doc_list", "ground4", *grounds}  # ground4 stands in a few questions; it is not a grade
    if unknown:
        raise ValueError(f"{where}: unknown key {sorted(unknown)[0]!r}; known: doc_list, {', '.join(grounds)}, ground4")
    references = []
    for key in grounds:
        if key not in body:
            raise ValueError(f"{where}: {key} is missing; each of the four grades needs its reference")
        references.append(Answer(key, _read_text(where, key, body[key]), int(key[-1])))
    answers = _read_answers(where, body["doc_list"], "answer", {"model"}, lowest)
    return Question(_read_text(where, "question", text), answers, tuple(references))


def _read_answers(where: str, items: list[Any], text_key: str, id_keys: set[str], lowest: int) -> tuple[Answer, ...]:
    answers = []
    for number, item in enumerate(items):
        spot = f"{where}, answer {number}"
        if not isinstance(item, dict):
            raise ValueError(f"{spot}: expected an object, found {type(item).__name__}")
        found = id_keys & set(item)
        unknown = set(item) - id_keys - {text_key, "label"}
        if unknown or len(found) != 1 or text_key not in item or "label" not in item:
            known = f"{text_key}, label and one of {', '.join(sorted(id_keys))}"
            raise ValueError(f"{spot}: has keys {', '.join(sorted(item))}; expected {known}")
        label = item["label"]
        if isinstance(label, bool) or not isinstance(label, int):
            raise ValueError(f"{spot}: label is {label!r}; expected a whole number")
        if not lowest <= label < lowest + LABELS:
            raise ValueError(f"{spot}: label is {label}; expected {lowest} to {lowest + LABELS - 1}")
        identifier = str(item[key := found.pop()])
        system = identifier if key == "model" else ""
        answers.append(Answer(identifier, _read_text(spot, text_key, item[text_key]), label - lowest, system))
    return tuple(answers)


def _read_text(where: str, field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: {field} is {value!r}; expected text that is not empty")
    return value
