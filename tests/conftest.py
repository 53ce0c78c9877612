"""A small checkout that tests may run, break and kill."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from tiny_models import make_tiny_model

from reproduction.cli import main

resource_tracker.ensure_running()  # one that a command in this process starts would end with it
BOUNDED = "kendall|spearman|pearson|mcc|auroc|^f1|accuracy|^acc_|kappa|^share|recall|ndcg"  # at most 1 in size
PROJECT = Path(__file__).parents[1]
os.environ.setdefault("NFQA_CACHE", str(PROJECT / "build" / "cache"))  # as in every command of the checkout
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell: children would not hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

STUDY = """
paper: made_up
title: A paper for tests
source: none
names: {ours: "Ours"}
artefacts:
  first: {label: "Table 1", title: "First", notebook: made_up/first.ipynb, loads: [antique]}
  second: {label: "Table 2", title: "Second", notebook: made_up/second.ipynb, reads: [first]}
  third: {label: "Table 3", title: "Third", notebook: made_up/third.ipynb, reads: [second]}
  fourth: {label: "Table 4", title: "Fourth"}
"""
NUMBERS = """artefact,row,heading,dataset,metric,statistic,printed,unit,tolerance,needs,setting,read,cause,reason
first,Ours,,antique,ours,number,1.00,,0.01,,,table,,
"""

FIRST = [
    "artefact = 'made_up/first'\ndata = 'full'\nout = ''\nvalue = 1.0",
    "import pandas as pd\nfrom reproduction.open import open_lab\nlab = open_lab(artefact, data=data, out=out)",
    "questions = lab.load('antique')",
    "row = {'dataset': questions.name, 'metric': 'ours', 'statistic': 'number', 'value': value}\n"
    "table = lab.tidy(pd.DataFrame([row]))\nlab.write(table)",
]
SECOND = [
    "artefact = 'made_up/second'\ndata = 'full'\nout = ''",
    "from nfqa.kernels import rouge\nfrom reproduction.open import open_lab",
    "lab = open_lab(artefact, data=data, out=out)",
    "table = lab.read('first')\ntable = table.assign(statistic='twice', value=table.value * 2)\nlab.write(table)",
]
THIRD = [source.replace("second", "third").replace("first", "second").replace("twice", "again") for source in SECOND]


def write_notebook(path: Path, cells: list[str]) -> None:
    """A notebook of code cells, the first of which holds the parameters."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "p", "language": "python"}}
    )
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    notebook.cells[0].metadata["tags"] = ["parameters"]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def copy_project(root: Path, *folders: str) -> None:
    """Copy folders of the project, without what running it left in them, and its Makefile."""
    root.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROJECT / "Makefile", root)
    for folder in folders:
        shutil.copytree(PROJECT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))


def commit_all(root: Path) -> None:
    """Commit all that is in a folder, in a repository that is made where there is none."""
    name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "made"]):
        subprocess.run(["git", *name, *words], cwd=root, check=True, capture_output=True)


class Checkout:
    """A copy of the project's code and data with made-up notebooks, run through the command line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        left_out = ("NFQA_MIRROR", "PROFILE", "DATA", "SEEDS")
        own = {"NFQA_ROOT": str(root), "PYTHONPATH": str(root / "src"), "JOBS": "2", "OMP_NUM_THREADS": "1"}
        self.environment = {name: value for name, value in os.environ.items() if name not in left_out} | own

    def run(
        self, *arguments: str, call: Callable[[Sequence[str]], int] = main, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """A command in this process, which saves starting one; notebooks run in processes of their own.

        Args: call: the commands' main function, of another script than `python -m reproduction`.
        """
        output, errors, terminate = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
            for name in os.environ.keys() - self.environment.keys():
                patch.delenv(name)
            for name, value in (self.environment | variables).items():
                patch.setenv(name, value)
            patch.chdir(self.root)
            code = call(arguments)
        signal.signal(signal.SIGTERM, terminate)
        return subprocess.CompletedProcess(arguments, code, output.getvalue(), errors.getvalue())

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "reproduction", *arguments],
            cwd=self.root, env=self.environment | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip

    def read(self, name: str) -> float:
        """The first value of a results file, by its path."""
        return float(pd.read_csv(self.root / name).value[0])

    def edit_notebook(self, name: str, cells: list[str]) -> None:
        write_notebook(self.root / "notebooks" / name, cells)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For models so small that they only lose by more threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def count_tokens(model: Any, most: float = float("inf")) -> tuple[list[int], Any]:
    """The tokens of each of the model's passes, in a list that grows, and what ends it; more than `most` fail."""
    import torch

    seen: list[int] = []

    def note(_: Any, given: Any, named: dict[str, Any]) -> None:
        seen.append(named["input_ids"].numel())
        if seen[-1] > most:
            raise torch.OutOfMemoryError("no more\nmemory")

    return seen, model.register_forward_pre_hook(note, with_kwargs=True)


@pytest.fixture(scope="session")
def make_checkout() -> Callable[[Path], Checkout]:
    """Makes a checkout of three notebooks on the bundled sample, each of which reads the result of the one before."""

    def make(root: Path) -> Checkout:
        copy_project(root, "src", "data")
        (root / "papers").mkdir()
        (root / "papers" / "made_up.yml").write_text(STUDY)
        (root / "papers" / "made_up.csv").write_text(NUMBERS)
        for name, cells in (("first", FIRST), ("second", SECOND), ("third", THIRD)):
            write_notebook(root / "notebooks" / "made_up" / f"{name}.ipynb", cells)
        made = Checkout(root)
        made.environment["DATA"] = "sample"
        return made

    return make


@pytest.fixture
def checkout(tmp_path: Path, make_checkout: Callable[[Path], Checkout]) -> Checkout:
    return make_checkout(tmp_path / "checkout")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Random causal models of a few thousand parameters, by architecture."""
    root = tmp_path_factory.mktemp("models")
    return {name: make_tiny_model(root / name, architecture=name) for name in ("llama", "gpt2", "qwen2", "mistral")}  # type: ignore[arg-type]


@pytest.fixture
def alter(folders: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Copies a tiny model, with some fields of one of its JSON files changed (`...`: left out)."""

    def copy(architecture: str, name: str = "tokenizer_config.json", **fields: Any) -> Path:
        folder = tmp_path / "altered"
        shutil.copytree(folders[architecture], folder, dirs_exist_ok=True)
        content = json.loads((folder / name).read_text()) | fields
        (folder / name).write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))
        return folder

    return copy
