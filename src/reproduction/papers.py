"""The papers: every table, figure and claim (papers/*.yml) and every published number
(papers/*.csv).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr, StringConstraints

from nfqa.files.json_lines import Item, check, read_yaml, suggest
from nfqa.models.roles import DEFAULTS
from reproduction.notebooks import (
    hash_cells,
    hash_imports,
    hash_json,
    list_datasets,
    list_roles,
    read_cells,
    read_parameters,
)

if TYPE_CHECKING:
    import pandas as pd

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
Role = Literal["embedder", "judge", "generator", "evaluator"]
DEBATEQA = "debateqa"  # the value of QUESTIONS, and of a notebook's parameter, that names DebateQA's own questions
SUPPORTED = "supported"  # a verdict, as the next three
NOT_SUPPORTED = "not supported"
INCONCLUSIVE = "inconclusive"
NOT_TESTED = "not tested"
PROXY = "proxy"  # the side of a verdict on other data or with another model than the paper's
STAND_IN = "stand-in"  # the origin of what is measured on other data or with another model than the paper's row
OURS = r"Measured here: (-?[0-9]+\.?([0-9]*))"  # how the reason of a difference begins: it excuses no other number
# columns of papers/*.csv that tell nothing of how ours is found: all others are conditions of a row of results
PRINTED = ("artefact", "row", "heading", "printed", "unit", "tolerance", "needs", "setting", "read", "cause", "reason")
_COMPARED = ("published", "decimals", "key", "value", "low", "high", "n", "origin", "verdict", "why")  # nor do these
Query = Annotated[str, StringConstraints(min_length=1)]


class _Entry(Item):
    model_config = ConfigDict(strict=False)  # a list of YAML is a tuple here


class Artefact(_Entry):
    """One table, figure or study, and what its notebook reads that the notebook itself doesn't say."""

    label: str
    title: str
    note: str = ""
    notebook: str | None = None
    minutes: Annotated[float, Field(ge=0)] = 0.1  # about how long it takes on one core: the long ones start first
    bundled: tuple[str, ...] = ()  # bundled files that it reads whatever the data: its values are a sample's
    files: tuple[str, ...] = ()  # further upstream files that it reads, such as prompts
    reads: tuple[str, ...] = ()  # artefacts of the same paper whose results the notebook reads, made before it
    cites: tuple[str, ...] = ()  # artefacts of the same paper whose published numbers alone it reads
    parameters: dict[str, Any] = Field(default_factory=dict)
    takes: tuple[Role, ...] | None = None  # its roles, where they aren't those that the notebook's parameters name
    loads: tuple[str, ...] | None = None  # its datasets, where they aren't those written in the notebook's `lab.load`
    _folder: Path = PrivateAttr(Path("notebooks"))

    @property
    def path(self) -> Path:
        """Its notebook's file."""
        return self._folder / str(self.notebook)

    @cached_property
    def roles(self) -> dict[str, str]:
        """The roles that it takes, each with what fills it by default."""
        if self.takes is None:
            return list_roles(self.path) if self.notebook else {}
        named = list_roles(self.path) if self.takes and self.path.is_file() else {}
        return {role: named.get(role, DEFAULTS[role]) for role in self.takes}

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """The datasets that it loads."""
        if self.loads is not None or self.notebook is None:
            return self.loads or ()
        return list_datasets(self.path)

    @property
    def prompts(self) -> bool:
        """Whether its notebook reads the folder prompts/."""
        return self._calls("lab.read_prompts")

    @property
    def takes_answers(self) -> bool:
        """Whether its notebook scores answers of a generator or of a folder, where one is named."""
        return self._calls("lab.load_answers")

    @property
    def takes_questions(self) -> bool:
        """Whether its notebook can use DebateQA's own questions, by its parameter `questions`."""
        return self.notebook is not None and "questions" in read_parameters(self.path)

    def _calls(self, function: str) -> bool:
        cells = read_cells(self.path) if self.notebook else ()
        return any(function in cell["source"] for cell in cells)


class Order(_Entry):
    """A test of a claim: the rows of `upper` lie above those of `lower`.

    tables: the artefacts whose rows these are; `artefact` says which. upper, lower: pandas queries
        over their columns, in which what does not apply is ''; or a number. where: a further query
        on both. within: columns inside each combination of which rows are compared. by: at least so
        far above, in natural units; at most so far below where it is negative. hold: how many
        comparisons must hold, where the paper says "generally" or "can". named: what it is about, where
        a claim's tests have verdicts of their own.
    """

    tables: tuple[FileName, ...]
    upper: Query | float
    lower: Query | float
    where: str = ""
    within: tuple[str, ...] = ()
    by: float = 0.0
    hold: Literal["all", "most", "some"] = "all"
    named: str = ""


