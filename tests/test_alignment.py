"""Metrics held against people on made-up ratings: rankings, correlations and what is left out, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nfqa.data.records import Answer, PartialAnswer, Question, QuestionSet, Rating
from nfqa.lab.experiments import alignment, alignment_people, alignment_stability
from nfqa.lab.experiments.alignment_people import read_people
from nfqa.lab.experiments.alignment_scores import Scored, open_evaluators, score_baselines, score_diversity
from nfqa.models.evaluator import TargetLoss

NAN = float("nan")
SYSTEMS = ("a", "b", "c")


def make_question(number: int, ratings: dict[str, list[float]], sides: dict[str, str] | None = None) -> Question:
    """A question whose raters each have a view; NaN is an answer that was not rated."""
    views = [
        PartialAnswer(f"{number}.{name}", f"view of {name}", stance=(sides or {}).get(name, "")) for name in ratings
    ]
    answers = tuple(Answer(system, f"answer {system} to {number}.", system=system) for system in SYSTEMS)
    given = tuple(
        Rating(name, f"{number}.{name}", system, int(value))
        for name, row in ratings.items()
        for system, value in zip(SYSTEMS, row, strict=True)
        if not np.isnan(value)
    )
    return Question(f"question {number}?", answers, (), str(number), tuple(views), given)


def make_set(*questions: Question) -> QuestionSet:
    return QuestionSet("made_up", questions, "measured", "0")


def make_scores(table: list[list[float]], **options: object) -> Scored:
    return Scored("made", np.array(table, dtype=float), "by:hand", "nfqa.made:up", **options)  # type: ignore[arg-type]


def find(rows, metric, system="made"):
    (row,) = [row for row in rows if (row.system, row.metric) == (system, metric)]
    return row


# Annotator x rates 5 3 1 and y 1 3 5 on question 0; z, alone on question 1, rates all alike.
OPPOSED = make_set(make_question(0, {"x": [5, 3, 1], "y": [1, 3, 5]}), make_question(1, {"z": [2, 2, 2]}))


def test_ratings_become_a_table_without_names():
    people = read_people(OPPOSED)
    np.testing.assert_array_equal(people.ratings[:, 0], [[5, 3, 1], [1, 3, 5], [NAN] * 3])
    np.testing.assert_array_equal(people.views, [[0, -1], [1, -1], [-1, 0]])
    np.testing.assert_array_equal(people.asked, [[True, False], [True, False], [False, True]])
    np.testing.assert_array_equal(people.mean_ratings, [[3, 3, 3], [2, 2, 2]])


def test_a_set_without_ratings_and_an_answer_rated_twice_are_refused():
    with pytest.raises(ValueError, match="made_up has no ratings by people"):
        read_people(make_set(Question("why?", id="1")))
    question = make_question(0, {"x": [5, 3, 1]})
    twice = replace(question, ratings=question.ratings * 2)
    with pytest.raises(ValueError, match="made_up, question 0: an annotator rated a twice; keep one"):
        read_people(make_set(twice))


@pytest.mark.parametrize("rule", alignment_people.RULES)
def test_each_annotator_has_a_ranking_of_his_own(rule):
    found = read_people(OPPOSED).rate_each(rule)
    assert found[0][0] > found[0][1] > found[0][2]
    assert found[1][0] < found[1][1] < found[1][2]
    assert len(set(np.round(found[2], 6))) == 1
    partly = read_people(make_set(make_question(0, {"x": [5, 3, NAN]}))).rate_each(rule)
    assert np.isnan(partly[0]).tolist() == [False, False, True]


def test_bradley_terry_of_an_annotator_by_hand():
    # a is preferred to b; with 0.1 ties between all pairs a has 1.05 + 0.05 wins, and with strengths p, 1/p and 1 it is
    # expected to have 1.1 p / (p + 1/p) + 0.1 p / (p + 1): p = 3.612 solves it
    (found,) = read_people(make_set(make_question(0, {"x": [5, 3, NAN]}))).rate_each("bt")
    p = np.exp((found[0] - found[1]) / 2)
    assert p == pytest.approx(3.612, abs=1e-3)
    assert 1.1 * p / (p + 1 / p) + 0.1 * p / (p + 1) == pytest.approx(1.1, abs=1e-6)


@pytest.mark.parametrize("rule", alignment_people.RULES)
def test_the_others_are_all_but_the_annotator_on_the_same_questions(rule):
    dataset = make_set(
        make_question(0, {"x": [5, 3, 1], "y": [1, 3, 5], "w": [1, 3, 5]}), make_question(1, {"y": [5, 3, 1]})
    )
    others = read_people(dataset).rate_others(rule)  # annotators in order: w, x, y
    assert others[1][0] < others[1][1] < others[1][2]  # x by y and w on question 0 alone
    assert np.ptp(others[0]) < np.ptp(others[1])  # w by x and y, who are opposed
    alone = read_people(OPPOSED).rate_others(rule)
    assert np.isnan(alone[2]).all()


def test_a_resample_of_everyone_once_is_the_ranking_of_all():
    people = read_people(OPPOSED)
    drawn = people.resample_together("bt", resamples=50, seed=1)
    assert drawn.shape == (50, 3)
    # x and y equally often cancel out; x more often puts system a first
    assert {int(np.sign(np.round(row[0] - row[2], 6))) for row in drawn} == {-1, 0, 1}
    means = people.resample_means(resamples=50, seed=1)
    assert np.nanmax(means[:, 0, 0]) == 5
    assert np.isnan(means).any()  # z was not drawn in some


def test_the_metric_is_compared_with_each_annotator_and_averaged():
    people = read_people(OPPOSED)
    rows = alignment.compare_with_annotators(OPPOSED, people, [make_scores([[3, 2, 1], [1, 2, 3]])], resamples=50)
    for rule in ("elo", "bt"):
        row = find(rows, f"spearman_{rule}")
        assert row.value == pytest.approx(0)  # 1 with x, -1 with y
        assert (row.n, row.n_dropped, row.dropped_because) == (2, 1, {"constant_labels": 1})  # z
        assert (row.ci_low, row.ci_high) == (pytest.approx(-1), pytest.approx(1))
    ceiling = find(rows, "spearman_bt", "people_left_out")
    assert ceiling.value == pytest.approx(-1)  # x by y and y by x


def test_an_annotator_is_compared_on_the_own_questions_alone():
    dataset = make_set(make_question(0, {"x": [5, 3, 1]}), make_question(1, {"y": [1, 3, 5]}))
    metric = make_scores([[3, 2, 1], [100, 200, 300]])  # right on each; over both questions it would rank as y does
    rows = alignment.compare_with_annotators(dataset, read_people(dataset), [metric], resamples=20)
    assert find(rows, "kendall_bt").value == pytest.approx(1)


def test_the_metric_is_compared_with_all_together():
    dataset = make_set(make_question(0, {"x": [5, 3, 1], "y": [5, 4, 3], "z": [1, 1, 5]}))
    rows = alignment.compare_with_all(dataset, read_people(dataset), [make_scores([[3, 2, 1]])], resamples=1_000)
    # comparisons won: a over b 2.5 of 3, a over c 2, b over c 2: a, b, c
    row = find(rows, "spearman_bt_together")
    assert (row.value, row.n) == (pytest.approx(1), 3)
    assert row.ci_low == pytest.approx(-0.866, abs=1e-3)  # z alone, drawn in 1 of 27: a and b tie behind c


def test_a_missing_score_leaves_its_system_out():
    values, why = alignment.correlate_rows(
        np.array([[1, NAN, 3], [NAN, NAN, 1]]), np.array([[1, 9, 2], [1, 2, 3]]), "kendall"
    )
    assert values[0] == 1
    assert np.isnan(values[1])
    assert why == {"fewer_than_two": 1}


def test_what_a_metric_left_out_is_counted():
    dataset = make_set(make_question(0, {"x": [5, 3, 1]}))
    metrics = [make_scores([[1, NAN, NAN]], dropped={"unreadable": 2}), Scored("whole", np.ones((1, 3)), "s", "k:f")]
    (row,) = alignment.count_missing(dataset, metrics)
    assert (row.system, row.value, row.n) == ("made", pytest.approx(2 / 3), 3)
    assert row.dropped_because == {"unreadable": 2}


def test_rankings_of_two_metrics_by_hand():
    dataset = make_set(make_question(0, {"x": [1, 2, 3]}), make_question(1, {"x": [1, 2, 3]}))
    one = Scored("one", np.array([[3.0, 2.0, 1.0], [30.0, 20.0, 10.0]]), "s", "k:f")
    other = Scored("other", np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.5]]), "s", "k:f")
    rows = alignment_stability.compare_rankings(dataset, [one, other], resamples=50)
    # means 16.5 11 5.5 against 2 2 2.25: pairs tied, discordant, discordant: -2 / sqrt(2 * 3)
    assert find(rows, "systems_kendall_other", "one").value == pytest.approx(-2 / 6**0.5)
    assert find(rows, "answers_kendall_other", "one").value == pytest.approx(0)  # 1 and -1
    assert find(rows, "answers_kendall_mean", "over_pairs").n == 1
    assert not [row for row in rows if row.system == "over_pairs_no_cache"]
    table = alignment_stability.tabulate_pairs(rows, ["one", "other"], "answers")
    np.testing.assert_array_equal(table, [[NAN, 0], [0, NAN]])


def test_pairs_with_and_without_cache_are_averaged_apart():
    dataset = make_set(make_question(0, {"x": [1, 2, 3]}))
    tables = {"p": [3, 2, 1], "q": [3, 2, 1], "p_no_cache": [1, 2, 3], "q_no_cache": [1, 3, 2]}
    metrics = [Scored(name, np.array([row], dtype=float), "s", "k:f") for name, row in tables.items()]
    rows = alignment_stability.compare_rankings(dataset, metrics, resamples=5)
    means = {row.system: (row.value, row.n) for row in rows if row.metric == "answers_kendall_mean"}
    assert means["over_pairs_as_shipped"] == (pytest.approx(1), 1)
    assert means["over_pairs_no_cache"] == (pytest.approx(1 / 3), 1)
    # p q 1; p, q against 1 2 3: -1 each; against 1 3 2: -1/3 each; the two without cache 1/3
    assert means["over_pairs"] == (pytest.approx((1 - 2 - 2 / 3 + 1 / 3) / 6), 6)


class MadeUp:
    """An evaluator for which a view costs so many nats a word as its answer's system is far from "a"."""

    identity, cache = "path:made_up", None

    def score(self, items, settings):
        costs = {"a": 0.5, "b": 1.0, "c": 2.0}
        return [
            [TargetLoss(costs[item.context.split()[1]] * 3 * (i + 1), 3, 10) for i, _ in enumerate(item.targets)]
            for item in items
        ]


