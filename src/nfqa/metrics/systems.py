"""Comparing systems that answer the same questions: means and shares of wins, frame to frame.

A system's name is a value of the column `system`, whatever it is; "" is that of answers that name none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nfqa.metrics.statistics import iterate_groups, list_conditions


def add_unscored(scores: pd.DataFrame, answers: pd.DataFrame, *, missing: str) -> pd.DataFrame:
    """Scores with a row for every answer under every set of conditions.

    Args: scores: dataset, question, answer, score, missing, and conditions; answers: as `QuestionSet.answers`; missing:
        the reason where an answer has no row yet.
    Returns: the columns of `answers` but text, and those of `scores`; in the order of the answers.
    """
    named = answers.drop(columns="text")
    own = scores.drop(columns=["system", "grade", "text"], errors="ignore")
    frames = [named.merge(group, how="left").assign(**key).fillna({"missing": missing}) for key, group in _split(own)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def leave_out_flagged(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores without those of answers that have `flags`: these are missing as "flagged", for means and wins alike."""
    flagged = scores["flags"] != ""
    missing = scores.missing.mask(flagged & (scores.missing == ""), "flagged")
    return scores.assign(score=scores.score.mask(flagged), ten=scores.ten.mask(flagged), missing=missing)


def add_wins(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores with the column `wins`: the share of other systems' scored answers to its question that an answer beats.

    A tie counts half, and so does a difference below 1e-12: rounding, or the underflow of an unsmoothed BLEU. NaN for
    an answer without a score or a system, and where no other system has a score. The rows of `scores` have an index of
    their own each.
    """
    wins = pd.Series(np.nan, scores.index)
    for _, group in _split(scores):
        named = group[(group.system != "") & group.score.notna()].rename_axis("row").reset_index()
        pairs = named.merge(named, on="question", suffixes=("", "_other"))
        pairs = pairs[pairs.system != pairs.system_other]
        won = (np.sign((pairs.score - pairs.score_other).round(12)) + 1) / 2
        wins.update(won.groupby(pairs.row).mean())
    return scores.assign(wins=wins)


def measure_systems(scores: pd.DataFrame, column: str, *, named: str, questions: Sequence[str]) -> pd.DataFrame:
    """Each system's mean of a column over its answers to each question: measurements, for `statistics.average`.

    Args: scores: question, system, `column`, missing, and conditions; named: what the statistic is called; questions:
        all of them, in order: a question that a system has no value for is missing, with the reason.
    Returns: a row for each set of conditions, system and question.
    """
    frames = []
    for key, group in _split(scores, "system"):
        means = group.groupby("question", sort=False)[column].mean().reindex(questions)
        why = group[group.missing != ""].groupby("question", sort=False).missing.first().reindex(questions)
        reasons = why.fillna("no such answer").where(means.isna(), "")
        found = {"statistic": named, "measured": means.to_numpy(), "missing": reasons.to_numpy()}
        frames.append(pd.DataFrame({"question": list(questions), **found}).assign(**key))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _split(scores: pd.DataFrame, *others: str) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each set of conditions, by name, with its rows, in order of first appearance."""
    return iterate_groups(scores, [*list_conditions(scores, "question"), *others])
