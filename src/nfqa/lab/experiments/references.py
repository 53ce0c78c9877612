"""Rows on the reference list itself: its composition (Table 6) and the luck of its draw (Tables 9 and 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.resample import bootstrap_difference
from nfqa.lab.experiments.agreement import (
    Draws,
    draw_seeds,
    judge_seeds,
    make_row,
    make_rows,
    name_list,
    score_overlap,
    train_scorers,
    use_zero_shot,
)
from nfqa.lab.results import Row
from nfqa.metrics.evaluation import measure_agreement
from nfqa.metrics.listwise import Scorer
from nfqa.metrics.overlap import METRICS
from nfqa.metrics.references import COMPOSITIONS, ShortRule
from nfqa.models.embed import Embedder

_JUDGE = "nfqa.metrics.listwise:judge_draw"


def measure_compositions(
    dataset: QuestionSet,
    training: QuestionSet,
    embedder: Embedder,
    *,
    n_seeds: int,
    short: ShortRule,
    resamples: int,
) -> list[Row]:
    """Kendall and Spearman of the embedded judge under each composition of Table 6, on equal candidates.

    The references of every composition leave the candidates of all of them. Lists of one seed are nested. A further
    row, `spearman_less_own_list`, is the paired difference to the paper's own list for the data set.
    """
    draws = {
        name: draw_seeds(dataset, n_seeds=n_seeds, composition=name, short=short, also_remove=list(COMPOSITIONS))
        for name in COMPOSITIONS
    }
    own = name_list(dataset.name)
    rows = []
    for form in ("zero_shot", "trained"):
        tables: dict[str, NDArray] = {}
        for name in sorted(COMPOSITIONS, key=lambda name: name != own):  # the own list first: others are less it
            trained = form == "trained"
            scorers = train_scorers(training, dataset, embedder, name) if trained else use_zero_shot(dataset)
            verdicts = judge_seeds(draws[name], scorers, embedder)
            scores = [[verdict.scores for verdict in row] for row in verdicts]
            rows += make_rows(
                dataset,
                draws[name],
                scores,
                f"linkage_embedded_{form}_{name}",
                f"judge:{form}|list:{name[1:]}|removed:all_lists|short:{short}|seeds:{n_seeds}",
                _JUDGE,
                resamples=resamples,
                methods=("kendall", "spearman"),
            )
            spearman = measure_agreement(draws[name], scores, method="spearman", resamples=1)
            tables[name] = spearman.per_question
            if name != own:
                delta = bootstrap_difference(tables[name], tables[own], resamples=resamples)
                less = replace(spearman, interval=delta)
                kernels = (_JUDGE, "nfqa.kernels.resample:bootstrap_difference")
                signature = f"judge:{form}|list:{name[1:]}|less:{own[1:]}|seeds:{n_seeds}|boot:{resamples}|v1"
                system = f"linkage_embedded_{form}_{name}"
                rows.append(make_row(dataset, system, "spearman_less_own_list", less, f"{system}|{signature}", kernels))
    return rows


def measure_judge_runs(
    dataset: QuestionSet,
    draws: Draws,
    scorers: Sequence[Scorer],
    embedder: Embedder,
    *,
    system: str,
    conditions: str,
    resamples: int,
) -> list[Row]:
    """Spearman of the embedded judge's score under each draw of references, its mean and its deviation over draws."""
    scores = [[verdict.scores for verdict in row] for row in judge_seeds(draws, scorers, embedder)]
    signature = f"judge:{scorers[0].name}|{conditions}"
    return make_run_rows(dataset, draws, scores, system, signature, _JUDGE, resamples)


def measure_overlap_runs(
    dataset: QuestionSet, draws: Draws, metric: str, embedder: Embedder, *, conditions: str, resamples: int
) -> list[Row]:
    """The same for an overlap metric, whose one reference is drawn too."""
    scores = score_overlap(draws, metric, embedder)
    signature = f"{METRICS[metric].signature}|{conditions}"
    return make_run_rows(dataset, draws, scores, metric, signature, METRICS[metric].kernel, resamples)


def make_run_rows(
    dataset: QuestionSet,
    draws: Draws,
    scores: list[list[NDArray]],
    system: str,
    signature: str,
    kernel: str,
    resamples: int,
) -> list[Row]:
    """Spearman of given scores under each draw, its mean over draws, and its deviation (n - 1) over them."""
    agreement = measure_agreement(draws, scores, method="spearman", resamples=resamples)
    kernels = (kernel, "nfqa.kernels.correlation:_spearman", "nfqa.kernels.resample:bootstrap_mean")
    mark = f"{system}|{signature}|undefined:drop|boot:{resamples}|v1"
    rows = []
    for number, (row_draws, row_scores) in enumerate(zip(draws, scores, strict=True)):
        run = measure_agreement([row_draws], [row_scores], method="spearman", resamples=resamples)
        row = make_row(dataset, system, f"spearman_run_{number + 1}", run, mark, kernels)
        rows.append(row.model_copy(update={"seeds": (number,)}))
    rows.append(make_row(dataset, system, "spearman_mean", agreement, mark, kernels))
    per_seed = np.array(agreement.per_seed)
    deviation = float(np.std(per_seed, ddof=1)) if len(per_seed) > 1 else None
    update = {"metric": "spearman_std", "value": deviation, "ci_low": None, "ci_high": None, "spread": None}
    return [*rows, rows[-1].model_copy(update=update)]


def describe_compositions(rows: Sequence[Row]) -> list[str]:
    """A sentence a data set and form: which lists differ from the paper's own, question by question."""
    sentences = []
    deltas = [row for row in rows if row.metric == "spearman_less_own_list" and row.value is not None]
    for dataset in dict.fromkeys(row.dataset for row in deltas):
        for form in ("zero_shot", "trained"):
            start = f"linkage_embedded_{form}_r"
            part = [row for row in deltas if row.dataset == dataset and row.system.startswith(start)]
            said = ", ".join(
                f"{row.system.removeprefix(start)} {row.value:+.3f} [{row.ci_low:+.3f}, {row.ci_high:+.3f}]"
                for row in part
            )
            if said:
                sentences.append(f"{dataset}, {form}: Spearman less that of the paper's own list: {said}.")
    return sentences


def describe_runs(rows: Sequence[Row]) -> list[str]:
    """A sentence a system: how far the draw of references alone moves the average."""
    sentences = []
    for system in dict.fromkeys(row.system for row in rows):
        own = [row for row in rows if row.system == system]
        runs = [row.value for row in own if row.metric.startswith("spearman_run") and row.value is not None]
        mean = next(row for row in own if row.metric == "spearman_mean")
        if runs and mean.value is not None and mean.ci_low is not None and mean.ci_high is not None:
            sentences.append(
                f"{system}: {len(runs)} draws give {min(runs):.3f} to {max(runs):.3f}, mean {mean.value:.3f};"
                f" the interval"
                f" over questions, [{mean.ci_low:.3f}, {mean.ci_high:.3f}], is"
                f" {(mean.ci_high - mean.ci_low) / max(max(runs) - min(runs), 1e-12):.1f} times as wide as that range."
            )
    return sentences