def test_p_d_has_its_sign_turned_and_keeps_single_views():
    dataset = make_set(make_question(0, {"x": [5, 3, 1], "y": [1, 3, 5]}))
    paper, geometric, released = score_diversity({"made": MadeUp()}, dataset, geometric=True)
    assert [metric.system for metric in (paper, geometric, released)] == [
        "pd_paper_made", "pd_geometric_made", "pd_released_made",
    ]  # fmt: skip
    # nats a token: view x 0.5, 1, 2 for systems a, b, c; view y twice that
    expected = [-(np.exp(cost) + np.exp(2 * cost)) for cost in (0.5, 1, 2)]
    np.testing.assert_allclose(paper.answers, [expected])
    np.testing.assert_allclose(paper.views[0], [[-np.exp(cost), -np.exp(2 * cost)] for cost in (0.5, 1, 2)])
    np.testing.assert_allclose(geometric.answers, [[-0.75, -1.5, -3]])
    assert not geometric.items
    # released: mean over views, 3 tokens of 10 attended less one
    np.testing.assert_allclose(released.answers[0][0], -(np.exp(1.5 / 9) + np.exp(3 / 9)) / 2)
    assert "sign:-" in paper.signature
    assert "agg:mean_log" in geometric.signature
    np.testing.assert_allclose(paper.score_view(0, 1), [-np.exp(1), -np.exp(2), -np.exp(4)])


