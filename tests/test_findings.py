"""Findings follow their numbers: with the sign of a difference turned round, the word for it turns as well."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from conftest import PROJECT
from notebook_cells import run_cells

from reproduction.notebooks import read_cells
from reproduction.papers import find_artefact, read_papers
from reproduction.values import query_rows, read_values

SETS = {"antique": SimpleNamespace(name="antique"), "trec": SimpleNamespace(name="trec_dl_nf")}
TURNED = [  # artefact, the rows whose sign is turned, words before and after, names that the finding takes besides
    ("linkage/table_02", "difference_from == 'bertscore'", "above it on ANTIQUE (0.085", "below it on ANTIQUE (-0.085", {}),
    (
        "linkage/table_06",
        "difference_from != ''",
        "3210 helps: ANTIQUE with trained weights",
        "3210 hurts: ANTIQUE with trained weights",
        {},
    ),
    ("linkage/table_07", "difference_from != ''", "is a loss (-", "is a gain (0", {}),
]


def read_findings(identifier: str, table: pd.DataFrame, names: dict[str, Any], tmp_path: Path) -> str:
    """What a notebook's finding says of a table, by its own cells."""
    paper, name = find_artefact(read_papers(PROJECT), identifier)
    notebook = paper.artefacts[name].path
    options = {"data": "full", "out": str(tmp_path)} | paper.artefacts[name].parameters
    result = run_cells(notebook, options, ["parameters", "setup"]) | names | {"table": table}
    for cell in read_cells(notebook):
        if "figure" in cell["tags"] or "print(*findings" in cell["source"]:
            exec(compile(cell["source"], str(notebook), "exec"), result)
    return " ".join(result["findings"])


@pytest.mark.parametrize(("identifier", "query", "before", "after", "names"), TURNED)
def test_a_finding_turns_with_its_number(identifier, query, before, after, names, tmp_path) -> None:
    table = read_values(PROJECT / "results" / f"{identifier}.csv")
    turned = query_rows(table, query)
    other = table.copy()
    other.loc[turned, ["value", "low", "high"]] = -table.loc[turned, ["value", "high", "low"]].to_numpy()
    finding, other_finding = (read_findings(identifier, one, dict(names), tmp_path) for one in (table, other))
    assert before in finding
    assert after not in finding
    assert after in other_finding
    assert before not in other_finding
