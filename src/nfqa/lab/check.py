"""Published values against ours, and ours against the committed results."""

from __future__ import annotations

import json
import math
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfqa.data.paths import Place
from nfqa.lab.artefacts import Leaf, Paper, list_leaves, list_needs, read_papers
from nfqa.lab.results import Row, compare_with_leaf, read_result
from nfqa.lab.staleness import RunOptions
from nfqa.lab.targets import list_targets


@dataclass(frozen=True)
class Comparison:
    """One published number beside ours."""

    leaf: Leaf
    row: Row | None
    verdict: str
    why: str


def compare_published(paper: Paper, name: str, place: Place) -> Iterator[Comparison]:
    """Every leaf of an artefact with its verdict.

    Raises: ValueError for a results file that can't be read.
    """
    path = place.results / paper.paper / f"{name}.json"
    rows = {row.key: row for row in read_result(path).rows} if path.is_file() else {}
    artefact = paper.artefacts[name]
    for leaf in list_leaves(paper, name):
        row = rows.get(leaf.key)
        verdict, why = compare_with_leaf(row, leaf, artefact)
        if verdict == "not run":
            needs = list_needs(paper, name, leaf.system)
            verdict, why = ("not run", f"needs: {', '.join(needs)}") if needs else ("missing", "run `make reproduce`")
        yield Comparison(leaf, row, verdict, why)


def check_published(root: Path, place: Place) -> tuple[list[str], bool]:
    """A line a published number that was run, a count of verdicts, and whether all agree.

    A value that differs without a listed reason, or that needs no role and is not there, does not.
    """
    lines, counts = [], Counter[str]()
    for paper in read_papers(root).values():
        for name in paper.artefacts:
            for found in compare_published(paper, name, place):
                counts[found.verdict] += 1
                if found.verdict == "not run":
                    continue
                ours = "none" if found.row is None or found.row.value is None else f"{found.row.value:.4f}"
                where = (
                    f"{found.leaf.artefact:18} {found.leaf.system:10} {found.leaf.dataset:11} {found.leaf.metric:16}"
                )
                lines.append(f"{where} published {found.leaf.text:>7}  ours {ours:>8}  {found.verdict}: {found.why}")
    order = ("equal", "near", "differs, known", "differs", "missing", "not run")
    lines.append("; ".join(f"{verdict}: {counts[verdict]}" for verdict in order))
    return lines, counts["differs"] + counts["missing"] == 0


@dataclass(frozen=True)
class Repeat:
    """How results compare with the committed ones: equal to the last digit, equal to nine digits, or moved."""

    identical: int
    close: int
    moved: tuple[str, ...]

    @property
    def compared(self) -> int:
        return self.identical + self.close + len(self.moved)


def compare_committed(root: Path, options: RunOptions) -> Repeat:
    """Compare results with those of the last commit. Without git, or without a committed file, nothing is compared.

    Another processor's arithmetic may change a last digit; that counts as close, and anything more as moved.
    """
    place = options.find_place(root)
    identical, close, moved = 0, 0, []
    for target in list_targets(root, options):
        path = place.results / target.paper.paper / f"{target.name}.json"
        committed = _read_committed(root, path)
        if committed is None or not path.is_file():
            continue
        before = {(r["system"], r["dataset"], r["metric"]): r["value"] for r in committed["rows"]}
        for row in read_result(path).rows:
            if row.key not in before:
                continue
            old = before[row.key]
            if old == row.value:
                identical += 1
            elif None not in (old, row.value) and math.isclose(old, row.value or 0.0, rel_tol=1e-9, abs_tol=1e-12):
                close += 1
            else:
                moved.append(f"{target.identifier} {' '.join(row.key)}: committed {old}, now {row.value}")
    return Repeat(identical, close, tuple(moved))


def _read_committed(root: Path, path: Path) -> dict[str, Any] | None:
    name = path.relative_to(root).as_posix()
    try:
        shown = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=root, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return json.loads(shown.stdout) if shown.returncode == 0 else None
