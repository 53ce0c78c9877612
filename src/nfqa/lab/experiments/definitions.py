"""How far each definition moves the result: every variant against its base, question by question, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import QuestionSet
from nfqa.kernels.correlation import Method
from nfqa.kernels.resample import bootstrap_difference
from nfqa.lab.experiments.agreement import Draws, draw_seeds, judge_seeds, score_overlap, use_zero_shot
from nfqa.lab.results import Row
from nfqa.metrics.evaluation import Agreement, Undefined, measure_agreement
from nfqa.models.embed import Embedder

UNDERFLOW = 1e-50  # smoothed or real sentence BLEU never comes near this; unsmoothed BLEU with an empty order does
RELEASED_DEFAULT_RANK = 2  # the rank that the released LINKAGE script gives to a candidate without a verdict
Scores = list[list[NDArray]]
_DIFFERENCE = "nfqa.kernels.resample:bootstrap_difference"
_METHODS: tuple[Method, ...] = ("kendall", "spearman")


@dataclass(frozen=True)
class Side:
    """One way of measuring: draws, scores on them, and what an undefined coefficient counts as."""

    draws: Draws
    scores: Scores
    undefined: Undefined = "drop"

    def correlate(self, method: Method) -> Agreement:
        """Average agreement of this side, without a useful interval of its own."""
        return measure_agreement(self.draws, self.scores, method=method, undefined=self.undefined, resamples=1)


@dataclass(frozen=True)
class Definition:
    """A variant and the base that it is compared with; `topic` groups variants of one decision."""

    topic: str
    name: str
    base_name: str
    variant: Side
    base: Side
    kernel: str = "nfqa.metrics.overlap:score_draws"


def compare_definitions(
    dataset: QuestionSet,
    embedder: Embedder,
    *,
    n_seeds: int,
    resamples: int,
    without_repeats: QuestionSet | None = None,
) -> list[Row]:
    """Rows of variant less base, with the paired interval, for every definition and Kendall and Spearman.

    `delta_*` is the difference of the two averages, each over what is defined on its side: what a reader of the two
    numbers sees. `delta_*_shared` keeps the question-draw pairs defined on both sides: what is left of it when the
    questions are the same.

    Args: without_repeats: the same data set loaded with repeats="first", to measure what repeated passages do.
    """
    rows = []
    for definition in make_definitions(dataset, embedder, n_seeds=n_seeds, without_repeats=without_repeats):
        for method in _METHODS:
            rows += _make_deltas(dataset, definition, method, n_seeds, resamples)
    return rows


def make_definitions(
    dataset: QuestionSet, embedder: Embedder, *, n_seeds: int, without_repeats: QuestionSet | None = None
) -> list[Definition]:
    """Every variant with its base. Overlap metrics are run as the paper ran them, the judge in its zero-shot form."""
    draws = draw_seeds(dataset, n_seeds=n_seeds, remove="best")
    scores: dict[str, Scores] = {}

    def score(metric: str) -> Side:
        if metric not in scores:
            scores[metric] = score_overlap(draws, metric, embedder)
        return Side(draws, scores[metric])

    definitions = []
    for base, variants, topic in (
        ("rouge1", ("google_rouge1", "google_rouge1_stem"), "ROUGE flavour"),
        ("rouge2", ("google_rouge2", "google_rouge2_stem"), "ROUGE flavour"),
        ("rougel", ("google_rougel", "google_rougel_stem"), "ROUGE flavour"),
        ("bleu", ("bleu_smooth1", "bleu_smooth3", "sacrebleu"), "BLEU smoothing"),
        ("cls_cosine", ("bertscore",), "BERTScore"),
    ):
        definitions += [Definition(topic, name, base, score(name), score(base)) for name in variants]
    floored = Side(draws, _map(scores["bleu"], lambda given, _: np.where(given < UNDERFLOW, 0.0, given)))
    definitions.append(Definition("BLEU underflow", "bleu_underflow_as_zero", "bleu", floored, score("bleu")))
    for metric in ("rouge1", "rouge2", "bleu"):
        zero = Side(draws, scores[metric], "zero")
        definitions.append(Definition("undefined", f"{metric}_undefined_as_zero", metric, zero, score(metric)))
    definitions += _vary_references(dataset, embedder, n_seeds, score("rouge1"))
    if without_repeats is not None:
        fewer = draw_seeds(without_repeats, n_seeds=n_seeds, remove="best")
        side = Side(fewer, score_overlap(fewer, "rouge1", embedder))
        definitions.append(Definition("repeats", "rouge1_repeats_once", "rouge1", side, score("rouge1")))
    return [*definitions, *_vary_judge(dataset, embedder, n_seeds)]


def _vary_references(dataset: QuestionSet, embedder: Embedder, n_seeds: int, base: Side) -> list[Definition]:
    """The reference left among the candidates, or the whole list taken out."""
    definitions = []
    for remove, name in (("nothing", "rouge1_reference_kept"), ("list", "rouge1_list_removed")):
        draws = draw_seeds(dataset, n_seeds=n_seeds, remove=remove)  # type: ignore[arg-type]
        side = Side(draws, score_overlap(draws, "rouge1", embedder))
        definitions.append(Definition("reference kept or removed", name, "rouge1", side, base))
    return definitions


def _vary_judge(dataset: QuestionSet, embedder: Embedder, n_seeds: int) -> list[Definition]:
    """What happens to ranks: ties broken by file order, missing verdicts given a default, scores keyed by text."""
    kernel = "nfqa.metrics.listwise:judge_draw"
    draws = draw_seeds(dataset, n_seeds=n_seeds)
    verdicts = judge_seeds(draws, use_zero_shot(dataset), embedder)
    ranks = Side(draws, [[-verdict.ranks.astype(float) for verdict in row] for row in verdicts])
    ordered = _map(ranks.scores, lambda given, _: given - np.arange(len(given)) / (len(given) + 1))
    made = [("ties", "rank_ties_in_file_order", Side(draws, ordered))]
    made.append(("rank or score", "score_instead_of_rank", Side(draws, [[v.scores for v in row] for row in verdicts])))
    for share in (0.05, 0.20):
        lost = _map(ranks.scores, lambda given, seed, part=share: _lose(given, part, seed))  # type: ignore[misc]
        made.append(
            ("missing verdict", f"default_rank_{share:.0%}_missing".replace("%", "_percent"), Side(draws, lost))
        )
    made.append(("keyed by text", "rank_keyed_by_passage_text", Side(draws, _key_by_text(ranks))))
    definitions = [Definition(topic, name, "rank", side, ranks, kernel) for topic, name, side in made]
    whole = draw_seeds(dataset, n_seeds=n_seeds, short="drop")
    kept = judge_seeds(whole, use_zero_shot(dataset), embedder) if _any_list(whole) else None
    if kept is not None:
        side = Side(whole, [[-verdict.ranks.astype(float) for verdict in row] for row in kept])
        definitions.append(Definition("short lists", "rank_short_lists_dropped", "rank", side, ranks, kernel))
    return definitions


def _any_list(draws: Draws) -> bool:
    return any(len(set(draw.labels)) > 1 for row in draws for draw in row)


def _map(scores: Scores, change: Callable[[NDArray, int], NDArray]) -> Scores:
    """Change every array of scores; `change` is also told a number of its own, for seeding."""
    width = len(scores[0])
    return [[change(given, s * width + q) for q, given in enumerate(row)] for s, row in enumerate(scores)]


def _lose(ranks: NDArray, share: float, seed: int) -> NDArray:
    """Replace a random share of ranks by the released default, as a verdict that could not be read would be."""
    missing = np.random.default_rng([seed, 7]).random(len(ranks)) < share
    return np.where(missing, -float(RELEASED_DEFAULT_RANK), ranks)


def _key_by_text(side: Side) -> Scores:
    """What a dictionary from passage text to score does: a passage under two questions gets the last one's score."""
    keyed = []
    for row, row_scores in zip(side.draws, side.scores, strict=True):
        last = {a.text: s for draw, given in zip(row, row_scores, strict=True)
                for a, s in zip(draw.candidates, given, strict=True)}  # fmt: skip
        keyed.append([np.array([last[answer.text] for answer in draw.candidates]) for draw in row])
    return keyed


