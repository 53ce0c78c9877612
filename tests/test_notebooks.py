"""Every notebook of the project runs on the smallest limits and the bundled sample; one of each kind from the door."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from conftest import Checkout, copy_project
from notebook_cells import run_cells, use_rule

from reproduction.keys import QUICK_LIMIT, Target, choose_parameters, list_targets
from reproduction.notebooks import read_cells
from reproduction.options import RunOptions

pytestmark = pytest.mark.slow
OPTIONS = RunOptions(data="sample", profile="quick")
SMALLEST = {"limit": QUICK_LIMIT // 2, "resamples": 50}
QUICK = {"DATA": "sample", "PROFILE": "quick"}
PARTS = 6  # of all notebooks, so that several processes share them
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
    assert not [t.identifier for t in targets if t.lacks]
    chained = {name for t in targets if t.reads for name in (t.identifier, *t.reads)}
    for place, target in enumerate(targets):
        if part == (0 if target.identifier in chained else place % PARTS):
            values = run_target(root, target, tmp_path / "results", **SMALLEST)
            assert ",measured," not in values.read_text(), target.identifier


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
