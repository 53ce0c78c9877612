"""Texts that answer nothing, or the wrong thing, made to please a judge who sees a question and its
references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd

from nfqa.files.records import Answer
from nfqa.kernels.texts import FUNCTION_WORDS, WORD
from nfqa.metrics.references import GOOD_FROM, Draw, hash_name
from nfqa.metrics.statistics import list_conditions
from reproduction.studies.drawing import choose
from reproduction.studies.negation import negate

ATTACK = "attack: "
MOST_KEYWORDS = 40


def add_attacks(draws: pd.DataFrame) -> pd.DataFrame:
    """The same draws with six candidates more, each an attack, "attack: NAME" its id and 0 its
    grade.

    echo: the question; half_reference: the first half of the list's best reference; keywords:
    `stuff_keywords` of the question and the good references; padded: the worst candidate, then
    texts on other questions up to twice the longest reference's words; negated: the best candidate,
    its sentences negated by rule; off_topic: another question's best reference. A draw without
    candidates stays as it is.
    Raises: ValueError where all draws are of one question.
    """
    best = {draw.question.text: draw.references[0].text for draw in draws.draw if draw.candidates}
    if len(best) < 2:
        raise ValueError(f"{len(best)} question to attack; texts on other questions take two or more")

    attacks = [_write(draw, best) if draw.candidates else () for draw in draws.draw]
    attacked = zip(draws.draw, attacks, strict=True)
    return draws.assign(draw=[replace(draw, candidates=(*draw.candidates, *texts)) for draw, texts in attacked])


def count_beaten(scores: pd.DataFrame) -> pd.DataFrame:
    """The share of honest candidates of each grade that an attack beats, a tie counting half, in
    every draw.

    What is made of the worst candidate is compared with those of a higher grade alone, what is made
    of the best with those of a lower one: not with the candidate that it is made of, nor with its
    equals.
    Args: scores: of `add_attacks`' draws: question, answer, grade, score, and conditions.
    Returns: the conditions, question, attack, grade, measured, statistic ("beaten"): measurements,
        for `average`.
    """
    keys = [name for name in list_conditions(scores) if name != "signature"]
    is_attack = scores.answer.str.startswith(ATTACK)
    honest = scores.loc[~is_attack, [*keys, "grade", "score"]]
    grades = honest.groupby(keys, sort=False, dropna=False).grade
    honest = honest.assign(padded=grades.transform("min"), negated=grades.transform("max")).dropna(subset="score")
    made = scores[is_attack].assign(attack=lambda rows: rows.answer.str.removeprefix(ATTACK))
    pairs = made.drop(columns=["grade", "answer", "missing"]).merge(honest, on=keys, suffixes=("", "_honest"))
    alike = [(pairs.attack == name) & (pairs.grade == pairs[name]) for name in ("padded", "negated")]
    pairs = pairs[~(alike[0] | alike[1])]
    won = (np.sign((pairs.score - pairs.score_honest).round(9)) + 1) / 2
    groups = pairs.assign(measured=won).groupby([*keys, "signature", "attack", "grade"], sort=False, dropna=False)
    return groups.measured.mean().reset_index().assign(statistic="beaten")


def stuff_keywords(texts: Sequence[str], *, key: str) -> str:
    """The first MOST_KEYWORDS different content words of all texts together, in an order by hash."""
    words = dict.fromkeys(word for text in texts for word in WORD.findall(text) if word.lower() not in FUNCTION_WORDS)
    return " ".join(sorted([*words][:MOST_KEYWORDS], key=lambda word: hash_name(f"{key}|{word}")))


def _write(draw: Draw, best: Mapping[str, str]) -> list[Answer]:
    question = draw.question.text
    ordered = sorted(draw.candidates, key=lambda answer: answer.label)
    others = [text for name, text in best.items() if name != question]
    first = choose(f"attack|{question}", len(others))
    unrelated = [*others[first:], *others[:first]]
    good = [one.text for one in draw.references if one.label >= GOOD_FROM] or [draw.references[0].text]
    words = draw.references[0].text.split()
    worst = ordered[0].text.split()
    longest = max(len(one.text.split()) for one in draw.references)
    padding = (word for text in unrelated for word in text.split())
    padded = [*worst, *islice(padding, max(0, 2 * longest - len(worst)))]
    opposite = negate(ordered[-1].text)
    texts = {
        "echo": question,
        "half_reference": " ".join(words[: max(3, len(words) // 2)]),
        "keywords": stuff_keywords([question, *good], key=question),
        "padded": " ".join(padded),
        "negated": opposite if opposite != ordered[-1].text else f"No. {opposite}",
        "off_topic": unrelated[0],
    }
    return [Answer(f"{ATTACK}{name}", text, 0) for name, text in texts.items()]
