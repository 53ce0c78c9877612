"""The report site: what holds of each paper, and every artefact beside it, in files that open from disk.

It fetches nothing. A failed build leaves the old site in place; equal inputs give equal bytes.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from markupsafe import Markup

from nfqa.data.json_lines import AnyText, LooseItem, check, read_json
from nfqa.data.paths import Place
from nfqa.lab.claims import judge_claims
from nfqa.lab.compare import compare_published, list_replaced, name_rows, pivot_beside_paper
from nfqa.lab.pages import mark_cell, open_templates, say_needs, slug
from nfqa.lab.papers import STAND_IN, Artefact, Paper, list_needs, read_papers, show_name
from nfqa.lab.source_pages import Definition, find_definition, render_notebook, render_source
from nfqa.lab.values import name_keys, read_values

EXPLAINED, CAUSE_UNKNOWN = "differs, explained", "differs, cause unknown"
VERDICTS = ("equal", "near", EXPLAINED, CAUSE_UNKNOWN, "differs", "not run")
NO_STAND_IN = "no stand-in"  # where a claim has no test with one
_PARTIAL = "A quick run, or one with other parameters: these are not the numbers of the full report."
_IDS = re.compile(r'<style.*?</style>\s*| id="T_\w+"', re.DOTALL)  # what pandas gives a table
_LABELS = re.compile(r"(Table|Figure)s? (\d+(?:(?:, | and )\d+)*)")  # "Tables 2, 3 and 4"
_SENTENCE_END = re.compile(r"(?<=[^.\s][a-z0-9)\]%]\.)\s+(?=[A-Z“])")  # not the ones in "P.D. of"
_FOLDERS = {"csv": "results", "json": "results", "png": "figures", "pdf": "figures", "ipynb": "notebooks"}
Kind = Literal["measured", "sample"]


class _Provenance(LooseItem):
    artefact: str
    functions: list[str]
    findings: list[AnyText]


@dataclass(frozen=True)
class Sheet:
    """An artefact with all that its page shows. `values` and `provenance` are None where it has no results."""

    paper: Paper
    name: str
    place: Place
    kind: Kind
    values: pd.DataFrame | None = None
    provenance: dict[str, Any] | None = None
    functions: tuple[Definition, ...] = ()

    @property
    def artefact(self) -> Artefact:
        return self.paper.artefacts[self.name]

    def path(self, ending: str = "html") -> str:
        """Its page, or the copy of its file with an ending, from the site's top folder."""
        folder, shown = _FOLDERS.get(ending, "pages"), "html" if ending == "ipynb" else ending
        return f"{'sample/' if self.kind == 'sample' else ''}{folder}/{self.paper.paper}/{self.name}.{shown}"

    @cached_property
    def files(self) -> dict[str, Path]:
        """What there is of it on this machine, by ending."""
        stem = f"{self.paper.paper}/{self.name}"
        found = {ending: getattr(self.place, folder) / f"{stem}.{ending}" for ending, folder in _FOLDERS.items()}
        return {ending: path for ending, path in found.items() if path.is_file()}

    @cached_property
    def published(self) -> pd.DataFrame:
        """Published numbers beside ours; none beside a sample's, which is other data than the paper's."""
        found = compare_published(self.paper, self.name, self.values).replace({"missing": "not run"})
        unknown = found.why.str.startswith("Cause not established")
        found["verdict"] = found.verdict.mask(found.verdict == "differs, known", EXPLAINED)
        found["verdict"] = found.verdict.mask(unknown & (found.verdict == EXPLAINED), CAUSE_UNKNOWN)
        needs = found.system.map(lambda system: say_needs(map(self.title, list_needs(self.paper, self.name, system))))
        found["why"] = found.why.mask((found.verdict == "not run") & (needs != ""), "needs " + needs.astype(str))
        return found.assign(gap=found.value - found.published)[: 0 if self.kind == "sample" else None]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Our values, each with its key in words; a difference reads "A minus B"."""
        if self.values is None:
            return []
        table = self.values.astype(object).where(self.values.notna(), None)
        return table.assign(words=name_rows(self.paper, self.values, name_keys(self.values))).to_dict("records")

    @cached_property
    def table(self) -> Markup | None:
        """The paper's table, ours above the published value; None where nothing published is registered."""
        if self.published.empty:
            return None
        pivot = pivot_beside_paper(self.paper, self.name, self.values)
        replaced = pivot["origin"].where(pivot["origin"] == STAND_IN, "")
        layout = self.artefact.layout
        sides = [*layout.rows, *layout.columns]
        named = self.published.assign(**self.published[sides].map(self.title))
        told = named.pivot_table("verdict", list(layout.rows), list(layout.columns), aggfunc="first", sort=False)
        verdicts = pivot["verdict"].where(pivot["verdict"] == "", told.reindex_like(pivot["verdict"]))
        marks = "m-" + verdicts.replace("", "ours").map(slug) + " m-" + replaced
        style = pivot["cell"].style.format(mark_cell).set_td_classes(marks)
        style = style.format_index(escape="html", axis=0).format_index(escape="html", axis=1)
        text = style.to_html(table_uuid="paper", cell_ids=False, table_attributes='class="paper-shaped"')
        return Markup(_IDS.sub("", text))  # noqa: S704 - escaped above and by pandas

    @cached_property
    def origins(self) -> Counter[str]:
        """How many of our values come from where."""
        return Counter() if self.values is None else Counter(sorted(self.values.origin))

    @property
    def stand_ins(self) -> list[str]:
        """What stands in for what in its rows, a line each."""
        return [] if self.values is None else list_replaced(self.paper, self.name, self.values)

    @property
    def n_computed(self) -> int:
        """How many of its values are computed here, rather than repeated from the paper."""
        return self.origins.total() - self.origins["paper"]

    def title(self, name: object) -> str:
        """How a dataset, metric, condition or statistic is shown."""
        return show_name(self.paper, name)

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.published.verdict)

    @property
    def needs(self) -> tuple[str, ...]:
        """The roles and files that what is not run waits for."""
        waiting = self.published.system[self.published.verdict == "not run"]
        needs = [need for system in waiting for need in list_needs(self.paper, self.name, system)]
        return tuple(dict.fromkeys(map(self.title, [*self.artefact.missing_roles, *needs])))

    @property
    def caption(self) -> str:
        """What stands under its figure: the sentences of its findings that its entry names, else the first one."""
        findings = self.provenance["findings"] if self.provenance else []
        sentences = [sentence for finding in findings for sentence in _SENTENCE_END.split(finding)]
        named = [sentence for words in self.artefact.caption for sentence in sentences if words in sentence]
        return " ".join(dict.fromkeys(named or sentences[:1] or [self.artefact.title]))

    @property
    def state(self) -> str:
        """The artefact's state in words."""
        waiting, origins = self.counts["not run"], set(self.origins) - {"paper"}
        if self.values is None:
            return "not run" if waiting or self.artefact.notebook or self.artefact.missing_roles else "no numbers"
        if not origins:
            return "computed from published numbers"
        if origins == {STAND_IN}:
            return STAND_IN
        if waiting == len(self.published) > 0:
            return "ours only"
        return "measured in part" if waiting or self.needs or STAND_IN in origins else "measured"


