"""Two comparisons: published values with measured ones, and measured ones with the reference in
results/.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nfqa.files.json_lines import read_json
from reproduction.compare import compare_published, tabulate_values
from reproduction.papers import DEBATEQA, find_artefact, list_chosen, read_papers
from reproduction.place import Place
from reproduction.values import (
    COUNTS,
    EXACT_DIGITS,
    MEASURED,
    MODEL_DIGITS,
    NUMBERS,
    name_keys,
    read_values,
    round_digits,
)  # fmt: skip

UNRUN = "not run here"
SAME = "same"
WITHIN = "same within tolerance"
MOVED = "moved"
GONE = "gone"
NEW = "new"
ENDINGS = {".csv": "results", ".json": "results", ".png": "figures", ".pdf": "figures"}  # of an artefact's files
TEXTS = ["dropped_because", "origin", "signature"]
# Of 1, or of the largest number of its row: what a near tie that another processor decides otherwise changes.
_FLIPPED = 1e-4
_WIDTHS = 1 / 50  # what part of the width of its interval a value may move, and either end of the interval
_SPREADS = 3  # by how many of its own standard deviations over seeds a value that varies may move
_LISTED = 20  # failing numbers of one artefact that are printed; those beyond are counted
_LONGEST = 40  # characters of a moved text that are printed, from where it differs


def check_published(root: Path, place: Place) -> pd.DataFrame:
    """Every published number of both papers beside the measured one: artefact, and
    `compare_published`'s columns.
    """
    frames = []
    for paper in read_papers(root).values():
        for name in paper.published.artefact.unique():
            identifier = f"{paper.paper}/{name}"
            ours = _read(place.find("results", f"{identifier}.csv"))
            frames.append(compare_published(paper, name, ours).assign(artefact=identifier))
    return pd.concat(frames, ignore_index=True)


def compare_reference(root: Path, place: Place, *, unrun: bool = True) -> pd.DataFrame:
    """Every number that was made here beside the reference's in results/, as `compare_values` has
    it.

    Args: unrun: whether the numbers of artefacts that were not run here are listed as well, as "not
        run here".
    Returns: artefact, row (its key in words), column, committed, now, change (relative) and state.
    """
    frames = []
    for paper, name in list_chosen(root):
        identifier = f"{paper.paper}/{name}"
        then, now = (_read(folder / f"{identifier}.csv") for folder in (root / "results", place.results))
        if now is not None:
            varies = bool(read_json(place.results / f"{identifier}.json").get("varies"))
            compared = compare_values(then, now, varies=varies)
        elif unrun:
            compared = compare_values(then, then).replace({"state": {SAME: UNRUN}})
        else:
            continue
        frames.append(compared.assign(artefact=identifier))
    columns = ["artefact", "row", "column", "committed", "now", "change", "state"]
    return pd.concat([pd.DataFrame(columns=columns), *frames], ignore_index=True)[columns]


def say_made(place: Place, identifiers: Sequence[str]) -> bool:
    """Say what a run on DebateQA's own questions made, of which nothing is committed; True where
    something is wrong.

    Wrong is an artefact that was made without values, or without any file of DebateQA's own.
    """
    rows: list[dict[str, Any]] = []
    for identifier in identifiers:
        table = _read(place.results / f"{identifier}.csv")
        if table is None:
            rows.append({"artefact": identifier, "state": "not made"})
            continue
        inputs = read_json(place.results / f"{identifier}.json")["inputs"]
        files = [name for name in inputs if name.removeprefix("sample_").startswith(DEBATEQA)]
        is_right = bool(len(table) and files and table.value.notna().any())
        state = "made" if is_right else "WRONG: no values, or none of DebateQA's files"
        counts = {"rows": len(table), "rows not run": int(table.value.isna().sum())}
        rows.append({"artefact": identifier, "state": state} | counts | {"files": ", ".join(files)})
    made = pd.DataFrame(rows, columns=["artefact", "state", "rows", "rows not run", "files"])
    print(made.astype({"rows": "Int64", "rows not run": "Int64"}).fillna({"files": ""}).to_string(index=False))
    print("Nothing is committed to compare these values with: results/ was made without DebateQA's own files.")
    return not made.state.isin(["made", "not made"]).all()


def print_values(root: Path, place: Place, identifiers: Sequence[str]) -> None:
    """Print each artefact's main values and the paths of its files."""
    papers = read_papers(root)
    for identifier in identifiers:
        paper, name = find_artefact(papers, identifier)
        values = place.find("results", f"{identifier}.csv")
        if not values.is_file():
            continue
        size = read_json(values.with_suffix(".json")).get("size")
        title = f"{paper.artefacts[name].label}: {paper.artefacts[name].title}"
        print(f"\n{identifier}, {title}{f' ({size})' if size else ''}")
        print(tabulate_values(paper, name, read_values(values)))
        notebook = place.notebooks / f"{identifier}.ipynb"
        files = (values, place.find("figures", f"{identifier}.png"), notebook)
        print(*(f"  {path.relative_to(root)}" for path in files if path.is_file()), sep="\n")


def list_files(folder: Path, identifier: str) -> dict[str, Path]:
    """An artefact's files by their ending, below a folder of results and figures."""
    return {ending: folder / where / f"{identifier}{ending}" for ending, where in ENDINGS.items()}


def _read(path: Path) -> pd.DataFrame | None:
    return read_values(path) if path.is_file() else None


