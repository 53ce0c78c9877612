"""What a user gets of their own answers' scores: two files with every answer, findings, notes; names in a figure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nfqa.files.paths import write_atomically, write_text
from nfqa.files.records import QuestionSet
from nfqa.kernels.intervals import CONFIDENCE
from nfqa.metrics.flags import FLAGS, TOLD, seems_english
from nfqa.metrics.references import sign_texts
from reproduction.values import write_json

if TYPE_CHECKING:
    from reproduction.open import Lab

_FORMULA = re.compile(r"[=@\t]|[+-](?!\d*\.?\d*(e[+-]?\d+)?$)")  # -2.5 and +1e-7 are numbers
_DRAWABLE = 0x530  # Latin, Greek and Cyrillic
_COLUMNS = (
    "question", "answer", "system", "label", "metric", "training", "variant", "method", "judge", "view",
    "point_of_view", "score", "rank", "ten", "flags", "note", "missing", "signature",
)  # fmt: skip
ENOUGH = 5  # questions, from which on a value has an interval, and a share of wins may decide
OF_VIEWS = ("view_coverage", "pd_view")  # the metrics of single points of view, which are beside the methods
_LABEL = 28  # characters of a name in a legend


def write_scores(
    folder: Path, own: QuestionSet, scores: pd.DataFrame, *, not_run: Mapping[str, str], notes: Sequence[str]
) -> None:
    """Write scores.csv and scores.json, every answer under every metric, then what was excluded; and notes.md.

    A text of scores.csv that begins as a formula has an apostrophe first (`escape_formula`); scores.json has all as is.
    Args: scores: question, answer, system, grade, metric, conditions, score, rank, ten, flags, note, missing,
        signature; not_run: the reason by metric; notes: what a reader should know. Columns that say nothing are left
        out.
    """
    excluded = [(each.question, each.answer, f"excluded: {each.reason}") for each in own.excluded]
    excluded = pd.DataFrame(excluded, columns=["question", "answer", "missing"])
    signed = sign_texts(scores, own.irregularities).rename(columns={"grade": "label"})
    lines = pd.concat([signed, excluded], ignore_index=True)
    lines = lines[[name for name in _COLUMNS if name in lines and lines[name].replace("", None).notna().any()]]
    with write_atomically(folder / "scores.csv") as scratch:
        lines.map(escape_formula).to_csv(scratch, index=False, lineterminator="\n")
    content = {
        "answers": f"sha256:{own.sha256}",
        "origin": own.origin,
        "irregularities": own.irregularities,
        "not_run": dict(not_run),
        "notes": list(notes),
        "scores": [{k: v for k, v in row.items() if pd.notna(v) and v != ""} for row in lines.to_dict("records")],
    }
    write_json(folder / "scores.json", content)
    write_text(folder / "notes.md", "".join(f"- {note}\n" for note in notes))


def escape_formula(cell: Any) -> Any:
    """A cell of a CSV as it may be opened: a text that a spreadsheet would run as a formula has an apostrophe first."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def bound_wins(shares: pd.DataFrame, *, methods: int = 1) -> pd.DataFrame:
    """The same shares of wins with exact intervals, which all hold in 95 % of samples, of so many methods together.

    Source: Clopper and Pearson (1934), a tie being half of a win and of a loss; Bonferroni for the methods.
    """
    from scipy.special import betaincinv

    n, tail = shares.n.astype(np.float64), (1 - CONFIDENCE) / 2 / methods
    won, lost = shares.value * n, (1 - shares.value) * n
    ends = betaincinv(won, lost + 1, tail), betaincinv(won + 1, lost, 1 - tail)
    return shares.assign(low=np.nan_to_num(ends[0], nan=0), high=np.nan_to_num(ends[1], nan=1))


def name_leader(shares: pd.DataFrame, systems: Sequence[str]) -> str:
    """Which system leads, in a line, or that this is undecided and why.

    A system leads under a method where the interval of its share of wins lies above that of every other system, with
    `bound_wins` for all methods that decide; it leads where it does so under one method or more, and no other does
    under any. Methods with five questions or fewer decide nothing, and nor does the cosine to the question, which sees
    the topic alone.
    Args: shares: a tidy table's rows with the statistic "win_share".
    """
    if len(systems) < 2:
        return "No comparison: the file names fewer than two systems."
    told = shares[(shares.n > ENOUGH) & (shares.metric != "cos_question")]
    if told.empty:
        return f"Undecided: the cosine to the question apart, no method scored over {ENOUGH} questions of two systems."
    told = bound_wins(told, methods=told.label.nunique())
    methods = told.sort_values("low", ascending=False).groupby("label")
    won = {label: own.system.iloc[0] for label, own in methods if (own.low.iloc[0] > own.high.iloc[1:]).all()}
    n, ahead = int(told.n.max()), Counter(won.values())
    few = f" {n} questions are few; use 30 or more." if n < 30 else ""
    if len(ahead) == 1:
        ((name, count),) = ahead.items()
        return f"{name} leads, under {count} of {len(methods)} methods ({', '.join(won)}); no other does.{few}"
    said = ", ".join(f"{name} leads under {count}" for name, count in ahead.most_common()) or "nobody leads under any"
    return f"Undecided: of {len(methods)} methods {said}.{few}"


def name_flagged(given: pd.DataFrame, flagged: pd.DataFrame) -> str:
    """How many answers are flagged, for what, in a line."""
    if not flagged.any(axis=None):
        return f"Flagged: none of {len(given)} answers."
    why = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in flagged.sum().items() if count)
    excluded = flagged.drop(columns=TOLD).any(axis=1).sum()
    return (
        f"Flagged: {flagged.any(axis=1).sum()} of {len(given)} answers ({why}); left out of means and wins: {excluded}."
    )


