"""Pairs of a text and a claim that it states or not, which SmolLM2's reader is trained on (`tools/train_reader.py`).

Of Perspectrum, two wordings of one point of view are stated; the second one negated, and wordings of other points of
view on the claim, are not. Out of its wordings texts are made by rule: several points of view in one sentence or in
several, attributed, rejected, or the claim as a question. Of Debatewise, some sentences of an explanation state its
point of view, and neither the negated one nor another explanation's. Of data/training, written for this: answers with
labels for each point of view, and texts that say or don't say that people disagree, whose claim is
`nfqa.metrics.dispute_detector.DISPUTE`.

Claims that are measured on are never seen (`reproduction.studies.stated_views.is_held_out`, and those of Debatewise
that are held out), nor are their texts, but for two titles of Debatewise that arguments on both sides of its split
have. The answers D-01 to D-15, and a fifth of the statements, are left out too: D.A.'s threshold was chosen on
them, and the reader's card has the AUROC there.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from nfqa.metrics.coverage import split_answer
from nfqa.metrics.dispute_detector import DISPUTE
from reproduction.data.load import load
from reproduction.data.web import load_frame
from reproduction.studies.negation import negate
from reproduction.studies.stated_views import is_held_out

WRITTEN = Path(__file__).parents[1] / "data" / "training" / "dispute_sentences.csv"
WORDS = 90  # words of an explanation, or a little more
_TWO = (
    "{}, while {}", "{}; {}", "{}, but {}", "{}, and {}", "{}, whereas others hold that {}",
    "Some say {}, others that {}",
)  # fmt: skip
_THREE = ("{}; {}; and {}", "{}, {}, and {}", "Some say {}, some that {}, and yet others that {}")
_REJECTED = (
    "It is not true that {}.", "It is a myth that {}.", "Some claim that {}, but that is simply wrong.",
    "Nobody can seriously believe that {}.", "I disagree with the idea that {}.",
)  # fmt: skip
_HELD = (
    "Some people say that {}.", "Critics argue that {}.", "In my view, {}.", "According to many, {}.",
    "There are those who think {}.",
)  # fmt: skip
_ASKED = ("Is it true that {}?", "Should we say that {}?", "What do people think of this: {}?")


class Pair(NamedTuple):
    """An answer, a point of view, whether the one states the other, and what the two are about."""

    answer: str
    view: str
    stated: bool
    claim: str


def read_perspectrum(draw: random.Random, data: str = "full") -> list[Pair]:
    """The pairs of the claims that no held-out claim shares a text with."""
    pairs = []
    for claim in _read_unseen(data).itertuples():
        for side, own in claim.views:
            answer, *reworded = draw.sample(own, len(own))
            others = [(stance, said) for stance, said in claim.views if not set(said) & set(own)]
            found = [(answer, view, True) for view in reworded[:1]]
            if reworded and (negated := negate_view(reworded[0])):
                found.append((answer, negated, False))
                opposite = negate_view(answer)  # so that a negated view is not always one that isn't stated
                found += [(opposite, negated, True), (opposite, reworded[0], False)] if opposite else []
            for like in (True, False):
                rivals = [said for stance, said in others if (stance == side) == like]
                found += [(answer, draw.choice(draw.choice(rivals)), False)] if rivals else []
            pairs += [Pair(*one, claim.question) for one in found]
    return pairs


def read_debatewise(draw: random.Random, data: str = "full") -> list[Pair]:
    """The pairs of the claims that are not held out, without those that share a text with what is measured on."""
    kept_out, pairs = list_plain(read_claims(data)[1]), []
    for claim in load("debatewise", split="train", data=data).questions:
        parts = [part for part in claim.partial_answers if part.explanation and part.point_of_view]
        if not kept_out.isdisjoint(map(plain, [claim.text, *(part.point_of_view for part in parts)])):
            continue
        for part in parts:
            passages = _cut(part.explanation)
            if not passages:
                continue
            answer = passages[0] if draw.random() < 0.6 else draw.choice(passages)
            found, negated = [(part.point_of_view, True)], negate_view(part.point_of_view)
            found += [(negated, False)] if negated and draw.random() < 0.5 else []
            for like in (True, False):
                rivals = [one.point_of_view for one in parts if one is not part and (one.stance == part.stance) == like]
                found += [(draw.choice(rivals), False)] if rivals else []
            pairs += [Pair(answer, view, stated, claim.text) for view, stated in found]
    return pairs


def read_claims(data: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Perspectrum's claims to train on, and those that are held out; `views` has the stance and the texts of each."""
    claims = load_frame("perspectrum", data=data)[0]
    texts = load_frame("perspectrum_wordings", data=data)[0].set_index("wording").text
    claims["views"] = [[(side, [texts[i] for i in ids]) for side, ids in own if ids] for own in claims["views"]]
    held = claims.question.map(is_held_out)
    return claims[~held], claims[held]


def list_plain(claims: pd.DataFrame) -> set[str]:
    """Every text of claims, in small letters."""
    said = [text for own in claims["views"] for _, texts in own for text in texts]
    return {plain(text) for text in (*claims.question, *said)}


def plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


def negate_view(view: str) -> str:
    """The view negated by rule; "" where no rule fits."""
    made = negate(view.rstrip(".") + ".").rstrip(".")
    return "" if made == view.rstrip(".") else made


def _cut(text: str) -> list[str]:
    """Passages of whole sentences, each of WORDS words or a little more."""
    passages: list[list[str]] = [[]]
    for sentence in split_answer(text):
        if len(passages[-1]) >= WORDS:
            passages.append([])
        passages[-1] += sentence.split()
    return [" ".join(words) for words in passages if words and (len(words) > 30 or len(passages) == 1)]


