"""The index that `make lab` opens links every artefact's files, and make knows its variables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT, copy_project
from notebook_cells import run_notebook

from reproduction.papers import list_chosen

EXECUTED = "build/notebooks/linkage/table_02.ipynb"
VARIANT = "build/variants/judge-1/notebooks/linkage/table_02.ipynb"
SCORES = "build/scores/mine/report.ipynb"


def test_the_index_links_every_artefact_s_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_project(tmp_path, "papers", "notebooks", "results", "figures")
    for name in ("data/registry.yml", EXECUTED, VARIANT, SCORES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("NFQA_ROOT", str(tmp_path))
    names = run_notebook("index", out=tmp_path)
    assert names["parts"][0].startswith("## LINKAGE")
    linked = re.findall(r"\(<\.\./(.*?)>\)", "\n".join([*names["parts"], *names["lines"]]))
    expected = {EXECUTED, VARIANT, SCORES}
    for paper, name in list_chosen(PROJECT):
        stem = f"{paper.paper}/{name}"
        expected |= {f"notebooks/{paper.artefacts[name].notebook}", f"results/{stem}.csv"}
        expected |= {f"figures/{stem}.png"} if (PROJECT / "figures" / f"{stem}.png").is_file() else set()
    assert set(linked) == expected
    assert [name for name in linked if not (tmp_path / name).is_file()] == []


def test_a_variable_that_make_does_not_know_is_refused_and_each_that_help_lists_is_known() -> None:
    def make(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["make", "-n", *words], cwd=PROJECT, capture_output=True, text=True, check=False)

    for given, near in (("SEEEDS", "SEEDS"), ("judge", "JUDGE"), ("PROMPT", "PROMPTS")):
        done = make("status", f"{given}=3")
        assert done.returncode == 2
        assert f"there is no variable {given}; did you mean {near}?" in done.stderr
    listed = subprocess.run(["make", "help"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"\b([A-Z][A-Z_]+)=", listed)) - {"VARIABLE"}
    assert {"JUDGE", "KILLS", "NFQA_DTYPE", "FILE"} <= names
    done = make("status", f"VENV={sys.prefix}", *(f"{name}=1" for name in sorted(names - {"PYTHON"})))
    assert (done.returncode, done.stderr) == (0, "")
