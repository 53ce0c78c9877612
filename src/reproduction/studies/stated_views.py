"""Claims with people's wordings of points of view: pairs of a text and a view that it states or
not, and draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from nfqa.files.records import Answer, Question
from nfqa.metrics.references import Draw, hash_name


def is_held_out(claim: str) -> bool:
    """Whether a claim is one of the half, by a hash, that coverage is measured on and never trained
    on.
    """
    return Question(claim).key % 2 == 0


def keep_apart(claims: pd.DataFrame, wordings: pd.DataFrame) -> pd.DataFrame:
    """The claims of which no two share a wording, so that each was drawn by itself.

    Args: claims, wordings: as `pair_wordings`. Returns: rows of `claims`, those kept that come
        first by a hash.
    """
    texts = wordings.set_index("wording").text
    used = set[str]()
    places = []
    for place, views in claims.views[sorted(claims.index, key=lambda row: hash_name(claims.question[row]))].items():
        view_texts = {texts[wording] for _, ids in views for wording in ids}
        if used.isdisjoint(view_texts):
            places.append(place)
            used |= view_texts
    return claims.loc[sorted(places)]


def pair_wordings(claims: pd.DataFrame, wordings: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Answers and points of view out of wordings that people gave to the same and to other points
    of view on a claim.

    Of a claim, one point of view with two wordings or more and one other are drawn: a wording of
    the first is the answer, another wording of it the view that is stated, and a wording of the
    other the view that is not (`changed` is "view"). In a third pair that wording is the answer in
    place of the first ("answer"): the view is not stated there.

    Args: claims: dataset, question, views (stance and wordings' ids of each); wordings: wording,
        text.
    Returns: dataset, question, text (the answer), point_of_view, stated, changed ("" where stated),
        stance (whether the other view's is the "same" or "opposite"): three rows a claim, claims
        and draws in the order of a hash of their text. A claim without such points of view has
        none.
    """
    rows = []
    for question, dataset, _, views in _read_views(claims, wordings, seed):
        texts, others = next(_list_choices(question, views, seed), ([], []))
        if others:
            (stance, other) = others[0]
            (answer, view, *_) = texts
            claim = (dataset, question, stance)
            rows += [(*claim, answer, view, True, ""), (*claim, answer, other, False, "view")]
            rows += [(*claim, other, view, False, "answer")]
    return pd.DataFrame(rows, columns=["dataset", "question", "stance", "text", "point_of_view", "stated", "changed"])


def draw_wordings(claims: pd.DataFrame, wordings: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """A reference for each claim out of people's wordings, and candidates: a paraphrase, other
    views, unrelated texts.

    Of a claim, one point of view with two wordings or more is drawn. One wording of it is the
    reference of grade 3, another the candidate "paraphrase"; "same_stance" and "opposite_stance"
    are wordings of other points of view. To each of these belongs an unrelated text
    ("paraphrase_unrelated" ...) of as many words, or as near as there is: a wording on a claim that
    shares no topic with this one. A further one is the reference of grade 0.

    Args: claims: dataset, question, topics, views; wordings: wording, text. A claim without topics
        is excluded, as is one that lacks any of the views.
    Returns: dataset, question, draw (of `nfqa.metrics.references`), claims and draws in the order
        of a hash of their text.
    """
    read = _read_views(claims[claims.topics != ""], wordings, seed)
    topics_by_text: dict[str, set[str]] = {}
    for _, _, topics, views in read:
        for text in (text for _, texts in views for text in texts):
            topics_by_text.setdefault(text, set()).update(topics)
    pool = pd.DataFrame(topics_by_text.items(), columns=["text", "topics"], index=map(_count_words, topics_by_text))
    rows = []
    for question, dataset, topics, views in read:
        for (first, second, *_), others in _list_choices(question, views, seed):
            by_stance = {f"{stance}_stance": text for stance, text in reversed(others)}
            if len(by_stance) == 2:
                chosen = {"reference": first, "paraphrase": second, **dict(sorted(by_stance.items()))}
                apart = pool.text[pool.topics.map(topics.isdisjoint)]
                for name, text in [*chosen.items()]:
                    gap = abs(apart.index - _count_words(text))
                    chosen[f"{name}_unrelated"] = _shuffle(seed, f"{question}|{name}", apart[gap == gap.min()])[0]
                answers = {name: Answer(name, text, 3 * (name == "reference")) for name, text in chosen.items()}
                references = answers.pop("reference"), answers.pop("reference_unrelated")
                rows += [(dataset, question, Draw(Question(question), references, tuple(answers.values())))]
                break
    return pd.DataFrame(rows, columns=["dataset", "question", "draw"])


def _read_views(claims: pd.DataFrame, wordings: pd.DataFrame, seed: int) -> list[tuple[str, str, set[str], list[Any]]]:
    """Question, dataset, topics and views (stance, distinct texts) of each claim, all in the order
    of a hash.
    """
    texts = wordings.set_index("wording").text
    rows = []
    for question, claim in claims.drop_duplicates("question").set_index("question").iterrows():
        views = [(stance, _shuffle(seed, str(question), {texts[i] for i in ids})) for stance, ids in claim["views"]]
        rows.append((str(question), claim["dataset"], {*claim.get("topics", "").split()}, views))
    return sorted(rows, key=lambda one: hash_name(f"{seed}||{one[0]}"))


def _list_choices(
    question: str, views: Sequence[tuple[str, list[str]]], seed: int
) -> Iterator[tuple[list[str], list[tuple[str, str]]]]:
    """The texts of each view of two or more, and of each view without these: same or opposite
    stance, and a text.
    """
    for stance, texts in _shuffle(seed, question, (view for view in views if len(view[1]) > 1)):
        others = [view for view in _shuffle(seed, question, views) if not {*view[1]} & {*texts}]
        yield texts, [("same" if side == stance else "opposite", other[0]) for side, other in others]


def _shuffle(seed: int, question: str, items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: hash_name(f"{seed}|{question}|{item}"))


def _count_words(text: str) -> int:
    return len(text.split())
