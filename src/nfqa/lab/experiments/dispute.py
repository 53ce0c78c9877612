"""Table 3: who takes an answer for aware of the dispute, against labels made by reading."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from nfqa.data.labels import read_labels
from nfqa.data.records import QuestionSet
from nfqa.kernels.classification import MEASURES, Measure, measure_classification
from nfqa.kernels.resample import Interval
from nfqa.lab.results import Row
from nfqa.metrics.answer_judging import mark_answers
from nfqa.metrics.coverage import split_answer
from nfqa.metrics.dispute_awareness import Form, judge_awareness, open_detector
from nfqa.metrics.dispute_detector import Detector, Features
from nfqa.metrics.dispute_rules import Rule, apply_rule, list_cues
from nfqa.metrics.judging import LanguageJudge
from nfqa.models.embed import Embedder

if TYPE_CHECKING:
    from nfqa.lab.debate_lab import DebateLab

FOLDS = 10  # of the detector that is fitted on labels of real answers
KERNEL = "nfqa.kernels.classification:measure_classification"
_NO_QUESTION = "(not at hand)"  # DELPHI's prompt wants a question, which the demo answers come without
_NAMES: dict[Features, str] = {
    "text_and_vectors": "da_detector",
    "text": "da_detector_text",
    "vectors": "da_detector_vectors",
}
_FORMS: dict[Form, str] = {"dispute_awareness": "da_judge", "dispute_awareness_zero_shot": "da_judge_zero_shot"}


@dataclass(frozen=True)
class Way:
    """One way to decide: a score in [0, 1] of each answer, 1 is aware, NaN without a verdict; [n]."""

    name: str
    scores: NDArray[np.float64]
    signature: str
    kernel: str
    missing: dict[str, int] = field(default_factory=dict)

    @property
    def decisions(self) -> NDArray[np.float64]:
        """0 or 1, NaN without a verdict; [n]."""
        return np.where(np.isnan(self.scores), np.nan, (self.scores >= 0.5).astype(np.float64))


@dataclass(frozen=True)
class LabelledAnswers:
    """The frame of `read_labels` as columns, [n] each."""

    dataset: QuestionSet
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    questions: tuple[str, ...]
    pass_1: NDArray[np.int64]
    pass_2: NDArray[np.int64]
    labels: NDArray[np.int64]


def read_labelled(root: Path, dataset: QuestionSet) -> LabelledAnswers:
    """The columns of `read_labels`."""
    found = read_labels(root, dataset)
    ids, texts, questions = (tuple(found[name]) for name in ("id", "text", "question"))
    labels = [found[name].to_numpy() for name in ("pass_1", "pass_2", "label")]
    return LabelledAnswers(dataset, ids, texts, questions, *labels)


def list_rules(texts: Sequence[str]) -> list[Way]:
    """The keyword rules, from one word to a list of phrases and attributed sides."""
    kernel = "nfqa.metrics.dispute_rules:apply_rule"
    return [
        Way(f"da_rule_{rule}", apply_rule(texts, rule).astype(np.float64), f"rule:{rule}", kernel)
        for rule in get_args(Rule)
    ]


def list_detectors(texts: Sequence[str], embedder: Embedder) -> list[Way]:
    """The embedded detector over text and vectors, and over each alone."""
    kernel = "nfqa.metrics.dispute_detector:Detector"
    ways = []
    for features, name in _NAMES.items():
        detector = open_detector(embedder, features=features)
        ways.append(Way(name, detector.probabilities(texts), detector.signature, kernel))
    return ways


def list_judged(lab: DebateLab, texts: Sequence[str]) -> list[Way]:
    """The judge role's language model: D.A. with demonstrations and without, and DELPHI's acknowledgement.

    Where the model runs in process and is read from text, D.A. is read from its logits as well. None of these without
    a language model.
    """
    if lab.judge is None:
        return []
    own = lab.read_prompts("own")  # whatever set the lab asks with: no other has these
    judge = replace(lab.judge, prompts=own)
    ways = _judge(texts, judge, "")
    marks = mark_answers([(_NO_QUESTION, text) for text in texts], "delphi_acknowledgement", judge)
    kernel = "nfqa.metrics.answer_judging:mark_answers"
    ways.append(Way("delphi_acknowledgement", marks.scores, marks.signature, kernel, marks.missing))
    if judge.asker.spec.kind != "openai" and lab.asking.reading == "text":
        ways += _judge(texts, replace(lab.open_other_reading("logits"), prompts=own), "_logits")
    return ways


def _judge(texts: Sequence[str], judge: LanguageJudge, suffix: str) -> list[Way]:
    kernel = "nfqa.metrics.dispute_awareness:judge_awareness"
    ways = []
    for form, name in _FORMS.items():
        found = judge_awareness(texts, judge, form=form)
        ways.append(Way(f"{name}{suffix}", found.probabilities, found.signature, kernel, found.missing))
    return ways


def take_majority(labelled: LabelledAnswers) -> Way:
    """Every answer gets the more frequent label: what needs no reading at all."""
    aware = float(2 * labelled.labels.sum() >= len(labelled.labels))
    return Way("majority", np.full(len(labelled.labels), aware), f"majority:{aware:.0f}", KERNEL)


def refit_detector(labelled: LabelledAnswers, embedder: Embedder) -> Way:
    """The detector's features weighed anew on labels of real answers, each scored by a fit that left its fold out.

    A row of an answer: s_1 and s_2 of the detector, the cues of the keyword rules, ln(1 + sentences); standardised,
    logistic regression with scikit-learn's own penalty. The 10 folds keep answers to one question together, by a hash.
    Nothing was chosen by its outcome.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    detector: Detector = open_detector(embedder)
    counts = [np.log1p(len(split_answer(text))) for text in labelled.texts]
    cues = np.array([list_cues(text) for text in labelled.texts], dtype=np.float64)
    rows = np.column_stack([np.nan_to_num(detector.describe(labelled.texts), nan=-20.0), cues, counts])
    folds = np.array([int(hashlib.sha256(q.encode()).hexdigest()[:8], 16) % FOLDS for q in labelled.questions])
    scores = np.full(len(labelled.labels), np.nan)
    for fold in sorted(set(folds.tolist())):
        out = folds == fold
        if len(set(labelled.labels[~out].tolist())) == 2:
            fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows[~out], labelled.labels[~out])
            scores[out] = fitted.predict_proba(rows[out])[:, 1]
    signature = f"{detector.signature}|fitted_on:labels of real answers|folds:{FOLDS} by question"
    missing = {"one_label_in_fit": int(np.isnan(scores).sum())} if np.isnan(scores).any() else {}
    return Way("da_detector_refitted", scores, signature, "nfqa.lab.experiments.dispute:refit_detector", missing)


