"""Notebooks as files: their cells and parameters, the modules of nfqa and the packages that they depend on."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from nfqa.data.json_lines import LooseItem, check
from nfqa.data.registry import hash_file, stamp

_ALWAYS = ("nfqa.lab.open", "nfqa.lab.beside", "nfqa.data.load")
_OF_ROLES = {  # what nfqa.lab imports only where a role is used
    "embedder": ("nfqa.models.embed",),
    "evaluator": ("nfqa.models.evaluator",),
    "judge": ("nfqa.metrics.judging", "nfqa.models.causal_lm", "nfqa.judge.openai_server"),
    "generator": ("nfqa.models.causal_lm", "nfqa.judge.openai_server"),
    "searcher": ("nfqa.debates.searcher", "nfqa.debates.web_search", "nfqa.debates.pages"),
    "reranker": ("nfqa.models.cross_encoder",),
}


class _Metadata(LooseItem):
    tags: list[str] = Field(default_factory=list)


class _Cell(LooseItem):
    cell_type: str
    source: str | list[str]
    metadata: _Metadata = _Metadata()


class _Notebook(LooseItem):
    cells: list[_Cell]


def read_cells(notebook: Path) -> Sequence[dict[str, Any]]:
    """A notebook's cells, each with its `source` as one text.

    Raises: ValueError for a file that is not there or is no notebook.
    """
    if not notebook.is_file():
        raise ValueError(f"{notebook}: no such notebook; correct the entry in papers/*.yml")
    return _parse_notebook(notebook, *stamp(notebook))


def read_parameters(notebook: Path) -> dict[str, Any]:
    """The names and default values in a notebook's parameters cell.

    Raises: ValueError where there is no such cell, or it holds anything but assignments of literals.
    """
    tagged = [cell for cell in read_cells(notebook) if "parameters" in cell.get("metadata", {}).get("tags", [])]
    if not tagged:
        raise ValueError(f"{notebook}: no cell is tagged `parameters`")
    found = {}
    for statement in _parse_code(tagged[0]["source"], notebook).body:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            raise ValueError(f"{notebook}: the parameters cell may hold `name = literal` lines only")
        try:
            found[statement.targets[0].id] = ast.literal_eval(statement.value)
        except (ValueError, TypeError):
            raise ValueError(f"{notebook}: parameter {statement.targets[0].id} is not a literal") from None
    return found


def hash_cells(notebook: Path) -> str:
    """A hash of all cells, prose too, whatever their outputs."""
    cells = [[cell["cell_type"], cell["source"]] for cell in read_cells(notebook)]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def hash_modules(notebook: Path, root: Path, *, roles: Sequence[str] = ()) -> dict[str, str]:
    """The hash of every module of nfqa that a notebook imports, and of all that these import, by name.

    `roles` are those that its lab opens: what nfqa.lab imports inside a function counts for these alone.
    """
    source = root / "src"
    todo = [
        *_ALWAYS,
        *(name for role in roles for name in _OF_ROLES[role]),
        *(name for pair in list_imports(notebook) for name in (pair[0], ".".join(pair))),
    ]
    found: dict[str, str] = {}
    seen = set()
    while todo:
        module = todo.pop()
        path = None if module in seen else _find_module(module, source)
        seen.add(module)
        if path is not None:
            found[module], imports = _scan_module(path, *stamp(path))
            package = module.rpartition(".")[0]  # whose __init__ runs first; nfqa's own imports what its functions need
            todo += [*imports, *([package] if package != "nfqa" else [])]
    return dict(sorted(found.items()))


def list_imports(notebook: Path) -> list[tuple[str, str]]:
    """What a notebook imports from nfqa, as (module, name)."""
    return _scan_notebook(notebook, *stamp(notebook))


def list_functions(notebook: Path) -> list[str]:
    """The functions and classes of nfqa that a notebook imports, MODULE:NAME: what its values were made by."""
    tools = ("nfqa.lab.open", "nfqa.lab.figures")
    return sorted(f"{m}:{name}" for m, name in list_imports(notebook) if m not in tools and not name.isupper())


@cache
def _parse_notebook(path: Path, *_: int) -> Sequence[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a notebook ({type(error).__name__}: {error})") from None
    check(_Notebook, found, f"{path}: not a notebook")
    return [cell | {"source": "".join(cell["source"])} for cell in found["cells"]]


@cache
def _scan_notebook(path: Path, *_: int) -> list[tuple[str, str]]:
    code = "\n".join(cell["source"] for cell in read_cells(path) if cell["cell_type"] == "code")
    nodes = [node for node in ast.walk(_parse_code(code, path)) if isinstance(node, ast.ImportFrom)]
    return [(n.module, a.name) for n in nodes for a in n.names if n.module and n.module.split(".")[0] == "nfqa"]


@cache
def _scan_module(path: Path, *_: int) -> tuple[str, tuple[str, ...]]:
    """A module's hash, and the names that its import statements may mean as modules of nfqa: anywhere in it, but for
    those of nfqa.lab, which imports what a role needs where it is opened."""
    found = set()
    tree = _parse_code(path.read_text(encoding="utf-8"), path)
    for node in tree.body if path.parent.name == "lab" else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return hash_file(path), tuple(sorted(name for name in found if name.split(".")[0] == "nfqa"))


def _find_module(module: str, source: Path) -> Path | None:
    path = source.joinpath(*module.split("."))
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((candidate for candidate in candidates if module and candidate.is_file()), None)


def _parse_code(code: str, path: Path) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise ValueError(f"{path}: not Python ({error.msg}: {str(error.text).strip()!r})") from None
    except (MemoryError, RecursionError):
        raise ValueError(f"{path}: its code is nested too deeply to be read") from None


_PACKAGES = (
    "matplotlib", "nltk", "numpy", "pandas", "rapidfuzz", "rouge-score", "sacrebleu", "scikit-learn", "scipy",
    "sentence-transformers", "torch", "transformers",
)  # fmt: skip


@cache
def read_versions() -> dict[str, str]:
    """Installed version by package, without the build tag (2.13.0, not 2.13.0+cpu)."""
    return {name: importlib.metadata.version(name).partition("+")[0] for name in _PACKAGES}
