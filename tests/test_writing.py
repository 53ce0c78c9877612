"""Points of view that a language model writes: read strictly, anchored in documents, each exclusion with its reason."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT
from notebook_cells import use_rule
from tiny_models import LetterEmbedder

from nfqa.models.chat import Request
from nfqa.opening import Asking
from reproduction.debates import write
from reproduction.debates.checking import check_views
from reproduction.debates.write import choose_points, list_points, write_parts, write_queries
from reproduction.judging import open_generators, open_judges, read_prompt_set
from reproduction.making import make_debates
from reproduction.options import RunOptions

PROMPTS = read_prompt_set(PROJECT, "own")
SAMPLE = PROJECT / "data" / "sample"


EMBEDDER: Any = LetterEmbedder()
FOUND = pd.DataFrame({
    "id": "q", "question": "aaaa?", "document": ["d1", "d2", "d3"],
    "text": ["aa aa aa aa ab ab.", "bb bb bb bb bb bc.", "zz zz zz zz zz zz."],
})  # fmt: skip


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[Request], str]], Any]:
    """A generator that answers by a rule."""
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))

    def open_(rule: Callable[[Request], str]) -> Any:
        use_rule(monkeypatch, rule)
        return open_generators(PROJECT, "openai:writer", Asking(prompts="own", decoding="greedy"))["writer"]

    return open_


def point(text: str, *documents: int) -> dict[str, object]:
    return {"point_of_view": text, "documents": list(documents)}


def make_root(folder: Path) -> None:
    """A checkout to run in, with this one's files and cache."""
    (folder / "build").mkdir()
    for name in ("data", "prompts", "papers", "notebooks", "build/cache"):
        (folder / name).symlink_to(PROJECT / name)


def test_documents_are_cut_to_equal_shares_only_where_they_do_not_fit_together(model, monkeypatch):
    prompts = []
    writer = model(lambda request: prompts.append(request.prompt) or "[]")
    long = pd.DataFrame({"id": ["p", "p", "q", "q"], "question": ["pp?", "pp?", "qq?", "qq?"]})
    long = long.assign(document=["d1", "d2"] * 2, text=["1" * 90, "2" * 10, "3" * 90, "4" * 11])
    monkeypatch.setattr(write, "ROOM", 100)
    list_points(long, writer, PROMPTS)
    longest = [max(len(part) for part in re.findall(f"{n}+", " ".join(prompts))) for n in (1, 2, 3, 4)]
    assert longest == [90, 10, 50, 11]


def test_a_reply_is_read_strictly_and_what_it_loses_has_a_reason() -> None:
    reply = json.dumps([point("A  b.", 1, 1, 2), point("a b.", 1), point("C.", 0), point("D.", 4), point("E.", 3)])
    for text in (reply, f"Here [1] they are:\n\n```json\n{reply}\n```\nAny more?"):
        points, refused = choose_points(text, 3)
        assert points == [(1, "A b.", (1, 2)), (5, "E.", (3,))]
        assert [(place, why) for place, why, _ in refused] == [
            (2, "repeats a point of view"),
            (3, "names a document that isn't there"),
            (4, "names a document that isn't there"),
        ]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (None, "no reply"),
        ("[]", "no points of view"),
        ("Sure: []", "unreadable reply"),
        ("[" * 9999, "unreadable reply"),
        (json.dumps([{"point_of_view": "x"}]), "unreadable reply"),
        (f"{json.dumps([point('A.', 1)])} or {json.dumps([point('B.', 1)])}", "unreadable reply"),
    ],
)
def test_a_reply_without_points_of_view_has_a_reason(reply: str | None, reason: str) -> None:
    points, refused = choose_points(reply, 3)
    assert (points, [(place, why) for place, why, _ in refused]) == ([], [(0, reason)])


def test_written_sentences_keep_their_document_and_what_is_not_anchored_goes(model: Any) -> None:
    def rule(request: Request) -> str:
        if "JSON list" in request.prompt:
            return json.dumps([point("aa ab.", 1), point("bb bc.", 2, 1), point("zz.", 3)])
        view = re.findall(r"<point_of_view>\n(.*)\n</point_of_view>", request.prompt)[0]
        return {  # anchored; two of three anchored; none
            "aa ab.": "Aa aa ab. Aa ab ab.",
            "bb bc.": "Bb bb bc. Aa aa ab. Qq qq qq.",
            "zz.": "Qq qq qq. Ww ww ww.",
        }[view]

    parts, dropped = write_parts(FOUND, model(rule), PROMPTS, EMBEDDER)
    assert parts[["view", "part", "document", "text"]].to_numpy().tolist() == [
        ["q.1", "point_of_view", "d1", "aa ab."],
        ["q.1", "explanation", "d1", "Aa aa ab."],
        ["q.1", "explanation", "d1", "Aa ab ab."],
        ["q.2", "point_of_view", "d2", "bb bc."],
        ["q.2", "explanation", "d2", "Bb bb bc."],
        ["q.2", "explanation", "d1", "Aa aa ab."],
    ]
    assert parts.cosine.between(0.5, 1.0001).all()
    assert dropped[["unit", "item", "reason"]].to_numpy().tolist() == [
        ["sentence", "q.2: Qq qq qq.", "no source near"],
        ["point of view", "q.3", "explanation not anchored"],
    ]


