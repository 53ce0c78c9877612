"""Reference lists of varied quality, drawn with a seed from a question's own answers, and examples
for a judge.

One question at a time (`draw_list`), and as frames: `draw_references` has a row for each dataset,
seed and question, the draw in the column `draw`; `nfqa.metrics.references.list_candidates` and
`list_references` unfold it to a row for each text.
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


SAMPLED = "the language model's sample"  # of candidates


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

    Answers are ordered by a hash of (seed, question, answer id), and a composition takes the first
    it needs: lists of different compositions but equal seed are nested, one question's draw never
    depends on another's, nor one answer's place on which others there are.

    Args: composition: grades, one a reference, as (3, 2, 1, 0); short: a question with too few
        answers of a grade takes what there is ("partial") or is excluded ("drop"); remove: which of
        the drawn leave the candidates, the whole list, the best reference alone, or nothing (to
        measure the leak); also_remove: further compositions whose references leave the candidates
        too, so that several lists are judged on equal candidates.
    Returns: the draw. A candidate with exactly the text of a removed reference goes with it: a copy
        would score perfectly. Copies that differ in case or blanks stay.
    Raises: ValueError for an unknown `short`.
    Source: LINKAGE, sections 3.3.1 and 5.2, which don't say what happens to short questions.
    """
    if short not in get_args(ShortRule):
        raise ValueError(f"short is {short!r}; expected one of {', '.join(get_args(ShortRule))}")
    shuffled = sorted(question.answers, key=lambda answer: hash_name(f"{seed}|{question.key}|{answer.id}"))
    references = tuple(_take(shuffled, composition))
    if short == "drop" and len(references) < len(composition):
        return Draw(question, references, (), "short_list")
    if not references:
        return Draw(question, references, (), "no_reference")
    removed = {"list": references, "best": references[:1], "nothing": ()}[remove]
    texts = {answer.text for part in (removed, *(_take(shuffled, other) for other in also_remove)) for answer in part}
    return Draw(question, references, tuple(a for a in question.answers if a.text not in texts))


def find_own_list(dataset: str) -> tuple[int, ...]:
    """The paper's reference list for a dataset, or for its bundled sample, as grades."""
    return COMPOSITIONS[OWN_LISTS[dataset.removeprefix("sample_")]]


def draw_references(
    sets: Iterable[QuestionSet],
    *,
    seeds: Iterable[int],
    composition: str = "",
    also_remove: Sequence[str] = (),
    **options: Any,
) -> pd.DataFrame:
    """Reference draws of every question under every seed, as `draw_list` makes them.

    Args: composition: a name in COMPOSITIONS; "" is the paper's own list for each dataset;
        also_remove: as `draw_list`, by name; options: short and remove, as `draw_list`.
    Returns: one row per draw: dataset, seed, question, draw.
    Raises: ValueError for no seed, KeyError for an unknown composition.
    """
    seeds = list(seeds)
    others = [COMPOSITIONS[other] for other in also_remove]
    if not seeds:
        raise ValueError("there is no seed to draw with; n_seeds must be 1 or more")

    def draw_all(dataset: QuestionSet, seed: int) -> list[Draw]:
        grades = COMPOSITIONS[composition] if composition else find_own_list(dataset.name)
        return [draw_list(question, grades, seed=seed, also_remove=others, **options) for question in dataset.questions]

    return draw_each(sets, seeds, draw_all)


def draw_each(
    sets: Iterable[QuestionSet], seeds: Iterable[int], draw_all: Callable[[QuestionSet, int], Iterable[Draw]]
) -> pd.DataFrame:
    """The draws that `draw_all` makes of every dataset under every seed: dataset, seed, question,
    draw.
    """
    rows = [
        (dataset.name, seed, draw.question.text, draw)
        for dataset, seed in product(sets, seeds)
        for draw in draw_all(dataset, seed)
    ]
    return pd.DataFrame(rows, columns=["dataset", "seed", "question", "draw"])


