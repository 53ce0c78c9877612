"""Runs of artefacts on debatable questions: DebateQA's own where they are named, and the evaluator role."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NUMBERS, PROJECT, Checkout, write_notebook

from reproduction.data.registry import read_registry
from reproduction.keys import list_data, read_record
from reproduction.notebooks import read_parameters
from reproduction.papers import list_chosen
from reproduction.place import find_place
from reproduction.values import read_values

STUDY = """
paper: made_up
title: A paper for tests
source: none
artefacts:
  first: {label: "Table 1", title: "First", notebook: made_up/first.ipynb, loads: [debatewise]}
  third: {label: "Table 3", title: "Third", notebook: made_up/third.ipynb, loads: [debatewise, debateqa_test]}
"""
PARAMETERS = "artefact = 'made_up/%s'\ndata = 'full'\nout = ''\nevaluator = ''\nwrapping = ''"
OPEN = "from reproduction.open import open_lab\nlab = open_lab(artefact, data=data, evaluator=evaluator, out=out)"
WRITE = (
    "import pandas as pd\n"
    "row = {'dataset': dataset, 'metric': 'ours', 'statistic': 'number', 'value': value}\n"
    "lab.write(lab.tidy(pd.DataFrame([row]).assign(signature=lab.roles['evaluator'])))"
)
RESULTS = "build/results/made_up"
POINTS = [{"point_of_view": f"It is so, for reason {n}.", "explanation": "It has been seen."} for n in range(3)]
RELEASED = [{"id": str(n), "question": f"Is number {n} so?", "partial_answers": POINTS} for n in range(12)]


@pytest.fixture
def debates(checkout: Checkout, tmp_path: Path) -> Checkout:
    """Two notebooks, one of which can use DebateQA's questions."""
    (checkout.root / "papers" / "made_up.yml").write_text(STUDY)
    numbers = NUMBERS.replace("first,Ours,,antique", "third,Ours,,debatewise").replace("1.00", "3")
    (checkout.root / "papers" / "made_up.csv").write_text(numbers)
    load = "dataset, value = 's', len(lab.load('debatewise').questions)"
    count = "debates = lab.load_debates(questions, limit=7)\ndataset, value = debates.name, len(debates.questions)"
    parameters = {"third": f"{PARAMETERS}\nquestions = 'debatewise'"}
    opening = {"third": OPEN.replace("out=out", "out=out, questions=questions")}
    for name, cell in (("first", load), ("third", count)):
        cells = [parameters.get(name, PARAMETERS) % name, opening.get(name, OPEN), cell, WRITE]
        write_notebook(checkout.root / "notebooks" / "made_up" / f"{name}.ipynb", cells)
    claims = (PROJECT / "data" / "sample" / "debates.json").read_bytes()
    checkout.environment |= {"DATA": "full", "NFQA_MIRROR": str(tmp_path / "mirror")}
    put(checkout, tmp_path / "mirror", "debatewise", claims)
    return checkout


def put(checkout: Checkout, mirror: Path, name: str, content: bytes) -> None:
    """Put a made file where a registered one is looked for, and correct the registry's hash."""
    file = read_registry(checkout.root)[name]
    path = mirror / file.relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    registry = checkout.root / "data" / "registry.yml"
    registry.write_text(registry.read_text().replace(file.sha256, hashlib.sha256(content).hexdigest()))


@pytest.fixture
def release(debates: Checkout, tmp_path: Path) -> Callable[[], None]:
    """Puts DebateQA's test split, which is registered, to where files come from."""
    content = "".join(json.dumps(line) + "\n" for line in RELEASED).encode()
    put(debates, tmp_path / "released", "debateqa_test", content)
    return lambda: shutil.copytree(tmp_path / "released", tmp_path / "mirror", dirs_exist_ok=True)


@pytest.mark.slow
def test_a_run_and_a_check_are_the_same_whether_debateqas_own_files_can_be_reached_or_not(
    debates: Checkout, release: Callable[[], None]
) -> None:
    place = find_place(debates.root)
    assert debates.run("run", "made_up/third").returncode == 0
    assert debates.run("accept", "made_up/third").returncode == 0
    before, record = (debates.root / f"{RESULTS}/third.csv").read_bytes(), read_record(place, "made_up/third")
    check = debates.run("check")
    assert check.returncode == 0, check.stderr

    release()
    shutil.rmtree(debates.root / "build")
    assert debates.run("run", "made_up/third").returncode == 0
    assert (debates.root / f"{RESULTS}/third.csv").read_bytes() == before
    assert vars(read_record(place, "made_up/third"))["parts"] == vars(record)["parts"]
    assert debates.run("check").stdout == check.stdout
    assert not [*debates.root.rglob("test.jsonl")], "what no run names is not fetched"

    assert debates.run("fetch", QUESTIONS="debateqa").returncode == 0
    assert [*debates.root.rglob("test.jsonl")]
    assert "fresh" in debates.run("status", "made_up/third").stdout, "nor does it matter where it lies on the disk"
    assert debates.run("check").stdout == check.stdout


@pytest.mark.slow
def test_debateqas_own_questions_are_fetched_and_used_where_they_are_named(
    debates: Checkout, release: Callable[[], None]
) -> None:
    done = debates.run("run", "made_up/third", QUESTIONS="debateqa")
    assert (done.returncode, "debateqa_test: NFQA_MIRROR has no" in done.stdout) == (1, True), done.stdout
    assert not list((debates.root / "build").rglob("third.csv")), "no other questions take their place"

    release()
    done = debates.run("run", "made_up", QUESTIONS="debateqa")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"made_up/third +made +1 +0 +debateqa_test\n.*Nothing is committed", done.stdout)
    table = read_values(debates.root / "build" / "debateqa" / "results" / "made_up" / "third.csv")
    assert (table.dataset[0], table.value[0]) == ("debateqa_test", 7)
    assert not (debates.root / "build" / "results").exists()
    assert "fresh" in debates.run("status", "made_up/third", QUESTIONS="debateqa").stdout
    assert debates.run("check", QUESTIONS="debateqa").returncode == 0


def test_questions_that_nothing_can_use_are_refused(debates: Checkout) -> None:
    refusals = {
        "QUESTIONS is 'my.jsonl'; expected debateqa": debates.run("run", "made_up/third", QUESTIONS="my.jsonl"),
        "made_up/first does not accept it; unset it, or name made_up/third": debates.run(
            "run", "made_up/first", QUESTIONS="debateqa"
        ),
        "use QUESTIONS=debateqa": debates.run("run", "made_up/third", PARAMS="questions=debateqa"),
    }
    for message, done in refusals.items():
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_an_artefact_that_can_read_an_optional_file_has_a_parameter_that_names_it() -> None:
    registry = read_registry(PROJECT)
    optional = {name for name, file in registry.items() if file.optional}
    for paper, name in list_chosen(PROJECT):
        artefact = paper.artefacts[name]
        assert optional.isdisjoint(list_data(PROJECT, artefact, {})), f"{name} reads it by default"
        takes_questions = "questions" in read_parameters(artefact.path)
        reads_optional = bool(optional & {*list_data(PROJECT, artefact, {"questions": "debateqa"})})
        assert takes_questions == reads_optional, name
