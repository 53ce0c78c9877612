"""DebateQA's notebooks: what they ask a language model, on the bundled sample with a rule as the model, and prompts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from notebook_cells import run_notebook, use_rule
from test_evaluator import find_released_value
from test_people_notebooks import PlainEmbedder
from test_prompts import use_own

from nfqa.judge.prompts import PromptSet
from nfqa.models.chat import Request
from reproduction.open import Lab, open_lab
from reproduction.values import match_rows

ASKED = ("parameters", "setup", "ask")
LABELS, AGREEMENT = "debateqa/table_03_dispute_awareness", "debateqa/figure_05_agreement_of_decisions"
PROMPTS = "debateqa/table_05_prompts"
RETRIEVAL = "debateqa/table_06_retrieval"
DECIDERS = [("da", "demonstrations", "text"), ("da", "zero_shot", "text")]
ASKS_THE_QUESTION = [("da", "with_question", "text"), ("delphi_acknowledgement", "", "text")]


def decide(request: Request) -> str:
    """A verdict by the length of the answer to judge; an answer by the length of what is asked."""
    if request.labels:
        return f"[[{len(request.prompt.rpartition('<candidate>')[2]) % 2}]]"
    return "" if "detailed" in request.prompt else f"It is disputed, {len(request.prompt)} times."


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[Request], str]], None]:
    """Fill every language model's place by a rule."""
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))

    use_rule(monkeypatch, decide)
    return partial(use_rule, monkeypatch)


@pytest.mark.parametrize(("name", "given"), [(LABELS, {}), (AGREEMENT, {"answers": 5})])
@pytest.mark.parametrize("judge", ["", "openai:any", "hf:any/model"])
def test_a_judge_decides_in_every_form_and_a_model_in_process_from_its_logits_too(name, given, judge, model, tmp_path):
    found = run_notebook(name, out=tmp_path, tags=ASKED, judge=judge, **given)
    judged, n = found["judged"], len(found["answers" if name == LABELS else "drawn"])
    if not judge:
        assert judged.empty
        assert found["lab"].tally.wanted == 0
        return
    ways = set(judged.groupby(["metric", "form", "reading"]).groups)
    logits = {("da", form, "logits") for form in ("demonstrations", "zero_shot", "with_question")}
    assert ways == {*DECIDERS, *ASKS_THE_QUESTION} | (logits if judge.startswith("hf:") else set())
    assert len(judged) == n * len(ways)
    unknown = judged.form.isin(["with_question", ""])  # the texts of these answers' questions aren't released
    assert set(judged[unknown].missing) == {"no_question"}
    assert judged[~unknown].score.notna().all()
    assert (~unknown).sum() == found["lab"].tally.wanted
    assert set(judged[~unknown & (judged.reading == "logits")].score) <= {0.0}  # the rule's first label leads


@pytest.mark.parametrize(("name", "given"), [(LABELS, {}), (AGREEMENT, {"answers": 4}), (PROMPTS, {"limit": 3})])
def test_a_plan_counts_what_is_then_asked(name, given, model, tmp_path, monkeypatch):
    role = {"generator": "openai:any"} if name == PROMPTS else {"judge": "openai:any"}
    monkeypatch.setenv("NFQA_DRY", "1")
    planned = run_notebook(name, out=tmp_path, tags=ASKED, **role, **given)["lab"].tally
    monkeypatch.delenv("NFQA_DRY")
    asked = run_notebook(name, out=tmp_path, tags=ASKED, **role, **given)["lab"].tally
    assert planned.asked == asked.asked > 0


def test_answers_are_thinned_by_hash_and_keep_their_order(tmp_path):
    few, more = (run_notebook(AGREEMENT, out=tmp_path, tags=ASKED, answers=count) for count in (5, 6))
    assert len(few["drawn"]) == 5
    assert set(few["drawn"].question) < set(more["drawn"].question)
    assert few["drawn"].index.is_monotonic_increasing


@pytest.mark.slow
def test_whole_notebooks_have_the_language_model_s_rows(model, tmp_path, monkeypatch):
    monkeypatch.setattr(Lab, "embedder", PlainEmbedder())
    table = run_notebook(LABELS, out=tmp_path, resamples=20, judge="openai:any")["table"]
    for metric, form, reading in DECIDERS:
        own = {"dataset": "sample_demo_answers", "metric": metric, "method": "judge", "form": form, "reading": reading}
        for statistic in ("accuracy", "f1", "auroc", "mcc", "share_aware"):
            assert match_rows(table, own | {"statistic": statistic}).sum() == 1
    not_run = table[table.dropped_because.str.startswith("no_question")]
    assert set(zip(not_run.metric, not_run.form, not_run.reading, strict=True)) == set(ASKS_THE_QUESTION)
    assert not_run.value.isna().all()
    table = run_notebook(AGREEMENT, out=tmp_path, resamples=20, judge="openai:any", answers=6)["table"]
    assert (table.statistic == "kappa").sum() == 8 * 7 / 2
    table = run_notebook(PROMPTS, out=tmp_path, generator="openai:a, openai:b", limit=3)["table"]
    assert set(table.level) == {"basic", "comprehensive", "detailed"}
    assert set(table.generator) == {"a", "b"}


