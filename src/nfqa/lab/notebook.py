"""The one object that a notebook opens: its data, its roles, its published numbers, and where its results go."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.backends.roles import DEFAULTS, parse_role
from nfqa.lab.artefacts import Artefact, Leaf, Paper, find_artefact, list_leaves, read_papers
from nfqa.lab.datasets import Repeats, load_dataset
from nfqa.lab.packages import read_versions
from nfqa.lab.paths import find_place, find_root
from nfqa.lab.results import Result, Row, read_result, write_result
from nfqa.questions import QuestionSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.backends.embed import Embedder


class Lab:
    """What `open_lab` gives. Results go to `out`; the runner moves them into place when the notebook has succeeded."""

    def __init__(self, identifier: str, *, data: str, embedder: str, out: str, root: Path) -> None:
        self.root = root
        self.identifier = identifier
        self.data = data
        self.paper_name, _, self.name = identifier.partition("/")
        self.paper: Paper = read_papers(root)[self.paper_name] if "/" in identifier else _fail(identifier)
        self.artefact: Artefact = find_artefact({self.paper_name: self.paper}, identifier)
        self.out = Path(out) if out else find_place(root, profile="drafts").work / self.paper_name
        self._embedder_spec = embedder
        self._datasets: dict[str, QuestionSet] = {}

    def __repr__(self) -> str:
        what = "the bundled SAMPLE, not the paper's data" if self.data == "sample" else "full public data"
        return f"{self.artefact.label}: {self.artefact.title}. Data: {what}. Embedder: {self._embedder_spec}."

    def load(self, name: str, *, limit: int | None = None, repeats: Repeats = "keep") -> QuestionSet:
        """A data set, by its registered name; the bundled stand-in when the run is on the sample."""
        dataset = load_dataset(name, data=self.data, limit=limit, repeats=repeats, root=self.root)
        self._datasets[dataset.name] = dataset
        return dataset

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder role, with its cache under build/."""
        from nfqa.backends.embed import Embedder

        return Embedder(self._embedder_spec, find_cache(self.root))

    def leaves(self, name: str = "") -> list[Leaf]:
        """The published numbers of this artefact, or of another one of the paper that it reads."""
        if name and name not in self.artefact.reads:
            raise ValueError(
                f"{self.identifier} reads {name} but papers/{self.paper_name}.yml doesn't list it under reads"
            )
        return list(list_leaves(self.paper, name or self.name))

    def read_other(self, name: str) -> Result:
        """The results of another artefact, made before this one because papers/*.yml lists it under reads."""
        self.leaves(name)
        beside = self.out / f"{name}.json"
        given = os.environ.get("NFQA_RESULTS")
        place = Path(given) if given else find_place(self.root, data=self.data).results
        return read_result(beside if beside.is_file() else place / self.paper_name / f"{name}.json")

    def title(self, system: str) -> str:
        """How a system is shown."""
        entry = self.paper.systems.get(system)
        return entry.title if entry else system.replace("_", " ")

    def with_published(self, rows: Iterable[Row]) -> list[Row]:
        """The rows with the published value beside ours where this artefact has one."""
        published = {leaf.key: leaf.value for leaf in self.leaves()}
        return [row.model_copy(update={"paper": published.get(row.key)}) for row in rows]

    def write(self, rows: list[Row], *, findings: list[str] | None = None, figure: Figure | None = None) -> None:
        """Write the results file, and the figure as PNG and PDF, for the runner to move into place."""
        from nfqa.lab.plots import save_figure

        rows = self.with_published(rows)
        path = self.out / f"{self.name}.json"
        result = Result(
            artefact=self.identifier, rows=tuple(rows), findings=tuple(findings or ()), provenance=self._describe()
        )
        write_result(path, result)
        if figure is not None:
            save_figure(figure, self.out / self.name)

    def _describe(self) -> dict[str, Any]:
        roles = {"embedder": self._embedder_spec}
        return {
            "inputs": {name: f"sha256:{dataset.sha256}" for name, dataset in self._datasets.items()},
            "reads": sorted(self.artefact.reads),
            "roles": {r: parse_role(r, roles.get(r, DEFAULTS[r])).identity for r in self.artefact.roles},
            "code": os.environ.get("NFQA_CODE", "not run by the runner"),
            "packages": read_versions(),
        }


def open_lab(identifier: str, *, data: str = "full", embedder: str = "", out: str = "") -> Lab:
    """Open an artefact's lab inside a notebook.

    Args: identifier: PAPER/NAME; data: "full" or "sample"; embedder: a role spec, "" for the default; out: folder for
        the results, "" for build/drafts, so that a notebook run by hand never replaces a committed result.
    Raises: ValueError for an unknown artefact, data or role.
    """
    if data not in ("full", "sample"):
        raise ValueError(f"data is {data!r}; expected 'full' or 'sample'")
    spec = embedder or DEFAULTS["embedder"]
    parse_role("embedder", spec)
    return Lab(identifier, data=data, embedder=spec, out=out, root=find_root())


def find_cache(root: Path) -> Path:
    """The file that keeps vectors; shared by all runs, as it is keyed by model and text."""
    return root / "build" / "cache" / "embeddings.sqlite"


def _fail(identifier: str) -> Paper:
    raise ValueError(f"artefact {identifier!r}; expected PAPER/NAME, such as linkage/table_02")