def compare_with_labels(labelled: LabelledAnswers, ways: Sequence[Way], *, resamples: int, seed: int = 0) -> list[Row]:
    """Accuracy, F1, AUROC and MCC of every way, and the share it calls aware; intervals over questions."""
    rows = []
    for way in ways:
        rows += [_make_row(labelled, way, measure, resamples, seed) for measure in MEASURES]
        known = way.decisions[~np.isnan(way.decisions)]
        share = float(known.mean()) if len(known) else float("nan")
        rows.append(_state_row(labelled.dataset, way, "share_aware", share, len(known)))
    return rows


def describe_labels(labelled: LabelledAnswers, *, resamples: int, seed: int = 0) -> list[Row]:
    """How far the two readings agree (share and Cohen's kappa), and the share labelled aware."""
    rows = []
    signature = f"labels:{len(labelled.labels)}"
    second = Way("labels", labelled.pass_2.astype(np.float64), f"{signature}|pass 1 against pass 2", KERNEL)
    for measure in ("agreement", "kappa"):
        interval = measure_classification(
            labelled.pass_1, second.scores, measure=measure, groups=labelled.questions, resamples=resamples, seed=seed
        )
        rows.append(_interval_row(labelled.dataset, second, f"passes_{measure}", interval, resamples))
    first = Way("labels", labelled.labels.astype(np.float64), f"{signature}|label that counts", KERNEL)
    rows.append(_state_row(labelled.dataset, first, "share_aware", float(labelled.labels.mean()), len(labelled.labels)))
    return rows


