"""Checking points of view in the place of annotators: duplicates, what is unanchored, what people or a judge reject."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import BeforeValidator

from nfqa.files.json_lines import Extra, Item, Name, check, read_number, refuse_twin
from nfqa.files.tables import parse_rows
from nfqa.metrics.judging import ask_planned, read_verdict
from nfqa.models.adapters import COVERAGE
from nfqa.models.chat import UNSETTLED, Request
from reproduction.debates.pipeline import Stage, list_dropped, say_cosine
from reproduction.debates.sourcing import remove_near_duplicates
from reproduction.studies.baselines import measure_each

if TYPE_CHECKING:
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.embed import Embedder

ADDRESSES = 0.3  # the cosine from which the embedder accepts a point of view: this project's, not tuned on any labels
# The coverage from which it accepts an explanation. Of half of Debatewise's held-out claims, nine in ten of the
# arguments that reach it for a title have this title, where as many have another one of the same claim.
SUPPORTS = 0.6
REJECTIONS = 2  # labels against a point of view that remove it: DebateQA, section A.4


def check_views(views: pd.DataFrame, embedder: Embedder, *, judge: LanguageJudge | None = None) -> Stage:
    """Points of view that are no duplicates and address the question, with explanations that state them.

    A duplicate has a cosine of 0.9 to another of its question. By the judge, one verdict of 0 or 1 is on both, and none
    that can be read removes the point of view. By the embedder, a point of view has a cosine of ADDRESSES to the
    question or more, and its explanation a coverage of it (`measure_each`) of SUPPORTS or more. Without an explanation
    of such coverage a point of view stays, its explanation "".

    Args: views: id, question, view, point_of_view, explanation.
    Returns: views, with addresses and supports (the cosines); what is dropped, a view or explanation for its first
        reason.
    Differs from: DebateQA, where three people make both decisions; an embedder sees neither truth nor contradiction.
    """
    if views.empty:
        return views.assign(addresses=0.0, supports=0.0), list_dropped("point of view", [], "")
    reasons, details = pd.Series("", views.index), pd.Series("", views.index)
    for _, part in views.groupby("id", sort=False):
        _, twins = remove_near_duplicates(part.assign(question=part.point_of_view), embedder)
        reasons[twins.index] = "duplicate"
        details[twins.index] = [f"cosine {row.cosine:.3f} with: {row.nearest}" for row in twins.itertuples()]
    stated, questions = (embedder.embed_sentences(views[name].tolist()) for name in ("point_of_view", "question"))
    supports = measure_each(views.explanation.tolist(), views.point_of_view.tolist(), embedder.tune(COVERAGE))
    views = views.assign(addresses=np.einsum("nd,nd->n", stated, questions), supports=supports)
    unchecked, unsupported = reasons == "", pd.Series(data=False, index=views.index)
    if judge is not None:
        reasons[unchecked], details[unchecked] = _ask(views[unchecked], judge)
    else:
        far = unchecked & (views.addresses < ADDRESSES)
        reasons[far] = "far from the question"
        details[far] = [say_cosine(cosine, ADDRESSES) for cosine in views.addresses[far]]
        unsupported = (reasons == "") & (views.explanation != "") & ~(views.supports >= SUPPORTS)
    dropped = list_dropped("point of view", views["view"], "").assign(reason=reasons.array, detail=details.array)
    cosines = [say_cosine(cosine, SUPPORTS) for cosine in views.supports[unsupported]]
    alone = list_dropped("explanation", views["view"][unsupported], "explanation far from it", cosines)
    views.loc[unsupported, "explanation"] = ""
    all_dropped = pd.concat([dropped[dropped.reason != ""], alone], ignore_index=True)
    return views[reasons == ""].reset_index(drop=True), all_dropped


def _ask(views: pd.DataFrame, judge: LanguageJudge) -> tuple[list[str], list[str]]:
    """Why the judge rejects each view, and more in words; both "" where it accepts it."""
    prompts, planned = judge.prompts, []
    for question, view, text in views[["question", "point_of_view", "explanation"]].itertuples(index=False):
        prompt = prompts.render("check_view", question=question, point_of_view=view, candidate=text)
        planned.append(Request(prompt, judge.seed, ("0", "1"), f"check_view|{question}"))
    verdicts = ask_planned(planned, judge, partial(read_verdict, pick=prompts.get("check_view").pick))
    none, details = verdicts.value.isna(), verdicts.value.map("verdict {:g}; 1 accepts".format)
    reasons = (
        ("no verdict (" + verdicts.reason + ")").where(none, "").mask(verdicts.value < 0.5, "rejected by the judge")
    )
    details = details.mask(none, "no 0 or 1 could be read from the judge's reply")
    return reasons.tolist(), details.mask(verdicts.reason.isin(UNSETTLED), "the judge could not be asked").tolist()


class _Label(Item):
    item: Name
    annotator: Name
    task: Name = ""
    label: Annotated[Literal[0, 1], BeforeValidator(read_number)]


def read_labels(path: Path) -> pd.DataFrame:
    """Labels of several people, a CSV of item (a point of view's id), annotator, label (1 accepts, 0 rejects).

    A column task says which of several questions on the item a label answers, as DebateQA's two of each.
    Returns: item, annotator (a number from 1, by the order of their names: no name is kept), task ("" without that
        column), label.
    Raises: ValueError naming the line for a missing column or cell, another label, or an item that one labels twice
        for a task.
    """
    rows: list[dict[str, Any]] = []
    seen: dict[tuple[str, str], str] = {}
    for _, where, cells in parse_rows(str(path), path.read_bytes(), Counter()):
        row = check(_Label, cells, where, Extra(Counter()))
        task = f" for {row.task}" if row.task else ""
        refuse_twin(seen, where, f"the item that {row.annotator} labels{task}", row.item)
        rows.append(row.model_dump())
    if not rows:
        raise ValueError(f"{path}: holds no label; expected a CSV in UTF-8 with item, annotator, label")
    table = pd.DataFrame(rows)
    return table.assign(annotator=pd.factorize(table.annotator, sort=True)[0] + 1)


def remove_rejected(views: pd.DataFrame, labels: pd.DataFrame) -> Stage:
    """Points of view that fewer than `REJECTIONS` people reject in each task; labels of others are counted as dropped.

    Args: labels: item, task, label, as `read_labels` gives them.
    Source: DebateQA, section A.4, where three people label each for two tasks, so that two are a majority.
    Raises: ValueError where no label is of a point of view that is there.
    """
    known = labels[labels["item"].isin(views["view"])]
    if known.empty and len(views):
        what = f"none of {len(labels)} labels is of a point of view of this run"
        raise ValueError(f"{what}, as {views['view'].iloc[0]!r} is; use the labels of this run")
    rejected = (known.label == 0).groupby([known["item"], known.task]).sum().groupby("item").max()
    against = views["view"].map(rejected).fillna(0).astype(int)
    gone = against >= REJECTIONS
    details = [f"{count} labels against it; {REJECTIONS} remove it" for count in against[gone]]
    strays = labels["item"].drop(known.index)
    detail = "it was dropped by an earlier step, or is of another run"
    dropped = [
        list_dropped("point of view", views["view"][gone], "rejected by people", details),
        list_dropped("label", strays, "of no point of view at hand", detail),
    ]
    return views[~gone].reset_index(drop=True), pd.concat(dropped, ignore_index=True)
