"""The wheel, installed by itself: README's block runs from it, outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import PROJECT
from test_docs import list_blocks

pytestmark = pytest.mark.slow


def test_the_readmes_block_runs_from_an_installed_wheel_outside_the_checkout(tmp_path: Path) -> None:
    pip, installed, elsewhere = [sys.executable, "-m", "pip", "--quiet"], tmp_path / "installed", tmp_path / "elsewhere"
    flags = ["--no-deps", "--no-build-isolation", "--no-index"]
    source = tmp_path / "source"  # a build leaves files beside what it builds
    files = ["pyproject.toml", "README.md", "LICENSE", "src", "prompts"]
    subprocess.run(["cp", "-rL", *files, str(source.mkdir() or source)], cwd=PROJECT, check=True)
    subprocess.run([*pip, "wheel", *flags, "-w", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("nfqa-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(installed), str(wheel)], check=True)
    elsewhere.mkdir()
    (elsewhere / "my.jsonl").write_bytes((PROJECT / "data" / "sample" / "own_answers.jsonl").read_bytes())
    block = next(block for block in list_blocks(PROJECT / "README.md", "python") if "import nfqa" in block)
    block = block.replace("data/sample/own_answers.jsonl", "my.jsonl")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NFQA_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(installed), sysconfig.get_paths()["purelib"]])
    code = f"{block}\nprint(nfqa.__file__)\n"
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *printed, where = done.stdout.splitlines()
    assert Path(where).is_relative_to(installed)
    assert printed == [line.removeprefix("# -> ") for line in block.splitlines() if line.startswith("# -> ")]
