"""Bring artefacts up to date: decide by hash, run notebooks side by side, move results into place on success only."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from math import inf
from pathlib import Path
from threading import Lock

from tqdm import tqdm

from nfqa.files.json_lines import read_json
from nfqa.files.paths import Place, hash_file, lock_file, write_atomically
from nfqa.interruption import MARK, RUN, end_processes
from reproduction.data.load import GRADED
from reproduction.data.registry import UnreachableError, fetch_file, read_registry
from reproduction.fingerprint import (
    QUICK_LIMIT,
    Record,
    Target,
    choose_parameters,
    explain_staleness,
    make_fingerprint,
    read_record,
    write_record,
)
from reproduction.options import RunOptions
from reproduction.progress import read_progress


def reach_data(root: Path, targets: Sequence[Target]) -> list[str]:
    """Fetch what the targets read; returns a line for each file that could not be reached and is not optional.

    Raises: ValueError for a file with the wrong hash.
    """
    artefacts, problems = [target.artefact for target in targets], []
    for name in dict.fromkeys(name for a in artefacts for name in (*a.datasets, *a.files, *a.needs_files)):
        file = read_registry(root)[name]
        try:
            fetch_file(file, root / "build" / "data")
        except UnreachableError as error:
            if not (file.optional or file.local):
                problems.append(str(error))
    return problems


def run_targets(
    root: Path, options: RunOptions, targets: Sequence[Target], *, jobs: int = 2
) -> tuple[list[str], list[str]]:
    """Run what is stale; returns the identifiers of artefacts that were run and of those that failed.

    A target waits for those it reads. One that fails keeps its last good result, and what reads it is not run.
    """
    pending = [target for target in targets if target.stale]
    if not pending:
        return [], []
    place = options.find_place(root)
    held = "another run is at work in this checkout; wait for it, or stop it first"
    with hold_scratch(place.work / "scratch", root / "build" / "lock", held):
        known = sum(target.seconds for target in pending if target.seconds < inf) / jobs
        count = f"{len(pending)} artefact{'s' * (len(pending) > 1)} to run"
        print(f"{count}, {jobs} at a time; about {known / 60:.1f} min as they last took", flush=True)
        graded = {name for name, file in read_registry(root).items() if file.shape in GRADED}
        wanted = {d for t in pending if "embedder" in t.artefact.roles for d in t.artefact.datasets} & graded
        if wanted:
            prepare_vectors(root, options, sorted(wanted), limit=QUICK_LIMIT if options.profile == "quick" else None)
        return run_pending(place, pending, jobs=jobs)


def run_pending(place: Place, pending: Sequence[Target], *, jobs: int) -> tuple[list[str], list[str]]:
    """Run targets in notebooks of their own, the longest first, into `place`; returns as `run_targets`.

    A language model is asked by one notebook at a time: verdicts that two share are paid once, and a model in process
    fills a device alone. Once asking has failed, no other notebook asks.
    """
    names, alone = {target.identifier for target in pending}, Lock()
    futures, failed = dict[str, Future[bool]](), list[Target]()

    def run(target: Target) -> bool:
        for name in sorted(target.reads & names):  # submitted before it
            if futures[name].exception():
                raise FailedError(f"not run, because it reads {name}, which failed")
        with alone if target.fills_machine else nullcontext():
            if target.asks and any(other.asks for other in failed):
                raise FailedError("not run, because the model failed before; see above")
            return run_target(place, target)

    readers_last = sorted(pending, key=lambda target: 1 if target.reads & names else -target.seconds)
    waiting = {target.identifier: target for target in readers_last}
    with ThreadPoolExecutor(jobs) as pool, open_bar(pending) as bar:
        try:
            for name, target in waiting.items():
                futures[name] = pool.submit(run, target)
            while waiting:
                for future in wait([futures[name] for name in waiting], timeout=0.5, return_when=FIRST_COMPLETED).done:
                    target = waiting.pop(next(name for name in waiting if futures[name] is future))
                    bar.update(expect(target))
                    if isinstance(error := future.exception(), FailedError):
                        failed.append(target)
                        tqdm.write(f"\n{target.identifier} FAILED; its last good result stays.\n{error}\n", sys.stderr)
                running = [name for name in waiting if futures[name].running()]
                bar.set_description_str(describe_running(place, running), refresh=False)
                bar.update(0)  # shows it, if it is time to
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while any(future.running() for future in futures.values()):  # after an interruption alone
                end_processes(RUN)
                time.sleep(0.1)
    lost = [target.identifier for target in failed]
    return [name for name, future in futures.items() if name not in lost and future.result()], lost


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


class FailedError(Exception):
    """A notebook that gave no result; the message says why."""


def run_target(place: Place, target: Target) -> bool:
    """Run a target's notebook and move what it wrote into place; False if it proves fresh and isn't run.

    Raises: FailedError where the notebook fails or writes no result; the last one stays.
    """
    from reproduction.check import list_files

    # jsonschema, behind papermill, takes up to 2 s to compile a grammar of IRIs, a format that no notebook has; it does
    # without what can't be imported.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    from reproduction.execute import execute_notebook

    started, name, identifier, options = time.monotonic(), target.name, target.identifier, target.options
    parts = make_fingerprint(target.paper, name, place, options)
    if not explain_staleness(read_record(place, identifier), parts, place):
        return False
    scratch, notebook = place.work / "scratch" / identifier, target.artefact.path
    scratch.mkdir(parents=True, exist_ok=True)
    parameters = choose_parameters(target.paper, name, options, scratch)
    size = options.say_size(parameters)
    if size:
        tqdm.write(f"{identifier}, {size}")
    given = {"parameters": parameters, "size": size, "results": str(place.results), "tables": str(place.tables)}
    environment = os.environ | {
        MARK: f"{RUN}{identifier}/",
        "NFQA_GIVEN": json.dumps(given),  # for the lab, which a notebook hands a part of its parameters
        "NFQA_RUN": os.environ.setdefault("NFQA_RUN", f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # Two notebooks at a time on two cores, sums in one order; but a model in process has the machine alone.
        "OMP_NUM_THREADS": str(os.cpu_count() or 1) if target.fills_machine else "1",
        # tqdm.auto, which transformers imports, misses widgets that nothing here uses
        "PYTHONWARNINGS": ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore:IProgress not found"])),
    }
    try:
        failure = execute_notebook(notebook, scratch / "executed.ipynb", parameters, environment, place.root)
    finally:
        end_processes(environment[MARK])  # what the notebook started ends with it
    if not failure and not (scratch / f"{name}.csv").is_file():
        failure = "it ended without writing a result; its last cell must be lab.write"
    if failure:
        raise FailedError(failure)
    files = list_files(place.work, identifier)
    for suffix, file in files.items():
        if (scratch / f"{name}{suffix}").is_file():
            copy_file(scratch / f"{name}{suffix}", file)
        else:
            file.unlink(missing_ok=True)  # what the notebook no longer makes must not look as if it did
    copy_file(scratch / "executed.ipynb", place.notebooks / f"{identifier}.ipynb")
    outputs = {str(kept.relative_to(place.root)): hash_file(kept) for kept in files.values() if kept.is_file()}
    usage, minutes = scratch / f"{name}.usage.json", round((time.monotonic() - started) / 60, 3)
    missing = read_json(usage)["missing"] if usage.is_file() else {}
    record = Record(parts=parts, outputs=outputs, missing=missing, minutes=minutes)
    write_record(place, identifier, record)  # last: a kill before leaves the artefact stale
    return True


def copy_file(made: Path, kept: Path) -> None:
    """Put a file in place whole; a copy, as results may lie on another disk than build."""
    with write_atomically(kept) as scratch:
        shutil.copyfile(made, scratch)


def prepare_vectors(root: Path, options: RunOptions, datasets: Sequence[str], *, limit: int | None) -> None:
    """Embed all texts of datasets, on all cores and under one bar.

    Raises: ValueError where the embedder can't be used.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from nfqa.files.paths import find_cache
    from nfqa.models.embed import Embedder
    from reproduction.data.load import load

    sets = [load(name, data=options.data, limit=limit, root=root) for name in datasets]
    texts = [text for dataset in sets for text in dataset.texts()]
    Embedder(options.find_role("embedder"), find_cache(root, "embeddings"), progress=True).prepare(texts)


@contextmanager
def hold_scratch(scratch: Path, lock: Path, held: str) -> Iterator[None]:
    """An empty scratch folder for this run alone, gone afterwards however the run ends.

    Raises: ValueError, saying `held`, where another run holds the file `lock`.
    """
    with lock_file(lock, held):
        shutil.rmtree(scratch, ignore_errors=True)  # what a killed run left
        try:
            yield
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
