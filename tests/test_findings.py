"""Findings follow their numbers: with the sign of a difference turned round, the word for it turns as well."""

from pathlib import Path

import pandas as pd
import pytest
from conftest import PROJECT
from notebook_cells import run_cells

from reproduction.notebooks import read_cells
from reproduction.papers import find_artefact, read_papers
from reproduction.values import query_rows, read_values

TURNED = [  # artefact, the rows whose sign is turned, words before and after
    ("linkage/table_02", "difference_from == 'bertscore'", "above it on ANTIQUE (0.085", "below it on ANTIQUE (-0.085"),
    ("linkage/table_06", "difference_from != ''", "3210 helps: ANTIQUE with", "3210 hurts: ANTIQUE with"),
    ("linkage/table_07", "difference_from != ''", "is a loss (-", "is a gain (0"),
]


def read_findings(identifier: str, table: pd.DataFrame, tmp_path: Path) -> str:
    """What a notebook's finding says of a table, by its own cells."""
    paper, name = find_artefact(read_papers(PROJECT), identifier)
    notebook = paper.artefacts[name].path
    options = {"data": "full", "out": str(tmp_path)} | paper.artefacts[name].parameters
    result = run_cells(notebook, options, ["parameters", "setup"]) | {"table": table}
    for cell in read_cells(notebook):
        if "figure" in cell["tags"] or "print(*findings" in cell["source"]:
            exec(compile(cell["source"], str(notebook), "exec"), result)
    return " ".join(result["findings"])


@pytest.mark.parametrize(("identifier", "query", "before", "after"), TURNED)
def test_a_finding_turns_with_its_number(identifier, query, before, after, tmp_path) -> None:
    table = read_values(PROJECT / "results" / f"{identifier}.csv")
    turned = query_rows(table, query)
    other = table.copy()
    other.loc[turned, ["value", "low", "high"]] = -table.loc[turned, ["value", "high", "low"]].to_numpy()
    finding, other_finding = (read_findings(identifier, one, tmp_path) for one in (table, other))
    assert before in finding
    assert after not in finding
    assert after in other_finding
    assert before not in other_finding