def test_generators_answer_under_each_prompt_and_what_they_do_not_give_is_missing(model, tmp_path):
    model(lambda request: "" if len(request.prompt) % 4 == 3 else f"It has {len(request.prompt)} letters.")
    written = run_notebook(PROMPTS, out=tmp_path, tags=ASKED, generator="openai:a, openai:b", limit=3)["written"]
    assert len(written) == 3
    rows = pd.concat(written)
    assert len(rows) == len(rows.drop_duplicates(["system", "level", "question"])) == 2 * 3 * rows.question.nunique()
    assert rows.text.dropna().str.startswith("It has ").all()
    assert 0 < rows.text.notna().sum() < len(rows)
    assert run_notebook(PROMPTS, out=tmp_path, tags=ASKED, generator="")["written"] == []


def test_a_set_whose_claims_have_too_few_perspectives_is_refused(monkeypatch, tmp_path):
    load = Lab.load

    def load_few(lab: Lab, name: str, **how: Any) -> Any:
        found = load(lab, name, **how)
        return replace(
            found, questions=tuple(replace(q, partial_answers=q.partial_answers[:2]) for q in found.questions)
        )

    monkeypatch.setattr(Lab, "load", load_few)
    with pytest.raises(ValueError, match="sample_debateqa_test: no question has 3 partial answers"):
        run_notebook(PROMPTS, out=tmp_path, tags=ASKED)


@pytest.mark.parametrize("name", [RETRIEVAL])
def test_a_generator_searches_in_steps_and_answers_and_what_it_leaves_out_is_missing(name, model, tmp_path):
    def reply(request: Request) -> str:
        if "Nothing was searched yet." in request.prompt:
            return "Thought: begin\nSearch: homework" if "homework" in request.prompt else "no decision"
        if "Search: homework" in request.prompt:
            return "Finish"
        return "" if "cars" in request.prompt and "document number" in request.prompt else "Some say yes, others no."

    model(reply)
    found = run_notebook(name, out=tmp_path, tags=ASKED, generator="openai:a, openai:b", collector=2)
    steps, written = found["steps"], pd.concat(found["written"])
    assert {"finished", "unreadable"} <= set(steps.ended)
    assert not steps.duplicated(["question", "step"]).any()  # one model collects for both
    assert written[written.retrieval == "react"].made.str.endswith("|collector:openai:b").all()
    assert not written[written.retrieval == "vanilla"].made.str.contains("collector").any()
    read = written[written.retrieval == "react"].groupby("generator").documents.agg(list)
    assert read[1] == read[2]
    assert set(written.generator) == {1, 2}
    assert set(written.retrieval) == {"no_retrieval", "vanilla", "react"}
    vanilla = written[written.retrieval == "vanilla"]
    assert vanilla.text.isna().any()
    assert set(written.text.dropna()) == {"Some say yes, others no."}
    assert run_notebook(name, out=tmp_path, tags=ASKED, generator="")["written"] == []
    with pytest.raises(ValueError, match="collector is 2; expected at most 1"):
        run_notebook(name, out=tmp_path, tags=ASKED, generator="openai:a", collector=2)


def test_a_generator_answers_from_each_set_of_pages_and_no_page_serves_both_sides(model, tmp_path):
    model(lambda request: f"It has {len(request.prompt)} letters.")
    found = run_notebook("debateqa/table_07_sources", out=tmp_path, generator="openai:a")
    answers, picked, read = found["answers"], found["picked"], found["read"]
    assert answers.text.str.startswith("It has ").all()
    assert (answers.groupby(["question", "fold"]).sources.nunique() == 4).all()
    keys = ["question", "fold", "address"]
    assert picked[keys].merge(read[keys]).empty
    sizes = picked[picked.sources != "all_pages"].groupby(["question", "fold", "sources"]).size().unstack()
    assert sizes.eq(sizes.any_pages, axis=0).all(axis=None)
    assert picked[picked.sources == "trusted_pages"].trusted.all()
    assert set(found["table"].generator.dropna()) == {1}


def test_reading_prompt_and_completion_together_finds_the_prompts_own_digits(tmp_path):
    table = run_notebook("debateqa/table_14_dispute_prompts", out=tmp_path)["table"]
    value = {(row.form, row.reading, row.statistic): row.value for row in table.itertuples()}
    for form in ("demonstrations", "zero_shot"):
        said = value[form, "", "share_said"]
        assert 0 < said < 1
        assert value[form, "completion", "read_right"] == 1.0
        assert value[form, "completion", "share_read"] == said
        assert value[form, "together_first_digit", "share_read"] in (0.0, 1.0)  # always the same one
        assert value[form, "together_all", "read_right"] < 0.5
        assert value[form, "", "placeholders"] == 1
        assert (value[form, "", "lowest"], value[form, "", "highest"]) == (0, 1)
    # the first demonstration's verdict is 0: right as often as 0 was said
    assert value["demonstrations", "together_first_demonstration", "read_right"] == 1 - said
    assert value["demonstrations", "", "demonstrations"] == 3
    assert value["demonstrations", "", "demonstrations_aware"] == 1
    assert value["zero_shot", "", "demonstrations"] == 0


