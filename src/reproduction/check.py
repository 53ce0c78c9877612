"""Two comparisons: published values against ours, and what was made here against the reference in results/."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from nfqa.files.json_lines import read_json, refuse_repeats
from nfqa.files.paths import Place
from reproduction.compare import compare_published
from reproduction.data.registry import has_file, read_registry
from reproduction.papers import Artefact, list_chosen, read_papers
from reproduction.values import COUNTS, EXACT_DIGITS, MEASURED, MODEL_DIGITS, NUMBERS, name_keys, read_values

UNRUN = "not run here"
SAME, LAST_DIGIT, WITHIN = "same", "same but for the last digit", "same within tolerance"
MOVED, GONE, NEW, LACKING = "moved", "gone", "new", "needs a file that is not here"
ENDINGS = {".csv": "results", ".json": "results", ".png": "figures", ".pdf": "figures"}  # of an artefact's files
TEXTS = ["dropped_because", "origin", "signature"]
# Of 1, or of the largest number of its row: what a near tie that another processor decides otherwise changes.
_FLIPPED = 1e-4
_SPREADS = 3  # by how many of its own standard deviations over seeds a value that varies may move


def check_published(root: Path, place: Place) -> pd.DataFrame:
    """Every published number beside ours, of both papers: artefact and the columns of `compare_published`."""
    frames = []
    for paper in read_papers(root).values():
        for name in paper.published.artefact.unique():
            identifier = f"{paper.paper}/{name}"
            path = place.find("results", f"{identifier}.csv")
            ours = read_values(path) if path.is_file() else None
            frames.append(compare_published(paper, name, ours).assign(artefact=identifier))
    return pd.concat(frames, ignore_index=True)


def compare_reference(root: Path, place: Place, *, unrun: bool = True) -> pd.DataFrame:
    """Every number that was made here beside the reference's in results/, as `compare_values` has it.

    Args: unrun: whether the numbers of artefacts that were not run here are listed as well, as "not run here".
    Returns: artefact, row (its key in words), column, committed, now, change (relative) and state.
    """
    frames = []
    for paper, name in list_chosen(root):
        identifier = f"{paper.paper}/{name}"
        then, now = _read(root / "results", identifier), _read(place.results, identifier)
        if now is None:
            compared = compare_values(then, then)
            compared = compared.assign(state=compared.state.replace(SAME, UNRUN))[: None if unrun else 0]
        else:
            varies = bool(read_json(place.results / f"{identifier}.json").get("varies"))
            compared = compare_values(then, now, lacks=lacks_files(root, paper.artefacts[name]), varies=varies)
        frames.append(compared.assign(artefact=identifier))
    columns = ["artefact", "row", "column", "committed", "now", "change", "state"]
    return pd.concat(frames, ignore_index=True)[columns]


def accept_results(root: Path, place: Place, only: Sequence[str]) -> list[str]:
    """Copy what was made here to the reference: the artefacts named, else those of which a value moved.

    Returns: their identifiers.
    Raises: ValueError for one that was not made here.
    """
    accepted = [*only]
    if not accepted:
        compared = compare_reference(root, place, unrun=False)
        accepted = list(compared[compared.state.isin([MOVED, GONE, NEW])].artefact.unique())
    for identifier in accepted:
        for ending, file in list_files(place.work, identifier).items():
            reference = list_files(root, identifier)[ending]
            if ending == ".csv" and not file.is_file():
                raise ValueError(f"{identifier} was not made here; run `make {identifier}` first")
            reference.unlink(missing_ok=True)
            if file.is_file():
                reference.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, reference)
    return accepted


def list_files(folder: Path, identifier: str) -> dict[str, Path]:
    """An artefact's files by their ending, below a folder of results and figures."""
    return {ending: folder / where / f"{identifier}{ending}" for ending, where in ENDINGS.items()}


def lacks_files(root: Path, artefact: Artefact) -> bool:
    """Whether a file is not at hand of which some of an artefact's rows are made, where it is."""
    files = [read_registry(root)[name] for name in (*artefact.datasets, *artefact.files)]
    return any((file.optional or file.local) and not has_file(file, root / "build" / "data") for file in files)


def _read(folder: Path, identifier: str) -> pd.DataFrame | None:
    path = folder / f"{identifier}.csv"
    return read_values(path) if path.is_file() else None


