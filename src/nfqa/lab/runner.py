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
from nfqa.lab.staleness import (
    QUICK_LIMIT,
    Record,
    choose_parameters,
    explain_staleness,
    hash_code,
    make_fingerprint,
    read_record,
    write_record,
)
from nfqa.lab.targets import Target, narrow_options


@dataclass
class _Job:
    target: Target
    process: subprocess.Popen[bytes]
    scratch: Path
    parts: dict[str, str]
    started: float


def reach_data(root: Path, targets: Sequence[Target]) -> list[str]:
    """Fetch what the targets read; returns a line for each file that could not be reached and is not optional.

    Raises: ValueError for a file with the wrong hash.
    """
    registry, artefacts = read_registry(root), [target.artefact for target in targets]
    names = dict.fromkeys(name for a in artefacts for name in (*a.datasets, *a.files, *a.needs_files))
    problems = []
    for file in (registry[name] for name in names):
        try:
            fetch_file(file, root / "build" / "data")
        except UnreachableError as error:
            if not (file.optional or file.local):
                problems.append(str(error))
    return problems


def run_targets(
    root: Path, options: RunOptions, targets: Sequence[Target], only: Sequence[str] = (), *, jobs: int = 2
) -> tuple[list[str], list[str]]:
    """Run what is stale; returns the identifiers of artefacts that were run and of those that failed.

    A target waits for those it reads. One that fails keeps its last good result, and what reads it is not run.
    """
    pending = [target for target in targets if target.stale]
    if not pending:
        return [], []
    place = options.find_place(root)
    with _hold(root, place.work / "scratch"):
        graded = {name for name, file in read_registry(root).items() if file.shape in GRADED}
        wanted = {d for t in pending if "embedder" in t.artefact.roles for d in t.artefact.datasets} & graded
        if wanted:
            prepare_vectors(root, options, sorted(wanted), limit=QUICK_LIMIT if options.profile == "quick" else None)
        return run_pending(place, options, only, pending, jobs=jobs)


def run_pending(
    place: Place, options: RunOptions, only: Sequence[str], pending: list[Target], *, jobs: int
) -> tuple[list[str], list[str]]:
    """Run targets in notebooks of their own, each when its turn comes, into `place`; returns as `run_targets`."""
    running: list[_Job] = []
    done: list[str] = []
    failed: dict[str, Target] = {}
    count = len(pending)
    bar = _open_bar(count)
    spent: list[tuple[float, float]] = []  # seconds that the finished were expected to take, and took
    try:
        while pending or running:
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                spent.append((job.target.seconds, time.monotonic() - job.started))
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
                        running.append(_start(place, own, target, parts))
                else:
                    continue
                pending.remove(target)
            bar.n = count - len(pending) - len(running)
            bar.set_postfix_str(_describe_rest(pending, running, spent, jobs), refresh=False)
            bar.update(0)  # shows it, if it is time to
            time.sleep(0.1)
    finally:
        for job in running:  # only after an interruption: nothing half-written may stay, and nothing may run on
            _kill(job)
        bar.close()
    return done, list(failed)


def _refuse(options: RunOptions, target: Target, failed: Mapping[str, Target]) -> str:
    """Why an artefact is not even started, "" where it may be."""
    if options.asks(target.artefact.roles) and any(options.asks(other.artefact.roles) for other in failed.values()):
        return "the model failed before; see above"
    lost = sorted(other.partition("/")[2] for other in target.reads & set(failed))
    return f"it reads {', '.join(lost)}, which failed" if lost else ""


def _may_start(options: RunOptions, target: Target, pending: Sequence[Target], running: Sequence[_Job]) -> bool:
    """Whether all that it reads is up to date, and no other is at work that fills the machine as it does.

    Those that ask a language model share the journal, so that none pays for what another is asking; a model in process
    fills a device alone.
    """
    at_work = [job.target for job in running]
    waits = {other.identifier for other in (*pending, *at_work)} & target.reads
    alone = options.fills_machine(target.artefact.roles)
    return not waits and not (alone and any(options.fills_machine(other.artefact.roles) for other in at_work))


def _open_bar(count: int) -> tqdm:
    """A bar; where no one watches, a line every 30 seconds."""
    shape, seconds = "{n_fmt} of {total_fmt} artefacts{postfix}\n", 30.0
    if sys.stderr.isatty():
        shape, seconds = "artefacts: {n_fmt}/{total_fmt}|{bar}|{postfix}", 0.5
    return tqdm(total=count, bar_format=shape, miniters=0, mininterval=seconds, delay=seconds)


