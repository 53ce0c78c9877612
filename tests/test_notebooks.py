"""Every notebook of the project runs, on the quick profile and the bundled sample; one of each kind from the door."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from conftest import Checkout, copy_project
from notebook_cells import run_cells, use_rule

from nfqa.lab.fingerprint import Target, choose_parameters, list_targets
from nfqa.lab.notebooks import read_cells
from nfqa.lab.options import RunOptions

pytestmark = pytest.mark.slow
OPTIONS = RunOptions(data="sample", profile="quick")
QUICK = {"DATA": "sample", "PROFILE": "quick"}
KINDS = ["linkage/table_01", "linkage/table_03", "linkage/table_09", "linkage/figure_07", "linkage/judge_health",
         "debateqa/equation_07", "debateqa/figure_02", "debateqa/figure_03"]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models")
    monkeypatch.setenv("NFQA_ROOT", str(root))
    return root


def run_target(root: Path, target: Target, results: Path) -> Path:
    """Run an artefact's notebook in this process, where any warning is an error; returns its values."""
    notebook = root / "notebooks" / str(target.artefact.notebook)
    out = results / target.paper.paper
    out.mkdir(parents=True, exist_ok=True)
    run_cells(notebook, choose_parameters(target.paper, target.name, OPTIONS, out))
    plt.close("all")
    return out / f"{target.name}.csv"


@pytest.mark.parametrize("paper", ["linkage", "debateqa"])
def test_every_notebook_runs_and_measures_nothing_on_the_sample(paper, root, tmp_path, monkeypatch):
    use_rule(monkeypatch, lambda request: f"Some say so, others doubt it: {request.seed}.")  # writes at once
    targets = [t for t in list_targets(root, OPTIONS) if t.paper.paper == paper]
    assert {t.name for t in targets if t.lacks} <= {"table_03_systems", "real_views", "real_runs"}  # no stand-in
    for target in targets:
        if not target.lacks:
            values = run_target(root, target, tmp_path / "results")
            assert ",measured," not in values.read_text(), target.identifier


def test_one_of_each_kind_runs_headless_without_a_warning_and_again_here_to_equal_bytes(root, tmp_path):
    checkout = Checkout(root)
    done = checkout.run("run", *KINDS, **QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    work = root / "build" / "quick" / "sample"
    cells = [cell for path in (work / "notebooks").rglob("*.ipynb") for cell in read_cells(path)]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []  # where warnings go
    for target in list_targets(root, OPTIONS, KINDS):
        values = run_target(root, target, tmp_path / "results")
        assert values.read_bytes() == (work / "results" / f"{target.identifier}.csv").read_bytes(), target.identifier
    assert checkout.run("report", **QUICK).returncode == 0
    assert "sample" in (root / "build" / "quick" / "site" / "index.html").read_text().lower()


def test_another_embedder_takes_its_place_by_one_variable(root, tmp_path):
    from test_embed import make_model

    done = Checkout(root).run("run", "linkage/table_05", **QUICK, EMBEDDER=make_model(tmp_path / "tiny"))
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = (root / "build" / "variants").glob("quick-embedder-*/sample/results/linkage/table_05.json")
    assert '"embedder": "path:model@' in result.read_text()
    assert not (root / "results").exists()
