"""The report site: an index of claims and artefacts, and nbconvert's page of each executed
notebook.

Pages open from disk and request nothing. A failed build leaves the old site in place.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import nbformat
from latex2mathml.converter import convert
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from reproduction.check import list_files
from reproduction.claims import APART, count_claims, judge_claims, say_deciding, say_verdict
from reproduction.notebooks import ANSWER, read_cells, read_parameters
from reproduction.papers import Paper, list_needs, read_papers
from reproduction.place import Place

_TEMPLATES = Path(__file__).parent / "templates"
_PARTIAL = "Partial: a quick run, or one with other parameters. These are not the numbers of the full report."


def build_site(place: Place) -> Path:
    """Build the site of a place's results: its index.html, and a page for each notebook.

    Raises: ValueError naming the file for results that can't be read.
    """
    notice = "" if place.is_full else _PARTIAL
    parts = []
    for paper in reversed(read_papers(place.root).values()):
        judged = judge_claims(paper, place.read_from / "results")
        claims = [(sides.iloc[0], [*sides.itertuples()]) for _, sides in judged.groupby("claim", sort=False)]
        counts = Markup(count_claims(judged).rename_axis(index=None, columns=None).to_html(border=0))  # noqa: S704 - words and counts of our own
        parts.append((paper, claims, counts, [describe_artefact(paper, name, place) for name in paper.artefacts]))
    sheets = [sheet for *_, of_paper in parts for sheet in of_paper]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    index = environment.from_string((_TEMPLATES / "index.html").read_text(encoding="utf-8"))
    place.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.work, prefix=".site.new.") as scratch:
        site = Path(scratch) / "site"
        for sheet in sheets:
            page = site / f"{sheet['stem']}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            for ending, path in sheet["files"].items():
                shutil.copyfile(path, page.with_suffix(f".{ending}"))
            if sheet["page"] == sheet["stem"]:
                notes = [other["artefact"].note for other in sheets if other["page"] == sheet["stem"]]
                html = render_notebook(sheet["notebook"], place.root, notes=[notice, *notes])
                page.write_text(html, encoding="utf-8")
        words = {"apart": APART, "say_verdict": say_verdict, "say_deciding": say_deciding, "notice": notice}
        (site / "index.html").write_text(index.render(parts=parts, **words), encoding="utf-8")
        if place.site.exists():
            place.site.rename(Path(scratch) / "old")
        site.rename(place.site)
    return place.site / "index.html"


def describe_artefact(paper: Paper, name: str, place: Place) -> dict[str, Any]:
    """What the index shows of an artefact.

    Returns: artefact. notebook (as executed here, else as committed) and files (by ending) are on
        this machine; stem and page are paths from the site's top folder, page that of its notebook,
        "" without one. answer is the committed run's, "" for another run; needs is what it needs to
        be run, or what the rows that the paper prints need, in words.
    """
    artefact = paper.artefacts[name]
    stem = f"{paper.paper}/{name}"
    files = {ending[1:]: path for ending, path in list_files(place.read_from, stem).items() if path.is_file()}
    main = read_parameters(artefact.path)["artefact"] if artefact.notebook and place.is_full else ""
    answers = [cell["source"] for cell in read_cells(artefact.path) if ANSWER in cell["tags"]] if main == stem else []
    page = stem
    notebook = place.notebooks / f"{stem}.ipynb"
    if main and not notebook.is_file():
        page = main  # one notebook may make several
        notebook = artefact.path
    has_gaps = not files or len(paper.find_published(name)) > 0
    return {
        "artefact": artefact, "stem": stem, "page": page if notebook.is_file() else "", "notebook": notebook,
        "files": files, "answer": "".join(answers).removeprefix("**Answer.** "),
        "needs": list_needs(paper, name) if has_gaps else [],
    }  # fmt: skip


class _Renderer(IPythonRenderer):
    """Markdown with formulas as MathML, which needs no script, and figures as their copies beside
    the page.
    """

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


@cache
def _open_exporter() -> Any:
    """The exporter with this project's template; opening one takes longer than a page."""
    return _Exporter(template_name="notebook", extra_template_basedirs=[str(_TEMPLATES)])  # type: ignore[no-untyped-call]


def render_notebook(path: Path, root: Path, notes: list[str]) -> str:
    """The page of a notebook, below some notes, by nbconvert."""
    text = path.read_text(encoding="utf-8").replace(str(root), ".")
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"notes": [note for note in notes if note], "metadata": {"name": path.stem}}
    body, _ = _open_exporter().from_notebook_node(notebook, resources)
    return str(body)
