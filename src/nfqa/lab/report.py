"""The report site: every artefact beside its paper, in plain files that open from disk and fetch nothing.

A failed build leaves the old site in place; equal inputs give equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import jinja2
import pandas as pd
from markupsafe import Markup

from nfqa.data.paths import Place
from nfqa.lab.artefacts import Artefact, Paper, list_needs, read_papers
from nfqa.lab.beside import compare_published
from nfqa.lab.open import show_name
from nfqa.lab.source_pages import Definition, find_definition, render_notebook, render_source
from nfqa.lab.values import name_keys, read_values

VERDICTS = ("equal", "near", "differs", "differs, known", "not run")
_PARTIAL = "A quick run, or one with other parameters: these are not the numbers of the full report."
_HERE = Path(__file__).parent / "site"
Kind = Literal["measured", "sample"]


@dataclass(frozen=True)
class Sheet:
    """An artefact with all that its page shows. `values` and `provenance` are None where it has no results."""

    paper: Paper
    name: str
    place: Place
    kind: Kind
    values: pd.DataFrame | None
    provenance: dict[str, Any] | None
    functions: tuple[Definition, ...]

    @property
    def artefact(self) -> Artefact:
        return self.paper.artefacts[self.name]

    def path(self, what: str, ending: str) -> str:
        """The sheet's file of a kind, from the site's top folder."""
        return f"{'sample/' if self.kind == 'sample' else ''}{what}/{self.paper.paper}/{self.name}.{ending}"

    @cached_property
    def files(self) -> dict[str, Path]:
        """What there is of it on this machine, by ending."""
        beside = f"{self.paper.paper}/{self.name}"
        folders = {"csv": self.place.results, "json": self.place.results, "png": self.place.figures}
        folders |= {"pdf": self.place.figures, "ipynb": self.place.notebooks}
        found = {ending: folder / f"{beside}.{ending}" for ending, folder in folders.items()}
        return {ending: path for ending, path in found.items() if path.is_file()}

    @cached_property
    def published(self) -> pd.DataFrame:
        """Published numbers beside ours; none beside a sample's, which is other data than the paper's."""
        if self.kind == "sample":
            return pd.DataFrame(columns=["verdict"])
        found = compare_published(self.paper, self.name, self.values)
        needs = [", ".join(list_needs(self.paper, self.name, system)) for system in found.system]
        shown = {side: found[side].map(self.title) for side in ("system", "dataset", "metric")}
        return found.assign(**shown, needs=needs, gap=found.value - found.published).replace({"missing": "not run"})

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Our values, each with its key in words."""
        if self.values is None:
            return []
        keys = name_keys(self.values)
        named = self.values[keys].map(lambda part: "" if pd.isna(part) or part == "" else self.title(part))
        words = [{name: word for name, word in row.items() if word} for row in named.to_dict("records")]
        rows = self.values.astype(object).where(self.values.notna(), None).to_dict("records")
        return [row | {"words": own} for row, own in zip(rows, words, strict=True)]

    def title(self, name: object) -> str:
        """How a dataset, metric, condition or statistic is shown."""
        return show_name(self.paper, name)

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.published.verdict)

    @property
    def needs(self) -> tuple[str, ...]:
        """The roles and files that what is not run waits for."""
        waiting = self.published[self.published.verdict == "not run"]
        words = [need for text in waiting.get("needs", []) for need in text.split(", ") if need]
        return tuple(dict.fromkeys([*self.artefact.missing_roles, *words]))

    @property
    def state(self) -> str:
        """The artefact's state in words."""
        if self.values is None:
            waits = self.counts["not run"] or self.artefact.notebook or self.artefact.missing_roles
            return "not run" if waits else "no numbers"
        if set(self.values.origin) == {"paper"}:
            return "computed from published numbers"
        if not self.counts["not run"]:
            return "measured"
        return "measured in part" if self.counts["not run"] < len(self.published) else "ours only"


