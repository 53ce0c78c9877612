"""Every notebook of the project runs on the smallest limits and the bundled sample; one of each kind from the door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from conftest import Checkout, copy_project
from notebook_cells import run_cells, use_rule

from nfqa.files.records import Question
from reproduction import keys
from reproduction.data import load
from reproduction.keys import QUICK_LIMIT, Target, choose_parameters, list_targets
from reproduction.notebooks import read_cells
from reproduction.options import RunOptions

pytestmark = pytest.mark.slow
OPTIONS = RunOptions(data="sample", profile="quick")
SMALLEST = {"limit": QUICK_LIMIT // 2, "resamples": 50}
QUICK = {"DATA": "sample", "PROFILE": "quick"}
PARTS = 6  # of all notebooks, so that several processes share them
LOCAL = ["debateqa/table_03_systems", "debateqa/found_views", "debateqa/real_views", "debateqa/real_runs"]
KINDS = ["linkage/table_01", "linkage/table_09", "debateqa/equation_07", "debateqa/figure_02"]
MORE_KINDS = ["linkage/table_03", "linkage/figure_07", "linkage/judge_health", "debateqa/figure_03"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models")
    monkeypatch.setenv("NFQA_ROOT", str(root))
    return root


def run_target(root: Path, target: Target, results: Path, **limits: int) -> Path:
    """Run an artefact's notebook in this process, where any warning is an error; returns its values."""
    notebook = root / "notebooks" / str(target.artefact.notebook)
    out = results / target.paper.paper
    out.mkdir(parents=True, exist_ok=True)
    parameters = choose_parameters(target.paper, target.name, target.options, out)
    run_cells(notebook, parameters | {name: limit for name, limit in limits.items() if name in parameters})
    plt.close("all")
    return out / f"{target.name}.csv"


@pytest.mark.parametrize("part", range(PARTS))
def test_every_notebook_runs_and_measures_nothing_on_the_sample(part, root, tmp_path, monkeypatch):
    """A part of them; those that read others run with these, in the first part."""
    use_rule(monkeypatch, lambda request: f"Some say so, others doubt it: {request.seed}.")  # writes at once
    targets = list_targets(root, OPTIONS)
    assert {t.identifier for t in targets if t.lacks} <= {*LOCAL}  # no stand-in
    chained = {name for t in targets if t.reads for name in (t.identifier, *t.reads)}
    for place, target in enumerate(targets):
        if not target.lacks and part == (0 if target.identifier in chained else place % PARTS):
            values = run_target(root, target, tmp_path / "results", **SMALLEST)
            assert ",measured," not in values.read_text(), target.identifier


@pytest.fixture
def local(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up files in place of the local ones, whose ids are labelled; few of the questions have points of view.

    By hash these are the last ones, which a limit would not choose. Public files are the bundled ones.
    """
    labels = pd.read_csv(root / load.DISPUTE_LABELS, dtype=str)
    runs = labels.id[labels.set == "systems"].str.split(":", n=1, expand=True).set_axis(["place", "system"], axis=1)
    texts = ["Some say so, others that it harms.", "It is so.", "Critics doubt it. Supporters don't, for a reason."]
    questions = [f"Is number {place} debatable?" for place in range(runs.place.astype(int).max() + 1)]
    answers = {system: texts[place % 3] for place, system in enumerate(sorted(set(runs.system)))}
    last = sorted(questions, key=lambda text: Question(text).key)[-12:]
    repeated = pd.read_csv(root / "data" / "labels" / "repeated_views.csv", dtype=str).dev_index.unique()[:9]
    texts_by_name = {f"{place}": text for place, text in enumerate(last)} | {
        name: f"And number {name}?" for name in repeated
    }
    views = ["It helps.", "It harms us all.", "It depends.", *(f"It takes {count} years." for count in range(5))]
    files = {
        "system_answers": [{"question": text, "answers": answers} for text in questions],
        "dev_povs": [{"dev_index": n, "question": text, "points_of_view": views} for n, text in texts_by_name.items()],
        "demo_answers": [{"id": name, "generation": texts[int(name) % 3]} for name in labels.id[labels.set == "demo"]],
    }
    for name, lines in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    find_path = load.find_path

    def find(name: str, **options: Any) -> Path:
        return tmp_path / f"{name}.jsonl" if name in files else find_path(name, **options | {"data": "sample"})

    monkeypatch.setattr(load, "find_path", find)
    monkeypatch.setattr(load, "has_file", lambda file, _: file.name in files)
    monkeypatch.setattr(keys, "has_file", load.has_file)


def test_what_reads_local_files_runs_on_two_questions(root, local, tmp_path):
    for target in list_targets(root, RunOptions(profile="quick"), LOCAL):
        values = pd.read_csv(run_target(root, target, tmp_path / "results", limit=2, resamples=50))
        assert values.value.notna().any(), target.identifier


@pytest.mark.parametrize("kinds", [KINDS, pytest.param(MORE_KINDS, marks=pytest.mark.monthly)], ids=["first", "more"])
def test_one_of_each_kind_runs_headless_without_a_warning_and_again_here_to_equal_bytes(kinds, root, tmp_path):
    checkout = Checkout(root)
    done = checkout.run("run", *kinds, **QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    work = root / "build" / "quick" / "sample"
    cells = [cell for path in (work / "notebooks").rglob("*.ipynb") for cell in read_cells(path)]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []  # where warnings go
    for target in list_targets(root, OPTIONS, kinds):
        values = run_target(root, target, tmp_path / "results")
        assert values.read_bytes() == (work / "results" / f"{target.identifier}.csv").read_bytes(), target.identifier
    assert checkout.run("report", **QUICK).returncode == 0
    assert "sample" in (root / "build" / "quick" / "site" / "index.html").read_text().lower()
