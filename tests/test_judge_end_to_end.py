"""From `make` to the table: a language model as judge in process and behind a real server, verdicts, journal, rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Checkout, copy_project
from test_transformers_serve import serve
from tiny_models import make_tiny_model, teach_verdicts

from nfqa.lab.results import read_result

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights that has learnt one thing: to answer with a verdict."""
    folder = make_tiny_model(tmp_path_factory.mktemp("taught") / "model", context=16_384)
    teach_verdicts(folder)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Checkout:
    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts")
    checkout = Checkout(root)
    checkout.environment |= {
        "DATA": "sample",
        "PROMPTS": "own",
        "PARAMS": "limit=3",
        "OPENAI_API_KEY": "",
        "HF_HUB_OFFLINE": "1",
    }
    return checkout


def read_table(project: Checkout, name: str) -> dict[tuple[str, str], float | None]:
    (path,) = (project.root / "build" / "variants").glob(f"*/sample/results/linkage/{name}.json")
    return {(row.system, row.metric): row.value for row in read_result(path).rows}


def test_a_model_in_process_fills_table_5_from_make_to_table(project: Checkout, model: Path) -> None:
    spec = f"path:{model}"
    done = project.run("run", "linkage/table_05", JUDGE=spec)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_table(project, "table_05")
    for system in ("pointwise_ref_judge", "pairwise_judge", "linkage_judge"):
        assert rows[system, "acc_best"] is not None
        assert rows[system, "missing_verdicts"] < 0.2  # it has learnt to answer with one
    status = project.run("status", "linkage/table_05", JUDGE=spec)
    assert "fresh" in status.stdout
    assert "completions" in status.stdout

    # Its verdicts alone make the table again elsewhere; that no model is opened then, test_language_rows shows.
    assert project.run("verdicts", "export", "verdicts.jsonl").returncode == 0
    before = (project.root / "verdicts.jsonl").read_bytes()
    shutil.rmtree(project.root / "verdicts")
    shutil.rmtree(project.root / "build" / "variants")
    assert "new completions taken in" in project.run("verdicts", "import", "verdicts.jsonl").stdout
    done = project.run("run", "linkage/table_05", JUDGE=spec)
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_table(project, "table_05") == rows
    assert project.run("verdicts", "export", "again.jsonl").returncode == 0
    assert (project.root / "again.jsonl").read_bytes() == before


def test_the_same_model_behind_a_real_server_fills_table_5_too(project: Checkout, model: Path) -> None:
    with serve(model) as spec:
        done = project.run("run", "linkage/table_05", JUDGE=f"openai:{spec.name}@{spec.url}", DECODING="greedy")
        assert done.returncode == 0, done.stdout + done.stderr
        rows = read_table(project, "table_05")
        assert rows["linkage_judge", "acc_best"] is not None
        assert rows["linkage_judge", "missing_verdicts"] < 0.2
    # The server is gone; a second run asks nothing.
    shutil.rmtree(project.root / "build" / "variants")
    done = project.run("run", "linkage/table_05", JUDGE=f"openai:{spec.name}@{spec.url}", DECODING="greedy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_table(project, "table_05") == rows


def test_a_reading_from_logits_leaves_no_verdict_missing(project: Checkout, model: Path) -> None:
    done = project.run("run", "linkage/table_05", JUDGE=f"path:{model}", READING="logits")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_table(project, "table_05")
    assert {value for (_, metric), value in rows.items() if metric == "missing_verdicts"} == {0.0}


def test_a_server_that_does_not_exist_fails_with_a_line_and_keeps_the_last_result(project: Checkout) -> None:
    done = project.run("run", "linkage/table_05", JUDGE="openai:none@http://127.0.0.1:9/v1")
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stderr
    assert not list((project.root / "build").glob("variants/*/sample/results/linkage/*.json"))


def test_prompts_that_cannot_be_had_are_not_replaced_in_silence(project: Checkout, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = project.run(
        "run", "linkage/table_05", JUDGE="openai:any@http://127.0.0.1:9/v1", PROMPTS="upstream",
        NFQA_MIRROR=str(tmp_path / "empty"),
    )  # fmt: skip
    assert done.returncode != 0
    assert "NFQA_MIRROR has no" in done.stderr
