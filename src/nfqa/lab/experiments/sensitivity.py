"""Does P.D. fall with the perspectives that an answer holds, and not with padding, repetition or order?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nfqa.data.records import Question, QuestionSet
from nfqa.kernels.perplexity import settings
from nfqa.lab.experiments.debate_systems import name_role
from nfqa.lab.experiments.diversity import (
    count_dropped,
    find_wrapping,
    make_mean_row,
    make_share_row,
    score_answers,
    sign,
    tabulate,
)
from nfqa.lab.results import Row
from nfqa.metrics.compose import choose_points, compose_answers, draw_unrelated, pad_answers, repeat_point
from nfqa.metrics.perspective_diversity import Diversity

if TYPE_CHECKING:
    from nfqa.lab.debate_lab import DebateLab
    from nfqa.models.evaluator import Evaluator

POINTS = 4  # perspectives of a claim that are scored; an answer holds k = 0 to 4 of them
DROP = 0.3  # of the words, in the paraphrased answers
NEUTRAL = "There is not much that I can say about this."
TARGETS = {
    "exact_falls": 0.95,
    "paraphrased_falls": 0.90,
    "padding_lowers": 0.0,
}  # what the default evaluator is to reach
_KERNELS = (
    "nfqa.metrics.compose:compose_answers",
    "nfqa.metrics.perspective_diversity:measure_diversity",
    "nfqa.kernels.resample:bootstrap_mean",
)


@dataclass(frozen=True)
class Probes:
    """Claims with their POINTS perspectives as partial answers, and the answers composed for each, by form.

    exact, paraphrased: [POINTS + 1], k = 0 to POINTS, the first an unrelated text as long as one perspective. neutral:
    [1], words that hold nothing. padded: [POINTS], the exact answers for k = 1 on with an unrelated text at the end.
    reordered: [2], all perspectives in other orders. repeated: [1], the first perspective POINTS times.
    """

    dataset: QuestionSet
    claims: tuple[Question, ...]
    forms: dict[str, tuple[tuple[str, ...], ...]]  # form -> [Q][answers]
    signature: str
    too_few: int


@dataclass(frozen=True)
class Scored:
    """P.D. of every composed answer, by form, [Q, answers], and what it is made of."""

    system: str
    values: dict[str, NDArray[np.float64]]
    diversities: dict[str, list[list[Diversity | None]]]
    signature: str


def build_probes(dataset: QuestionSet, *, words: int | None, seed: int = 0, limit: int | None = None) -> Probes:
    """Compose answers for every claim with POINTS perspectives or more.

    Args: words: each perspective is cut after so many, None for whole ones; limit: at most so many claims, by key.
    Raises: ValueError when no claim has enough perspectives.
    """
    enough = [question for question in dataset.questions if len(question.partial_answers) >= POINTS]
    chosen = sorted(enough, key=lambda question: question.key)[:limit]
    if not chosen:
        raise ValueError(f"{dataset.name}: no claim has {POINTS} perspectives; use a larger set")
    claims: list[Question] = []
    forms: dict[str, list[tuple[str, ...]]] = {}
    for question in chosen:
        points = choose_points(question, POINTS, seed=seed, words=words)
        length = max(1, round(np.mean([len(point.text.split()) for point in points])))
        unrelated = draw_unrelated(question, dataset.questions, words=2 * length, seed=seed)
        start = " ".join(unrelated.split()[:length])
        exact = compose_answers(points, start=start, seed=seed)
        claims.append(replace(question, partial_answers=points))
        answers = {
            "exact": exact,
            "paraphrased": compose_answers(points, start=start, seed=seed, order="shuffled", drop=DROP),
            "neutral": (NEUTRAL,),
            "padded": pad_answers(exact[1:], unrelated),
            "reordered": tuple(" ".join(p.text for p in turned) for turned in (points[::-1], points[2:] + points[:2])),
            "repeated": repeat_point(points[0], POINTS)[-1:],
        }
        for form, texts in answers.items():
            forms.setdefault(form, []).append(texts)
    cut = "whole" if words is None else f"first {words} words"
    return Probes(
        dataset, tuple(claims), {form: tuple(rows) for form, rows in forms.items()},
        f"claims:{len(claims)}|points:{POINTS}, {cut}|drop:{DROP}|padding:twice a perspective|seed:{seed}",
        len(dataset.questions) - len(enough),
    )  # fmt: skip


def score_probes(
    evaluator: Evaluator,
    label: str,
    probes: Probes,
    *,
    variant: Literal["paper", "released"] = "paper",
    forms: Sequence[str] = (),
    wrapping: Literal["chat", "plain"] = "chat",
) -> Scored:
    """P.D. of the composed answers, of all forms or of those named, in one call."""
    names = list(forms or probes.forms)
    way = find_wrapping(evaluator, wrapping)
    joined = [[text for name in names for text in probes.forms[name][q]] for q in range(len(probes.claims))]
    table = score_answers(evaluator, probes.claims, joined, variant=variant, wrapping=way)
    values, diversities, start = {}, {}, 0
    for name in names:
        width = len(probes.forms[name][0])
        diversities[name] = [row[start : start + width] for row in table]
        values[name] = tabulate(diversities[name])
        start += width
    mark = f"{sign(evaluator, settings(variant, wrapping=way))}|{probes.signature}"
    return Scored(f"pd_{variant}_{label}", values, diversities, mark)


def measure_sensitivity(probes: Probes, scored: Scored, *, resamples: int, seed: int = 0) -> list[Row]:
    """Rows of one evaluator and variant; intervals over claims, of shares by Wilson.

    exact_falls, paraphrased_falls: the share of claims whose P.D. falls at every step from k = 0 to POINTS.
    exact_mean_kK, paraphrased_mean_kK: the mean P.D. at each k. neutral_above_one: the share whose neutral words have a
    higher P.D. than one perspective. padding_lowers: the share of answers whose P.D. an unrelated text at the end
    lowers, and with _kK that among answers of k perspectives; padding_lowers_mean: the share of claims where it lowers
    the mean over k; padding_change: the mean of ln(padded / plain). order_change: the mean of |ln(reordered / kept)|.
    repeat_change: the mean of ln(one perspective repeated / said once). all_below_repeat: the share of claims where all
    perspectives have a lower P.D. than the first of them repeated.
    """
    facts: dict[str, NDArray[np.float64]] = {}
    values = scored.values
    for form in ("exact", "paraphrased"):
        if form in values:
            falls = (np.diff(values[form], axis=1) < 0).all(1).astype(np.float64)
            facts[f"{form}_falls"] = np.where(np.isnan(values[form]).any(1), np.nan, falls)
            facts |= {f"{form}_mean_k{k}": values[form][:, k] for k in range(POINTS + 1)}
    exact = values["exact"]
    if "neutral" in values:
        facts["neutral_above_one"] = compare(values["neutral"], exact[:, 1:2])
    if "padded" in values:
        facts["padding_lowers"] = compare(exact[:, 1:], values["padded"])
        facts["padding_change"] = np.log(values["padded"] / exact[:, 1:])
        facts["padding_lowers_mean"] = compare(exact[:, 1:].mean(1), values["padded"].mean(1))
        facts |= {f"padding_lowers_k{k}": facts["padding_lowers"][:, k - 1] for k in range(1, POINTS + 1)}
    if "reordered" in values:
        facts["order_change"] = np.abs(np.log(values["reordered"] / exact[:, -1:]))
    if "repeated" in values:
        facts["repeat_change"] = np.log(values["repeated"] / exact[:, 1:2])
        facts["all_below_repeat"] = compare(values["repeated"], exact[:, -1:])
    shares = {
        m for m in facts if m.endswith(("_falls", "_above_one", "_below_repeat")) or m.startswith("padding_lowers")
    }
    dropped = {k: n for form in scored.diversities for k, n in count_dropped(scored.diversities[form]).items()}
    return [
        (make_share_row if metric in shares else make_mean_row)(
            probes.dataset, scored.system, metric, numbers, f"{metric}|{scored.signature}", _KERNELS,
            resamples=resamples, seed=seed, dropped=dropped,
        )
        for metric, numbers in facts.items()
    ]  # fmt: skip


def compare(higher: NDArray[np.float64], lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 where the first is above the second, else 0, NaN where one is missing."""
    return np.where(np.isnan(higher) | np.isnan(lower), np.nan, (higher > lower).astype(np.float64))


