"""What the papers show: every table and figure as an entry of papers/*.yml, every published number as a leaf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from nfqa.data.json_lines import Item, check, suggest
from nfqa.data.registry import read_yaml

Printed = Annotated[str, StringConstraints(pattern=r"^-?[0-9]{1,15}(\.[0-9]{1,20})?$")]  # a number as printed
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
Role = Literal["embedder", "judge", "generator", "evaluator", "searcher", "reranker"]
Columns = dict[str, str | int | float]  # conditions of a row of results
STAND_IN = "stand-in"  # the origin of what is measured on other data or with another model than the paper's row
Side = Literal["system", "dataset", "metric"]
Wanted = dict[str, str | int | float | tuple[str | int | float, ...]]  # conditions; of several, any


class _Entry(Item):
    model_config = ConfigDict(strict=False)  # a list of YAML is a tuple here


class Judged(_Entry):
    """What a row asks a language model: LINKAGE's methods and settings. `list` "" is the data set's own list."""

    method: Literal["pointwise", "pointwise_ref", "pairwise", "listwise"]
    model: str
    shots: int = 0
    list: str = ""
    truth: Literal["graded", "one", "none"] = "graded"


class System(_Entry):
    """A published row: how it is shown, the roles it needs that have no embedded default, what it asks a model, and the
    columns by which its values are found in results, where these are not {metric: its key}."""

    title: str
    needs: tuple[str, ...] = ()
    judged: Judged | None = None
    columns: Columns = Field(default_factory=dict)


class KnownDifference(_Entry):
    """Leaves that differ from ours for a reason that is understood: fields left out match anything."""

    system: str | None = None
    dataset: str | None = None
    metric: str | None = None
    reason: str


class Layout(_Entry):
    """Which parts of a leaf's key are rows of the printed table, and which are columns."""

    rows: tuple[Side, ...] = ("system",)
    columns: tuple[Side, ...] = ("dataset", "metric")


class Artefact(_Entry):
    """One table, figure or study. `leaves` is system -> dataset -> metric -> the number as printed.

    `columns` are conditions that all its published values share; `statistics` says by which columns a leaf's metric is
    found in results where that is not {statistic: its name}; `layout` is how the paper prints it, rows and columns.
    """

    label: str
    title: str
    claim: str = ""
    note: str = ""
    caption: tuple[str, ...] = ()  # words of the sentences among its findings that the report puts under its figure
    notebook: str | None = None
    minutes: Annotated[float, Field(ge=0)] = 0.1  # about how long it takes on one core: the long ones start first
    datasets: tuple[str, ...] = ()
    bundled: tuple[str, ...] = ()  # files of data/sample that it reads whatever the data: its values are a sample's
    files: tuple[str, ...] = ()  # further upstream files that it reads, such as prompts
    needs_files: tuple[str, ...] = ()  # optional files without which it can't run: its last result stays then
    prompts: bool = False  # whether it reads the folder prompts/, with or without a language model
    roles: tuple[Role, ...] = ()
    missing_roles: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()  # artefacts of the same paper whose results the notebook reads, made before it
    cites: tuple[str, ...] = ()  # artefacts of the same paper whose published numbers alone it reads
    parameters: dict[str, Any] = Field(default_factory=dict)
    columns: Columns = Field(default_factory=dict)
    statistics: dict[str, Columns] = Field(default_factory=dict)
    layout: Layout = Layout()
    decimals: Annotated[int, Field(ge=0, le=15)] = 4
    scale: Literal[1, 100] = 1
    tolerance: Annotated[float, Field(ge=0)] = 0.01
    leaves: dict[str, dict[str, dict[str, Printed]]] = Field(default_factory=dict)
    known_differences: tuple[KnownDifference, ...] = ()


class Order(_Entry):
    """What a claim says of rows of one table: those of each group lie above all of the next, highest first.

    order: groups of rows, by their columns, where a column that is not named is blank; or a number, which is there to
        be above or below. within: columns inside each combination of which rows are compared. where: further columns
        of all groups. by: at least so far above, in natural units; at most so far below where it is negative. hold: how
        many of the comparisons must hold, where the paper says "generally" or "can".
    """

    table: FileName
    order: Annotated[tuple[Wanted | float, ...], Field(min_length=2)]
    within: tuple[str, ...] = ()
    where: Wanted = Field(default_factory=dict)
    by: float = 0.0
    hold: Literal["all", "most", "some"] = "all"


