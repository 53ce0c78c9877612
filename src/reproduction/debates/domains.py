"""Where documents are from: which addresses a rule trusts, how well it picks reliable sources, and pools by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.kernels.intervals import clip_share, estimate_jackknife
from nfqa.metrics.statistics import count_units, describe_interval, iterate_groups

TRUSTED = ("edu", "gov", "info", "org", "pro")  # those that the text of DebateQA names; its Table 10 may list more
# Suffixes under which only institutions can register as a rule, and which TRUSTED leaves out: .gov.uk, .ac.jp, .int.
INSTITUTIONS = r"(?:^|\.)(?:ac|edu|gc|go|gob|gouv|gov|mil|nhs)\.|^(?:int|mil)$"
WAYS = {"expert": ["expert"], "domain": ["domain"], "both": ["expert", "domain"]}  # in which claims belong together
SHARES = ("coverage", "coverage_of_reliable", "reliable_if_trusted", "reliable_if_not")
SOURCES = ("trusted", "others", "mixed")  # of a pool


def add_domains(documents: pd.DataFrame) -> pd.DataFrame:
    """The documents with domain, suffix and trusted.

    domain is the registered domain in lower case ("parliament.uk"), or the host where it has none (an IP address); ""
    without an address. suffix is its public suffix, such as "org" or "co.uk", "" without one. trusted says whether the
    suffix is one of TRUSTED, so that "gov.uk" is not trusted where "gov" is.

    Differs from: a test of an address's ending, which takes https://shop.com/terms.org for one under .org, and
        https://example.org.uk or https://gov.evil.com for none or one, depending on how it is written.
    Source: DebateQA, section 3.2 and Table 10; suffixes by the public suffix list that tldextract carries.
    """
    from tldextract import TLDExtract

    extract = TLDExtract(suffix_list_urls=(), cache_dir=None)  # the bundled list: nothing is fetched or written
    parts = [extract(address.strip()) for address in documents.address]
    domains = [(part.top_domain_under_public_suffix or part.domain).lower() for part in parts]
    suffixes = [part.suffix.lower() for part in parts]
    return documents.assign(domain=domains, suffix=suffixes, trusted=[suffix in TRUSTED for suffix in suffixes])


def draw_pools(documents: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Two disjoint pools of each question's documents, equal in size: of trusted ones, of others, and of both mixed.

    Of each side 2n documents are drawn, n the whole half of the smaller side, and n go to either pool; the mixed source
    of a pool draws n of its 2n. So no document is in both pools, and every source of a pool has n documents. Of a
    question's documents with the same text only the first is dealt: copies could go to both pools.

    Args: documents: question, document, text, trusted (bool) and any others; a question with fewer than two on a side
        is excluded. seed: of the draws, which depend on it and the question's place alone.
    Returns: the rows drawn, once for each source they serve: pool (1 or 2), source (trusted, others, mixed), and the
        columns of documents, in their order.
    Source: this project's. Answers from one pool share no document with partial answers from the other.
    """
    documents = documents.drop_duplicates(["question", "text"], ignore_index=True)
    frames = [documents.iloc[:0].assign(pool=0, source="")]
    for place, (_, group) in enumerate(documents.groupby("question", sort=False)):
        sides = {"trusted": group.index[group.trusted], "others": group.index[~group.trusted]}
        size = min(map(len, sides.values())) // 2  # of a side: for one pool and the other
        if not size:
            continue
        generator = np.random.default_rng([seed, place])
        rows_by_side = {side: generator.permutation(rows)[: 2 * size] for side, rows in sides.items()}
        for pool in (1, 2):
            parts = {side: rows[(pool - 1) * size : pool * size] for side, rows in rows_by_side.items()}
            parts["mixed"] = generator.permutation(np.concatenate(list(parts.values())))[:size]
            frames += [group.loc[np.sort(rows)].assign(pool=pool, source=source) for source, rows in parts.items()]
    return pd.concat(frames, ignore_index=True)


