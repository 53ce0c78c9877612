"""The report site: the claims of each paper, then one page per artefact with its executed notebook.

Pages open from disk and request nothing. A failed build leaves the old site in place. Equal inputs give equal bytes.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import nbformat
import pandas as pd
from bs4 import BeautifulSoup
from latex2mathml.converter import convert
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from nfqa.files.json_lines import read_json
from reproduction.check import list_files
from reproduction.claims import APART, COUNTS, SIDES, count_claims, judge_claims
from reproduction.compare import compare_published, list_replaced, name_rows, pivot_beside_paper
from reproduction.notebooks import read_parameters
from reproduction.papers import STAND_IN, Artefact, Paper, list_needs, read_papers
from reproduction.place import Place
from reproduction.values import name_keys, read_values

SIGNS = {  # a mark is a sign, a word and a colour, so that any one of them is enough
    "supported": "✓", "not supported": "✗", "inconclusive": "?", "not tested": "⊘",
    "supported (proxy)": "⇄✓", "not supported (proxy)": "⇄✗", "inconclusive (proxy)": "⇄?",
    "equal": "=", "near": "≈", "differs, explained": "†", "differs, cause unknown": "‡", "differs": "≠", "missing": "!",
    "paper": "¶", "measured": "●", "stand-in": "⇄", "sample": "◇", "not run": "○",
    "measured in part": "◐", "other rows only": "+", "computed from published numbers": "∑", "no numbers": "□",
}  # fmt: skip
_PARTIAL = "Partial: a quick run, or one with other parameters. These are not the numbers of the full report."
_ACTIVE = ["script", "iframe", "object", "embed", "link", "base", "meta", "form"]  # could run, fetch or lead away
# At least two folders deep, so that "a/b", "</td>" and "// comment" stay as they are.
_ABSOLUTE_PATH = re.compile(r"(?<![\w/.:<~])/(?:[\w.+@-]+/)+(?=[\w.+@-])")


def build_site(place: Place) -> Path:
    """Build the site of a place's results.

    Returns: its index.html.
    Raises: ValueError naming the file for results that can't be read.
    """
    papers = [*reversed(read_papers(place.root).values())]
    sheets = [describe_artefact(paper, name, place) for paper in papers for name in paper.artefacts]
    claims, counts = [], {}
    for paper in papers:
        judged = judge_claims(paper, place.read_from / "results")
        counts[paper.paper] = {apart: count_claims(judged, apart=apart) for apart in (False, True)}
        for claim in judged.to_dict("records"):
            names = paper.claims[claim["claim"]].tables
            tables = {f"{paper.paper}/{name}": paper.artefacts[name].label for name in names}
            claims.append(claim | {"paper": paper, "tables": tables})
    place.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.work, prefix=".site.new.") as scratch:
        site, render = Path(scratch) / "site", _open_templates(place)
        for sheet in sheets:
            page = site / f"{sheet['stem']}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            for ending, path in sheet["files"].items():
                shutil.copyfile(path, page.with_suffix(f".{ending}"))
            tested = [claim for claim in claims if sheet["stem"] in claim["tables"]]
            cells = render_notebook(sheet["notebook"], place.root) if sheet["notebook"].is_file() else ""
            page.write_text(render("artefact.html", sheet=sheet, claims=tested, notebook=cells), encoding="utf-8")
        index = render("index.html", papers=papers, sheets=sheets, claims=claims, counts=counts)
        (site / "index.html").write_text(index, encoding="utf-8")
        if place.site.exists():
            place.site.rename(Path(scratch) / "old")
        site.rename(place.site)
    return place.site / "index.html"


def describe_artefact(paper: Paper, name: str, place: Place) -> dict[str, Any]:
    """What the pages show of an artefact.

    Returns: paper and artefact. notebook (as executed here, else as committed) and files (by ending) are on this
        machine; stem is the path from the site's top folder. rows (values with their conditions in words) and
        made_from (provenance) are empty without results. published has the published numbers beside the values
        measured here, and table the same in the paper's shape. verdicts and origins are counts. stand_ins, state and
        needs are in words. Values of the sample are not compared.
    """
    artefact, stem = paper.artefacts[name], f"{paper.paper}/{name}"
    files = {ending[1:]: path for ending, path in list_files(place.read_from, stem).items() if path.is_file()}
    sheet: dict[str, Any] = {"rows": [], "stand_ins": [], "origins": Counter(), "made_from": {}, "table": ""}
    values = None
    if "csv" in files:
        values = read_values(files["csv"])
        words = name_rows(paper, values, name_keys(values))
        sheet["rows"] = values.astype(object).where(values.notna(), None).assign(words=words).to_dict("records")
        sheet |= {"stand_ins": list_replaced(paper, name, values), "origins": Counter(sorted(values.origin))}
        sheet["made_from"] = read_json(files["json"]) if "json" in files else {}
    published = compare_published(paper, name, values)[: 0 if "sample" in sheet["origins"] else None]
    if len(published):
        sheet["table"] = _draw_table(pivot_beside_paper(paper, name, values))
    sheet |= {"published": published, "verdicts": Counter(published.verdict), "needs": list_needs(paper, name)}
    notebook = place.notebooks / f"{stem}.ipynb"
    if place.is_full and not notebook.is_file() and artefact.notebook:
        is_main = read_parameters(artefact.path)["artefact"] == stem  # one notebook may make several
        notebook = artefact.path if is_main else notebook
    sheet |= {"paper": paper, "artefact": artefact, "notebook": notebook}
    return sheet | {"files": files, "stem": stem, "state": _find_state(**sheet)}


def _find_state(artefact: Artefact, verdicts: Counter[str], origins: Counter[str], needs: list[str], **_: Any) -> str:
    """How much of an artefact is measured."""
    measured = set(origins) - {"paper"}
    if not origins:
        return "not run" if artefact.notebook or needs or verdicts else "no numbers"
    if measured <= {STAND_IN}:
        return STAND_IN if measured else "computed from published numbers"
    if "sample" in measured:
        return "sample"
    if verdicts["not run"] == verdicts.total() > 0:
        return "other rows only"
    return "measured in part" if needs or STAND_IN in measured else "measured"


def _draw_table(pivot: pd.DataFrame) -> Markup:
    """The paper's table: each cell has the sign of its verdict, the value measured here, and the published value."""
    signs = pivot["verdict"].map(lambda verdict: f"{SIGNS[verdict]} " if verdict else "")
    style = (signs + pivot["cell"]).style.format(escape="html").format_index(escape="html", axis=0)
    style = style.format_index(escape="html", axis=1).set_td_classes("m-" + pivot["verdict"].map(_slug))
    return Markup(style.to_html(table_uuid="paper", cell_ids=False))  # noqa: S704 - escaped above


class _Renderer(IPythonRenderer):
    """Markdown without raw HTML: formulas as MathML, figures as their copies beside the page."""

    def heading(self, text: str, level: int, **attributes: Any) -> str:
        return super().heading(text, level + 1, **attributes)

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


def render_notebook(path: Path, root: Path) -> Markup:
    """An executed notebook's cells as HTML without scripts and without folders of this machine."""
    text = path.read_text(encoding="utf-8").replace(str(root), ".")
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    for number, cell in enumerate(notebook.cells):
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
    environment.filters.update(slug=_slug, number=_write_number)
    environment.globals.update(signs=SIGNS, sides=SIDES, apart=APART, needed=COUNTS)
    environment.globals.update(notice="" if place.is_full else _PARTIAL)
    return lambda name, **parts: environment.get_template(name).render(**parts)


def _slug(word: str) -> str:
    return re.sub(r"\W+", "-", word)


def _write_number(number: float | None) -> str:
    """Four significant digits; none behind the point of a large or a whole number."""
    if number is None:
        return ""
    return f"{number:,.0f}" if number == round(number) or abs(number) >= 1000 else f"{number:.4g}"
