"""Rows for short ground truth: one known answer (Table 3) or none (Table 4), beside the graded list."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nfqa.data.records import QuestionSet
from nfqa.kernels.resample import bootstrap_difference
from nfqa.lab.experiments.agreement import (
    Draws,
    draw_seeds,
    judge_seeds,
    make_row,
    make_rows,
    measure_judge,
    measure_overlap,
    name_list,
    train_scorers,
    use_zero_shot,
)
from nfqa.lab.plots import PUBLISHED, add_legend, draw_intervals, start_figure
from nfqa.lab.results import Row
from nfqa.metrics.degrade import LEVELS
from nfqa.metrics.evaluation import measure_agreement
from nfqa.metrics.generated import Truth, make_no_truth_list, make_one_truth_list
from nfqa.metrics.listwise import Scorer, collect_training_rows, find_fold, fit_scorer
from nfqa.metrics.references import Draw
from nfqa.models.embed import Embedder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.lab.notebook import Lab

SUFFIX: dict[Truth, str] = {"one": "1gt", "none": "0gt"}
FORMS = ("zero_shot", "trained")
_JUDGE = "nfqa.metrics.listwise:judge_draw"


def draw_lists(dataset: QuestionSet, embedder: Embedder, *, truth: Truth, n_seeds: int) -> Draws:
    """Reference lists without graded answers for every question under seeds 0 to n_seeds - 1, [S][Q].

    Texts of other questions, for the degrader or as off-topic references, are one answer of each, chosen by a hash
    and never by its grade.
    Raises: ValueError for an unknown `truth` or fewer than one seed.
    """
    if truth not in SUFFIX:
        raise ValueError(f"truth is {truth!r}; expected 'one' (1GT) or 'none' (0GT)")
    if n_seeds < 1:
        raise ValueError(f"n_seeds is {n_seeds}; expected 1 or more")
    pools = _make_pools(dataset)
    make = make_one_truth_list if truth == "one" else partial(make_no_truth_list, embedder=embedder)
    draws = [
        [make(question, seed=seed, pool=pool) for question, pool in zip(dataset.questions, pools, strict=True)]
        for seed in range(n_seeds)
    ]
    embedder.prepare(answer.text for row in draws for draw in row for answer in draw.references)
    return draws


def train_on_lists(training: Draws, dataset: QuestionSet, embedder: Embedder) -> list[Scorer]:
    """A trained scorer for each question of `dataset`, fitted on lists of the kind that it will see.

    `training` holds generated lists of training questions, [S][Q]; the grades of their candidates are known, those of
    the judged question are not read. The question itself and the rest of its fold stay out, whatever the data set.
    Raises: ValueError when there is nothing left to train on.
    """
    questions = [draw.question for draw in training[0]]
    rows = [collect_training_rows(column, embedder) for column in zip(*training, strict=True)]
    own = {question.key for question in questions}
    kept_out = [find_fold(question) if question.key in own else None for question in dataset.questions]
    scorers = {
        fold: fit_scorer(row for row, question in zip(rows, questions, strict=True) if find_fold(question) != fold)
        for fold in dict.fromkeys(kept_out)
    }
    return [scorers[fold] for fold in kept_out]


def measure_lists(
    dataset: QuestionSet, training: QuestionSet, embedder: Embedder, *, truth: Truth, n_seeds: int, resamples: int
) -> list[Row]:
    """Rows of the embedded judge under 1GT or 0GT lists, alone and beside graded ones on equal candidates.

    `linkage_embedded_FORM_1gt` (and `_0gt`, `_rank`): all candidates that the list leaves, as for the paper's rows.
    `..._shared` and `linkage_embedded_FORM_graded_list`: the candidates that both this list and the paper's own
    graded list of equal seed leave; `spearman_less_graded_list` is their paired difference. ROUGE-1 compares with
    the list's best reference.
    """
    draws = draw_lists(dataset, embedder, truth=truth, n_seeds=n_seeds)
    same = training.name == dataset.name
    lists = draws if same else draw_lists(training, embedder, truth=truth, n_seeds=n_seeds)
    scorers = {
        "zero_shot": (use_zero_shot(dataset), use_zero_shot(dataset)),
        "trained": (train_on_lists(lists, dataset, embedder), train_scorers(training, dataset, embedder)),
    }
    suffix = SUFFIX[truth]
    made = "degraded" if truth == "one" else "retrieved"
    conditions = f"list:{suffix}:{made}|removed:list|seeds:{n_seeds}"
    rows: list[Row] = []
    for form, (own, _) in scorers.items():
        fitted = f"{conditions}|fitted_on:{suffix}" if form == "trained" else conditions
        rows += measure_judge(
            dataset, draws, own, embedder, system=f"linkage_embedded_{form}_{suffix}", resamples=resamples,
            conditions=fitted, methods=("kendall", "spearman"),
        )  # fmt: skip
    rows += [
        row
        for row in measure_overlap(
            dataset, draws, ["rouge1"], suffix=f"_{suffix}", resamples=resamples, conditions=conditions
        )
        if row.metric != "pearson"
    ]
    ours, graded = share_candidates(draws, draw_seeds(dataset, n_seeds=n_seeds))
    for form, (own, other) in scorers.items():
        rows += _compare_lists(dataset, ours, graded, own, other, embedder, form, suffix, resamples)
    return rows


def share_candidates(ours: Draws, theirs: Draws) -> tuple[Draws, Draws]:
    """The same draws, each pair with the candidates that both leave; what one dropped, both lack."""

    def keep(draw: Draw, other: Draw) -> Draw:
        left = {answer.id for answer in other.candidates}
        kept = tuple(answer for answer in draw.candidates if answer.id in left)
        return replace(draw, candidates=kept, dropped=draw.dropped or other.dropped)

    pairs = [list(zip(*rows, strict=True)) for rows in zip(ours, theirs, strict=True)]
    return [[keep(a, b) for a, b in row] for row in pairs], [[keep(b, a) for a, b in row] for row in pairs]


def describe_lists(rows: Sequence[Row]) -> list[str]:
    """Two or three sentences a data set: the judge without graded references, what that costs, and the levels."""
    found = {row.key: row for row in rows if row.value is not None}
    suffix = "1gt" if any(row.system.endswith("_1gt") for row in rows) else "0gt"
    what = "one known answer" if suffix == "1gt" else "no known answer"
    sentences = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        said = [
            f"{form.replace('_', '-')} {_say(own)}, less the graded list on equal candidates {_say(less, '+')}"
            for form in FORMS
            if (own := found.get((f"linkage_embedded_{form}_{suffix}", dataset, "spearman")))
            and (less := found.get((f"linkage_embedded_{form}_{suffix}", dataset, "spearman_less_graded_list")))
        ]
        if said:
            sentences.append(f"{dataset}, {what}, Spearman: {'; '.join(said)}.")
        means = [found.get((f"degraded_level_{level}", dataset, "mean_score")) for level in range(LEVELS + 1)]
        shares = [found.get((f"degraded_level_{level}", dataset, "share_below")) for level in range(1, LEVELS + 1)]
        if all(means) and all(shares):
            falls = ", ".join(f"{row.value:.2f}" for row in means if row)
            often = ", ".join(f"{row.value:.0%}" for row in shares if row)
            sentences.append(
                f"{dataset}: the known answer and its degradations at levels 1, 2, 3 score {falls} on average;"
                f" a level scores below the one before in {often} of questions."
            )
        labels = [found.get((f"retrieved_grade_{grade}", dataset, "mean_label")) for grade in (3, 2, 1)]
        if all(labels):
            given = ", ".join(f"{row.value:.2f}" for row in labels if row)
            sentences.append(f"{dataset}: people gave what stands for grades 3, 2, 1 on average {given}.")
    return sentences


def draw_systems(lab: Lab, rows: Sequence[Row], *, metric: str = "spearman") -> Figure:
    """One panel a data set: the published systems as hollow diamonds above ours with their intervals."""
    leaves = [leaf for leaf in lab.leaves() if leaf.metric == metric]
    shown = [row for row in rows if row.metric == metric and not row.dataset.endswith("_unseen")]
    systems = list(dict.fromkeys([*(leaf.system for leaf in leaves), *(row.system for row in shown)]))
    datasets = list(dict.fromkeys(row.dataset for row in shown))
    figure, grid = start_figure(
        1, len(datasets), width=3.4 + 3 * len(datasets), height=1 + 0.24 * len(systems), squeeze=False, sharex=True
    )
    titles = [lab.title(system) for system in systems]
    for axes, dataset in zip(grid[0], datasets, strict=True):
        found = {row.system: row for row in shown if row.dataset == dataset}
        draw_intervals(axes, [found.get(s) for s in systems], titles if axes is grid[0, 0] else [""] * len(systems))
        marks = [
            (leaf.value, len(systems) - 1 - systems.index(leaf.system)) for leaf in leaves if leaf.dataset == dataset
        ]
        if marks:
            axes.plot(*zip(*marks, strict=True), "D", mfc="none", mec=PUBLISHED, ms=6, mew=1.2)
        axes.set(title=dataset, xlabel=f"{metric.capitalize()}, average over questions")
        axes.locator_params(axis="x", nbins=5)
    has_published = any(leaf.dataset in datasets for leaf in leaves)
    add_legend(figure, [shown[0].model_copy(update={"paper": 0.0 if has_published else None})])
    return figure


def _compare_lists(
    dataset: QuestionSet,
    ours: Draws,
    graded: Draws,
    own: Sequence[Scorer],
    other: Sequence[Scorer],
    embedder: Embedder,
    form: str,
    suffix: str,
    resamples: int,
) -> list[Row]:
    name = name_list(dataset.name)[1:]
    shared = f"removed:{suffix},{name}|seeds:{len(ours)}"
    systems = {
        f"linkage_embedded_{form}_{suffix}_shared": (ours, own, f"judge:{form}|list:{suffix}|{shared}"),
        f"linkage_embedded_{form}_graded_list": (graded, other, f"judge:{form}|list:{name}|{shared}"),
    }
    rows, measured = [], []
    for system, (draws, scorers, signature) in systems.items():
        scores = [[verdict.scores for verdict in row] for row in judge_seeds(draws, scorers, embedder)]
        rows += make_rows(
            dataset, draws, scores, system, signature, _JUDGE, resamples=resamples, methods=("spearman",)
        )  # fmt: skip
        measured.append(measure_agreement(draws, scores, method="spearman", resamples=1))
    delta = bootstrap_difference(measured[0].per_question, measured[1].per_question, resamples=resamples)
    system = f"linkage_embedded_{form}_{suffix}"
    signature = f"{system}|judge:{form}|list:{suffix}|less:{name}|{shared}|boot:{resamples}|v1"
    kernels = (_JUDGE, "nfqa.kernels.resample:bootstrap_difference")
    less = replace(measured[0], interval=delta)
    return [*rows, make_row(dataset, system, "spearman_less_graded_list", less, signature, kernels)]


def _make_pools(dataset: QuestionSet) -> list[list[str]]:
    """For each question one answer of each of the others, chosen by hash."""
    chosen = []
    for question in dataset.questions:
        texts = sorted(
            {answer.text for answer in question.answers}, key=lambda text: hashlib.sha256(text.encode()).digest()
        )
        chosen.append((question.key, texts[:1]))
    return [[text for key, texts in chosen if key != question.key for text in texts] for question in dataset.questions]


def _say(row: Row, sign: str = "") -> str:
    return f"{row.value:{sign}.3f} [{row.ci_low:{sign}.3f}, {row.ci_high:{sign}.3f}]"