class StandIn(_Entry):
    """What is measured on other data or with another model than the paper's, in one line.

    rows: a query of those rows of results; every row without any. artefacts: where; everywhere
        without any.
    """

    says: str
    rows: str = ""
    artefacts: tuple[str, ...] = ()


class Claim(_Entry):
    """A sentence of the paper, paraphrased, with its place, and how it is tested.

    published: of the published rows, and of measured ones in their place; all must hold. here: of
    rows where nothing of the paper is beside them. stand_in: what these are measured with in the
    paper's place, "" where nothing is. needs: what a test on the paper's own rows would take, where
    no row says. stated: in the text or a caption, or read off a figure by us. kind: a finding; or a
    count, size or sum of the data, which holds more easily; or what is true or false by definition,
    which is counted apart. primary: the statistic by which the paper decides.
    """

    says: str
    where: str
    stated: Literal["text", "caption", "figure"]
    kind: Literal["finding", "data", "by definition"] = "finding"
    bar: str = ""  # what the test takes a word of the claim to mean ("strongly": above 0.8), and why
    published: tuple[Order, ...] = ()
    primary: str = ""
    here: tuple[Order, ...] = ()
    stand_in: str = ""
    needs: tuple[str, ...] = ()
    headline: bool = False  # one of the four that matter most

    @property
    def tables(self) -> tuple[str, ...]:
        """The artefacts whose values test it, in order."""
        return tuple(dict.fromkeys(name for order in (*self.published, *self.here) for name in order.tables))


class Paper(_Entry):
    """A papers/*.yml file, and the published numbers beside it."""

    paper: FileName
    title: str
    source: str
    verdict: str = ""  # what holds of its claims, in two or three sentences
    judges: dict[str, str] = Field(default_factory=dict)  # family -> how the names of its models begin
    systems: dict[str, str] = Field(default_factory=dict)  # system -> a pattern of its model's name, in lower case
    names: dict[str, str] = Field(default_factory=dict)  # how a dataset, metric, condition or statistic is shown
    artefacts: dict[FileName, Artefact]
    claims: dict[FileName, Claim] = Field(default_factory=dict)
    stand_ins: tuple[StandIn, ...] = ()
    _numbers: Path | None = PrivateAttr(None)  # its papers/*.csv

    @cached_property
    def published(self) -> pd.DataFrame:
        """Every published number, a row each, in the papers' order.

        Columns: artefact; row and heading, its place in the printed table; the conditions of its
        row in results, "" where one does not apply; printed, as text; published, in natural units
        (percent divided by 100), and its decimals; unit, "%" or ""; tolerance, within which it is
        near; needs, what a run here lacks, "; " between; setting, one name for numbers that the
        paper prints of one setting; read, where it was read (table, text, picture); cause, "known"
        or "unknown" where it differs, and the reason, which begins with that number.
        """
        import pandas as pd

        if self._numbers is None or not self._numbers.is_file():
            return pd.DataFrame(columns=[*PRINTED, "dataset", "metric", "statistic", "published", "decimals"])
        table = pd.read_csv(self._numbers, dtype=str, keep_default_na=False)
        return table.assign(
            heading=table.heading.where(table.heading != "", table.statistic),
            tolerance=pd.to_numeric(table.tolerance),
            published=table.printed.where(table.unit != "%", table.printed + "e-2").astype(float),
            decimals=table.printed.str.partition(".")[2].str.len() + 2 * (table.unit == "%"),
        )

    def find_published(self, name: str) -> pd.DataFrame:
        """The published numbers of one artefact, with the conditions alone that it has; numbers are
        numbers.
        """
        table = self.published[self.published.artefact == name].drop(columns="artefact").reset_index(drop=True)
        for column in list_row_keys(table):
            if (table[column] == "").all() and column not in ("dataset", "metric", "statistic"):
                table = table.drop(columns=column)
            elif table[column].str.fullmatch(r"-?[0-9.]+|").all():
                table[column] = [float(cell) if cell else "" for cell in table[column]]
        return table

    def list_stand_ins(self, name: str) -> list[StandIn]:
        """Which proxy is in place of what in an artefact's results."""
        return [entry for entry in self.stand_ins if name in (entry.artefacts or (name,))]


def show_name(paper: Paper, name: object) -> str:
    """How a dataset, metric, condition, statistic or artefact is shown; in its own words where none
    is set.
    """
    text = str(int(name) if isinstance(name, float) and name.is_integer() else name)
    base = text.removeprefix("sample_")
    artefact = paper.artefacts.get(text)
    words = paper.names.get(text) or paper.names.get(base) or (artefact.label if artefact else base.replace("_", " "))
    return f"{words} (sample)" if base != text else words


