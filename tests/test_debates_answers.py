"""Retrieval-augmented answers: what is found in which order, how ReAct's steps end, and what a model is shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from notebook_cells import open_asker
from test_prompts import use_own
from tiny_models import LetterEmbedder

from nfqa.models.chat import Request
from reproduction.debates.answers import (
    Move,
    Trail,
    decide_by_model,
    halve_documents,
    read_move,
    retrieve_passages,
    search_in_steps,
    write_answers,
)

EMBEDDER: Any = LetterEmbedder()
CHUNKS = pd.DataFrame({
    "document": ["d1", "d1", "d2", "d3"], "chunk": [1, 2, 1, 1], "domain": ["a.org", "a.org", "b.com", "c.edu"],
    "text": ["aaaa b", "aab b", "bbb a", "cccc"],
})  # fmt: skip


def search(queries: Sequence[str]) -> pd.DataFrame:
    return retrieve_passages(queries, CHUNKS, EMBEDDER, top=4)


def test_a_page_is_in_one_half_whatever_the_question() -> None:
    addresses = [f"https://site{number}.org/" for number in range(400)]
    halves = halve_documents(pd.DataFrame({"address": addresses + addresses[::-1]}))
    assert set(halves) == {0, 1}
    assert (halves.to_numpy()[:400] == halves.to_numpy()[400:][::-1]).all()
    assert abs(halves.mean() - 0.5) < 0.1


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        ("Thought: one side is missing\nSearch: the other side", Move("the other side", "", "one side is missing")),
        ("Thought: enough\nFinish", Move("", "finished", "enough")),
        ("Thought: a\nSearch: b\nFound: made up\nSearch: c\nFinish", Move("b", "", "a")),
        ("FINISH.", Move("", "finished")),
        ("Search:", Move("", "unreadable")),
        ("I research bees.", Move("", "unreadable")),
        (None, Move("", "no_reply")),
    ],
)
def test_the_first_decision_of_a_reply_counts(reply: str | None, move: Move) -> None:
    assert read_move(reply) == move


def test_steps_end_for_each_reason_and_a_passage_is_kept_once() -> None:
    plans = {
        "aaa": [Move("aaa", thought="t"), Move("aaa"), Move("bbb")],  # the same search again finds what is next
        "bbb": [Move("bbb"), Move(ended="finished")],
        "ccc": [Move(ended="unreadable")],
        "ab": [Move("ab"), Move("ba"), Move("ab")],
    }

    def decide(trails: Sequence[Trail]) -> list[Move]:
        return [plans[trail.question][len(trail.moves)] for trail in trails]

    passages, log = search_in_steps(list(plans), search, decide, most=3, each=1, steps=3)
    assert log.groupby("question", sort=False).ended.agg(list).to_dict() == {
        "aaa": ["", "", "enough"], "bbb": ["", "finished"], "ccc": ["unreadable"], "ab": ["", "", "enough"],
    }  # fmt: skip
    assert passages.groupby("question", sort=False).size().to_dict() == {"aaa": 3, "bbb": 1, "ab": 3}
    assert not passages.duplicated(["question", "document", "chunk"]).any()
    assert passages[passages.question == "aaa"]["rank"].tolist() == [1, 2, 3]
    assert log.n_found.sum() == len(passages)
    capped = search_in_steps(["ab"], search, decide, most=9, each=1, steps=2)[1]
    assert capped.ended.tolist() == ["", "steps"]
    assert search_in_steps(["ccc"], search, decide)[0].empty


def test_a_model_sees_the_transcript_and_a_second_run_asks_nothing(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        prompt = request.prompt
        if "Search: aaa" in prompt:
            return "Thought: enough\nFinish" if "aaaa b" in prompt else "lost"
        return "Thought: begin\nSearch: aaa" if "<question>\naab" in prompt else "nothing in particular"

    asker = open_asker(tmp_path, answer)
    passages, log = search_in_steps(["aab", "x"], search, decide_by_model(asker, use_own()), each=2)
    assert log[["question", "step", "thought", "ended"]].to_numpy().tolist() == [
        ["aab", 1, "begin", ""], ["x", 1, "", "unreadable"], ["aab", 2, "enough", "finished"],
    ]  # fmt: skip
    assert passages.document.tolist() == ["d1", "d1"]
    again = open_asker(tmp_path, lambda _: pytest.fail("asked again"))
    result = search_in_steps(["aab", "x"], search, decide_by_model(again, use_own()), each=2)
    pd.testing.assert_frame_equal(result[1], log)
    assert again.tally.requests == 0


def test_answers_are_written_from_the_passages_and_their_sources(tmp_path: Path) -> None:
    seen = []

    def answer(request: Request) -> str:
        seen.append(request.prompt)
        return "" if "cccc" in request.prompt and "aaaa" not in request.prompt else "It depends."

    passages = pd.concat([search(["aaa"]), search(["ccc"]).iloc[:1]])
    written = write_answers(passages, open_asker(tmp_path, answer), use_own())
    assert written.question.tolist() == ["aaa", "ccc"]
    assert written.text.isna().tolist() == [False, True]
    assert written.n_passages.tolist() == [4, 1]
    assert written.documents[0].startswith("d1; ")
    assert "a.org: aaaa b" in seen[0]
    assert '<document number="1">' in seen[0]
    assert write_answers(passages[:0], open_asker(tmp_path, answer), use_own()).empty