def _make_deltas(
    dataset: QuestionSet, definition: Definition, method: Method, n_seeds: int, resamples: int
) -> list[Row]:
    variant, base = definition.variant.correlate(method), definition.base.correlate(method)
    shared = ~np.isnan(variant.per_question) & ~np.isnan(base.per_question)
    sides = {"": np.ones_like(shared), "_shared": shared}
    rows = []
    for suffix, kept in sides.items():
        ours, theirs = (np.where(kept, side.per_question, np.nan) for side in (variant, base))
        delta = bootstrap_difference(ours, theirs, resamples=resamples)
        signature = f"{definition.name}|less:{definition.base_name}|topic:{definition.topic}|base_n:{base.n}"
        kernels = (definition.kernel, f"nfqa.kernels.correlation:_{method}", _DIFFERENCE)
        rows.append(
            Row(
                system=definition.name,
                dataset=dataset.name,
                metric=f"delta_{method}{suffix}",
                value=delta.value,
                ci_low=delta.low,
                ci_high=delta.high,
                n=int((~np.isnan(ours)).sum()),
                n_dropped=int(np.isnan(ours).sum()),
                dropped_because={} if suffix else variant.dropped_because,
                seeds=tuple(range(n_seeds)),
                spread=delta.spread,
                signature=f"{signature}|pairs:{suffix[1:] or 'each_side'}|seeds:{n_seeds}|boot:{resamples}|v1",
                kernels=kernels,
                origin=dataset.origin,
            )
        )
    return rows