def compare_values(then: pd.DataFrame | None, now: pd.DataFrame | None, *, varies: bool = False) -> pd.DataFrame:
    """Every number of two versions of an artefact's values, and the texts in which they differ.

    A number is "same"; "same within tolerance" where it differs by no more than one of these; else
    "moved":

    - its last digit, 1e-5 relative, or 1e-11 without a model behind it;
    - behind a model, 1e-4 of 1, or of the largest number of its row: vectors that differ in their
      last bits decide a near tie otherwise, which moves an average of ranks by some 1e-5;
    - in a row with an interval, less than a fiftieth of the width that `then` has: a tie is small
      beside the sampling error. So may the spread: it moves by no more than the values of its seeds
      do. An interval without one of its ends or without width gives no tolerance.

    Counts are compared exactly, and so are origin, signature and reasons. A row is "gone" or "new"
    where only one side has it.

    Args: varies: the values depend on the processor as they do on a seed. Those with a spread may
        then move by three of it, and rows without one, of a single seed, don't count.
    Returns: row (its key in words), column, committed, now, change (relative), state.
    Raises: ValueError where two rows have one key.
    """
    sides = [
        _name_rows(pd.DataFrame(columns=["statistic", *MEASURED]) if side is None else side) for side in (then, now)
    ]
    sides = [side[side.spread.notna() | (not varies)] for side in sides]
    both = sides[0].merge(sides[1], "outer", "row", suffixes=("_then", "_now"), indicator="side", validate="1:1")
    numbers = both.filter(regex=f"^({'|'.join(NUMBERS)})_").abs()
    sizes = numbers.max(axis=1).fillna(1.0).clip(lower=1.0)  # a small difference of large values moves as they do
    spreads = both[["spread_then", "spread_now"]].max(axis=1)
    widths = (both.high_then - both.low_then).fillna(0.0)
    frames = []
    for name in [*NUMBERS, *COUNTS, *TEXTS]:
        old = both[f"{name}_then"]
        new = both[f"{name}_now"]
        compared = both[["row"]].assign(column=name)
        if name in TEXTS:
            old = old.fillna("")
            new = new.fillna("")
            differ = (both.side == "both") & (old != new)
            frames.append(compared.assign(committed=old, now=new, state=MOVED)[differ])
        elif name != "spread" or not varies:
            is_exact = (round_digits(old, MODEL_DIGITS) != old) | (round_digits(new, MODEL_DIGITS) != new)
            last = 10.0 ** (1 - np.where(is_exact, EXACT_DIGITS, MODEL_DIGITS)) * (name in NUMBERS)
            most = _FLIPPED * sizes * (~is_exact & (name in NUMBERS))
            most = np.fmax(most, _SPREADS * spreads) if varies and name == "value" else most
            is_near = np.isclose(new, old, rtol=last, atol=most)
            if name in NUMBERS:
                is_near |= (new - old).abs() < _WIDTHS * widths
            cases = {
                GONE: both.side == "left_only",
                NEW: both.side == "right_only",
                SAME: np.isclose(new, old, rtol=0, atol=0, equal_nan=True),
                WITHIN: is_near,
            }
            change = (new - old).abs() / np.fmax(old.abs(), new.abs())
            state = np.select([*cases.values()], [*cases], MOVED)
            frames.append(compared.assign(committed=old, now=new, change=change, state=state))
    return pd.concat(frames, ignore_index=True)


def _name_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The key in words as the column `row`, the numbers, counts too, and the texts."""
    rows = table[name_keys(table)].to_dict("records")
    words = [" ".join(f"{k}={v}" for k, v in row.items() if not pd.isna(v) and v != "") for row in rows]
    table = table[[*NUMBERS, *COUNTS, *TEXTS]].assign(row=np.array(words, dtype=object))
    return table.astype(dict.fromkeys((*NUMBERS, *COUNTS), np.float64))


def say_moved(compared: pd.DataFrame) -> bool:
    """Say how results compare with the committed ones: what fails first, by artefact, then the
    count of each state.

    Returns: whether a number moved, is gone or is new without a reason; with STRICT, also one
        within tolerance.
    """
    if compared.empty:
        return False
    # STRICT, on the machine that made the reference: what another processor may move as well
    failing = compared[compared.state.isin([MOVED, GONE, NEW, *([WITHIN] if os.environ.get("STRICT") else [])])]
    is_row = failing.state.isin([GONE, NEW])  # one line for all numbers of such a row
    for identifier, lines in failing[~is_row | (failing.column == "value")].groupby("artefact"):
        print(f"{identifier} differs from results/{identifier}.csv:")
        print(_list_failing(lines).to_string(index=False))
        if len(lines) > _LISTED:
            print(f"... and {len(lines) - _LISTED:,} more")
    counts = ", ".join(f"{state} {count:,}" for state, count in compared.state.value_counts().items())
    print(f"{len(compared):,} numbers against the reference in results/: {counts}")
    if len(failing):
        print("Values moved. If intended, run `make accept` and state why in the commit.", file=sys.stderr)
    return bool(len(failing))


def _list_failing(lines: pd.DataFrame) -> pd.DataFrame:
    """What differs in an artefact as it is printed, the largest changes first; of texts the part
    that differs.
    """
    lines = lines.sort_values("change", ascending=False, na_position="first").head(_LISTED).drop(columns="artefact")
    texts = lines[lines.column.isin(TEXTS)]
    for place, old, new in zip(texts.index, texts.committed, texts.now, strict=True):
        equal = [a == b for a, b in zip(old, new, strict=False)]
        start = [*equal, False].index(False)
        lines.loc[place, "committed"] = old[start : start + _LONGEST]
        lines.loc[place, "now"] = new[start : start + _LONGEST]
    return lines
