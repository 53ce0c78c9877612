"""Figure 2: whether annotators rank the systems alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.agreement import measure_fleiss_kappa
from nfqa.kernels.resample import bootstrap_mean, find_interval
from nfqa.lab.experiments.alignment import correlate_rows, make_row
from nfqa.lab.experiments.alignment_items import measure_alpha
from nfqa.lab.experiments.alignment_people import (
    ORDERS_TOGETHER,
    RULE_SIGNATURES,
    TOGETHER_SIGNATURES,
    People,
    group_annotators,
    rate,
)
from nfqa.lab.experiments.alignment_scores import Scored
from nfqa.lab.plots import PAPER, REFERENCE, pick_colour, start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = 0.8  # the paper prints no value, but that each of its correlations is above this one
_ELO = "nfqa.kernels.rating:rate_elo"
_SPEARMAN = "nfqa.kernels.correlation:_spearman"
_KAPPA = "nfqa.kernels.agreement:measure_fleiss_kappa"


def rank_groups(people: People) -> NDArray[np.float64]:
    """Each group's Elo ratings by all comparisons of its annotators, [G, S]."""
    preferences, annotators, _ = people.comparisons
    return np.array(
        [
            rate(preferences.take(np.isin(annotators, members)), "elo", len(people.systems), orders=ORDERS_TOGETHER)
            for members in group_annotators(people)
        ]
    )


