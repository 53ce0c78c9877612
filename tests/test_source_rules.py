"""What a rule on addresses achieves: hand arithmetic, and statsmodels' Mantel-Haenszel estimate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from statsmodels.stats.contingency_tables import StratifiedTable

from nfqa.debates.domains import resample_rules


def rate(*rows: tuple[str, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["question", "trusted", "reliable"]).assign(rule="r")


def measure(claims: pd.DataFrame, resamples: int = 1) -> pd.Series:
    drawn = resample_rules(claims, by=["rule"], resamples=resamples)
    return drawn[drawn["resample"] == 0].set_index("statistic").measured


def test_shares_of_a_small_table_by_hand():
    # trusted: 3 reliable of 4; others: 1 of 2
    found = measure(rate(("p", 1, 1), ("p", 1, 1), ("p", 0, 0), ("q", 1, 1), ("q", 1, 0), ("q", 0, 1)))
    assert found.coverage == pytest.approx(4 / 6)
    assert found.coverage_of_reliable == pytest.approx(3 / 4)
    assert (found.reliable_if_trusted, found.reliable_if_not, found.reliable_gap) == (0.75, 0.5, 0.25)
    assert found.odds_ratio == pytest.approx(3 * 1 / (1 * 1))
    assert found.odds_ratio_within == pytest.approx((2 * 1 / 3 + 0) / (0 + 1 * 1 / 3))  # Σ ad/n / Σ bc/n
    assert found.auroc == pytest.approx((3 / 4 + 1 / 2) / 2)


def test_as_statsmodels_and_scikit_learn_have_them():
    drawn = np.random.default_rng(3)
    claims = pd.DataFrame(drawn.integers(0, 2, (200, 2)), columns=["trusted", "reliable"])
    claims = claims.assign(question=drawn.integers(0, 12, 200).astype(str), rule="r")
    tables = [pd.crosstab(own.trusted, own.reliable).to_numpy() for _, own in claims.groupby("question")]
    found = measure(claims)
    assert found.odds_ratio_within == pytest.approx(StratifiedTable(tables).oddsratio_pooled)
    assert found.auroc == pytest.approx(roc_auc_score(claims.reliable, claims.trusted))


def test_a_difference_between_questions_alone_is_none_within_them():
    # all claims of p are trusted and reliable, none of q is: within a question the rule tells nothing
    found = measure(rate(*[("p", 1, 1)] * 5, *[("q", 0, 0)] * 5))
    assert found.reliable_gap == 1
    assert np.isnan(found.odds_ratio_within)


def test_a_rule_that_trusts_nothing_has_no_share_and_is_no_zero():
    found = measure(rate(("p", 0, 1), ("q", 0, 0)))
    assert found.coverage == 0
    assert np.isnan(found[["reliable_if_trusted", "reliable_gap", "odds_ratio"]]).all()


def test_questions_are_drawn_whole():
    drawn = resample_rules(rate(*[("p", 1, 1)] * 9, ("q", 1, 0)), by=["rule"], resamples=200)
    shares = drawn[drawn.statistic == "reliable_if_trusted"]
    assert set(shares.measured.round(9)) == {0.0, 0.9, 1.0}  # q twice, both, p twice
    assert set(shares.n) == {10}
