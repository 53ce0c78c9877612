"""Notebooks that ask a language model, on the bundled sample; a rule answers in the model's place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from notebook_cells import PAPERS, answer_by_rule, run_artefact, use_rule
from tiny_models import LetterEmbedder

from nfqa import opening
from nfqa.judge.journal import Journal
from nfqa.models.chat import Request
from reproduction.notebooks import read_cells
from reproduction.open import Lab
from tools.verdicts import import_completions

ASK = ("parameters", "setup", "ask")
ALL_SMALL = {"limit": 2, "resamples": 20, "answers": 4, "n_seeds": 1, "judge_candidates": 3, "judge_questions": 2}
REPLIES_LEAD = {  # what these ask next depends on a reply, which no plan knows
    "debateqa/table_04", "debateqa/table_05", "debateqa/table_06", "debateqa/figure_06", "debateqa/figure_07",
    "debateqa/figure_10", "debateqa/figure_13", "linkage/table_03",
}  # fmt: skip


def list_asking() -> dict[str, dict[str, Any]]:
    """The artefacts whose notebook asks a language model, one per notebook, with its parameters' defaults."""
    notebooks: dict[Path, str] = {}
    for paper in PAPERS.values():
        for name, artefact in paper.artefacts.items():
            if artefact.notebook and {"judge", "generator"} & set(artefact.roles):
                notebooks.setdefault(artefact.path, f"{paper.paper}/{name}")
    defaults = {}
    for path, identifier in notebooks.items():
        cells = read_cells(path)
        assert any("ask" in cell["tags"] for cell in cells), path
        (source,) = (cell["source"] for cell in cells if "parameters" in cell["tags"])
        exec(source, names := {})  # type: ignore[var-annotated]
        defaults[identifier] = names
    return defaults


ASKING = list_asking()


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[Request], str]], None]:
    """Fill every language model's place by a rule, and the embedder's by letters."""
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))
    monkeypatch.setattr(Lab, "embedder", LetterEmbedder())
    use_rule(monkeypatch, answer_by_rule)
    return partial(use_rule, monkeypatch)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run an artefact's notebook, or its cells of some tags, on little."""

    def execute(identifier: str, *tags: str, **parameters: Any) -> dict[str, Any]:
        return run_artefact(identifier, out=tmp_path / "out", tags=tags, **{"prompts": "own"} | parameters)

    return execute


def choose_small(identifier: str, **roles: str) -> dict[str, Any]:
    """Small values of the parameters that a notebook has, and its roles; `answers` is a number in some, or a folder."""
    defaults = ASKING[identifier]
    return {
        name: value
        for name, value in (ALL_SMALL | roles).items()
        if name in defaults and isinstance(value, str) == isinstance(defaults[name], str)
    }


@pytest.mark.parametrize("identifier", ASKING)
def test_a_plan_counts_what_is_then_asked_and_a_second_run_asks_nothing(identifier, run, tmp_path, monkeypatch) -> None:
    small = choose_small(identifier, judge="openai:any", generator="openai:writer")
    monkeypatch.setenv("NFQA_DRY", "1")
    plan = run(identifier, *ASK, **small)["lab"].tally
    monkeypatch.delenv("NFQA_DRY")
    tally = run(identifier, *ASK, **small)["lab"].tally
    assert tally.requests > 0 < plan.requests
    if identifier not in REPLIES_LEAD:  # a prompt that comes again is kept by then
        assert (plan.requests, plan.verdicts) == (tally.requests + tally.cached, tally.verdicts)
    # The verdicts, brought to another place, are enough without any model.
    lines = len(Journal(tmp_path / "journal.sqlite").list_lines())
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "other.sqlite"))
    imported = import_completions(Journal(tmp_path / "other.sqlite"), tmp_path / "journal.sqlite")
    assert imported == f"{lines:,} new completions imported"
    monkeypatch.setattr(opening, "open_model", lambda spec, journal, dtype="": pytest.fail("a model was opened"))
    again = run(identifier, *ASK, **small)["lab"].tally
    assert (again.requests, again.verdicts) == (0, tally.verdicts)


def mumble(request: Request) -> str:
    unclear = hashlib.sha256(request.prompt.encode()).digest()[0] < 48  # whatever the seed
    return "I can't say." if unclear else answer_by_rule(request)


def test_an_unreadable_verdict_is_missing_and_counted_and_never_a_default(model, run) -> None:
    model(mumble)
    names = run("linkage/table_05", judge="openai:any")
    share = names["table"].query("judge == 'judge' and statistic == 'missing_verdicts'")
    assert share.value.between(0.05, 0.5).any()
    row = names["table"].query("judge == 'judge' and metric == 'listwise' and statistic == 'acc_best'").iloc[0]
    assert row.dropped_because == f"unreadable {row.dropped}"
    assert row.n + row.dropped == len(names["webglm"].questions)