def leave_out_rules(claims: pd.DataFrame, *, by: Sequence[str]) -> pd.DataFrame:
    """What a rule achieves: of all claims, and without each expert's, each domain's, and each expert's of each domain.

    With a, b the trusted claims that are reliable and not, c, d the others, n = a + b + c + d:

    coverage (a + b) / n; coverage_of_reliable a / (a + c); reliable_if_trusted a / (a + b);
    reliable_if_not c / (c + d); reliable_gap, the former minus the latter;
    auroc (a / (a + c) + d / (b + d)) / 2, of a rule that says yes or no; odds_ratio ad / bc;
    odds_ratio_within, Mantel and Haenszel's with questions q as strata, Σ a_q d_q / n_q / Σ b_q c_q / n_q, which no
    difference between questions (their field, their expert) is behind. Of odds ratios the logarithm is measured.

    Args: claims: one row per rated claim: expert, question, domain, trusted and reliable (True or False), and by's.
    Returns: the columns of by, left_out ("" for nothing, else a way of WAYS), unit (a number), statistic, measured
        (NaN for 0 / 0, infinite for odds of 0 or 1 / 0) and n, how many claims the statistic is of.
    Source: Mantel and Haenszel 1959.
    """
    frames = []
    for key, group in iterate_groups(claims, by):
        trusted, reliable = group.trusted.astype(bool), group.reliable.astype(bool)
        at = group.question.factorize()[0], np.select([trusted & reliable, trusted, reliable], [0, 1, 2], 3)
        parts = {}
        for way, columns in WAYS.items():
            unit = group.groupby(columns, sort=False).ngroup().to_numpy()
            parts[way] = np.zeros((unit.max() + 1, at[0].max() + 1, 4))  # a, b, c, d of each question
            np.add.at(parts[way], (unit, *at), 1.0)
        whole = parts["expert"].sum(axis=0)
        a, b, c, d = whole.sum(axis=0)
        n = {"reliable_if_trusted": a + b, "reliable_if_not": c + d, "coverage_of_reliable": a + c}
        for way, part in ({"": 0 * whole[None]} | parts).items():
            long = _measure_rules(whole - part).rename_axis("unit").reset_index()
            long = long.melt("unit", var_name="statistic", value_name="measured")
            frames.append(long.assign(n=long.statistic.map(n).fillna(len(group)).astype(int), left_out=way, **key))
    return pd.concat(frames, ignore_index=True)


def _measure_rules(cells: NDArray[np.float64]) -> pd.DataFrame:
    """The statistics of `leave_out_rules` of each table of questions and cells, [tables, questions, 4]."""
    a, b, c, d = cells.sum(axis=1).T
    size = np.maximum(cells.sum(axis=2), 1)
    ad, bc = ((cells[..., one] * cells[..., other] / size).sum(axis=1) for one, other in ((0, 3), (1, 2)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return pd.DataFrame({
            "coverage": (a + b) / (a + b + c + d),
            "coverage_of_reliable": a / (a + c),
            "reliable_if_trusted": a / (a + b),
            "reliable_if_not": c / (c + d),
            "reliable_gap": a / (a + b) - c / (c + d),
            "auroc": (a / (a + c) + d / (b + d)) / 2,
            "odds_ratio": np.log(a * d / (b * c)),
            "odds_ratio_within": np.log(ad / bc),
        })  # fmt: skip


def estimate_rules(left: pd.DataFrame) -> pd.DataFrame:
    """Values of rules with 95 % intervals over experts crossed with domains, as a site's pages have much in common.

    Args: left: of `leave_out_rules`, or differences of two rules' `measured` with their base in `difference_from`.
    Returns: the conditions in order of first appearance, value, low, high, n, resampled (those without whom the value
        would differ). An odds ratio of 0 or infinity is NaN.
    Source: `nfqa.kernels.intervals.estimate_jackknife`.
    """
    rows = []
    left = left.replace([np.inf, -np.inf], np.nan)
    by = [*left.columns.difference(["left_out", "unit", "measured", "n"], sort=False)]
    for key, group in iterate_groups(left, by):
        value, n = group.loc[group.left_out == "", ["measured", "n"]].iloc[0]
        moved = [group.measured[(group.left_out == way) & (group.measured != value)] for way in WAYS]
        interval = estimate_jackknife(value, *moved, n=int(n))
        share = key["statistic"] in SHARES and not key.get("difference_from")
        row = key | describe_interval(clip_share(interval) if share else interval, "expert")
        if key["statistic"].startswith("odds_ratio"):
            row |= {name: np.exp(row[name]) for name in ("value", "low", "high")}
        rows.append(row | {"resampled": f"{row['resampled']}, {count_units(len(moved[1]), 'domain')}"})
    return pd.DataFrame(rows)