def compare_values(
    then: pd.DataFrame | None, now: pd.DataFrame | None, *, lacks: bool = False, varies: bool = False
) -> pd.DataFrame:
    """Every number of two versions of an artefact's values, and the texts in which they differ.

    A number is "same"; "same but for the last digit" where it differs by no more than 1e-5 relative, or 1e-11 without a
    model behind it: the last of the digits that are kept; "same within
    tolerance" where a value behind a model differs by no more than 1e-4 (of 1, or of the largest number of its row):
    vectors that differ in their last bits decide a near tie otherwise, which moves an average of ranks by some 1e-5;
    else "moved".
    Counts are compared exactly, and so are origin, signature and reasons. A row is "gone" or "new" where only one side
    has it.

    Args: lacks: a file is missing, so that rows may be gone; varies: the values depend on the processor as they do on a
        seed. Those with a spread may then move by three of it, and rows without one, of a single seed, don't count.
    Returns: row (its key in words), column, committed, now, change (relative), state.
    """
    sides = [_name_rows(side) for side in (then, now)]
    if varies:
        sides = [side[side.spread.notna()] for side in sides]
    columns = [*NUMBERS, *COUNTS, *TEXTS]
    long = [side[["row", *columns]].melt("row", columns, "column", "cell") for side in sides]
    both = long[0].merge(long[1], "outer", ["row", "column"], suffixes=("_then", "_now"), indicator=True)
    is_text = both.column.isin(TEXTS)
    moved = both[is_text & (both._merge == "both") & (both.cell_then.fillna("") != both.cell_now.fillna(""))]
    both = both[~is_text & ~(varies & (both.column == "spread"))].reset_index(drop=True)
    old, new = (both[name].to_numpy(dtype=np.float64) for name in ("cell_then", "cell_now"))
    gap, largest = np.abs(new - old), np.fmax(np.abs(old), np.abs(new))
    is_count = both.column.isin(COUNTS).to_numpy()
    is_exact = is_count | _is_exact(old) | _is_exact(new)
    # a small difference of large values moves as they do
    size = pd.Series(largest).mask(is_count).groupby(both.row).transform("max").fillna(1.0).clip(lower=1.0)
    tolerance = np.where(is_exact, 0.0, _FLIPPED * size)
    if varies:
        spreads = pd.concat([side.set_index("row").spread for side in sides]).groupby(level=0).max()
        own = _SPREADS * both.row.map(spreads).to_numpy(dtype=np.float64)
        tolerance = np.where(both.column == "value", np.maximum(tolerance, own), tolerance)
    last = np.where(is_count, 0.0, 10.0 ** (1 - np.where(is_exact, EXACT_DIGITS, MODEL_DIGITS)))
    cases = {
        LACKING if lacks else GONE: both._merge == "left_only",
        NEW: both._merge == "right_only",
        SAME: np.isclose(new, old, rtol=0, atol=0, equal_nan=True),
        LAST_DIGIT: np.isclose(new, old, rtol=last, atol=0),
        WITHIN: gap <= tolerance,
    }
    state = np.select([*cases.values()], [*cases], MOVED)
    numbers = both[["row", "column"]].assign(committed=old, now=new, change=pd.Series(gap) / largest, state=state)
    return pd.concat([numbers, moved[["row", "column"]].assign(state=MOVED)], ignore_index=True)


def _name_rows(table: pd.DataFrame | None) -> pd.DataFrame:
    """Its key in words as the column `row`, its numbers, counts too, and its texts; no row of None.

    Raises: ValueError where two rows have one key.
    """
    if table is None:
        table = pd.DataFrame(columns=["statistic", *MEASURED])
    rows = table[name_keys(table)].to_dict("records")
    words = [" ".join(f"{k}={v}" for k, v in row.items() if not pd.isna(v) and v != "") for row in rows]
    refuse_repeats(words, "in results the row")
    return table.assign(row=np.array(words, dtype=object)).astype(dict.fromkeys((*NUMBERS, *COUNTS), np.float64))


def _is_exact(numbers: np.ndarray) -> np.ndarray:
    """Which numbers have more digits than those that a model's floating point is behind."""
    return np.array([float(f"{number:.{MODEL_DIGITS}g}") != number for number in numbers], dtype=bool)


def say_moved(found: pd.DataFrame) -> bool:
    """Say how results compare with the committed ones; True where one moved, is gone or is new without a reason."""
    if found.empty:
        return False
    counts = ", ".join(f"{state} {count:,}" for state, count in found.state.value_counts().items())
    print(f"{len(found):,} numbers against the reference in results/: {counts}")
    # STRICT, on the machine that made the reference: what another processor may move as well
    failing = found[found.state.isin([MOVED, GONE, NEW, *([WITHIN] if os.environ.get("STRICT") else [])])]
    changed = found[~found.state.isin([SAME, UNRUN]) & found.change.notna()].sort_values("change", ascending=False)
    for shown in (changed, failing[failing.change.isna()].drop(columns=["committed", "now", "change"])):
        if len(shown):
            print(shown.head(10).to_string(index=False))
    if len(failing):
        advice = "If intended, take them over by `make accept`, and state why in the commit."
        print(f"Values moved. {advice}", file=sys.stderr)
    return bool(len(failing))
