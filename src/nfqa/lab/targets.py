"""Which artefacts there are, in what order they run, and which are stale."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from nfqa.data.fetch import UpstreamFile, has_file, read_registry
from nfqa.data.paths import Place
from nfqa.lab.artefacts import Artefact, Paper, read_papers
from nfqa.lab.staleness import RunOptions, explain_staleness, make_fingerprint


@dataclass(frozen=True)
class Target:
    """One artefact of a run. `stale` lists why it must run; empty when it is fresh.

    `lacks` lists the files without which it can't run; it is skipped then, and its last result stays.
    """

    paper: Paper
    name: str
    stale: tuple[str, ...]
    minutes: float | None
    lacks: tuple[str, ...] = ()

    @property
    def identifier(self) -> str:
        return f"{self.paper.paper}/{self.name}"

    @property
    def artefact(self) -> Artefact:
        return self.paper.artefacts[self.name]

    @property
    def reads(self) -> set[str]:
        """Identifiers of the artefacts that must be up to date before this one."""
        return {f"{self.paper.paper}/{other}" for other in self.artefact.reads}


def list_targets(root: Path, options: RunOptions, only: Sequence[str] = ()) -> list[Target]:
    """Every artefact with a notebook, or those named and what they read, in the papers' order, each with its state.

    Raises: ValueError for an unknown artefact, or one without a notebook.
    """
    place = options.find_place(root)
    registry = read_registry(root)
    targets: list[Target] = []
    for paper, name in list_chosen(root, only):
        identifier = f"{paper.paper}/{name}"
        lacks = _list_lacking(root, registry, paper.artefacts[name], options.data)
        lacks += _find_lost(targets, paper, name, place)
        if lacks:
            targets.append(Target(paper, name, (), None, lacks))
            continue
        parts = make_fingerprint(paper, name, place, narrow_options(options, only, identifier))
        record = read_record(place, identifier)
        minutes = record.get("minutes") if record else None
        targets.append(Target(paper, name, tuple(explain_staleness(record, parts, place)), minutes))
    return targets


def list_chosen(root: Path, only: Sequence[str] = ()) -> list[tuple[Paper, str]]:
    """Every artefact with a notebook, or those named and what they read, in the papers' order.

    Raises: as `list_targets`.
    """
    papers = read_papers(root)
    wanted = _resolve(papers, only)
    named = ((paper, name) for paper in papers.values() for name in _order(paper))
    return [(paper, name) for paper, name in named if not wanted or f"{paper.paper}/{name}" in wanted]


def _list_lacking(root: Path, registry: dict[str, UpstreamFile], artefact: Artefact, data: str) -> tuple[str, ...]:
    """The files that it needs and that are not at hand; a sample run has only those with a bundled stand-in."""
    lacking = []
    for name in artefact.needs_files:
        if name not in registry:
            raise ValueError(f"papers/*.yml needs the file {name!r}; data/registry.yml has {', '.join(registry)}")
        file = registry[name]
        if not (file.sample if data == "sample" else has_file(file, root / "build" / "data")):
            lacking.append(file.path)
    return tuple(lacking)


def _find_lost(targets: Sequence[Target], paper: Paper, name: str, place: Place) -> tuple[str, ...]:
    """What lacks files, was never run here, and is read by this one."""
    lost = [t for t in targets if t.lacks and t.paper is paper and t.name in paper.artefacts[name].reads]
    return tuple(f"results of {t.name}" for t in lost if not (place.results / f"{t.identifier}.json").is_file())


def narrow_options(options: RunOptions, only: Sequence[str], identifier: str) -> RunOptions:
    """The options for one artefact: the user's parameters are meant for the artefacts named, not for what they read."""
    if identifier in only:
        return options
    return replace(options, parameters={})


def find_record(place: Place, identifier: str) -> Path:
    """Where an artefact's run record is kept."""
    return place.runs / f"{identifier}.json"


def read_record(place: Place, identifier: str) -> dict[str, Any] | None:
    """An artefact's run record; None when there is none, or one that can't be read."""
    path = find_record(place, identifier)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(record, dict) and all(isinstance(record.get(key), dict) for key in ("parts", "outputs"))
        return record if whole else None
    except (FileNotFoundError, ValueError):
        return None  # no record, or one cut short by a full disk: run again


def _resolve(papers: dict[str, Paper], only: Sequence[str]) -> set[str]:
    wanted: set[str] = set()
    todo = list(only)
    while todo:
        identifier = todo.pop()
        paper, _, name = identifier.partition("/")
        if paper not in papers or name not in papers[paper].artefacts:
            known = [f"{p}/{a}" for p, entry in papers.items() for a in entry.artefacts]
            near = get_close_matches(identifier, known, cutoff=0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else ";"
            raise ValueError(f"unknown artefact {identifier!r}{hint} `make status` lists all {len(known)}")
        artefact = papers[paper].artefacts[name]
        if artefact.notebook is None:
            roles = ", ".join(artefact.missing_roles)
            why = f"none is written yet; it would need {roles}" if roles else "it holds nothing to compute"
            if identifier in only:
                raise ValueError(f"{identifier} has no notebook: {why}")
            continue
        if identifier not in wanted:
            wanted.add(identifier)
            todo += [f"{paper}/{other}" for other in artefact.reads]
    return wanted


def _order(paper: Paper) -> Iterator[str]:
    """Artefacts with a notebook, each after those it reads."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        artefact = paper.artefacts[name]
        if name in done:
            return
        done.add(name)
        for other in artefact.reads:
            yield from visit(other)
        if artefact.notebook:
            yield name

    for name in paper.artefacts:
        yield from visit(name)
