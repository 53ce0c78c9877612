"""Equation 7: exp(-Δ P.D. / n) as a ratio of probabilities, held against the ratios that are measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.perplexity import settings
from nfqa.lab.experiments.diversity import find_wrapping, make_mean_row, score_answers, sign
from nfqa.lab.experiments.sensitivity import Probes, score_probes
from nfqa.lab.results import Row
from nfqa.metrics.perspective_diversity import Diversity

if TYPE_CHECKING:
    from nfqa.models.evaluator import Evaluator

WORKED = (3, -2.0)  # n and the change of P.D. in the paper's example
FACTOR = math.log(2)  # an approximation counts as near within a factor of 2 either way
BOUNDS = (2, 5, 20, 100)  # of the mean perplexity over a pair's partial answers
CHANGES = (FACTOR, 2, 10)  # of a change of perplexity, averaged over a pair's partial answers
STARTS = (2, 5, 20, 100)  # perplexities before the worked example's change
KINDS = ("token", "sequence")
_HERE = "nfqa.lab.experiments.equation_07"
_KERNELS = (f"{_HERE}:compare_pair", "nfqa.kernels.resample:bootstrap_mean")


@dataclass(frozen=True)
class Pair:
    """Two answers to one question, the second with the lower P.D.; all ratios are natural logarithms, second to first.

    predicted: -Δ P.D. / n. corrected: the same change of each perplexity divided by its size, the mean over partial
    answers of -Δ PPL / PPL, PPL the geometric mean of the two. token: the mean change of the log-probability of a
    token, ln PPL_1 - ln PPL_2. sequence: the mean change of a whole partial answer's log-probability. perplexity: the
    mean over partial answers of the geometric mean of the two.
    """

    question: int
    predicted: float
    corrected: float
    token: float
    sequence: float
    perplexity: float


@dataclass(frozen=True)
class Compared:
    """Pairs of answers to the questions of a set, and how they were scored."""

    dataset: QuestionSet
    pairs: tuple[Pair, ...]
    signature: str


def approximate_ratio(change: float, n: int) -> float:
    """exp(-change / n): how many times as probable one partial answer is, by a change of P.D. summed over n.

    Raises: ValueError for n below 1. Source: Equation 7 of the paper.
    Differs from: the ratio itself. A perplexity is exp(-log-probability / tokens), so that a change of it by d stands
    for a factor of (1 - d / PPL)^-1 in a token's probability, near exp(-d) only where PPL is near 1 or d near 0.
    """
    if n < 1:
        raise ValueError(f"n is {n}; expected the number of partial answers, 1 or more")
    return math.exp(-change / n)


def check_example(dataset: QuestionSet) -> Row:
    """The paper's worked example: n = 3 and a P.D. lower by 2."""
    n, change = WORKED
    return Row(
        system="approximation", dataset="worked_example", metric="ratio", value=approximate_ratio(change, n), n=n,
        signature=f"exp(-{change}/{n})|v1", kernels=(f"{_HERE}:approximate_ratio",), origin=dataset.origin,
    )  # fmt: skip


def solve_example(dataset: QuestionSet) -> list[Row]:
    """What the change of the worked example is exactly, for a token: PPL / (PPL - d), d = 2 / 3 of each perplexity.

    Rows token_ratio_from_ppl_P for the perplexity P before the change; and largest_token_ratio, the most that it can
    be, since the perplexity after it is 1 or more. All three partial answers are taken to change alike.
    """
    n, change = WORKED
    drop = -change / n
    ratios = {f"token_ratio_from_ppl_{start:g}": start / (start - drop) for start in STARTS}
    ratios["largest_token_ratio"] = 1 + drop
    return [
        Row(
            system="exact", dataset="worked_example", metric=metric, value=value, n=n, signature="ppl/(ppl-2/3)|v1",
            kernels=(f"{_HERE}:solve_example",), origin=dataset.origin,
        )
        for metric, value in ratios.items()
    ]  # fmt: skip


def compare_pair(question: int, first: Diversity, second: Diversity) -> Pair | None:
    """The approximation and the measured ratios of two answers to one question; None where fewer than one partial
    answer has a finite perplexity under both."""
    shared = [
        (a, b, float(p), float(q))
        for a, b, p, q in zip(first.losses, second.losses, first.perplexities, second.perplexities, strict=True)
        if a is not None and b is not None and math.isfinite(p) and math.isfinite(q)
    ]
    if not shared:
        return None
    if sum(q for *_, q in shared) > sum(p for *_, p, _ in shared):
        shared = [(b, a, q, p) for a, b, p, q in shared]
    before, after = (np.array([row[i] for row in shared], dtype=np.float64) for i in (2, 3))
    middle = np.sqrt(before * after)
    return Pair(
        question,
        predicted=float((before - after).mean()),
        corrected=float(((before - after) / middle).mean()),
        token=float(np.log(before / after).mean()),
        sequence=float(np.mean([a.nats - b.nats for a, b, *_ in shared])),
        perplexity=float(middle.mean()),
    )