def correlate_all(rankings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman between every two rows of rankings, [N, N]; NaN on the diagonal and where it is undefined."""
    n = len(rankings)
    left, right = np.triu_indices(n, 1)
    table = np.full((n, n), np.nan)
    if len(left):
        table[left, right] = table[right, left] = correlate_rows(rankings[left], rankings[right], "spearman")[0]
    return table


def measure_annotators(dataset: QuestionSet, people: People, *, resamples: int, seed: int = 0) -> list[Row]:
    """Pairwise Spearman between rankings: of annotators with the same questions, with other ones, and of groups.

    Each annotator's ranking is Elo on the pairs of his or her questions, as the paper has it, a group's on those of
    all its members. Groups are the annotators that share questions. Means are over annotators (groups) of their mean
    with the others, with intervals over them; the share is of pairs above the paper's bound.
    Also Krippendorff's alpha of the ratings, and Fleiss' kappa of ratings and of preferences (one, the other, equal)
    over the items that the usual number of annotators judged.
    """
    own, groups = people.rate_each("elo"), group_annotators(people)
    table = correlate_all(own)
    same = np.zeros(table.shape, dtype=bool)
    for members in groups:
        same[np.ix_(members, members)] = True
    pooled = correlate_all(rank_groups(people))
    rows = []
    for system, kept in (
        ("annotators_same_questions", np.where(same, table, np.nan)),
        ("annotators_other_questions", np.where(same, np.nan, table)),
        ("annotator_groups", pooled),
    ):
        rows += _summarise_pairs(dataset, system, kept, resamples, seed)
    for i, row in enumerate(pooled):
        rows += [
            _make_plain(dataset, f"group_{i + 1:02}", f"spearman_group_{j + 1:02}", float(row[j]), len(people.systems))
            for j in range(i + 1, len(row))
        ]
    return [*rows, measure_alpha(dataset, people, resamples=resamples, seed=seed), *_measure_kappas(dataset, people)]


def _summarise_pairs(
    dataset: QuestionSet, system: str, table: NDArray[np.float64], resamples: int, seed: int
) -> list[Row]:
    values = table[np.triu_indices(len(table), 1)]
    values = values[~np.isnan(values)]
    if not len(values):
        return []
    defined = ~np.isnan(table)
    each = np.full(len(table), np.nan)
    each[defined.any(1)] = np.nanmean(table[defined.any(1)], axis=1)
    interval = bootstrap_mean(each, resamples=resamples, seed=seed)
    rules = TOGETHER_SIGNATURES if "group" in system else RULE_SIGNATURES
    scored = Scored(system, table, rules["elo"], _ELO)
    kernels = (_ELO, _SPEARMAN, "nfqa.kernels.resample:bootstrap_mean")
    mark = f"pairs:{len(values)}|boot:{resamples}"
    return [
        make_row(dataset, scored, "spearman", interval, mark, kernels, {}),
        _make_plain(dataset, system, "share_above_0_8", float((values > PUBLISHED).mean()), len(values)),
        _make_plain(dataset, system, "median", float(np.median(values)), len(values)),
    ]


def _make_plain(dataset: QuestionSet, system: str, metric: str, value: float, n: int) -> Row:
    rules = TOGETHER_SIGNATURES if "group" in system else RULE_SIGNATURES
    return Row(
        system=system, dataset=dataset.name, metric=metric, value=value, n=n,
        signature=f"{system}|{rules['elo']}|spearman|v1", kernels=(_ELO, _SPEARMAN), origin=dataset.origin,
    )  # fmt: skip


def _measure_kappas(dataset: QuestionSet, people: People) -> list[Row]:
    preferences, _, questions = people.comparisons
    a, q, s = np.nonzero(~np.isnan(people.ratings))
    size = len(people.systems)
    by_answer: dict[int, list[float]] = {}
    for item, value in zip((q * size + s).tolist(), people.ratings[a, q, s].tolist(), strict=True):
        by_answer.setdefault(item, []).append(value)
    by_pair: dict[tuple[int, int, int], list[float]] = {}
    for i, question in enumerate(questions.tolist()):
        key = (question, int(preferences.left[i]), int(preferences.right[i]))
        by_pair.setdefault(key, []).append(2 * float(preferences.outcomes[i]))
    rows = []
    for name, items in (("fleiss_kappa_ratings", by_answer), ("fleiss_kappa_preferences", by_pair)):
        judged = list(items.values())
        usual, _ = Counter(map(len, judged)).most_common(1)[0]
        kept = [values for values in judged if len(values) == usual]
        value = measure_fleiss_kappa(kept) if usual > 1 else float("nan")
        scored = Scored("annotators", people.mean_ratings, f"items_judged_by:{usual}", _KAPPA)
        interval = find_interval(value, [], n=len(kept), n_missing=len(judged) - len(kept))
        why = {"other_number_of_raters": len(judged) - len(kept)} if len(kept) < len(judged) else {}
        rows.append(make_row(dataset, scored, name, interval, "kappa:fleiss", (_KAPPA,), why))
    return rows


def draw_annotators(dataset: QuestionSet, people: People, rows: Sequence[Row]) -> Figure:
    """Left: Spearman between the groups' rankings, a heat map. Right: how the annotators' correlations are spread."""
    pooled, own = correlate_all(rank_groups(people)), correlate_all(people.rate_each("elo"))
    same = np.zeros(own.shape, dtype=bool)
    for members in group_annotators(people):
        same[np.ix_(members, members)] = True
    figure, (left, right) = start_figure(1, 2, width=10.5, height=4.4)
    names = [f"group {i + 1}" for i in range(len(pooled))]
    draw_heat_map(left, pooled, names, "Spearman between groups' Elo rankings")
    figure.colorbar(left.images[0], ax=left, shrink=0.8)
    upper = np.triu(np.ones(own.shape, dtype=bool), 1)
    bins = np.linspace(-1, 1, 21)
    for kept, label, colour in (
        (upper & ~same, "other questions", PAPER),
        (upper & same, "same questions", pick_colour(rows)),
    ):
        values = own[kept & ~np.isnan(own)]
        if len(values):
            right.hist(
                values, bins=bins, weights=np.full(len(values), 1 / len(values)), histtype="step", lw=2,
                color=colour, label=f"{label}: {len(values):,} pairs",
            )  # fmt: skip
    right.axvline(PUBLISHED, color=REFERENCE, lw=1, ls="--", label="published: every pair above 0.8")
    right.set(
        title="Pairs of annotators", xlabel="Spearman between two annotators' Elo rankings", ylabel="share of pairs"
    )
    if dataset.origin == "sample":
        right.set_title("Pairs of annotators (SAMPLE data)")
    figure.legend(loc="outside lower right", ncols=3)
    return figure


def draw_heat_map(  # type: ignore[no-untyped-def]
    axes, table: NDArray[np.float64], names: Sequence[str], title: str, *, low: float = -1.0
) -> None:
    """A table of correlations from `low` to 1 with its numbers; the diagonal, and what is undefined, stays empty."""
    axes.imshow(table, vmin=low, vmax=1, cmap="RdBu" if low < 0 else "Blues")
    size = 8 if len(table) <= 6 else 6.5
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            if not np.isnan(value):
                colour = "white" if abs(value) > 0.6 else "black"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=size, color=colour)
    axes.set_xticks(range(len(names)), labels=names, rotation=40, ha="right")
    axes.set_yticks(range(len(names)), labels=names)
    axes.set(title=title)
    axes.grid(visible=False)


def describe_annotators(dataset: QuestionSet, rows: Sequence[Row]) -> list[str]:
    """How far annotators agree here, beside what the paper says of its three."""
    found = {(row.system, row.metric): row for row in rows if row.value is not None}
    sentences = []
    for system, words in (
        ("annotators_same_questions", "annotators of the same questions"),
        ("annotators_other_questions", "annotators of other questions"),
        ("annotator_groups", "groups of annotators, each by all its comparisons"),
    ):
        row, share = found.get((system, "spearman")), found.get((system, "share_above_0_8"))
        if row is not None and share is not None:
            sentences.append(
                f"{dataset.name}, {words}: mean Spearman {row.value:.2f} [{row.ci_low:.2f}, {row.ci_high:.2f}];"
                f" {share.value:.0%} of {share.n:,} pairs are above 0.8, where the paper has all of its three."
            )
    alpha = found.get(("annotators", "alpha_ordinal"))
    kappas = [found.get(("annotators", f"fleiss_kappa_{name}")) for name in ("ratings", "preferences")]
    if alpha is not None:
        parts = [f"{row.metric.replace('_', ' ')} {row.value:.2f}" for row in kappas if row is not None]
        interval = f" [{alpha.ci_low:.2f}, {alpha.ci_high:.2f}]" if alpha.ci_low is not None else ""
        sentences.append(f"Krippendorff's alpha of the ratings is {alpha.value:.2f}{interval}; {', '.join(parts)}.")
    sentences.append(
        "People were asked here how far an answer represents their own view, not which answer is better, so that two of"
        " them may disagree without either being wrong; and an annotator has three questions, not a hundred."
    )
    return sentences
