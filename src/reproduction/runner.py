"""Bring artefacts up to date: write the keys of what is stale, run its notebooks, say what came of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from heapq import heapify, heappop, heappush
from math import inf
from pathlib import Path

from tqdm import tqdm

from nfqa.files.paths import lock_file, write_text
from nfqa.interruption import RUN, end_processes
from reproduction.data.load import GRADED
from reproduction.data.registry import UnreachableError, fetch_file, read_registry
from reproduction.keys import QUICK_LIMIT, Target, list_data
from reproduction.options import RunOptions
from reproduction.papers import Artefact
from reproduction.place import Place

_LONGEST = 10_000  # characters of a failure that are shown
_UNKNOWN = 60.0  # the seconds that an artefact is taken to need of which nothing is known
_EMBEDDING = 1e-4  # about the seconds that one core needs to embed a character
_PRIOR = 30.0  # seconds of work at the expected speed, beside which little work says little of a machine's
_PAUSE = 30.0  # seconds between two lines of progress where no one watches
_OVERDUE = 0.05  # of the time that a notebook ran so far: what it is taken to need still, at least


def reach_data(root: Path, artefacts: Sequence[Artefact], options: RunOptions) -> list[str]:
    """Fetch what artefacts read in a run; returns a line for each file that could not be reached.

    Raises: ValueError for a file with the wrong hash.
    """
    problems = []
    parameters = options.parameters | {"questions": options.questions}
    names = [name for a in artefacts for name in (*list_data(root, a, parameters), *a.files)]
    for name in dict.fromkeys(names):
        file = read_registry(root)[name]
        try:
            fetch_file(file, root / "build" / "data")
        except UnreachableError as error:
            problems.append(str(error))
    return problems


def run_targets(root: Path, options: RunOptions, targets: Sequence[Target], *, jobs: int = 2) -> list[str]:
    """Run what is stale, `jobs` notebooks at a time; returns the identifiers of those that failed.

    A target waits for those it reads. One that fails keeps its last good result, and what reads it is not run.
    """
    pending = order_targets([target for target in targets if target.stale])
    if not pending:
        return []
    place = options.find_place(root)
    with hold_scratch(place.work / "scratch", root / "build" / "lock"):
        graded = {name for name, file in read_registry(root).items() if file.shape in GRADED}
        wanted = {d for t in pending if "embedder" in t.artefact.roles for d in t.artefact.datasets} & graded
        write_keys(place, pending)
        with closing(Progress(pending, jobs=jobs)) as progress:
            count = f"{len(pending)} artefact{'s' * (len(pending) > 1)} to run, {jobs} at a time; this takes"
            print(f"{count} {progress.describe()}{' once texts are embedded' * bool(wanted)}", flush=True)
            if wanted:
                limit = QUICK_LIMIT if options.profile == "quick" else None
                prepare_vectors(root, options, sorted(wanted), limit=limit, show=progress.show_embedding)
            return run_notebooks(place, pending, progress)


def order_targets(targets: Sequence[Target]) -> list[Target]:
    """Targets in the order in which they start: first those that begin the longest chain of reading one another."""
    chains: dict[str, float] = {}  # the seconds of each and of the longest chain that reads it
    for target in reversed(targets):
        readers = [chains[other.identifier] for other in targets if target.identifier in other.reads]
        chains[target.identifier] = target.seconds + max(readers, default=0.0)
    return sorted(targets, key=lambda target: -chains[target.identifier])


def write_keys(place: Place, pending: Sequence[Target]) -> None:
    """Write the key of each target, which the process that runs its notebook reads."""
    for target, key in ((target, target.key) for target in pending if target.key):
        if key.size:
            print(f"{target.identifier}, {key.size}")
        write_text(place.work / "keys" / f"{target.identifier}.json", key.model_dump_json(indent=1))


def run_notebooks(place: Place, pending: Sequence[Target], progress: Progress) -> list[str]:
    """Run the notebooks of targets whose keys are written, each in a process of its own; returns those that failed.

    One starts once what it reads has ended, in the order of `pending`.
    """
    os.environ.setdefault("NFQA_RUN", f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}")
    scratch = place.work / "scratch"
    failed = list[str]()
    waiting = {target.identifier: target for target in pending}
    running = dict[str, subprocess.Popen[bytes]]()

    def end(name: str, failure: str) -> None:
        progress.end(name, failed=bool(failure))
        if failure:
            failed.append(name)
            tqdm.write(f"\n{name} FAILED; its last good result stays.\n{failure}\n", sys.stderr)

    try:
        while waiting or running:
            for name, target in list(waiting.items()):
                if missing := sorted(target.reads & {*failed}):
                    del waiting[name]
                    end(name, f"not run, because it reads {' and '.join(missing)}, which failed")
                elif len(running) < progress.jobs and not target.reads & (waiting.keys() | running.keys()):
                    del waiting[name]
                    running[name] = start_notebook(place, name)
            for name, process in list(running.items()):
                if process.poll() is not None:
                    del running[name]
                    end(name, read_failure(scratch / f"{name}.log", process.returncode))
            at_work = [name for name in running if (scratch / name).is_dir()]  # others wait for the model
            for name in at_work:
                progress.start(name)
            progress.show(describe_running(scratch, at_work))
            time.sleep(0.2)
    finally:
        end_processes(RUN)  # after an interruption
    return failed


def start_notebook(place: Place, name: str) -> subprocess.Popen[bytes]:
    """A process that runs a notebook and says in a file why it failed."""
    log = place.work / "scratch" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "reproduction", "make", str(place.work.relative_to(place.root)), name]
    with log.open("wb") as file:
        return subprocess.Popen(words, cwd=place.root, stdout=file, stderr=file)


def read_failure(log: Path, code: int) -> str:
    """Why a notebook's process failed, by its exit code and what it wrote; "" where it did not."""
    if code == 0:
        return ""
    lines = log.read_text(errors="replace").splitlines()
    message = "\n".join(line for line in lines if not line.startswith("[IPKernelApp]"))
    if code < 0 or not message:
        return "its process was killed, for want of memory perhaps"
    return message[-_LONGEST:]