@pytest.mark.skipif(not os.environ.get("NFQA_MIRROR"), reason="NFQA_MIRROR is not set")
def test_the_released_prompt_is_counted_and_not_kept_and_its_script_reads_1_whatever_is_said(tmp_path):
    found = run_notebook("debateqa/table_14_dispute_prompts", out=tmp_path, data="full", limit=30)
    value = {(row.form, row.reading, row.statistic): row.value for row in found["table"].itertuples()}
    for form, demonstrations in {"released_demonstrations": 3, "released_zero_shot": 0}.items():
        assert value[form, "", "demonstrations"] == demonstrations
        assert value[form, "", "placeholders"] == 2
        assert value[form, "completion", "read_right"] == 1
        assert value[form, "together_first_digit", "share_read"] == 1
        assert 0 < value[form, "", "share_said"] < 1
    drawn = " ".join(text.get_text() for axes in found["figure"].axes for text in axes.texts)
    kept = drawn + " ".join(path.read_text() for path in tmp_path.glob("*.[cj]*"))
    released = found["released"].get("dispute_awareness").text
    assert not [line for line in released.splitlines() if len(line) > 30 and line in kept]


def test_the_released_number_is_run_with_the_test_split_and_published_for_the_scripts_models_alone(
    tmp_path, monkeypatch, folders
):
    tags, own = ("parameters", "setup", "released"), f"path:{folders['gpt2']}"
    monkeypatch.setenv("NFQA_DEVICE", "cpu")
    found = run_notebook("debateqa/pd_variants", out=tmp_path, tags=tags, evaluator=own)
    (row,) = found["released_number"].to_dict("records")
    assert (row["metric"], row["evaluator"], row["variant"], row["n"]) == ("pd", "gpt2", "script", 8)
    answers, views = found["joined"], found["test"].views.groupby("question")
    values = [
        find_released_value(
            folders["gpt2"], "right", answer.text, list(zip(view.point_of_view, view.explanation, strict=True))
        )
        for answer, view in ((answer, views.get_group(answer.question)) for answer in answers.itertuples())
    ]
    assert row["value"] == pytest.approx(sum(values) / len(values), rel=1e-5)

    monkeypatch.setattr(Lab, "evaluator", found["lab"].evaluator)  # in GPT-2's place
    found = run_notebook("debateqa/pd_variants", out=tmp_path, tags=tags, evaluator="hf:gpt2@main")
    (row,) = found["released_number"].to_dict("records")
    assert (row["metric"], row["statistic"], "evaluator" in row) == ("released_script", "mean_pd", False)
    assert "wrap:plain:'{answer}<|endoftext|>'" in row["signature"]
    monkeypatch.setattr(Lab, "has", lambda lab, name: False)
    assert run_notebook("debateqa/pd_variants", out=tmp_path, tags=tags, evaluator=own)["released_number"].empty


BASELINES = "direct_score g_eval_steps g_eval count_povs"
ANSWERS = "answer_basic answer_comprehensive answer_detailed"


@pytest.mark.parametrize(("given", "facts"), [(BASELINES, 9), ("answer_basic", 1), (ANSWERS, 4)])
def test_what_the_sources_say_of_a_prompt_holds_for_ours(given: str, facts: int, tmp_path: Path) -> None:
    found = run_notebook("debateqa/table_12_15_17_prompts", out=tmp_path, prompts=given)
    held = found["table"].query("statistic == 'holds'")
    assert list(held.value) == [1.0] * facts
    assert set(held.prompt) == set(given.split())
    assert found["texts"].iloc[0].tolist() == [template.text for template in found["templates"].values()]


def test_a_fact_that_does_not_hold_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    detailed = use_own().get("answer_detailed")
    monkeypatch.setattr(PromptSet, "get", lambda *_: detailed)
    found = run_notebook("debateqa/table_12_15_17_prompts", out=tmp_path, prompts="answer_basic")
    assert "0 of 1 " in found["findings"][0]


def test_prompts_for_views_count_the_facts_that_hold_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    extract = use_own().get("extract_views")
    monkeypatch.setattr(PromptSet, "get", lambda *_: extract)
    assert "3 of 6 " in run_notebook("debateqa/table_11_prompts", out=tmp_path)["findings"][0]


@pytest.mark.parametrize(
    ("spec", "name"), [("embedded:tiny", "tiny"), ("hf:openai-community/gpt2", "gpt2"), ("", "small")]
)
def test_the_evaluator_s_name_in_results(spec, name, tmp_path):
    assert open_lab("debateqa/table_05", data="sample", evaluator=spec, out=str(tmp_path)).evaluator_name == name
