"""The report site: every artefact beside its paper, in plain files that open from disk and fetch nothing.

A failed build leaves the old site in place; equal inputs give equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jinja2
from markupsafe import Markup

from nfqa.data.paths import Place
from nfqa.lab.artefacts import Artefact, Leaf, Paper, find_title, list_leaves, list_needs, read_papers
from nfqa.lab.results import Result, Row, compare_with_leaf, read_result
from nfqa.lab.source_pages import Kernel, KernelFinder, render_notebook, render_source

VERDICTS = ("equal", "near", "differs", "differs, known", "not run")
_PARTIAL = "A quick run, or one with other parameters: these are not the numbers of the full report."
_HERE = Path(__file__).parent / "site"
Kind = Literal["measured", "sample"]


@dataclass(frozen=True)
class Entry:
    """One line of an artefact's table: a published number, ours, or both."""

    system: str
    title: str
    dataset: str
    metric: str
    origin: str
    verdict: str  # one of VERDICTS, "ours only", or "" where there is nothing to compare
    why: str
    leaf: Leaf | None
    row: Row | None
    needs: tuple[str, ...] = ()
    kernels: tuple[Kernel, ...] = ()

    @property
    def anchor(self) -> str:
        return "-".join((self.system, self.dataset, self.metric))

    @property
    def value(self) -> float | None:
        """Ours; none for a row that repeats a published number."""
        return self.row.value if self.row and self.origin in ("measured", "sample") else None

    @property
    def ours(self) -> str:
        """Our value as shown: four decimals, or none for a count."""
        value = self.value
        if value is None:
            return ""
        interval = self.row is not None and self.row.ci_low is not None
        counted = value.is_integer() and (self.leaf.decimals == 0 if self.leaf else not interval)
        return f"{value:.0f}" if counted else f"{value:.4f}"

    @property
    def gap(self) -> float | None:
        """Ours minus published."""
        return None if self.leaf is None or self.value is None else self.value - self.leaf.value


@dataclass(frozen=True)
class Sheet:
    """An artefact with all that its page shows."""

    paper: Paper
    name: str
    artefact: Artefact
    kind: Kind
    state: str
    needs: tuple[str, ...]
    entries: tuple[Entry, ...]
    result: Result | None
    figure: bool
    pdf: bool
    notebook: Path | None

    @property
    def folder(self) -> str:
        return "sample/" if self.kind == "sample" else ""

    def path(self, what: str, ending: str) -> str:
        """The sheet's file of a kind, from the site's top folder."""
        return f"{self.folder}{what}/{self.paper.paper}/{self.name}.{ending}"

    @property
    def counts(self) -> Counter[str]:
        return Counter(entry.verdict for entry in self.entries)

    @property
    def n_leaves(self) -> int:
        return sum(entry.leaf is not None for entry in self.entries)

    @property
    def n_ours(self) -> int:
        return sum(entry.value is not None for entry in self.entries)


def build_site(place: Place, *, sample: Place | None = None) -> Path:
    """Write the site of a place's results, and of a sample run's in a section of their own; returns index.html.

    Raises: ValueError for a results file that belongs to no artefact or holds a value of the wrong origin, and for a
        kernel that isn't in src.
    """
    papers = read_papers(place.root)
    kernels = KernelFinder(place.root)
    gathered = _gather(papers, place, "measured", kernels)
    sheets = [sheet for sheet in gathered if sheet.kind == "measured"]
    examples = [sheet for sheet in gathered if sheet.kind == "sample" and sheet.result]
    shown = {(sheet.paper.paper, sheet.name) for sheet in examples}
    ran = _gather(papers, sample, "sample", kernels) if sample else []
    samples = [sheet for sheet in ran if sheet.result and (sheet.paper.paper, sheet.name) not in shown]
    place.work.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=place.work, prefix=".site.new."))
    try:
        scratch.chmod(0o755)
        _write_pages(scratch, papers, [(sheets, place), (examples, place), (samples, sample or place)])
        _swap(scratch, place.site)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return place.site / "index.html"


def _gather(papers: dict[str, Paper], place: Place, kind: Kind, kernels: KernelFinder) -> list[Sheet]:
    sheets = []
    for name, paper in papers.items():
        for path in sorted((place.results / name).glob("*.json")):
            if path.stem not in paper.artefacts:
                raise ValueError(f"{path}: papers/{name}.yml has no {path.stem}; delete the file or add the entry")
        sheets += [_make_sheet(paper, artefact, place, kind, kernels) for artefact in paper.artefacts]
    return sheets


def _make_sheet(paper: Paper, name: str, place: Place, kind: Kind, kernels: KernelFinder) -> Sheet:
    artefact, beside = paper.artefacts[name], Path(paper.paper) / name
    path = place.results / beside.with_suffix(".json")
    result = read_result(path) if path.is_file() else None
    kind = "sample" if artefact.bundled else kind
    if result:
        _check(result, f"{paper.paper}/{name}", path, kind)
    entries = tuple(_join(paper, name, result, kind, path, kernels))
    state, needs = _find_state(artefact, result, entries)
    notebook = place.notebooks / beside.with_suffix(".ipynb")
    figure = place.figures / beside
    return Sheet(
        paper, name, artefact, kind, state, needs, entries, result,
        figure=figure.with_suffix(".png").is_file(), pdf=figure.with_suffix(".pdf").is_file(),
        notebook=notebook if notebook.is_file() else None,
    )  # fmt: skip


def _check(result: Result, identifier: str, path: Path, kind: Kind) -> None:
    if result.artefact != identifier:
        raise ValueError(f"{path}: artefact is {result.artefact!r}; expected {identifier!r}; run the artefact again")
    for row in result.rows:
        # A sample value must never stand among measured ones, nor the other way round.
        if row.origin not in (kind, "paper", "not run"):
            what = f"row {' '.join(row.key)} has origin {row.origin!r}"
            raise ValueError(f"{path}: {what}; expected {kind!r} here; move the file or run the artefact again")