def _describe_rest(
    pending: Sequence[Target], running: Sequence[_Job], spent: Sequence[tuple[float, float]], jobs: int
) -> str:
    """What is at work, and about how long it takes together with what waits, at the pace of what has run so far."""
    begun = [(job, time.monotonic() - job.started) for job in running]
    times = [*spent, *((min(job.target.seconds, elapsed), elapsed) for job, elapsed in begun)]
    expected, taken = map(sum, zip((1.0, 1.0), *times, strict=True))
    pace = taken / expected
    left = [max(1.0, pace * target.seconds) for target in pending]
    left += [max(1.0, pace * job.target.seconds - elapsed) for job, elapsed in begun]
    names = []
    for job, elapsed in begun:
        told = job.scratch / "progress.txt"
        progress = f", {told.read_text(encoding='utf-8')}" if told.is_file() else ""
        names.append(f"{job.target.name} {elapsed:.0f} s{progress}")
    seconds = max([sum(left) / jobs, *left], default=0.0)
    about = f"{seconds / 60:,.0f} min" if seconds > 90 else f"{seconds:,.0f} s"
    return f"about {about} left; running: {', '.join(names) or '-'}"


def _start(place: Place, options: RunOptions, target: Target, parts: dict[str, str]) -> _Job:
    root, scratch = place.root, place.work / "scratch" / target.paper.paper / target.name
    scratch.mkdir(parents=True, exist_ok=True)
    notebook = root / "notebooks" / str(target.artefact.notebook)
    parameters = choose_parameters(target.paper, target.name, notebook, options, scratch)
    size = options.say_size(parameters)
    if size:
        tqdm.write(f"{target.identifier}, {size}")
    task = {
        "runner": os.getpid(),
        "notebook": str(notebook),
        "output": str(scratch / "executed.ipynb"),
        "parameters": parameters,
        "cwd": str(root),
        "environment": {
            "NFQA_ROOT": str(root),
            "NFQA_CODE": hash_code(parts),
            "NFQA_PARAMETERS": json.dumps({k: v for k, v in parameters.items() if k not in ("artefact", "out")}),
            "NFQA_RESULTS": str(place.results),
            "NFQA_SIZE": size,
            "NFQA_TABLES": str(place.tables),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            # Two notebooks at a time on two cores, sums in one order; but a model in process has the machine alone.
            "OMP_NUM_THREADS": str(os.cpu_count() or 1) if options.fills_machine(target.artefact.roles) else "1",
            "NFQA_RUN": os.environ.setdefault("NFQA_RUN", f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"),
        },
    }
    (scratch / "job.json").write_text(json.dumps(task), encoding="utf-8")
    command = [sys.executable, "-m", "nfqa.lab.execute", str(scratch / "job.json")]
    with (scratch / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    return _Job(target, process, scratch, parts, time.monotonic())


def _finish(place: Place, job: _Job) -> bool:
    """Move a finished job's files into place and record it; False, with the reason shown, if it failed."""
    name, paper, identifier = job.target.name, job.target.paper.paper, job.target.identifier
    if job.process.returncode != 0 or not (job.scratch / f"{name}.csv").is_file():
        reason = "it ended without writing a result; its last cell must be lab.write"
        if job.process.returncode:
            lines = (job.scratch / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
            reason = "\n".join(line for line in lines if not line.startswith("[IPKernelApp]")).strip()
        tqdm.write(f"\n{identifier} FAILED; its last good result stays.\n{reason}\n", sys.stderr)
        return False
    from nfqa.lab.check import choose_replaced, lacks_files, list_files

    outputs, lacks = {}, lacks_files(place.root, job.target.artefact)
    replaced = choose_replaced(place, identifier, job.scratch / name, lacks=lacks)
    for suffix, kept in list_files(place, identifier).items():
        made = job.scratch / f"{name}{suffix}"
        if suffix in replaced and made.is_file():
            with write_atomically(kept) as scratch:  # a copy, as results may lie on another disk than build
                shutil.copyfile(made, scratch)
        elif suffix in replaced:
            kept.unlink(missing_ok=True)  # what the notebook no longer makes must not look as if it did
        if kept.is_file():
            outputs[str(kept.relative_to(place.root))] = hash_file(kept)
    with write_atomically(place.values / f"{identifier}.csv") as scratch:
        shutil.copyfile(job.scratch / f"{name}.csv", scratch)
    executed = place.notebooks / paper / f"{name}.ipynb"
    executed.parent.mkdir(parents=True, exist_ok=True)
    (job.scratch / "executed.ipynb").replace(executed)
    usage = job.scratch / f"{name}.usage.json"
    record = Record(
        parts=job.parts,
        outputs=outputs,
        usage=json.loads(usage.read_text(encoding="utf-8")) if usage.is_file() else {},
        minutes=round((time.monotonic() - job.started) / 60, 3),
        finished=time.strftime("%Y-%m-%dT%H:%M:%S"),
    )
    write_record(place, identifier, record)  # last: a kill before leaves the artefact stale
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
    command = [sys.executable, "-m", "nfqa.lab.execute", "vectors", json.dumps(request | {"runner": os.getpid()})]
    finished = subprocess.run(command, env=os.environ | {"NFQA_ROOT": str(root)}, check=False)
    if finished.returncode:
        raise ValueError("the texts could not be embedded; the message above says why")


@contextmanager
def _hold(root: Path, scratch: Path) -> Iterator[None]:
    """The checkout for this run alone, and an empty scratch folder, gone afterwards however the run ends."""
    path = root / "build" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError("another run is at work in this checkout; wait for it, or stop it first") from None
        shutil.rmtree(scratch, ignore_errors=True)  # what a killed run left
        try:
            yield
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
