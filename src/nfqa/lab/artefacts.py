"""What the papers show: every table and figure as an entry of papers/*.yml, every published number as a leaf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from nfqa.data.registry import read_yaml

Printed = Annotated[str, StringConstraints(pattern=r"^-?\d+(\.\d+)?$")]  # a number as printed


class Judged(BaseModel):
    """What a row asks a language model: LINKAGE's methods and settings. `list` "" is the data set's own list."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    method: Literal["pointwise", "pointwise_ref", "pairwise", "listwise"]
    model: str
    shots: int = 0
    list: str = ""
    truth: Literal["graded", "one", "none"] = "graded"


class System(BaseModel):
    """A published row: how it is shown, the roles it needs that have no embedded default, what it asks a model, and the
    columns by which its values are found in results, where these are not {metric: its key}."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str
    needs: tuple[str, ...] = ()
    judged: Judged | None = None
    columns: dict[str, str | int | float] = Field(default_factory=dict)


class KnownDifference(BaseModel):
    """Leaves that differ from ours for a reason that is understood: fields left out match anything."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    system: str | None = None
    dataset: str | None = None
    metric: str | None = None
    reason: str


Side = Literal["system", "dataset", "metric"]


class Layout(BaseModel):
    """Which parts of a leaf's key are rows of the printed table, and which are columns."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rows: tuple[Side, ...] = ("system",)
    columns: tuple[Side, ...] = ("dataset", "metric")


class Artefact(BaseModel):
    """One table, figure or study. `leaves` is system -> dataset -> metric -> the number as printed.

    `columns` are conditions that all its published values share; `statistics` says by which columns a leaf's metric is
    found in results where that is not {statistic: its name}; `layout` is how the paper prints it, rows and columns.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    label: str
    title: str
    claim: str = ""
    note: str = ""
    notebook: str | None = None
    minutes: float = 0.1  # about how long it takes on one core: the long ones start first
    datasets: tuple[str, ...] = ()
    bundled: tuple[str, ...] = ()  # files of data/sample that it reads whatever the data: its values are a sample's
    files: tuple[str, ...] = ()  # further upstream files that it reads, such as prompts
    needs_files: tuple[str, ...] = ()  # optional files without which it can't run: its last result stays then
    prompts: bool = False  # whether it reads the folder prompts/, with or without a language model
    roles: tuple[str, ...] = ()
    missing_roles: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()  # artefacts of the same paper whose results the notebook reads, made before it
    cites: tuple[str, ...] = ()  # artefacts of the same paper whose published numbers alone it reads
    parameters: dict[str, Any] = Field(default_factory=dict)
    columns: dict[str, str | int | float] = Field(default_factory=dict)
    statistics: dict[str, dict[str, str | int | float]] = Field(default_factory=dict)
    layout: Layout = Layout()
    decimals: int = 4
    scale: Literal[1, 100] = 1
    tolerance: float = 0.01
    leaves: dict[str, dict[str, dict[str, Printed]]] = Field(default_factory=dict)
    known_differences: tuple[KnownDifference, ...] = ()


