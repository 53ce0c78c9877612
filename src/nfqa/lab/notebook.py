"""The one object that a notebook opens: its data, its roles, its published numbers, and where its results go."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nfqa.data.load import Repeats
from nfqa.data.load import load as load_dataset
from nfqa.data.paths import find_place, find_root, write_atomically
from nfqa.data.records import QuestionSet
from nfqa.data.registry import fetch_file, read_registry
from nfqa.judge.prompts import read_prompt_set
from nfqa.lab.artefacts import Artefact, Leaf, Paper, find_artefact, find_title, list_leaves, read_papers
from nfqa.lab.notebooks import read_versions
from nfqa.lab.results import Result, Row, read_result, write_result
from nfqa.models.roles import DEFAULTS, identify_role

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.judge.prompts import PromptSet
    from nfqa.models.embed import Embedder

AnySet = TypeVar("AnySet", QuestionSet, QuestionSet)


class Lab:
    """What `open_lab` gives. Results go to `out`; the runner moves them into place when the notebook has succeeded."""

    shows_progress = False  # in a notebook a bar only leaves its debris

    def __init__(
        self,
        identifier: str,
        *,
        data: str,
        out: str,
        root: Path,
        roles: dict[str, str],
    ) -> None:
        self.root = root
        self.identifier = identifier
        self.data = data
        self.paper_name, _, self.name = identifier.partition("/")
        self.paper: Paper = read_papers(root)[self.paper_name] if "/" in identifier else _fail(identifier)
        self.artefact: Artefact = find_artefact({self.paper_name: self.paper}, identifier)
        self.out = Path(out) if out else find_place(root, profile="drafts").work / self.paper_name
        self.roles = {role: roles.get(role) or DEFAULTS.get(role, "") for role in DEFAULTS}
        self._datasets: dict[str, QuestionSet | QuestionSet] = {}

    def __repr__(self) -> str:
        what = "the bundled SAMPLE, not the paper's data" if self.data == "sample" else "full public data"
        if self.artefact.bundled:
            what = "your own file, or the bundled SAMPLE"
        always = ("embedder", "evaluator")
        shown = [role for role in self.artefact.roles if role in always or self.roles[role] != DEFAULTS[role]]
        roles = "".join(f" {role.capitalize()}: {self.roles[role]}." for role in shown)
        return f"{self.artefact.label}: {self.artefact.title}. Data: {what}.{roles}"

    def load(self, name: str, *, limit: int | None = None, repeats: Repeats = "keep") -> QuestionSet:
        """A data set, by its registered name; the bundled stand-in when the run is on the sample."""
        dataset = load_dataset(name, data=self.data, limit=limit, repeats=repeats, root=self.root)
        return self.use(dataset)

    def use(self, dataset: AnySet) -> AnySet:
        """Count a set that was read elsewhere among the inputs."""
        self._datasets[dataset.name] = dataset
        return dataset

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder role, with its cache under build/."""
        from nfqa.models.embed import Embedder

        return Embedder(self.roles["embedder"], find_cache(self.root), progress=self.shows_progress)

    def read_prompts(self, name: str) -> PromptSet:
        """A set of prompts; `upstream` fetches the released files, which papers/*.yml lists under files."""
        return read_prompt_set(self.root, name)

    def fetch(self, name: str) -> Path:
        """A registered upstream file that isn't a data set, as papers/*.yml lists it under files."""
        if name not in self.artefact.files:
            raise ValueError(
                f"{self.identifier} fetches {name} but papers/{self.paper_name}.yml doesn't list it under files"
            )
        return fetch_file(read_registry(self.root)[name], self.root / "build" / "data")

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
        return find_title(self.paper, system)

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
        if usage := self.describe_usage():  # beside the result, not in it: equal results, however they came about
            with write_atomically(self.out / f"{self.name}.usage.json") as scratch:
                scratch.write_text(json.dumps(usage), encoding="utf-8")

    def describe_usage(self) -> dict[str, Any]:
        """What the run used, for its record; nothing where no language model is asked."""
        return {}

    def _describe(self) -> dict[str, Any]:
        return {
            "inputs": {name: f"sha256:{dataset.sha256}" for name, dataset in self._datasets.items()},
            "reads": sorted(self.artefact.reads),
            "roles": {role: identify_role(role, self.roles[role]) for role in self.artefact.roles},
            "code": os.environ.get("NFQA_CODE", "not run by the runner"),
            "packages": read_versions(),
        }


def open_lab(identifier: str, *, data: str = "full", embedder: str = "", out: str = "") -> Lab:
    """Open an artefact's lab inside a notebook that asks no language model; `nfqa.lab.judged` has one that may.

    Args: identifier: PAPER/NAME; data: "full" or "sample"; embedder: a role spec, "" for the default; out: folder for
        the results, "" for build/drafts, so that a notebook run by hand never replaces a committed result.
    Raises: ValueError for an unknown artefact, data or role.
    """
    check_choices(data, {"embedder": embedder})
    return Lab(identifier, data=data, out=out, root=find_root(), roles={"embedder": embedder})


def check_choices(data: str, roles: Mapping[str, str]) -> None:
    """Refuse an unknown kind of data or a role spec that can't be read.

    Raises: ValueError.
    """
    if data not in ("full", "sample"):
        raise ValueError(f"data is {data!r}; expected 'full' or 'sample'")
    for role, spec in roles.items():
        identify_role(role, spec or DEFAULTS[role])


def find_cache(root: Path) -> Path:
    """The file that keeps vectors; shared by all runs, as it is keyed by model and text."""
    return root / "build" / "cache" / "embeddings.sqlite"


def _fail(identifier: str) -> Paper:
    raise ValueError(f"artefact {identifier!r}; expected PAPER/NAME, such as linkage/table_02")
