"""docs/settings.md, both papers' settings and this project's, of papers/settings.csv: `python -m tools.settings_page`.

A value of this project is never typed: the column `ours` names its place, and it is read from there. After an optional
`count ` that is one of
    nfqa.MODULE:NAME, :NAME.FIELD, :FUNCTION.PARAMETER, :FUNCTION(ARGUMENT)   a constant, field, default or result
    PAPER/ARTEFACT:NAME                   what a notebook gives a name: a parameter, variable, argument or loop
    prompts/SET:TEMPLATE.FIELD+FIELD      a prompt's settings
    results/PAPER/ARTEFACT:COLUMN of QUERY   a committed value
"""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from nfqa.files.json_lines import read_yaml
from nfqa.files.paths import find_root, write_text
from reproduction.notebooks import read_cells
from reproduction.papers import read_papers
from reproduction.values import query_rows, read_values

TITLES = {"linkage": "LINKAGE", "debateqa": "DebateQA"}
HEAD = """# Settings of the papers and of this project

`python -m tools.settings_page` makes this page from `papers/settings.csv`. That file names the place of each value in
the code, and a test compares the page with the code. *Not stated*: the available text of the paper does not give the
setting. "–": this project has no such setting.
"""


def read_ours(root: Path, place: str) -> str:
    """The value that stands at a place, as the page shows it; "" for no place.

    Raises: ValueError for a place of another form, or where nothing or several different values stand.
    """
    if not place:
        return ""
    found = re.fullmatch(r"(count )?([\w./]+):(.+)", place)
    if not found:
        expected = "nfqa.MODULE:NAME, PAPER/ARTEFACT:NAME, prompts/… or results/…"
        raise ValueError(f"{place!r} is no place; expected {expected}")
    counted, where, what = found.groups()
    readers = {"nfqa": _read_code, "reproduction": _read_code, "prompts": _read_prompt, "results": _read_result}
    value = readers.get(re.split(r"[./]", where)[0], _read_notebook)(root, where, what)
    return show(len(value) if counted else value)


def show(value: Any) -> str:
    """A value as it is written beside a paper's."""
    if value is None:
        return "all"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | tuple | list):
        return ", ".join(map(show, value))
    return f"{value:.12g}"


def _read_code(_: Path, where: str, what: str) -> Any:
    called = re.fullmatch(r"(\w+)\((\w+)\)", what)
    module: Any = importlib.import_module(where)
    if called:
        return getattr(module, called[1])(called[2])
    name, _dot, part = what.partition(".")
    value = getattr(module, name)
    if not part:
        return value
    if is_dataclass(value):
        return next(field.default for field in fields(value) if field.name == part)
    return inspect.signature(value).parameters[part].default


def _read_notebook(root: Path, where: str, what: str) -> Any:
    paper, _, name = where.partition("/")
    artefact = read_papers(root)[paper].artefacts[name]
    if what in artefact.parameters:
        return artefact.parameters[what]
    cells = read_cells(artefact.path)
    trees = [ast.parse(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    given = [_list_given(node, what) for tree in trees for node in ast.walk(tree)]
    literals = []
    for value in (value for values in given for value in values):
        try:
            literals.append(ast.literal_eval(value))
        except ValueError:
            continue  # what is computed is no setting
    if not literals or any(value != literals[0] for value in literals):
        raise ValueError(
            f"{where}: {what} is given {len(literals)} literal values; expected one, or equal ones: {literals}"
        )
    return literals[0]


def _list_given(node: ast.AST, name: str) -> list[ast.expr]:
    """What a node of code gives to a name: an assignment, an argument by keyword, or what a loop goes through."""
    if isinstance(node, ast.Assign):
        return [node.value for target in node.targets if isinstance(target, ast.Name) and target.id == name]
    if isinstance(node, ast.keyword):
        return [node.value] if node.arg == name else []
    if isinstance(node, ast.For):
        return [node.iter] if isinstance(node.target, ast.Name) and node.target.id == name else []
    return []


def _read_prompt(root: Path, where: str, what: str) -> Any:
    template, _, names = what.partition(".")
    settings = read_yaml(root / where / "settings.yml")["templates"][template]
    values = [settings[name] for name in names.split("+")]
    return values if len(values) > 1 else values[0]


def _read_result(root: Path, where: str, what: str) -> Any:
    column, _, query = what.partition(" of ")
    table = read_values(root / f"{where}.csv")
    rows = table[query_rows(table, query)]
    if len(rows) != 1:
        raise ValueError(f"{where}: {len(rows)} rows fit {query}; expected one")
    return rows[column].item()


def make_page(root: Path, register: str) -> str:
    """The page of a register's lines.

    Raises: ValueError for a paper that isn't listed, a difference without a reason, or a reason without one.
    """
    tables: dict[str, list[str]] = {paper: [] for paper in TITLES}
    for row in csv.DictReader(register.splitlines()):
        ours = read_ours(root, row["ours"])
        same = ours == row["value"]
        named = f"papers/settings.csv: {row['paper']}, {row['setting']}"
        if row["paper"] not in tables:
            raise ValueError(f"{named}: unknown paper; expected {' or '.join(tables)}")
        if same == bool(row["why"]):
            problem = "no difference, but a reason" if same else "a difference without a reason"
            raise ValueError(f"{named}: {problem}: the paper's is {row['value']!r}, this project's {ours!r}")
        place = f" (`{row['ours']}`)" if row["ours"] else ""
        told = [
            row["setting"],
            row["where"] or "–",
            row["value"] or "not stated",
            (ours or "–") + place,
            row["why"] or "same",
        ]
        tables[row["paper"]].append("| " + " | ".join(told) + " |")
    head = "| setting | where | the paper | this project | same, or the reason |\n|---|---|---|---|---|"
    return "\n".join(
        [HEAD, *(f"## {TITLES[paper]}\n\n{head}\n" + "\n".join(lines) + "\n" for paper, lines in tables.items())]
    )


if __name__ == "__main__":
    root = find_root()
    write_text(root / "docs" / "settings.md", make_page(root, (root / "papers" / "settings.csv").read_text("utf-8")))
