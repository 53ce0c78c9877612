"""Which artefacts there are, in what order they run, and which are stale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nfqa.data.paths import Place
from nfqa.data.registry import UpstreamFile, has_file, read_registry
from nfqa.lab.artefacts import Artefact, Paper, list_chosen
from nfqa.lab.options import RunOptions
from nfqa.lab.staleness import explain_staleness, make_fingerprint


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

    @property
    def seconds(self) -> float:
        """About how long it takes: as last time, or as its entry says."""
        return 60 * (self.artefact.minutes if self.minutes is None else self.minutes)


def list_targets(root: Path, options: RunOptions, only: Sequence[str] = ()) -> list[Target]:
    """Every artefact with a notebook, or those named and what they read, in the papers' order, each with its state.

    An artefact that reads a stale one is stale too, all the way down a chain; when its turn comes, it runs only if what
    it reads has changed.
    Raises: ValueError for an unknown artefact, or one without a notebook.
    """
    place = options.find_place(root)
    registry = read_registry(root)
    targets: dict[str, Target] = {}
    for paper, name in list_chosen(root, only):
        identifier, artefact = f"{paper.paper}/{name}", paper.artefacts[name]
        read = [targets[f"{paper.paper}/{other}"] for other in artefact.reads if f"{paper.paper}/{other}" in targets]
        lacks = _list_lacking(root, registry, artefact, options.data)
        results = place.results / paper.paper
        lacks += tuple(f"results of {t.name}" for t in read if t.lacks and not (results / f"{t.name}.csv").is_file())
        if lacks:
            targets[identifier] = Target(paper, name, (), None, lacks)
            continue
        parts = make_fingerprint(paper, name, place, narrow_options(options, only, identifier))
        record = read_record(place, identifier)
        stale = explain_staleness(record, parts, place) + [f"reads {t.name}, which is stale" for t in read if t.stale]
        targets[identifier] = Target(paper, name, tuple(stale), record.get("minutes") if record else None)
    return list(targets.values())


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


def narrow_options(options: RunOptions, only: Sequence[str], identifier: str) -> RunOptions:
    """The options for one artefact: the user's parameters are meant for the artefacts named, not for what they read."""
    return options if identifier in only else replace(options, parameters={})


def find_record(place: Place, identifier: str) -> Path:
    """Where an artefact's run record is kept."""
    return place.runs / f"{identifier}.json"


def read_record(place: Place, identifier: str) -> dict[str, Any] | None:
    """An artefact's run record; None when there is none, or one that can't be read."""
    try:
        record = json.loads(find_record(place, identifier).read_text(encoding="utf-8"))
        whole = isinstance(record, dict) and all(isinstance(record.get(key), dict) for key in ("parts", "outputs"))
        return record if whole else None
    except (FileNotFoundError, ValueError):
        return None  # no record, or one cut short by a full disk: run again