def describe_sentences(embedder: Embedder, dataset: QuestionSet) -> list[Row]:
    """How well the detector knows its own sentences, topics left out: AUROC of P(aware), and accuracy by kind.

    These sentences are ours and stand under the data set `dispute_sentences`.
    """
    rows = []
    for features, name in _NAMES.items():
        detector = open_detector(embedder, features=features)
        aware = detector.cross_validate()[:, 0]
        labels, kinds = np.array(detector.sentences.labels), np.array(detector.sentences.kinds)
        own = Way(name, aware, f"{detector.signature}|folds by topic", "nfqa.metrics.dispute_detector:Detector")
        for measure in MEASURES:
            interval = measure_classification(
                labels, aware, measure=measure, groups=detector.sentences.topics, resamples=200
            )
            rows.append(_interval_row(dataset, own, measure, interval, 200, "dispute_sentences"))
        if features == "text_and_vectors":
            for kind in sorted(set(kinds.tolist())):
                chosen = kinds == kind
                right = float(((aware[chosen] >= 0.5) == labels[chosen]).mean())
                rows.append(_state_row(dataset, own, f"accuracy_{kind}", right, int(chosen.sum()), "dispute_sentences"))
    return rows


def describe_ways(lab: DebateLab, rows: Sequence[Row], labelled: LabelledAnswers) -> list[str]:
    """What a reader should take away, found from the numbers."""
    found = {(row.system, row.metric): row for row in rows if row.dataset == labelled.dataset.name}
    kappa = found["labels", "passes_kappa"]
    said = [
        f"{labelled.dataset.name}: {len(labelled.labels)} answers, {labelled.labels.mean():.0%} labelled aware; the two"
        f" readings agree in {found['labels', 'passes_agreement'].value:.0%}"
        + (f" (Cohen's kappa {kappa.value:.2f})." if kappa.value is not None else ".")
    ]
    ranked = [row for row in found.values() if row.metric == "accuracy" and row.value is not None]
    ranked.sort(key=lambda row: -(row.value or 0))
    base = found["majority", "accuracy"].value or 0.0
    said.append("Accuracy: " + "; ".join(f"{lab.title(row.system)} {_say(row)}" for row in ranked) + ".")
    scored = [row for row in found.values() if row.metric == "auroc" and row.value is not None]
    if scored:
        best = max(scored, key=lambda row: row.value or 0)
        said.append(f"Best AUROC: {lab.title(best.system)} {_say(best)}.")
    detector, rules = found.get(("da_detector", "accuracy")), found.get(("da_rule_phrases_or_sides", "accuracy"))
    if detector and rules and detector.value is not None and rules.value is not None:
        word = "above" if detector.value > rules.value else "not above"
        said.append(
            f"The embedded detector is {word} the best-equipped keyword rule in accuracy ({detector.value:.2f} and"
            f" {rules.value:.2f}) and {'above' if detector.value > base else 'not above'} the majority ({base:.2f});"
            f" it calls {found['da_detector', 'share_aware'].value or 0:.0%} of the answers aware."
        )
    lacking = [f"{lab.title(row.system)}: {row.dropped_because}" for row in ranked if row.n_dropped]
    return [*said, *([f"Without a verdict: {'; '.join(lacking)}."] if lacking else [])]


def _make_row(labelled: LabelledAnswers, way: Way, measure: Measure, resamples: int, seed: int) -> Row:
    interval = measure_classification(
        labelled.labels, way.scores, measure=measure, groups=labelled.questions, resamples=resamples, seed=seed
    )
    return _interval_row(labelled.dataset, way, measure, interval, resamples)


def _interval_row(
    dataset: QuestionSet, way: Way, metric: str, interval: Interval, resamples: int, name: str = ""
) -> Row:
    return Row(
        system=way.name, dataset=name or dataset.name, metric=metric, value=interval.value, ci_low=interval.low,
        ci_high=interval.high, n=interval.n, n_dropped=interval.n_missing, dropped_because=_count(way, interval),
        signature=f"{way.name}|{way.signature}|boot:{resamples}|v1", kernels=(way.kernel, KERNEL),
        origin=dataset.origin,
    )  # fmt: skip


def _count(way: Way, interval: Interval) -> dict[str, int]:
    return dict(Counter(way.missing)) if interval.n_missing else {}


def _state_row(dataset: QuestionSet, way: Way, metric: str, value: float, n: int, name: str = "") -> Row:
    return Row(
        system=way.name, dataset=name or dataset.name, metric=metric, value=value, n=n,
        signature=f"{way.name}|{way.signature}|v1", kernels=(way.kernel,), origin=dataset.origin,
    )  # fmt: skip


def _say(row: Row) -> str:
    inside = "" if row.ci_low is None or row.ci_high is None else f" [{row.ci_low:.2f}, {row.ci_high:.2f}]"
    return f"{row.value:.2f}{inside}"
