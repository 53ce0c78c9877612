"""Checking points of view in the place of annotators: duplicates, what is unanchored, what a judge
rejects.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nfqa.metrics.judging import ask_planned, read_verdict
from nfqa.models.chat import UNSETTLED, Request
from reproduction.debates.pipeline import Stage, list_dropped, say_cosine
from reproduction.debates.sourcing import remove_near_duplicates
from reproduction.studies.baselines import measure_each

if TYPE_CHECKING:
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.embed import Embedder

ADDRESSES = 0.3  # the cosine from which the embedder accepts a point of view: this project's, not tuned on any labels
# The cosine of its nearest sentence from which it accepts an explanation: of half of Debatewise's held-out claims, 8
# in 10 of the arguments that reach it for a title have this title, where as many have another one of the claim.
SUPPORTS = 0.6


def check_views(views: pd.DataFrame, embedder: Embedder, *, judge: LanguageJudge | None = None) -> Stage:
    """Points of view that are no duplicates and address the question, with explanations that state
    them.

    A duplicate has a cosine of 0.9 to another of its question. By the judge, one verdict of 0 or 1
    is on both, and none that can be read removes the point of view. By the embedder, a point of
    view has a cosine of ADDRESSES to the question or more, and its explanation SUPPORTS or more
    (`measure_each`). Without such an explanation a point of view stays, its explanation "".

    Args: views: id, question, view, point_of_view, explanation.
    Returns: views, with addresses and supports (the cosines); what is dropped, a view or
        explanation for its first reason.
    Differs from: DebateQA, where three people make both decisions; an embedder sees neither truth
        nor contradiction.
    """
    if views.empty:
        return views.assign(addresses=0.0, supports=0.0), list_dropped("point of view", [], "")
    reasons = pd.Series("", views.index)
    details = pd.Series("", views.index)
    for _, part in views.groupby("id", sort=False):
        _, twins = remove_near_duplicates(part.assign(question=part.point_of_view), embedder)
        reasons[twins.index] = "duplicate"
        details[twins.index] = [f"cosine {row.cosine:.3f} with: {row.nearest}" for row in twins.itertuples()]
    stated, questions = (embedder.embed_sentences(views[name].tolist()) for name in ("point_of_view", "question"))
    supports = measure_each(views.explanation.tolist(), views.point_of_view.tolist(), embedder)
    views = views.assign(addresses=np.einsum("nd,nd->n", stated, questions), supports=supports)
    unchecked = reasons == ""
    unsupported = pd.Series(data=False, index=views.index)
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
    prompts = judge.prompts
    planned = []
    for question, view, text in views[["question", "point_of_view", "explanation"]].itertuples(index=False):
        prompt = prompts.render("check_view", question=question, point_of_view=view, candidate=text)
        planned.append(Request(prompt, judge.seed, ("0", "1"), f"check_view|{question}"))
    verdicts = ask_planned(planned, judge, partial(read_verdict, pick=prompts.get("check_view").pick))
    none = verdicts.value.isna()
    details = verdicts.value.map("verdict {:g}; 1 accepts".format)
    reasons = (
        ("no verdict (" + verdicts.reason + ")").where(none, "").mask(verdicts.value < 0.5, "rejected by the judge")
    )
    details = details.mask(none, "no 0 or 1 could be read from the judge's reply")
    return reasons.tolist(), details.mask(verdicts.reason.isin(UNSETTLED), "the judge could not be asked").tolist()
