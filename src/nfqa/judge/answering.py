"""Answers of language models to debatable questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from nfqa.models.chat import Reply
from nfqa.models.roles import COMMITTED

if TYPE_CHECKING:
    from nfqa.judge.asking import Asker
    from nfqa.judge.prompts import PromptSet

LONGEST = 4096  # tokens: hardly an answer is longer. DebateQA names no limit
LONGEST_SMALL = 512  # of a packaged or committed model's answer: it is small, and may repeat a sentence without end


def answer_questions(
    questions: Mapping[str, str],
    generators: Mapping[str, Asker],
    prompts: PromptSet,
    *,
    prompt: str = "answer_basic",
    longest: int | None = None,
    seed: int = 0,
    **fields: Any,
) -> pd.DataFrame:
    """Every generator's answer to every question, each kept in the journal when it arrives.

    Args: questions: text by name; generators: by the system's name, greedy or not as each is
        opened; prompt: a template of `prompts`, by default one that gives no hint that a question
        is debatable; longest: tokens of an answer, by default LONGEST, or LONGEST_SMALL of a
        packaged or committed model; by a generator in process no more than its context has room
        for; fields: what else the template has a place for.
    Returns: system, question, text (None where no answer came), ended ("stop"; "length" where the
        answer was cut at its limit; else why there is none: "empty", "only_thinking", "refused"
        ...), made (model, prompt, decoding).
    Raises: StoppedError where more than a few requests fail for causes that pass; another run
        resumes there.
    Source: DebateQA, section 6.1. Differs from: it, in that the prompts are this project's.
    """
    frames = []
    for system, generator in generators.items():
        is_small = generator.spec.kind == "package" or generator.spec.identity in COMMITTED.values()
        most = longest or (LONGEST_SMALL if is_small else LONGEST)
        writer = generator.with_decoding(replace(generator.decoding, max_tokens=most))
        texts = [prompts.render(prompt, question=text, **fields) for text in questions.values()]
        replies = writer.reply(texts, seed=seed)
        ends = [(r.text, r.finish) if isinstance(r, Reply) else (None, r.reason) for r in replies]
        frame = pd.DataFrame(ends, columns=["text", "ended"], dtype=object)
        made = f"generator:{writer.identity}|prompt:{prompts.signature(prompt)}|{writer.signature}|seed:{seed}"
        frames.append(frame.assign(system=system, question=list(questions), made=made))
    return pd.concat(frames, ignore_index=True)[["system", "question", "text", "ended", "made"]]
