"""Bring artefacts up to date: run the notebooks of what is stale, several at a time, and say what
came of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from graphlib import TopologicalSorter
from pathlib import Path
from threading import Lock

from nfqa.files.json_lines import read_json
from nfqa.files.paths import copy_file, hash_file, lock_file, write_text
from reproduction.check import list_files
from reproduction.data.load import GRADED
from reproduction.data.registry import UnreachableError, fetch_file, read_registry
from reproduction.execute import end_with_kernels, execute_notebook
from reproduction.keys import QUICK_LIMIT, Record, Target, explain_staleness, hash_results, list_data
from reproduction.options import RunOptions
from reproduction.papers import Artefact
from reproduction.place import Place

_PAUSE = 30.0  # seconds without news after which a run says what it is at


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

    A target waits for those it reads. One that fails keeps its last good result, and what reads it
    is not run.
    """
    pending = {target.identifier: target for target in targets if target.stale}
    if not pending:
        return []
    place = options.find_place(root)
    with hold_scratch(place.work / "scratch", root / "build" / "lock"):
        print(f"{len(pending)} artefact{'s' * (len(pending) > 1)} to run, {jobs} at a time", flush=True)
        prepare_vectors(root, options, pending.values())
        return Run(place, pending, jobs).run()


class Run:
    """A run of targets by their identifiers: each notebook in a kernel of its own, `jobs` of them
    at a time.
    """

    def __init__(self, place: Place, targets: Mapping[str, Target], jobs: int) -> None:
        self.place = place
        self.targets = targets
        self.jobs = jobs
        self.scratch = place.work / "scratch"
        self.run_id = os.environ.get("NFQA_RUN") or f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
        self._model = Lock()  # held by the one notebook that asks a language model, or fills the machine
        self._asking_failed = False

    def run(self) -> list[str]:
        """Run all notebooks, each once what it reads is made; returns the identifiers of those that
        were not made.
        """
        sorter = TopologicalSorter({name: target.reads & self.targets.keys() for name, target in self.targets.items()})
        sorter.prepare()
        running: dict[Future[str], str] = {}
        finished: list[str] = []
        failed: list[str] = []
        with end_with_kernels(ThreadPoolExecutor(self.jobs)) as pool:
            while True:
                for name in sorted(sorter.get_ready(), key=lambda name: -self.targets[name].minutes):
                    running[pool.submit(self.make_artefact, self.targets[name])] = name
                if not running:
                    break
                ended, _ = wait(running, _PAUSE, FIRST_COMPLETED)
                if not ended:
                    print(f"running: {self.describe(running)}", flush=True)
                for future in ended:
                    name = running.pop(future)
                    failure = future.result()
                    if failure:
                        failed.append(name)
                        print(f"\n{name} FAILED; its last good result stays.\n{failure}\n", file=sys.stderr)
                    else:
                        finished.append(name)
                        sorter.done(name)
                        print(f"{len(finished)} of {len(self.targets)}: {name}", flush=True)
        for name in [name for name in self.targets if name not in {*finished, *failed}]:
            failed.append(name)
            print(f"{name} not run, because an artefact that it reads failed", file=sys.stderr)
        return failed

    def describe(self, running: Mapping[Future[str], str]) -> str:
        """The notebooks at work, each with the progress of its batch of requests, as
        `notebook_roles` notes it.
        """
        parts = []
        for name in (name for future, name in running.items() if future.running()):
            progress = ""
            with suppress(FileNotFoundError):
                progress = (self.scratch / name / "progress.txt").read_text()
            parts.append(f"{name} {progress}".strip())
        return ", ".join(parts)

    def make_artefact(self, target: Target) -> str:
        """Run an artefact's notebook and move what it made into place; returns why it failed, "" on
        success.

        A language model is asked by one notebook at a time: verdicts that two share are paid once,
        and a model in process fills a device alone. Once asking has failed, no other notebook of
        the run asks.
        """
        key = target.key
        parts = key.parts | hash_results(self.place, target.paper, target.name)  # perhaps made just now
        if target.record and not explain_staleness(target.record, parts, self.place):
            return ""  # what it reads came out the same
        scratch = self.scratch / target.identifier
        scratch.mkdir(parents=True)
        context = {"parameters": key.parameters, "size": key.size, "work": str(self.place.work)}
        environment = {"NFQA_GIVEN": json.dumps(context), "NFQA_RUN": self.run_id}
        if key.fills_machine:
            environment["OMP_NUM_THREADS"] = str(os.cpu_count() or 1)
        with self._model if key.fills_machine else nullcontext():
            if key.asks and self._asking_failed:
                return "not run, because the model failed before; see above"
            began = time.monotonic()
            failure = execute_notebook(
                target.artefact.path, scratch / "executed.ipynb", key.parameters, self.place.root,
                environment=environment, with_answer=self.place.is_full and target.is_main,
            )  # fmt: skip
            self._asking_failed |= bool(failure) and key.asks
        if not failure and not (scratch / f"{target.name}.csv").is_file():
            failure = "it ended without writing a result; its last cell must be lab.write"
        if not failure:
            keep_result(self.place, target, scratch, (time.monotonic() - began) / 60)
        return failure


def keep_result(place: Place, target: Target, scratch: Path, minutes: float) -> None:
    """Move what a notebook made into place, then note what it was made from; before that, the
    artefact is stale.
    """
    files = {f"{target.name}{ending}": path for ending, path in list_files(place.work, target.identifier).items()}
    files |= {"executed.ipynb": place.notebooks / f"{target.identifier}.ipynb"}
    for source, file in files.items():
        if (scratch / source).is_file():
            copy_file(scratch / source, file)
        else:
            file.unlink(missing_ok=True)  # what the notebook no longer makes must not look as if it did
    usage = scratch / f"{target.name}.usage.json"
    record = Record(
        parts=target.key.parts | hash_results(place, target.paper, target.name),  # perhaps made just now
        outputs={str(file.relative_to(place.root)): hash_file(file) for file in files.values() if file.is_file()},
        missing=read_json(usage)["missing"] if usage.is_file() else {},
        minutes=round(minutes, 3),
    )
    write_text(place.runs / f"{target.identifier}.json", record.model_dump_json(indent=1))


def prepare_vectors(root: Path, options: RunOptions, targets: Collection[Target]) -> None:
    """Embed all texts of the datasets that notebooks with an embedder load, on all cores.

    Raises: ValueError where the embedder can't be used.
    """
    graded = {name for name, file in read_registry(root).items() if file.shape in GRADED}
    names = {name for each in targets if "embedder" in each.artefact.roles for name in each.artefact.datasets} & graded
    if not names:
        return
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from nfqa.models.embed import Embedder
    from nfqa.opening import show_bar
    from reproduction.data.load import load
    from reproduction.place import find_cache

    limit = QUICK_LIMIT if options.profile == "quick" else None
    sets = [load(name, data=options.data, limit=limit, root=root) for name in sorted(names)]
    texts = [text for dataset in sets for text in dataset.texts()]
    show = show_bar(" characters embedded", shown=True)
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