def collect_pairs(table: Sequence[Sequence[Diversity | None]]) -> list[Pair]:
    """Every pair of answers to a question, over all questions."""
    pairs = [
        compare_pair(q, first, second)
        for q, row in enumerate(table)
        for first, second in combinations([cell for cell in row if cell is not None], 2)
    ]
    return [pair for pair in pairs if pair is not None]


def collect_answers(
    evaluator: Evaluator, dataset: QuestionSet, *, wrapping: Literal["chat", "plain"] = "chat"
) -> Compared:
    """Pairs of the systems' answers to each question."""
    way = find_wrapping(evaluator, wrapping)
    answers = [[q.answer_of.get(system) for system in dataset.systems] for q in dataset.questions]
    table = score_answers(evaluator, dataset.questions, answers, wrapping=way)
    return Compared(dataset, tuple(collect_pairs(table)), sign(evaluator, settings("paper", wrapping=way)))


def collect_composed(
    evaluator: Evaluator, label: str, probes: Probes, *, wrapping: Literal["chat", "plain"] = "chat"
) -> Compared:
    """Pairs of the exact answers composed of k perspectives of a claim."""
    scored = score_probes(evaluator, label, probes, forms=["exact"], wrapping=wrapping)
    dataset = replace(probes.dataset, questions=probes.claims)
    return Compared(dataset, tuple(collect_pairs(scored.diversities["exact"])), scored.signature)


def measure_approximation(compared: Compared, label: str, *, resamples: int, seed: int = 0) -> list[Row]:
    """How near the approximation comes to the ratios that were measured: overall, and by the size of perplexities.

    A question's pairs are averaged first; intervals are over questions. Systems `approximation_LABEL` (the paper's)
    and `corrected_LABEL` (divided by the perplexity). Metrics, for a token and for the whole sequence: median_log_error
    (the question's median of |ln predicted - ln measured|), within_factor_2 and same_direction (shares of pairs).
    """
    dataset, pairs, signature = compared.dataset, compared.pairs, compared.signature
    rows = []
    forms = (("approximation", [pair.predicted for pair in pairs]), ("corrected", [pair.corrected for pair in pairs]))
    groups = {"": [True] * len(pairs)}
    groups |= {name_bin(low, high): [low <= p.perplexity < high for p in pairs] for low, high in list_bins()}
    groups |= {
        name_bin(low, high, "change"): [low <= p.predicted < high for p in pairs]
        for low, high in pairwise((0.0, *CHANGES, math.inf))
    }
    owner = np.array([pair.question for pair in pairs])
    size = len(dataset.questions)
    for form, guesses in forms:
        for kind in KINDS:
            guessed, measured = np.array(guesses), np.array([getattr(pair, kind) for pair in pairs])
            errors = np.abs(guessed - measured)
            facts = {
                f"median_log_error_{kind}": (errors, np.median),
                f"within_factor_2_{kind}": (errors <= FACTOR, np.mean),
                f"same_direction_{kind}": ((measured > 0) == (guessed > 0), np.mean),
            }
            for metric, (values, summary) in facts.items():
                for suffix, kept in groups.items():
                    chosen = np.array(kept, dtype=bool)
                    if not chosen.any() or (suffix and not metric.startswith("within")):
                        continue
                    per_question = _summarise(values, owner, chosen, size, summary)
                    rows.append(
                        make_mean_row(
                            dataset, f"{form}_{label}", metric + suffix, per_question,
                            f"{form}|pairs:{int(chosen.sum())}|{signature}", _KERNELS, resamples=resamples, seed=seed,
                            dropped={"no_such_pair": int(np.isnan(per_question).sum())},
                        )
                    )  # fmt: skip
    for name, values in (("predicted", [p.predicted for p in pairs]), ("token", [p.token for p in pairs]),
                         ("sequence", [p.sequence for p in pairs])):  # fmt: skip
        everything = np.ones(len(pairs), dtype=bool)
        rows.append(
            make_mean_row(
                dataset, f"approximation_{label}", f"median_log_ratio_{name}",
                _summarise(np.array(values), owner, everything, size, np.median),
                f"pairs:{len(pairs)}|{signature}", _KERNELS, resamples=resamples, seed=seed, dropped={"no_pair": 1},
            )
        )  # fmt: skip
    return rows


def list_bins() -> list[tuple[float, float]]:
    """The ranges of perplexity that pairs are sorted into."""
    edges = (1.0, *map(float, BOUNDS), math.inf)
    return list(pairwise(edges))


def name_bin(low: float, high: float, what: str = "ppl") -> str:
    """How a range ends a metric's name."""
    return f"_{what}_from_{say_bound(low)}" + ("" if math.isinf(high) else f"_to_{say_bound(high)}")


def say_bound(value: float) -> str:
    """A bound of a range: whole, or with two decimals."""
    return f"{value:g}" if math.isinf(value) or value == int(value) else f"{value:.2f}"


def _summarise(
    values: NDArray, owner: NDArray[np.int_], chosen: NDArray[np.bool_], size: int, summary: object
) -> NDArray[np.float64]:
    """One number a question over its chosen pairs, [Q]; NaN for a question without any."""
    found = np.full(size, np.nan)
    for question in np.unique(owner[chosen]):
        found[question] = float(summary(values[chosen & (owner == question)]))  # type: ignore[operator]
    return found