def list_others(lab: DebateLab) -> dict[str, Evaluator]:
    """All embedded evaluators but the role's."""
    return {label: found for label, found in lab.open_evaluators().items() if label != name_role(lab)}


def open_other_caches(lab: DebateLab) -> dict[str, Evaluator]:
    """The embedded evaluators once more: without their continuous cache, or with one where they have none."""
    from nfqa.lab.debate_lab import find_losses
    from nfqa.models.continuous_cache import ContinuousCache
    from nfqa.models.evaluator import Evaluator

    found = {}
    for label, evaluator in lab.open_evaluators().items():
        if evaluator.spec.kind == "embedded":
            other = None if evaluator.cache else ContinuousCache()
            name = f"{label}_no_cache" if evaluator.cache else f"{label}_cache"
            found[name] = Evaluator(evaluator.spec, cache=other, store=find_losses(lab.root))
    return found


def measure_all(
    evaluators: Mapping[str, Evaluator],
    probes: Probes,
    *,
    variants: Sequence[Literal["paper", "released"]],
    forms: Sequence[str] = (),
    resamples: int,
    seed: int = 0,
    wrapping: Literal["chat", "plain"] = "chat",
) -> list[Row]:
    """Rows of several evaluators and variants on the same composed answers."""
    rows = []
    for label, evaluator in evaluators.items():
        for variant in variants:
            scored = score_probes(evaluator, label, probes, variant=variant, forms=forms, wrapping=wrapping)
            rows += measure_sensitivity(probes, scored, resamples=resamples, seed=seed)
    return rows


