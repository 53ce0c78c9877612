"""Reference lists when ground truth is short: one known answer (1GT) or none (0GT).

Each comes in two forms. Without a language model, the known answer is degraded by rule (1GT), or references are
retrieved from the question's own candidates (0GT). With language models they are written, as in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pandas as pd

from nfqa.files.records import Answer, Question, QuestionSet
from nfqa.metrics.references import Draw, hash_name
from reproduction.studies.degrade import degrade
from reproduction.studies.drawing import COMPOSITIONS, choose, draw_each, draw_list

if TYPE_CHECKING:
    from nfqa.judge.asking import Asker
    from nfqa.judge.prompts import PromptSet
    from nfqa.models.embed import Embedder

Truth = Literal["one", "none"]
GRADES = COMPOSITIONS["r3210"]
LONGEST = 2_048  # tokens of a reply: three answers of a paragraph or two each, in any tokenizer

# Brackets and stars that models put around a heading are passed over, but never without end: no input makes it slow.
_HEADING = re.compile(
    r"(?:(?<=\s)|^)[>*_#\[(\"-]{0,6}[ ]?[*_]{0,3}answer[ _#-]?\[?([1-9])\]?[*_\])\"]{0,6}"
    r"(?:[ ]?[:：][*_]{0,3}|[.)](?=\s)|[ ]?-(?=\s)|(?=[ ]?(?:\n|$)))",
    re.IGNORECASE,
)


def draw_stand_ins(
    sets: Iterable[QuestionSet], *, truth: Truth, seeds: Iterable[int], embedder: Embedder
) -> pd.DataFrame:
    """Reference lists without graded answers, made by rule, of every question under every seed.

    Args: truth: "one", `make_one_truth_list`, or "none", `make_no_truth_list`. Texts that answer other questions are
        one answer of each question of the dataset, chosen by a hash and never by its grade.
    Returns: one row per draw: dataset, seed, question, draw, references ("degraded" or "retrieved"), signature.
    Raises: ValueError for an unknown `truth`.
    """
    if truth not in get_args(Truth):
        raise ValueError(f"truth is {truth!r}; expected 'one' (1GT) or 'none' (0GT)")
    make = make_one_truth_list if truth == "one" else partial(make_no_truth_list, embedder=embedder)

    def draw_all(dataset: QuestionSet, seed: int) -> Iterator[Draw]:
        texts = {q.key: min((a.text for a in q.answers), key=hash_name) for q in dataset.questions if q.answers}
        for question in dataset.questions:
            yield make(question, seed=seed, pool=[text for key, text in texts.items() if key != question.key])

    references = "degraded" if truth == "one" else "retrieved"
    return draw_each(sets, seeds, draw_all).assign(references=references, signature=f"list:{references}")


def write_stand_ins(
    sets: Iterable[QuestionSet], *, truth: Truth, seeds: Iterable[int], generators: Sequence[Asker], prompts: PromptSet
) -> pd.DataFrame:
    """Reference lists that language models write, of every question under every seed, as `write_lists` gives them.

    A reply may have LONGEST tokens, whatever the generators' decoding says.

    Returns, Raises: as `draw_stand_ins`, with `references` "written"; the signature names generators, prompts and
        decoding.
    """
    writers = [asker.with_decoding(replace(asker.decoding, max_tokens=LONGEST)) for asker in generators]

    def draw_all(dataset: QuestionSet, seed: int) -> list[Draw]:
        return write_lists(dataset.questions, writers, prompts, truth=truth, seed=seed)

    draws = draw_each(sets, seeds, draw_all)
    names = "+".join(asker.spec.identity for asker in generators)
    first, lower = map(prompts.signature, ("write_best" if truth == "one" else "write_answer", "write_lower"))
    signature = f"list:written|generators:{names}|prompts:{first},{lower}|{writers[0].signature}"
    return draws.assign(references="written", signature=signature)


def make_one_truth_list(question: Question, *, seed: int, pool: Sequence[str] = ()) -> Draw:
    """One answer of the highest grade present, drawn by seed, and its degradations at levels 1, 2, 3.

    They are proxies for grades 3, 2, 1, 0, whatever the truth's own grade. It is the answer that `draw_list` of
    equal seed takes first of that grade. It leaves the candidates, with exact copies of any reference.

    Args: pool: texts that answer other questions, for misleading statements and foreign nouns.
    Returns: the draw; dropped with "no_reference" for a question without answers.
    Source: LINKAGE, sections 3.3.2 and 4.2.2. Differs from: it, in that rules and not models write the lower grades,
        and that the known answer stays as it is, since no difference of style between people and models is to hide.
    """
    draw = _draw_truth(question, seed)
    if draw.dropped:
        return draw
    worse = degrade(draw.best.text, question=question.text, seed=seed, pool=pool)
    return _use_references(draw, dict(zip(GRADES, [draw.best.text, *worse], strict=True)), draw.best.id)


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
    Source: a proxy for LINKAGE, section 3.3.3. Differs from: it, in that nothing is generated, and that the
        candidates lose what is taken as a reference.
    """
    texts = sorted({answer.text for answer in question.answers})
    if not texts:
        return Draw(question, (), (), "no_reference")
    vectors = embedder.embed_sentences([question.text, *texts]).astype(np.float64)
    order = sorted(zip(-np.round(vectors[1:] @ vectors[0], 12), texts, strict=True))
    places = {2 * len(texts) // 3: 1, len(texts) // 3: 2, 0: 3}  # of equal places the better grade stays
    references = {grade: order[place][1] for place, grade in reversed(places.items())}
    if pool:
        references[0] = pool[choose(f"{seed}|{question.key}|pool", len(pool))]
    return _use_references(Draw(question, (), question.answers), references, "retrieved")


def write_lists(
    questions: Sequence[Question], generators: Sequence[Asker], prompts: PromptSet, *, truth: Truth, seed: int
) -> list[Draw]:
    """Lists written by language models, one a question.

    The first generator writes the best answer: from a known answer, which leaves the candidates (`truth` "one"),
    or from the question alone, when no label is read ("none"). Each of the others writes three lower ones from it, or
    the first where it is the only one; for each lower grade one writer's answer is drawn by seed from those whose
    completion could be read. A completion that was cut at its limit is none: its last answer isn't whole. A question
    without a best answer, or for which no completion could be read, is dropped with "no_generated_list".
    Source: LINKAGE, sections 3.3.2, 3.3.3 and 4.4: GPT-4 writes the best answer, three other models the lower ones.
    Differs from: it, in the number of solved examples where the prompts are the released ones, which hold one;
        `own` holds three, as the paper does. The prompt for the best answer is this project's in both. The paper
        doesn't say how many answers of each grade a list has; here it is one of each (3, 2, 1, 0).
    """
    draws = [_draw_truth(one, seed) if truth == "one" else Draw(one, (), one.answers) for one in questions]
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
            lists[draw.question.key] = _use_references(draw, references, "written")
    return [
        lists.get(draw.question.key)
        or replace(draw, references=(), candidates=(), dropped=draw.dropped or "no_generated_list")
        for draw in draws
    ]


def split_answers(text: str, count: int) -> list[str] | None:
    """The answers of a completion such as "Answer1: … Answer2: …", or None when it doesn't hold `count` of them.

    Headings may stand on one line or their own, be bold, bracketed or numbered with a blank, and end in a colon, a
    full stop, a bracket, a dash or the line. The first run from 1 to `count` in order is taken, up to the heading
    after it; an empty answer makes it unreadable.
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


def _use_references(draw: Draw, texts: Mapping[int, str], source: str) -> Draw:
    """The draw with references by their grades; candidates with exactly their texts leave."""
    references = tuple(Answer(f"{source}:{grade}", text, grade) for grade, text in texts.items())
    candidates = tuple(one for one in draw.candidates if one.text not in texts.values())
    return replace(draw, references=references, candidates=candidates)
