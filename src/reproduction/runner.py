"""Bring artefacts up to date: write the keys of what is stale, let Make run its notebooks, say what came of it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
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


def reach_data(root: Path, artefacts: Sequence[Artefact], options: RunOptions) -> list[str]:
    """Fetch what artefacts read in a run; returns a line for each file that could not be reached and is not local.

    Raises: ValueError for a file with the wrong hash.
    """
    problems, parameters = [], options.parameters | {"questions": options.questions}
    names = [name for a in artefacts for name in (*list_data(root, a, parameters), *a.files)]
    for name in dict.fromkeys(names):
        file = read_registry(root)[name]
        try:
            fetch_file(file, root / "build" / "data")
        except UnreachableError as error:
            if not file.local:
                problems.append(str(error))
    return problems


def run_targets(root: Path, options: RunOptions, targets: Sequence[Target], *, jobs: int = 2) -> list[str]:
    """Run what is stale, `jobs` notebooks at a time; returns the identifiers of those that failed.

    A target waits for those it reads. One that fails keeps its last good result, and what reads it is not run.
    """
    pending = sorted((target for target in targets if target.stale), key=lambda target: -target.seconds)
    if not pending:
        return []
    place = options.find_place(root)
    with hold_scratch(place.work / "scratch", root / "build" / "lock"):
        minutes = sum(target.seconds for target in pending if target.seconds < inf) / jobs / 60
        count = f"{len(pending)} artefact{'s' * (len(pending) > 1)} to run"
        print(f"{count}, {jobs} at a time; about {minutes:.1f} min as they last took", flush=True)
        graded = {name for name, file in read_registry(root).items() if file.shape in GRADED}
        wanted = {d for t in pending if "embedder" in t.artefact.roles for d in t.artefact.datasets} & graded
        if wanted:
            prepare_vectors(root, options, sorted(wanted), limit=QUICK_LIMIT if options.profile == "quick" else None)
        write_keys(place, pending)
        return run_make(place, pending, jobs=jobs)


def write_keys(place: Place, pending: Sequence[Target]) -> None:
    """Write the key of each target, and which of them read which, for the Makefile."""
    names = {target.identifier for target in pending}
    runs = place.runs.relative_to(place.root)
    lines = [f"MADE := {' '.join(f'{runs}/{target.identifier}.json' for target in pending)}"]
    for target, key in ((target, target.key) for target in pending if target.key):
        if key.size:
            print(f"{target.identifier}, {key.size}")
        write_text(place.work / "keys" / f"{target.identifier}.json", key.model_dump_json(indent=1))
        with suppress(FileNotFoundError):  # Make goes by times: the record must be older than its key
            os.utime(place.runs / f"{target.identifier}.json", (0, 0))
        lines += [f"{runs}/{target.identifier}.json: {runs}/{name}.json" for name in sorted(target.reads & names)]
    write_text(place.work / "keys" / "pending.mk", "\n".join(lines) + "\n")


def run_make(place: Place, pending: Sequence[Target], *, jobs: int) -> list[str]:
    """Let Make bring the records of targets up to date with their keys; returns the identifiers that failed."""
    scratch, waiting, failed = place.work / "scratch", {target.identifier: target for target in pending}, []
    os.environ.setdefault("NFQA_RUN", f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}")
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"}
    run = f"RUN={shlex.quote(sys.executable)} -m reproduction".replace("$", "$$")
    words = ["make", "-k", f"-j{jobs}", run, f"WORK={place.work.relative_to(place.root)}", "made"]
    log = scratch / "make.log"
    with log.open("w") as file, open_bar(pending) as bar:
        process = subprocess.Popen(words, cwd=place.root, env=environment, stdout=file, stderr=file)
        try:
            while waiting:
                ended = process.poll() is not None
                for name, target in list(waiting.items()):
                    failure = find_outcome(place, target, ended=ended)
                    if failure is not None:
                        bar.update(expect(waiting.pop(name)))
                    if failure:
                        failed.append(name)
                        tqdm.write(f"\n{name} FAILED; its last good result stays.\n{failure}\n", sys.stderr)
                bar.set_description_str(describe_running(scratch, waiting), refresh=False)
                bar.update(0)  # shows it, if it is time to
                time.sleep(0 if ended else 0.2)
            process.wait()
        finally:
            end_processes(RUN)  # after an interruption
    if process.returncode and not failed:
        raise ValueError(f"make failed: {log.read_text(errors='replace').strip()}")
    return failed


def find_outcome(place: Place, target: Target, *, ended: bool) -> str | None:
    """Why a target failed, "" if it was made, None while it waits or runs."""
    key, record = (folder / f"{target.identifier}.json" for folder in (place.work / "keys", place.runs))
    if record.is_file() and record.stat().st_mtime_ns >= key.stat().st_mtime_ns:
        return ""
    log = place.work / "scratch" / f"{target.identifier}.failed"
    if log.is_file():
        lines = log.read_text(errors="replace").splitlines()
        message = "\n".join(line for line in lines if not line.startswith("[IPKernelApp]"))
        return message[-_LONGEST:] or "its process was killed, for want of memory perhaps"
    if not ended:
        return None
    reads = " and ".join(sorted(target.reads))
    return f"not run, because it reads {reads}, which failed" if reads else "it was stopped before it ended"


def expect(target: Target) -> float:
    """The seconds that an artefact is taken to need: as last time, or as its entry says; a minute where unknown."""
    return target.seconds if target.seconds < inf else 60.0


def describe_running(scratch: Path, names: Iterable[str]) -> str:
    """The notebooks at work, and the progress of a batch of requests to a model, as `reproduction.roles` notes it."""
    running = [name for name in names if (scratch / name).is_dir()]
    notes = {name: scratch / name / "progress.txt" for name in running}
    parts = ([Path(name).name, note.read_text() if note.is_file() else ""] for name, note in notes.items())
    return ", ".join(" ".join(filter(None, part)) for part in parts)


def open_bar(targets: Sequence[Target]) -> tqdm:
    """A bar of the seconds that artefacts are taken to need; where no one watches, a line every 30 seconds."""
    shape, seconds = "{percentage:.0f} % after {elapsed}, {remaining} left: {desc}\n", 30.0
    if sys.stderr.isatty():
        shape, seconds = "{percentage:3.0f}%|{bar}| {elapsed}, {remaining} left: {desc}", 0.5
    total = sum(map(expect, targets))
    return tqdm(total=total, bar_format=shape, miniters=0, mininterval=seconds, delay=min(seconds, 2))


def prepare_vectors(root: Path, options: RunOptions, datasets: Sequence[str], *, limit: int | None) -> None:
    """Embed all texts of datasets, on all cores and under one bar.

    Raises: ValueError where the embedder can't be used.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from nfqa.models.embed import Embedder
    from reproduction.data.load import load
    from reproduction.place import find_cache

    sets = [load(name, data=options.data, limit=limit, root=root) for name in datasets]
    texts = [text for dataset in sets for text in dataset.texts()]
    Embedder(options.find_role("embedder"), find_cache(root, "embeddings"), progress=True).prepare(texts)


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
