"""Pages made from files: a kernel's source with an anchor on every line, and an executed notebook."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from html import unescape
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from markupsafe import Markup, escape
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from nbconvert import HTMLExporter
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from traitlets.config import Config

_ACTIVE = ["script", "iframe", "object", "embed", "link", "base", "meta"]  # what could run or fetch
# At least two folders deep, so that "a/b", "</td>" and "// comment" stay as they are.
_ABSOLUTE_PATH = re.compile(r"(?<![\w/.:<~])/(?:[\w.+@-]+/)+(?=[\w.+@-])")
_QUOTED_PATH = re.compile(r"([\"'])/[^\"'\n]*\1")
_SHOWN = ["text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown", "text/plain"]
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.DOTALL)
_SPELLINGS = {  # what matplotlib's mathtext lacks, as it has it
    r"\\(?:[bB]igg?[lr]?(?![a-z])|!)": "", r"\\tfrac": r"\\frac", r"\\frac\s*(\w)(\w)": r"\\frac{\1}{\2}",
    r"\\(le|ge)(?![a-z])": r"\\\1q",
    r"\\[lr]Vert": r"\\|", r"\\operatorname\*": r"\\operatorname", r"\s+": " ",
}  # fmt: skip
_SEGMENTS = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}  # codes of matplotlib.path.Path in SVG


@dataclass(frozen=True)
class Definition:
    """Where a function or class is: its file from the `src` folder on, and the line of its `def`."""

    name: str  # MODULE:NAME
    file: str  # nfqa/kernels/correlation.py
    line: int

    @property
    def short(self) -> str:
        """Last module and function, which is what a reader recognises."""
        return self.name.rpartition(".")[2].replace(":", ".")

    @property
    def link(self) -> str:
        return f"source/{self.file}.html#L-{self.line}"


def find_definition(root: Path, name: str, *, wanted_by: str) -> Definition:
    """The file and line of MODULE:NAME, found by reading files, never by importing them.

    Raises: ValueError naming what wants it where there is no such module or name.
    """
    module, _, wanted = name.partition(":")
    stem = root.joinpath("src", *module.split("."))
    if (stem / f"{wanted}.py").is_file():  # a module, imported by its name
        return Definition(name, (stem / f"{wanted}.py").relative_to(root / "src").as_posix(), 1)
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else ():
            if isinstance(node, ast.ImportFrom) and wanted in [alias.name for alias in node.names]:
                return find_definition(root, f"{node.module}:{wanted}", wanted_by=wanted_by)
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            if wanted in [getattr(target, "id", getattr(target, "name", None)) for target in targets]:
                return Definition(name, path.relative_to(root / "src").as_posix(), node.lineno)
    raise ValueError(f"{wanted_by}: names {name}, which is not in src; run the artefact again")


def render_source(path: Path) -> Markup:
    """A Python file as highlighted HTML with numbered lines, the anchor of line 5 being L-5."""
    formatter = HtmlFormatter(linenos="inline", linespans="L", anchorlinenos=True, cssclass="highlight listing")
    code = path.read_text(encoding="utf-8")
    return Markup(highlight(code, PythonLexer(stripnl=False), formatter))  # noqa: S704 - escaped by the formatter


def render_notebook(path: Path, root: Path) -> Markup:
    """An executed notebook's cells as HTML that fetches nothing, runs nothing and names no folder of the machine.

    Raises: ValueError naming the file when it isn't a notebook.
    """
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    except Exception as error:  # nbformat has several kinds, and JSON errors come through as they are
        raise ValueError(f"{path}: not a notebook ({str(error).splitlines()[0]}); run the artefact again") from None
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # some are drawn at random, and pages must not change by themselves
        if "injected-parameters" in cell.get("metadata", {}).get("tags", []):
            cell["source"] = _QUOTED_PATH.sub(r"\1…\1", cell["source"])
        for output in cell.get("outputs", []):
            for holder, key in ((output, "text"), (output.get("data", {}), "text/plain")):
                if key in holder:
                    holder[key] = _ABSOLUTE_PATH.sub("…/", holder[key].replace(str(root), "."))
    body, _ = _open_exporter().from_notebook_node(notebook)
    page = BeautifulSoup(body.replace(str(root), "."), "html.parser")
    for tag in page(_ACTIVE):
        tag.decompose()
    for text in page.find_all(string=_FORMULA):
        if not text.find_parent(["code", "pre", "svg"]) and text.find_parent(class_="text_cell_render"):
            drawn = _FORMULA.sub(lambda found: draw_formula(found[1] or found[2]), str(escape(text)))
            text.replace_with(BeautifulSoup(drawn, "html.parser"))
    for image in page("img"):
        if str(image.get("src", "")).startswith("data:"):
            image["alt"] = "Figure drawn by this cell"
        else:
            image.replace_with(f"[picture not included: {image.get('alt') or 'no description'}]")
    for table in page("table"):  # a box of its own for every table, which can then be wider than the page
        table.wrap(
            page.new_tag("div", attrs={"class": "scroller", "tabindex": "0", "role": "group", "aria-label": "Table"})
        )
    return Markup(page)  # noqa: S704 - made above, scripts taken out


@cache
def draw_formula(formula: str) -> str:
    """A formula of LaTeX, escaped as HTML, as outlines in the text's colour that are read aloud as the LaTeX that was
    written; as its text where it can't be drawn."""
    parts = []
    for part in re.split(r",?\s*\\qquad\s*", unescape(formula).strip()):  # each can have a line of its own
        known = part
        for spelling, ours in _SPELLINGS.items():
            known = re.sub(spelling, ours, known)
        try:
            path = TextPath((0, 0), f"${known.strip()}$", size=10, prop=FontProperties(math_fontfamily="stix"))
        except ValueError:
            return f'<code class="formula">{formula}</code>'
        box = path.get_extents()
        outline = " ".join(
            _SEGMENTS[int(code)] + ("" if code == 79 else " ".join(f"{n:.2f}" for n in points))
            for points, code in path.iter_segments(curves=True, simplify=False)
        )
        parts.append(
            f'<svg class="formula" role="img" aria-label="{escape(part)}" viewBox="{box.x0:.2f} {-box.y1:.2f} '
            f'{box.width:.2f} {box.height:.2f}" style="width:{box.width / 10:.3f}em;height:{box.height / 10:.3f}em;'
            f'vertical-align:{box.y0 / 10:.3f}em"><path transform="scale(1 -1)" d="{outline}"/></svg>'
        )
    return parts[0] if len(parts) == 1 else f'<span class="formulas">{" ".join(parts)}</span>'


@cache
def _open_exporter() -> HTMLExporter:
    """Opened once, as it compiles its templates."""
    config = Config({"NbConvertBase": {"display_data_priority": _SHOWN}})
    return HTMLExporter(template_name="basic", exclude_anchor_links=True, config=config)  # type: ignore[no-untyped-call]