def count_underflow(dataset: QuestionSet, *, n_seeds: int) -> Row:
    """The share of candidate scores whose unsmoothed BLEU lies below any real value."""
    draws = draw_seeds(dataset, n_seeds=n_seeds, remove="best")
    values = np.concatenate([given for row in score_overlap(draws, "bleu") for given in row])
    return Row(
        system="bleu",
        dataset=dataset.name,
        metric="share_underflown",
        value=float((values < UNDERFLOW).mean()),
        n=len(values),
        seeds=tuple(range(n_seeds)),
        signature=f"bleu|below:{UNDERFLOW}|seeds:{n_seeds}|v1",
        kernels=("nfqa.metrics.overlap:score_nltk_bleu",),
        origin=dataset.origin,
    )


def describe_definitions(rows: Sequence[Row]) -> list[str]:
    """The definitions that move Spearman surely (interval off zero), largest first, and how many don't."""
    sentences = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        own = [row for row in rows if row.dataset == dataset and row.value is not None]
        shared = {row.system: row for row in own if row.metric == "delta_spearman_shared"}
        deltas = [row for row in own if row.metric == "delta_spearman"]
        sure = [row for row in deltas if (row.ci_low or 0.0) > 0 or (row.ci_high or 0.0) < 0]
        sure.sort(key=lambda row: -abs(row.value or 0.0))
        listed = ", ".join(f"{row.system} {row.value:+.3f}{_add_shared(shared, row)}" for row in sure[:6])
        sentences.append(
            f"{dataset}: {len(sure)} of {len(deltas)} variants move the average Spearman by more than the choice of"
            f" questions explains" + (f"; the largest: {listed}." if sure else ".")
        )
    return sentences


def _add_shared(shared: dict[str, Row], row: Row) -> str:
    other = shared.get(row.system)
    return "" if other is None else f" ({other.value:+.3f} on shared pairs)"