def describe_sensitivity(rows: Sequence[Row], default: str) -> list[str]:
    """Whether the default evaluator reaches what it is to reach, and what the other forms do to each variant."""
    sentences = []
    for system in dict.fromkeys(row.system for row in rows):
        own = {row.metric: row for row in rows if row.system == system and row.value is not None}
        said = []
        for metric, words in (("exact_falls", "exact"), ("paraphrased_falls", "paraphrased")):
            if metric in own:
                reached = ""
                if system == default:
                    met = (own[metric].value or 0.0) >= TARGETS[metric]
                    reached = f", {'reaching' if met else 'NOT reaching'} the {100 * TARGETS[metric]:.0f} % aimed at"
                said.append(f"{_percent(own[metric])} of {own[metric].n} claims on {words} text{reached}")
        text = f"{system}: P.D. falls at every step from 0 to {POINTS} perspectives in {', and in '.join(said)}"
        if "padding_lowers" in own:
            text += (
                f". Padding lowers it in {_percent(own['padding_lowers'])} of answers, and the mean over k in"
                f" {_percent(own['padding_lowers_mean'])} of claims (mean change"
                f" {100 * np.expm1(own['padding_change'].value or 0.0):+.1f} %)"
            )
        if "order_change" in own:
            text += (
                f"; another order moves it by {100 * np.expm1(own['order_change'].value or 0.0):.1f} %, one perspective"
                f" said {POINTS} times by {100 * np.expm1(own['repeat_change'].value or 0.0):+.1f} % of said once"
            )
        sentences.append(text + ".")
    return sentences


def _percent(row: Row) -> str:
    interval = (
        "" if row.ci_low is None or row.ci_high is None else f" [{100 * row.ci_low:.0f}, {100 * row.ci_high:.0f}]"
    )
    return f"{100 * (row.value or 0.0):.0f} %{interval}"
