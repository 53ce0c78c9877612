"""Findings follow from their values, and each number of a notebook's answer stands in results/."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from conftest import PROJECT

from reproduction.findings import list_findings
from reproduction.notebooks import ANSWER, read_parameters
from reproduction.papers import find_artefact, read_papers
from reproduction.values import name_keys, read_values, tidy_values

PAPERS = read_papers(PROJECT)
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*/*.ipynb"))
NAMES = re.compile(  # what has a digit in its name
    r"\b(?:Tables?|Figures?|Equation|Section|ROUGE|SIGIR|UKPConvArg)[- ]?\d+(?:\s?(?:and|to)\s\d+)?"
    r"|\b\d+(?:\.\d+)?B\b|\b\d+M\b|\b(?:SmolLM2|GPT-\S+|Qwen\S+|o4-mini|DeepSeek V3)|95 %|\b\d+(?:\.\d+)? billion"
    r"|(?:above|below|from) 0(?![\d.])|\bgrades? \d\b|\bfrom 0 to \d+|\bp ?= ?1\b|\b20\d\d\b"
)
NUMBER = re.compile(r"[-−]?(?:\d[\d,]*)?\.?\d+")


def make_table(**columns: object) -> pd.DataFrame:
    return tidy_values(pd.DataFrame({"dataset": "d", "statistic": "mean", "n": 5} | columns), origin="measured")


@pytest.mark.parametrize(
    ("value", "low", "high", "bound", "verdict"),
    [
        (0.2, 0.1, 0.3, "above 0", "supported"),
        (0.2, 0.1, 0.3, "above 0.1", "inconclusive"),
        (0.2, -0.1, 0.5, "above 0", "inconclusive"),
        (0.2, 0.1, 0.3, "below 0", "not supported"),
        (-0.2, -0.3, -0.1, "above 0", "not supported"),
        (-0.2, -0.3, -0.1, "below -0.05", "supported"),
        (3, None, None, "above 2", "supported"),
        (3, None, None, "below 2", "not supported"),
        (None, None, None, "above 2", "not tested"),
        (3, None, None, "", ""),
    ],
)
def test_a_verdict_follows_from_the_interval(value, low, high, bound, verdict) -> None:
    table = make_table(metric=["m"], value=[value], low=[low], high=[high])
    test = f"metric == 'm' -> {bound}" if bound else "metric == 'm'"
    row = list_findings(PAPERS["linkage"], table, {"it is so": test}).iloc[0]
    assert (row.claim, row.verdict) == ("it is so", verdict)


def test_a_claim_has_a_row_for_each_value_and_says_in_what_they_differ() -> None:
    table = make_table(metric="m", judge=["a", "b"], value=[0.25, 1234.5], low=[0.125, None], high=[0.5, None])
    table.loc[1, "origin"] = "stand-in"
    rows = list_findings(
        PAPERS["linkage"], table, {"one": "metric == 'm' -> above 0", "two": "metric == 'none' -> above 0"}
    )
    assert rows.astype(str).to_numpy().tolist() == [
        ["one", "a", "0.250", "[0.125, 0.500]", "5", "supported"],
        ["one", "b", "1,234", "", "5", "supported (proxy)"],
        ["two", "", "", "", "", "not tested"],
    ]


def read_answer(path: Path) -> tuple[str, dict[str, str | list[str]]]:
    """A notebook's answer, and where each of its numbers stands."""
    cell = json.loads(path.read_text(encoding="utf-8"))["cells"][1]
    assert ANSWER in cell["metadata"]["tags"]
    return "".join(cell["source"]), cell["metadata"].get("numbers", {})


def find_rows(path: Path, query: str) -> pd.DataFrame:
    """The rows that a query picks: of the notebook's result, of PAPER/NAME before "::", or of "published" numbers.

    A condition that does not apply is ''.
    """
    artefact = read_parameters(path)["artefact"]
    where, _, query = query.rpartition("::")
    if where.strip() == "published":
        paper, name = find_artefact(PAPERS, artefact)
        table = paper.find_published(name).assign(value=lambda rows: rows.published)
    else:
        table = read_values(PROJECT / "results" / f"{where.strip() or artefact}.csv")
    keys = name_keys(table)
    blank = table.assign(**table[keys].astype(object).where(table[keys].notna(), ""))
    return blank.query(query.strip(), engine="python")


def read_number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def check_number(path: Path, text: str, place: str | list[str]) -> None:
    """Fail where the numbers of `text` are not those of the row that `place` picks, or not the counts of its rows.

    place: a query, of one row, whose value, low and high are meant, or after "->" another column; or a list of
    queries, the numbers of whose rows are meant.
    """
    scale = 100 if "%" in text else 1
    numbers = NUMBER.findall(NAMES.sub("", re.sub(r"\b(none|no)\b", "0", text)))
    if isinstance(place, list):
        assert [read_number(number) for number in numbers] == [len(find_rows(path, query)) for query in place], text
        return
    query, _, column = place.partition("->")
    rows = find_rows(path, query)
    assert len(rows) == 1, f"{len(rows)} rows for {text!r}: {query}"
    meant = [column.strip()] if column else ["value", "low", "high"][: len(numbers)]
    assert len(numbers) == len(meant), text
    for number, name in zip(numbers, meant, strict=True):
        decimals = len(number.partition(".")[2])
        value = float(rows[name].iloc[0]) * scale
        assert abs(value - read_number(number)) <= 0.501 * 10**-decimals, f"{text!r}: {name} is {value}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_number_of_an_answer_stands_in_the_results(path: Path) -> None:
    answer, numbers = read_answer(path)
    rest = answer
    for text in sorted(numbers, key=len, reverse=True):
        rest, count = re.subn(rf"(?<![\d.,]){re.escape(text)}(?![\d%])", "", rest)
        assert count == 1, f"{text!r} is {count} times in the answer"
        check_number(path, text, numbers[text])
    assert NUMBER.findall(NAMES.sub("", rest)) == []


def test_a_number_that_moved_or_has_no_place_is_noticed(tmp_path: Path) -> None:
    path = PROJECT / "notebooks" / "linkage" / "judge_size.ipynb"
    row = "judge.str.startswith('llm') and metric == 'listwise' and shots == 0 and difference_from == ''"
    query = f"{row} and statistic == 'spearman' and dataset == 'antique'"
    value, low, high = find_rows(path, query)[["value", "low", "high"]].iloc[0]
    check_number(path, f"{value:.3f} [{low:.3f}, {high:.3f}]", query)
    check_number(path, f"{value:.0%}".replace("%", " %"), query)
    check_number(path, "1 row", [query])
    for text, place in ((f"{value + 0.001:.3f}", query), ("2 rows", [query]), (f"{value:.3f}", row)):
        with pytest.raises(AssertionError):
            check_number(path, text, place)