def describe_running(scratch: Path, names: Iterable[str]) -> str:
    """The notebooks at work, and the progress of a batch of requests, as `reproduction.notebook_roles` notes it."""
    parts = []
    for name in names:
        progress = ""
        with suppress(FileNotFoundError):  # it asks no model, or has just ended
            progress = (scratch / name / "progress.txt").read_text()
        parts.append(f"{Path(name).name} {progress}".strip())
    return ", ".join(parts)


def estimate_left(
    done: Collection[tuple[float, float]],
    running: Mapping[str, tuple[float, float]],
    waiting: Mapping[str, float],
    reads: Mapping[str, Collection[str]],
    *,
    jobs: int,
    first: float = 0.0,
) -> float:
    """The seconds that a run still needs: what is left, as many times as long as expected as what is done was.

    What waits begins in its order, at the first of `jobs` places that is free, once what it reads has ended. A part
    that runs for longer than it should counts as done, so that a slow machine is noticed before anything ends.

    Args: done: of each part that has ended the expected seconds and those that it took; running: of each part by name
        the expected seconds and those that it has run; waiting: of each the expected seconds, those that start first
        come first; reads: of each the names of the parts that must end before it begins; first: the expected seconds
        of what must end before any of `waiting` begins.
    """
    pace = _find_pace(done)
    begun = [(min(expected, elapsed / pace), elapsed) for expected, elapsed in running.values()]
    pace = _find_pace([*done, *begun])
    ends = {}
    for name, (expected, elapsed) in running.items():
        ends[name] = max(pace * expected - elapsed, _OVERDUE * elapsed)
    free = [*ends.values(), *[pace * first] * (jobs - len(running))]
    heapify(free)
    for name, expected in waiting.items():
        begins = max([heappop(free), *(ends.get(other, 0.0) for other in reads[name])])
        ends[name] = begins + pace * expected
        heappush(free, ends[name])
    return max(free)


def _find_pace(timed: Collection[tuple[float, float]]) -> float:
    """How many times as long parts took as was expected; near 1 where they are short."""
    return (_PRIOR + sum(taken for _, taken in timed)) / (_PRIOR + sum(expected for expected, _ in timed))


