"""From `make` to the table: a language model as judge behind a real server, its verdicts, journal and rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Checkout, copy_project
from notebook_cells import run_here
from test_gguf import write_gguf
from test_llama_server import serve
from tiny_models import make_tiny_model, teach_verdicts

from reproduction import runner
from reproduction.data.registry import UnreachableError
from reproduction.judging import read_prompt_set
from reproduction.values import read_values

pytestmark = pytest.mark.slow
CONTEXT = 16_384


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights that has learnt one thing: to answer with a verdict."""
    folder = make_tiny_model(tmp_path_factory.mktemp("taught") / "model", context=CONTEXT)
    teach_verdicts(folder)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.setattr(runner, "execute_notebook", run_here)
    root = tmp_path / "checkout"
    copy_project(root, "src", "data", "papers", "notebooks", "prompts", "models")
    checkout = Checkout(root)
    checkout.environment |= {
        "DATA": "sample",
        "PROMPTS": "own",
        "PARAMS": "limit=2",
        "OPENAI_API_KEY": "",
        "HF_HUB_OFFLINE": "1",
    }
    return checkout


def read_table(project: Checkout, name: str) -> dict[tuple[str, str], float | None]:
    (path,) = (project.root / "build" / "variants").glob(f"*/sample/results/linkage/{name}.csv")
    judged = read_values(path).query("judge == 'judge'").set_index(["metric", "statistic"])
    return judged.value.astype(object).where(judged.value.notna(), None).to_dict()


def test_a_model_behind_a_real_server_fills_table_5_and_a_second_run_asks_nothing(
    project: Checkout, model: Path
) -> None:
    file = write_gguf(model, project.root / "taught.gguf")
    with serve(file, CONTEXT) as address:
        options = {"JUDGE": f"openai:taught@{address}/v1", "DECODING": "greedy"}
        done = project.run("run", "linkage/table_05", **options)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = read_table(project, "table_05")
        assert rows["listwise", "acc_best"] is not None
        assert rows["listwise", "missing_verdicts"] < 0.2
    # The server is gone; a second run asks nothing.
    shutil.rmtree(project.root / "build" / "variants")
    done = project.run("run", "linkage/table_05", **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_table(project, "table_05") == rows


def test_prompts_that_cannot_be_had_are_not_replaced_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "checkout"
    copy_project(root, "data", "prompts")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("NFQA_MIRROR", str(tmp_path / "empty"))
    with pytest.raises(UnreachableError, match="NFQA_MIRROR has no"):
        read_prompt_set(root, "upstream").get("listwise")
    assert read_prompt_set(root, "own").get("listwise").set_name == "own"
    with pytest.raises(ValueError, match="prompts is 'theirs'; known: own, upstream"):
        read_prompt_set(root, "theirs")