def name_unseen(blind: pd.DataFrame) -> str:
    """What the scores can't see, in a line. blind: as `compare_negated`, empty without P.D. by a bundled evaluator."""
    said = "Not seen: whether an answer is true. The embedded judge, cosines and overlap see topic and words."
    for moved in blind.value[blind.statistic == "negation_moves"].dropna() if len(blind) else ():
        said += f" Negating every sentence of an answer moves its P.D. by {moved:+.2f} of 10 (median)."
    return said


def compare_labels(agreed: pd.DataFrame) -> list[str]:
    """A sentence on how far each method ranks answers as the labels given do, the best first; none without labels.

    Args: agreed: a tidy table's rows with the statistic "spearman", with `label`, the method, and `said`, the value.
    """
    if agreed.empty:
        return []
    ranked = ", ".join(f"{row.label} {row.said}" for row in agreed.sort_values("value", ascending=False).itertuples())
    return [f"Spearman with the labels given, inside each question with three labels or more, averaged: {ranked}."]


def list_flat(table: pd.DataFrame) -> list[str]:
    """Overlap measures, by `label`, under which no answer reaches 0.005 of 10: they tell no answer from another."""
    best = table[(table.statistic == "ten") & table.metric.str.match("bleu|rouge")].groupby("label").value.max()
    return list(best[best < 0.005].index)


def list_notes(
    lab: Lab, own: QuestionSet, named: pd.DataFrame, flagged: pd.DataFrame, blind: pd.DataFrame, flat: Sequence[str]
) -> list[str]:
    """What a reader of scores should know: what is flagged, what a model can't see, what was cut or left out.

    Args: named: scores with `method`, in words; flagged: as `flag_answers`, of `own.answers`; blind: as
        `compare_negated`; flat: methods that tell no answer from another.
    """
    names = own.answers.question + ": " + own.answers.system.mask(own.answers.system == "", own.answers.answer)
    notes = [
        f"FLAGGED, {lab.title(name)}: {', '.join(names[held][:8])}{', …' if held.sum() > 8 else ''}. It {FLAGS[name]}."
        for name, held in flagged.items()
        if held.any()
    ]
    if len(blind):
        said = blind.set_index("statistic")
        moves, apart = said.loc["negation_moves"], said.value["best_above_worst"]
        told = f" Negating every sentence moves an answer by {moves.value:+.2f} of 10 (median of {moves.n} answers)."
        notes.append(
            "P.D. is by the bundled evaluator, of 2.5 to 7.6 million parameters depending on its size. It sees topics"
            f" and words more than affirming and denying.{told if moves.n else ''}"
            + ("" if pd.isna(apart) else f" The best answer to a question is {apart:.2f} above the worst.")
        )
    texts, views = own.texts(), own.views
    foreign = sum(not seems_english(text) for text in [*texts, *views.text])
    cut = lab.embedder.count_cut(texts)
    if flat:
        notes.append(
            f"Not counted among the methods, as no score reaches 0.005 of 10: {', '.join(flat)}. Unsmoothed BLEU is"
            " near 0 for an answer that shares no four words in a row."
        )
    if foreign:
        notes.append(
            f"{foreign:,} of {len(texts) + len(views):,} texts seem not to be in English, to judge by their letters"
            " and function words; the bundled models were trained on English."
        )
    notes += [describe_file(lab, own), f"{cut:,} of {len(texts):,} texts were longer than the embedder reads, and cut."]
    if lab.judge:
        notes.append(f"{lab.judge.cut:,} times a text was over the judge's {lab.judge.max_words:,} words and was cut.")
    if len(views):
        notes.append(
            f"{views.question.nunique():,} questions are debatable, with {len(views):,} partial answers; methods other"
            " than coverage, P.D. and D.A. do not use these."
        )
    reasons = Counter(each.reason for each in own.excluded)
    notes += [f"Left out: {reason} ({count})." for reason, count in sorted(reasons.items())]
    if (count := len(own.questions)) < 30:
        notes.append(f"With {count} questions, intervals over questions are too narrow to rely on; use 30 or more.")
    unscored = named[(named.missing != "") & ~named.missing.str.startswith("needs")].assign(why=named.missing)
    noted = named[named.note != ""].assign(why=named.note)
    counts = pd.concat([unscored, noted]).groupby(["method", "why"]).size()
    return notes + [f"{method}: {why} ({count:,} answers)." for (method, why), count in counts.items()]


def describe_file(lab: Lab, own: QuestionSet) -> str:
    """What was read, in a line, with what is worth knowing of it."""
    noted = "; ".join(f"{lab.title(name)}: {count:,}" for name, count in own.irregularities.items())
    read = "The bundled EXAMPLE, which describes no real system" if own.name.startswith("sample_") else "Read"
    counted = f"{len(own.answers):,} answers to {len(own.questions):,} questions, by {len(own.systems)} named systems."
    return f"{read}: {counted} {'Of note: ' if noted else ''}{noted}"


def label_systems(names: Sequence[str], *, noun: str = "system") -> dict[str, str]:
    """A label for each name: short, not taken for a formula, of letters that the figure's font has, and its own.

    A name that is no such label is cut, or gives way to "system N", N its place; `noun` says what else it names.
    """
    labels: dict[str, str] = {}
    for place, name in enumerate(names, start=1):
        drawable = name.isprintable() and all(ord(letter) < _DRAWABLE for letter in name) and "$" not in name
        label = name if drawable and not name.startswith("_") else f"{noun} {place}"
        label = label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"
        labels[name] = f"{noun} {place}" if label in labels.values() else label
    return labels