def build_site(place: Place, *, sample: Place | None = None) -> Path:
    """Write the site of a place's results, and of a sample run's in a section of their own; returns index.html.

    Raises: ValueError for a results file that belongs to no artefact or holds a value of the wrong origin, and for a
        function that is not in src.
    """
    latest_first = sorted(read_papers(place.root).values(), key=lambda paper: paper.source, reverse=True)
    papers = {paper.paper: paper for paper in latest_first}
    gathered = _gather(papers, place, "measured")
    sheets = [sheet for sheet in gathered if sheet.kind == "measured"]
    bundled = [sheet for sheet in gathered if sheet.kind == "sample"]
    ran = [
        sheet for sheet in (_gather(papers, sample, "sample") if sample else []) + bundled if sheet.values is not None
    ]
    samples = {(sheet.paper.paper, sheet.name): sheet for sheet in ran}  # what reads bundled files is the same in both
    place.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.work, prefix=".site.new.") as scratch:
        site = Path(scratch) / "site"
        _write_pages(site, place, papers, sheets, list(samples.values()))
        if place.site.exists():
            place.site.rename(Path(scratch) / "old")
        site.rename(place.site)
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
        return Sheet(paper, name, place, kind)
    values, provenance = read_values(path), read_json(path.with_suffix(".json"))
    check(AnyText, json.dumps(provenance, ensure_ascii=False), str(path.with_suffix(".json")))  # all of it is shown
    if check(_Provenance, provenance, str(path.with_suffix(".json"))).artefact != f"{paper.paper}/{name}":
        raise ValueError(f"{path.with_suffix('.json')}: not the provenance of {path.name}; run the artefact again")
    # A sample value must never stand among measured ones, nor the other way round.
    strange = values[~values.origin.isin(["sample", "paper"] if kind == "sample" else [kind, STAND_IN, "paper"])]
    if len(strange):
        what = f"{path}: a row has origin {strange.origin.iloc[0]!r}; expected {kind!r} here"
        raise ValueError(f"{what}; move the file or run the artefact again")
    functions = tuple(find_definition(place.root, name, wanted_by=str(path)) for name in provenance["functions"])
    return Sheet(paper, name, place, kind, values, provenance, functions)


