"""What the scores of a user's own answers say, in sentences made from the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nfqa.data.records import QuestionSet
from nfqa.lab.experiments.own_answers import LANGUAGE, Scores, name_systems
from nfqa.lab.experiments.own_shown import say_value
from nfqa.lab.results import Row

if TYPE_CHECKING:
    from nfqa.lab.judged import JudgedLab
    from nfqa.lab.notebook import Lab

_FEW = 30  # questions under which an interval is too narrow to be believed


def describe_scores(lab: JudgedLab, own: QuestionSet, scored: Sequence[Scores], rows: Sequence[Row]) -> list[str]:
    """What was scored, what could not be, and what the numbers say, found from them."""
    sentences = [describe_file(own), *_describe_length(lab, own), *_describe_methods(lab, own, scored)]
    return [*sentences, *_describe_systems(lab, own, rows), *_describe_labels(lab, rows)]


def describe_file(own: QuestionSet) -> str:
    """What the file held, and all that was put right or left out."""
    counts = Counter(own.irregularities)
    said = [f"{words}: {counts[name]:,}" for name, words in _WORDS.items() if counts[name]]
    source = "The bundled EXAMPLE, which says nothing of any system" if own.name.startswith("sample_") else "Read"
    systems = f" by {len(own.systems)} named systems and others" if own.systems else ""
    return f"{source}: {len(own.answers):,} answers{systems} to {len(own.questions):,} questions." + (
        f" Of note: {'; '.join(said)}." if said else ""
    )


_WORDS = {
    "empty_answers": "empty answers, excluded",
    "questions_without_answers": "questions whose answers are all empty, excluded",
    "questions_without_references": "questions without references",
    "questions_graded_by_place": "questions whose references have no grades and got them by their place, 3 to 0",
    "questions_with_references_sorted": "questions whose references were not in order of grade, sorted",
    "copies_of_a_reference": "answers that are word for word one of their references, kept",
    "twin_references": "references that repeat another, kept",
    "byte_order_mark": "byte order marks, dropped",
    "carriage_returns": "lines that ended with a carriage return, dropped",
    "blank_lines": "blank lines, skipped",
}


def _describe_length(lab: JudgedLab, own: QuestionSet) -> list[str]:
    texts = own.texts()
    said = f"{lab.embedder.count_cut(texts):,} of {len(texts):,} texts were longer than the embedder reads, and cut"
    if lab.judge is not None:
        cut = sum(lab.judge.cut.values())
        said += f"; {cut:,} times one was over the judge's {lab.judge.max_words:,} words ({lab.judge.too_long})"
    return [f"{said}."]


def _describe_methods(lab: Lab, own: QuestionSet, scored: Sequence[Scores]) -> list[str]:
    out: dict[str, list[str]] = {}
    for method in scored:
        if method.left_out:
            out.setdefault(method.left_out, []).append(lab.title(method.method))
    sentences = [f"Not run: {', '.join(names)} ({reason})." for reason, names in out.items()]
    for method in scored:
        missing = sum(int(np.isnan(part).sum()) for part in method.scores)
        if method.method in LANGUAGE.values() and missing:
            reasons: Counter[str] = Counter()
            for part, note in zip(method.scores, method.notes, strict=True):
                reasons[note] += int(np.isnan(part).sum())
            why = ", ".join(f"{note} {count:,}" for note, count in sorted(reasons.items()) if count)
            sentences.append(
                f"{lab.title(method.method)}: {missing:,} of {len(own.answers):,} scores are missing ({why})."
            )
    return sentences


def _describe_systems(lab: Lab, own: QuestionSet, rows: Sequence[Row]) -> list[str]:
    sentences = []
    slugs = name_systems(own)
    for name, slug in list(slugs.items())[: 1 if len(slugs) == 2 else None]:  # of two, the other's share is the rest
        shares = [row for row in rows if row.metric == f"win_share_{slug}" and row.value is not None]
        if shares:
            ahead = [row for row in shares if (row.value or 0.0) > 0.5]
            sure = [row for row in ahead if row.ci_low is not None and row.ci_low > 0.5]
            low, high = (pick(shares, key=lambda row: row.value or 0.0) for pick in (min, max))
            ends = [f"{row.value:.2f} ({lab.title(row.system)})" for row in (low, high)]
            spread = f"is {low.value:.2f} throughout" if low.value == high.value else f"runs from {' to '.join(ends)}"
            rival = f" against {list(slugs)[1]}" if len(slugs) == 2 else ""
            sentences.append(
                f"{name} wins more than half of its pairs{rival} under {len(ahead)} of {len(shares)} methods; under"
                f" {len(sure)} the 95 % interval lies above one half. Its share of wins {spread}."
            )
    if sentences and len(own.questions) < _FEW:
        sentences.append(
            f"With {len(own.questions)} questions, intervals over questions come out too narrow to be relied on;"
            f" have {_FEW} or more."
        )
    return sentences


def _describe_labels(lab: Lab, rows: Sequence[Row]) -> list[str]:
    found = [row for row in rows if row.metric == "spearman" and row.value is not None]
    if not found:
        return []
    said = ", ".join(f"{lab.title(r.system)} {say_value(r)}" for r in sorted(found, key=lambda r: -(r.value or 0.0)))
    counts = sorted({r.n or 0 for r in found})
    over = " to ".join(str(n) for n in dict.fromkeys([counts[0], counts[-1]]))
    return [f"Spearman with the labels given, inside each question, average over {over} questions: {said}."]
