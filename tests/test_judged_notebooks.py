"""Notebooks that ask a language model: their cells run in this process, on the bundled sample, a rule as the judge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import PROJECT
from notebook_cells import run_notebook, use_rule

from nfqa import opening
from nfqa.judge.committed_verdicts import import_verdicts
from nfqa.judge.journal import Journal
from nfqa.metrics.judging import measure_missing
from nfqa.metrics.statistics import average, correlate, credit_choices
from nfqa.models.chat import Request
from reproduction import judging
from reproduction.judging import read_prompt_set
from reproduction.open import open_lab
from reproduction.papers import list_row_keys, read_papers
from reproduction.values import match_rows

LINKAGE = read_papers(PROJECT)["linkage"]
RETRIEVED = pytest.param("table_04", marks=pytest.mark.slow)  # its references are found by the embedder
TABLES = ["table_02", "table_03", RETRIEVED, "table_05", "table_06", "table_07", "table_08", "table_09", "table_10"]
NOTEBOOKS = ["table_02", "table_03", "table_05", "table_06", "table_07", "table_09"]  # some make two tables


def answer_by_rule(request: Request) -> str:
    """A verdict in range that depends on prompt and seed alone; a text where one is to be written."""
    number = int.from_bytes(hashlib.sha256(f"{request.seed}{request.prompt}".encode()).digest()[:4], "big")
    if request.labels:
        return f"[[{request.labels[number % len(request.labels)]}]]"
    return "Answer1: It is so, more or less.\nAnswer2: It may be so.\nAnswer3: Blue is a colour."


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[Request], str]], None]:
    """Fill every language model's place by a rule."""
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))
    use_rule(monkeypatch, answer_by_rule)
    return partial(use_rule, monkeypatch)


def run_cells(name: str, out: Path, *tags: str, **given: object) -> dict[str, Any]:
    """What the cells of an artefact's notebook leave behind: of all, or of those with a tag."""
    artefact = LINKAGE.artefacts[name]
    chosen = {"artefact": f"linkage/{name}", "judge": "openai:any", "prompts": "own"} | artefact.parameters
    if name in ("table_09", "table_10"):
        chosen["judge_seeds"] = 3  # as the paper
    if "generator" in artefact.roles:
        chosen |= {"generator": "openai:writer", "judge_candidates": 100}  # all of the sample's
    path = str(artefact.notebook).removesuffix(".ipynb")
    return run_notebook(path, out=out, tags=("parameters", "setup", *tags) if tags else (), **(chosen | given))


def ask(name: str, out: Path, **given: object) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The values of the rows that a language model judged, and the notebook's names."""
    found = run_cells(name, out, "ask", **({"limit": 4} | given))
    asked = found["asked"]
    measured = credit_choices(asked) if name == "table_05" else correlate(asked)
    if "run" in LINKAGE.find_published(name):
        measured = pd.concat([measured, measured.assign(run=measured.seed + 1)])
    return found["lab"].tidy(pd.concat([average(measured), measure_missing(asked)])), found


def list_judged(name: str) -> list[dict[str, Any]]:
    """By which columns the rows of a judge at hand are found, on the sample, that are like published ones."""
    printed = LINKAGE.find_published(name)
    rows = printed.loc[(printed.judge != "") & (printed.statistic != "spearman_std"), list_row_keys(printed)]
    columns = rows.to_dict("records")  # but a deviation, which is no average of its own
    return [own | {"judge": "judge", "dataset": f"sample_{own['dataset']}"} for own in columns]


@pytest.mark.parametrize("name", TABLES)
def test_every_published_row_of_a_judge_has_its_like_for_the_judge_at_hand(name, model, tmp_path):
    wanted = list_judged(name)
    assert wanted
    few = name != "table_06"  # equal candidates under four lists: few questions keep any
    table, _ = ask(name, tmp_path, limit=4 if few else None)
    for columns in wanted:
        (row,) = table[match_rows(table, columns)].to_dict("records")
        assert not few or not pd.isna(row["value"]), columns
        (lost,) = table[match_rows(table, columns | {"statistic": "missing_verdicts", "run": ""})].to_dict("records")
        assert (lost["value"], lost["dropped"]) == (0, 0)
        assert lost["n"] > 0
    assert set(table.origin) == {"sample"}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_plan_counts_what_is_then_asked_and_a_second_run_asks_nothing(name, model, tmp_path, monkeypatch):
    monkeypatch.setenv("NFQA_DRY", "1")
    by_rule = {"generator": ""}  # what lists would hold that are not written yet, no plan can know
    planned = run_cells(name, tmp_path, "ask", limit=4, **by_rule)["lab"].tally
    monkeypatch.delenv("NFQA_DRY")
    first, found = ask(name, tmp_path, **by_rule)
    asked = found["lab"].tally
    assert (planned.asked, planned.wanted) == (asked.asked, asked.wanted)
    assert asked.asked > 0

    # The verdicts, brought to another place, give the same without any model.
    count = len(Journal(tmp_path / "journal.sqlite").list_lines())
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "other.sqlite"))
    assert import_verdicts(Journal(tmp_path / "other.sqlite"), tmp_path / "journal.sqlite") == (count, 0)
    monkeypatch.setattr(opening, "open_model", lambda spec, journal, dtype="": pytest.fail("a model was opened"))
    second, again = ask(name, tmp_path, **by_rule)
    pd.testing.assert_frame_equal(first, second)
    assert again["lab"].tally.asked == 0


