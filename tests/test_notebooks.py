"""Every notebook of the project runs, headless, on the quick profile and the bundled sample."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from conftest import PROJECT, Checkout, copy_project

from nfqa.lab.artefacts import read_papers


def read_errors(notebook: Path) -> str:
    """What an executed notebook's cells wrote to standard error, which is where warnings go."""
    outputs = [output for cell in nbformat.read(notebook, as_version=4).cells for output in cell.get("outputs", [])]
    return "".join(output.text for output in outputs if output.get("name") == "stderr")


@pytest.mark.slow
def test_every_notebook_runs_and_one_of_each_kind_runs_again_to_equal_bytes(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models")
    checkout = Checkout(root)
    checkout.environment |= {"DATA": "sample", "PROFILE": "quick"}
    done = checkout.run("reproduce")
    assert done.returncode == 0, done.stdout + done.stderr
    made = root / "build" / "quick" / "sample" / "results"
    for paper in read_papers(PROJECT).values():
        names = {name for name, artefact in paper.artefacts.items() if artefact.notebook}
        lacking = {"table_03_systems"} & names  # of answers that have no stand-in
        assert {path.stem for path in (made / paper.paper).glob("*.csv")} == names - lacking
    index = (root / "build" / "quick" / "site" / "index.html").read_text()
    assert "sample" in index.lower()
    first = {path.relative_to(made): path.read_bytes() for path in made.rglob("*.*")}
    assert not [name for name, content in first.items() if b",measured," in content]
    executed = sorted((root / "build" / "quick" / "sample" / "notebooks").rglob("*.ipynb"))
    warned = {path.stem: text for path in executed if (text := read_errors(path))}
    assert warned == {}, "an executed notebook shows a warning"

    # Once more for one of each kind of notebook: equal runs give equal bytes.
    again = [f"linkage/{name}" for name in ("table_01", "table_03", "table_09", "figure_07", "judge_health")]
    again += [f"debateqa/{name}" for name in ("equation_07", "figure_02", "figure_03")]
    shutil.rmtree(root / "build" / "quick")
    done = checkout.run("run", *again)
    assert done.returncode == 0, done.stdout + done.stderr
    made_again = {path.relative_to(made): path.read_bytes() for path in made.rglob("*.*")}
    assert {Path(f"{name}.csv") for name in again} <= made_again.keys()
    for path, content in made_again.items():
        assert content == first[path], path


@pytest.mark.slow
def test_another_embedder_takes_its_place_by_one_variable(tmp_path: Path) -> None:
    from test_embed import make_model

    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models")
    spec = make_model(tmp_path / "tiny")
    checkout = Checkout(root)
    variables = {"DATA": "sample", "PROFILE": "quick", "EMBEDDER": spec}
    done = checkout.run("run", "linkage/table_05", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = (root / "build" / "variants").glob("embedder-*/sample/results/linkage/table_05.json")
    assert '"embedder": "path:model@' in result.read_text()
    assert not (root / "results").exists()
