"""Rows for short ground truth: what is drawn, trained on, compared and said."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from test_listwise import StubEmbedder

from nfqa.data.records import Answer, Question, QuestionSet
from nfqa.lab.experiments.agreement import draw_seeds
from nfqa.lab.experiments.generated import (
    describe_lists,
    draw_lists,
    draw_systems,
    measure_lists,
    share_candidates,
    train_on_lists,
)
from nfqa.lab.experiments.levels import measure_levels, measure_references, measure_retrieved
from nfqa.metrics.listwise import collect_training_rows, find_fold, fit_scorer
from nfqa.metrics.references import Draw


class Embedder(StubEmbedder):
    """Notes what it is told to prepare."""

    prepared: tuple[str, ...] = ()

    def prepare(self, texts: Iterable[str]) -> int:
        self.prepared += tuple(texts)
        return 0


def make_set(name: str, count: int, start: int = 0) -> QuestionSet:
    """Questions whose answers are marked with the question's number."""
    questions = []
    for q in range(start, start + count):
        texts = [f"number {q} says {i} first. It is so{' and so' * (i % 5)}. Then {q} rests." for i in range(14)]
        questions.append(
            Question(f"what of {q}?", tuple(Answer(f"{q}-{i}", t, (i + q) % 4) for i, t in enumerate(texts)))
        )
    return QuestionSet(name, tuple(questions), "sample", "0")


ANTIQUE, TREC = make_set("sample_antique", 12), make_set("sample_trec_dl_nf", 6, 100)


@pytest.mark.parametrize("truth", ["one", "none"])
def test_foreign_texts_are_never_the_questions_own(truth) -> None:
    embedder = Embedder()
    draws = draw_lists(ANTIQUE, embedder, truth=truth, n_seeds=2)
    assert (len(draws), len(draws[0])) == (2, 12)
    for row in draws:
        for draw in row:
            assert len(draw.references) == 4
            own = draw.question.text.split()[-1].strip("?")
            worst = draw.references[-1].text
            if truth == "none":
                assert worst.split()[1] != own
                assert all(answer.text.split()[1] == own for answer in draw.references[:-1])
    assert set(embedder.prepared) == {answer.text for row in draws for draw in row for answer in draw.references}


