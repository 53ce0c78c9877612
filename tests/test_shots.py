"""Rows by the number of training questions: who may teach, how they are drawn, and that the ends are what they were."""

from __future__ import annotations

import numpy as np
import pytest
from test_generated import make_set
from test_listwise import StubEmbedder as Embedder

from nfqa.data.records import QuestionSet
from nfqa.lab.experiments.agreement import draw_seeds, measure_judge, train_scorers, use_zero_shot
from nfqa.lab.experiments.shots import SIZES, describe_shots, fit_few, measure_shots
from nfqa.metrics.listwise import find_fold, fit_scorer, make_training_rows

LIST = (3, 2, 1, 0)
ANTIQUE, TREC = make_set("sample_antique", 12), make_set("sample_trec_dl_nf", 6, 100)


def teach(dataset: QuestionSet):
    return [(question, make_training_rows(question, LIST, Embedder())) for question in dataset.questions]


def test_a_question_is_never_judged_by_a_head_fitted_on_its_own_fold() -> None:
    taught = teach(ANTIQUE)
    scorers = fit_few(ANTIQUE, taught, count=None, seed=0)
    for question, scorer in zip(ANTIQUE.questions, scorers, strict=True):
        others = [rows for other, rows in taught if find_fold(other) != find_fold(question)]
        np.testing.assert_allclose(scorer.weights, fit_scorer(others).weights, rtol=1e-9, atol=1e-12)
        assert scorer.trained_on == len(others)


def test_training_questions_are_nested_and_hang_on_the_seed() -> None:
    taught = teach(ANTIQUE)
    one = {fit_few(TREC, taught, count=1, seed=seed)[0].weights.tobytes() for seed in range(12)}
    assert 1 < len(one) <= 12
    # the first of an order drawn from reversed questions is the first all the same
    again = fit_few(TREC, taught[::-1], count=1, seed=3)[0]
    np.testing.assert_array_equal(again.weights, fit_few(TREC, taught, count=1, seed=3)[0].weights)
    alone = [(q, rows) for q, rows in taught if np.array_equal(fit_scorer([rows]).weights, again.weights)]
    assert len(alone) == 1  # fitted on one question, and on it alone
    three = fit_few(TREC, taught, count=3, seed=3)[0]
    pairs = [
        fit_scorer([alone[0][1], a[1], b[1]]).weights
        for i, a in enumerate(taught) for b in taught[i + 1 :] if alone[0][0] not in (a[0], b[0])
    ]  # fmt: skip
    assert any(
        np.allclose(weights, three.weights, rtol=1e-9, atol=1e-12) for weights in pairs
    )  # the one is among the three


def test_too_few_training_questions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"12 training questions outside fold None, but 13 are asked for"):
        fit_few(TREC, teach(ANTIQUE), count=13, seed=0)


@pytest.mark.parametrize("dataset", [ANTIQUE, TREC], ids=lambda dataset: dataset.name)
def test_the_ends_of_the_curve_are_the_zero_shot_and_the_trained_judge(dataset: QuestionSet) -> None:
    embedder = Embedder()
    rows = measure_shots(dataset, ANTIQUE, embedder, n_seeds=3, short="partial", resamples=50)
    found = {(row.system, row.metric): row for row in rows}
    assert len(found) == len(rows)
    draws = draw_seeds(dataset, n_seeds=3)
    ends = {"0": use_zero_shot(dataset), "_all": train_scorers(ANTIQUE, dataset, embedder)}
    for size, scorers in ends.items():
        known = measure_judge(dataset, draws, scorers, embedder, system="known", resamples=50, conditions="")
        for row in known:
            if (row.system, row.dataset) == ("known", dataset.name):
                ours = found[f"linkage_embedded_n{size}", row.metric]
                assert ours.value == pytest.approx(row.value, abs=1e-9)
                assert (ours.n, ours.n_dropped, ours.dropped_because) == (row.n, row.n_dropped, row.dropped_because)


def test_sizes_that_the_folds_cannot_fill_are_left_out() -> None:
    rows = measure_shots(TREC, ANTIQUE, Embedder(), n_seeds=2, short="partial", resamples=50)
    systems = list(dict.fromkeys(row.system for row in rows))
    assert systems == [f"linkage_embedded_n{n}" for n in SIZES if n < 12] + ["linkage_embedded_n_all"]
    one = next(row for row in rows if row.system == "linkage_embedded_n1")
    assert "trained_on:1|" in one.signature
    assert "drawn_from:12_of_12" in one.signature


def test_questions_that_cannot_teach_are_not_drawn() -> None:
    short = make_set("sample_antique", 3)
    mute = QuestionSet(
        "sample_antique", tuple(type(q)(q.text, q.answers[:4]) for q in short.questions), "sample", "0"
    )  # all four answers are references: no candidate is left to learn from
    rows = measure_shots(TREC, mute, Embedder(), n_seeds=2, short="partial", resamples=50)
    assert {row.system for row in rows} == {"linkage_embedded_n0"}
    assert "drawn_from:0_of_3" in rows[0].signature
    assert describe_shots(rows) == ["No training question teaches here, so there is no curve."]


def test_differences_are_to_no_training_and_are_said() -> None:
    rows = measure_shots(TREC, ANTIQUE, Embedder(), n_seeds=2, short="partial", resamples=50)
    found = {(row.system, row.metric): row for row in rows}
    base = found["linkage_embedded_n0", "spearman"]
    for system in ("linkage_embedded_n1", "linkage_embedded_n_all"):
        less = found[system, "spearman_less_n0"]
        assert less.value == pytest.approx(found[system, "spearman"].value - base.value)
    assert ("linkage_embedded_n0", "spearman_less_n0") not in found
    said = describe_shots(rows)
    assert said[0].startswith("Spearman less that of no training question, by training questions: 1 ")
    assert "all " in said[0]
    assert len(said) == 3
