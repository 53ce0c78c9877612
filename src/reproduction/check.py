"""Two comparisons: published values against ours, and what was made here against the reference in results/."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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
_CLOSE = 1e-6  # relative: what a sum in another order changes
# Of 1, or of the largest number of its row: what a near tie that another processor decides otherwise changes.
_FLIPPED = 1e-4
_SPREADS = 3  # by how many of its own standard deviations over seeds a value that varies may move
_NUMBER = re.compile(r"-?\d[\d.,]*")


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
    compared = compare_reference(root, place, unrun=False)
    moved = compared[compared.state.isin([MOVED, GONE, NEW])].artefact.unique()
    for identifier in only or moved:
        for ending, file in list_files(place.work, identifier).items():
            reference = list_files(root, identifier)[ending]
            if ending == ".csv" and not file.is_file():
                raise ValueError(f"{identifier} was not made here; run `make {identifier}` first")
            reference.unlink(missing_ok=True)
            if file.is_file():
                reference.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, reference)
    return list(only or moved)


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

    A number is "same"; "same but for the last digit" where it differs by no more than one unit of the last digit that
    is kept (of 6 significant ones behind a model, of 12 otherwise) or by 1e-6 relative behind a model; "same within
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
    told = [side[["row", *TEXTS]].melt("row", TEXTS, "column", "text").fillna({"text": ""}) for side in sides]
    texts = told[0].merge(told[1], on=["row", "column"], suffixes=("_then", "_now"))
    unfolded = [side[["row", *NUMBERS, *COUNTS]].melt("row", var_name="column", value_name="number") for side in sides]
    both = unfolded[0].merge(unfolded[1], on=["row", "column"], how="outer", suffixes=("_then", "_now"), indicator=True)
    if varies:
        both = both[both.column != "spread"]
    old, new = (both[name].to_numpy(dtype=np.float64) for name in ("number_then", "number_now"))
    gap, largest = np.abs(new - old), np.fmax(np.abs(old), np.abs(new))
    change = np.divide(gap, largest, out=np.full_like(gap, np.nan), where=largest > 0)
    values = pd.Series(largest).mask(both.column.isin(COUNTS).to_numpy())
    size = values.groupby(both.row.to_numpy()).transform("max")  # a small difference of large values moves as they do
    allowed = [_allow(*numbers) for numbers in zip(old, new, size, both.column, strict=True)]
    digit, tolerance = np.array(allowed).reshape(-1, 2).T
    if varies:
        spreads = pd.concat([side.set_index("row").spread for side in sides])
        own = _SPREADS * both.row.map(spreads.groupby(level=0).max()).to_numpy(dtype=np.float64)
        tolerance = np.where(both.column == "value", np.maximum(tolerance, own), tolerance)
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    state = np.select(
        [both._merge == "left_only", both._merge == "right_only", same, gap <= digit, gap <= tolerance],
        [LACKING if lacks else GONE, NEW, SAME, LAST_DIGIT, WITHIN], default=MOVED,
    )  # fmt: skip
    numbers = both[["row", "column"]].assign(committed=old, now=new, change=change, state=state)
    moved = texts.loc[texts.text_then != texts.text_now, ["row", "column"]].assign(state=MOVED)
    return pd.concat([numbers, moved], ignore_index=True)


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


def _allow(then: float, now: float, size: float, column: str) -> tuple[float, float]:
    """What a number may differ by, in its last digit and by another processor; printed digits tell an exact one."""
    largest = max(abs(then), abs(now))
    if column in COUNTS or np.isnan(then) or np.isnan(now) or largest == 0:
        return 0.0, 0.0
    printed = max(len(f"{abs(number):.15g}".split("e")[0].replace(".", "").lstrip("0")) for number in (then, now))
    exact = printed > MODEL_DIGITS
    unit = 10.0 ** (np.floor(np.log10(largest)) - (EXACT_DIGITS if exact else MODEL_DIGITS) + 1)
    return (1.001 * unit, 0.0) if exact else (1.001 * max(unit, _CLOSE * largest), _FLIPPED * max(1.0, size))


def run_git(root: Path, *arguments: str) -> str:
    """What git says; nothing where there is no git, no repository, or no such object."""
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


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
