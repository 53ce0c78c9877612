"""Pages made from files: a kernel's source with an anchor on every line, and an executed notebook."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import nbformat
from markupsafe import Markup, escape
from nbconvert import HTMLExporter
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from traitlets.config import Config

_IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_SCRIPT = re.compile(r"<(script|iframe|object)\b.*?(?:</\1\s*>|\Z)|<(?:link|base|meta|embed)\b[^>]*>", re.I | re.S)
_STYLE = re.compile(r"<style\b.*?</style>|\bstyle=\"[^\"]*\"|\bstyle='[^']*'", re.IGNORECASE | re.DOTALL)  # no prose
_FETCHED_STYLE = re.compile(r"@import[^;<]*;?|url\(\s*['\"]?(?!data:)[^)]*\)", re.IGNORECASE)
_SOURCE = re.compile(r"\bsrc\s*=\s*[\"']?\s*data:", re.IGNORECASE)
_ALT = re.compile(r"\balt=\"([^\"]*)\"", re.IGNORECASE)
# At least two folders deep, so that "a/b", "</td>" and "// comment" stay as they are.
_ABSOLUTE_PATH = re.compile(r"(?<![\w/.:<~])/(?:[\w.+@-]+/)+(?=[\w.+@-])")
_QUOTED_PATH = re.compile(r"([\"'])/[^\"'\n]*\1")
_SHOWN = ["text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown", "text/plain"]


@dataclass(frozen=True)
class Kernel:
    """Where a function is: its file from the `src` folder on, and the line of its `def`."""

    name: str  # MODULE:NAME
    file: str  # nfqa/kernels/correlation.py
    line: int

    @property
    def short(self) -> str:
        """Last module and function, which is what a reader recognises."""
        module, _, function = self.name.partition(":")
        return f"{module.rpartition('.')[2]}.{function}"

    @property
    def page(self) -> str:
        return f"source/{self.file}.html"


class KernelFinder:
    """Finds functions by reading files, never by importing them; each file is read once."""

    def __init__(self, root: Path) -> None:
        self._source = root / "src"
        self._definitions: dict[str, tuple[str, dict[str, int]]] = {}

    def find(self, name: str, *, wanted_by: str) -> Kernel:
        """The file and line of MODULE:NAME, where NAME may be CLASS.METHOD.

        Raises: ValueError naming the row and the kernel when there is no such module or function.
        """
        module, _, function = name.partition(":")
        if not module or not function:
            raise ValueError(f"{wanted_by}: kernel {name!r}; expected MODULE:FUNCTION")
        if module not in self._definitions:
            self._definitions[module] = self._read(module, name, wanted_by)
        file, lines = self._definitions[module]
        if function not in lines:
            raise ValueError(
                f"{wanted_by}: kernel {name!r}: src/{file} defines no {function}; correct the row's kernels"
            )
        return Kernel(name, file, lines[function])

    def _read(self, module: str, name: str, wanted_by: str) -> tuple[str, dict[str, int]]:
        parts = module.split(".")
        if not all(part.isidentifier() for part in parts):
            raise ValueError(f"{wanted_by}: kernel {name!r}: {module!r} is not a module name")
        stem = self._source.joinpath(*parts)
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
                return path.relative_to(self._source).as_posix(), _list_definitions(tree)
        raise ValueError(f"{wanted_by}: kernel {name!r}: no module {module} under src; correct the row's kernels")


def _list_definitions(tree: ast.AST, prefix: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[prefix + node.name] = node.lineno
        elif isinstance(node, ast.ClassDef):
            found[prefix + node.name] = node.lineno
            found |= _list_definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            found |= _list_definitions(node, prefix)
    return found


def render_source(path: Path) -> list[Markup]:
    """A Python file as highlighted HTML, one string a line."""
    code = path.read_text(encoding="utf-8")
    # The formatter closes and reopens its spans at line ends, so cutting there leaves every line well-formed.
    html = highlight(code, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return [Markup(line) for line in html.rstrip("\n").split("\n")]  # noqa: S704 - escaped by the formatter


def render_notebook(path: Path, root: Path) -> Markup:
    """An executed notebook's cells as HTML that fetches nothing, runs nothing and names no folder of the machine.

    Raises: ValueError naming the file when it isn't a notebook.
    """
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    except Exception as error:  # nbformat has several kinds, and JSON errors come through as they are
        raise ValueError(f"{path}: not a notebook ({str(error).splitlines()[0]}); run the artefact again") from None
    for number, cell in enumerate(notebook.cells):
        cell["id"] = (
            f"cell-{number}"  # old notebooks get random ones on reading, and pages must not change by themselves
        )
        if "injected-parameters" in cell.get("metadata", {}).get("tags", []):
            cell["source"] = _QUOTED_PATH.sub(r"\1…\1", cell["source"])
        for output in cell.get("outputs", []):
            _hide_paths(output, root)
    config = Config({"NbConvertBase": {"display_data_priority": _SHOWN}})
    exporter = HTMLExporter(template_name="basic", exclude_anchor_links=True, config=config)  # type: ignore[no-untyped-call]
    body, _ = exporter.from_notebook_node(notebook)
    body = body.replace(str(root), ".")
    body = _STYLE.sub(lambda match: _FETCHED_STYLE.sub("none", match.group(0)), _SCRIPT.sub("", body))
    body = _IMAGE.sub(_keep_inline_image, body)
    # A box of its own for every table, which can then be wider than the page.
    body = re.sub(r"(<table\b)", r'<div class="scroller" tabindex="0" role="group" aria-label="Table">\1', body)
    return Markup(body.replace("</table>", "</table></div>"))  # noqa: S704 - made above, scripts taken out


def _hide_paths(output: nbformat.NotebookNode, root: Path) -> None:
    def hide(text: str) -> str:
        return _ABSOLUTE_PATH.sub("…/", text.replace(str(root), "."))

    if "text" in output:
        output["text"] = hide(output["text"])
    if "traceback" in output:
        output["traceback"] = [hide(line) for line in output["traceback"]]
    if "text/plain" in output.get("data", {}):
        output["data"]["text/plain"] = hide(output["data"]["text/plain"])


def _keep_inline_image(match: re.Match[str]) -> str:
    tag = match.group(0)
    if _SOURCE.search(tag):
        return tag.replace('alt="No description has been provided for this image"', 'alt="Figure drawn by this cell"')
    alt = _ALT.search(tag)
    described = f": {escape(unescape(alt[1]))}" if alt and alt[1] else ""
    return f"<em>[picture not included{described}]</em>"
