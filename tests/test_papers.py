"""The papers' register: what doesn't fit is refused with its place; published numbers come in natural units."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from conftest import BOUNDED, NUMBERS, PROJECT, STUDY

from nfqa.models.roles import ROLES
from reproduction.papers import OURS, Paper, find_artefact, list_chosen, read_papers
from reproduction.values import read_values


def write_papers(root: Path, text: str = STUDY, numbers: str = NUMBERS) -> Path:
    (root / "papers").mkdir()
    (root / "papers" / "made_up.yml").write_text(text)
    (root / "papers" / "made_up.csv").write_text(numbers)
    return root


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("artefacts:", "artefacts: [", "not YAML"),
        ("title: A paper for tests", "title: A\ntitle: B", "duplicated"),
        ("loads: [antique]", "loads: [antique], takes: [jugde]", "first.takes[0] is 'jugde'"),
        ("paper: made_up", "paper: ../up", "paper is '../up'"),
        ("artefacts:", "claims: {c: {says: s, where: w}}\nartefacts:", "claims.c.stated is missing"),
    ],
)
def test_a_register_that_does_not_fit_is_refused_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in STUDY
    with pytest.raises(ValueError, match=r"made_up\.yml") as error:
        read_papers(write_papers(tmp_path, STUDY.replace(old, new, 1)))
    assert words in str(error.value)


def list_misprints(root: Path, paper: Paper) -> list[str]:
    """What is wrong in a paper's published numbers, with the line."""
    table = pd.read_csv(root / "papers" / f"{paper.paper}.csv", dtype=str, keep_default_na=False)
    known, percent = {*ROLES, *paper.names, ""}, table.unit == "%"
    numbers, bounded = pd.to_numeric(table.printed, errors="coerce"), table.statistic.str.contains(BOUNDED)
    problems = {
        "printed is no number as printed": ~table.printed.str.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,20})?"),
        "tolerance is a number from 0 to 0.1": ~pd.to_numeric(table.tolerance, errors="coerce").between(0, 0.1),
        "needs names no role, and nothing listed under names": ~table.needs.str.split("; ").map(known.issuperset),
        "expected an artefact of the paper": ~table.artefact.isin(list(paper.artefacts)),
        "cause is 'known', 'unknown' or empty": ~table.cause.isin(["", "known", "unknown"]),
        'the reason of a cause begins with "Measured here: NUMBER"': (table.cause != "")
        & ~table.reason.str.match(OURS),
        "a correlation or share is at most 1": bounded & (numbers.abs() > 1 + 99 * percent),
        "a cell is duplicated": table.duplicated(["artefact", "row", "dataset", "heading", "statistic"]),
        "unit is '%' or empty": ~table.unit.isin(["", "%"]),
    }
    return [f"line {line + 2}: {problem}" for problem, odd in problems.items() for line in table.index[odd]]


@pytest.mark.parametrize("paper", read_papers(PROJECT).values(), ids=lambda paper: paper.paper)
def test_every_published_number_fits(paper: Paper) -> None:
    assert list_misprints(PROJECT, paper) == []


def test_percent_comes_in_natural_units_with_its_digits(tmp_path: Path) -> None:
    paper = read_papers(write_papers(tmp_path, numbers=NUMBERS.replace("1.00,,", "22.90,%,")))["made_up"]
    (number,) = paper.find_published("first").itertuples()
    assert (number.printed, number.published, number.decimals, number.heading) == ("22.90", 0.229, 4, "number")
    assert paper.find_published("second").empty
    (tmp_path / "papers" / "made_up.csv").write_text(NUMBERS.replace("1.00,,", "22.90,words,"))
    paper = read_papers(tmp_path)["made_up"]
    assert paper.find_published("first").published.tolist() == [22.9]


def test_what_an_artefact_reads_is_chosen_before_it(tmp_path: Path) -> None:
    root = write_papers(tmp_path)
    assert [name for _, name in list_chosen(root, ["made_up/third"])] == ["first", "second", "third"]
    with pytest.raises(ValueError, match="made_up/fourth has no notebook"):
        list_chosen(root, ["made_up/fourth"])
    with pytest.raises(ValueError, match="did you mean made_up/second"):
        find_artefact(read_papers(root), "made_up/secnd")


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "results").glob("*/*.csv")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_every_committed_interval_has_a_width_and_says_what_was_drawn(path: Path) -> None:
    rows = read_values(path).query("low.notna() and origin != 'paper'")  # of printed numbers: what rounding leaves open
    assert not rows[(rows.resampled == "") | (rows.low >= rows.high)].index.size
