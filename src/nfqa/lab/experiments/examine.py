"""What is measured of a judge's verdicts: length, seeds, missing ones, order, attacks, readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.correlation import correlate_groups
from nfqa.kernels.resample import bootstrap_difference
from nfqa.lab.experiments.agreement import make_row
from nfqa.lab.results import Row
from nfqa.metrics.evaluation import Agreement, summarise
from nfqa.metrics.judging import Judgement
from nfqa.metrics.references import Draw

_RELEASED_DEFAULT = -2.0  # the score that the released code gives an answer whose rank it can't read
_CORRELATION = "nfqa.kernels.correlation:_spearman"


@dataclass(frozen=True)
class Examiner:
    """Makes rows about one judge on one data set, `mark` being its signature."""

    dataset: QuestionSet
    system: str
    mark: str
    kernel: str
    resamples: int

    def examine_length(self, draws: Sequence[Draw], scores: Sequence[NDArray]) -> list[Row]:
        """Spearman with length in words, of scores and of grades; and of scores with grades, length held constant.

        The last is the partial rank correlation (r_sg - r_sl r_gl) / sqrt((1 - r_sl^2)(1 - r_gl^2)) of each question.
        """
        lengths = [np.array([len(a.text.split()) for a in draw.candidates], dtype=float) for draw in draws]
        labels = _list_labels(draws)
        scores, lengths, labels = _keep_common(scores, lengths, labels)
        by_score, by_people = _correlate(scores, lengths), _correlate(labels, lengths)
        plain = _correlate(scores, labels)
        rest = (1 - by_score**2) * (1 - by_people**2)
        partial = np.divide(
            plain - by_score * by_people, np.sqrt(rest), out=np.full_like(plain, np.nan), where=rest > 1e-9
        )
        return [
            self.row("length_with_score", by_score),
            self.row("length_with_people", by_people),
            self.less("length_bias", by_score, by_people),
            self.row("spearman", plain),
            self.row("spearman_length_constant", partial),
            self.less("length_effect", np.where(np.isnan(partial), np.nan, plain), partial),
        ]

    def examine_seeds(self, draws: Sequence[Sequence[Draw]], scores: Sequence[Sequence[NDArray]]) -> list[Row]:
        """Spearman between the scores of two seeds on the candidates that both judged, averaged over pairs of seeds.

        Where the candidates are the same, also what averaging over the seeds brings.
        """
        columns = []
        for i, j in combinations(range(len(draws)), 2):
            pairs = [_share(*four) for four in zip(draws[i], scores[i], draws[j], scores[j], strict=True)]
            columns.append(_correlate([a for a, _ in pairs], [b for _, b in pairs]))
        table = np.array([[_mean(row)] for row in np.column_stack(columns)])
        rows = [self.row("agreement_over_seeds", table)]
        if all(row is draws[0] for row in draws):
            *seeds, labels = _keep_common(*scores, _list_labels(draws[0]))
            averaged = [np.mean(parts, axis=0) for parts in zip(*seeds, strict=True)]
            rows.append(self.less("seeds_effect", _correlate(averaged, labels), _correlate(seeds[0], labels)))
        return rows

    def examine_missing(self, draws: Sequence[Draw], judgements: Sequence[Judgement]) -> list[Row]:
        """The share of verdicts missing, and what the released default in their place does to agreement."""
        labels = _list_labels(draws)
        shares = np.array([np.isnan(j.scores).mean() if len(j.scores) else np.nan for j in judgements])
        kept = _correlate([j.scores for j in judgements], labels)
        filled = _correlate([np.nan_to_num(j.scores, nan=_RELEASED_DEFAULT) for j in judgements], labels)
        return [self.row("missing_share", shares), self.less("missing_effect", filled, kept)]

    def examine_orders(
        self, draws: Sequence[Draw], first: Sequence[Judgement], second: Sequence[Judgement]
    ) -> list[Row]:
        """Pairs whose choice changes when turned round, how often the first is chosen, what both orders bring."""
        flips, firsts = [], []
        for a, b in zip(first, second, strict=True):
            one = np.array([np.nan if v.value is None else v.value for v in a.verdicts[: len(a.positions)]])
            two = np.array([np.nan if v.value is None else v.value for v in b.verdicts[: len(b.positions)]])
            both = ~np.isnan(one) & ~np.isnan(two)
            flips.append(np.mean(np.sign(one[both]) != -np.sign(two[both])) if both.any() else np.nan)
            decided = np.concatenate([one, two])
            decided = decided[~np.isnan(decided) & (decided != 0)]
            firsts.append(np.mean(decided > 0) if len(decided) else np.nan)
        ones, twos, labels = _keep_common([a.scores for a in first], [b.scores for b in second], _list_labels(draws))
        averaged = [(a + b) / 2 for a, b in zip(ones, twos, strict=True)]
        single = _correlate(ones, labels)
        return [
            self.row("flip_rate", np.array(flips)),
            self.row("first_chosen", np.array(firsts)),
            self.less("order_effect", _correlate(averaged, labels), single),
        ]

    def examine_list_order(self, plain: Sequence[NDArray], turned: Sequence[NDArray]) -> Row:
        """The share of ranks that move when the references are handed over in reversed order."""
        moved = [np.mean(a != b) if len(a) else np.nan for a, b in zip(plain, turned, strict=True)]
        return self.row("list_order_moved", np.array(moved))

    def examine_attack(self, attack: str, plain: Sequence[NDArray], attacked: Sequence[NDArray]) -> Row:
        """Places gained by the altered candidate, on average."""
        gained = [_mean(b - a) for a, b in zip(plain, attacked, strict=True)]
        return self.row(f"gain_{attack}", np.array(gained))

    def compare_readings(self, draws: Sequence[Draw], text: Sequence[NDArray], logits: Sequence[NDArray]) -> list[Row]:
        """How the rank read from text and the expected rank read from logits differ, on the same model and prompts."""
        text, logits, labels = _keep_common(text, logits, _list_labels(draws))
        gaps = [_mean(np.abs(a - b)) for a, b in zip(text, logits, strict=True)]
        by_text, by_logits = _correlate(text, labels), _correlate(logits, labels)
        return [
            self.row("readings_apart", np.array(gaps)),
            self.row("readings_agreement", _correlate(text, logits)),
            self.row("spearman_logits", by_logits),
            self.less("logits_effect", by_logits, by_text),
        ]

    def row(self, metric: str, per_question: NDArray) -> Row:
        """An average over questions."""
        return self._make(metric, summarise(per_question, resamples=self.resamples), "bootstrap_mean")

    def less(self, metric: str, values: NDArray, base: NDArray) -> Row:
        """A paired difference of averages over questions."""
        agreement = summarise(values, resamples=1)
        delta = bootstrap_difference(values, base, resamples=self.resamples)
        return self._make(
            metric, replace(agreement, interval=delta, n=delta.n, n_dropped=delta.n_missing), "bootstrap_difference"
        )

    def _make(self, metric: str, agreement: Agreement, how: str) -> Row:
        kernels = (self.kernel, _CORRELATION, f"nfqa.kernels.resample:{how}")
        signature = f"{self.system}|{self.mark}|boot:{self.resamples}|v1"
        dropped = {"undefined": agreement.n_dropped} if agreement.n_dropped else {}
        agreement = replace(agreement, dropped_because=dropped)
        return make_row(self.dataset, self.system, metric, agreement, signature, kernels)


def _list_labels(draws: Sequence[Draw]) -> list[NDArray]:
    return [np.array(draw.labels, dtype=float) for draw in draws]


def _keep_common(*columns: Sequence[NDArray]) -> list[list[NDArray]]:
    """Each column, [Q] of arrays, with those candidates of a question alone that have a number in every column.

    Two sides of a difference, and the three coefficients of a partial one, must speak of the same candidates.
    """
    kept = [~np.isnan(np.array(parts)).any(axis=0) for parts in zip(*columns, strict=True)]
    return [[values[mask] for values, mask in zip(column, kept, strict=True)] for column in columns]


def _correlate(scores: Sequence[NDArray], others: Sequence[NDArray]) -> NDArray[np.float64]:
    """Spearman inside each question over the candidates that have both numbers, [Q]."""
    kept = [~np.isnan(a) & ~np.isnan(b) for a, b in zip(scores, others, strict=True)]
    x = [a[k] for a, k in zip(scores, kept, strict=True)]
    y = [b[k] for b, k in zip(others, kept, strict=True)]
    found = correlate_groups(np.concatenate(x), np.concatenate(y), [len(part) for part in x], method="spearman")
    return found.values


def _share(a: Draw, scores: NDArray, b: Draw, others: NDArray) -> tuple[NDArray, NDArray]:
    """The scores of the candidates that both draws have."""
    where = {answer.id: i for i, answer in enumerate(b.candidates)}
    both = [(i, where[answer.id]) for i, answer in enumerate(a.candidates) if answer.id in where]
    return scores[[i for i, _ in both]], others[[j for _, j in both]]


def _mean(values: NDArray) -> float:
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else float("nan")
