"""Where documents are from: which addresses a rule trusts, how well it picks reliable sources, and pools by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from nfqa.kernels.intervals import draw_counts
from nfqa.metrics.statistics import iterate_groups

TRUSTED = ("edu", "gov", "info", "org", "pro")  # those that the text of DebateQA names; its Table 10 may list more
# Suffixes under which only institutions can register as a rule, and which TRUSTED leaves out: .gov.uk, .ac.jp, .int.
INSTITUTIONS = r"(?:^|\.)(?:ac|edu|gc|go|gob|gouv|gov|mil|nhs)\.|^(?:int|mil)$"
SOURCES = ("trusted", "others", "mixed")  # of a pool


def add_domains(documents: pd.DataFrame, *, trusted: Collection[str] = TRUSTED) -> pd.DataFrame:
    """The documents with domain, suffix and trusted.

    domain is the registered domain in lower case ("parliament.uk"), or the host where it has none (an IP address); ""
    without an address. suffix is its public suffix, such as "org" or "co.uk", "" without one. trusted tells whether the
    suffix is one of `trusted`, so that "gov.uk" is not trusted where "gov" is.

    Differs from: a test of an address's ending, which takes https://shop.com/terms.org for one under .org, and
        https://example.org.uk or https://gov.evil.com for none or one, depending on how it is written.
    Source: DebateQA, section 3.2 and Table 10; suffixes by the public suffix list that tldextract carries.
    """
    from tldextract import TLDExtract

    extract = TLDExtract(suffix_list_urls=(), cache_dir=None)  # the bundled list: nothing is fetched or written
    parts = [extract(address.strip()) for address in documents.address]
    suffixes = [part.suffix.lower() for part in parts]
    domains = [(part.top_domain_under_public_suffix or part.domain).lower() for part in parts]
    known = [suffix in trusted for suffix in suffixes]
    return documents.assign(domain=domains, suffix=suffixes, trusted=known)


def draw_pools(documents: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Two disjoint pools of each question's documents, equal in size: of trusted ones, of others, and of both mixed.

    Of each side 2n documents are drawn, n the whole half of the smaller side, and n go to either pool; the mixed source
    of a pool draws n of its 2n. So no document is in both pools, and every source of a pool has n documents. Of a
    question's documents with the same text only the first is dealt: copies could go to both pools.

    Args: documents: question, document, text, trusted (bool) and any others; a question with fewer than two on a side
        is left out. seed: of the draws, which depend on it and the question's place alone.
    Returns: the rows drawn, once for each source they serve: pool (1 or 2), source (trusted, others, mixed), and the
        columns of documents, in their order.
    Source: ours. Answers from one pool share no document with partial answers from the other.
    """
    documents = documents.drop_duplicates(["question", "text"], ignore_index=True)
    frames = [documents.iloc[:0].assign(pool=0, source="")]
    for place, (_, own) in enumerate(documents.groupby("question", sort=False)):
        sides = {"trusted": own.index[own.trusted], "others": own.index[~own.trusted]}
        size = min(map(len, sides.values())) // 2  # of a side: for one pool and the other
        if not size:
            continue
        generator = np.random.default_rng([seed, place])
        drawn = {side: generator.permutation(rows)[: 2 * size] for side, rows in sides.items()}
        for pool in (1, 2):
            parts = {side: rows[(pool - 1) * size : pool * size] for side, rows in drawn.items()}
            parts["mixed"] = generator.permutation(np.concatenate(list(parts.values())))[:size]
            frames += [own.loc[np.sort(rows)].assign(pool=pool, source=source) for source, rows in parts.items()]
    return pd.concat(frames, ignore_index=True)


def resample_rules(claims: pd.DataFrame, *, by: Sequence[str], resamples: int, seed: int = 0) -> pd.DataFrame:
    """What a rule achieves, as measured and in resamples of experts, who bring all claims on their questions along.

    With a, b the trusted claims that are reliable and not, and c, d the others, n = a + b + c + d, each of them a sum
    over experts:

    coverage (a + b) / n; coverage_of_reliable a / (a + c); reliable_if_trusted a / (a + b);
    reliable_if_not c / (c + d); reliable_gap, the former minus the latter;
    auroc (a / (a + c) + d / (b + d)) / 2, of a rule that says yes or no; odds_ratio ad / bc;
    odds_ratio_within, Mantel and Haenszel's with questions q as strata, Σ a_q d_q / n_q / Σ b_q c_q / n_q, which no
    difference between questions (their field, their expert) is behind.

    Args: claims: a row a rated claim: expert, question, trusted and reliable (True or False), and the columns of `by`.
    Returns: the columns of by, resample (0: as measured), statistic, measured (NaN for 0 / 0), units (experts)
        and n (claims) that the statistic is a share of, or all; as `nfqa.metrics.statistics.find_intervals` takes it.
    Source: Mantel and Haenszel 1959; the cluster bootstrap, Davison and Hinkley 1997, section 3.8.
    """
    frames = []
    for key, group in iterate_groups(claims, by):
        trusted, reliable = group.trusted.astype(bool), group.reliable.astype(bool)
        cells = {"a": trusted & reliable, "b": trusted & ~reliable, "c": ~trusted & reliable, "d": ~trusted & ~reliable}
        each = group[["expert", "question"]].assign(**cells).groupby(["expert", "question"], sort=False).sum()
        size = each.sum(axis=1)
        each = each.assign(ad=each.a * each.d / size, bc=each.b * each.c / size).groupby("expert", sort=False).sum()
        counts = np.vstack([np.ones(len(each)), draw_counts(len(each), resamples=resamples, seed=seed)])
        drawn = pd.DataFrame(counts @ each.to_numpy(dtype=float), columns=each.columns)
        a, b, c, d = (drawn[name] for name in "abcd")
        shares = {
            "coverage": (a + b) / (a + b + c + d),
            "coverage_of_reliable": a / (a + c),
            "reliable_if_trusted": a / (a + b),
            "reliable_if_not": c / (c + d),
            "reliable_gap": a / (a + b) - c / (c + d),
            "auroc": (a / (a + c) + d / (b + d)) / 2,
            "odds_ratio": a * d / (b * c),
            "odds_ratio_within": drawn.ad / drawn.bc,
        }
        found = pd.DataFrame(shares).replace([np.inf, -np.inf], np.nan).rename_axis("resample").reset_index()
        long = found.melt("resample", var_name="statistic", value_name="measured")
        asked = pd.DataFrame({  # claims of each expert that a share is of; all where none is named
            "reliable_if_trusted": each.a + each.b,
            "reliable_if_not": each.c + each.d,
            "coverage_of_reliable": each.a + each.c,
        })  # fmt: skip
        n = long.statistic.map(asked.sum()).fillna(len(group)).astype(int)
        units = long.statistic.map((asked > 0).sum()).fillna(len(each)).astype(int)
        frames.append(long.assign(**key, n=n, units=units))
    return pd.concat(frames, ignore_index=True)[[*by, "statistic", "resample", "measured", "units", "n"]]
