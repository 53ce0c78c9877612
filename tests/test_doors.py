"""Every door as a user types it, on the smallest input of each kind by itself; notebooks run in this process."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import FIRST, PROJECT, Checkout, commit_all, copy_project
from notebook_cells import run_here
from PIL import Image
from stub_server import StubServer
from test_runner import WAITS, list_litter, list_processes, wait_until

from nfqa.files.paths import lock_file
from nfqa.interruption import MESSAGE
from reproduction import execute, replay, runner
from reproduction import open as lab_open
from reproduction.options import RunOptions
from reproduction.papers import list_chosen, read_papers

WHY = {"question": "Why is the sky blue?", "references": ["Air scatters short waves more.", "It mirrors the sea."]}
WHETHER = {"question": "Should pupils wear uniforms?", "partial_answers": ["They make all equal.", "They limit us."]}
TWO = [{"system": "a", "text": "Air scatters short waves, some say."}, {"system": "b", "text": "It is the sea."}]


def ask(*questions: dict[str, Any], answers: list[Any] = TWO) -> list[dict[str, Any]]:
    return [{**question, "answers": answers} for question in questions]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout on the sample, committed, whose notebooks run in this process."""
    root = tmp_path_factory.mktemp("doors") / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models", "results", "figures")
    shutil.copy(PROJECT / ".gitignore", root)
    made = Checkout(root)
    made.environment |= {"DATA": "sample", "PROFILE": "quick", "NFQA_MIRROR": "/nowhere", "JOBS": "1"}
    commit_all(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "execute_notebook", run_here)
        patch.setattr(runner, "execute_notebook", run_here)
        yield made


