"""Points of view and explanations that a language model writes from documents, each sentence with
its source.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from nfqa.files.json_lines import LooseItem, Text, check
from nfqa.metrics.coverage import split_answer
from reproduction.debates.extract import split_documents
from reproduction.debates.pipeline import PARTS, Stage, list_dropped, say_cosine

if TYPE_CHECKING:
    from nfqa.judge.asking import Asker
    from nfqa.judge.prompts import PromptSet
    from nfqa.models.embed import Embedder

ANCHORED = 0.5  # cosine to a document's sentence from which a written one is held to come from it: ours, not tuned
LONGEST = 2_048  # tokens of a reply: a list of points of view, or an explanation
ROOM = 480_000  # characters of a prompt's documents, about the 120,000 tokens at which the paper cuts them
_LIST = re.compile(r"\[\s*\{")
Point = tuple[int, str, tuple[int, ...]]  # place in the reply, text, numbers of documents


class _Point(LooseItem):
    point_of_view: Text
    documents: Annotated[list[int], Field(min_length=1)]


def write_parts(documents: pd.DataFrame, generator: Asker, prompts: PromptSet, embedder: Embedder) -> Stage:
    """Points of view of each question's documents, then an explanation of each, by a language
    model.

    A sentence comes from the nearest sentence of the point of view's documents, by cosine; below
    0.5 it comes from none and is dropped. An explanation is refused where fewer than half of its
    sentences are left.

    Args: documents: id, question, document, text.
    Returns: parts, as `extract_parts` gives them, text as it was written, document and place of the
        sentence that it comes from; what is dropped, a question, point of view or sentence, with
        its reason.
    Source: DebateQA, section 3.2 and its Algorithm 1.
    """
    points, dropped = list_points(documents, generator, prompts)
    texts = _cut(documents).set_index(["id", "document"]).text
    requests = []
    for point in points.itertuples():
        references = [texts[point.id, name] for name in point.documents]
        view = {"question": point.question, "point_of_view": point.point_of_view}
        requests.append(prompts.render("write_explanation", references=references, **view))
    replies = generator.write(requests) if requests else []
    sentences = split_documents(documents.assign(question=documents.id)).rename(columns={"question": "id"})
    by_question = dict(list(sentences.groupby("id")))
    frames = []
    lost = [dropped]
    for point, reply in zip(points.to_dict("records"), replies, strict=True):
        candidates = by_question.get(point["id"], sentences[:0])
        candidates = candidates[candidates.document.isin(point["documents"])]
        written = pd.DataFrame({"text": [point["point_of_view"], *split_answer(reply or "")]})
        names = {name: point[name] for name in ("id", "question", "view")}
        placed = _anchor(written, candidates, embedder).assign(**names)
        placed["part"] = np.where(placed.index == 0, "point_of_view", "explanation")
        far = (placed.part == "explanation") & ~(placed.cosine >= ANCHORED)
        size = len(placed) - 1
        if far.sum() > size / 2 or not size:
            why = "explanation not anchored" if size else "no explanation came"
            more = f"{far.sum()} of {size} sentences have no source near" if size else "the generator gave no text"
            lost.append(list_dropped("point of view", [point["view"]], why, more))
            continue
        details = [say_cosine(cosine, ANCHORED) for cosine in placed.cosine[far]]
        items = f"{point['view']}: " + placed.text[far].str[:60]
        lost.append(list_dropped("sentence", items, "no source near", details))
        frames.append(placed[~far])
    parts = pd.concat(frames or [pd.DataFrame(columns=PARTS)], ignore_index=True)
    return parts[PARTS], pd.concat(lost, ignore_index=True)


def list_points(documents: pd.DataFrame, generator: Asker, prompts: PromptSet) -> Stage:
    """The points of view that a language model lists, with their documents, read strictly by
    `read_points`.

    Returns: id, question, view (ID.1, ID.2 ...), point_of_view, documents (a list of names); what
        is dropped: a question for no reply, an unreadable one or no points; a point for documents
        that aren't there or a repetition.
    """
    groups = list(_cut(documents).groupby(["id", "question"], sort=False))
    requests = [prompts.render("extract_views", question=key[1], references=part.text.tolist()) for key, part in groups]
    rows = []
    lost = [list_dropped("question", [], "")]
    for ((identifier, question), part), reply in zip(groups, generator.write(requests), strict=True):
        names = part.document.tolist()
        points, refused = read_points(reply, len(names))
        for place, why, detail in refused:
            unit, item = ("point of view", f"{identifier}.{place}") if place else ("question", identifier)
            lost.append(list_dropped(unit, [item], why, detail))
        for n, text, numbers in points:
            rows.append((identifier, question, f"{identifier}.{n}", text, [names[number - 1] for number in numbers]))
    columns = ["id", "question", "view", "point_of_view", "documents"]
    return pd.DataFrame(rows, columns=columns), pd.concat(lost, ignore_index=True)


def read_points(reply: str | None, n_documents: int) -> tuple[list[Point], list[tuple[int, str, str]]]:
    """The points of view of a reply that can be used, and what can't: its place (0: the whole
    reply), why, detail.

    A reply holds a JSON list of `{"point_of_view", "documents": [numbers from 1]}`, in a fence or
    among words as well; blanks are one each. Two different lists can't be read.
    """
    if reply is None:
        return [], [(0, "no reply", "the generator gave no text")]
    try:
        listed = check(list[_Point], _find_list(reply), "reply")
    except (ValueError, RecursionError) as error:
        return [], [(0, "unreadable reply", str(error)[:120])]
    points: list[Point] = []
    refused = [] if listed else [(0, "no points of view", "the reply is an empty list")]
    for place, point in enumerate(listed, start=1):
        text = " ".join(point.point_of_view.split())
        numbers = tuple(dict.fromkeys(point.documents))
        strays = [number for number in numbers if not 1 <= number <= n_documents]
        if strays:
            refused.append((place, "names a document that isn't there", f"document {strays[0]} of {n_documents}"))
        elif text.casefold() in {known.casefold() for _, known, _ in points}:
            refused.append((place, "repeats a point of view", text[:60]))
        else:
            points.append((place, text, numbers))
    return points, refused


def _find_list(reply: str) -> Any:
    """The one list of objects in a reply, or what the whole reply is. Raises: ValueError for no
    JSON, or two lists.
    """
    lists: list[Any] = []
    place = 0
    while start := _LIST.search(reply, place):
        try:
            value, place = json.JSONDecoder().raw_decode(reply, start.start())
        except json.JSONDecodeError:
            place = start.end()
        else:
            if value not in lists:
                lists.append(value)
    if len(lists) > 1:
        raise ValueError(f"{len(lists)} different lists")
    return lists[0] if lists else json.loads(reply)


def _cut(documents: pd.DataFrame) -> pd.DataFrame:
    """Documents as they are; those of a question that are too long together, each cut to an equal
    share of the room.
    """
    lengths = documents.text.str.len().groupby(documents.id)
    most = (ROOM // lengths.transform("size")).where(lengths.transform("sum") > ROOM, ROOM)
    return documents.assign(text=[text[:length] for text, length in zip(documents.text, most, strict=True)])


def _anchor(texts: pd.DataFrame, sentences: pd.DataFrame, embedder: Embedder) -> pd.DataFrame:
    """Each text with the document and place of the nearest sentence, and its cosine; NaN and ""
    without sentences.
    """
    if sentences.empty:
        return texts.assign(document="", place=0, cosine=np.nan)
    cosines = embedder.embed_sentences(texts.text.tolist()) @ embedder.embed_sentences(sentences.text.tolist()).T
    nearest = sentences[["document", "place"]].iloc[cosines.argmax(axis=1)].reset_index(drop=True)
    return texts.join(nearest).assign(cosine=cosines.max(axis=1))
