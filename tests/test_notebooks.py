"""Every notebook of the project runs, headless, on the quick profile and the bundled sample."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import PROJECT, Checkout, copy_project

from nfqa.lab.artefacts import read_papers


@pytest.mark.slow
def test_every_notebook_runs_twice_to_equal_bytes(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts")
    checkout = Checkout(root)
    checkout.environment |= {"DATA": "sample", "PROFILE": "quick"}
    done = checkout.run("reproduce")
    assert done.returncode == 0, done.stdout + done.stderr
    results = root / "build" / "quick" / "sample" / "results" / "linkage"
    names = {name for name, artefact in read_papers(PROJECT)["linkage"].artefacts.items() if artefact.notebook}
    assert {path.stem for path in results.glob("*.json")} == names
    index = (root / "build" / "quick" / "site" / "index.html").read_text()
    assert "sample" in index.lower()
    first = {path.name: path.read_bytes() for path in results.iterdir()}
    assert b'"origin": "measured"' not in b"".join(first.values())

    shutil.rmtree(root / "build" / "quick")
    done = checkout.run("reproduce")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name: path.read_bytes() for path in results.iterdir()} == first


@pytest.mark.slow
def test_another_embedder_takes_its_place_by_one_variable(tmp_path: Path) -> None:
    from test_embed import make_model

    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts")
    spec = make_model(tmp_path / "tiny")
    checkout = Checkout(root)
    variables = {"DATA": "sample", "PROFILE": "quick", "EMBEDDER": spec}
    done = checkout.run("run", "linkage/table_05", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = (root / "build" / "variants").glob("embedder-*/sample/results/linkage/table_05.json")
    assert '"embedder": "path:model@' in result.read_text()
    assert not (root / "results").exists()
