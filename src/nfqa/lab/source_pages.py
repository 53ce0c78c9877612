"""Pages made from files: a kernel's source with an anchor on every line, and an executed notebook."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
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
class Definition:
    """Where a function or class is: its file from the `src` folder on, and the line of its `def`."""

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


def find_definition(root: Path, name: str, *, wanted_by: str) -> Definition:
    """The file and line of MODULE:NAME, found by reading files, never by importing them.

    Raises: ValueError naming what wants it where there is no such module or name.
    """
    module, _, wanted = name.partition(":")
    stem = root.joinpath("src", *module.split("."))
    if (stem / f"{wanted}.py").is_file():  # a module, imported by its name
        return Definition(name, (stem / f"{wanted}.py").relative_to(root / "src").as_posix(), 1)
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            found = _list_names(path, path.stat().st_mtime_ns).get(wanted)
            if isinstance(found, str):
                return find_definition(root, f"{found}:{wanted}", wanted_by=wanted_by)
            if found:
                return Definition(name, path.relative_to(root / "src").as_posix(), found)
    raise ValueError(f"{wanted_by}: names {name}, which is not in src; run the artefact again")


@cache
def _list_names(path: Path, _: int) -> dict[str, int | str]:
    """Every name at a module's top: the line of one that it defines, the module of one that it imports from."""
    body = ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom) and node.module]
    found: dict[str, int | str] = {a.name: str(node.module) for node in imports for a in node.names}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
        found |= {name: node.lineno for t in targets if (name := getattr(t, "id", None) or getattr(t, "name", None))}
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
