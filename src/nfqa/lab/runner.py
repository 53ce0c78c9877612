"""Bring artefacts up to date: decide by hash, run notebooks side by side, move results into place on success only."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from nfqa.data.load import GRADED
from nfqa.data.paths import Place, write_atomically
from nfqa.data.registry import UnreachableError, fetch_file, hash_file, read_registry
from nfqa.lab.options import RunOptions
from nfqa.lab.staleness import QUICK_LIMIT, choose_parameters, explain_staleness, hash_code, make_fingerprint
from nfqa.lab.targets import Target, find_record, list_targets, narrow_options, read_record

_LINE_EVERY = 30.0  # seconds between lines in a log


@dataclass
class _Job:
    target: Target
    process: subprocess.Popen[bytes]
    scratch: Path
    started: float


def reach_data(root: Path, targets: Sequence[Target]) -> list[str]:
    """Fetch what the targets read; returns a line for each file that could not be reached and is not optional.

    Raises: ValueError for a file with the wrong hash.
    """
    registry = read_registry(root)
    problems = []
    for name in dict.fromkeys(
        f for t in targets for f in (*t.artefact.datasets, *t.artefact.files, *t.artefact.needs_files)
    ):
        file = registry[name]
        try:
            fetch_file(file, root / "build" / "data")
        except UnreachableError as error:
            if not (file.optional or file.local):
                problems.append(str(error))
    return problems


def run_targets(
    root: Path, options: RunOptions, only: Sequence[str] = (), *, jobs: int = 2
) -> tuple[list[str], list[str]]:
    """Run what is stale; returns the identifiers of artefacts that were run and of those that failed.

    A target waits for those it reads. One that fails keeps its last good result, and what reads it is not run.
    """
    place = options.find_place(root)
    with _lock(root), _scratch(place):
        targets = list_targets(root, options, only)
        pending = [target for target in targets if target.stale and not target.lacks]
        if not pending:
            return [], []
        graded = {name for name, file in read_registry(root).items() if file.shape in GRADED}
        wanted = {d for t in pending if "embedder" in t.artefact.roles for d in t.artefact.datasets} & graded
        if wanted:
            prepare_vectors(root, options, sorted(wanted), limit=QUICK_LIMIT if options.profile == "quick" else None)
        return run_pending(root, place, options, only, pending, jobs=jobs)


def run_pending(
    root: Path, place: Place, options: RunOptions, only: Sequence[str], pending: list[Target], *, jobs: int
) -> tuple[list[str], list[str]]:
    """Run targets in notebooks of their own, each when its turn comes, into `place`; returns as `run_targets`."""
    running: list[_Job] = []
    done: list[str] = []
    failed: dict[str, Target] = {}
    teller = _Teller(pending, jobs)
    try:
        while pending or running:
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                if _finish(place, job):
                    done.append(job.target.identifier)
                else:
                    failed[job.target.identifier] = job.target
            for target in sorted(pending, key=lambda t: -t.seconds):
                refused = _refuse(options, target, failed)
                if refused:
                    tqdm.write(f"{target.identifier}: not run, because {refused}", sys.stderr)
                    failed[target.identifier] = target
                elif len(running) < jobs and _may_start(options, target, pending, running):
                    own = narrow_options(options, only, target.identifier)
                    parts = make_fingerprint(target.paper, target.name, place, own)
                    if explain_staleness(read_record(place, target.identifier), parts, place):
                        running.append(_start(root, place, own, target, parts))
                else:
                    continue
                pending.remove(target)
            teller.tell(pending, running)
            time.sleep(0.1)
    finally:
        for job in running:  # only after an interruption: nothing half-written may stay, and nothing may run on
            _kill(job)
        teller.close()
    return done, list(failed)


def _refuse(options: RunOptions, target: Target, failed: Mapping[str, Target]) -> str:
    """Why an artefact is not even started, "" where it may be."""
    if _asks(options, target) and any(_asks(options, other) for other in failed.values()):
        return "the model failed before; see above"
    lost = sorted(other.partition("/")[2] for other in target.reads & set(failed))
    return f"it reads {', '.join(lost)}, which failed" if lost else ""


def _may_start(options: RunOptions, target: Target, pending: Sequence[Target], running: Sequence[_Job]) -> bool:
    """Whether all that it reads is up to date, and the machine is free where it needs it alone."""
    at_work = [job.target for job in running]
    waits = {other.identifier for other in (*pending, *at_work)} & target.reads
    return not waits and not (_fills(options, target) and any(_fills(options, other) for other in at_work))


class _Teller:
    """One bar that tells the seconds left; where no one watches, a line every 30 seconds."""

    def __init__(self, pending: Sequence[Target], jobs: int) -> None:
        self._jobs, self._count, self._told = jobs, len(pending), time.monotonic()
        self._watched = sys.stderr.isatty()
        shape = "{desc}: {n_fmt}/{total_fmt}|{bar}| {postfix}"
        self._bar = tqdm(total=len(pending), desc="artefacts", bar_format=shape, disable=not self._watched)

    def tell(self, pending: Sequence[Target], running: Sequence[_Job]) -> None:
        """Show what is done, what is at work and about how long the rest takes."""
        if time.monotonic() - self._told < (0.5 if self._watched else _LINE_EVERY):
            return
        self._told = time.monotonic()
        left = [max(1.0, job.target.seconds - (self._told - job.started)) for job in running]
        waiting = [target.seconds for target in pending]
        seconds = max([sum(left + waiting) / self._jobs, *left, *waiting], default=0.0)
        ready = self._count - len(pending) - len(running)
        said = f"about {seconds:,.0f} s left; running: {', '.join(map(_describe_job, running)) or '-'}"
        if self._watched:
            self._bar.n = ready
            self._bar.set_postfix_str(said)
        else:
            print(f"{ready} of {self._count} artefacts, {said}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def _asks(options: RunOptions, target: Target) -> bool:
    """Whether it asks a language model."""
    return options.asks(target.artefact.roles)


def _fills(options: RunOptions, target: Target) -> bool:
    """Whether it runs one at a time with its like: those that ask share the journal, so that none pays for what another
    is asking, and a model in process, judge or evaluator, fills a device alone."""
    return options.fills_machine(target.artefact.roles)


def _describe_job(job: _Job) -> str:
    told = job.scratch / "progress.txt"
    progress = f", {told.read_text(encoding='utf-8')}" if told.is_file() else ""
    return f"{job.target.name} {time.monotonic() - job.started:.0f} s{progress}"


def _start(root: Path, place: Place, options: RunOptions, target: Target, parts: dict[str, str]) -> _Job:
    scratch = place.work / "scratch" / target.paper.paper / target.name
    scratch.mkdir(parents=True, exist_ok=True)
    notebook = root / "notebooks" / str(target.artefact.notebook)
    parameters = choose_parameters(target.paper, target.name, notebook, options, scratch)
    task = {
        "notebook": str(notebook),
        "output": str(scratch / "executed.ipynb"),
        "parameters": parameters,
        "cwd": str(root),
        "environment": {
            "NFQA_ROOT": str(root),
            "NFQA_CODE": hash_code(parts),
            "NFQA_PARAMETERS": json.dumps({k: v for k, v in parameters.items() if k not in ("artefact", "out")}),
            "NFQA_RESULTS": str(place.results),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            # Two notebooks at a time on two cores, sums in one order; but a model in process has the machine alone.
            "OMP_NUM_THREADS": str(os.cpu_count() or 1) if _fills(options, target) else "1",
            "NFQA_RUN": os.environ.setdefault("NFQA_RUN", f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"),
        },
        "parts": parts,
    }
    (scratch / "job.json").write_text(json.dumps(task), encoding="utf-8")
    log = (scratch / "log.txt").open("wb")
    command = [sys.executable, "-m", "nfqa.lab.execute", str(scratch / "job.json")]
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    log.close()
    return _Job(target, process, scratch, time.monotonic())


def _finish(place: Place, job: _Job) -> bool:
    """Move a finished job's files into place and record it; False, with the reason shown, if it failed."""
    target, executed = job.target, place.notebooks / job.target.paper.paper / f"{job.target.name}.ipynb"
    lines = (job.scratch / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    log = "\n".join(line for line in lines if not line.startswith("[IPKernelApp]")).strip()
    result = job.scratch / f"{target.name}.csv"
    if job.process.returncode != 0 or not result.is_file():
        reason = log if job.process.returncode else "it ended without writing a result; its last cell must be lab.write"
        tqdm.write(f"\n{target.identifier} FAILED; its last good result stays.\n{reason}\n", sys.stderr)
        return False
    task = json.loads((job.scratch / "job.json").read_text(encoding="utf-8"))
    outputs = {}
    for suffix, folder in (
        (".csv", place.results),
        (".json", place.results),
        (".png", place.figures),
        (".pdf", place.figures),
    ):
        made, kept = job.scratch / f"{target.name}{suffix}", folder / target.paper.paper / f"{target.name}{suffix}"
        if not made.is_file():
            kept.unlink(missing_ok=True)  # what the notebook no longer makes must not look as if it did
        else:
            with write_atomically(kept) as scratch:  # a copy, as results may lie on another disk than build
                shutil.copyfile(made, scratch)
            outputs[str(kept.relative_to(place.root))] = hash_file(kept)
    executed.parent.mkdir(parents=True, exist_ok=True)
    (job.scratch / "executed.ipynb").replace(executed)
    minutes = round((time.monotonic() - job.started) / 60, 3)
    usage = job.scratch / f"{target.name}.usage.json"
    record = {
        "parts": task["parts"],
        "outputs": outputs,
        "usage": json.loads(usage.read_text(encoding="utf-8")) if usage.is_file() else {},
        "minutes": minutes,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }
    with write_atomically(
        find_record(place, target.identifier)
    ) as scratch:  # last: a kill before it leaves the artefact stale
        scratch.write_text(json.dumps(record, indent=1, sort_keys=True), encoding="utf-8")
    return True


def _kill(job: _Job) -> None:
    """End a job: first so that it can shut its kernel down, which is in no group of ours, then by force."""
    job.process.terminate()
    try:
        job.process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(job.process.pid, signal.SIGKILL)
        job.process.wait()


def prepare_vectors(root: Path, options: RunOptions, datasets: Sequence[str], *, limit: int | None, **own: str) -> None:
    """Embed all texts of datasets, and of a user's file (`own`: answers, questions), on all cores and under one bar.

    Raises: ValueError where the embedder can't be used; the reason is on standard error.
    """
    embedder = options.find_role("embedder")
    request = {"datasets": datasets, "data": options.data, "embedder": embedder, "limit": limit, **own}
    command = [sys.executable, "-m", "nfqa.lab.execute", "vectors", json.dumps(request)]
    finished = subprocess.run(command, env=os.environ | {"NFQA_ROOT": str(root)}, check=False)
    if finished.returncode:
        raise ValueError("the texts could not be embedded; the message above says why")


@contextmanager
def _scratch(place: Place) -> Iterator[None]:
    """An empty scratch folder for the run, gone afterwards however the run ends."""
    folder = place.work / "scratch"
    shutil.rmtree(folder, ignore_errors=True)  # what a killed run left
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    path = root / "build" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError("another run is at work in this checkout; wait for it, or stop it first") from None
        yield
