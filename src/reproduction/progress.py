"""How far a run is and how long the rest takes: what a notebook tells while it asks a model, and the runner's line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from nfqa.files.paths import Place, write_text

if TYPE_CHECKING:
    from reproduction.fingerprint import Target


def show_progress(folder: Path, unit: str) -> Callable[[int, int], None]:
    """A callback that leaves in FOLDER/progress.txt how far a batch is, for the runner, once a second at most.

    The file holds the seconds that the rest takes at the batch's own pace, 0 where nothing is known of it, and after a
    blank what to show, such as "340 of 1,200 verdicts"; nothing once the batch has ended.
    """
    path, begun, shown = folder / "progress.txt", 0.0, 0.0

    def show(done: int, total: int) -> None:
        nonlocal begun, shown
        now = time.monotonic()
        begun = begun if done else now
        if now - shown > 1 or done == total:
            shown, left = now, (now - begun) / max(done, 1) * (total - done)
            write_text(path, f"{left:.0f} {done:,} of {total:,} {unit}" if done < total else "0")

    return show


def read_progress(folder: Path) -> tuple[float, str]:
    """What `show_progress` left in a folder: the seconds that the rest of the batch takes, and what to show."""
    path = folder / "progress.txt"
    seconds, _, words = path.read_text(encoding="utf-8").partition(" ") if path.is_file() else ("0", "", "")
    return float(seconds), words


def expect(target: Target) -> float:
    """The seconds that an artefact is taken to need: as last time, or as its entry says; a minute where unknown."""
    return target.seconds if target.seconds < inf else 60.0


def describe_running(place: Place, names: Sequence[str]) -> str:
    """The notebooks at work, and how far the batch is that one asks a model."""
    parts = ((name.rpartition("/")[2], read_progress(place.work / "scratch" / name)[1]) for name in names)
    return ", ".join(" ".join(filter(None, part)) for part in parts)


def open_bar(targets: Sequence[Target]) -> tqdm:
    """A bar of the seconds that artefacts are taken to need; where no one watches, a line every 30 seconds."""
    shape, seconds = "{percentage:.0f} % after {elapsed}, {remaining} left: {desc}\n", 30.0
    if sys.stderr.isatty():
        shape, seconds = "{percentage:3.0f}%|{bar}| {elapsed}, {remaining} left: {desc}", 0.5
    total = sum(map(expect, targets))
    return tqdm(total=total, bar_format=shape, miniters=0, mininterval=seconds, delay=min(seconds, 2))