def test_queries_are_one_a_line_with_the_question_first(model: Any) -> None:
    questions = pd.DataFrame({"id": ["a", "b"], "question": ["Is x y?", "Is z?"]})
    queries, dropped = write_queries(
        questions, model(lambda r: "\n" if "Is z?" in r.prompt else "x y for\n\nx y against\nIs x y?"), PROMPTS
    )
    assert queries[queries.id == "a"]["query"].tolist() == ["Is x y?", "x y for", "x y against"]
    assert queries[queries.id == "b"]["query"].tolist()[0] == "Is z?"
    assert dropped[["item", "reason"]].to_numpy().tolist() == [["b", "no query came"]]


def test_the_judge_removes_what_it_rejects_and_what_it_says_nothing_readable_of(model: Any, tmp_path: Path) -> None:
    model(
        lambda request: {"a": "[[1]]", "b": "[[0]]"}.get(re.findall(r"<point_of_view>\n(.)", request.prompt)[0], "Hm.")
    )
    judge = open_judges(PROJECT, "openai:judge", Asking(prompts="own", decoding="greedy"))["judge"]
    views = pd.DataFrame({
        "id": "q", "question": "?a", "view": ["q.1", "q.2", "q.3"], "point_of_view": ["aa", "bb", "cc"],
        "explanation": ["qq.", "bb.", "cc."],
    })  # fmt: skip
    left, dropped = check_views(views, EMBEDDER, judge=judge)
    assert left["view"].tolist() == ["q.1"]
    assert dropped[["reason", "detail"]].to_numpy().tolist() == [
        ["rejected by the judge", "verdict 0; 1 accepts"],
        ["no verdict (unreadable)", "no 0 or 1 could be read from the judge's reply"],
    ]


@pytest.mark.slow
def test_a_run_with_a_generator_writes_explains_and_names_its_sources(model: Any, tmp_path: Path) -> None:
    def rule(request: Request) -> str:
        if "Check one point of view" in request.prompt:
            return "[[0]]" if "zoos" in request.prompt else "[[1]]"
        texts = re.findall(r'<document number="\d">\n(.*?)\n</document>', request.prompt, re.DOTALL)
        first = [text.split(". ")[0] + "." for text in texts]
        if "JSON list" in request.prompt:
            return json.dumps([point(text, n) for n, text in enumerate(first, start=1)])
        if "search engine" in request.prompt:
            return "one query"
        return " ".join(texts)

    model(rule)
    make_root(tmp_path)
    files = SAMPLE / "debate_questions.jsonl", SAMPLE / "debate_documents"
    assert make_debates(tmp_path, RunOptions(roles={"generator": "openai:writer"}), *files) == 0
    (folder,) = (tmp_path / "build" / "debates").iterdir()
    anchors = pd.read_csv(folder / "anchors.csv")
    assert anchors.cosine.max() > 0.99
    made = [json.loads(line) for line in (folder / "debates.jsonl").read_text().splitlines()]
    assert len(made) >= 8
    assert np.mean([len(line["partial_answers"]) for line in made]) >= 3

    assert (
        make_debates(tmp_path, RunOptions(roles={"generator": "openai:writer", "judge": "openai:judge"}), *files) == 0
    )
    (judged,) = (each for each in (tmp_path / "build" / "debates").iterdir() if each != folder)
    removed = pd.read_csv(judged / "removed.csv")
    assert removed[removed.reason == "no point of view left"]["item"].tolist() == ["zoos"]


@pytest.mark.slow
def test_another_prompt_makes_the_points_of_view_again(model: Any, tmp_path: Path) -> None:
    requests: list[str] = []
    model(lambda request: requests.append(request.prompt) or "[]")  # type: ignore[func-returns-value]
    make_root(tmp_path)
    (tmp_path / "prompts").unlink()
    shutil.copytree(PROJECT / "prompts", tmp_path / "prompts")
    files = SAMPLE / "debate_questions.jsonl", SAMPLE / "debate_documents"
    for words, n_asked in (("", 2), ("", 0), ("Be brief.", 1)):  # of the zoos: queries and points of view
        requests.clear()
        template = tmp_path / "prompts" / "own" / "extract_views.txt"
        template.write_text(f"{words}\n{template.read_text()}")
        with pytest.raises(ValueError, match="no question"):
            make_debates(tmp_path, RunOptions(roles={"generator": "openai:writer"}), *files)
        assert len([prompt for prompt in requests if "zoos be closed" in prompt]) == n_asked
