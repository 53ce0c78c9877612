"""Reference lists that language models write when ground truth is short: one known answer (1GT) or
none (0GT).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import pandas as pd

from nfqa.files.records import Answer, Question, QuestionSet
from nfqa.metrics.references import Draw
from reproduction.studies.drawing import COMPOSITIONS, choose, draw_each, draw_list

if TYPE_CHECKING:
    from nfqa.judge.asking import Asker
    from nfqa.judge.prompts import PromptSet

Truth = Literal["one", "none"]
GRADES = COMPOSITIONS["r3210"]

# Brackets and stars that models put around a heading are passed over, but never without end: no input makes it slow.
_HEADING = re.compile(
    r"(?:(?<=\s)|^)[>*_#\[(\"-]{0,6}[ ]?[*_]{0,3}answer[ _#-]?\[?([1-9])\]?[*_\])\"]{0,6}"
    r"(?:[ ]?[:：][*_]{0,3}|[.)](?=\s)|[ ]?-(?=\s)|(?=[ ]?(?:\n|$)))",
    re.IGNORECASE,
)


def write_references(
    sets: Iterable[QuestionSet],
    *,
    truth: Truth,
    seeds: Iterable[int],
    generators: Sequence[Asker],
    prompts: PromptSet,
    longest: int = 2_048,
) -> pd.DataFrame:
    """Reference lists that language models write, of every question under every seed, as
    `write_lists` gives them.

    Args: truth: "one" known answer, or "none"; longest: tokens of a reply, whatever the generators'
        decoding says; 2,048 hold three answers of a paragraph or two each, in any tokenizer.
    Returns: one row per draw: dataset, seed, question, draw, references ("written"), signature,
        which names generators, prompts and decoding. Without a generator there are only the
        candidates: a draw has no references, and the column is "".
    Raises: ValueError for an unknown `truth`.
    """
    if truth not in get_args(Truth):
        raise ValueError(f"truth is {truth!r}; expected 'one' (1GT) or 'none' (0GT)")
    writers = [asker.with_decoding(replace(asker.decoding, max_tokens=longest)) for asker in generators]

    def draw_all(dataset: QuestionSet, seed: int) -> list[Draw]:
        return write_lists(dataset.questions, writers, prompts, truth=truth, seed=seed)

    draws = draw_each(sets, seeds, draw_all)
    if not writers:
        return draws.assign(references="", signature="list:none")
    names = "+".join(asker.spec.identity for asker in generators)
    first, lower = map(prompts.signature, ("write_best" if truth == "one" else "write_answer", "write_lower"))
    signature = f"list:written|generators:{names}|prompts:{first},{lower}|{writers[0].signature}"
    return draws.assign(references="written", signature=signature)


def write_lists(
    questions: Sequence[Question], generators: Sequence[Asker], prompts: PromptSet, *, truth: Truth, seed: int
) -> list[Draw]:
    """Lists written by language models, one a question.

    The first generator writes the best answer: from a known answer, which leaves the candidates
    (`truth` "one"), or from the question alone, when no label is read ("none"). Each of the others
    writes three lower ones from it, or the first where it is the only one; for each lower grade one
    writer's answer is drawn by seed from those whose completion could be read. A completion that
    was cut at its limit is none: its last answer isn't whole. A question without a best answer, or
    for which no completion could be read, is dropped with "no_generated_list". Without a generator
    no draw has references.
    Source: LINKAGE, sections 3.3.2, 3.3.3 and 4.4: GPT-4 writes the best answer, three other models
        the lower ones.
    Differs from: it, in the number of solved examples where the prompts are the released ones,
        which hold one; `own` holds three, as the paper does. The prompt for the best answer is this
        project's in both. The paper doesn't say how many answers of each grade a list has; here it
        is one of each (3, 2, 1, 0).
    """
    draws = [_draw_truth(one, seed) if truth == "one" else Draw(one, (), one.answers) for one in questions]
    if not generators:
        return [replace(draw, references=()) for draw in draws]
    whole = [draw for draw in draws if not draw.dropped]
    requests = [
        prompts.render("write_best", question=draw.question.text, truth=draw.best.text) if truth == "one"
        else prompts.render("write_answer", question=draw.question.text)
        for draw in whole
    ]  # fmt: skip
    replies = generators[0].write(requests, seed=seed, whole=True)
    best = [(draw, text) for draw, text in zip(whole, replies, strict=True) if text]
    lower = [prompts.render("write_lower", question=draw.question.text, best=text) for draw, text in best]
    completions = [writer.write(lower, seed=seed, whole=True) for writer in generators[1:] or generators]
    lists = {}
    for (draw, first), *texts in zip(best, *completions, strict=True):
        answers = [each for text in texts if (each := split_answers(text or "", len(GRADES) - 1))]
        if answers:
            names = [f"{seed}|{draw.question.key}|{grade}" for grade in GRADES[1:]]
            rest = [answers[choose(name, len(answers))][place] for place, name in enumerate(names)]
            references = dict(zip(GRADES, [first.strip(), *rest], strict=True))
            lists[draw.question.key] = _use_references(draw, references)
    return [
        lists.get(draw.question.key)
        or replace(draw, references=(), candidates=(), dropped=draw.dropped or "no_generated_list")
        for draw in draws
    ]


def split_answers(text: str, count: int) -> list[str] | None:
    """The answers of a completion such as "Answer1: … Answer2: …", or None when it doesn't hold
    `count` of them.

    Headings may stand on one line or their own, be bold, bracketed or numbered with a blank, and
    end in a colon, a full stop, a bracket, a dash or the line. The first run from 1 to `count` in
    order is taken, up to the heading after it; an empty answer makes it unreadable.
    """
    _, *pieces = _HEADING.split(text)  # a number and the text after its heading, by turns
    numbers = pieces[::2]
    parts = [piece.strip().strip("*").strip() for piece in pieces[1::2]]
    order = [str(number) for number in range(1, count + 1)]
    runs = (parts[i : i + count] for i in range(len(numbers)) if numbers[i : i + count] == order)
    answers = next(runs, [""])
    return answers if all(answers) else None


def _draw_truth(question: Question, seed: int) -> Draw:
    return draw_list(question, (max((answer.label for answer in question.answers), default=0),), seed=seed)


def _use_references(draw: Draw, texts: Mapping[int, str]) -> Draw:
    """The draw with written references by their grades; candidates with exactly their texts leave."""
    references = tuple(Answer(f"written:{grade}", text, grade) for grade, text in texts.items())
    candidates = tuple(one for one in draw.candidates if one.text not in texts.values())
    return replace(draw, references=references, candidates=candidates)