class Progress:
    """What a run has done, is at and has left, on a bar of time; where no one watches, a line every 30 seconds."""

    def __init__(self, targets: Sequence[Target], *, jobs: int) -> None:
        self.jobs = jobs
        self._reads = {target.identifier: target.reads for target in targets}
        self._waiting = {t.identifier: t.seconds if t.seconds < inf else _UNKNOWN for t in targets}
        self._about = "at least" if any(target.seconds == inf for target in targets) else "about"
        self._running: dict[str, tuple[float, float]] = {}  # the expected seconds of each, and when it began
        self._done: list[tuple[float, float]] = []  # the expected seconds of each, and those that it took
        self._first = 0.0  # the expected seconds of the embedding that is left
        self._began = time.monotonic()
        self._shown = self._began  # when a line was last printed
        shape = "{percentage:3.0f}%|{bar}| {elapsed}, {desc}"
        self._bar = tqdm(
            total=1, bar_format=shape, miniters=0, mininterval=0.5, delay=0.5, disable=not sys.stderr.isatty()
        )

    def estimate(self) -> float:
        """The seconds that are left."""
        now = time.monotonic()
        running = {name: (expected, now - began) for name, (expected, began) in self._running.items()}
        return estimate_left(self._done, running, self._waiting, self._reads, jobs=self.jobs, first=self._first)

    def describe(self) -> str:
        """The time that is left, in words; at least so much where that of a part is not known."""
        return f"{self._about} {tqdm.format_interval(self.estimate())}"

    def start(self, name: str) -> None:
        """Note that an artefact is at work, if it is not noted yet."""
        if name in self._waiting:
            self._running[name] = (self._waiting.pop(name), time.monotonic())

    def end(self, name: str, *, failed: bool) -> None:
        """Note that an artefact has ended. Only one that was made says how long others take."""
        self._waiting.pop(name, None)
        if name in self._running:
            expected, began = self._running.pop(name)
            if not failed:
                self._done.append((expected, time.monotonic() - began))

    def show(self, what: str) -> None:
        """Show what is at work, if it is time to."""
        now = time.monotonic()
        elapsed = now - self._began
        left = self.estimate()
        words = f"{self.describe()} left: {what}"
        self._bar.n = elapsed
        self._bar.total = elapsed + left
        self._bar.set_description_str(words, refresh=False)
        self._bar.update(0)
        if self._bar.disable and now - self._shown >= _PAUSE:
            self._shown = now
            percent = 100 * elapsed / (elapsed + left)
            print(f"{percent:.0f} % after {tqdm.format_interval(elapsed)}, {words}", file=sys.stderr, flush=True)

    def show_embedding(self, done: int, total: int) -> None:
        """Show how many characters of all texts are embedded, which comes first: the callback of an embedder."""
        if not done:
            self._embedding_began = time.monotonic()
        expected = _EMBEDDING * total / (os.cpu_count() or 1)
        self._done = [(expected * done / total, time.monotonic() - self._embedding_began)]
        self._first = expected * (1 - done / total)
        self.show("embedding texts")

    def close(self) -> None:
        """End the bar where it is."""
        self._bar.close()


def prepare_vectors(
    root: Path, options: RunOptions, datasets: Sequence[str], *, limit: int | None, show: Callable[[int, int], None]
) -> None:
    """Embed all texts of datasets, on all cores; `show` gets the characters done and those of all.

    Raises: ValueError where the embedder can't be used.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from nfqa.models.embed import Embedder
    from reproduction.data.load import load
    from reproduction.place import find_cache

    sets = [load(name, data=options.data, limit=limit, root=root) for name in datasets]
    texts = [text for dataset in sets for text in dataset.texts()]
    Embedder(options.find_role("embedder"), find_cache(root, "embeddings"), progress=show).prepare(texts)


@contextmanager
def hold_scratch(scratch: Path, lock: Path) -> Iterator[None]:
    """An empty scratch folder for this run alone, gone afterwards however the run ends.

    Raises: ValueError where another run holds the file `lock`.
    """
    with lock_file(lock, "another run is at work in this checkout; wait for it, or stop it first"):
        shutil.rmtree(scratch, ignore_errors=True)  # what a killed run left
        scratch.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
