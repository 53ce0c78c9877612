"""What each way of judging costs, and reasons that name our numbers: committed results, and the notebook."""

from __future__ import annotations

import re

import pytest
from conftest import PROJECT
from notebook_cells import run_notebook

from reproduction.papers import read_papers
from reproduction.values import pick, read_values

RESULTS = PROJECT / "results" / "linkage"


@pytest.mark.slow
def test_requests_are_as_many_as_the_equations_say(tmp_path):
    names = run_notebook("linkage/cost", out=tmp_path)
    assert names["checked"].nunique().eq(1).all()  # by arithmetic, and with the prompts written out
    table, lists = names["table"].query("references != 'the best alone'"), names["lists"]
    for dataset, part in lists.groupby("dataset"):
        n = part.draw.map(lambda draw: len(draw.candidates))
        wanted = {
            "pointwise": n.sum(), "listwise": n.sum(), "pairwise_candidates": (n * (n - 1) // 2).sum(),
            "pairwise": (n * part.draw.map(lambda draw: len(draw.references))).sum(),
        }  # fmt: skip
        result = table[(table.dataset == dataset) & (table.statistic == "requests")].set_index("metric").value
        assert {name: set(result.loc[[name]]) for name in wanted} == {name: {count} for name, count in wanted.items()}
        assert all(prompt.count(text) == 1 for prompt, text in list_worked(names, part))


def list_worked(names, part):
    """The pairwise prompts of a question's first candidate, each with the reference that it shows."""
    draw = next(one for one in part.draw if one.candidates)
    single = names["replace"](draw, candidates=draw.candidates[:1])
    prompts = names["list_prompts"]([single], "pairwise", names["sets"]["own"])
    return zip(prompts, [reference.text for reference in draw.references], strict=True)


def test_reasons_name_the_numbers_that_were_measured():
    rows = read_papers(PROJECT)["linkage"].published.query("artefact == 'table_02' and metric == 'bleu'")
    rows = rows[(rows.dataset == "antique") & (rows.statistic != "pearson")]
    assert len(rows) == 2
    table = read_values(RESULTS / "definitions.csv")
    for row in rows.itertuples():
        of = {"dataset": "antique", "metric": "bleu", "statistic": row.statistic}
        ours = pick(table, decision="implementation", choice="sacrebleu", **of)
        numbers = [f"{number:.3f}" for number in (ours.value, ours.spread, pick(table, **of).value)]
        assert re.findall(r"0\.\d{3}\b", row.reason) == numbers
        assert abs(ours.value - row.published) < ours.spread
