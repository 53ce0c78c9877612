"""What people said of systems' answers: a table of ratings, and the rankings that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.rating import Preferences, derive_preferences, rate_bradley_terry, rate_elo
from nfqa.kernels.resample import draw_counts

Rule = Literal["elo", "bt"]
RULES: tuple[Rule, ...] = ("elo", "bt")
# Shuffles of the comparisons over which Elo is averaged: an annotator's are few, those of all differ by little.
ORDERS, ORDERS_TOGETHER = 20, 200
RULE_SIGNATURES = {"elo": f"elo:k4,shuffles{ORDERS}", "bt": "bradley_terry:prior0.1"}
TOGETHER_SIGNATURES = {**RULE_SIGNATURES, "elo": f"elo:k4,shuffles{ORDERS_TOGETHER}"}


@dataclass(frozen=True)
class People:
    """Ratings of answers by annotators, who are numbers here: no identifier is kept.

    ratings: [A, Q, S], NaN where there is none. views: [A, Q], the place of the annotator's own view among the
    question's partial answers, -1 for none. sides: [A, Q], "for", "against" or "".
    """

    systems: tuple[str, ...]
    ratings: NDArray[np.float64]
    views: NDArray[np.int64]
    sides: NDArray[np.str_]

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Whether an annotator rated two systems or more on a question, [A, Q]."""
        return np.asarray((~np.isnan(self.ratings)).sum(2) >= 2)

    @cached_property
    def mean_ratings(self) -> NDArray[np.float64]:
        """The mean rating of each answer over its annotators, [Q, S]."""
        return weigh_ratings(self.ratings, np.ones((1, len(self.ratings))))[0]

    def resample_means(self, *, resamples: int, seed: int = 0) -> NDArray[np.float64]:
        """The mean ratings under resampled annotators, [R, Q, S]; NaN where none of an answer's was drawn."""
        return weigh_ratings(self.ratings, draw_counts(len(self.ratings), resamples=resamples, seed=seed))

    @cached_property
    def comparisons(self) -> tuple[Preferences, NDArray[np.int64], NDArray[np.int64]]:
        """Every pair of systems that an annotator rated on a question, and the annotator and question of each."""
        a, q, s = np.nonzero(~np.isnan(self.ratings))
        preferences, group = derive_preferences(self.ratings[a, q, s], s, a * self.ratings.shape[1] + q)
        return preferences, *np.divmod(group, self.ratings.shape[1])

    def rate_each(self, rule: Rule) -> NDArray[np.float64]:
        """Every annotator's own rating of the systems, [A, S]; NaN for a system that was compared with none."""
        preferences, annotators, _ = self.comparisons
        table = np.full((len(self.ratings), len(self.systems)), np.nan)
        for a in np.unique(annotators):
            own = preferences.take(annotators == a)
            compared = np.union1d(own.left, own.right)
            table[a, compared] = rate(own, rule, len(self.systems))[compared]
        return table

    def rate_others(self, rule: Rule) -> NDArray[np.float64]:
        """For every annotator, the rating by all others on the same questions, [A, S]; NaN where there are none."""
        table = np.full((len(self.ratings), len(self.systems)), np.nan)
        for a, questions in enumerate(self.asked):
            if questions.any():
                kept = np.where(questions[None, :, None], self.ratings, np.nan)
                kept[a] = np.nan
                others = People(self.systems, kept, self.views, self.sides)
                preferences, *_ = others.comparisons
                if len(preferences):
                    table[a] = rate(preferences, rule, len(self.systems))
        return table

    def rate_together(self, rule: Rule) -> NDArray[np.float64]:
        """The rating by all annotators' comparisons together, [S]."""
        return rate(self.comparisons[0], rule, len(self.systems), orders=ORDERS_TOGETHER)

    def resample_together(self, rule: Rule, *, resamples: int, seed: int = 0) -> NDArray[np.float64]:
        """The same under resampled annotators, [R, S]. Elo is run once, in one shuffled order, in each: its interval
        holds the luck of the order too."""
        preferences, annotators, _ = self.comparisons
        draws = []
        for number, counts in enumerate(draw_counts(len(self.ratings), resamples=resamples, seed=seed)):
            weights = counts[annotators]
            if rule == "bt":
                draws.append(rate_bradley_terry(preferences, systems=len(self.systems), weights=weights))
            else:
                drawn = preferences.take(np.repeat(np.arange(len(preferences)), weights.astype(np.int64)))
                draws.append(rate_elo(drawn, systems=len(self.systems), orders=1, seed=number))
        return np.array(draws)


def read_people(dataset: QuestionSet) -> People:
    """The ratings of a data set as one table.

    Raises: ValueError for a set without ratings, or one answer rated twice by an annotator.
    """
    names = sorted({rating.annotator for question in dataset.questions for rating in question.ratings})
    if not names:
        raise ValueError(f"{dataset.name} has no ratings by people; use overton, or a set of the same shape")
    places = {name: number for number, name in enumerate(names)}
    systems = tuple(dataset.systems)
    ratings = np.full((len(names), len(dataset.questions), len(systems)), np.nan)
    views = np.full(ratings.shape[:2], -1, dtype=np.int64)
    sides = np.full(ratings.shape[:2], "", dtype="<U7")
    for q, question in enumerate(dataset.questions):
        texts = {part.id: number for number, part in enumerate(question.partial_answers)}
        for rating in question.ratings:
            a, s = places[rating.annotator], systems.index(rating.system)
            if not np.isnan(ratings[a, q, s]):
                raise ValueError(
                    f"{dataset.name}, question {question.id}: an annotator rated {rating.system} twice; keep one"
                )
            ratings[a, q, s] = rating.value
            views[a, q] = texts.get(rating.view, -1)
            if views[a, q] >= 0:
                sides[a, q] = question.partial_answers[views[a, q]].stance
    return People(systems, ratings, views, sides)


def rate(preferences: Preferences, rule: Rule, systems: int, *, orders: int = ORDERS) -> NDArray[np.float64]:
    """Elo in points, averaged over so many orders, or Bradley-Terry in nats, [S]."""
    if rule == "elo":
        return rate_elo(preferences, systems=systems, orders=orders)
    return rate_bradley_terry(preferences, systems=systems)


def weigh_ratings(ratings: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean ratings under weights of annotators [R, A], [R, Q, S]; equal means are equal to the last bit."""
    present = ~np.isnan(ratings)
    flat = np.where(present, ratings, 0.0).reshape(len(ratings), -1)
    total, count = weights @ flat, weights @ present.reshape(len(ratings), -1).astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = np.round(total / np.where(count > 0, count, np.nan), 9)
    return means.reshape(len(weights), *ratings.shape[1:])
