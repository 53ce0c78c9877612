"""How far a run is and how long the rest takes: what a notebook tells while it asks a model, and the runner's line."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from nfqa.files.paths import write_text


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
