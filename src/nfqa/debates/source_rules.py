"""How well a rule on addresses picks the sources that people call reliable, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.kernels.resample import draw_counts
from nfqa.metrics.statistics import iterate_groups


def resample_rules(claims: pd.DataFrame, *, by: Sequence[str], resamples: int, seed: int = 0) -> pd.DataFrame:
    """What a rule achieves, as measured and in resamples of whole questions, which bring all their claims along.

    With a, b the trusted claims that are reliable and not, and c, d the others, n = a + b + c + d, each of them a sum
    over questions:

    coverage (a + b) / n; coverage_of_reliable a / (a + c); reliable_if_trusted a / (a + b);
    reliable_if_not c / (c + d); reliable_gap, the former minus the latter;
    auroc (a / (a + c) + d / (b + d)) / 2, of a rule that says yes or no; odds_ratio ad / bc;
    odds_ratio_within, Mantel and Haenszel's with questions q as strata, Σ a_q d_q / n_q / Σ b_q c_q / n_q, which no
    difference between questions (their field, their expert) is behind.

    Args: claims: a row a rated claim: question, trusted and reliable (True or False), and the columns of `by`.
    Returns: the columns of by, resample (0: as measured), statistic, measured (NaN for 0 / 0) and n, the claims that
        the statistic is a share of, or all; as `nfqa.metrics.statistics.find_intervals` takes it.
    Source: Mantel and Haenszel 1959; the cluster bootstrap, Davison and Hinkley 1997, section 3.8.
    """
    frames = []
    for key, group in iterate_groups(claims, by):
        trusted, reliable = group.trusted.astype(bool), group.reliable.astype(bool)
        cells = {"a": trusted & reliable, "b": trusted & ~reliable, "c": ~trusted & reliable, "d": ~trusted & ~reliable}
        each = pd.DataFrame(cells).groupby(group.question, sort=False).sum()
        size = each.sum(axis=1)
        each = each.assign(ad=each.a * each.d / size, bc=each.b * each.c / size)
        counts = np.vstack([np.ones(len(each)), draw_counts(len(each), resamples=resamples, seed=seed)])
        drawn = _measure(*(counts @ each.to_numpy(dtype=float)).T).rename_axis("resample").reset_index()
        a, b, c, d = each.iloc[:, :4].sum().astype(int)
        n = {"reliable_if_trusted": a + b, "reliable_if_not": c + d, "coverage_of_reliable": a + c}
        long = drawn.melt("resample", var_name="statistic", value_name="measured")
        frames.append(long.assign(**key, n=long.statistic.map(n).fillna(len(group)).astype(int)))
    return pd.concat(frames, ignore_index=True)[[*by, "statistic", "resample", "measured", "n"]]


def _measure(a: NDArray, b: NDArray, c: NDArray, d: NDArray, ad: NDArray, bc: NDArray) -> pd.DataFrame:
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {
            "coverage": (a + b) / (a + b + c + d),
            "coverage_of_reliable": a / (a + c),
            "reliable_if_trusted": a / (a + b),
            "reliable_if_not": c / (c + d),
            "reliable_gap": a / (a + b) - c / (c + d),
            "auroc": (a / (a + c) + d / (b + d)) / 2,
            "odds_ratio": a * d / (b * c),
            "odds_ratio_within": ad / bc,
        }
    return pd.DataFrame(found).replace([np.inf, -np.inf], np.nan)