class StandIn(_Entry):
    """What is measured on other data or with another model than the paper's, in one line.

    rows: the columns of those rows of results; every row without any. artefacts: where; everywhere without any.
    """

    says: str
    rows: Wanted = Field(default_factory=dict)
    artefacts: tuple[str, ...] = ()


class Claim(_Entry):
    """A sentence of the paper, in our words, with its place, and how it is tested.

    published: of the published rows, and of ours in their place; all must hold. here: of our own rows, where nothing
    of the paper is beside them. stand_in: what these are measured with in the paper's place, "" where nothing is.
    needs: what a test on the paper's own rows would take, where no row says. kind: a finding, or a count, size or sum
    of the data, which holds more easily and is counted apart.
    """

    says: str
    where: str
    kind: Literal["finding", "data"] = "finding"
    bar: str = ""  # what the test takes a word of the claim to mean ("strongly": above 0.8), and why
    published: tuple[Order, ...] = ()
    here: tuple[Order, ...] = ()
    stand_in: str = ""
    needs: tuple[str, ...] = ()
    headline: bool = False  # one of the three that matter most


class Paper(_Entry):
    """A papers/*.yml file."""

    paper: FileName
    title: str
    source: str
    verdict: str = ""  # what holds of its claims, in two or three sentences
    systems: dict[str, System]
    judges: dict[str, str] = Field(default_factory=dict)  # family -> how the names of its models begin
    names: dict[str, str] = Field(default_factory=dict)  # how a dataset, metric, condition or statistic is shown
    same_settings: tuple[tuple[str, ...], ...] = ()  # groups of ARTEFACT/SYSTEM/DATASET that name one setting
    artefacts: dict[FileName, Artefact]
    claims: dict[FileName, Claim] = Field(default_factory=dict)
    stand_ins: tuple[StandIn, ...] = ()


@dataclass(frozen=True)
class Leaf:
    """One published number. `value` is in natural units (percent divided by 100), `text` as printed."""

    system: str
    dataset: str
    metric: str
    text: str
    value: float
    decimals: int  # of `value`, so that rounding ours to them compares like with like
    columns: Columns  # by which our value is found in results; all other conditions are blank

    @property
    def key(self) -> tuple[str, str, str]:
        return self.system, self.dataset, self.metric


def read_papers(root: Path) -> dict[str, Paper]:
    """All papers by name.

    Raises: ValueError naming file and field for an entry that doesn't fit, or names what isn't listed.
    """
    papers: dict[str, Paper] = {}
    for path in sorted((root / "papers").glob("[!.]*.yml")):
        paper = check(Paper, read_yaml(path), str(path))
        _check_names(path, paper)
        if paper.paper in papers:
            raise ValueError(f"{path}: the paper {paper.paper!r} is registered by another file already")
        papers[paper.paper] = paper
    return papers


def _check_names(path: Path, paper: Paper) -> None:
    """What an entry names must be listed; no artefact may wait for itself; a setting has one dataset, printed."""
    for name, artefact in paper.artefacts.items():
        for field, known in (("leaves", paper.systems), ("reads", paper.artefacts), ("cites", paper.artefacts)):
            unknown = [other for other in getattr(artefact, field) if other not in known]
            if unknown:
                raise ValueError(f"{path}: {name}.{field}: unknown {unknown[0]!r}; known: {', '.join(known)}")
    named = {f"claims.{name}": tuple(o.table for o in (*c.published, *c.here)) for name, c in paper.claims.items()}
    named |= {f"stand_ins[{place}]": entry.artefacts for place, entry in enumerate(paper.stand_ins)}
    for field, tables in named.items():
        unknown = [table for table in tables if table not in paper.artefacts]
        if unknown:
            raise ValueError(f"{path}: {field}: unknown artefact {unknown[0]!r}")
    try:
        TopologicalSorter({name: artefact.reads for name, artefact in paper.artefacts.items()}).prepare()
    except CycleError as error:
        raise ValueError(f"{path}: {error.args[1][0]}.reads: it would wait for itself") from None
    for group in paper.same_settings:
        for entry in group:
            name, system, dataset = (*entry.split("/"), "", "")[:3]
            if name not in paper.artefacts or not paper.artefacts[name].leaves.get(system, {}).get(dataset):
                raise ValueError(f"{path}: same_settings: {entry!r} has no leaves; expected ARTEFACT/SYSTEM/DATASET")
        if len({entry.rpartition("/")[2] for entry in group}) > 1:
            raise ValueError(f"{path}: same_settings: {list(group)} spans several datasets; expected one a group")


