"""A notebook's cells run in this process, and a language model that answers by rule."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import pytest
from conftest import PROJECT

from nfqa import opening
from nfqa.judge.asking import Asker
from nfqa.judge.journal import Journal
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec, parse_role
from reproduction import open as lab_open
from reproduction.notebooks import read_cells
from reproduction.papers import find_artefact, read_papers

PAPERS = read_papers(PROJECT)


def run_notebook(name: str, *, out: Path, tags: Sequence[str] = (), **parameters: Any) -> dict[str, Any]:
    """The names that notebooks/NAME.ipynb leaves behind; with `tags`, by the cells that have one of them alone.

    No language model is asked for verdicts unless `judge` names one.
    """
    options = {"data": "sample", "out": str(out), "judge": ""}
    return run_cells(PROJECT / "notebooks" / f"{name}.ipynb", options | parameters, tags)


def run_artefact(identifier: str, *, out: Path, tags: Sequence[str] = (), **parameters: Any) -> dict[str, Any]:
    """As `run_notebook`, by an artefact's identifier and with its own parameters."""
    paper, name = find_artefact(PAPERS, identifier)
    artefact = paper.artefacts[name]
    notebook = str(artefact.notebook).removesuffix(".ipynb")
    return run_notebook(notebook, out=out, tags=tags, **{"artefact": identifier} | artefact.parameters | parameters)


def run_cells(notebook: Path, parameters: dict[str, Any], tags: Sequence[str] = ()) -> dict[str, Any]:
    """The names that a notebook leaves behind; `parameters` follow the cell of that tag. Figures are small pictures."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab_open, "save_figure", save_small)
        for cell in read_cells(notebook):
            if cell["cell_type"] == "code" and (not tags or cell["tags"] & {*tags}):
                exec(compile(cell["source"], str(notebook), "exec"), names)
                if "parameters" in cell["tags"]:
                    names |= parameters
    plt.close("all")
    return names


def run_here(notebook: Path, executed: Path, parameters: dict[str, Any], folder: Path, **options: Any) -> str:
    """As `reproduction.execute.execute_notebook`, but in this process; one at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in options.get("environment", {}).items():
            patch.setenv(name, value)
        patch.chdir(folder)
        run_cells(notebook, parameters)
    nbformat.write(nbformat.v4.new_notebook(), executed)
    return ""


def save_small(figure: Any, stem: Path) -> None:
    """As `reproduction.figures.save_figure`, a PNG of few dots alone."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(stem.with_suffix(".png"), dpi=30)


class RuleModel:
    """A language model in process: `answer_one` gives the text of a reply; read from logits, the first label leads."""

    template = "rule"

    def __init__(self, spec: RoleSpec, answer_one: Callable[[Request], str]) -> None:
        self.identity = spec.identity
        self.answer_one = answer_one

    def answer(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        for number, request in enumerate(requests):
            if decoding.reading == "logits":
                logprobs = tuple(float(-1 - i) for i in range(len(request.labels)))
                yield number, Reply("", 10, 0, "logits", 0.0, logprobs)
            else:
                yield number, Reply(self.answer_one(request), 10, 2)

    def close(self) -> None:
        pass


def open_asker(folder: Path, answer_one: Callable[[Request], str], name: str = "any") -> Asker:
    """A generator that answers greedily by a rule, with a journal in a folder."""
    spec = parse_role("generator", f"openai:{name}")
    model = RuleModel(spec, answer_one)
    return Asker(spec, lambda _: model, Journal(folder / "journal.sqlite"), Decoding(temperature=0))


def use_rule(patch: pytest.MonkeyPatch, answer_one: Callable[[Request], str]) -> None:
    """Let a rule stand in for every language model that a notebook opens."""
    patch.setattr(opening, "open_model", lambda spec, journal, dtype="": RuleModel(spec, answer_one))


def answer_by_rule(request: Request) -> str:
    """A verdict in range that depends on prompt and seed alone; a text where one is to be written."""
    number = int.from_bytes(hashlib.sha256(f"{request.seed}{request.prompt}".encode()).digest()[:4], "big")
    if request.labels:
        return f"[[{request.labels[number % len(request.labels)]}]]"
    if "JSON list" in request.prompt:  # of points of view
        return json.dumps([{"point_of_view": "It is so.", "documents": [1]}])
    return "Answer1: It is so, more or less.\nAnswer2: It may be so.\nAnswer3: Blue is a colour."
