"""Agreement among raters: Fleiss' kappa, Krippendorff's alpha, and each rater against the others' mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def measure_fleiss_kappa(labels: ArrayLike) -> float:
    """Fleiss' kappa = (P - E) / (1 - E) of items that equally many raters put into categories.

    P is the mean over items of the share of agreeing pairs of raters, E the sum of squared shares of the categories.

    Args: labels: [items, raters], any categories; which raters an item has need not be the same from item to item.
    Returns: kappa, 1 at most; NaN where every label is the same, as nothing could disagree.
    Source: Fleiss (1971), by statsmodels. Differs from: it gives NaN with a warning where E is 1; here without one.
    """
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    counts, categories = aggregate_raters(labels)
    return float(fleiss_kappa(counts)) if len(categories) > 1 else float("nan")


def measure_krippendorff_alpha(ratings: ArrayLike) -> float:
    """Krippendorff's ordinal alpha = 1 - D_o / D_e, the disagreement observed over that expected by chance.

    Two values differ by the ratings that lie between them.

    Args: ratings: [raters, items], NaN for missing.
    Returns: alpha, 1 at most; NaN with no item that two raters rated, or all of these values equal.
    Source: Krippendorff (2018), by evalica. Differs from: it, which gives 1 where all values are equal; here NaN.
    """
    import pandas as pd
    from evalica import alpha

    table = np.asarray(ratings, dtype=np.float64)
    shared = table[:, (~np.isnan(table)).sum(0) >= 2]
    if len(np.unique(shared[~np.isnan(shared)])) < 2:
        return float("nan")
    return float(alpha(pd.DataFrame(shared), distance="ordinal").alpha)


def average_others(ratings: ArrayLike) -> NDArray[np.float64]:
    """The mean rating of all raters but one, for each rater and item, [raters, items]; NaN where no other rated it.

    Equal means are equal to the last bit, so that ties in them are ties.
    """
    table = np.asarray(ratings, dtype=np.float64)
    present = ~np.isnan(table)
    given = np.where(present, table, 0.0)
    count = present.sum(0) - present
    with np.errstate(invalid="ignore"):
        return np.round((given.sum(0) - given) / np.where(count > 0, count, np.nan), 9)
