"""Upstream folders of many files, gathered into one file of the rows that are used: no names of folders in it."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

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
_FILE = "annotated_instances.jsonl"
_RATED = "To what extent is your perspective represented in this response?"
_INSTANCE = re.compile(r"(\d+)_(.+)")
_OPTIONS = ("Option 1", "Option 2", "Neutral")


def gather_folder(folder: Path) -> bytes:
    """The rows of a mirror's folder: one sub-folder a person.

    Raises: ValueError for a folder without such files, and as `gather_overton`.
    """
    return gather_overton(path.read_bytes() for path in sorted(folder.glob(f"*/{_FILE}")))


def gather_archive(archive: Path, path: str) -> bytes:
    """The same rows from a repository's archive, tar.gz, read without unpacking it. `path` is the folder in it.

    Raises: ValueError for a file that is no whole archive, and as `gather_overton`.
    """
    wanted = re.compile(rf"[^/]+/{re.escape(path)}/[^/]+/{re.escape(_FILE)}")
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = [member for member in tar if member.isfile() and wanted.fullmatch(member.name)]
            files = [tar.extractfile(member) for member in members]
            return gather_overton([file.read() for file in files if file is not None])
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"the archive is not whole ({type(error).__name__}); fetch it again") from None


def gather_overton(files: Iterable[bytes]) -> bytes:
    """One file of JSON lines from each person's file: first a line a question, then a line a person.

    Persons are numbered by the order of their content's hash. Screens that are not used (consent, demographics, times,
    marked passages) are left out, so that two copies which differ in nothing else give equal bytes.
    Raises: ValueError naming the person's number in the order read, the line and the field; never a folder.
    """
    questions: dict[int, dict[str, Any]] = {}
    people = [_read_person(f"person {number}", file, questions) for number, file in enumerate(files, start=1)]
    if not people:
        raise ValueError(f"no */{_FILE} there; expected a folder a person")
    lines = [_dump({"question": number} | body) for number, body in sorted(questions.items())]
    hashed = sorted((hashlib.sha256(_dump(person).encode()).hexdigest(), _dump(person)) for person in people)
    for number, (_, person) in enumerate(hashed, start=1):
        lines.append(_dump({"annotator": f"r{number:03}"} | json.loads(person)))
    return "".join(f"{line}\n" for line in lines).encode()


def _read_person(who: str, content: bytes, questions: dict[int, dict[str, Any]]) -> dict[str, Any]:
    person: dict[str, Any] = {"views": {}, "choices": {}, "ratings": {}}
    for where, item in _read_lines(who, content):
        identifier, shown, given = item.get("id"), item.get("displayed_text"), item.get("label_annotations")
        found = _INSTANCE.fullmatch(identifier) if isinstance(identifier, str) else None
        if found is None or found[2] not in (*SYSTEMS, "question", "select"):
            continue  # a screen that is no part of the study's questions
        if not isinstance(shown, str) or not isinstance(given, dict):
            raise ValueError(f"{where}: displayed_text or label_annotations is missing")
        number, kind = int(found[1]), found[2]
        text, answer = _read_shown(where, shown)
        question = questions.setdefault(number, {"text": text, "answers": {}})
        _match(where, "question", question["text"], text)
        key = str(number)
        if kind == "question":
            person["views"][key] = _once(where, person["views"].get(key), _read_view(where, given))
        elif kind == "select":
            person["choices"][key] = _once(where, person["choices"].get(key), _read_choice(where, given))
        else:
            system = SYSTEMS[kind]
            _match(where, f"answer of {system}", question["answers"].setdefault(system, answer), answer)
            ratings = person["ratings"].setdefault(key, {})
            ratings[system] = _once(where, ratings.get(system), _read_rating(where, given))
    if not any(person.values()):
        raise ValueError(f"{who}: no question, choice or rating in the file; fetch it again")
    return person


def _read_lines(who: str, content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{who}: byte {error.start} is not UTF-8; fetch it again") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{who}, line {number}"
            try:
                item = json.loads(line)
            except ValueError:
                raise ValueError(f"{where}: not a JSON object, the file may be cut short; fetch it again") from None
            if not isinstance(item, dict):
                raise ValueError(f"{where}: found {type(item).__name__}; expected an object")
            yield where, item


def _read_shown(where: str, shown: str) -> tuple[str, str]:
    """The question and the answer, "" for none, of what was shown: `Question: Q <br> <hr> LLM ...: <br> <br> A`."""
    head, mark, answer = shown.partition("LLM generated response:")
    found = re.match(r"(?:\[Question\]|Question:)\s*(.*?)\s*(?:<br>|<hr>|$)", head, flags=re.DOTALL)
    if not found or not found[1]:
        raise ValueError(f"{where}: displayed_text begins {shown[:40]!r}; expected `Question: ` and the question")
    text = re.sub(r"\s*<br>\s*", "\n", answer).strip()
    if mark and not text:
        raise ValueError(f"{where}: displayed_text shows an empty answer; fetch it again")
    return found[1], re.sub(r"\n{2,}", "\n\n", text)


def _read_view(where: str, given: dict[str, Any]) -> str:
    answer = given.get("answer") or {}
    text = answer.get("text_box", "") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise ValueError(f"{where}: label_annotations.answer.text_box is {text!r:.40}; expected a text")
    return " ".join(text.split())


def _read_choice(where: str, given: dict[str, Any]) -> str:
    chosen = given.get("selection") or {}
    option = next(iter(chosen), None)
    if len(chosen) != 1 or option not in _OPTIONS:
        raise ValueError(f"{where}: label_annotations.selection is {option!r}; expected one of {', '.join(_OPTIONS)}")
    return str(option)


def _read_rating(where: str, given: dict[str, Any]) -> int:
    values = list((given.get(_RATED) or {}).values())
    if len(values) != 1 or str(values[0]) not in "12345":
        raise ValueError(f"{where}: the rating is {values!r:.40}; expected one of 1 to 5")
    return int(values[0])


def _match(where: str, what: str, first: str, now: str) -> None:
    if first != now:
        raise ValueError(f"{where}: the {what} is {now!r:.60}, elsewhere {first!r:.60}; all were shown one text")


def _once(where: str, before: Any, now: Any) -> Any:
    if before is not None and before != now:
        raise ValueError(f"{where}: answered twice, and not alike; expected one answer a person")
    return now


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