def find_artefact(papers: dict[str, Paper], identifier: str) -> tuple[Paper, str]:
    """The paper and the name of the artefact called PAPER/NAME.

    Raises: ValueError with those that are spelt alike.
    """
    paper, _, name = identifier.partition("/")
    if paper in papers and name in papers[paper].artefacts:
        return papers[paper], name
    known = [f"{p}/{a}" for p, entry in papers.items() for a in entry.artefacts]
    hint = suggest(identifier, known) or "expected PAPER/NAME, such as linkage/table_02; "
    raise ValueError(f"unknown artefact {identifier!r}; {hint}`make status` lists all {len(known)}")


def show_name(paper: Paper, name: object) -> str:
    """How a dataset, system, metric, condition, statistic or artefact is shown; in its own words where none is set."""
    text = str(int(name) if isinstance(name, float) and name.is_integer() else name)
    base = text.removeprefix("sample_")
    system, artefact = paper.systems.get(text), paper.artefacts.get(text)
    shown = system.title if system else paper.names.get(text) or paper.names.get(base)
    shown = shown or (artefact.label if artefact else base.replace("_", " "))
    return f"{shown} (sample)" if base != text else shown


def list_needs(paper: Paper, name: str, system: str) -> tuple[str, ...]:
    """The roles that a row without a value waits for: its system's, or those of an artefact that has no notebook."""
    entry, artefact = paper.systems.get(system), paper.artefacts[name]
    return (entry.needs if entry else ()) or (() if artefact.notebook else artefact.missing_roles)


def list_stand_ins(paper: Paper, name: str) -> list[StandIn]:
    """What stands in for what in an artefact's results."""
    return [entry for entry in paper.stand_ins if name in (entry.artefacts or (name,))]


def list_leaves(paper: Paper, name: str) -> Iterator[Leaf]:
    """Every published number of an artefact, in the paper's order."""
    artefact = paper.artefacts[name]
    shift = len(str(artefact.scale)) - 1  # 100 -> 2 more decimals in natural units
    for system, datasets in artefact.leaves.items():
        entry = paper.systems[system]
        made: Columns = {"metric": system}
        if entry.judged is not None:
            made = {"metric": entry.judged.method, "judge": entry.judged.model, "shots": entry.judged.shots}
            made |= {"list": entry.judged.list} if entry.judged.list else {}
        made |= artefact.columns | entry.columns
        for dataset, metrics in datasets.items():
            for metric, text in metrics.items():
                columns = {"dataset": dataset, "statistic": metric} | made | artefact.statistics.get(metric, {})
                decimals = len(text.partition(".")[2]) + shift
                value = round(float(text) / artefact.scale, decimals)
                yield Leaf(system, dataset, metric, text, value, decimals, columns)


def list_chosen(root: Path, only: Sequence[str] = ()) -> list[tuple[Paper, str]]:
    """Every artefact with a notebook, or those named and what they read: in the papers' order, each after its reads.

    Raises: ValueError for an unknown artefact, or one without a notebook.
    """
    papers = read_papers(root)
    wanted = set()
    for identifier in only:
        paper, name = find_artefact(papers, identifier)
        artefact = paper.artefacts[name]
        if artefact.notebook is None:
            roles = ", ".join(artefact.missing_roles)
            why = f"none is written yet; it would need {roles}" if roles else "it holds nothing to compute"
            raise ValueError(f"{identifier} has no notebook: {why}")
        wanted |= {(paper.paper, read) for read in _list_chain(paper, name)}
    chosen = []
    for paper in papers.values():
        ordered = dict.fromkeys(read for name in paper.artefacts for read in _list_chain(paper, name))
        named = (name for name in ordered if not only or (paper.paper, name) in wanted)
        chosen += [(paper, name) for name in named if paper.artefacts[name].notebook]
    return chosen


def _list_chain(paper: Paper, name: str) -> list[str]:
    """What an artefact reads, however far down, and then itself."""
    return [*(read for other in paper.artefacts[name].reads for read in _list_chain(paper, other)), name]