def list_references(draws: pd.DataFrame) -> pd.DataFrame:
    """One row per reference of every draw, best first: the draw's own columns, place (from 1), text
    and grade.
    """
    rows = draws.assign(place=[range(1, len(draw.references) + 1) for draw in draws.draw])
    rows = rows.explode("place").dropna(subset="place").reset_index(drop=True).astype({"place": int})
    answers = [draw.references[place - 1] for draw, place in zip(rows.pop("draw"), rows.place, strict=True)]
    return rows.assign(text=[answer.text for answer in answers], grade=[answer.label for answer in answers])


def sample_candidates(draws: pd.DataFrame, *, most: int, seed: int = 0) -> pd.DataFrame:
    """The draws with at most `most` candidates each, as evenly over the grades as there are
    candidates of them.

    The candidates of a grade are taken by a hash of (seed, question, answer id), one of each grade
    in turn, so that a smaller sample lies in a larger one, and a question's sample doesn't depend
    on the draw of its references.
    """

    def take(draw: Draw) -> Draw:
        ordered = sorted(draw.candidates, key=lambda one: hash_name(f"sample|{seed}|{draw.question.key}|{one.id}"))
        labels = pd.Series([one.label for one in ordered], dtype=int)
        turns = sorted(zip(labels.groupby(labels).cumcount(), -labels, (one.id for one in ordered), strict=True))
        chosen = {name for *_, name in turns[:most]}
        return replace(draw, candidates=tuple(one for one in draw.candidates if one.id in chosen))

    return draws.assign(draw=[take(draw) for draw in draws.draw])


def mark_sample(scores: pd.DataFrame, sample: pd.DataFrame, draws: pd.DataFrame) -> pd.DataFrame:
    """Scores of a sample of the draws, whose column `candidates` says so; as they are where the
    sample has all.
    """
    size, whole = (sum(len(draw.candidates) for draw in frame.draw) for frame in (sample, draws))
    return scores.assign(candidates=SAMPLED) if size < whole and len(scores) else scores


def choose(name: str, count: int) -> int:
    """One of the places 0 to count - 1, by the hash of a name."""
    return int.from_bytes(hash_name(name)[:8], "big") % count


def _take(shuffled: Sequence[Answer], composition: Sequence[int]) -> list[Answer]:
    """The first answers of each grade, as many as the composition has, best first."""
    counts = sorted(Counter(composition).items(), reverse=True)
    return [one for grade, count in counts for one in [each for each in shuffled if each.label == grade][:count]]


def make_shots(questions: Sequence[Question], composition: Sequence[int], *, count: int) -> tuple[Shot, ...]:
    """Solved examples for listwise prompts, from questions that are not evaluated.

    Questions are taken in the order of a hash of their text, those that can fill the composition
    before those that can't, each once before any serves again; the candidates' grades go round 3,
    1, 2, 0 as far as a question has them, so that a few examples show different ranks. A
    candidate's rank is 1 plus the number of references of a higher grade: it stands before
    references of its own.
    Raises: ValueError when there are fewer candidates than `count`.
    """
    draws = [draw_list(question, composition, seed=_SHOT_SEED) for question in questions]
    draws.sort(key=lambda draw: (len(draw.references) < len(composition), hash_name(f"shot|0|{draw.question.key}")))
    rounds = [(draw, [*draw.candidates]) for draw in draws if draw.references]
    shots: list[Shot] = []
    while len(shots) < count:
        rounds = [(draw, left) for draw, left in rounds if left]
        if not rounds:
            raise ValueError(f"{count} shots wanted, but the questions leave only {len(shots)} candidates to show")
        for draw, left in rounds[: count - len(shots)]:
            turn = _SHOT_GRADES[len(shots) % 4 :] + _SHOT_GRADES[: len(shots) % 4]
            name = f"shot|0|{draw.question.key}"
            answer = min(left, key=lambda one: (turn.index(one.label), hash_name(f"{name}|{one.id}")))
            left.remove(answer)
            rank = 1 + sum(reference.label > answer.label for reference in draw.references)
            texts = tuple(reference.text for reference in draw.references)
            shots.append(Shot(draw.question.text, texts, answer.text, f"[[{rank}]]"))
    return tuple(shots)
