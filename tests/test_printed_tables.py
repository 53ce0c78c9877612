"""Each number that a committed notebook shows in a table is that of a row of results/ or papers/ with its labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup, Tag
from conftest import PROJECT

from reproduction.papers import list_row_keys, read_papers, show_name
from reproduction.values import COUNTS, NUMBERS, name_keys, read_values

PAPERS = read_papers(PROJECT)
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*/*.ipynb"))
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?"
CELL = re.compile(rf"({NUMBER})\*?(?: \[({NUMBER}), ({NUMBER})\])?(?: / .*)?")  # measured / published
BLANK = {"", "–", "NaN", "nan"}
OTHER_ROWS = {
    ("definitions", "base"): ("", "decision", "choice")
}  # columns of another row's value: by which conditions


class Shown(NamedTuple):
    """A cell of a table; its labels as (heading, text), and those of its row's other cells."""

    text: str
    heading: str
    labels: list[tuple[str, str]]
    beside: list[tuple[str, str]]


class Row(NamedTuple):
    """A row of results or of published numbers: the words for each condition, and its numbers."""

    conditions: dict[str, set[str]]
    numbers: dict[str, float]


def read_tables(notebook: Path) -> Iterator[list[Shown]]:
    """The tables that a notebook shows from the cell on that rounds its values; before, tables show single scores."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    first = next((place for place, cell in enumerate(cells) if "lab.tidy(" in "".join(cell["source"])), len(cells))
    for output in (output for cell in cells[first:] for output in cell.get("outputs", ())):
        page = BeautifulSoup("".join(output.get("data", {}).get("text/html", ())), "html.parser")
        yield from (list(read_table(table)) for table in page.find_all("table"))


def read_table(table: Tag) -> Iterator[Shown]:
    """The cells of a table as pandas writes it: headings above, and labels as `th` at the beginning of a row."""
    above, rows = (spread_cells(table.select(f"{part} tr")) for part in ("thead", "tbody"))
    first = max((sum(name == "th" for name, _ in row) for row in rows), default=0)
    levels = [line[first - 1][1] if first else "" for line in above]
    names = [next((line[place][1] for line in reversed(above) if line[place][1]), "") for place in range(first)]
    width = max((len(row) for row in rows), default=0)
    headings = [next((line[place][1] for line in reversed(above) if line[place][1]), "") for place in range(width)]
    for row in rows:
        labels = [(names[place], row[place][1]) for place in range(first)]
        for place in range(first, width):
            own = [(level, line[place][1]) for level, line in zip(levels, above, strict=True)]
            beside = [(headings[other], row[other][1]) for other in range(first, width) if other != place]
            yield Shown(row[place][1], headings[place], labels + own, beside)


def spread_cells(lines: list[Tag]) -> list[list[tuple[str, str]]]:
    """Each line's cells as (tag, text), repeated over the rows and columns that they span."""
    grid: list[dict[int, tuple[str, str]]] = [{} for _ in lines]
    for number, line in enumerate(lines):
        for cell in line.find_all(["th", "td"]):
            start = next(place for place in range(1000) if place not in grid[number])
            for row in grid[number : number + int(cell.get("rowspan", 1))]:
                for place in range(start, start + int(cell.get("colspan", 1))):
                    row[place] = (cell.name, cell.get_text(" ").strip())
    width = max((place + 1 for row in grid for place in row), default=0)
    return [[row.get(place, ("td", "")) for place in range(width)] for row in grid]


def list_rows(notebook: Path) -> list[Row]:
    """What a notebook's tables may show: its results, those that it reads, published numbers and their differences."""
    rows = []
    for paper in PAPERS.values():
        made = [artefact for artefact in paper.artefacts.values() if artefact.notebook and artefact.path == notebook]
        own = [name for name, artefact in paper.artefacts.items() if artefact in made]
        for name in dict.fromkeys(
            [*own, *(other for artefact in made for other in (*artefact.reads, *artefact.cites))]
        ):
            file = PROJECT / "results" / paper.paper / f"{name}.csv"
            if file.is_file():
                values = read_values(file)
                rows += [make_row(paper, row, name_keys(values)) for row in values.to_dict("records")]
            printed = paper.find_published(name).assign(value=lambda each: each.published)
            keys = list_row_keys(printed.drop(columns="value"))
            rows += [make_row(paper, row, [*keys, "row", "heading"]) for row in printed.to_dict("records")]
            shared = [key for key in ("dataset", "judge", "statistic") if key in printed]
            pairs = printed.merge(printed.assign(difference_from=printed.metric), on=shared, suffixes=("", "_other"))
            pairs = pairs.assign(value=pairs.value - pairs.value_other)
            rows += [make_row(paper, row, [*keys, "difference_from"]) for row in pairs.to_dict("records")]
    return rows


