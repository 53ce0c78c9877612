"""Which modules of nfqa some code reaches, and a hash of what each does."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import linecache
import threading
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from nfqa.files.paths import stamp

PACKAGES = ("nfqa", "reproduction")  # the second in a checkout alone
_SOURCE = Path(__file__).parents[2]
_PARSING = threading.Lock()


def hash_modules(names: Iterable[str], *, within: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """The hash of each module named, and of every module of nfqa that it reaches, by name.

    Every import counts, those inside functions too. Docstrings and comments don't: a hash is of the
    parsed code.

    Args: names: modules, or MODULE.FUNCTION as an import statement may mean them. within: packages
        to stay inside.
    """
    todo = list(names)
    hashes = dict[str, str]()
    while todo:
        name = todo.pop()
        if name in hashes or not name.startswith(within):
            continue
        path = _SOURCE.joinpath(*name.split("."))
        files = [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
        if files:
            hashes[name], imports = _scan(files[0], *stamp(files[0]))
            package = name.rpartition(".")[0]  # whose __init__ runs first; nfqa's own imports what its functions need
            todo += [*imports, *([package] if package not in ("", "nfqa") else [])]
    return dict(sorted(hashes.items()))


@cache
def hash_maker(*names: str, within: tuple[str, ...] = PACKAGES, packages: tuple[str, ...] = ()) -> str:
    """One hash over modules, all that they reach, and the versions of packages: what a kept number
    was made by.
    """
    made_by = [hash_modules(names, within=within), [importlib.metadata.version(name) for name in packages]]
    return hashlib.sha256(json.dumps(made_by).encode()).hexdigest()


def is_refusal(error: Exception) -> bool:
    """Whether an error tells a user what to do: the system or a raise statement of `PACKAGES`
    raised it.

    Any other one, such as a ValueError of a library, is a fault of this project.
    """
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    ours = frame.f_globals["__name__"].split(".")[0] in PACKAGES
    statement = linecache.getline(frame.f_code.co_filename, line).lstrip()
    return isinstance(error, OSError) or (isinstance(error, ValueError) and ours and statement.startswith("raise"))


def parse(code: str) -> ast.Module:
    """The syntax tree of Python code; one thread at a time, as Python 3.11 fails where two parse at
    once.
    """
    with _PARSING:
        return ast.parse(code)


@cache
def _scan(path: Path, *_: int) -> tuple[str, tuple[str, ...]]:
    """The hash of a module's code, and the names of nfqa that its import statements may mean as
    modules.
    """
    tree = parse(path.read_text(encoding="utf-8"))
    imports = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return digest, tuple(sorted(name for name in imports if name.split(".")[0] in PACKAGES))
