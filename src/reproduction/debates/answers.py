"""Answers with retrieved passages: plain retrieval, searches in steps as ReAct makes them, and who
writes the answer.

A passage is a chunk of a document that was found for a question, in the frame: question, document,
chunk, text, rank, and what other columns the chunks have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from reproduction.debates.search import find_nearest

if TYPE_CHECKING:
    from nfqa.judge.asking import Asker
    from nfqa.judge.prompts import PromptSet
    from nfqa.models.embed import Embedder

SIZE = 2000  # characters of a chunk: DebateQA, section D.1
TOP = 10  # chunks of plain retrieval: DebateQA, section D.1
MOST = 9  # chunks that ReAct collects: section 7
STEPS = 6  # of ReAct; the paper names no number
EACH = 3  # chunks of a search; the paper names no number
_STEP = re.compile(r"^\W*(?:(search)\b\W*(.*)|finish\b.*)$", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(r"^\W*thought\b\W*(.*)$", re.IGNORECASE | re.MULTILINE)
Search = Callable[[Sequence[str]], pd.DataFrame]  # queries -> passages, the queries in the column question


class Move(NamedTuple):
    """A step's decision: what to search for, or why the question is done with ("finished",
    "unreadable" ...).
    """

    query: str = ""
    ended: str = ""
    thought: str = ""


@dataclass
class Trail:
    """The decisions and the passages of a question so far, step by step."""

    question: str
    moves: list[Move] = field(default_factory=list)
    passages: list[pd.DataFrame] = field(default_factory=list)

    def describe(self) -> str:
        """The transcript, as a language model reads it."""
        lines: list[str] = []
        for move, new in zip(self.moves, self.passages, strict=True):
            lines += [f"Thought: {move.thought}", f"Search: {move.query}", *("Found: " + new.text)]
        return "\n".join(lines) or "Nothing was searched yet."


Decider = Callable[[Sequence[Trail]], list[Move]]


def halve_documents(documents: pd.DataFrame) -> pd.Series:
    """Which of two halves a document belongs to, 0 or 1, by a hash of its address: one page is in
    one half throughout.

    Answers from one half can be scored under points of view from the other without a document in
    common.
    """
    return documents.address.map(lambda address: hashlib.sha256(address.encode()).digest()[0] % 2)


def retrieve_passages(queries: Sequence[str], chunks: pd.DataFrame, embedder: Embedder, *, top: int) -> pd.DataFrame:
    """The `top` chunks nearest to each query by cosine, or all of them where there are fewer.

    Args: chunks: as `cut_documents` gives them.
    Returns: question (the query), the other columns of chunks, rank from 1 and score.
    Source: DebateQA, section D.1.
    """
    query_vectors = embedder.embed_queries(list(queries))
    vectors = embedder.embed_sentences(chunks.text.tolist())
    places, scores = find_nearest(query_vectors, vectors, top=min(top, len(chunks)))
    ranks = np.tile(np.arange(1, places.shape[1] + 1), len(queries))
    passages = chunks.iloc[places.ravel()].reset_index(drop=True)
    return passages.assign(question=np.repeat(list(queries), places.shape[1]), rank=ranks, score=scores.ravel())


def search_in_steps(
    questions: Sequence[str], search: Search, decide: Decider, *, most: int = MOST, each: int = EACH, steps: int = STEPS
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Passages collected by ReAct: decide, search, look at what was found, and again, until one of
    three ends.

    A step keeps the first `each` of a search's passages that the question doesn't have yet, so
    `search` should give `most` or more. A question ends when its decider says so, when it has
    `most` passages, or after `steps` steps. All questions take a step together, so that a language
    model is asked in batches. In DebateQA one model decides, and its passages are given to every
    model that answers.

    Returns: passages; and steps: question, step, thought, query, n_found (new passages), ended: ""
        for a step after which another follows, or "finished", "unreadable", "no_reply", "enough" or
        "steps".
    Source: Yao et al. 2023; DebateQA, section 7.
    """
    trails = [Trail(question) for question in dict.fromkeys(questions)]
    active = trails
    log = []
    for step in range(1, steps + 1):
        moves = decide(active) if active else []
        going_on = []
        queries = list(dict.fromkeys(move.query for move in moves if not move.ended))
        results = dict(list(search(queries).groupby("question", sort=False))) if queries else {}
        for trail, move in zip(active, moves, strict=True):
            ended = move.ended
            n_new = 0
            if not ended:
                seen = {key for part in trail.passages for key in zip(part.document, part.chunk, strict=True)}
                result = results[move.query].assign(question=trail.question)
                fresh = [key not in seen for key in zip(result.document, result.chunk, strict=True)]
                new = result[fresh].head(min(each, most - len(seen)))
                trail.moves.append(move)
                trail.passages.append(new)
                n_new = len(new)
                if len(seen) + n_new >= most:
                    ended = "enough"
                elif step == steps:
                    ended = "steps"
            log.append((trail.question, step, move.thought, move.query, n_new, ended))
            if not ended:
                going_on.append(trail)
        active = going_on
    parts = [part for trail in trails for part in trail.passages]
    passages = pd.concat(parts or [pd.DataFrame(columns=["question", "document", "text"])], ignore_index=True)
    passages = passages.assign(rank=passages.groupby("question").cumcount() + 1)
    return passages, pd.DataFrame(log, columns=["question", "step", "thought", "query", "n_found", "ended"])


def decide_by_model(generator: Asker, prompts: PromptSet, *, seed: int = 0) -> Decider:
    """A language model reads the transcript and says what to search for next; its replies are kept
    in the journal.

    The transcript is part of each prompt, so a killed run finds its steps again. A reply in no
    known form ends its question as "unreadable", none as "no_reply".
    """

    def render(trail: Trail) -> str:
        return prompts.render("react", question=trail.question, steps=trail.describe())

    return lambda trails: [read_move(reply) for reply in generator.write([*map(render, trails)], seed=seed)]


def read_move(reply: str | None) -> Move:
    """The first decision in a reply: `Search: QUERY` or `Finish`, with the thought before it.

    What follows a first decision was made up without a look at what it finds, and is not read.
    """
    if reply is None:
        return Move(ended="no_reply")
    step = _STEP.search(reply)
    thought = _THOUGHT.search(reply[: step.start()] if step else reply)
    words = thought[1].strip() if thought else ""
    if step is None or (step[1] and not step[2].strip()):
        return Move(ended="unreadable", thought=words)
    return Move(step[2].strip(), "", words) if step[1] else Move(ended="finished", thought=words)


def write_answers(passages: pd.DataFrame, generator: Asker, prompts: PromptSet, *, seed: int = 0) -> pd.DataFrame:
    """An answer to each question by a language model that is shown its passages, each with its
    source.

    Args: passages: with the column domain, what a source is called.
    Returns: question, text (None where no reply came), documents (those shown, "; " between them),
        n_passages.
    """
    groups = list(passages.groupby("question", sort=False))
    references = [(name, (part.domain + ": " + part.text).tolist()) for name, part in groups]
    requests = [prompts.render("answer_with_passages", question=name, references=texts) for name, texts in references]
    texts = generator.write(requests, seed=seed) if requests else []
    rows = [(name, "; ".join(part.document.unique()), len(part)) for name, part in groups]
    answers = pd.DataFrame(rows, columns=["question", "documents", "n_passages"])
    answers.insert(1, "text", texts)
    return answers