def test_an_unknown_truth_and_no_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="truth is 'two'; expected 'one'"):
        draw_lists(ANTIQUE, Embedder(), truth="two", n_seeds=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_seeds is 0"):
        draw_lists(ANTIQUE, Embedder(), truth="one", n_seeds=0)


def test_a_question_is_never_judged_by_a_scorer_that_saw_its_fold() -> None:
    embedder = Embedder()
    lists = draw_lists(ANTIQUE, embedder, truth="one", n_seeds=2)
    scorers = train_on_lists(lists, ANTIQUE, embedder)
    rows = [collect_training_rows(column, embedder) for column in zip(*lists, strict=True)]
    for question, scorer in zip(ANTIQUE.questions, scorers, strict=True):
        others = [
            row
            for row, other in zip(rows, ANTIQUE.questions, strict=True)
            if find_fold(other) != find_fold(question)
        ]  # fmt: skip
        np.testing.assert_array_equal(scorer.weights, fit_scorer(others).weights)
    elsewhere = train_on_lists(lists, TREC, embedder)
    assert {scorer.trained_on for scorer in elsewhere} == {12}


def test_shared_candidates_are_those_that_both_lists_leave() -> None:
    a, b, c, d = (Answer(name, name, 0) for name in "abcd")
    question = Question("q?", (a, b, c, d))
    ours, theirs = Draw(question, (a,), (b, c, d)), Draw(question, (b,), (a, c, d))
    left, right = share_candidates([[ours]], [[theirs]])
    assert left[0][0].candidates == right[0][0].candidates == (c, d)
    assert (left[0][0].references, right[0][0].references) == ((a,), (b,))
    dropped = Draw(question, (), (), "no_generated_list")
    left, right = share_candidates([[dropped]], [[theirs]])
    assert left[0][0].dropped == right[0][0].dropped == "no_generated_list"
    assert right[0][0].candidates == ()


@pytest.mark.parametrize(("truth", "suffix"), [("one", "1gt"), ("none", "0gt")])
def test_rows_stand_for_each_form_and_their_differences_are_on_equal_candidates(truth, suffix) -> None:
    rows = measure_lists(TREC, ANTIQUE, Embedder(), truth=truth, n_seeds=2, resamples=50)
    found = {(row.system, row.metric): row for row in rows}
    assert len(found) == len(rows)
    for form in ("zero_shot", "trained"):
        name = f"linkage_embedded_{form}"
        for system in (f"{name}_{suffix}", f"{name}_{suffix}_rank", f"rouge1_{suffix}"):
            assert {metric for s, metric in found if s == system} >= {"kendall", "spearman"}
            assert (system, "pearson") not in found
        ours, graded = found[f"{name}_{suffix}_shared", "spearman"], found[f"{name}_graded_list", "spearman"]
        less = found[f"{name}_{suffix}", "spearman_less_graded_list"]
        assert (ours.n, ours.n_dropped) == (graded.n, graded.n_dropped) == (less.n, less.n_dropped)
        assert less.value == pytest.approx(ours.value - graded.value)
        assert f"list:{suffix}" in less.signature
    assert f"fitted_on:{suffix}" in found[f"linkage_embedded_trained_{suffix}", "spearman"].signature
    assert any(f"{'one' if truth == 'one' else 'no'} known answer" in line for line in describe_lists(rows))


def test_the_unseen_half_stands_apart_on_antique() -> None:
    rows = measure_lists(ANTIQUE, ANTIQUE, Embedder(), truth="none", n_seeds=1, resamples=50)
    assert {row.dataset for row in rows} == {"sample_antique", "sample_antique_unseen"}


def test_levels_are_judged_beside_a_list_without_the_truth() -> None:
    rows = measure_levels(TREC, Embedder(), n_seeds=2, resamples=50)
    found = {(row.system, row.metric): row for row in rows}
    assert set(found) == {(f"degraded_level_{k}", m) for k in range(4) for m in ("mean_score", "cos_question")} | {
        (f"degraded_level_{k}", "share_below") for k in (1, 2, 3)
    }
    assert all(row.n == 12 for row in rows)
    said = describe_lists(rows)
    assert len(said) == 1
    assert "levels 1, 2, 3" in said[0]


def test_which_references_are_looked_at_hangs_on_what_is_known() -> None:
    counted = {"n_seeds": 1, "resamples": 50}
    assert measure_references(TREC, Embedder(), truth="one", **counted) == measure_levels(TREC, Embedder(), **counted)
    none = measure_references(TREC, Embedder(), truth="none", **counted)
    assert none == measure_retrieved(TREC, Embedder(), **counted)


def test_a_question_without_other_answers_counts_as_left_out_of_the_levels() -> None:
    alone = QuestionSet("sample_trec_dl_nf", (Question("why?", (Answer("a", "Because it is.", 3),)),), "sample", "0")
    both = QuestionSet(alone.name, alone.questions + TREC.questions[:1], "sample", "0")
    row = measure_levels(both, Embedder(), n_seeds=1, resamples=50)[0]
    assert (row.n, row.n_dropped, row.dropped_because) == (1, 1, {"no_other_reference": 1})


def test_labels_of_retrieved_references_are_averaged_by_the_grade_they_stand_for() -> None:
    plane = {"q?": (1, 0), "near": (0.8, 0.6), "mid": (0.6, 0.8), "far": (0, 1), "why?": (0, 1), "else": (0, 1)}
    answers = (Answer("a", "far", 0), Answer("b", "near", 2), Answer("c", "mid", 1))
    questions = (Question("q?", answers), Question("why?", (Answer("d", "else", 3),)))
    dataset = QuestionSet("sample_trec_dl_nf", questions, "sample", "0")
    found = {row.system: row for row in measure_retrieved(dataset, Embedder(plane), n_seeds=1, resamples=50)}
    # grade 3: near (2) and else (3); grade 2: mid (1), the other question has none; grade 1: far (0)
    assert [found[f"retrieved_grade_{grade}"].value for grade in (3, 2, 1)] == [2.5, 1.0, 0.0]
    assert found["retrieved_grade_2"].dropped_because == {"short_list": 1}
    assert any("2.50, 1.00, 0.00" in line for line in describe_lists(list(found.values())))


def test_graded_lists_of_equal_seed_hold_the_known_answer() -> None:
    for row, graded in zip(
        draw_lists(TREC, Embedder(), truth="one", n_seeds=3), draw_seeds(TREC, n_seeds=3), strict=True
    ):
        assert [draw.best.text for draw in row] == [draw.best.text for draw in graded]


def test_published_systems_stand_above_ours_in_the_figure() -> None:
    from matplotlib import pyplot as plt
    from test_shots import Leaves

    rows = measure_lists(TREC, ANTIQUE, Embedder(), truth="none", n_seeds=1, resamples=50)
    lab = Leaves(
        [("pairwise", "sample_trec_dl_nf", "spearman", 0.25), ("pairwise", "sample_trec_dl_nf", "kendall", 0.1)]
    )
    figure = draw_systems(lab, rows)  # type: ignore[arg-type]
    (axes,) = figure.axes
    systems = [label.get_text() for label in axes.get_yticklabels()]
    assert systems[0] == "pairwise"
    assert len(systems) == len({row.system for row in rows if row.metric == "spearman"}) + 1
    (diamond,) = (line for line in axes.lines if line.get_marker() == "D")
    assert (list(diamond.get_xdata()), list(diamond.get_ydata())) == ([0.25], [len(systems) - 1])
    plt.close(figure)