class Paper(BaseModel):
    """A papers/*.yml file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    paper: str
    title: str
    source: str
    systems: dict[str, System]
    judges: dict[str, str] = Field(default_factory=dict)  # family -> how the names of its models begin
    names: dict[str, str] = Field(default_factory=dict)  # how a dataset, metric, condition or statistic is shown
    same_settings: tuple[tuple[str, ...], ...] = ()  # groups of ARTEFACT/SYSTEM/DATASET that name one setting
    artefacts: dict[str, Artefact]


@dataclass(frozen=True)
class Leaf:
    """One published number. `value` is in natural units (percent divided by 100), `text` as printed."""

    artefact: str
    system: str
    dataset: str
    metric: str
    text: str
    value: float
    decimals: int  # of `value`, so that rounding ours to them compares like with like
    columns: dict[str, str | int | float]  # by which our value is found in results

    @property
    def key(self) -> tuple[str, str, str]:
        return self.system, self.dataset, self.metric


def read_papers(root: Path) -> dict[str, Paper]:
    """All papers by name.

    Raises: ValueError naming file and field for an entry that doesn't fit, or a leaf whose system isn't registered.
    """
    papers = {}
    for path in sorted((root / "papers").glob("[!.]*.yml")):
        try:
            paper = Paper.model_validate(read_yaml(path))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{path}: {field}: {first['msg']} (found {first.get('input')!r:.80})") from None
        for name, artefact in paper.artefacts.items():
            for system in artefact.leaves:
                if system not in paper.systems:
                    raise ValueError(f"{path}: {name}.leaves.{system}: not listed under systems")
            for field, other in [("reads", o) for o in artefact.reads] + [("cites", o) for o in artefact.cites]:
                if other not in paper.artefacts:
                    raise ValueError(f"{path}: {name}.{field}: unknown artefact {other!r}")
        _refuse_circle(path, paper)
        _check_settings(path, paper)
        if paper.paper in papers:
            raise ValueError(f"{path}: the paper {paper.paper!r} is registered by another file already")
        papers[paper.paper] = paper
    return papers


def _refuse_circle(path: Path, paper: Paper) -> None:
    """An artefact that reads itself, by whatever way round, could never run."""
    for name in paper.artefacts:
        reached, todo = set(), list(paper.artefacts[name].reads)
        while todo:
            other = todo.pop()
            if other == name:
                raise ValueError(f"{path}: {name}.reads: it would wait for itself")
            if other not in reached:
                reached.add(other)
                todo += paper.artefacts[other].reads


def _check_settings(path: Path, paper: Paper) -> None:
    """Rows that name one setting must be printed, and a group of them of one dataset."""
    for group in paper.same_settings:
        for entry in group:
            artefact, system, dataset = (*entry.split("/"), "", "")[:3]
            if artefact not in paper.artefacts or not paper.artefacts[artefact].leaves.get(system, {}).get(dataset):
                raise ValueError(f"{path}: same_settings: {entry!r} has no leaves; expected ARTEFACT/SYSTEM/DATASET")
        if len({entry.rpartition("/")[2] for entry in group}) > 1:
            raise ValueError(f"{path}: same_settings: {list(group)} spans several datasets; expected one a group")


def find_artefact(papers: dict[str, Paper], identifier: str) -> Artefact:
    """The artefact called PAPER/NAME.

    Raises: ValueError listing what there is.
    """
    paper, _, name = identifier.partition("/")
    if paper in papers and name in papers[paper].artefacts:
        return papers[paper].artefacts[name]
    known = [f"{p}/{a}" for p, entry in papers.items() for a, body in entry.artefacts.items() if body.notebook]
    raise ValueError(f"unknown artefact {identifier!r}; those with a notebook: {', '.join(known)}")


def list_needs(paper: Paper, name: str, system: str) -> tuple[str, ...]:
    """The roles that a row without a value waits for: its system's, or those of an artefact that has no notebook."""
    entry, artefact = paper.systems.get(system), paper.artefacts[name]
    return (entry.needs if entry else ()) or (() if artefact.notebook else artefact.missing_roles)


def list_leaves(paper: Paper, name: str) -> Iterator[Leaf]:
    """Every published number of an artefact, in the paper's order."""
    artefact = paper.artefacts[name]
    shift = len(str(int(artefact.scale))) - 1  # 100 -> 2 more decimals in natural units
    for system, datasets in artefact.leaves.items():
        for dataset, metrics in datasets.items():
            for metric, text in metrics.items():
                decimals = len(text.partition(".")[2]) + shift
                value = round(float(text) / artefact.scale, decimals)
                columns = find_columns(paper, name, system, dataset, metric)
                yield Leaf(f"{paper.paper}/{name}", system, dataset, metric, text, value, decimals, columns)


def find_columns(paper: Paper, name: str, system: str, dataset: str, metric: str) -> dict[str, str | int | float]:
    """The columns of results in which a published number's like is found; all other conditions are blank."""
    artefact, entry = paper.artefacts[name], paper.systems[system]
    made: dict[str, str | int | float] = {"metric": system}
    if entry.judged is not None:
        made = {"metric": entry.judged.method, "judge": entry.judged.model, "shots": entry.judged.shots}
        made |= {"list": entry.judged.list} if entry.judged.list else {}
    return (
        {"dataset": dataset, "statistic": metric}
        | made
        | artefact.columns
        | entry.columns
        | artefact.statistics.get(metric, {})
    )


def list_chosen(root: Path, only: Sequence[str] = ()) -> list[tuple[Paper, str]]:
    """Every artefact with a notebook, or those named and what they read, in the papers' order.

    Raises: ValueError for an unknown artefact, or one without a notebook.
    """
    papers = read_papers(root)
    wanted = _resolve(papers, only)
    named = ((paper, name) for paper in papers.values() for name in _order(paper))
    return [(paper, name) for paper, name in named if not wanted or f"{paper.paper}/{name}" in wanted]


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