def _write_pages(site: Path, place: Place, papers: dict[str, Paper], sheets: list[Sheet], samples: list[Sheet]) -> None:
    templates = open_templates(verdicts=VERDICTS, notice="" if place.results == place.root / "results" else _PARTIAL)

    def write(template: str, path: str, **facts: Any) -> None:
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        page = templates.get_template(template).render(up="../" * path.count("/"), **facts)
        (site / path).write_text(page, encoding="utf-8", newline="\n")

    totals: Counter[str] = sum((sheet.counts for sheet in sheets), Counter())
    judged = {name: judge_claims(paper, place.results) for name, paper in papers.items()}
    claims = [claim for name, found in judged.items() for claim in _link_claims(papers[name], found, sheets)]
    write("index.html", "index.html", papers=papers, sheets=sheets, samples=samples, totals=totals, claims=claims)
    for group in (sheets, samples):
        for before, sheet, after in zip([None, *group], group, [*group[1:], None], strict=False):
            own = [claim for claim in claims if sheet in claim["sheets"]]
            write("artefact.html", sheet.path(), sheet=sheet, before=before, after=after, claims=own)
            for ending, path in sheet.files.items():
                if ending == "ipynb":
                    write("notebook.html", sheet.path(ending), sheet=sheet, body=render_notebook(path, place.root))
                else:
                    (site / sheet.path(ending)).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, site / sheet.path(ending))
    functions = {function for sheet in [*sheets, *samples] for function in sheet.functions}
    for file in sorted({function.file for function in functions}):
        named = sorted((each for each in functions if each.file == file), key=lambda each: (each.line, each.name))
        body = render_source(place.root / "src" / file)
        write("source.html", f"source/{file}.html", file=file, body=body, named=named)


def _link_claims(paper: Paper, judged: pd.DataFrame, sheets: list[Sheet]) -> list[dict[str, Any]]:
    """A paper's claims with verdicts, each with the sheets of what tests it and of what its place names."""
    found = []
    for row in judged.to_dict("records"):
        claim = paper.claims[row["claim"]]
        tables = {order.table for order in (*claim.published, *claim.here)}
        labels = {
            f"{kind} {number}"
            for kind, numbers in _LABELS.findall(claim.where)
            for number in re.findall(r"\d+", numbers)
        }
        own = [s for s in sheets if s.paper is paper and (s.name in tables or s.artefact.label in labels)]
        found.append(row | {"paper": paper.paper, "sheets": own, "stand_in": row["stand_in"] or NO_STAND_IN})
    return found
