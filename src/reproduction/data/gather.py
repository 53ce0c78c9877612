"""Upstream files of one set, gathered into one file of the rows and fields that are used: it holds
no person's id.

The file that is made is pinned by its hash in data/registry.yml, so a change upstream fails that
check.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from nfqa.files.json_lines import read_lines
from reproduction.data import rated

Lines: TypeAlias = list[dict[str, Any]]
SYSTEMS = {  # as upstream's ids end -> the identifier used here
    "claude-3-7-sonnet-20250219": "claude_3_7_sonnet",
    "deepseek-v3": "deepseek_v3",
    "deepseek.r1": "deepseek_r1",
    "gemma-3-27b-it": "gemma_3_27b",
    "gpt-4.1": "gpt_4_1",
    "llama-4-maverick-17b-128e-instruct": "llama_4_maverick",
    "llama3-3-70b-instruct": "llama_3_3_70b",
    "o4-mini": "o4_mini",
}
_RATED = "To what extent is your perspective represented in this response?"
_INSTANCE = re.compile(rf"(\d{{1,9}})_({'|'.join(map(re.escape, SYSTEMS))}|question|select)")


def gather(shape: str, folder: Path) -> bytes:
    """One file of JSON lines of the rows that are used, from the files of a set of this shape.

    Two copies that differ in nothing that is used give equal bytes.

    Args: shape: one of SETS; folder: with the files, as upstream has them.
    """
    patterns, make = SETS[shape]
    files = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return "".join(f"{_dump(line)}\n" for line in make(files)).encode()


def _gather_ratings(files: list[Path]) -> Iterable[dict[str, Any]]:
    """First one line per question, then one line per person, numbered by the order of their
    content's hash.

    Screens that are not used (consent, demographics, times, marked passages) are excluded.
    """
    questions: dict[int, dict[str, Any]] = {}
    people = [_dump(_read_person(read_lines(file.read_bytes()), questions)) for file in files]
    yield from ({"question": number} | body for number, body in sorted(questions.items()))
    hashed = sorted((hashlib.sha256(person.encode()).hexdigest(), person) for person in people)
    for number, (_, person) in enumerate(hashed, start=1):
        yield {"annotator": f"r{number:03}"} | json.loads(person)


def _read_person(screens: Lines, questions: dict[int, dict[str, Any]]) -> dict[str, Any]:
    person: dict[str, Any] = {"views": {}, "choices": {}, "ratings": {}}
    for screen in screens:
        instance = _INSTANCE.fullmatch(str(screen.get("id")))
        if instance is None:
            continue  # a screen that asks none of the study's questions
        key = str(int(instance[1]))
        kind = instance[2]
        labels = screen["label_annotations"]
        text, answer = _read_shown(screen["displayed_text"])
        question = questions.setdefault(int(key), {"text": text, "answers": {}})
        if kind == "question":
            person["views"][key] = " ".join(labels.get("answer", {}).get("text_box", "").split())
        elif kind == "select":
            (person["choices"][key],) = labels["selection"]
        else:
            question["answers"][SYSTEMS[kind]] = answer
            (rating,) = labels[_RATED].values()
            person["ratings"].setdefault(key, {})[SYSTEMS[kind]] = int(rating)
    return person


def _read_shown(displayed: str) -> tuple[str, str]:
    """The question and the answer, "" for none, of what was shown: `Question: Q <br> <hr> LLM ...:
    <br> <br> A`.
    """
    head, _, answer = displayed.partition("LLM generated response:")
    question = re.split("<br>|<hr>", head)[0].removeprefix("[Question]").removeprefix("Question:")
    text = "\n".join(map(str.strip, answer.split("<br>"))).strip()
    return question.strip(), re.sub(r"\n{2,}", "\n\n", text)


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


_KINDS = {  # how the documents of a question relate: as upstream spells it -> here
    "Conflicting opinions and research outcomes": "conflicting_opinions",
    "Conflicting opinions or research outcomes": "conflicting_opinions",
    "Complementary information": "complementary",
    "No conflict": "no_conflict",
    "Conflict due to outdated information": "outdated",
    "Conflict due to misinformation": "misinformation",
}
_SYNTHETIC_FROM = 459  # from this id on upstream's questions and documents are made up, on domains that don't exist


def _gather_documents(files: list[Path]) -> Iterable[dict[str, Any]]:
    """One line per question with its documents, by upstream's id, without the fields that a
    language model wrote.
    """
    queries = {query["id"]: query for file in files for query in read_lines(file.read_bytes())}
    for name, query in sorted(queries.items()):
        if int(name[1:]) < _SYNTHETIC_FROM:
            sources = query["retrieved_docs"]
            documents = [{"address": one["source_url"].strip(), "text": one["snippet"].strip()} for one in sources]
            kind = _KINDS[query["conflict_type"]]
            yield {"question": query["query"].strip(), "kind": kind, "documents": documents}


_STAGE = "dataset_annotation_pipeline_v3/data/experiments/stagewise_multi/stage3_final.jsonl"
_SPLITS = ["_v2/data/splits/val", "_v2/data/splits/test", "/data/splits/val_v5", "/data/splits/test_v5"]
Maker: TypeAlias = Callable[[list[Path]], Iterable[dict[str, Any]]]
SETS: dict[str, tuple[list[str], Maker]] = {  # files, sorted by their paths; what makes the lines of them
    "debate_ratings": (["*/annotated_instances.jsonl"], _gather_ratings),
    "web_documents": ([_STAGE, *(f"sft_inference_pipeline{split}.jsonl" for split in _SPLITS)], _gather_documents),
    "arguments": (["arguments.csv", "topics.csv"], rated.gather_arguments),
    "convincing": (["*.csv"], rated.gather_convincing),
    "preferred": (["HaluQuestQA.csv"], rated.gather_preferred),
}
