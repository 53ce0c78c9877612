"""Table 4, Figures 6 and 7: systems by P.D., by dispute awareness, and by both together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.correlation import correlate_groups
from nfqa.lab.experiments.diversity import Column, make_plain_row
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from nfqa.lab.debate_lab import DebateLab

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of P.D., Figure 7
OVER_SYSTEMS = "over_systems"
_HERE = "nfqa.lab.experiments.debate_systems"
Statistic = Callable[[list[NDArray[np.float64]]], NDArray[np.float64]]  # means [C] of [S] -> [any]


def name_role(lab: DebateLab) -> str:
    """How the evaluator role is called in names of rows: an embedded evaluator by its own name, any other "role"."""
    kind, _, name = lab.roles["evaluator"].partition(":")
    return name if kind == "embedded" else "role"


def measure_awareness(
    dataset: QuestionSet,
    detect: Callable[[Sequence[str]], NDArray[np.float64]],
    name: str,
    signature: str,
    kernel: str,
) -> Column:
    """Whether each answer says that the matter is disputed, by system: 1 or 0, NaN where it could not be told.

    Args: detect: from answers to 1, 0 or NaN each; name: of the column, such as da_detector.
    """
    systems = tuple(dataset.systems)
    places = [(q, s) for q, question in enumerate(dataset.questions) for s in systems if s in question.answer_of]
    found = np.asarray(detect([dataset.questions[q].answer_of[s] for q, s in places]), dtype=np.float64)
    if found.shape != (len(places),):
        raise ValueError(f"{name}: {found.shape} verdicts for {len(places)} answers; expected one each")
    values = np.full((len(dataset.questions), len(systems)), np.nan)
    for (q, s), value in zip(places, found, strict=True):
        values[q, systems.index(s)] = value
    missing = {
        "no_answer": values.size - len(places),
        "no_verdict": int(np.isnan(found).sum()),
    }
    return Column(
        name, systems, values, signature, (kernel, "nfqa.kernels.resample:bootstrap_mean"),
        lower_is_better=False, dropped=missing,
    )  # fmt: skip


def rank_normalised(
    dataset: QuestionSet, columns: Sequence[Column], name: str, *, resamples: int, seed: int = 0
) -> list[Row]:
    """The systems' mean rank over several columns, brought to the range from 0 (first in all) to 1 (last in all).

    Source: "Norm. Rank" of DebateQA's Table 4. Differs from: it, as far as how it is normalised isn't said there.
    """

    def statistic(means: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        ranks = np.mean([rank_systems(mean) for mean in means], axis=0)
        return np.asarray((ranks - 1) / max(len(ranks) - 1, 1))

    names = "+".join(column.name for column in columns)
    found, low, high = bootstrap_means(columns, statistic, resamples=resamples, seed=seed)
    return [
        make_plain_row(
            dataset, system, name, found[s], f"{name}|of:{names}|(rank-1)/(systems-1)|boot:{resamples}:seed{seed}",
            (f"{_HERE}:rank_normalised", f"{_HERE}:bootstrap_means"),
            n=len(columns[0].values), low=low[s], high=high[s],
        )
        for s, system in enumerate(columns[0].systems)
    ]  # fmt: skip


def rank_weighted(
    dataset: QuestionSet, diversity: Column, awareness: Column, *, resamples: int, seed: int = 0
) -> list[Row]:
    """Each system's place by k Z(-P.D.) + (1 - k) Z(D.A.), for each k of WEIGHTS; intervals over questions.

    Z subtracts the mean over systems and divides by their standard deviation; where all systems have one value it is
    0 for all. Places count from 1; systems that tie share the mean of their places.
    Source: Figure 7 of the paper. Differs from: it, in the sign, which puts the better end of both measures up.
    """
    kernels = (f"{_HERE}:weigh_systems", f"{_HERE}:bootstrap_means")
    rows = []
    for weight in WEIGHTS:

        def statistic(means: list[NDArray[np.float64]], weight: float = weight) -> NDArray[np.float64]:
            return rank_systems(weigh_systems(means[0], means[1], weight))

        found, low, high = bootstrap_means([diversity, awareness], statistic, resamples=resamples, seed=seed)
        metric = name_rank(weight)
        mark = f"{metric}|k*Z(-{diversity.name})+(1-k)*Z({awareness.name})|boot:{resamples}:seed{seed}"
        rows += [
            make_plain_row(
                dataset, system, metric, found[s], mark, kernels, n=len(dataset.questions), low=low[s], high=high[s]
            )
            for s, system in enumerate(diversity.systems)
        ]
    return rows


def correlate_systems(
    dataset: QuestionSet, first: Column, second: Column, *, resamples: int, seed: int = 0
) -> list[Row]:
    """Spearman and Kendall between the systems' means in two columns, the better end of both up; intervals over
    questions. A resample in which one side is equal for all systems is left out."""
    rows = []
    for method in ("spearman", "kendall"):

        def statistic(means: list[NDArray[np.float64]], method: str = method) -> NDArray[np.float64]:
            return correlate_groups(means[0], means[1], [len(means[0])], method=method).values  # type: ignore[arg-type]

        found, low, high = bootstrap_means([first, second], statistic, resamples=resamples, seed=seed)
        metric = f"{method}_{first.name}_{second.name}"
        rows.append(
            make_plain_row(
                dataset, OVER_SYSTEMS, metric, found[0], f"{metric}|sign:-|boot:{resamples}:seed{seed}",
                (f"{_HERE}:correlate_systems", f"nfqa.kernels.correlation:_{method}"),
                n=len(first.systems), low=low[0], high=high[0],
            )
        )  # fmt: skip
    return rows


def bootstrap_means(
    columns: Sequence[Column], statistic: Statistic, *, resamples: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """A statistic of the systems' means, better end up, and its 95 % percentile interval over questions.

    Every resample draws questions, and all columns and systems with them; NaN in a statistic is left out of the
    quantiles. Returns: value, low and high, each in the statistic's shape.
    Raises: ValueError for columns of different shape or systems.
    """
    shapes = {(column.values.shape, column.systems) for column in columns}
    if len(shapes) != 1:
        raise ValueError(f"{', '.join(column.name for column in columns)} have different questions or systems")
    generator = np.random.default_rng(seed)
    tables = [column.quality for column in columns]
    count = len(tables[0])
    value = statistic([average(table) for table in tables])
    draws = np.empty((resamples, *value.shape))
    for i in range(resamples):
        chosen = generator.integers(count, size=count)
        draws[i] = statistic([average(table[chosen]) for table in tables])
    kept = draws[~np.isnan(draws).reshape(resamples, -1).any(1)]
    if not len(kept):
        return value, np.full_like(value, np.nan), np.full_like(value, np.nan)
    low, high = np.quantile(kept, [0.025, 0.975], axis=0)
    return value, low, high


def average(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each system's mean over the questions where it has a value, [S]; NaN for a system without any."""
    present = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(present, table, 0.0).sum(0) / present.sum(0))


def rank_systems(quality: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places from 1 for the highest; ties share the mean of their places, [S]."""
    above = (quality[None, :] > quality[:, None]).sum(1)
    level = (quality[None, :] == quality[:, None]).sum(1)
    return np.asarray(above + (level + 1) / 2, dtype=np.float64)


def weigh_systems(diversity: NDArray[np.float64], awareness: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """weight Z(diversity) + (1 - weight) Z(awareness), both with the better end up, [S]."""
    return weight * _standardise(diversity) + (1 - weight) * _standardise(awareness)


def name_rank(weight: float) -> str:
    """The metric of Figure 7 for a weight of P.D., such as rank_k_025."""
    return f"rank_k_{round(100 * weight):03d}"


def _standardise(values: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = values.std()
    centred = values - values.mean()
    return np.zeros_like(values) if np.allclose(centred, 0.0, atol=1e-12) else np.asarray(centred / spread)
