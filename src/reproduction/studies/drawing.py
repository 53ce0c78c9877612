"""Reference lists of varied quality, drawn with a seed from a question's own answers, and examples for a judge.

One question at a time (`draw_list`), and as frames: `draw_references` has a row for each dataset, seed and question,
the draw in the column `draw`; `nfqa.metrics.references.list_candidates` and `list_references` unfold it to a row for
each text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal, get_args

import pandas as pd

from nfqa.files.records import Answer, Question, QuestionSet
from nfqa.judge.prompts import Shot
from nfqa.metrics.references import Draw, hash_name

_SHOT_GRADES = (3, 1, 2, 0)
_SHOT_SEED = 2_000  # apart from any evaluation seed and from the seeds of the embedded judge's training


ShortRule = Literal["partial", "drop"]


COMPOSITIONS: dict[str, tuple[int, ...]] = {
    "r3210": (3, 2, 1, 0),
    "r33321000": (3, 3, 3, 2, 1, 0, 0, 0),
    "r33221100": (3, 3, 2, 2, 1, 1, 0, 0),
    "r32221110": (3, 2, 2, 2, 1, 1, 1, 0),
}


OWN_LISTS = {"antique": "r33221100", "trec_dl_nf": "r3210", "webglm": "r3210"}  # the paper's list for each dataset


SAMPLE = "the language model's sample"  # of candidates


def draw_list(
    question: Question,
    composition: Sequence[int],
    *,
    seed: int,
    short: ShortRule = "partial",
    remove: Literal["list", "best", "nothing"] = "list",
    also_remove: Sequence[Sequence[int]] = (),
) -> Draw:
    """Draw a reference list of the grades in `composition` from a question's own answers.

    Answers are ordered by a hash of (seed, question, answer id), and a composition takes the first it needs: lists
    of different compositions but equal seed are nested, one question's draw never depends on another's, nor one
    answer's place on which others there are.

    Args: composition: grades, one a reference, as (3, 2, 1, 0); short: a question with too few answers of a grade
        takes what there is ("partial") or is left out ("drop"); remove: which of the drawn leave the candidates,
        the whole list, the best reference alone, or nothing (to measure the leak); also_remove: further compositions
        whose references leave the candidates too, so that several lists are judged on equal candidates.
    Returns: the draw. A candidate with exactly the text of a removed reference goes with it: a copy would score
        perfectly. Copies that differ in case or blanks stay.
    Raises: ValueError for an unknown `short`.
    Source: LINKAGE, sections 3.3.1 and 5.2, which don't say what happens to short questions.
    """
    if short not in get_args(ShortRule):
        raise ValueError(f"short is {short!r}; expected one of {', '.join(get_args(ShortRule))}")
    shuffled = sorted(question.answers, key=lambda answer: hash_name(f"{seed}|{question.key}|{answer.id}"))
    chosen = _take(shuffled, composition)
    references = tuple(sorted(chosen, key=lambda answer: -answer.label))
    if short == "drop" and len(references) < len(composition):
        return Draw(question, references, (), "short_list")
    if not references:
        return Draw(question, references, (), "no_reference")
    gone = {"list": references, "best": references[:1], "nothing": ()}[remove]
    gone = (*gone, *(answer for other in also_remove for answer in _take(shuffled, other)))
    texts = {answer.text for answer in gone}
    return Draw(question, references, tuple(a for a in question.answers if a.text not in texts))


def find_own_list(dataset: str) -> tuple[int, ...]:
    """The paper's reference list for a dataset, or for its bundled stand-in, as grades."""
    return COMPOSITIONS[OWN_LISTS[dataset.removeprefix("sample_")]]


def draw_references(
    sets: Iterable[QuestionSet],
    *,
    seeds: Iterable[int],
    composition: str = "",
    also_remove: Sequence[str] = (),
    **how: Any,
) -> pd.DataFrame:
    """Reference draws of every question under every seed, as `draw_list` makes them.

    Args: composition: a name in COMPOSITIONS; "" is the paper's own list for each dataset; also_remove: as `draw_list`,
        by name; how: short and remove, as `draw_list`.
    Returns: a row a draw: dataset, seed, question, draw.
    Raises: ValueError for no seed, KeyError for an unknown composition.
    """
    seeds, others = list(seeds), [COMPOSITIONS[other] for other in also_remove]
    if not seeds:
        raise ValueError("there is no seed to draw with; n_seeds must be 1 or more")

    def draw_all(dataset: QuestionSet, seed: int) -> list[Draw]:
        grades = COMPOSITIONS[composition] if composition else find_own_list(dataset.name)
        return [draw_list(question, grades, seed=seed, also_remove=others, **how) for question in dataset.questions]

    return draw_each(sets, seeds, draw_all)


def draw_each(
    sets: Iterable[QuestionSet], seeds: Iterable[int], draw_all: Callable[[QuestionSet, int], Iterable[Draw]]
) -> pd.DataFrame:
    """The draws that `draw_all` makes of every dataset under every seed: dataset, seed, question, draw."""
    rows = [
        (dataset.name, seed, draw.question.text, draw)
        for dataset, seed in product(sets, seeds)
        for draw in draw_all(dataset, seed)
    ]
    return pd.DataFrame(rows, columns=["dataset", "seed", "question", "draw"])


def list_references(draws: pd.DataFrame) -> pd.DataFrame:
    """A row a reference of every draw, best first: the draw's own columns, place (from 1), text and grade."""
    listed = draws.assign(place=[range(1, len(draw.references) + 1) for draw in draws.draw])
    listed = listed.explode("place").dropna(subset="place").reset_index(drop=True).astype({"place": int})
    found = [draw.references[place - 1] for draw, place in zip(listed.pop("draw"), listed.place, strict=True)]
    return listed.assign(text=[answer.text for answer in found], grade=[answer.label for answer in found])