def build_site(place: Place, *, sample: Place | None = None) -> Path:
    """Write the site of a place's results, and of a sample run's in a section of their own; returns index.html.

    Raises: ValueError for a results file that belongs to no artefact or holds a value of the wrong origin, and for a
        function that is not in src.
    """
    papers = read_papers(place.root)
    gathered = _gather(papers, place, "measured")
    sheets = [sheet for sheet in gathered if sheet.kind == "measured"]
    examples = [sheet for sheet in gathered if sheet.kind == "sample" and sheet.values is not None]
    shown = {(sheet.paper.paper, sheet.name) for sheet in examples}
    ran = _gather(papers, sample, "sample") if sample else []
    examples += [s for s in ran if s.values is not None and (s.paper.paper, s.name) not in shown]
    place.work.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=place.work, prefix=".site.new."))
    try:
        scratch.chmod(0o755)
        _write_pages(scratch, place, papers, sheets, examples)
        _swap(scratch, place.site)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return place.site / "index.html"


def _gather(papers: dict[str, Paper], place: Place, kind: Kind) -> list[Sheet]:
    for name, paper in papers.items():
        for path in sorted((place.results / name).glob("*.csv")):
            if path.stem not in paper.artefacts:
                raise ValueError(f"{path}: papers/{name}.yml has no {path.stem}; delete the file or add the entry")
    return [_make_sheet(paper, name, place, kind) for paper in papers.values() for name in paper.artefacts]


def _make_sheet(paper: Paper, name: str, place: Place, kind: Kind) -> Sheet:
    path = place.results / paper.paper / f"{name}.csv"
    kind = "sample" if paper.artefacts[name].bundled else kind
    if not path.is_file():
        return Sheet(paper, name, place, kind, None, None, ())
    values, provenance = read_values(path), _read_provenance(path.with_suffix(".json"), f"{paper.paper}/{name}")
    # A sample value must never stand among measured ones, nor the other way round.
    strange = values[~values.origin.isin([kind, "paper"])]
    if len(strange):
        what = f"{path}: a row has origin {strange.origin.iloc[0]!r}; expected {kind!r} here"
        raise ValueError(f"{what}; move the file or run the artefact again")
    functions = tuple(find_definition(place.root, name, wanted_by=str(path)) for name in provenance["functions"])
    return Sheet(paper, name, place, kind, values, provenance, functions)


def _read_provenance(path: Path, identifier: str) -> dict[str, Any]:
    try:
        provenance = dict(json.loads(path.read_text(encoding="utf-8")))
        if provenance["artefact"] != identifier or not isinstance(provenance["functions"], list):
            raise ValueError(f"it is of {provenance['artefact']}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not the provenance of {identifier} ({error}); run the artefact again") from None
    return provenance


def _write_pages(site: Path, place: Place, papers: dict[str, Paper], sheets: list[Sheet], samples: list[Sheet]) -> None:
    pages = _Pages(site, "" if place.results == place.root / "results" else _PARTIAL)
    totals: Counter[str] = sum((sheet.counts for sheet in sheets), Counter())
    pages.write("index.html", "index.html", papers=papers, sheets=sheets, samples=samples, totals=totals)
    for group in (sheets, samples):
        for number, sheet in enumerate(group):
            for ending, what in (("png", "figures"), ("pdf", "figures"), ("csv", "results"), ("json", "results")):
                if ending in sheet.files:
                    target = site / sheet.path(what, ending)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(sheet.files[ending], target)
            around = {
                "before": group[number - 1] if number else None,
                "after": group[number + 1] if number + 1 < len(group) else None,
            }
            pages.write("artefact.html", sheet.path("pages", "html"), sheet=sheet, **around)
            if "ipynb" in sheet.files:
                body = render_notebook(sheet.files["ipynb"], place.root)
                pages.write("notebook.html", sheet.path("notebooks", "html"), sheet=sheet, body=body)
    everything = {function for sheet in [*sheets, *samples] for function in sheet.functions}
    for file in sorted({function.file for function in everything}):
        named = sorted((function.line, function.name) for function in everything if function.file == file)
        lines = render_source(place.root / "src" / file)
        pages.write("source.html", f"source/{file}.html", file=file, lines=lines, named=named)


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
