"""What a user gets of their own answers' scores: two files with every answer; names of systems that a figure draws."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from nfqa.data.paths import write_atomically
from nfqa.data.records import QuestionSet
from nfqa.lab.values import write_json

_FORMULA = re.compile(r"[=@\t]|[+-](?!\d*\.?\d*(e[+-]?\d+)?$)")  # -2.5 and +1e-7 are numbers
_DRAWABLE = 0x530  # Latin, Greek and Cyrillic
_COLUMNS = (
    "question", "answer", "system", "label", "metric", "training", "variant", "method", "judge", "view",
    "point_of_view", "score", "rank", "ten", "flags", "note", "missing",
    "signature",
)  # fmt: skip
_LABEL = 28  # characters of a name in a legend


def write_scores(
    folder: Path,
    own: QuestionSet,
    scores: pd.DataFrame,
    *,
    not_run: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> pd.DataFrame:
    """Write scores.csv and scores.json: every answer under every metric, in full precision, then what was excluded.

    A text of scores.csv that begins as a formula has an apostrophe first (`escape_formula`); scores.json has all as is.
    Args: scores: question, answer, system, grade, metric, conditions, score, rank, ten, flags, note, missing,
        signature; not_run: the reason by metric; notes: what a reader should know. Columns that say nothing are left
        out.
    Returns: what was written.
    """
    kept = scores.rename(columns={"grade": "label"})
    kept = kept.drop(columns=[name for name in kept if name not in _COLUMNS])
    excluded = [(each.question, each.answer, f"excluded: {each.reason}") for each in own.excluded]
    lines = pd.concat([kept, pd.DataFrame(excluded, columns=["question", "answer", "missing"])], ignore_index=True)
    lines = lines[[name for name in _COLUMNS if name in lines and lines[name].replace("", None).notna().any()]]
    with write_atomically(folder / "scores.csv") as scratch:
        lines.map(escape_formula).to_csv(scratch, index=False, lineterminator="\n")
    content = {
        "answers": f"sha256:{own.sha256}",
        "origin": own.origin,
        "irregularities": {name: count for name, count in own.irregularities.items() if count},
        "not_run": dict(not_run or {}),
        "notes": list(notes),
        "scores": [{k: v for k, v in row.items() if v == v and v != ""} for row in lines.to_dict("records")],  # no NaN
    }
    write_json(folder / "scores.json", content)
    return lines


def escape_formula(cell: Any) -> Any:
    """A cell of a CSV as it may be opened: a text that a spreadsheet would run as a formula has an apostrophe first."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


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