class HandMade:
    """An embedder that knows two directions: that of system a's answers and views, and all else."""

    class spec:  # noqa: N801
        identity = "path:made_up"

    def prepare(self, texts):
        return 0

    def embed_sentences(self, texts):
        return np.array([(1.0, 0.0) if " a " in text or "x" in text else (0.0, 1.0) for text in texts])


def test_baselines_by_hand():
    dataset = make_set(make_question(0, {"x": [5, 3, 1], "y": [1, 3, 5]}))
    length, coverage, clusters = score_baselines(dataset, HandMade())
    assert length.answers.tolist() == [[4, 4, 4]]
    assert coverage.answers.tolist() == [[0.5, 0.5, 0.5]]
    assert coverage.views[0].tolist() == [[1, 0], [0, 1], [0, 1]]
    assert clusters.answers.tolist() == [[1, 1, 1]]
    assert coverage.score_view(0, 0).tolist() == [1, 0, 0]
    assert length.score_view(0, 0).tolist() == [4, 4, 4]


class Cached:
    """An evaluator that has a cache to lose, or none."""

    def __init__(self, cache):
        self.cache = cache


class Lab:
    """A lab with two evaluators that have a cache, the second of which is the role's, and one that has none."""

    def __init__(self):
        self.evaluator = Cached("cache")
        self.others = {"tiny": Cached("cache"), "small": self.evaluator, "plain": Cached(None)}

    def open_evaluators(self):
        return dict(self.others)

    def open_without_cache(self, evaluator):
        assert evaluator.cache
        return Cached(None)


@pytest.mark.parametrize(
    ("without_cache", "more"),
    [("none", []), ("default", ["small_no_cache"]), ("all", ["tiny_no_cache", "small_no_cache"])],
)
def test_evaluators_stand_there_without_their_cache_if_they_have_one(without_cache, more):
    found = open_evaluators(Lab(), without_cache=without_cache)
    assert list(found) == ["tiny", "small", "plain", *more]
    assert all(found[name].cache is None for name in more)
