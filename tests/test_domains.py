"""Where documents are from: trusted addresses, what a rule on them achieves by hand, and disjoint pools by seed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from statsmodels.stats.contingency_tables import StratifiedTable

from reproduction.debates.domains import SOURCES, add_domains, draw_pools, estimate_rules, leave_out_rules


@pytest.mark.parametrize(
    ("address", "domain", "suffix", "trusted"),
    [
        ("https://www.example.org/a?b=c.com", "example.org", "org", True),
        ("http://data.census.gov:8080/", "census.gov", "gov", True),
        ("https://gov.evil.com/", "evil.com", "com", False),
        ("https://www.parliament.gov.uk/", "parliament.gov.uk", "gov.uk", False),
        ("https://müller.org/", "müller.org", "org", True),
        ("http://10.0.0.1/x.org", "10.0.0.1", "", False),
        ("http://[2001:db8::1]/", "[2001:db8::1]", "", False),
        ("http://localhost/a.org", "localhost", "", False),
        ("https://user:pass@host.edu/", "host.edu", "edu", True),
        ("", "", "", False),
    ],
)
def test_an_address_is_trusted_by_its_public_suffix(address: str, domain: str, suffix: str, trusted: bool) -> None:
    row = add_domains(pd.DataFrame({"address": [address]})).iloc[0]
    assert (row.domain, row.suffix, bool(row.trusted)) == (domain, suffix, trusted)


def rate(*rows: tuple[str, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["question", "trusted", "reliable"]).assign(
        rule="r", expert=lambda claims: claims.question, domain=lambda claims: claims.index
    )


def measure(claims: pd.DataFrame) -> pd.Series:
    return estimate_rules(leave_out_rules(claims, by=["rule"])).set_index("statistic").value


def test_shares_of_a_small_table_by_hand():
    # trusted: 3 reliable of 4; others: 1 of 2
    result = measure(rate(("p", 1, 1), ("p", 1, 1), ("p", 0, 0), ("q", 1, 1), ("q", 1, 0), ("q", 0, 1)))
    assert result.coverage == pytest.approx(4 / 6)
    assert result.coverage_of_reliable == pytest.approx(3 / 4)
    assert (result.reliable_if_trusted, result.reliable_if_not, result.reliable_gap) == (0.75, 0.5, 0.25)
    assert result.odds_ratio == pytest.approx(3 * 1 / (1 * 1))
    assert result.odds_ratio_within == pytest.approx((2 * 1 / 3 + 0) / (0 + 1 * 1 / 3))  # Σ ad/n / Σ bc/n
    assert result.auroc == pytest.approx((3 / 4 + 1 / 2) / 2)


def test_as_statsmodels_and_scikit_learn_have_them():
    drawn = np.random.default_rng(3)
    claims = pd.DataFrame(drawn.integers(0, 2, (200, 2)), columns=["trusted", "reliable"])
    claims = claims.assign(question=drawn.integers(0, 12, 200).astype(str), rule="r", domain=drawn.integers(0, 40, 200))
    claims["expert"] = claims.question.str[0]
    tables = [pd.crosstab(part.trusted, part.reliable).to_numpy() for _, part in claims.groupby("question")]
    result = measure(claims)
    assert result.odds_ratio_within == pytest.approx(StratifiedTable(tables).oddsratio_pooled)
    assert result.auroc == pytest.approx(roc_auc_score(claims.reliable, claims.trusted))


def test_a_rule_that_trusts_nothing_has_no_share_and_is_no_zero():
    result = measure(rate(("p", 0, 1), ("q", 0, 0)))
    assert result.coverage == 0
    assert np.isnan(result[["reliable_if_trusted", "reliable_gap", "odds_ratio"]]).all()


def test_each_expert_and_each_domain_is_left_out_with_all_its_claims():
    claims = rate(("p", 1, 1), ("p", 1, 0), ("q", 1, 1), ("q", 0, 0)).assign(
        domain=["x", "y", "x", "y"], expert=[1, 1, 2, 2]
    )
    left = leave_out_rules(claims, by=["rule"]).query("statistic == 'reliable_if_trusted'")
    assert left.groupby("left_out").measured.apply(list).to_dict() == {
        "": [2 / 3],
        "expert": [1.0, 0.5],
        "domain": [0.0, 1.0],
        "both": [0.5, 1.0, 0.5, 2 / 3],
    }
    assert set(left.n) == {3}


def test_an_interval_is_as_wide_as_domains_make_it_where_they_decide():
    drawn = np.random.default_rng(1)
    claims = pd.DataFrame({"expert": drawn.integers(0, 60, 400), "domain": drawn.integers(0, 40, 400), "rule": "r"})
    claims = claims.assign(
        question=claims.expert, trusted=claims.domain < 20, reliable=drawn.random(40)[claims.domain] < 0.5
    )
    result = estimate_rules(leave_out_rules(claims, by=["rule"])).set_index("statistic")
    alone = estimate_rules(leave_out_rules(claims.assign(domain=range(400)), by=["rule"])).set_index("statistic")
    assert result.resampled.reliable_gap == "60 experts, 40 domains"
    wide, narrow = (each.high - each.low for each in (result, alone))
    assert wide.reliable_gap > 1.8 * narrow.reliable_gap  # ten claims a domain, all alike: up to sqrt(10)
    assert (result.low.odds_ratio < result.value.odds_ratio) & (result.low.odds_ratio > 0)


def make_documents(trusted: int, others: int, question: str = "q") -> pd.DataFrame:
    names = [f"d{place}" for place in range(trusted + others)]
    sides = [True] * trusted + [False] * others
    return pd.DataFrame({"question": question, "document": names, "text": names, "trusted": sides})


@pytest.mark.parametrize(("trusted", "others", "size"), [(2, 9, 1), (5, 4, 2)])
def test_pools_share_no_document_and_every_source_has_as_many(trusted, others, size):
    drawn = draw_pools(make_documents(trusted, others), seed=0)
    one, two = (set(drawn.document[drawn.pool == pool]) for pool in (1, 2))
    assert not one & two
    assert (drawn.groupby(["pool", "source"]).size() == size).all()
    assert set(drawn.source) == set(SOURCES)
    assert drawn.trusted[drawn.source == "trusted"].all()
    assert not drawn.trusted[drawn.source == "others"].any()


def test_copies_of_a_text_are_dealt_once():
    documents = make_documents(4, 4).assign(text=["a", "a", "b", "c", "a", "d", "e", "f"])
    for seed in range(5):
        drawn = draw_pools(documents, seed=seed)
        one, two = (set(drawn.text[drawn.pool == pool]) for pool in (1, 2))
        assert one
        assert not one & two


def test_the_mixed_source_draws_from_its_own_pool_by_the_seed_alone():
    documents = pd.concat([make_documents(8, 8), make_documents(1, 5, "few")])  # one on a side is too few
    drawn = draw_pools(documents, seed=1)
    assert set(drawn.question) == {"q"}
    assert drawn.equals(draw_pools(documents[:16], seed=1))
    assert not drawn.equals(draw_pools(documents, seed=2))
    for _, pool in drawn.groupby("pool"):
        mixed = set(pool.document[pool.source == "mixed"])
        assert mixed < set(pool.document[pool.source != "mixed"])
