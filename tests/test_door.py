"""`make lab`: JupyterLab over the whole checkout, opened on an index that links every artefact's files."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from conftest import PROJECT, copy_project
from notebook_cells import run_notebook

from reproduction.papers import list_chosen

EXECUTED = "build/notebooks/linkage/table_02.ipynb"
VARIANT = "build/variants/judge-1/notebooks/linkage/table_02.ipynb"
SCORES = "build/scores/mine/report.ipynb"


def read_lab_command(*variables: str) -> list[str]:
    """The last command of `make lab`, as it would run here."""
    make = ["make", "--no-print-directory", "-n", "lab", f"VENV={sys.prefix}", *variables]
    said = subprocess.run(make, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    return shlex.split(said.replace("\\\n", " ").splitlines()[-1])


def wait_for(url: str, server: subprocess.Popen[str]) -> None:
    """Wait until a server answers; fail when it ended, or after a minute."""
    for _ in range(600):
        assert server.poll() is None
        try:
            urlopen(url, timeout=30).close()
        except URLError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"{url} did not answer")


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


@pytest.mark.slow
def test_the_lab_serves_the_index_and_what_it_links() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = read_lab_command(f"PORT={port}")
    page = f"http://localhost:{port}"
    with subprocess.Popen([*command, "--no-browser", "--IdentityProvider.token=word"], cwd=PROJECT,
                          stderr=subprocess.PIPE, text=True) as lab:  # fmt: skip
        try:
            wait_for(f"{page}/api", lab)
            for path in ("notebooks/index.ipynb", "results/linkage/table_02.csv", "figures/linkage/table_02.png"):
                with urlopen(f"{page}/api/contents/{path}?content=0&token=word", timeout=30) as reply:
                    assert json.load(reply)["path"] == path
        finally:
            lab.terminate()
            said = lab.communicate(timeout=30)[1]
    assert f":{port}/lab/tree/build/index.ipynb" in said