def list_changed(root: Path) -> str:
    return subprocess.run(["git", "status", "--short"], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (ask(WHY), "needs views"),
        (ask(WHETHER), "needs references"),
        (ask(WHY | WHETHER, answers=["Short waves.", "The sea, I say."]), "LINKAGE, embedded judge"),
    ],
    ids=["references", "views", "no systems"],
)
def test_a_file_of_each_kind_is_scored_with_a_report(place: Checkout, tmp_path, lines, words) -> None:
    (tmp_path / "my.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = place.run("score", str(tmp_path / "my.jsonl"), "--out", str(tmp_path / "scores"), DATA="", PROFILE="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert words in done.stdout
    assert "report.ipynb" in done.stdout
    made = {path.name for path in (tmp_path / "scores").iterdir()}
    assert {"parts", "scores.csv", "summary.csv", "report.ipynb", "use_your_own_answers.png"} <= made
    columns = pd.read_csv(tmp_path / "scores" / "scores.csv").dropna(subset="score")
    assert columns.question_text.notna().all()


def test_scoring_refuses_what_would_change_nothing(place: Checkout, tmp_path) -> None:
    (tmp_path / "my.jsonl").write_text(json.dumps(ask(WHY)[0]))
    done = place.run("score", str(tmp_path / "my.jsonl"), PROFILE="quick", DATA="")
    assert (done.returncode, done.stderr) == (2, "error: PROFILE has no effect on scoring a file; unset it\n")


def test_the_released_format_is_scored(place: Checkout, tmp_path) -> None:
    texts = {1: "Some say that they make pupils equal.", 2: " ", 9: "It is an answer to no question."}
    lines = [json.dumps({"id": name, "generation": text}) for name, text in texts.items()]
    (tmp_path / "generations.jsonl").write_text("\n".join(lines))
    points = [{"point_of_view": text, "explanation": "So."} for text in WHETHER["partial_answers"]]
    texts_of = {1: WHETHER["question"], 2: "Should homework be banned?", 3: "Should zoos close?"}
    lines = [json.dumps({"id": name, "question": text, "partial_answers": points}) for name, text in texts_of.items()]
    (tmp_path / "test.jsonl").write_text("\n".join(lines))
    words = ["score", str(tmp_path / "generations.jsonl"), "--questions", str(tmp_path / "test.jsonl"), "--methods=da"]
    done = place.run(*words, "--out", str(tmp_path / "out"), DATA="", PROFILE="")
    assert done.returncode == 0, done.stdout + done.stderr
    for reason in ("answers_to_unknown_questions 1", "empty_answers 1", "questions_without_answer 1"):
        assert reason in done.stdout
    assert place.run(*words, "--out", str(tmp_path / "out"), DATA="", PROFILE="").returncode == 0  # resumes
    report = tmp_path / "out" / "report.ipynb"
    report.write_text("with a user's notes")
    done = place.run(*words, "--out", str(tmp_path / "out"), DATA="", PROFILE="")
    assert (done.returncode, report.read_text()) == (2, "with a user's notes")
    assert "report.ipynb: was edited" in done.stderr
    (tmp_path / "generations.jsonl").write_text('{"id": 1, "generation": "So."}\n{"id": "1", "generation": "Thus."}')
    done = place.run(*words, DATA="", PROFILE="")
    assert (done.returncode, "line 2: id is that of line 1" in done.stderr) == (2, True), done.stderr


def test_a_quick_run_changes_nothing_committed_and_is_checked_reported_and_drawn(place: Checkout) -> None:
    for command, words in (
        ("run linkage/figure_07 debateqa/table_10", "0 fresh, 0 failed"),
        ("status linkage/figure_07 debateqa/table_10", "fresh"),
        ("figures debateqa/table_10", "1 figures drawn"),
        ("status debateqa/table_10", "fresh"),
        ("check", "nothing to compare"),
        ("report", "report: build/quick/site/index.html"),
    ):
        done = place.run(*command.split())
        assert (done.returncode, words in done.stdout) == (0, True), (command, done.stdout, done.stderr)
        assert "STALE" not in done.stdout
    assert list_changed(place.root) == ""


def test_committed_results_are_checked_and_claims_are_told(place: Checkout) -> None:
    full = {"DATA": "full", "PROFILE": "full"}
    done = place.run("check", **full)
    assert (done.returncode, "numbers against the reference in results/" in done.stdout) == (0, True), done.stderr
    done = place.run("claims", **full)
    assert done.returncode == 0, done.stderr
    assert all(claim.says in done.stdout for paper in read_papers(PROJECT).values() for claim in paper.claims.values())
    assert list_changed(place.root) == ""


@pytest.mark.parametrize(
    "target", ["reproduce", "check", "claims", "figures", "report", "status", "fetch", "lab", "score"]
)
def test_make_runs_the_command_of_each_door(target: str) -> None:
    arguments = ["make", "-n", target, f"VENV={sys.prefix}", *(["ANSWERS=my.jsonl"] if target == "score" else [])]
    output = subprocess.run(arguments, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert f"-m reproduction {target}" in output or (target == "lab" and "jupyter lab" in output)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("export-verdicts FILE=a.parquet MODEL=m", 'export "a.parquet" --model "m"'),
        ("export-losses FILE=a.parquet", 'export-losses "a.parquet"'),
        ("export-readings FILE=a.parquet", 'export-readings "a.parquet"'),
        ("import-verdicts FILE=a.sqlite", 'import "a.sqlite"'),
        ("spot-check ONLY=linkage/table_02", "spot-check linkage/table_02"),
    ],
)
def test_make_calls_the_tool_for_committed_verdicts(words: str, command: str) -> None:
    arguments = ["make", "-n", *words.split(), f"VENV={sys.prefix}"]
    output = subprocess.run(arguments, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert f"-m tools.verdicts {command}" in output


@pytest.mark.parametrize(
    ("typed", "variables", "expected"),
    [
        (["MAX_COST=1", "MAX_TOKENS=4096"], {}, {"NFQA_MAX_COST": "1", "NFQA_MAX_TOKENS": "4096"}),
        ([], {"MAX_COST": "1"}, {"NFQA_MAX_COST": "1"}),
        ([], {"MAX_COST": "1", "NFQA_MAX_COST": "2"}, {"NFQA_MAX_COST": "2"}),
        (["MAX_COST=1"], {"NFQA_MAX_COST": "2"}, {"NFQA_MAX_COST": "1"}),
        (["NFQA_MAX_COST=1"], {"NFQA_MAX_COST": "2"}, {"NFQA_MAX_COST": "1"}),
    ],
)
def test_make_hands_its_limits_to_the_library(typed: list[str], variables: dict[str, str], expected: dict) -> None:
    clean = {name: value for name, value in os.environ.items() if not re.match("(NFQA_)?(MAX|PRICE|CONC)", name)}
    command = ["make", "-s", "--eval=show:;@env", "show", *typed]
    lines = subprocess.check_output(command, cwd=PROJECT, env=clean | variables, text=True).splitlines()
    limits = dict(line.split("=", 1) for line in lines if line.startswith(("NFQA_MAX", "NFQA_PRICE", "NFQA_CONC")))
    assert {name: value for name, value in limits.items() if value} == expected


@pytest.fixture
def make(tmp_path: Path) -> list[str]:
    """The command make, with this interpreter as its virtual environment."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    pinned = b"".join((PROJECT / name).read_bytes() for name in ("requirements.txt", "pyproject.toml"))
    (tmp_path / "venv" / f"ready-{hashlib.sha256(pinned).hexdigest()[:16]}").touch()
    return ["make", f"VENV={tmp_path}/venv"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("door", "kind", "whole"),
    [("reproduce", "TERM", False), ("score", "INT", True)],
    ids=["make is ended twice", "Ctrl-C twice while a server hangs"],
)
def test_a_door_that_is_interrupted_twice_ends(checkout: Checkout, make: list[str], door, kind, whole) -> None:
    copy_project(checkout.root, "prompts")
    checkout.edit_notebook("made_up/first.ipynb", [*FIRST, WAITS])
    started = checkout.root / "build" / "sample" / "scratch" / "made_up" / "first" / "started"
    with StubServer(script=["hang"] * 100) as stub:
        words = ["ANSWERS=src/nfqa/sample/answers.jsonl", "METHODS=pointwise", f"JUDGE=openai:stub@{stub.url}", "DATA="]
        process = subprocess.Popen(
            [*make, door, *(words if door == "score" else [])], cwd=PROJECT, env=checkout.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        wait_until(lambda: started.exists() or len(stub.bodies) > 2 or process.poll() is not None, 120)
        began = time.monotonic()
        for _ in range(2):
            (os.killpg if whole else os.kill)(process.pid, getattr(signal, f"SIG{kind}"))
            time.sleep(0.2)
        output = process.communicate(timeout=30)[0]
    assert time.monotonic() - began < 5
    assert (output.count(MESSAGE), "Error 130" in output) == (1, True), output
    assert list_processes(checkout.root) == list_litter(checkout.root) == []
    with lock_file(checkout.root / "build" / "lock", "held"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.monthly) for part in (2, 3))])
def test_drawing_a_committed_figure_again_changes_no_picture(part: int, tmp_path, monkeypatch) -> None:
    """But for the last digits of a text, where another processor rounds otherwise."""
    monkeypatch.setattr(lab_open, "save_figure", draw_picture)
    monkeypatch.chdir(PROJECT)
    drawn = runner.Place(PROJECT, tmp_path, is_full=True)
    for paper, name in list_chosen(PROJECT)[part::4]:
        if replay.redraw_figure(paper, name, drawn, RunOptions()):
            stem = f"{paper.paper}/{name}.png"
            pictures = (
                Image.open(folder / stem).convert("RGB") for folder in (PROJECT / "figures", tmp_path / "drawn")
            )
            before, after = (np.asarray(picture, np.int16) for picture in pictures)
            assert before.shape == after.shape, stem
            assert (np.abs(before - after).max(axis=2) > 64).mean() < 0.0001, stem
    assert len(list(tmp_path.rglob("*.png"))) >= 10


def draw_picture(figure: Any, stem: Path) -> None:
    """As `reproduction.figures.save_figure`, the PNG alone, which is not packed tightly."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    save: Callable[..., None] = getattr(figure, "savefig", None) or figure.save
    save(stem.with_suffix(".png"), dpi=200, bbox_inches="tight", pil_kwargs={"compress_level": 1})
