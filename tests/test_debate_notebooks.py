"""DebateQA's notebooks: what they ask a language model, on the bundled sample with a rule as the model, and prompts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from notebook_cells import run_notebook


def test_reading_prompt_and_completion_together_finds_the_prompts_own_digits(tmp_path):
    table = run_notebook("debateqa/table_14_dispute_prompts", out=tmp_path)["table"]
    value = {(row.form, row.reading, row.statistic): row.value for row in table.itertuples()}
    for form in ("demonstrations", "zero_shot"):
        share = value[form, "", "share_said"]
        assert 0 < share < 1
        assert value[form, "completion", "read_right"] == 1.0
        assert value[form, "completion", "share_read"] == share
        assert value[form, "together_first_digit", "share_read"] in (0.0, 1.0)  # always the same one
        assert value[form, "together_all", "read_right"] < 0.5
    # the first demonstration's verdict is 0: right as often as 0 was said
    assert value["demonstrations", "together_first_demonstration", "read_right"] == 1 - share


@pytest.mark.skipif(not os.environ.get("NFQA_MIRROR"), reason="NFQA_MIRROR is not set")
def test_the_released_prompt_is_counted_and_not_kept_and_its_script_reads_1_whatever_is_said(tmp_path):
    result = run_notebook("debateqa/table_14_dispute_prompts", out=tmp_path, data="full", limit=30)
    value = {(row.form, row.reading, row.statistic): row.value for row in result["table"].itertuples()}
    for form, demonstrations in {"released_demonstrations": 3, "released_zero_shot": 0}.items():
        assert value[form, "", "demonstrations"] == demonstrations
        assert value[form, "", "placeholders"] == 2
        assert value[form, "completion", "read_right"] == 1
        assert value[form, "together_first_digit", "share_read"] == 1
        assert 0 < value[form, "", "share_said"] < 1
    published = " ".join(path.read_text() for path in tmp_path.glob("*.[cj]*"))
    released = result["released"].get("dispute_awareness").text
    assert not [line for line in released.splitlines() if len(line) > 30 and line in published]


BASELINES = "direct_score g_eval_steps g_eval count_povs"
ANSWERS = "answer_basic answer_comprehensive answer_detailed"


@pytest.mark.parametrize(("options", "facts"), [(BASELINES, 9), (ANSWERS, 4)])
def test_what_the_sources_say_of_a_prompt_holds_for_ours(options: str, facts: int, tmp_path: Path) -> None:
    result = run_notebook("debateqa/table_12_15_17_prompts", out=tmp_path, prompts=options)
    held = result["table"].query("statistic == 'holds'")
    assert list(held.value) == [1.0] * facts
    assert set(held.prompt) == set(options.split())
    assert result["texts"].iloc[0].tolist() == [template.text for template in result["templates"].values()]
