"""People who rate answers to the same questions, or wrote their points of view: the unit that was drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd


def group_raters(ratings: pd.DataFrame) -> pd.Series:
    """Raters who share questions, directly or through others: the number of each one's group.

    Returns: indexed by rater; groups are numbered from 1 in the order of their first questions.
    Source: connected components of the graph of raters and questions, by scipy.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    questions, asked = pd.factorize(ratings.question)
    raters, names = pd.factorize(ratings.rater, sort=True)
    size = len(asked) + len(names)
    graph = coo_matrix((np.ones(len(ratings)), (questions, len(asked) + raters)), shape=(size, size))
    labels = pd.factorize(connected_components(graph, directed=False)[1])[0]  # the questions come first
    return pd.Series(labels[len(asked) :] + 1, index=pd.Index(names, name="rater"), name="group")


def add_groups(measurements: pd.DataFrame, ratings: pd.DataFrame) -> pd.DataFrame:
    """Measurements of questions with the column `group`: the number of the raters who share them, as `group_raters`."""
    group = ratings.rater.map(group_raters(ratings)).groupby(ratings.question).first()
    return measurements.assign(group=measurements.question.map(group))
