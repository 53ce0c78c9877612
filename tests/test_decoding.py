"""Figures 8 and 9: one text a claim and cell of the grid, by any generator, or by an embedded model that restates."""

from __future__ import annotations

import pytest
from notebook_cells import run_notebook, use_rule

from nfqa.judge.asking import Asker
from nfqa.models.chat import Failure, Reply

NOTEBOOK, ASKED = "debateqa/figure_08_09_decoding", ("parameters", "setup", "ask")


@pytest.mark.parametrize("measure", ["pd", "da"])
def test_every_cell_is_asked_for_and_a_plan_counts_them(measure, monkeypatch, tmp_path):
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))
    use_rule(monkeypatch, lambda request: f"It is disputed, {len(request.prompt)} times.")
    monkeypatch.setenv("NFQA_DRY", "1")
    given = {"out": tmp_path, "tags": ASKED, "generator": "openai:any", "limit": 2, "measure": measure}
    planned = run_notebook(NOTEBOOK, **given)["lab"].tally
    monkeypatch.delenv("NFQA_DRY")
    found = run_notebook(NOTEBOOK, **given)
    assert planned.asked == found["lab"].tally.asked == 25 * len(found["points"])
    assert {(part.temperature.iloc[0], part.top_p.iloc[0]) for part in found["written"]} == {
        (t, p) for t in found["grid"] for p in found["grid"]
    }
    assert run_notebook(NOTEBOOK, **given)["lab"].tally.asked == 0, "all of it is in the journal"


def test_a_claim_without_a_text_in_one_cell_has_no_mean_over_it(monkeypatch, tmp_path):
    def write(asker, prompts, *, seed):
        missing = asker.decoding.temperature == asker.decoding.top_p == 0.2
        reply, none = Reply("Some say yes, some no.", 9, 6), Failure("empty", "")
        return [none if missing and not place else reply for place, _ in enumerate(prompts)]

    monkeypatch.setattr(Asker, "reply", write)
    found = run_notebook(NOTEBOOK, out=tmp_path, generator="openai:any", measure="da", limit=2)
    table, claims = found["table"].query("metric == 'da'"), len(found["points"])
    touched = table[
        (table.statistic == "change") | (table.along != "both") & ((table.temperature == 0.2) | (table.top_p == 0.2))
    ]
    assert len(touched) == 4
    assert list(touched.n) == [claims - 1] * 4
    assert list(touched.dropped) == [1] * 4