def alter_candidates(draws: pd.DataFrame, change: Callable[..., str]) -> pd.DataFrame:
    """The draws with the text of every candidate changed: `change` takes text and question by these names."""

    def alter(draw: Draw) -> Draw:
        own = (replace(one, text=change(text=one.text, question=draw.question.text)) for one in draw.candidates)
        return replace(draw, candidates=tuple(own))

    return draws.assign(draw=[alter(draw) for draw in draws.draw])


def sample_candidates(draws: pd.DataFrame, *, most: int, seed: int = 0) -> pd.DataFrame:
    """The draws with at most `most` candidates each, as evenly over the grades as there are candidates of them.

    The candidates of a grade are taken by a hash of (seed, question, answer id), one of each grade in turn, so that a
    smaller sample lies in a larger one, and a question's sample doesn't depend on the draw of its references.
    """

    def take(draw: Draw) -> Draw:
        names = {one.id: hash_name(f"sample|{seed}|{draw.question.key}|{one.id}") for one in draw.candidates}
        of_grade: dict[int, list[Answer]] = {}
        for one in sorted(draw.candidates, key=lambda one: names[one.id]):
            of_grade.setdefault(one.label, []).append(one)
        turns = sorted((place, -grade) for grade, ones in of_grade.items() for place in range(len(ones)))
        taken = {of_grade[-grade][place].id for place, grade in turns[:most]}
        return replace(draw, candidates=tuple(one for one in draw.candidates if one.id in taken))

    return draws.assign(draw=[take(draw) for draw in draws.draw])


def mark_sample(scores: pd.DataFrame, sample: pd.DataFrame, draws: pd.DataFrame) -> pd.DataFrame:
    """Scores of a sample of the draws, whose column `candidates` says so; as they are where the sample has all."""
    size, whole = (sum(len(draw.candidates) for draw in frame.draw) for frame in (sample, draws))
    return scores.assign(candidates=SAMPLE) if size < whole and len(scores) else scores


def share_candidates(draws: pd.DataFrame) -> pd.DataFrame:
    """The same draws, each with the candidates that all draws of its dataset, seed and question leave.

    What one of them dropped, all drop: lists of different making are judged on equal candidates.
    """
    draws, shared = draws.reset_index(drop=True), {}
    for _, group in draws.groupby(["dataset", "seed", "question"], sort=False):
        left = set.intersection(*({answer.id for answer in draw.candidates} for draw in group.draw))
        why = next((draw.dropped for draw in group.draw if draw.dropped), None)
        for place, draw in group.draw.items():
            kept = tuple(answer for answer in draw.candidates if answer.id in left)
            shared[place] = replace(draw, candidates=kept, dropped=draw.dropped or why)
    return draws.assign(draw=pd.Series(shared))


def use_given_references(sets: Iterable[QuestionSet]) -> pd.DataFrame:
    """Draws of questions that come with their own graded references (WebGLM): nothing is drawn, so there is no seed.

    Returns: a row a question: dataset, question, draw; one without references is dropped with "no_reference".
    """
    rows = [
        (dataset.name, q.text, Draw(q, q.references, q.answers) if q.references else Draw(q, (), (), "no_reference"))
        for dataset in sets for q in dataset.questions
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["dataset", "question", "draw"])


def choose(name: str, count: int) -> int:
    """One of the places 0 to count - 1, by the hash of a name."""
    return int.from_bytes(hash_name(name)[:8], "big") % count


def _take(shuffled: Sequence[Answer], composition: Sequence[int]) -> list[Answer]:
    wanted = Counter(composition)
    taken = []
    for answer in shuffled:
        if wanted[answer.label] > 0:
            wanted[answer.label] -= 1
            taken.append(answer)
    return taken


def make_shots(questions: Sequence[Question], composition: Sequence[int], *, count: int) -> tuple[Shot, ...]:
    """Solved examples for listwise prompts, from questions that are not evaluated.

    Questions are taken in the order of a hash of their text, those that can fill the composition before those
    that can't, each once before any serves again; the candidates' grades go round 3, 1, 2, 0 as far as a question has
    them, so that a few examples show different ranks. A candidate's rank is 1 plus the number of references of a
    higher grade: it stands before references of its own.
    Raises: ValueError when there are fewer candidates than `count`.
    """
    draws = [draw_list(question, composition, seed=_SHOT_SEED) for question in questions]
    names = {draw.question.key: f"shot|0|{draw.question.key}" for draw in draws}
    draws.sort(key=lambda draw: (len(draw.references) < len(composition), hash_name(names[draw.question.key])))
    rounds = [(draw, list(draw.candidates)) for draw in draws if draw.references]
    shots: list[Shot] = []
    while len(shots) < count:
        rounds = [(draw, left) for draw, left in rounds if left]
        if not rounds:
            raise ValueError(f"{count} shots wanted, but the questions leave only {len(shots)} candidates to show")
        for draw, left in rounds[: count - len(shots)]:
            turn = _SHOT_GRADES[len(shots) % 4 :] + _SHOT_GRADES[: len(shots) % 4]
            name = names[draw.question.key]
            chosen = min(left, key=lambda a: (turn.index(a.label), hash_name(f"{name}|{a.id}")))
            left.remove(chosen)
            rank = 1 + sum(reference.label > chosen.label for reference in draw.references)
            texts = tuple(reference.text for reference in draw.references)
            shots.append(Shot(draw.question.text, texts, chosen.text, f"[[{rank}]]"))
    return tuple(shots)
