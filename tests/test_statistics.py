"""From scores to values: correlation in groups, averages, shares and paired differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from nfqa.kernels.intervals import draw_counts, estimate_difference, estimate_mean, find_interval
from nfqa.metrics.statistics import COEFFICIENTS, average, correlate, pool, subtract
from reproduction.studies.rankings import find_intervals, resample_means


def make_scores(questions: int = 6, seeds: int = 2, answers: int = 7) -> pd.DataFrame:
    generator = np.random.default_rng(1)
    rows = [
        (f"q{9 - q}", seed, f"a{a}", float(generator.integers(4)), generator.normal())
        for q in range(questions) for seed in range(seeds) for a in range(answers)
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["question", "seed", "answer", "grade", "score"])
    return frame.assign(dataset="d", metric="m", missing="")


def test_correlations_are_scipys_in_each_group_whatever_the_order_of_rows() -> None:
    scores = make_scores()
    shuffled = scores.sample(frac=1, random_state=0)
    oracles = {"kendall": stats.kendalltau, "spearman": stats.spearmanr, "pearson": stats.pearsonr}
    for method in COEFFICIENTS:
        groups = scores.groupby(["question", "seed"])
        expected = pd.Series({key: oracles[method](group.score, group.grade)[0] for key, group in groups})
        for frame in (scores, shuffled):
            result = correlate(frame, methods=[method]).set_index(["question", "seed"]).measured
            np.testing.assert_allclose(result.sort_index(), expected, rtol=1e-12, atol=1e-15)


def test_what_has_no_coefficient_is_missing_with_its_reason_or_zero() -> None:
    scores = make_scores(questions=4, seeds=1, answers=3)
    scores.loc[scores.question == "q9", "score"] = 1.0
    scores.loc[scores.question == "q8", "grade"] = 2.0
    scores.loc[scores.index[scores.question == "q7"][:2], "score"] = np.nan  # an answer without a score is left out
    scores.loc[scores.question == "q6", ["score", "missing"]] = np.nan, "short_list"
    result = correlate(scores, methods=["spearman"]).set_index("question")
    reasons = {"q9": "constant_scores", "q8": "constant_labels", "q7": "fewer_than_two", "q6": "short_list"}
    assert result.missing.to_dict() == reasons
    assert result.measured.isna().all()
    zero = correlate(scores, methods=["spearman"], undefined="zero").set_index("question")
    assert zero.measured.to_dict() == {"q9": 0, "q8": 0, "q7": 0, "q6": pytest.approx(np.nan, nan_ok=True)}
    values = average(result.reset_index())
    assert values.dropped_because[0] == "constant_labels 1; constant_scores 1; fewer_than_two 1; short_list 1"
    assert (values.n[0], values.dropped[0], np.isnan(values.value[0])) == (0, 4, True)
    with pytest.raises(ValueError, match="undefined is 'nought'"):
        correlate(scores, undefined="nought")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no column grade"):
        correlate(scores.drop(columns="grade"))


@pytest.mark.parametrize(("undefined", "seeds", "because"), [
    ("drop", (1, 1 / 3), {"constant_labels": 1, "constant_scores": 1, "short_list": 1}),
    ("zero", (2 / 3, 1 / 6), {"short_list": 1}),  # a question left out for its short list stays out
])  # fmt: skip
def test_an_agreement_by_hand(undefined, seeds, because) -> None:
    # Kendall, seed 0: a = 1, b = 1, c undefined (constant labels)
    #          seed 1: a = (2 - 1) / 3 = 1/3, b undefined (constant scores), c dropped (short list)
    pairs = {
        ("a", 0): ([0, 1, 2], [1, 2, 3]), ("b", 0): ([0, 1], [1, 2]), ("c", 0): ([1, 1], [1, 2]),
        ("a", 1): ([0, 1, 2], [1, 3, 2]), ("b", 1): ([1, 0], [5, 5]), ("c", 1): ([np.nan], [np.nan]),
    }  # fmt: skip
    rows = [(*key, grade, score) for key, pair in pairs.items() for grade, score in zip(*pair, strict=True)]
    scores = pd.DataFrame(rows, columns=["question", "seed", "grade", "score"])
    scores["missing"] = np.where(scores.score.isna(), "short_list", "")
    (row,) = average(correlate(scores, methods=["kendall"], undefined=undefined)).to_dict("records")
    assert row["value"] == pytest.approx(np.mean(seeds), abs=1e-15)
    assert row["spread"] == pytest.approx(np.std(seeds, ddof=1), abs=1e-15)
    assert row["dropped_because"] == "; ".join(f"{reason} {n}" for reason, n in because.items())
    assert (row["n"], row["dropped"]) == (6 - len(because), len(because))
    assert (np.isnan(row["low"]), row["resampled"]) == (True, f"{2 + (undefined == 'zero')} questions")


def make_measurements() -> pd.DataFrame:
    rows = [("q9", 0, 0.1), ("q9", 1, 0.3), ("q8", 0, 0.5), ("q8", 1, np.nan), ("q7", 0, 0.2), ("q7", 1, 0.4)]
    old = pd.DataFrame(rows, columns=["question", "seed", "measured"]).assign(dataset="d", form="old", statistic="mean")
    frame = pd.concat([old, old.assign(form="new", measured=old.measured + 0.25)], ignore_index=True)
    return frame.assign(missing=np.where(frame.measured.isna(), "unread", ""))


def pivot(measurements: pd.DataFrame, form: str) -> np.ndarray:
    table = measurements[measurements.form == form].pivot(index="question", columns="seed", values="measured")
    return table.loc[["q9", "q8", "q7"]].to_numpy()


def test_an_average_is_the_kernels_with_questions_in_the_order_of_their_rows() -> None:
    measurements = make_measurements()
    values = average(measurements)
    assert list(values.form) == ["old", "new"]
    expected = estimate_mean(pivot(measurements, "old"))
    row = values.iloc[0]
    assert (row.value, row.spread, row.resampled) == (expected.value, expected.spread, "3 questions")
    assert (row.n, row.dropped, row.dropped_because) == (5, 1, "unread 1")
    twice = pd.concat([measurements, measurements])
    with pytest.raises(ValueError, match="several measurements of one question and seed"):
        average(twice)


@pytest.mark.parametrize(
    ("table", "value", "interval", "n"),
    [
        ([[1, 1], [1, np.nan], [1, 1]], 1, (0.4385, 1), 5),  # Wilson, z^2 = 3.8415; low: 3 / (3 + z^2)
        ([[0, 0], [0, 0], [np.nan, np.nan]], 0, (0, 0.6576), 4),  # high: z^2 / (2 + z^2)
    ],
)
def test_a_share_has_an_interval_with_a_width_where_all_are_equal(table, value, interval, n) -> None:
    wide = pd.DataFrame(table).rename_axis("question").reset_index()
    measured = wide.melt("question", var_name="k", value_name="measured").assign(statistic="share")
    row = average(measured, columns="k", share=True).iloc[0]
    assert (row.value, row.n) == (value, n)
    assert (row.low, row.high) == pytest.approx(interval, abs=1e-4)


def test_metrics_that_are_named_are_shares_and_a_rare_one_is_bounded_by_wilsons() -> None:
    half = pd.DataFrame({"question": range(20), "measured": [1.0, 0.0] * 10})
    both = pd.concat([half.assign(metric="da"), half.assign(metric="words")])
    result = average(both, share=["da"]).set_index("metric")
    assert result.low["da"] == pytest.approx(0.2993, abs=1e-4)  # Wilson's
    assert result.low["words"] == pytest.approx(0.5 - stats.t.ppf(0.975, 19) * half.measured.std() / 20**0.5)
    rare = half.assign(metric="da", measured=[0.5] * 4 + [0.0] * 16)
    expected = proportion_confint(2, 20, method="wilson")  # a mean share of 0.1 over 20 questions
    assert average(rare, share=True)[["low", "high"]].iloc[0].tolist() == pytest.approx(expected, abs=1e-4)
    assert average(rare.assign(measured=[0.5] * 5 + [0.0] * 15), share=True).high[0] > 0.125


def test_shares_of_pooled_items_say_what_was_drawn_and_none_of_them_has_an_interval() -> None:
    items = pd.DataFrame(
        {"question": range(8), "site": list("aabbccdd"), "yes": [1, 2, 1, 2, 1, 1, 2, 0], "all": 3, "of": "x"}
    )
    both = pd.concat([items, items.assign(yes=0, of="none")]).drop(columns="site")
    result = pool(both, sums="yes", sizes="all").set_index("of")
    assert (result.value.x, result.n.x, result.resampled.x) == (10 / 24, 24, "8 questions")
    assert (result.low.none, result.high.none) == (0, pytest.approx(3.8415 / (8 + 3.8415), abs=1e-4))
    crossed = pool(items.assign(all=[3] * 7 + [0]), sums="yes", sizes="all", over=["question", "site"])
    assert crossed.resampled[0] == "7 questions, 4 sites"


def test_a_difference_is_paired_with_the_base_of_the_same_conditions() -> None:
    measurements = make_measurements()
    values = subtract(measurements, measurements.form == "old", across=["form"], named="the old form")
    assert list(values.form) == ["new"]
    assert list(values.difference_from) == ["the old form"]
    expected = estimate_difference(pivot(measurements, "new"), pivot(measurements, "old"))
    assert values.value[0] == pytest.approx(0.25)
    assert (values.spread[0], values.n[0]) == (expected.spread, expected.n)
    elsewhere = measurements[measurements.form == "new"].assign(dataset="e")  # a group without a base has no difference
    both = pd.concat([elsewhere, measurements], ignore_index=True)
    assert list(subtract(both, both.form == "old", across=["form"], named="b").dataset) == ["d"]
    several = measurements.assign(form=measurements.form + measurements.question)
    with pytest.raises(ValueError, match="several bases"):
        subtract(several, measurements.form == "old", across=["form"], named="b")


def test_means_of_systems_are_resampled_over_questions_with_all_groups_alike() -> None:
    of_systems = {"s": {"b": 1, "a": 3, "c": 2}, "t": {"b": 4, "a": np.nan, "c": 8}}
    rows = [(question, system, score) for system, scores in of_systems.items() for question, score in scores.items()]
    plain = pd.DataFrame(rows, columns=["question", "system", "score"])
    scores = pd.concat([plain.assign(form="x"), plain.assign(form="y", score=2 * plain.score)])
    means = resample_means(scores, by=["form"], resamples=200)
    wide = means.pivot(index="resample", columns=["form", "system"], values="mean")
    assert wide.loc[0].to_dict() == {("x", "s"): 2, ("x", "t"): 6, ("y", "s"): 4, ("y", "t"): 12}
    np.testing.assert_allclose(wide["y"], 2 * wide["x"])
    counts = draw_counts(3, resamples=200)
    assert wide.loc[6, ("x", "s")] == pytest.approx(counts[5] @ [1, 3, 2] / 3)
    assert wide["x", "t"].isna().sum() == (counts[:, [0, 2]].sum(1) == 0).sum()
    values = find_intervals(means.assign(units=9, n=4).rename(columns={"mean": "measured"}), over="claim")
    row = values.set_index(["form", "system"]).loc[("y", "s")]
    expected = find_interval(4, wide["y", "s"].iloc[1:], units=9, n=4)
    assert (row.value, row.low, row.high, row.n, row.resampled) == (4, expected.low, expected.high, 4, "9 claims")
    with pytest.raises(ValueError, match="several scores of one question and system"):
        resample_means(scores.assign(kind=1), by=["kind"], resamples=5)
    grouped = scores.assign(people=scores.question.map({"a": 2, "b": 1, "c": 1}))
    means = resample_means(grouped, by=["form"], over="people", within="question", resamples=50)
    wide = means.pivot(index="resample", columns=["form", "system"], values="mean")
    assert wide.loc[0, "x"].to_dict() == {"s": (1.5 + 3) / 2, "t": 6}  # each group weighs alike; t has no score by one
