"""How far a run is and how long the rest takes: what a notebook tells while it asks a model, and the runner's line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path

from tqdm import tqdm

from nfqa.files.paths import Place, write_text


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


def describe_duration(seconds: Sequence[float], jobs: int) -> str:
    """How long notebooks take that need so many seconds each; an infinite one is one of which nothing is known."""
    known = [each for each in seconds if each < inf]
    least = max([sum(known) / jobs, *known])
    amount = f"{least / 60:,.0f} min" if least > 90 else f"{least:,.0f} s"
    if len(known) == len(seconds):
        return f"about {amount}"
    return f"at least {amount}" if least >= 1 else "unknown"


def describe_rest(
    place: Place, expected: Mapping[str, float], begun: Mapping[str, float], took: Mapping[str, float], jobs: int
) -> str:
    """About how long it takes until all have ended, and which notebooks run.

    It goes by `expected`, the seconds of each as last time or as its entry says (infinite where nothing is known), and
    by the pace of what has run so far. Of a notebook that takes longer than that, or was never timed, the rest
    of the batch is known that it asks a language model or an evaluator, if it asks one.
    """
    running = {name: time.monotonic() - start for name, start in begun.items() if name not in took}
    spent = {name: seconds for name, seconds in (running | dict(took)).items() if expected[name] < inf}
    usual = sum(min(expected[name], running.get(name, inf)) for name in spent)
    pace = (1 + sum(spent.values())) / (1 + usual)
    progress = {name: read_progress(place.work / "scratch" / name) for name in running}
    left: list[float] = []
    for name in expected.keys() - took.keys():
        rest, batch = pace * expected[name] - running.get(name, 0), progress.get(name, (0.0, ""))[0]
        left += [batch, inf] if rest == inf or (name in running and rest < 1) else [max(rest, batch)]
    names = (
        ", ".join(filter(None, [f"{name.rpartition('/')[2]} {seconds:.0f} s", progress[name][1]]))
        for name, seconds in running.items()
    )
    return f"time left: {describe_duration(left, jobs)}; running: {', '.join(names)}"


def open_bar(count: int) -> tqdm:
    """A bar; where no one watches, a line every 30 seconds."""
    shape, seconds = "{n_fmt} of {total_fmt} artefacts{postfix}\n", 30.0
    if sys.stderr.isatty():
        shape, seconds = "artefacts: {n_fmt}/{total_fmt}|{bar}|{postfix}", 0.5
    return tqdm(total=count, bar_format=shape, miniters=0, mininterval=seconds, delay=seconds)
