"""DebateQA's main experiment, whole: three generators, two evaluators and two judges on a test split of its format."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT
from notebook_cells import RuleModel, run_notebook
from test_people_notebooks import PlainEmbedder
from tiny_models import make_tiny_model

from nfqa import opening
from nfqa.models.chat import Request
from reproduction.open import Lab
from reproduction.papers import read_papers

DEBATEQA = read_papers(PROJECT)["debateqa"]
GENERATORS = {"openai:gpt-4o": "gpt_4o", "openai:own/writer": "writer", "openai:gemma-2-9b-it": "gemma_2_9b"}
JUDGES = ["strict", "lenient"]
DATASET = "sample_debateqa_test"


def reply(model: str, request: Request) -> str:
    """A judge's verdict, or an answer whose length depends on model and prompt."""
    number = hashlib.sha256(f"{model}{request.seed}{request.prompt}".encode()).digest()[0]
    if "[[" in request.prompt:
        return f"[[{number % 2}]]"
    return " ".join(["Some say yes, others say no."] * (1 + number % 7))


class Queries(PlainEmbedder):
    """The same with queries as any text."""

    embed_queries = PlainEmbedder.embed_sentences


@pytest.fixture(scope="module")
def evaluators(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("evaluators")
    return ",".join(f"path:{make_tiny_model(folder / name, chat=name == 'one')}" for name in ("one", "three"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, evaluators: str) -> Callable[..., dict[str, Any]]:
    """Run an artefact's notebook with all roles filled by models, on the sample."""
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))
    monkeypatch.setattr(Lab, "embedder", Queries())
    monkeypatch.setattr(Lab, "cache", tmp_path)
    monkeypatch.setattr(
        opening, "open_model", lambda spec, journal, dtype="": RuleModel(spec, partial(reply, spec.name))
    )

    def execute(name: str, **given: Any) -> dict[str, Any]:
        artefact = DEBATEQA.artefacts[name]
        roles = {"evaluator": evaluators, "judge": ",".join(f"openai:{name}" for name in JUDGES)}
        roles |= {"generator": ",".join(GENERATORS), "resamples": 50, "artefact": f"debateqa/{name}", "limit": 4}
        chosen = roles | artefact.parameters | given
        return run_notebook(str(artefact.notebook).removesuffix(".ipynb"), out=tmp_path, **chosen)

    return execute


def test_table_4_has_every_system_by_every_evaluator_and_judge(run: Callable[..., dict[str, Any]]) -> None:
    table = run("table_04")["table"]
    assert set(table.dataset) == {DATASET}
    assert set(table.origin) == {"sample"}
    means = table[table.statistic == "mean"]
    assert set(means.system) == set(GENERATORS.values())
    found = means.groupby("metric")[["evaluator", "variant", "judge"]].agg(lambda column: sorted({*column}))
    assert found.loc["pd"].tolist() == [["one", "three"], ["paper", "released"], [""]]
    assert found.loc["da", "judge"] == sorted(JUDGES)
    assert (means.n == 4).all()
    assert means.value.notna().all()
    assert set(table.query("statistic == 'normalised_rank'").value.between(0, 1)) == {True}
    assert set(table.query("metric == 'answers'").value) == {0}


def test_figures_6_and_7_rank_the_systems(run: Callable[..., dict[str, Any]]) -> None:
    plane = run("figure_06")["table"]
    assert set(plane.query("statistic == 'mean'").system) == set(GENERATORS.values())
    places = run("figure_07")["table"]
    assert set(places.among) == {3}  # no place beside one among the paper's twelve
    assert sorted(places.query("k == 1").value) == [1, 2, 3]


def test_figures_3_and_4_compare_orders_of_the_same_answers(run: Callable[..., dict[str, Any]]) -> None:
    evaluators = run("figure_03")["table"]
    assert set(evaluators.query("pairs == ''").evaluator) | set(evaluators.query("pairs == ''").against_evaluator) == {
        "one",
        "three",
    }
    wordings = run("figure_04")["table"]
    assert wordings.instruction.nunique() == 5  # ten pairs, and "" of the summary
    assert {*evaluators.dataset, *wordings.dataset} == {DATASET}


def test_table_5_has_every_generator_under_every_prompt(run: Callable[..., dict[str, Any]]) -> None:
    table = run("table_05")["table"]
    assert set(table.answers) == {"prompted"}
    means = table[(table.difference_from == "") & (table.metric == "da")]
    wanted = product(GENERATORS.values(), ("basic", "comprehensive", "detailed"), JUDGES)
    assert {*zip(means.generator, means.level, means.judge, strict=True)} == {*wanted}
    assert set(table[table.metric == "pd"].evaluator) == {"one", "three"}


def test_figures_8_and_9_sample_every_generator_at_every_setting(run: Callable[..., dict[str, Any]]) -> None:
    for name, column, members in (("figure_08", "evaluator", {"one", "three"}), ("figure_09", "judge", set(JUDGES))):
        table = run(name, limit=3, generator="openai:gpt-4o,openai:own/writer")["table"]
        cells = table[(table.along == "both") & table.metric.isin(["pd", "da"])]
        assert set(cells[column]) == members
        assert len(cells) == 25 * 2 * 2
        assert set(cells.generator) == {"gpt_4o", "writer"}


def test_figure_10_asks_for_lengths(run: Callable[..., dict[str, Any]]) -> None:
    table = run("figure_10")["table"]
    assert set(table.cut) == {*(f"about {tokens} tokens" for tokens in (50, 100, 200, 400)), "whole"}
    assert set(table.dataset) == {DATASET}


def test_tables_18_and_19_set_generators_beside_each_other(run: Callable[..., dict[str, Any]]) -> None:
    alone = run("table_18")["table"]
    assert set(alone.answer) == {"gpt_4o", "gpt_4o, with passages", "the question alone"}
    pairs = run("table_19")["table"]
    assert pairs.question.nunique() == 2
    assert set(pairs.answer) - {"the question alone"} < set(GENERATORS.values())