def make_row(paper: Any, row: Mapping[Any, Any], keys: list[str]) -> Row:
    conditions = {key: set() if pd.isna(row[key]) else write_ways(paper, row[key]) - BLANK for key in keys}
    numbers = {name: row.get(name, np.nan) for name in (*NUMBERS, *COUNTS)}
    return Row(conditions, {name: np.nan if pd.isna(number) else float(number) for name, number in numbers.items()})


def write_ways(paper: Any, word: Any) -> set[str]:
    is_number = isinstance(word, float | int)
    return {f"{float(word):g}" if is_number else word, show_name(paper, word)}


def find_rows(cell: Shown, numbers: pd.DataFrame) -> np.ndarray:
    """Places of the rows with the value and interval of a cell, or with the number that its heading names."""
    value, *ends = CELL.fullmatch(cell.text).groups()
    if ends[0]:
        pairs = zip((value, *ends), ("value", "low", "high"), strict=True)
        return np.flatnonzero(np.all([rounds_to(text, numbers[name]) for text, name in pairs], axis=0))
    names = [cell.heading] if cell.heading in numbers else [*numbers]
    return np.flatnonzero(np.any([rounds_to(value, numbers[name]) for name in names], axis=0))


def rounds_to(text: str, column: pd.Series) -> np.ndarray:
    """Which numbers, or a hundred times them where a table is in percent, are written so at the text's own digits."""
    digits, _, exponent = text.replace(",", "").partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    written = float(text.replace(",", ""))
    return np.minimum(np.abs(column - written), np.abs(100 * column - written)).to_numpy() <= 0.5001 * unit


def is_labelled(cell: Shown, row: Row, known: dict[str, set[str]], ignored: tuple[str, ...]) -> bool:
    """Whether no label of a cell contradicts a row. A notebook's own words, which no row has, contradict none."""
    for heading, text in [*cell.labels, *cell.beside]:
        word = f"{float(text):g}" if re.fullmatch(NUMBER, text) and "," not in text else text
        if heading in known:
            wrong = word in known[heading] and word not in row.conditions.get(heading, ())
        elif (heading, text) in cell.beside or word != text or re.fullmatch(NUMBER, text):
            wrong = False
        else:  # of a level without a name: a condition of the row must have it, if any condition can
            possible = any(word in known[name] for name in row.conditions)
            wrong = possible and not any(word in words for words in row.conditions.values())
        if wrong and heading not in ignored:
            return False
    return True


@cache
def list_wrong(notebook: Path) -> tuple[int, list[Shown]]:
    """How many cells of a notebook's tables show a number, and those of which no row of its own labels has it."""
    rows = list_rows(notebook)
    known: dict[str, set[str]] = {}
    for row in rows:
        for name, words in row.conditions.items():
            known.setdefault(name, set()).update(words)
    shown = [
        cell
        for table in read_tables(notebook)
        for cell in table
        if CELL.fullmatch(cell.text) and "." in cell.text and cell.heading not in known
    ]
    numbers = pd.DataFrame([row.numbers for row in rows], columns=[*NUMBERS, *COUNTS])
    wrong = []
    for cell in shown:
        ignored = OTHER_ROWS.get((notebook.stem, cell.heading), ())
        if not any(is_labelled(cell, rows[place], known, ignored) for place in find_rows(cell, numbers)):
            wrong.append(cell)
    return len(shown), wrong


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_number_of_a_table_stands_in_a_row_of_its_labels(notebook: Path) -> None:
    assert list_wrong(notebook)[1] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_table_can_be_read_across(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = (
        "".join(output.get("data", {}).get("text/html", ())) for cell in cells for output in cell.get("outputs", ())
    )
    rows = BeautifulSoup("".join(outputs), "html.parser").select("tr")
    widths = [sum(int(str(cell.get("colspan", 1))) for cell in row.find_all(["th", "td"])) for row in rows]
    assert max(widths, default=0) <= 9, "eight columns, and the numbers of the rows"


def test_most_tables_are_looked_at() -> None:
    assert sum(list_wrong(notebook)[0] for notebook in NOTEBOOKS) > 2400
