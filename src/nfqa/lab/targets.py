"""Which artefacts there are, in what order they run, and which are stale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nfqa.data.registry import UpstreamFile, has_file
from nfqa.lab.options import RunOptions
from nfqa.lab.papers import Artefact, Paper, list_chosen
from nfqa.lab.staleness import explain_staleness, find_upstream, make_fingerprint, read_record


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
    targets: dict[str, Target] = {}
    for paper, name in list_chosen(root, only):
        identifier, artefact = f"{paper.paper}/{name}", paper.artefacts[name]
        read = [targets[f"{paper.paper}/{other}"] for other in artefact.reads if f"{paper.paper}/{other}" in targets]
        files = [find_upstream(root, file) for file in artefact.needs_files]
        lacks = [file.path for file in files if not _is_at_hand(root, file, options.data)]
        results = place.results / paper.paper
        lacks += [f"results of {t.name}" for t in read if t.lacks and not (results / f"{t.name}.csv").is_file()]
        if lacks:
            targets[identifier] = Target(paper, name, (), None, tuple(lacks))
            continue
        parts = make_fingerprint(paper, name, place, narrow_options(options, only, identifier))
        record = read_record(place, identifier)
        stale = explain_staleness(record, parts, place) + [f"reads {t.name}, which is stale" for t in read if t.stale]
        targets[identifier] = Target(paper, name, tuple(stale), record.minutes if record else None)
    return list(targets.values())


def _is_at_hand(root: Path, file: UpstreamFile, data: str) -> bool:
    """Whether a needed file is here; a sample run has only those with a bundled stand-in."""
    return bool(file.sample) if data == "sample" else has_file(file, root / "build" / "data")


def narrow_options(options: RunOptions, only: Sequence[str], identifier: str) -> RunOptions:
    """The options for one artefact: the user's parameters are meant for the artefacts named, not for what they read."""
    return options if identifier in only else replace(options, parameters={})
