"""Scoring a user's own file from the command line: the notebook run headless, its files put where they are found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nfqa.data.own_answers import bring_file
from nfqa.data.paths import write_atomically
from nfqa.data.records import QuestionSet
from nfqa.data.registry import UnreachableError
from nfqa.lab.artefacts import Paper, find_artefact, find_title, read_papers
from nfqa.lab.options import RunOptions
from nfqa.lab.results import Result, read_result
from nfqa.lab.runner import reach_data
from nfqa.lab.staleness import choose_parameters, hash_code, make_fingerprint
from nfqa.lab.targets import list_targets
from nfqa.models.roles import DEFAULTS

_OUTPUTS = ("scores.csv", "scores.json")
_WAIT = 0.5  # seconds between looks at how far it is
_LINE_EVERY = 30  # seconds between lines where no one watches


def score_file(root: Path, options: RunOptions, identifier: str, path: Path, questions: Path | None = None) -> int:
    """Score a file of answers into build/scores/STEM/, or STEM-VARIANT where roles or parameters are overridden.

    `questions` is the file of the questions where `path` holds answers in the released scripts' format.

    Returns: 0, or 1 when the notebook failed, with the reason on standard error; what lay there before stays then.
    Raises: ValueError for a file, role or parameter that is wrong, before anything is computed.
    """
    own = bring_file(path, questions)
    find_artefact(papers := read_papers(root), identifier)
    paper, name = papers[identifier.partition("/")[0]], identifier.partition("/")[2]
    folder = root / "build" / "scores" / "-".join(part for part in (path.stem, options.variant) if part)
    named = {"answers": path, "questions": questions}
    given = {key: str(file.resolve()) for key, file in named.items() if file}
    chosen = replace(options, parameters=options.parameters | given)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new."))
    try:
        task = _make_task(root, paper, name, chosen, scratch)
        print(f"{path}: {len(own.answers):,} answers to {len(own.questions):,} questions", flush=True)
        _say_plan(root, identifier, chosen)
        _prepare(root, identifier, chosen, given, trains=any(question.references for question in own.questions))
        failed = _run(task, scratch, len(own.questions))
        if failed:
            print(f"\n{path} could not be scored.\n{failed}", file=sys.stderr)
            return 1
        result = read_result(scratch / f"{name}.json")
        _move(scratch, folder, name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(*_make_table(paper, own, result), sep="\n")
    print(f"\nin {_shorten(folder, root)}/: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    return 0


def _make_task(root: Path, paper: Paper, name: str, options: RunOptions, scratch: Path) -> dict[str, object]:
    notebook = root / "notebooks" / str(paper.artefacts[name].notebook)
    parts = make_fingerprint(paper, name, options.find_place(root), options)
    environment = {
        "NFQA_ROOT": str(root),
        "NFQA_CODE": hash_code(parts),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "NFQA_RUN": time.strftime("%Y%m%dT%H%M%S"),
    }
    parameters = choose_parameters(paper, name, notebook, options, scratch)
    output = str(scratch / f"{name}.ipynb")
    return {
        "notebook": str(notebook), "output": output, "parameters": parameters, "cwd": str(root),
        "environment": environment,
    }  # fmt: skip


def _say_plan(root: Path, identifier: str, options: RunOptions) -> None:
    """What a language model would be asked, before it is."""
    targets = [target for target in list_targets(root, options, [identifier]) if target.identifier == identifier]
    if any(options.asks(target.artefact.roles) for target in targets):
        from nfqa.lab.plan import describe_plan, plan_targets

        try:
            plans = list(plan_targets(root, targets, options))
        except UnreachableError as error:  # the released prompts
            raise ValueError(f"{error}; or use PROMPTS=own") from None
        print(*(describe_plan(plan) for plan in plans), sep="\n", flush=True)


def _prepare(root: Path, identifier: str, options: RunOptions, given: dict[str, str], *, trains: bool) -> None:
    """Vectors of all texts, under a bar. What the trained judge learns from may be out of reach: then it's left out.

    `trains`: whether it has references to place an answer among, without which it isn't trained.
    """
    artefact = read_papers(root)[identifier.partition("/")[0]].artefacts[identifier.partition("/")[2]]
    datasets = list(artefact.datasets) if trains else []
    if options.data == "full" and trains:
        problems = reach_data(root, list_targets(root, options, [identifier]))
        for line in problems:
            print(f"left out, as its data can't be reached: the trained judge. {line}", file=sys.stderr, flush=True)
        datasets = [] if problems else datasets
    embedder = options.roles.get("embedder", DEFAULTS["embedder"])
    request = {"datasets": datasets, "data": options.data, "embedder": embedder, "limit": None, **given}
    command = [sys.executable, "-m", "nfqa.lab.prepare", json.dumps(request)]
    finished = subprocess.run(command, env=os.environ | {"NFQA_ROOT": str(root)}, check=False)
    if finished.returncode:
        raise ValueError("the texts could not be embedded; the message above says why")


def _run(task: dict[str, object], scratch: Path, questions: int) -> str:
    """Run the notebook, saying how far it is; returns why it failed, or ""."""
    job, log = scratch / "job.json", scratch / "log.txt"
    job.write_text(json.dumps(task), encoding="utf-8")
    with log.open("wb") as handle:
        command = [sys.executable, "-m", "nfqa.lab.execute", str(job)]
        process = subprocess.Popen(command, stdout=handle, stderr=subprocess.STDOUT, start_new_session=True)
    started, said, watched = time.monotonic(), 0.0, sys.stderr.isatty()
    try:
        while process.poll() is None:
            seconds = time.monotonic() - started
            told = scratch / "progress.txt"
            progress = f", {told.read_text(encoding='utf-8')}" if told.is_file() else ""
            if watched or seconds - said > _LINE_EVERY:
                line = f"scoring {questions:,} questions: {seconds:.0f} s{progress}"
                print(f"\r{line:<78}" if watched else line, end="" if watched else "\n", file=sys.stderr, flush=True)
                said = seconds
            time.sleep(_WAIT)
    finally:
        if process.poll() is None:  # interrupted: it ends its kernel, and dies with this process if it doesn't
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
        if watched:
            print(file=sys.stderr)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said_by_it = "\n".join(line for line in lines if not line.startswith("[IPKernelApp]")).strip()
    return said_by_it or "it ended without a word" if process.returncode else ""


def _move(scratch: Path, folder: Path, name: str) -> None:
    for file in (*_OUTPUTS, *(f"{name}{suffix}" for suffix in (".json", ".png", ".pdf", ".ipynb"))):
        with write_atomically(folder / file) as target:
            shutil.copyfile(scratch / file, target)


def _make_table(paper: Paper, own: QuestionSet, result: Result) -> Sequence[str]:
    """A line a method: its means on the 0-10 scale, of all answers and of each system's."""
    from nfqa.lab.experiments.own_answers import name_systems

    columns = {"all answers": "mean_ten"} | {n: f"mean_ten_{slug}" for n, slug in name_systems(own).items()}
    found = {(row.system, row.metric): row.value for row in result.rows}
    widths = {title: max(len(title), 6) for title in columns}
    lines = ["", f"{'mean, 0 (worst) to 10 (best)':36}" + "".join(f"  {t:>{widths[t]}}" for t in columns)]
    for method in dict.fromkeys(row.system for row in result.rows):
        values = {title: found.get((method, metric)) for title, metric in columns.items()}
        cells = "".join(f"  {'–' if v is None else f'{v:.2f}':>{widths[t]}}" for t, v in values.items())
        lines.append(f"{find_title(paper, method):36}{cells}")
    reasons = Counter(each.reason for each in own.excluded)
    left_out = (
        [f"Left out: {', '.join(f'{reason} ({n})' for reason, n in sorted(reasons.items()))}."] if reasons else []
    )
    return [*lines, "", *result.findings, *left_out]


def _shorten(path: Path, root: Path) -> str:
    return str(path.relative_to(root))
