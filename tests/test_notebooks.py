"""Every notebook of the project runs, on the quick profile and the bundled sample; one of each kind from the door."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from conftest import Checkout, copy_project
from notebook_cells import run_notebook

from nfqa.lab.fingerprint import Target, choose_parameters, list_targets
from nfqa.lab.options import RunOptions

pytestmark = pytest.mark.slow
QUICK = {"DATA": "sample", "PROFILE": "quick"}
KINDS = ["linkage/table_01", "linkage/table_03", "linkage/table_09", "linkage/figure_07", "linkage/judge_health",
         "debateqa/equation_07", "debateqa/figure_02", "debateqa/figure_03"]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models")
    monkeypatch.setenv("NFQA_ROOT", str(root))
    return root


def run_target(root: Path, target: Target, results: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run an artefact's notebook in this process, where any warning is an error; returns its values."""
    notebook = root / "notebooks" / str(target.artefact.notebook)
    out = results / target.paper.paper
    out.mkdir(parents=True, exist_ok=True)
    options = RunOptions(data="sample", profile="quick")
    given = choose_parameters(target.paper, target.name, notebook, options, out)
    run_notebook(str(target.artefact.notebook).removesuffix(".ipynb"), **given | {"out": out})
    plt.close("all")
    return out / f"{target.name}.csv"


@pytest.mark.parametrize("paper", ["linkage", "debateqa"])
def test_every_notebook_runs_and_measures_nothing_on_the_sample(paper, root, tmp_path, monkeypatch):
    targets = [t for t in list_targets(root, RunOptions(data="sample", profile="quick")) if t.paper.paper == paper]
    assert {t.name for t in targets if t.lacks} <= {"table_03_systems"}  # of answers that have no stand-in
    for target in targets:
        if not target.lacks:
            values = run_target(root, target, tmp_path / "results", monkeypatch)
            assert ",measured," not in values.read_text(), target.identifier


def read_errors(notebook: Path) -> str:
    """What an executed notebook's cells wrote to standard error, which is where warnings go."""
    outputs = [output for cell in nbformat.read(notebook, as_version=4).cells for output in cell.get("outputs", [])]
    return "".join(output.text for output in outputs if output.get("name") == "stderr")


def test_one_of_each_kind_runs_headless_without_a_warning_and_again_here_to_equal_bytes(root, tmp_path, monkeypatch):
    checkout = Checkout(root)
    done = checkout.run("run", *KINDS, **QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    work = root / "build" / "quick" / "sample"
    warned = {path.stem: read_errors(path) for path in (work / "notebooks").rglob("*.ipynb")}
    assert set(warned.values()) == {""}, warned
    for target in list_targets(root, RunOptions(data="sample", profile="quick"), KINDS):
        values = run_target(root, target, tmp_path / "results", monkeypatch)
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
