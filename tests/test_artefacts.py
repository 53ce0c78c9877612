"""The paper's register and the results files: what doesn't fit is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import STUDY, write_notebook

from nfqa.lab.artefacts import Artefact, Leaf, list_leaves, read_papers
from nfqa.lab.notebooks import list_modules, read_parameters
from nfqa.lab.results import Result, Row, compare_with_leaf, read_result, write_result

PROJECT = Path(__file__).parents[1]


def make_row(value: float | None, low: float | None = None, high: float | None = None, system: str = "s") -> Row:
    return Row(
        system=system, dataset="d", metric="m", value=value, ci_low=low, ci_high=high, signature="x", kernels=(),
        origin="measured",
    )  # fmt: skip


def write_papers(root: Path, text: str) -> Path:
    (root / "papers").mkdir()
    (root / "papers" / "made_up.yml").write_text(text)
    return root


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("title: A paper", "titel: A paper", "title: Field required"),
        ("label: ", "lable: ", "artefacts.first.label: Field required"),
        (
            'number: "1.00"',
            "number: 1.00",
            "artefacts.first.leaves.ours.antique.number: Input should be a valid string",
        ),
        ("leaves: {ours", "leaves: {theirs", "first.leaves.theirs: not listed under systems"),
        ("reads: [first]", "reads: [frist]", "second.reads: unknown artefact 'frist'"),
        ("systems:", "systems: [", "not YAML"),
        ("title: A paper for tests", "title: A\ntitle: B", "the key 'title' stands twice"),
        ('number: "1.00"', 'number: "n/a"', "String should match pattern"),
        ("datasets: [antique],", "datasets: [antique], scale: 7,", "artefacts.first.scale: Input should be 1 or 100"),
        ("datasets: [antique],", "datasets: [antique], reads: [second],", "first.reads: it would wait for itself"),
    ],
)
def test_a_register_that_does_not_fit_is_refused_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ValueError) as error:
        read_papers(write_papers(tmp_path, STUDY.replace(old, new)))
    assert "made_up.yml" in str(error.value)
    assert words in str(error.value)


def test_two_files_of_one_paper_are_refused_and_hidden_files_are_not_read(tmp_path: Path) -> None:
    root = write_papers(tmp_path, STUDY)
    (root / "papers" / "._made_up.yml").write_text("no register")
    assert list(read_papers(root)) == ["made_up"]
    (root / "papers" / "other.yml").write_text(STUDY)
    with pytest.raises(ValueError, match="the paper 'made_up' is registered by another file already"):
        read_papers(root)


def test_percent_leaves_come_in_natural_units_with_their_digits(tmp_path: Path) -> None:
    text = STUDY.replace('number: "1.00"', 'number: "22.90"').replace("datasets:", "scale: 100, datasets:")
    (leaf,) = list_leaves(read_papers(write_papers(tmp_path, text))["made_up"], "first")
    assert (leaf.text, leaf.value, leaf.decimals) == ("22.90", 0.229, 4)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (None, "not run"),
        (make_row(None), "not run"),
        (make_row(0.20883), "equal"),  # rounds to the printed 0.2088
        (make_row(0.20886), "near"),  # rounds to 0.2089, but lies within the tolerance of 0.01
        (make_row(0.25, 0.20, 0.30), "near"),  # off by more, but the published value is in our interval
        (make_row(0.25, 0.24, 0.26), "differs"),
        (make_row(0.25), "differs"),
    ],
)
def test_a_verdict_follows_from_digits_tolerance_and_interval(row: Row | None, verdict: str) -> None:
    artefact = Artefact(label="T", title="t")
    leaf = Leaf("p/t", "s", "d", "m", "0.2088", 0.2088, 4)
    assert compare_with_leaf(row, leaf, artefact)[0] == verdict


def test_a_known_difference_must_match_every_field_that_it_names() -> None:
    leaf = Leaf("p/t", "s", "d", "m", "0.2088", 0.2088, 4)
    for entry, verdict in (
        ({"system": "s"}, "differs, known"),
        ({"metric": "m", "dataset": "d"}, "differs, known"),
        ({"system": "s", "dataset": "other"}, "differs"),
    ):
        artefact = Artefact.model_validate(
            {"label": "T", "title": "t", "known_differences": [{**entry, "reason": "r"}]}
        )
        assert compare_with_leaf(make_row(0.5), leaf, artefact)[0] == verdict


def test_results_are_written_alike_and_read_back(tmp_path: Path) -> None:
    result = Result(
        artefact="p/t", rows=(make_row(1 / 3), make_row(float("nan"), system="u")), provenance={"b": 1, "a": 2}
    )
    for name in ("one.json", "two.json"):
        write_result(tmp_path / name, result)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    again = read_result(tmp_path / "one.json")
    assert again.rows[0].value == 1 / 3  # full precision
    assert again.rows[1].value is None  # undefined is null, never NaN, which is no JSON


def test_two_rows_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"p/t: two rows for \('s', 'd', 'm'\)"):
        write_result(tmp_path / "r.json", Result(artefact="p/t", rows=(make_row(1.0), make_row(2.0)), provenance={}))


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("n = 3\nm = n + 1", "parameter m is not a literal"),
        ("import os", "may hold `name = literal` lines only"),
    ],
)
def test_a_parameters_cell_holds_literals_only(tmp_path: Path, cell: str, words: str) -> None:
    write_notebook(tmp_path / "n.ipynb", [cell])
    with pytest.raises(ValueError, match=words):
        read_parameters(tmp_path / "n.ipynb")


def test_a_notebook_without_parameters_or_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text('{"cells": []}')
    with pytest.raises(ValueError, match="no cell is tagged `parameters`"):
        read_parameters(tmp_path / "n.ipynb")
    (tmp_path / "n.ipynb").write_text("[")
    with pytest.raises(ValueError, match="not a notebook"):
        read_parameters(tmp_path / "n.ipynb")
    with pytest.raises(ValueError, match="no such notebook"):
        read_parameters(tmp_path / "none.ipynb")


def test_a_notebook_depends_on_the_modules_that_it_reaches_and_no_others() -> None:
    folder = PROJECT / "notebooks" / "linkage"
    audit, table = (
        list_modules(folder / name, PROJECT) for name in ("data_audit.ipynb", "table_02_agreement_with_people.ipynb")
    )
    assert "nfqa.metrics.overlap" in table
    assert "nfqa.kernels.rouge" in table  # reached through overlap
    assert "nfqa.lab.experiments.health" not in table
    assert "nfqa.metrics" in table  # its __init__ runs before any module in it
    assert "nfqa.metrics.overlap" not in audit
    assert not [module for module in audit if module.startswith("nfqa.models.causal")]
    assert not {"nfqa.lab.report", "nfqa.lab.runner"} & set(table)
