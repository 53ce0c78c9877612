"""Notebooks as files: their cells and parameters, what they load, and the code behind them."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from nfqa.files.code import PACKAGES, hash_modules, parse
from nfqa.files.paths import stamp
from nfqa.models.roles import DEFAULTS

_PACKAGES = (
    "matplotlib", "nltk", "numpy", "pandas", "rouge-score", "sacrebleu", "scikit-learn", "scipy",
    "sentence-transformers", "torch", "transformers",
)  # fmt: skip


ANSWER = "answer"  # the tag of the cell with what the committed run found, written by a person


def read_cells(notebook: Path) -> Sequence[dict[str, Any]]:
    """A notebook's cells, each with its `source` as one text and its `tags` as a set.

    Raises: ValueError for a file that is not there or is no notebook.
    """
    if not notebook.is_file():
        raise ValueError(f"{notebook}: no such notebook; correct the entry in papers/*.yml")
    return _parse_notebook(notebook, *stamp(notebook))


@cache
def _parse_notebook(path: Path, *_: int) -> Sequence[dict[str, Any]]:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        parsed = ({"source": "".join(cell["source"]), "tags": {*cell["metadata"].get("tags", [])}} for cell in cells)
        return [cell | fields for cell, fields in zip(cells, parsed, strict=True)]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a notebook ({type(error).__name__}: {error})") from None


def read_parameters(notebook: Path) -> dict[str, Any]:
    """The names and default values in a notebook's parameters cell.

    Raises: ValueError where there is no such cell, or it holds anything but assignments of
        literals.
    """
    tagged = [cell["source"] for cell in read_cells(notebook) if "parameters" in cell["tags"]]
    try:
        body: list[Any] = parse(tagged[0]).body
        assigned = [(statement.targets[0].id, statement.value) for statement in body]
        return {name: ast.literal_eval(value) for name, value in assigned}
    except (IndexError, AttributeError, ValueError, TypeError, SyntaxError):
        raise ValueError(f"{notebook}: expected a cell tagged `parameters` of `name = literal` lines only") from None


def list_roles(notebook: Path) -> dict[str, str]:
    """The roles that a notebook takes, those that its parameters name, each with what fills it by
    default.
    """
    return {name: spec or DEFAULTS[name] for name, spec in read_parameters(notebook).items() if name in DEFAULTS}


def list_datasets(notebook: Path) -> tuple[str, ...]:
    """The datasets that a notebook loads: the names written in its calls of `lab.load` and
    `lab.load_frame`.
    """
    names = []
    for node in _walk_code(notebook):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("lab.load", "lab.load_frame"):
            names += [str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant)]
    return tuple(dict.fromkeys(names))


def list_imports(notebook: Path) -> list[tuple[str, str]]:
    """What a notebook imports from nfqa, as (module, name); the name is "" where the module itself
    is imported.
    """
    imports = []
    for node in _walk_code(notebook):
        if isinstance(node, ast.ImportFrom):
            imports += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            imports += [(alias.name, "") for alias in node.names]
    return [(module, name) for module, name in imports if module.split(".")[0] in PACKAGES]


def list_functions(notebook: Path) -> list[str]:
    """The functions and classes of nfqa that a notebook imports, MODULE:NAME: what its values were
    made by.
    """
    tools = ("reproduction.open", "reproduction.figures")
    imports = [(module, name) for module, name in list_imports(notebook) if name and module not in tools]
    return sorted(f"{module}:{name}" for module, name in imports if not name.isupper())


def hash_imports(notebook: Path) -> dict[str, str]:
    """The hash of every module of nfqa that a notebook's code reaches, by name."""
    return hash_modules(name for module, name in list_imports(notebook) for name in (module, f"{module}.{name}"))


def hash_cells(notebook: Path) -> str:
    """A hash of all cells, prose too, whatever their outputs, and without the answer, on which no
    value depends.
    """
    cells = [cell for cell in read_cells(notebook) if ANSWER not in cell["tags"]]
    return hash_json([[cell["cell_type"], cell["source"]] for cell in cells])


def hash_json(value: Any) -> str:
    """sha256 of a JSON value, in hex, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@cache
def read_versions() -> dict[str, str]:
    """Installed version by package, without the build tag (2.13.0, not 2.13.0+cpu)."""
    return {name: importlib.metadata.version(name).partition("+")[0] for name in _PACKAGES}


def _walk_code(notebook: Path) -> Iterator[ast.AST]:
    sources = [cell["source"] for cell in read_cells(notebook) if cell["cell_type"] == "code"]
    try:
        return ast.walk(parse("\n".join(sources)))
    except SyntaxError as error:
        raise ValueError(f"{notebook}: not Python ({error.msg}: {str(error.text).strip()!r})") from None