def make_texts(draw: random.Random, data: str = "full") -> list[Pair]:
    """Pairs of texts that are made by rule out of Perspectrum's wordings, and of its wordings."""
    claims, pairs = read_claims(data)[0], list[Pair]()
    for claim in _read_unseen(data).itertuples():
        views = [said for _, said in claim.views]
        for own in (view for view in views if len(view) > 1):
            others = [view for view in views if not set(view) & set(own)]
            if not others:
                continue
            (text, again), other = draw.sample(own, 2), draw.choice(others)
            others_text, others_again = draw.choice(other), draw.choice(other)
            made = _join(draw, [text, others_text], again, [view for view in others if view is not other])
            if len(other) > 1 and others_again != others_text:
                made.insert(1, (made[0][0], others_again, True))
            made += _negated(draw, made[0][0], again)
            made += _list(draw, text, again, others) if len(others) > 1 else []
            made += [(draw.choice(_REJECTED).format(_inside(text)), again, False)]
            made += [(draw.choice(_HELD).format(_inside(one)), again, one is text) for one in (text, others_text)]
            asked = draw.choice(_ASKED).format(_inside(claim.question))
            made += [(asked, again, False)] if draw.random() < 0.4 else []
            if draw.random() < 0.4:
                far = claims.sample(1, random_state=draw.randrange(10**6)).iloc[0]
                made.append((text, draw.choice(draw.choice([said for _, said in far["views"]])), False))
            pairs += [Pair(*one, claim.question) for one in made]
    return pairs


_Made = list[tuple[str, str, bool]]


def _join(draw: random.Random, parts: list[str], claim: str, rest: list[list[str]]) -> _Made:
    """Two or three points of view in one sentence, of which the claim is one; and two claims that it doesn't state."""
    parts = [_inside(part) for part in parts]
    draw.shuffle(parts)
    if rest and draw.random() < 0.5:
        third = draw.choice(rest)
        rest = [view for view in rest if view is not third]
        parts.append(_inside(draw.choice(third)))
        draw.shuffle(parts)
        text = draw.choice(_THREE).format(*parts)
    else:
        text = draw.choice(_TWO).format(*parts)
    text = f"{text[0].upper()}{text[1:]}."
    return [(text, claim, True), *((text, draw.choice(draw.choice(rest)), False) for _ in range(2 * bool(rest)))]


def _negated(draw: random.Random, text: str, claim: str) -> _Made:
    negated = negate_view(claim)
    return [(text, negated, False)] if negated and draw.random() < 0.5 else []


def _list(draw: random.Random, text: str, claim: str, others: list[list[str]]) -> _Made:
    """Two to four points of view, a sentence each, of which the claim is one; and a claim that they don't state."""
    chosen = draw.sample(others, min(len(others), draw.choice([1, 2, 3])))
    left = [view for view in others if all(view is not one for one in chosen)]
    sentences = [f"{one.strip().rstrip('.')}." for one in [*(draw.choice(view) for view in chosen), text]]
    draw.shuffle(sentences)
    whole = " ".join(sentences)
    return [(whole, claim, True), *([(whole, draw.choice(draw.choice(left)), False)] if left else [])]


def _inside(text: str) -> str:
    """A sentence as it stands inside another."""
    keeps = len(text) < 2 or text[:2].isupper() or text.startswith(("I ", "I'"))
    return (text if keeps else text[0].lower() + text[1:]).strip().rstrip(". ")


def read_training(draw: random.Random) -> tuple[dict[str, list[Pair]], dict[str, list[Pair]]]:
    """The pairs of the texts in data/training: to train on, and those that are left out."""
    sets: tuple[dict[str, list[Pair]], ...] = tuple({"answers": [], "statements": []} for _ in range(2))
    for line in WRITTEN.with_name("answers.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        to, said = sets[row["id"].startswith("D")].values()
        views = [
            (each["point_of_view"], f"{each['point_of_view']} {each['explanation']}") for each in row["partial_answers"]
        ]
        for answer in row["answers"]:
            said.append(Pair(answer["text"], DISPUTE, answer["aware"], row["id"]))
            for (view, whole), stated in zip(views, answer["states"], strict=True):
                claims = [view, whole] if draw.random() < 0.5 else [view]
                to += [Pair(answer["text"], claim, bool(stated), row["id"]) for claim in claims]
        for view, whole in views:
            to.append(Pair(row["question"], view, False, row["id"]))
            said.append(Pair(whole, DISPUTE, False, row["id"]))
            to.append(Pair(whole, view, True, row["id"]))
            to += [Pair(whole, other, False, row["id"]) for other, _ in views if other != view]
    for row in read_table(WRITTEN.with_name("statements.csv")):
        left_out = int(hashlib.sha256(row["text"].encode()).hexdigest(), 16) % 5 == 0
        sets[left_out]["statements"].append(Pair(row["text"], DISPUTE, row["label"] == "says", row["topic"]))
    for row in read_table(WRITTEN):
        sets[0]["statements"].append(Pair(row["text"], DISPUTE, row["label"] == "1", row["topic"]))
    return sets[0], sets[1]


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _read_unseen(data: str) -> pd.DataFrame:
    """Perspectrum's claims to train on that share no text with one that is measured on."""
    claims, held = read_claims(data)
    kept_out = list_plain(held) | {
        plain(text)
        for claim in load("debatewise", split="held_out", data=data).questions
        for text in (claim.text, *(part.point_of_view for part in claim.partial_answers))
    }
    return claims[[kept_out.isdisjoint(list_plain(claims.loc[[place]])) for place in claims.index]]
