"""The report site: the claims of each paper and all artefacts, and a page for each executed notebook.

Pages open from disk and request nothing. A failed build leaves the old site in place. Equal inputs give equal bytes.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import nbformat
from bs4 import BeautifulSoup
from latex2mathml.converter import convert
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from reproduction.check import list_files
from reproduction.claims import APART, count_claims, judge_claims, say_deciding, say_verdict
from reproduction.notebooks import ANSWER, read_cells, read_parameters
from reproduction.papers import Paper, list_needs, read_papers
from reproduction.place import Place

SIGNS = {  # a verdict is a sign, a word and a colour, so that any one of them is enough
    "supported": "✓", "not supported": "✗", "inconclusive": "?", "not tested": "⊘",
}  # fmt: skip
_PARTIAL = "Partial: a quick run, or one with other parameters. These are not the numbers of the full report."
_ACTIVE = ["script", "iframe", "object", "embed", "link", "base", "meta", "form"]  # could run, fetch or lead away
# At least two folders deep, so that "a/b", "</td>" and "// comment" stay as they are.
_ABSOLUTE_PATH = re.compile(r"(?<![\w/.:<~])/(?:[\w.+@-]+/)+(?=[\w.+@-])")


def build_site(place: Place) -> Path:
    """Build the site of a place's results: its index.html, and a page for each notebook.

    Raises: ValueError naming the file for results that can't be read.
    """
    papers = [*reversed(read_papers(place.root).values())]
    sheets = [describe_artefact(paper, name, place) for paper in papers for name in paper.artefacts]
    claims = []
    counts = {}
    for paper in papers:
        judged = judge_claims(paper, place.read_from / "results")
        counts[paper.paper] = {apart: count_claims(judged, apart=apart) for apart in (False, True)}
        by_name = {sheet["stem"].partition("/")[2]: sheet for sheet in sheets if sheet["paper"] is paper}
        for name, sides in judged.groupby("claim", sort=False):
            of_claim = {"paper": paper, "sides": [*sides.itertuples()]}
            of_claim["sheets"] = [by_name[table] for table in paper.claims[name].tables]
            claims.append(sides.iloc[0].to_dict() | of_claim)
    place.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.work, prefix=".site.new.") as scratch:
        site = Path(scratch) / "site"
        render = _open_templates(place)
        for sheet in sheets:
            page = site / f"{sheet['stem']}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            for ending, path in sheet["files"].items():
                shutil.copyfile(path, page.with_suffix(f".{ending}"))
            if sheet["page"] == sheet["stem"]:
                cells = render_notebook(sheet["notebook"], place.root, sheet["answer"])
                notes = [each["artefact"].note for each in sheets if each["page"] == sheet["stem"]]
                page.write_text(render("artefact.html", sheet=sheet, notes=notes, notebook=cells), encoding="utf-8")
        index = render("index.html", papers=papers, sheets=sheets, claims=claims, counts=counts)
        (site / "index.html").write_text(index, encoding="utf-8")
        if place.site.exists():
            place.site.rename(Path(scratch) / "old")
        site.rename(place.site)
    return place.site / "index.html"


def describe_artefact(paper: Paper, name: str, place: Place) -> dict[str, Any]:
    """What the pages show of an artefact.

    Returns: paper and artefact. notebook (as executed here, else as committed) and files (by ending) are on this
        machine; stem and page are paths from the site's top folder, page that of its notebook, "" without one.
        answer is the committed run's, "" for another run; needs is what it needs to be run, or what the rows that the
        paper prints need, in words.
    """
    artefact = paper.artefacts[name]
    stem = f"{paper.paper}/{name}"
    files = {ending[1:]: path for ending, path in list_files(place.read_from, stem).items() if path.is_file()}
    of_committed = artefact.notebook and place.is_full and read_parameters(artefact.path)["artefact"] == stem
    answers = [cell["source"] for cell in read_cells(artefact.path) if ANSWER in cell["tags"]] if of_committed else []
    page = stem
    notebook = place.notebooks / f"{stem}.ipynb"
    if place.is_full and not notebook.is_file() and artefact.notebook:
        page = read_parameters(artefact.path)["artefact"]
        notebook = artefact.path  # one notebook may make several
    page = page if notebook.is_file() else ""
    has_gaps = not files or len(paper.find_published(name)) > 0
    return {
        "paper": paper, "artefact": artefact, "stem": stem, "page": page, "notebook": notebook, "files": files,
        "answer": "".join(answers).removeprefix("**Answer.** "), "needs": list_needs(paper, name) if has_gaps else [],
    }  # fmt: skip


class _Renderer(IPythonRenderer):
    """Markdown without raw HTML: formulas as MathML, figures as their copies beside the page."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return super().image(text, Path(url).name, title)

    def block_math(self, body: str) -> str:
        return convert(body.replace(r"\arg", r"\operatorname{arg}"), display="block")

    def inline_math(self, body: str) -> str:
        return convert(body.replace(r"\arg", r"\operatorname{arg}"))


class _Exporter(HTMLExporter):
    @jinja2.pass_context
    def markdown2html(self, _: object, source: str) -> str:
        return MarkdownWithMath(_Renderer(allow_harmful_protocols=False, exclude_anchor_links=True)).render(source)


def render_notebook(path: Path, root: Path, answer: str = "") -> Markup:
    """An executed notebook's cells as HTML without scripts and without folders of this machine.

    answer: the committed one, which may be newer than that of the run.
    """
    text = path.read_text(encoding="utf-8").replace(str(root), ".")
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    for number, cell in enumerate(notebook.cells):
        if answer and ANSWER in cell.metadata.get("tags", []):
            cell["source"] = f"**Answer.** {answer}"
        cell["id"] = f"cell-{number}"  # some are drawn at random, and pages must not change by themselves
    body, _ = _Exporter(template_name="basic").from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    page = BeautifulSoup(body, "html.parser")
    for tag in [*page(_ACTIVE), *page("img", src=re.compile(r"^(\w+:)?//"))]:
        tag.decompose()
    for words in page(string=_ABSOLUTE_PATH):
        words.replace_with(_ABSOLUTE_PATH.sub("…/", words))
    return Markup(page)  # noqa: S704 - made above, without scripts


def _open_templates(place: Place) -> Callable[..., str]:
    """A function that renders a template by its name."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["slug"] = lambda words: re.sub(r"\W+", "-", words)
    environment.globals.update(signs=SIGNS, apart=APART, say_verdict=say_verdict, say_deciding=say_deciding)
    environment.globals.update(notice="" if place.is_full else _PARTIAL)
    return lambda name, **parts: environment.get_template(name).render(**parts)