def list_needs(paper: Paper, name: str) -> list[str]:
    """The roles and files without a default that some rows of an artefact wait for, in words."""
    printed = "; ".join(paper.published.needs[paper.published.artefact == name]).split("; ")
    roles = [role for role in paper.artefacts[name].roles if role in ("judge", "generator")]
    return [show_name(paper, need) for need in dict.fromkeys([*roles, *printed]) if need]


def list_row_keys(published: pd.DataFrame) -> list[str]:
    """The columns of published numbers that say which row of results is beside them."""
    return [name for name in published.columns if name not in (*PRINTED, *_COMPARED)]


def hash_code(notebook: Path, paper: Paper, name: str) -> str:
    """One hash over a notebook, all the code that it reaches and its entry, for the results'
    provenance.
    """
    return f"sha256:{hash_json([hash_cells(notebook), hash_imports(notebook), describe_entry(paper, name)])}"


def describe_entry(paper: Paper, name: str) -> dict[str, Any]:
    """The parts of papers/* that reach a notebook: a claim or a note changes no number."""
    artefact = paper.artefacts[name]
    names = [name, *artefact.reads, *artefact.cites]
    return {
        "artefacts": [[paper.artefacts[other].title, paper.artefacts[other].label] for other in names],
        "published": paper.published[paper.published.artefact.isin(names)].astype(str).to_dict("records"),
        "stand_ins": [entry.rows for entry in paper.list_stand_ins(name)],
    }


def read_papers(root: Path) -> dict[str, Paper]:
    """All papers by name.

    Raises: ValueError naming file and field for an entry that doesn't fit.
    """
    papers: dict[str, Paper] = {}
    for path in sorted((root / "papers").glob("[!.]*.yml")):
        paper = check(Paper, read_yaml(path), str(path))
        paper._numbers = path.with_suffix(".csv")
        for artefact in paper.artefacts.values():
            artefact._folder = root / "notebooks"
        papers[paper.paper] = paper
    return papers


def find_artefact(papers: dict[str, Paper], identifier: str) -> tuple[Paper, str]:
    """The paper and the name of the artefact called PAPER/NAME.

    Raises: ValueError with those that are spelt alike.
    """
    paper, _, name = identifier.rpartition("/")
    if paper in papers and name in papers[paper].artefacts:
        return papers[paper], name
    known = {f"{p}/{a}": a for p, entry in papers.items() for a in entry.artefacts}
    near = {alike for alike in known if suggest(name, [known[alike]])}  # whatever paper they share
    hint = suggest(identifier, near) or "expected PAPER/NAME, such as linkage/table_02; "
    raise ValueError(f"unknown artefact {identifier!r}; {hint}`make status` lists all {len(known)}")


def list_named(root: Path, names: Sequence[str], *, questions: str = "") -> list[str]:
    """The artefacts that names stand for, as PAPER/NAME: a paper's name stands for all that have a
    notebook.

    Args: questions: where set, those alone that can use DebateQA's own questions; all of these,
        where nothing is named.
    Raises: ValueError where `questions` is set and a name stands for none that can.
    """
    papers = read_papers(root)
    takers = []
    listed = []
    for name, paper in papers.items():
        takers += [f"{name}/{each}" for each, artefact in paper.artefacts.items() if artefact.takes_questions]
    for name in names:
        artefacts = papers[name].artefacts.items() if name in papers else ()
        identifiers = [f"{name}/{each}" for each, artefact in artefacts if artefact.notebook]
        identifiers = identifiers or [name]
        if questions and {*takers}.isdisjoint(identifiers):
            raise ValueError(f"QUESTIONS is set, but {name} does not accept it; unset it, or name {', '.join(takers)}")
        listed += identifiers
    if not questions:
        return listed
    return [identifier for identifier in listed if identifier in takers] if names else takers


def list_chosen(root: Path, only: Sequence[str] = ()) -> list[tuple[Paper, str]]:
    """Every artefact with a notebook, or those named and what they read: in the papers' order, each
    after its reads.

    Raises: ValueError for an unknown artefact, or one without a notebook.
    """
    papers = read_papers(root)
    wanted = [find_artefact(papers, identifier) for identifier in only]
    for paper, name in wanted:
        if paper.artefacts[name].notebook is None:
            raise ValueError(f"{paper.paper}/{name} has no notebook")
    chosen = []
    for paper in papers.values():
        ordered = dict.fromkeys(read for name in paper.artefacts for read in _list_chain(paper, name))
        names = {read for other, name in wanted if other is paper for read in _list_chain(paper, name)}
        chosen += [(paper, name) for name in ordered if paper.artefacts[name].notebook and (name in names or not only)]
    return chosen


def _list_chain(paper: Paper, name: str) -> list[str]:
    """The artefacts that one reads, however far down, and then itself."""
    return [*(read for other in paper.artefacts[name].reads for read in _list_chain(paper, other)), name]
