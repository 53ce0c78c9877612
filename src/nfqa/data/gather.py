"""Upstream folders of many files, gathered into one file of the rows that are used: no names of folders in it."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from nfqa.data.json_lines import AnyText, LooseItem, check, parse_lines

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
_INSTANCE = re.compile(r"(\d{1,9})_(.+)")


class _Screen(LooseItem):
    displayed_text: AnyText
    label_annotations: dict[str, Any]


class _Box(LooseItem):
    text_box: AnyText = ""


class _View(LooseItem):
    answer: _Box = _Box()


class _Choice(LooseItem):
    selection: Annotated[dict[Literal["Option 1", "Option 2", "Neutral"], Any], Field(min_length=1, max_length=1)]


class _Rated(LooseItem):
    rating: Annotated[dict[str, Literal["1", "2", "3", "4", "5"]], Field(min_length=1, max_length=1, alias=_RATED)]


def gather(source: Path, folder: str, where: str) -> bytes:
    """One file of JSON lines from each person's file: first a line a question, then a line a person.

    Persons are numbered by the order of their content's hash. Screens that are not used (consent, demographics, times,
    marked passages) are left out, so that two copies which differ in nothing else give equal bytes.

    Args: source: a mirror's folder, one sub-folder a person, or a repository's archive, tar.gz, that has this `folder`
        in it; where: what errors call the source.
    Raises: ValueError for no whole archive, no such files, or naming the person's number in the order read, the line
        and the field; never a sub-folder.
    """
    files = _read_folder(source) if source.is_dir() else _read_archive(source, folder, where)
    questions: dict[int, dict[str, Any]] = {}
    people = [_read_person(f"{where}: person {n}", file, questions) for n, file in enumerate(files, start=1)]
    if not people:
        raise ValueError(f"{where}: no */{_FILE} there; expected a folder a person")
    lines = [_dump({"question": number} | body) for number, body in sorted(questions.items())]
    hashed = sorted((hashlib.sha256(_dump(person).encode()).hexdigest(), _dump(person)) for person in people)
    for number, (_, person) in enumerate(hashed, start=1):
        lines.append(_dump({"annotator": f"r{number:03}"} | json.loads(person)))
    return "".join(f"{line}\n" for line in lines).encode()


def _read_folder(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob(f"*/{_FILE}"))]


def _read_archive(archive: Path, folder: str, where: str) -> list[bytes]:
    wanted = re.compile(rf"[^/]+/{re.escape(folder)}/[^/]+/{re.escape(_FILE)}")
    try:
        with tarfile.open(archive, "r:gz") as tar:
            files = [tar.extractfile(member) for member in tar if member.isfile() and wanted.fullmatch(member.name)]
            return [file.read() for file in files if file is not None]
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{where}: the archive is not whole ({type(error).__name__}); fetch it again") from None


def _read_person(who: str, content: bytes, questions: dict[int, dict[str, Any]]) -> dict[str, Any]:
    person: dict[str, Any] = {"views": {}, "choices": {}, "ratings": {}}
    for _, where, item in parse_lines(who, content, Counter()):
        found = _INSTANCE.fullmatch(str(item.get("id")))
        if found is None or found[2] not in (*SYSTEMS, "question", "select"):
            continue  # a screen that asks none of the study's questions
        screen = check(_Screen, item, where)
        key, kind, given = str(int(found[1])), found[2], screen.label_annotations
        where = f"{where}: label_annotations"
        text, answer = _read_shown(where, screen.displayed_text)
        question = questions.setdefault(int(key), {"answers": {}})
        _note(where, question, "text", text)
        if kind == "question":
            _note(where, person["views"], key, " ".join(check(_View, given, where).answer.text_box.split()))
        elif kind == "select":
            _note(where, person["choices"], key, *check(_Choice, given, where).selection)
        else:
            _note(where, question["answers"], SYSTEMS[kind], answer)
            (rating,) = check(_Rated, given, where).rating.values()
            _note(where, person["ratings"].setdefault(key, {}), SYSTEMS[kind], int(rating))
    if not any(person.values()):
        raise ValueError(f"{who}: no question, choice or rating in the file; fetch it again")
    return person


def _read_shown(where: str, shown: str) -> tuple[str, str]:
    """The question and the answer, "" for none, of what was shown: `Question: Q <br> <hr> LLM ...: <br> <br> A`."""
    head, mark, answer = shown.partition("LLM generated response:")
    found = re.match(r"(?:\[Question\]|Question:)(.*?)(?:<br>|<hr>|$)", head, flags=re.DOTALL)
    if not found or not found[1].strip():
        raise ValueError(f"{where}: displayed_text begins {shown[:40]!r}; expected `Question: ` and the question")
    text = "\n".join(map(str.strip, answer.split("<br>"))).strip()
    if mark and not text:
        raise ValueError(f"{where}: displayed_text shows an empty answer; fetch it again")
    return found[1].strip(), re.sub(r"\n{2,}", "\n\n", text)


def _note(where: str, notes: dict[str, Any], key: str, value: Any) -> None:
    if notes.setdefault(key, value) != value:
        raise ValueError(f"{where}: {key} differs from before; expected one text for all, and one answer a person")


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
