"""The one object that a notebook opens: its data, its roles, its published numbers, and where its results go."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.backends.asking import Asker, Tally, merge_tallies
from nfqa.backends.chat import Reading
from nfqa.backends.roles import DEFAULTS, identify_role, parse_role
from nfqa.lab.artefacts import Artefact, Leaf, Paper, find_artefact, list_leaves, read_papers
from nfqa.lab.datasets import Repeats, load_dataset
from nfqa.lab.fetch import fetch_file, read_registry
from nfqa.lab.judging import Asking, open_generators, open_judge, read_prompt_set, show_progress
from nfqa.lab.packages import read_versions
from nfqa.lab.paths import find_place, find_root, write_atomically
from nfqa.lab.results import Result, Row, read_result, write_result
from nfqa.metrics.judging import LanguageJudge
from nfqa.questions import QuestionSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nfqa.backends.embed import Embedder
    from nfqa.backends.prompts import PromptSet


class Lab:
    """What `open_lab` gives. Results go to `out`; the runner moves them into place when the notebook has succeeded."""

    def __init__(
        self,
        identifier: str,
        *,
        data: str,
        out: str,
        root: Path,
        roles: dict[str, str],
        asking: Asking,
        dry: bool = False,
    ) -> None:
        self.root = root
        self.identifier = identifier
        self.data = data
        self.paper_name, _, self.name = identifier.partition("/")
        self.paper: Paper = read_papers(root)[self.paper_name] if "/" in identifier else _fail(identifier)
        self.artefact: Artefact = find_artefact({self.paper_name: self.paper}, identifier)
        self.out = Path(out) if out else find_place(root, profile="drafts").work / self.paper_name
        self.asking = asking
        self.roles = {role: roles.get(role) or DEFAULTS.get(role, "") for role in DEFAULTS}
        self._dry = dry
        self._others: list[Asker] = []
        self._datasets: dict[str, QuestionSet] = {}

    def __repr__(self) -> str:
        what = "the bundled SAMPLE, not the paper's data" if self.data == "sample" else "full public data"
        shown = [role for role in self.artefact.roles if role == "embedder" or self.roles[role] != DEFAULTS[role]]
        roles = "".join(f" {role.capitalize()}: {self.roles[role]}." for role in shown)
        return f"{self.artefact.label}: {self.artefact.title}. Data: {what}.{roles}"

    def load(self, name: str, *, limit: int | None = None, repeats: Repeats = "keep") -> QuestionSet:
        """A data set, by its registered name; the bundled stand-in when the run is on the sample."""
        dataset = load_dataset(name, data=self.data, limit=limit, repeats=repeats, root=self.root)
        self._datasets[dataset.name] = dataset
        return dataset

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder role, with its cache under build/."""
        from nfqa.backends.embed import Embedder

        return Embedder(self.roles["embedder"], find_cache(self.root))

    @cached_property
    def judge(self) -> LanguageJudge | None:
        """The judge role as a language model; None where the embedded judge fills it."""
        return open_judge(self.root, self.roles["judge"], self.asking, dry=self._dry, progress=show_progress(self.out))

    def open_other_reading(self, reading: Reading) -> LanguageJudge:
        """The judge role's language model once more, its verdicts read in another way.

        Raises: ValueError when the embedded judge fills the role.
        """
        asking = replace(self.asking, reading=reading)
        other = open_judge(self.root, self.roles["judge"], asking, dry=self._dry, progress=show_progress(self.out))
        if other is None:
            raise ValueError(
                f"the judge role is filled by {self.roles['judge']}, whose verdicts are not read from text"
            )
        self._others.append(other.asker)
        return other

    @cached_property
    def generators(self) -> list[Asker]:
        """The generator role's language models; none where the rule-based degrader fills it."""
        return open_generators(
            self.root, self.roles["generator"], self.asking, dry=self._dry, progress=show_progress(self.out)
        )

    @property
    def tally(self) -> Tally:
        """What asking language models has come to so far."""
        judges = [self.judge.asker] if "judge" in self.__dict__ and self.judge is not None else []
        askers = [*judges, *self._others, *self.__dict__.get("generators", [])]
        return merge_tallies(asker.tally for asker in askers)

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
        if self.tally.wanted:  # beside the result, not in it: equal verdicts give equal results, however they came
            with write_atomically(self.out / f"{self.name}.usage.json") as scratch:
                scratch.write_text(json.dumps(asdict(self.tally)), encoding="utf-8")

    def _describe(self) -> dict[str, Any]:
        return {
            "inputs": {name: f"sha256:{dataset.sha256}" for name, dataset in self._datasets.items()},
            "reads": sorted(self.artefact.reads),
            "roles": {role: identify_role(role, self.roles[role]) for role in self.artefact.roles},
            "code": os.environ.get("NFQA_CODE", "not run by the runner"),
            "packages": read_versions(),
        }


def open_lab(
    identifier: str,
    *,
    data: str = "full",
    embedder: str = "",
    judge: str = "",
    generator: str = "",
    asking: Mapping[str, Any] | None = None,
    out: str = "",
    dry: bool = False,
) -> Lab:
    """Open an artefact's lab inside a notebook.

    Args: identifier: PAPER/NAME; data: "full" or "sample"; embedder, judge, generator: role specs, "" for the default;
        asking: how a language model is asked, the fields of `Asking`; out: folder for the results, "" for
        build/drafts, so that a notebook run by hand never replaces a committed result; dry: ask no language model,
        count what would be asked.
    Raises: ValueError for an unknown artefact, data, role or way of asking.
    """
    if data not in ("full", "sample"):
        raise ValueError(f"data is {data!r}; expected 'full' or 'sample'")
    roles = {"embedder": embedder, "judge": judge, "generator": generator}
    for role, spec in roles.items():
        if spec:
            identify_role(role, spec)
    parse_role("embedder", embedder or DEFAULTS["embedder"])
    return Lab(identifier, data=data, out=out, root=find_root(), roles=roles, asking=Asking(**(asking or {})), dry=dry)


def find_cache(root: Path) -> Path:
    """The file that keeps vectors; shared by all runs, as it is keyed by model and text."""
    return root / "build" / "cache" / "embeddings.sqlite"


def _fail(identifier: str) -> Paper:
    raise ValueError(f"artefact {identifier!r}; expected PAPER/NAME, such as linkage/table_02")
