"""Yes-or-no decisions on the dispute in answers: every way to ask, agreement with labels.

The measures are accuracy, F1, AUROC, MCC and Cohen's kappa, with intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nfqa.judge.prompts import PromptSet
from nfqa.kernels.intervals import Interval, draw_counts, estimate_ratio, find_interval, find_share
from nfqa.metrics.dispute_awareness import Form, decide, pair_texts, score_awareness
from nfqa.metrics.dispute_detector import AWARE_FROM, FEATURES, Detector
from nfqa.metrics.judging import LanguageJudge, mark_answers
from nfqa.metrics.statistics import count_reasons, describe_interval, iterate_groups

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

_FORMS = dict(zip(get_args(Form), ("demonstrations", "zero_shot", "with_question"), strict=True))
FITTED_ON = "demo_answers"  # the labelled answers that the packaged weights of D.A.'s detector were fitted on
Measure = Literal["accuracy", "f1", "auroc", "mcc", "kappa", "agreement"]
MEASURES: tuple[Measure, ...] = ("accuracy", "f1", "auroc", "mcc")  # those of DebateQA's Table 3


def measure_classification(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    measure: Measure,
    groups: Sequence[object] | None = None,
    resamples: int = 1_000,
    seed: int = 0,
) -> Interval:
    """One measure of decisions against labels, with a 95 % interval over items or groups of them.

    accuracy: share of items decided as labelled (agreement: the same between two sets of
    decisions). f1: 2 TP / (2 TP + FP + FN). mcc: Matthews' (TP TN - FP FN) / sqrt((TP + FP)(TP +
    FN)(TN + FP)(TN + FN)). kappa: Cohen's (p_o - p_e) / (1 - p_e). auroc: P(score of a positive >
    score of a negative) + half of that of a tie.

    Args: labels: [n], 0 or 1; scores: [n], in [0, 1], NaN where there is no verdict; from 0.5 on a
        score counts as 1; groups: [n], items of one group are drawn together.
    Returns: value and interval over the items with a verdict, `n_missing` without. NaN where the
        measure is undefined: no positive at all for f1, labels or decisions all equal for mcc, both
        all equal to one value for kappa, one label only for auroc. Those of accuracy and agreement,
        which are shares, are Wilson's, or by Student's t over groups of several items; others are
        bootstrapped, without the resamples where the measure is undefined.
    Source: these formulas, for the value and for each resample alike; equal to scikit-learn's
        accuracy_score, f1_score, roc_auc_score, matthews_corrcoef and cohen_kappa_score to 1e-12.
        Differs from: scikit-learn, where an undefined F1 or MCC is 0; and it takes one resample a
        call.
    """
    truth = np.asarray(labels, dtype=np.float64)
    decisions = np.asarray(scores, dtype=np.float64)
    known = ~np.isnan(decisions)
    n = int(known.sum())
    missing = int((~known).sum())
    if not n:
        return Interval(np.nan, np.nan, np.nan, None, 0, missing, 0)
    truth = truth[known]
    decisions = decisions[known]
    names = np.array([str(group) for group in groups])[known] if groups is not None else np.arange(n)
    if measure in ("accuracy", "agreement"):
        right = truth == (decisions >= 0.5)
        _, group, sizes = np.unique(names, return_inverse=True, return_counts=True)
        share = find_share(right) if len(sizes) == n else estimate_ratio(np.bincount(group, right), sizes)
        return replace(share, n_missing=missing)
    if measure == "auroc":
        values = resample_auroc(truth, decisions, names, resamples=resamples, seed=seed)
    else:
        weights, inside = _weigh_groups(names, resamples, seed)
        values = _measure(truth, decisions, measure, weights[:, inside])
    return find_interval(values[0], values[1:], units=len(np.unique(names)), n=n, n_missing=missing)


def _weigh_groups(names: ArrayLike, resamples: int, seed: int) -> tuple[NDArray[np.float64], NDArray]:
    """How often each group counts, [1 + resamples, groups], once as measured, then as drawn; and
    each item's group.
    """
    present, group = np.unique(np.asarray(names), return_inverse=True)
    return np.vstack([np.ones(len(present)), draw_counts(len(present), resamples=resamples, seed=seed)]), group


def _measure(truth: NDArray, decisions: NDArray, measure: Measure, weights: NDArray) -> NDArray:
    """The measure of each resample, [resamples], from how often it holds each item, [resamples, n];
    NaN for 0 / 0.
    """
    positive = truth == 1
    yes = decisions >= 0.5
    with np.errstate(invalid="ignore", divide="ignore"):
        tp, fp, fn, tn = (
            weights @ cell.astype(np.float64)
            for cell in (positive & yes, ~positive & yes, positive & ~yes, ~positive & ~yes)
        )
        total = tp + fp + fn + tn
        if measure == "f1":
            return np.asarray(2 * tp / (2 * tp + fp + fn))
        if measure == "mcc":
            return np.asarray((tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
        expected = ((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn)) / total**2  # for kappa
        return np.asarray(((tp + tn) / total - expected) / (1 - expected))


def resample_auroc(
    labels: ArrayLike,
    scores: ArrayLike,
    groups: ArrayLike,
    *,
    strata: ArrayLike | None = None,
    resamples: int = 1_000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """AUROC as measured, then in each resample of whole groups; two calls with one seed draw the
    same groups.

    The share of pairs of a positive and a negative in which the positive scores higher, ties half.
    With C and P the wins and pairs between groups g and h and w_g how often g is drawn, it is Σ w_g
    w_h C_gh / Σ w_g w_h P_gh; with strata, which lie inside groups, only pairs of one stratum
    count: Σ w_g C_g / Σ w_g P_g.

    Args: labels: [n], 0 or 1; scores: [n], finite; groups, strata: [n], any names.
    Returns: [1 + resamples], NaN where there is no pair to compare.
    Source: Mann and Whitney (1947); Dodd and Pepe (2003) for strata. Equal to scikit-learn's
        roc_auc_score without.
    """
    (weights, group) = _weigh_groups(groups, resamples, seed)
    ranks = np.asarray(scores, dtype=np.float64)
    positive = np.asarray(labels) == 1
    stratum = np.asarray(strata)
    gap = ranks[positive][:, None] - ranks[~positive][None, :]
    wins = (gap > 0) + 0.5 * (gap == 0)
    pairs = np.ones_like(gap)  # [positives, negatives]
    if strata is not None:
        pairs = (stratum[positive][:, None] == stratum[~positive][None, :]).astype(np.float64)
    first, second = (np.eye(weights.shape[1])[group[side]] for side in (positive, ~positive))  # [items, groups]
    between = [first.T @ (table * pairs) @ second for table in (wins, pairs)]  # [groups, groups]
    with np.errstate(invalid="ignore"):
        if strata is not None:  # a group that is drawn twice is two groups, and each has its own strata
            won, compared = (weights @ table.diagonal() for table in between)
        else:
            won, compared = (np.einsum("rg,gh,rh->r", weights, table, weights, optimize=True) for table in between)
        return np.asarray(won / compared)


def judge_dispute(answers: pd.DataFrame, judge: LanguageJudge, *, released: PromptSet | None = None) -> pd.DataFrame:
    """A language model's decisions on the dispute in each answer, in every way it is asked.

    D.A. with demonstrations and without, and with the question shown; with the released prompt, and
    without its demonstrations, where the model is read from text; and DELPHI's acknowledgement.

    Args: answers: as `score_awareness`; judge: with prompts as prompts/own; released:
        prompts/upstream, None to exclude the released prompt.
    Returns: as `score_awareness`, and form ("demonstrations", "zero_shot", "with_question",
        "released_demonstrations", "released_zero_shot", "" for DELPHI) and reading; metric is "da"
        or "delphi_acknowledgement", whose score is 1 for a mark of 0.5 or more. One row an answer
        and way; all but the first two forms show the question, and without its text they are
        missing as "no_question".
    """
    reading = judge.asker.decoding.reading
    ways = [("", judge)]
    if released and reading == "text":
        ways.append(("released_", replace(judge, prompts=released)))
    frames = [
        score_awareness(answers, way, form=form).assign(form=kind + name)
        for kind, way in ways
        for form, name in _FORMS.items()
        if form in way.prompts
    ]
    marks = mark_answers(pair_texts(answers), "delphi_acknowledgement", judge)
    frames.append(frames[0].assign(
        metric="delphi_acknowledgement", form="", probability=marks.score, score=decide(marks.score),
        missing=marks.missing, signature=marks.signature,
    ))  # fmt: skip
    return pd.concat(frames, ignore_index=True).assign(reading=reading)


def compare_decisions(
    decided: pd.DataFrame,
    *,
    by: Sequence[str],
    against: str = "label",
    measures: Sequence[Measure] = MEASURES,
    over: str = "",
    resamples: int = 1_000,
    seed: int = 0,
) -> pd.DataFrame:
    """How well decisions agree with labels, or with other decisions: one value for each set of
    conditions and measure.

    Args: decided: score and `against` (0 or 1, NaN without a verdict), the columns of `by`, and
        where there are any: probability (of 1; AUROC ranks by it, and by the score where it is
        NaN), missing (why there is no score); by: the conditions; over: the resampling unit, "" for
        each row alone.
    Returns: the columns of `by`, statistic (the measure), value, low, high, n, dropped (rows
        without a verdict on either side) and dropped_because, in order of first appearance.
    Source: `reproduction.studies.decisions.measure_classification`.
    """
    rows: list[dict[str, Any]] = []
    for key, group in iterate_groups(decided, by):
        lost = group["score"].isna() | group[against].isna()
        reasons = group.get("missing", pd.Series("", group.index))[lost].replace("", "no_verdict")
        labels = group[against].fillna(0)
        decisions = group["score"].mask(lost)
        ranks = group.get("probability", decisions).fillna(decisions).mask(lost)
        groups = group[over].tolist() if over else None
        for measure in measures:
            scores = ranks if measure == "auroc" else decisions
            interval = measure_classification(
                labels, scores, measure=measure, groups=groups, resamples=resamples, seed=seed
            )
            lacking = {"dropped": interval.n_missing, "dropped_because": count_reasons(reasons)}
            rows.append(key | {"statistic": measure} | describe_interval(interval, over or "answer") | lacking)
    return pd.DataFrame(rows)


def read_written_answers(root: Path) -> pd.DataFrame:
    """The answers of data/training that were written for the reader.

    Returns: text, label, and left_out: whether the reader was not trained on them, so that they may
        choose a threshold.
    """
    lines = pd.read_json(root / "data" / "training" / "answers.jsonl", lines=True)
    answers = lines.explode("answers", ignore_index=True)
    written = pd.json_normalize(answers.answers.tolist())
    left_out = answers.id.str.startswith("D")
    return pd.DataFrame({"text": written.text, "label": written.aware.astype(int), "left_out": left_out})


def fit_detector(labelled: pd.DataFrame, written: pd.DataFrame) -> LogisticRegression:
    """The regression behind the detector's weights, on answers of several passages.

    Args: labelled, written: as `Detector.describe`, and label; the written ones count as much
        together as the others, though the reader was trained on them, so that what it finds in them
        is clearer than elsewhere. Those of `left_out` count for nothing.
    """
    from sklearn.linear_model import LogisticRegression

    both = [labelled, written[~written.left_out]]
    both = [rows[rows.passages > 1] for rows in both]
    counts = np.repeat([1.0, len(both[0]) / len(both[1])], [len(rows) for rows in both])
    fitted = pd.concat(both)
    return LogisticRegression(max_iter=1_000).fit(fitted[[*FEATURES]], fitted.label, counts)


def detect_unseen(answers: pd.DataFrame, detector: Detector, written: pd.DataFrame, *, folds: int = 10) -> pd.DataFrame:
    """The detector's decisions on labelled answers, none by weights that were fitted on the answers
    to its question.

    Of the answers that the packaged weights were fitted on, those of several passages are decided
    by weights fitted without the answers to a tenth of the questions; all other answers by the
    packaged ones.

    Args: answers: as `score_awareness`, and label; written: as `read_written_answers`. Returns: as
        `score_awareness`.
    """
    from sklearn.model_selection import GroupKFold

    detected = score_awareness(answers, detector)
    if not (answers.dataset == FITTED_ON).all():
        return detected
    described, beside = (
        pd.concat([rows.reset_index(drop=True), detector.describe(rows.text.tolist())], axis=1)
        for rows in (answers, written)
    )
    longer = described[described.passages > 1]
    folds = min(folds, longer.question.nunique())
    splits = GroupKFold(folds).split(longer, groups=longer.question) if folds > 1 else []
    for seen, unseen in splits:
        rows = longer.iloc[unseen]
        fitted = fit_detector(longer.iloc[seen], beside)
        detected.loc[rows.index, "probability"] = fitted.predict_proba(rows[[*FEATURES]])[:, 1]
    aware = (detected.probability >= AWARE_FROM).astype(float)
    return detected.assign(score=aware, signature=f"{detector.signature}|weights:{folds} folds")
