"""A notebook's cells run in this process, and a language model that answers by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT

from nfqa import opening
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec
from reproduction.notebooks import read_cells


def run_notebook(name: str, *, out: Path, tags: Sequence[str] = (), **parameters: Any) -> dict[str, Any]:
    """The names that notebooks/NAME.ipynb leaves behind; with `tags`, by the cells that have one of them alone.

    No language model is asked unless `judge` names one.
    """
    given = {"data": "sample", "out": str(out), "judge": ""} | parameters
    return run_cells(PROJECT / "notebooks" / f"{name}.ipynb", given, tags)


def run_cells(notebook: Path, parameters: dict[str, Any], tags: Sequence[str] = ()) -> dict[str, Any]:
    """The names that a notebook leaves behind; `parameters` follow the cell of that tag."""
    names: dict[str, Any] = {}
    for cell in read_cells(notebook):
        if cell["cell_type"] == "code" and (not tags or cell["tags"] & {*tags}):
            exec(compile(cell["source"], str(notebook), "exec"), names)
            if "parameters" in cell["tags"]:
                names |= parameters
    return names


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


def use_rule(patch: pytest.MonkeyPatch, answer_one: Callable[[Request], str]) -> None:
    """Let a rule stand in for every language model that a notebook opens."""
    patch.setattr(opening, "open_model", lambda spec, journal, dtype="": RuleModel(spec, answer_one))
