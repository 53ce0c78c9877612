"""The paper's register and the results files: what doesn't fit is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import STUDY, write_notebook

from nfqa.data.registry import read_yaml
from nfqa.lab.artefacts import list_leaves, read_papers
from nfqa.lab.notebooks import read_parameters

PROJECT = Path(__file__).parents[1]


def write_papers(root: Path, text: str) -> Path:
    (root / "papers").mkdir()
    (root / "papers" / "made_up.yml").write_text(text)
    return root


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("title: A paper", "titel: A paper", "unknown field 'titel'; did you mean title? known: paper, title"),
        ("title: A paper for tests", "", "title is missing"),
        ("label: ", "lable: ", "artefacts.first: unknown field 'lable'"),
        ('number: "1.00"', "number: 1.00", "first.leaves.ours.antique.number is 1.0; input should be a valid string"),
        ("leaves: {ours", "leaves: {theirs", "first.leaves: unknown 'theirs'; known: ours"),
        ("reads: [first]", "reads: [frist]", "second.reads: unknown 'frist'; known: first, second"),
        ("reads: [first]", "cites: [frist]", "second.cites: unknown 'frist'"),
        ("systems:", "systems: [", "not YAML"),
        ("title: A paper for tests", "title: A\ntitle: B", "the key 'title' is duplicated"),
        ('number: "1.00"', 'number: "n/a"', "string should match pattern"),
        (
            "datasets: [antique],",
            "datasets: [antique], scale: 7,",
            "artefacts.first.scale is 7; input should be 1 or 100",
        ),
        ("datasets: [antique],", "datasets: [antique], reads: [second],", "first.reads: it would wait for itself"),
        (
            "artefacts:",
            "same_settings: [[first/ours/antique, second/ours/antique]]\nartefacts:",
            "'second/ours/antique' has",
        ),
        ('number: "1.00"', f'number: "{"9" * 400}"', "string should match pattern"),
        ('number: "1.00"', 'number: "٣"', "string should match pattern"),
        ("datasets: [antique],", "datasets: [antique], roles: [jugde],", "first.roles[0] is 'jugde'"),
        ("datasets: [antique],", "datasets: [antique], decimals: -3,", "first.decimals is -3"),
        ("paper: made_up", "paper: ../up", "paper is '../up'"),
        ("  third: ", "  ../third: ", "is '../third'"),
        ("artefacts:", "same_settings: [[first/ours]]\nartefacts:", "'first/ours' has no leaves"),
        (
            "artefacts:",
            "same_settings: [[first/ours/antique, first/ours/webglm]]\nartefacts:",
            "spans several datasets",
        ),
    ],
)
def test_a_register_that_does_not_fit_is_refused_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = STUDY.replace('{number: "1.00"}}', '{number: "1.00"}, webglm: {number: "2.00"}}')
    with pytest.raises(ValueError, match=r"made_up\.yml") as error:
        read_papers(write_papers(tmp_path, text.replace(old, new, 1)))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2020-01-01", "timestamp"),
        ("a: 1\nb: !!binary aGk=", "binary"),
        ("a: 1\nb: !!set {x}", "set"),
        ("a: 1\nb: !x 3", "!x"),
        ("a: 1\nb: {<<: {c: 1}}", "merge"),
        ("a: 1\nb: .nan", ".nan is no number"),
        ("a: 1\nb: 1.0e+999", "1.0e+999 is no number"),
        ("a: 1\nb: " + "9" * 400, "is no number"),
        ("a: 1\n2: 1", "the key 2 is no text"),
        ("a: 1\n? [b]\n: 1", "the key ['b'] is no text"),
        ("a: 1\nb: &c [*c]", "alias"),
        ("a: 1\nb: " + "[" * 100_000, "levels deep"),
        ("a: 1\n" + "? " * 100_000 + "b", "levels deep"),
        ("a: 1\nb: " + "9" * 5000, "digits"),
        *(
            (f"a: 1\nb: {text}", f"{text} would be read as {value}")
            for text, value in (
                ("010", "8"),
                ("0x10", "16"),
                ("1_000", "1000"),
                ("1:30", "90"),
                ("+5", "5"),
                (".5", "0.5"),
                ("yes", "true"),
            )
        ),
        ("a: 1\n010: 1", "010 would be read as 8"),
        ("a: 1\nb: !!bool c", "'c'"),
    ],
)
def test_yaml_holds_what_json_has_and_all_else_is_refused_by_file_and_line(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "made_up.yml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"made_up\.yml") as error:
        read_yaml(path)
    said = str(error.value)
    assert words in said
    assert "line 2" in said or words in ("digits", "'c'")  # what Python's own conversions refuse names no line
    assert "\n" not in said


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
    ("content", "words"),
    [
        (["n = 3\nm = n + 1"], "parameter m is not a literal"),
        (["import os"], "may hold `name = literal` lines only"),
        ('{"cells": []}', "no cell is tagged `parameters`"),
        ("[", "not a notebook"),
        ("[" * 100_000, "not a notebook"),
        (
            '{"cells": [{"cell_type": "code", "source": "n = 3", "metadata": []}]}',
            r"not a notebook: cells\[0\].metadata is",
        ),
        ('{"cells": [{"cell_type": "code", "source": "n = 3", "metadata": {"tags": 1}}]}', "metadata.tags is 1"),
        (["n = {[]: 1}"], "parameter n is not a literal"),
        (["n = " + "-" * 20_000 + "1"], "nested too deeply"),
        ("", "no such notebook"),
    ],
)
def test_a_notebook_whose_parameters_cannot_be_read_is_refused(
    tmp_path: Path, content: str | list[str], words: str
) -> None:
    path = tmp_path / "n.ipynb"
    if isinstance(content, list):
        write_notebook(path, content)
    elif content:
        path.write_text(content)
    with pytest.raises(ValueError, match=rf"n\.ipynb: .*{words}"):
        read_parameters(path)