def _join(paper: Paper, name: str, result: Result | None, kind: Kind, path: Path, finder: KernelFinder) -> list[Entry]:
    artefact = paper.artefacts[name]
    rows = {row.key: row for row in result.rows} if result else {}
    # The sample is other data than the paper's, so its values stand alone.
    leaves = {leaf.key: leaf for leaf in list_leaves(paper, name)} if kind == "measured" else {}
    entries = []
    for key in [*leaves, *(key for key in rows if key not in leaves)]:
        leaf, row = leaves.get(key), rows.get(key)
        ran = row is not None and row.origin == kind
        verdict, why = "", ""
        if leaf:
            verdict, why = compare_with_leaf(row if ran else None, leaf, artefact)
            if ran and verdict == "not run":
                why = "ours is undefined"
        elif ran and kind == "measured":
            verdict, why = "ours only", "the paper prints no number for it"
        wanted_by = f"{path}: row {' '.join(key)}"
        title, origin = find_title(paper, key[0]), row.origin if row else "not run"
        found = tuple(finder.find(kernel, wanted_by=wanted_by) for kernel in row.kernels) if row else ()
        waits = () if ran else list_needs(paper, name, key[0])
        entries.append(Entry(key[0], title, key[1], key[2], origin, verdict, why, leaf, row, waits, found))
    return entries


def _find_state(artefact: Artefact, result: Result | None, entries: tuple[Entry, ...]) -> tuple[str, tuple[str, ...]]:
    """The artefact's state in words, and the roles that what is not run waits for."""
    missing = [entry for entry in entries if entry.verdict == "not run"]
    needs = tuple(dict.fromkeys([*artefact.missing_roles, *(role for entry in missing for role in entry.needs)]))
    if result:
        measured = any(entry.row and entry.row.origin != "paper" for entry in entries)
        if not measured:
            return "computed from published numbers", ()
        compared = len(missing) < sum(entry.leaf is not None for entry in entries)
        return ("measured in part" if compared else "ours only", needs) if missing else ("measured", ())
    if not (missing or artefact.notebook or artefact.missing_roles):
        return "no numbers", ()
    return "not run", needs


def _write_pages(site: Path, papers: dict[str, Paper], groups: list[tuple[list[Sheet], Place]]) -> None:
    """Groups of sheets with the place that holds their files; the first is what was measured, the others samples."""
    (sheets, place), *others = groups
    samples = [sheet for group, _ in others for sheet in group]
    pages = _Pages(site, "" if place.results == place.root / "results" else _PARTIAL)
    totals: Counter[str] = sum((sheet.counts for sheet in sheets), Counter())
    facts = {
        "papers": papers, "sheets": sheets, "samples": samples, "totals": totals,
        "n_leaves": sum(sheet.n_leaves for sheet in sheets),
        "n_measured": sum(sheet.n_ours for sheet in sheets),
    }  # fmt: skip
    pages.write("index.html", "index.html", **facts)
    for group, source in groups:
        for number, sheet in enumerate(group):
            _copy_files(site, source, sheet)
            before = group[number - 1] if number else None
            after = group[number + 1] if number + 1 < len(group) else None
            pages.write("artefact.html", sheet.path("pages", "html"), sheet=sheet, before=before, after=after)
            if sheet.notebook:
                body = render_notebook(sheet.notebook, place.root)
                pages.write("notebook.html", sheet.path("notebooks", "html"), sheet=sheet, body=body)
    everything = [kernel for sheet in [*sheets, *samples] for entry in sheet.entries for kernel in entry.kernels]
    for file in sorted({kernel.file for kernel in everything}):
        named = sorted({(kernel.line, kernel.name) for kernel in everything if kernel.file == file})
        lines = render_source(place.root / "src" / file)
        pages.write("source.html", f"source/{file}.html", file=file, lines=lines, named=named)


def _copy_files(site: Path, source: Place, sheet: Sheet) -> None:
    beside = f"{sheet.paper.paper}/{sheet.name}"
    for folder, what, ending, there in (
        (source.figures, "figures", "png", sheet.figure),
        (source.figures, "figures", "pdf", sheet.pdf),
        (source.results, "results", "json", sheet.result is not None),
    ):
        if there:
            target = site / sheet.path(what, ending)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / f"{beside}.{ending}", target)


def _swap(new: Path, place: Path) -> None:
    """Put a finished folder where an old one may be; the old one comes back if that fails."""
    old = Path(tempfile.mkdtemp(dir=place.parent, prefix=".site.old."))
    try:
        if place.exists():
            place.rename(old / "site")
        try:
            new.rename(place)
        except OSError:
            if (old / "site").exists():
                (old / "site").rename(place)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


class _Pages:
    """Fills templates; style and script go into every page, so that a page needs no other file to be read."""

    def __init__(self, site: Path, notice: str) -> None:
        self._site = site
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        )  # fmt: skip
        script = (_HERE / "site.js").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self._environment.globals.update(
            verdicts=VERDICTS,
            notice=notice,
            marks=(*VERDICTS, "ours only"),
            style=Markup((_HERE / "site.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            # Only our own script runs, and nothing is fetched, whatever a notebook's output holds.
            policy="default-src 'none'; form-action 'none'; img-src 'self' data: file:; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'",
        )

    def write(self, template: str, path: str, **facts: Any) -> None:
        target = self._site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        page = self._environment.get_template(template).render(up="../" * path.count("/"), **facts)
        target.write_text(page, encoding="utf-8", newline="\n")
