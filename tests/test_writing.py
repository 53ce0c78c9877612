"""Points of view that a language model writes: read strictly, anchored in documents, each exclusion with its reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import PROJECT
from notebook_cells import open_asker
from tiny_models import LetterEmbedder

from nfqa.models.chat import Request
from reproduction.debates.write import read_points, write_parts
from reproduction.judging import read_prompt_set

PROMPTS = read_prompt_set(PROJECT, "own")
EMBEDDER: Any = LetterEmbedder()
FOUND = pd.DataFrame({
    "id": "q", "question": "aaaa?", "document": ["d1", "d2", "d3"],
    "text": ["aa aa aa aa ab ab.", "bb bb bb bb bb bc.", "zz zz zz zz zz zz."],
})  # fmt: skip


def point(text: str, *documents: int) -> dict[str, object]:
    return {"point_of_view": text, "documents": list(documents)}


def test_a_reply_is_read_strictly_and_what_it_loses_has_a_reason() -> None:
    reply = json.dumps([point("A  b.", 1, 1, 2), point("a b.", 1), point("C.", 0), point("D.", 4), point("E.", 3)])
    for text in (reply, f"Here [1] they are:\n\n```json\n{reply}\n```\nAny more?"):
        points, refused = read_points(text, 3)
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
    points, refused = read_points(reply, 3)
    assert (points, [(place, why) for place, why, _ in refused]) == ([], [(0, reason)])


def test_written_sentences_keep_their_document_and_what_is_not_anchored_goes(tmp_path: Path) -> None:
    def rule(request: Request) -> str:
        if "JSON list" in request.prompt:
            return json.dumps([point("aa ab.", 1), point("bb bc.", 2, 1), point("zz.", 3)])
        view = re.findall(r"<point_of_view>\n(.*)\n</point_of_view>", request.prompt)[0]
        return {  # anchored; two of three anchored; none
            "aa ab.": "Aa aa ab. Aa ab ab.",
            "bb bc.": "Bb bb bc. Aa aa ab. Qq qq qq.",
            "zz.": "Qq qq qq. Ww ww ww.",
        }[view]

    parts, dropped = write_parts(FOUND, open_asker(tmp_path, rule), PROMPTS, EMBEDDER)
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
