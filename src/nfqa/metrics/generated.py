"""Reference lists when ground truth is short: one known answer (1GT) or none (0GT).

Each comes in two forms. Without a language model, the known answer is degraded by rule (1GT), or references are
retrieved from the question's own candidates (0GT). With language models they are written, as in the paper.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from nfqa.data.records import Answer, Question
from nfqa.metrics.degrade import Level, degrade
from nfqa.metrics.references import Draw, draw_list
from nfqa.models.embed import Embedder

Truth = Literal["one", "none"]
GRADES = (3, 2, 1, 0)
Write = Callable[[list[str]], list[str | None]]  # prompts in, completions out, None for a missing one
# A prompt by name: "write_best" (question, truth), "write_lower" (question, best) or "write_answer" (question).
Render = Callable[..., str]

# Brackets and stars that models put around a heading are passed over, but never without end: no input makes it slow.
_HEADING = re.compile(
    r"(?:(?<=\s)|^)[>*_#\[(\"-]{0,6}[ ]?[*_]{0,3}answer[ _#-]?\[?([1-9])\]?[*_\])\"]{0,6}"
    r"(?:[ ]?[:：][*_]{0,3}|[.)](?=\s)|[ ]?-(?=\s)|(?=[ ]?(?:\n|$)))",
    re.IGNORECASE,
)


def make_one_truth_list(question: Question, *, seed: int, pool: Sequence[str] = ()) -> Draw:
    """One answer of the highest grade present, drawn by seed, and its degradations at levels 1, 2, 3.

    They stand in for grades 3, 2, 1, 0, whatever the truth's own grade. It is the answer that `draw_list` of
    equal seed takes first of that grade. It leaves the candidates, with exact copies of any reference.

    Args: pool: texts that answer other questions, for misleading statements and foreign nouns.
    Returns: the draw; dropped with "no_reference" for a question without answers.
    Source: LINKAGE, sections 3.3.2 and 4.2.2. Differs from: it, in that rules and not models write the lower grades,
        and that the known answer stays as it is, since no difference of style between people and models is to hide.
    """
    draw, truth = _draw_truth(question, seed)
    if truth is None:
        return draw
    levels: tuple[Level, ...] = get_args(Level)
    worse = [degrade(truth.text, question=question.text, level=level, seed=seed, pool=pool) for level in levels]
    return _replace_references(draw, [truth.text, *(made.text for made in worse)], truth.id)


def make_no_truth_list(question: Question, embedder: Embedder, *, seed: int, pool: Sequence[str] = ()) -> Draw:
    """References retrieved from the question's own candidates by cosine to the question; no label is read.

    Grade 3 is the nearest of the n distinct texts, grades 2 and 1 those one third and two thirds down the order
    (places n // 3 and 2n // 3 from 0), grade 0 a text of `pool`, which answers another question, chosen by seed.
    Two texts give grades 3 and 1, one gives 3; without a pool there is no grade 0. The retrieved leave the candidates.

    Chosen on the development half of ANTIQUE, from eleven rules: by similarity to the question, to the other
    candidates or both; evenly spaced down to the farthest or with one to three texts of other questions. They hardly
    differ: trained, all had a Spearman of 0.395 to 0.411 on equal candidates. This one was first there (0.411) and
    among the best by rank, and its grades fall among people too: 2.37, 2.14 and 1.74 on average.

    Returns: the draw; dropped with "no_reference" for a question without answers.
    Source: stands in for LINKAGE, section 3.3.3. Differs from: it, in that nothing is generated, and that the
        candidates lose what is taken as a reference.
    """
    texts = sorted({answer.text for answer in question.answers})
    if not texts:
        return Draw(question, (), (), "no_reference")
    vectors = embedder.embed_sentences([question.text, *texts]).astype(np.float64)
    similar = np.round(vectors[1:] @ vectors[0], 12)
    order = sorted(range(len(texts)), key=lambda i: (-similar[i], texts[i]))
    count = len(order)
    grades = {2 * count // 3: 1, count // 3: 2, 0: 3}  # of equal places the better grade stays
    references = [Answer(f"retrieved:{grade}", texts[order[place]], grade) for place, grade in reversed(grades.items())]
    if pool:
        other = pool[_choose(f"{seed}|{question.key}|pool", len(pool))]
        references.append(Answer("retrieved:0", other, 0))
    return _drop_copies(Draw(question, tuple(references), question.answers))


def write_one_truth_lists(
    questions: Sequence[Question], generators: Sequence[Write], render: Render, *, seed: int
) -> list[Draw]:
    """Lists written by language models from one known answer a question.

    The first generator writes a new best answer from the truth, each generator three lower ones from the new best;
    for each lower grade one generator's answer is drawn by seed from those whose completion could be read. A
    question without a best answer, or for which no completion could be read, is dropped with "no_generated_list".
    The truth leaves the candidates.
    Raises: ValueError for no generators, or one that returns another number of completions than prompts.
    Source: LINKAGE, section 3.3.2.
    """
    drawn = [_draw_truth(question, seed) for question in questions]
    prompts = {
        i: render("write_best", question=draw.question.text, truth=truth.text)
        for i, (draw, truth) in enumerate(drawn)
        if truth is not None
    }
    return _write_lists([draw for draw, _ in drawn], prompts, generators, render, seed)


def write_no_truth_lists(
    questions: Sequence[Question], generators: Sequence[Write], render: Render, *, seed: int
) -> list[Draw]:
    """The same without a known answer: the first generator answers the question directly. No label is read.

    Raises: as `write_one_truth_lists`. Source: LINKAGE, section 3.3.3.
    """
    draws = [Draw(question, (), question.answers) for question in questions]
    prompts = {i: render("write_answer", question=question.text) for i, question in enumerate(questions)}
    return _write_lists(draws, prompts, generators, render, seed)


def split_answers(text: str, count: int) -> list[str] | None:
    """The answers of a completion such as "Answer1: … Answer2: …", or None when it doesn't hold `count` of them.

    Headings may stand on one line or their own, be bold, bracketed or numbered with a blank, and end in a colon, a
    full stop, a bracket, a dash or the line. The first run from 1 to `count` in order is taken, up to the heading
    after it; an empty answer makes it unreadable.
    """
    found = list(_HEADING.finditer(text))
    numbers = [int(mark[1]) for mark in found]
    for start in range(len(found) - count + 1):
        if numbers[start : start + count] == list(range(1, count + 1)):
            ends = [mark.start() for mark in found[start + 1 :]] + [len(text)]
            parts = [
                text[mark.end() : end].strip().strip("*").strip()
                for mark, end in zip(found[start : start + count], ends, strict=False)
            ]
            return parts if all(parts) else None
    return None


def _draw_truth(question: Question, seed: int) -> tuple[Draw, Answer | None]:
    highest = max(question.labels, default=0)
    draw = draw_list(question, (highest,), seed=seed)
    return draw, draw.best if draw.dropped is None else None


def _replace_references(draw: Draw, texts: Sequence[str], source: str) -> Draw:
    references = tuple(
        Answer(f"{source}:{grade}", text, grade) for text, grade in zip(texts, GRADES, strict=True)
    )  # fmt: skip
    return _drop_copies(replace(draw, references=references))


def _drop_copies(draw: Draw) -> Draw:
    texts = {answer.text for answer in draw.references}
    return replace(draw, candidates=tuple(a for a in draw.candidates if a.text not in texts))


def _write_lists(
    draws: Sequence[Draw], prompts: dict[int, str], generators: Sequence[Write], render: Render, seed: int
) -> list[Draw]:
    """Complete each draw that has a prompt for its best answer."""
    if not generators:
        raise ValueError("no generator is given; name one to three language models for the generator role")
    best = {i: text for i, text in _ask(generators[0], prompts).items() if text is not None and text.strip()}
    lower = {i: render("write_lower", question=draws[i].question.text, best=text) for i, text in best.items()}
    written: dict[int, list[list[str]]] = {i: [] for i in best}
    for write in generators:
        for i, completion in _ask(write, lower).items():
            answers = split_answers(completion or "", len(GRADES) - 1)
            if answers:
                written[i].append(answers)
    made = []
    for i, draw in enumerate(draws):
        if not written.get(i):
            made.append(
                draw if draw.dropped else replace(draw, references=(), candidates=(), dropped="no_generated_list")
            )
            continue
        key = f"{seed}|{draw.question.key}"
        chosen = [
            written[i][_choose(f"{key}|{grade}", len(written[i]))][place] for place, grade in enumerate(GRADES[1:])
        ]
        made.append(_replace_references(draw, [best[i].strip(), *chosen], "written"))
    return made


def _ask(write: Write, prompts: dict[int, str]) -> dict[int, str | None]:
    completions = write(list(prompts.values()))
    if len(completions) != len(prompts):
        raise ValueError(f"a generator returned {len(completions)} completions for {len(prompts)} prompts")
    return dict(zip(prompts, completions, strict=True))


def _choose(key: str, count: int) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % count
