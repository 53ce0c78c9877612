"""Plain English: turns that a reader stumbles over stand in no text that a person reads (STYLE, "Words")."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PROJECT

BANNED = {
    r"\b(can't|cannot|can not|could not) be told\b|\btold apart\b|\btells? (\w+ ){0,3}apart\b": "differs significantly",
    r"\bstand-ins?\b|\bstands? in for\b": "proxy",
    r"\bundecided\b": "inconclusive",
    r"\bno numbers in our\b": "table not available to us",
    r"\bnot testable\b": "not tested",
    r"\bours\b": "this project's, measured here",
    r"\bour bar\b": "criterion",
    r"\b(leaves?|leaving|left) out\b": "exclude",
    r"\b(as above|likewise)\b": "the thing itself",
    r"\bin other (people's )?words\b": "paraphrased",
    r"\bplac(e|es|ed|ing) (\w+ ){0,3}above\b": "rank above",
    r"\bb(ears?|ore) out\b": "support",
    r"\bhow far (an answer|answers|scores|a judge)\b": "how fully, how well",
    r"\bgoes on\b": "resumes, continues",
    r"\b(could not|couldn't|can't|cannot) be had\b": "is unavailable, failed",
    r"\ba (row|line|file) an? \w+": "one row per …",
    r"\bthe rest goes\b": "other options require it",
    r"\bnobody leads\b": "no system leads",
    r"\bwhat is resampled\b": "the resampling unit",
    r"\bverdicts wanted\b": "verdicts needed",
    r"\bsees topic\b": "measures topical similarity",
}
EXCEPTIONS = {  # whole constants that are identifiers: of values, columns or a register's format
    "stand-in": "an origin in results/*.csv",
    "ours": "a column of a frame for a figure",
}
TURNS = {re.compile(turn, re.IGNORECASE): words for turn, words in BANNED.items()}
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)  # names and commands aren't prose
SOURCES, DOCS = sorted((PROJECT / "src").rglob("*.py")), sorted((PROJECT / "docs").glob("*.md"))
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*/*.ipynb"))
PAPERS = [*sorted((PROJECT / "papers").glob("*.yml")), PROJECT / "papers" / "linkage.csv"]
QUERY = re.compile(r"^.*\b(rows|upper|lower): .*$|: stand-in\b", re.MULTILINE)  # rows of results, by their values
FILES = [*SOURCES, *DOCS, *NOTEBOOKS, *PAPERS, *(PROJECT / name for name in ("README.md", "CHANGELOG.md", "Makefile"))]


def list_texts(path: Path) -> Iterator[tuple[str, str]]:
    """What a person reads of a file, with its place: prose, or the strings of code, docstrings among them."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in EXCEPTIONS:
                yield f"line {node.lineno}", node.value.replace('"stand-in"', "")  # an origin, quoted
    elif path.suffix == ".ipynb":
        for place, cell in enumerate(json.loads(text)["cells"], start=1):
            if cell["cell_type"] == "markdown":
                yield f"cell {place}", CODE.sub("", "".join(cell["source"]))
    else:
        yield "", (CODE if path.suffix == ".md" else QUERY).sub("", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_words_are_plain(path: Path) -> None:
    assert [turn for place, text in list_texts(path) for turn in list_turns(place, text)] == []


def list_turns(place: str, text: str) -> Iterator[str]:
    """Each banned turn of a text, with its place and what to write instead."""
    words = " ".join(text.split())
    for turn, better in TURNS.items():
        for match in turn.finditer(words):
            yield f"{place}: {words[max(0, match.start() - 30) : match.end() + 30]!r}; write: {better}"


@pytest.mark.parametrize("text", ["They can't be\ntold apart.", "Ours is better.", "a row an answer", "A stand-in."])
def test_a_banned_turn_is_found_across_lines(text: str) -> None:
    assert [*list_turns("here", text)]