def test_a_model_of_the_paper_fills_its_published_rows_only_when_asked_as_published(model, tmp_path, monkeypatch):
    own = read_prompt_set(PROJECT, "own")
    monkeypatch.setattr(judging, "read_prompt_set", lambda root, name: own)
    name = {"judge": "hf:mistralai/Mistral-7B-Instruct-v0.2", "data": "sample", "out": str(tmp_path)}
    as_published = {"prompts": "upstream"}
    assert open_lab("linkage/table_02", **name, **as_published).judge_name == "mistral"
    assert open_lab("linkage/table_02", **name, **as_published, wrapping="plain").judge_name == "mistral"
    for changed in ({"prompts": "own"}, {"decoding": "greedy"}, {"reading": "logits"}):
        assert open_lab("linkage/table_02", **name, **(as_published | changed)).judge_name == "judge"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_without_a_judge_nothing_is_asked(name, tmp_path):
    found = run_cells(name, tmp_path, "ask", judge="", generator="")
    assert found["asked"].empty
    assert found["lab"].tally.wanted == 0


def mumble(request: Request) -> str:
    unclear = hashlib.sha256(request.prompt.encode()).digest()[0] < 48  # whatever the seed
    return "I can't say." if unclear else answer_by_rule(request)


def test_a_question_of_table_5_with_an_unreadable_verdict_is_left_out_with_the_reason(model, tmp_path):
    model(mumble)
    table, found = ask("table_05", tmp_path, limit=None)
    row = table.query("metric == 'listwise' and statistic == 'acc_best'").iloc[0]
    assert row.dropped > 0
    assert row.dropped_because == f"unreadable {row.dropped}"
    assert row.n + row.dropped == len(found["webglm"].questions)


def test_an_unreadable_verdict_is_missing_and_counted_and_never_a_default(model, tmp_path):
    model(mumble)
    table, found = ask("table_07", tmp_path, limit=None)
    share = table.query("shots == 0 and statistic == 'missing_verdicts'").iloc[0]
    assert 0.05 < share.value < 0.5
    assert share.dropped_because == f"unreadable {share.dropped}"
    assert table.query("shots == 0 and statistic == 'spearman'").value.notna().all()
    lost = found["asked"].query("score.isna()")
    assert set(lost.missing) == {"unreadable"}


def test_solved_examples_come_from_another_dataset_than_the_judged_one(model, tmp_path):
    seen: list[str] = []

    def listen(request: Request) -> str:
        seen.append(request.prompt)
        return answer_by_rule(request)

    model(listen)
    _, found = ask("table_07", tmp_path)
    own = {question.text for question in found["questions"].questions}
    others = {question.text for question in found["lab"].load("antique").questions}
    asked = [re.findall(r"<question>\n(.*?)\n</question>", prompt, re.DOTALL) for prompt in seen]
    assert {len(questions) - 1 for questions in asked} == {0, 1, 3, 5}
    for *examples, judged in asked:
        assert judged in own
        assert set(examples) <= others


def test_without_a_generator_a_judge_sees_degraded_references_and_no_published_row_is_filled(model, tmp_path):
    table, _ = ask("table_03", tmp_path, generator="")
    assert set(zip(table.metric, table.references, strict=True)) == {
        ("pointwise", ""), ("pointwise_ref", "degraded"), ("pairwise", "degraded"), ("listwise", "degraded"),
    }  # fmt: skip
    filled = {columns["metric"] for columns in list_judged("table_03") if match_rows(table, columns).any()}
    assert filled == {"pointwise"}  # sees no reference, so it is the same either way


@pytest.mark.slow
def test_the_embedded_judge_takes_references_that_models_wrote(model, tmp_path):
    found = run_cells("table_03", tmp_path, judge="", generator="openai:a, openai:b", n_seeds=1)
    rows = found["table"].query("references == 'written' and questions == ''")
    assert set(rows.output) == {"score", "rank"}
    assert set(rows.training) == {"zero-shot", "trained"}
    assert rows.signature.str.contains("generators:openai:a+openai:b", regex=False).all()
    assert (rows.n > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_whole_notebook_has_the_judge_s_rows_in_its_table(name, model, tmp_path):
    found = run_cells(name, tmp_path, n_seeds=3)
    for columns in list_judged(name):
        assert match_rows(found["table"], columns).sum() == 1, columns
    assert {path.name for path in tmp_path.glob(f"{name}.*")} >= {f"{name}.csv", f"{name}.png", f"{name}.usage.json"}
