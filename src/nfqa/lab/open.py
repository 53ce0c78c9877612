"""The one object that a notebook opens: its data, its roles, its published numbers, and where its results go."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.data.paths import find_cache, find_place, find_root, write_atomically
from nfqa.judge.asking import Asker, Tally, merge_tallies
from nfqa.judge.limits import Limits
from nfqa.judge.prompts import read_prompt_set
from nfqa.lab.figures import add_note, save_figure, use_style
from nfqa.lab.judging import Asking, open_generators, open_judge, show_progress
from nfqa.lab.notebooks import hash_code, list_functions, read_parameters, read_versions
from nfqa.lab.papers import find_artefact, read_papers, show_name
from nfqa.models.chat import Reading
from nfqa.models.roles import DEFAULTS, EVALUATORS, identify_role, parse_role

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from pandas.io.formats.style import Styler
    from seaborn.objects import Plot

    from nfqa.debates.search import Scorer
    from nfqa.judge.prompts import PromptSet
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator
    from nfqa.models.roles import RoleSpec


class Lab:
    """What `open_lab` gives. Results go to `out`; the runner moves them into place when the notebook has succeeded."""

    def __init__(self, identifier: str, *, data: str, out: str, roles: Mapping[str, str], asking: Asking) -> None:
        self.root, self.dry = find_root(), bool(os.environ.get("NFQA_DRY"))
        self.identifier, self.data, self.asking = identifier, data, asking
        self.given = json.loads(os.environ.get("NFQA_GIVEN", "{}"))  # by the runner
        self.size = self.given.get("size", "")  # of a quick run
        self.paper, self.name = find_artefact(read_papers(self.root), identifier)
        self.artefact = self.paper.artefacts[self.name]
        self.out = Path(out) if out else find_place(self.root, profile="drafts").work / self.paper.paper
        self.roles = {role: roles.get(role) or DEFAULTS[role] for role in DEFAULTS}
        self._inputs: dict[str, str] = {}
        self._askers: list[Asker] = []

    def __repr__(self) -> str:
        what = "the bundled SAMPLE, not the paper's data" if self.data == "sample" else "full public data"
        if self.artefact.bundled:
            what = "your own file, or the bundled SAMPLE"
        always = ("embedder", "evaluator")
        shown = [role for role in self.artefact.roles if role in always or self.roles[role] != DEFAULTS[role]]
        roles = "".join(f" {role.capitalize()}: {self.roles[role]}." for role in shown)
        return f"{self.artefact.label}: {self.artefact.title}. Data: {what}.{roles}"

    # Data -------------------------------------------------------------------------------------------------------------

    def load(self, name: str, **how: Any) -> Any:
        """A dataset by its registered name; the bundled stand-in when the run is on the sample.

        Args: how: `limit`, `split` or `repeats`, as `nfqa.data.load.load` has them.
        Raises: ValueError where papers/*.yml does not list it, and as that function.
        """
        from nfqa.data.load import load

        self._check_listed(name, "loads", "datasets", "needs_files")
        return self.use(load(name, data=self.data, root=self.root, **how))

    def load_frame(self, name: str) -> pd.DataFrame:
        """A registered table, as `nfqa.data.web` has them; the bundled stand-in when the run is on the sample.

        Raises: ValueError where papers/*.yml does not list it, and as `nfqa.data.web.load_frame`.
        """
        from nfqa.data.web import load_frame

        self._check_listed(name, "loads", "datasets", "needs_files")
        frame, digest = load_frame(name, data=self.data, root=self.root)
        self._inputs[frame.dataset.iloc[0]] = f"sha256:{digest}"
        return frame

    def use(self, dataset: Any) -> Any:
        """Count a dataset that was read elsewhere among the inputs."""
        self._inputs[dataset.name] = f"sha256:{dataset.sha256}"
        return dataset

    def has(self, name: str) -> bool:
        """Whether an optional dataset is at hand; where it is not, the rows that it would give are not run."""
        from nfqa.data.load import has

        return has(name, data=self.data, root=self.root)

    def read_prompts(self, name: str = "") -> PromptSet:
        """A set of prompts, by default the one the judge is asked with; `upstream` fetches the released files."""
        return read_prompt_set(self.root, name or self.asking.prompts)

    # Roles ------------------------------------------------------------------------------------------------------------

    @property
    def cache(self) -> Path:
        """The folder of what is computed once: vectors, losses, and what was fitted."""
        return self.root / "build" / "cache"

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder role, with its cache under build/."""
        from nfqa.models.embed import Embedder

        return Embedder(self.roles["embedder"], find_cache(self.root, "embeddings"))

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator role, with its store of losses under build/."""
        return self._open_evaluator(parse_role("evaluator", self.roles["evaluator"]))

    @property
    def evaluator_name(self) -> str:
        """What the evaluator role is called in results: an embedded evaluator by its own name, any other "role"."""
        kind, _, name = self.roles["evaluator"].partition(":")
        return name if kind == "embedded" else "role"

    def open_evaluators(self) -> dict[str, Evaluator]:
        """All embedded evaluators by name, and the role's, called "role", if it is none of them."""
        others = {name: f"embedded:{name}" for name in EVALUATORS if name != self.evaluator_name}
        opened = {name: self._open_evaluator(parse_role("evaluator", spec)) for name, spec in others.items()}
        return {name: opened.get(name, self.evaluator) for name in dict.fromkeys([*EVALUATORS, self.evaluator_name])}

    def open_without_cache(self, evaluator: Evaluator) -> Evaluator:
        """The same model without its continuous cache."""
        return self._open_evaluator(evaluator.spec, cache=None)

    def _open_evaluator(self, spec: RoleSpec, **how: Any) -> Evaluator:
        from nfqa.models.evaluator import Evaluator

        return Evaluator(spec, store=find_cache(self.root, "losses"), **how)

    @cached_property
    def judge(self) -> LanguageJudge | None:
        """The judge role as a language model; None where the embedded judge fills it."""
        return self.open_other_reading(self.asking.reading)

    def open_other_reading(self, reading: Reading) -> LanguageJudge | None:
        """The judge role's language model once more, its verdicts read in another way."""
        asking, progress = replace(self.asking, reading=reading), show_progress(self.out)
        judge = open_judge(self.root, self.roles["judge"], asking, dry=self.dry, progress=progress)
        self._askers += [judge.asker] if judge is not None else []
        return judge

    @cached_property
    def judge_name(self) -> str:
        """The published model that the judge is, if it is asked as published; else "judge", whose rows are its own."""
        if self.judge is None or not self.asking.as_published:
            return "judge"
        name = self.judge.asker.spec.name.rpartition("/")[2].lower()
        return next((family for family, start in self.paper.judges.items() if name.startswith(start)), "judge")

    @cached_property
    def generators(self) -> list[Asker]:
        """The generator role's language models; none where rules fill it."""
        opened = open_generators(
            self.root, self.roles["generator"], self.asking, dry=self.dry, progress=show_progress(self.out)
        )
        self._askers += opened
        return opened

    @cached_property
    def reranker(self) -> Scorer | None:
        """The reranker role as a cross-encoder; None where the embedder's vectors of sentences fill it."""
        from nfqa.models.cross_encoder import open_cross_encoder

        spec = parse_role("reranker", self.roles["reranker"])
        return None if spec.kind == "embedded" else open_cross_encoder(spec)

    @property
    def tally(self) -> Tally:
        """What asking language models has come to so far."""
        return merge_tallies(asker.tally for asker in self._askers)

    def say_usage(self) -> str:
        """What this run asked, for the notebook's page alone: another run finds more in the journal."""
        if not self._askers:
            return "No language model was asked: the judge role is filled by the embedded judge."
        t = self.tally
        return (
            f"{t.wanted:,} verdicts wanted; {t.kept:,} completions from the journal, {t.asked:,} asked now (an"
            f" unreadable one up to twice more): {t.prompt_tokens:,} tokens in, {t.completion_tokens:,} out."
        )

    # Published numbers and results ------------------------------------------------------------------------------------

    def published(self, name: str = "") -> pd.DataFrame:
        """The published numbers of this artefact, or of another one of the paper that it reads or cites.

        Returns: as `nfqa.lab.papers.Paper.find_published`.
        """
        self._check_listed(name, "reads", "reads", "cites")
        return self.paper.find_published(name or self.name)

    def read(self, name: str = "") -> pd.DataFrame:
        """The values of this artefact, or of another one that papers/*.yml lists under reads, and so made before it."""
        from nfqa.lab.values import read_values

        self._check_listed(name, "reads", "reads")
        name = name or self.name
        place = Path(self.given.get("results") or find_place(self.root, data=self.data).results)
        beside = self.out / f"{name}.csv"
        return read_values(beside if beside.is_file() else place / self.paper.paper / f"{name}.csv")

    def title(self, name: object) -> str:
        """How a dataset, system, metric, condition or statistic is shown."""
        return show_name(self.paper, name)

    def tidy(self, values: pd.DataFrame, *, exact: Collection[str] | bool = ()) -> pd.DataFrame:
        """Values as they are written, rounded once: what tables, figures and findings show.

        Args: exact: metrics that no model's floating point is behind, or True for all; an artefact without a model's
            role is exact throughout.
        Raises: as `nfqa.lab.values.tidy_values`.
        """
        from io import StringIO

        from nfqa.lab.compare import mark_stand_ins
        from nfqa.lab.values import read_values, tidy_values

        roles = {"embedder", "evaluator", "reranker"} & set(self.artefact.roles) or self._askers
        origin = "sample" if self.data == "sample" or self.artefact.bundled else "measured"
        table = tidy_values(values, origin=origin, exact=exact if roles else True)
        table = mark_stand_ins(self.paper, self.name, table)
        return read_values(StringIO(table.to_csv(index=False)))  # exactly what a reader of the file will see

    def beside_paper(self, table: pd.DataFrame) -> Styler:
        """The table in the paper's own shape: ours with its interval above the published value, rows of ours below."""
        from nfqa.lab.compare import lay_beside_paper

        folder = Path(self.given.get("tables") or find_place(self.root, profile="drafts").tables)
        return lay_beside_paper(self.paper, self.name, table, folder)

    def label(self, table: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
        """The table for a figure: each row with its label in words, published beside ours."""
        from nfqa.lab.compare import label_rows

        return label_rows(self.paper, self.name, table, by)

    def mark(self, figure: Figure | Plot, table: pd.DataFrame) -> Figure | Plot:
        """A figure of these values with lines below it: how small a quick run was, and what stands in for what."""
        from nfqa.lab.compare import note_stand_ins

        return add_note(figure, "\n".join(filter(None, [self.size, note_stand_ins(self.paper, self.name, table)])))

    def draw(self, figure: Figure | Plot, table: pd.DataFrame, stem: Path) -> None:
        """Write a figure of these values, with its note, as STEM.png and STEM.pdf."""
        save_figure(self.mark(figure, table), stem)

    def write(
        self,
        table: pd.DataFrame,
        *,
        findings: Sequence[str] = (),
        figure: Figure | Plot | None = None,
        varies: bool = False,
    ) -> None:
        """Write values, their provenance and the figure as PNG and PDF, for the runner to move into place.

        Args: varies: whether the values depend on the processor as they do on a seed: `make check` then lets them move
            by three times their spread.
        Raises: ValueError for a table that did not come from `tidy`.
        """
        from nfqa.lab.values import MEASURED, write_values

        if list(table.columns)[-len(MEASURED) :] != list(MEASURED):
            raise ValueError("the table is not as lab.tidy gives it; write what tidy returned")
        write_values(
            self.out / self.name,
            table,
            self._describe() | {"findings": list(findings)} | ({"varies": True} if varies else {}),
        )
        if self.out.is_relative_to(self.root / "build" / "drafts"):
            print(f"written to {(self.out / self.name).relative_to(self.root)}.csv, a draft; `make` writes results/")
        if figure is not None:
            self.draw(figure, table, self.out / self.name)
        if self._askers and self.tally.wanted:  # beside the result: equal results, however they came about
            tally = self.tally
            cost = Limits.from_environment().price(tally.prompt_tokens, tally.completion_tokens)
            usage = vars(tally) | {"missing": dict(tally.missing), "cost": cost}
            with write_atomically(self.out / f"{self.name}.usage.json") as scratch:
                scratch.write_text(json.dumps(usage), encoding="utf-8")

    def _describe(self) -> dict[str, Any]:
        """What all values of the artefact depend on, in one place."""
        notebook = self.root / "notebooks" / str(self.artefact.notebook)
        parameters = read_parameters(notebook) | self.given.get("parameters", {})
        for name in ("artefact", "out"):
            parameters.pop(name, None)
        return {
            "artefact": self.identifier,
            "inputs": self._inputs,
            "notebook": str(self.artefact.notebook),
            "parameters": parameters,
            "reads": sorted(self.artefact.reads),
            "roles": {role: identify_role(role, self.roles[role]) for role in self.artefact.roles},
            "functions": list_functions(notebook),
            "code": hash_code(notebook, self.paper, self.name),
            "packages": read_versions(),
        } | ({"size": self.size} if self.size else {})

    def _check_listed(self, name: str, does: str, *fields: str) -> None:
        """What an artefact uses must be in its entry, on which its staleness depends; "" is the artefact itself."""
        if name and not any(name in getattr(self.artefact, field) for field in fields):
            where = f"papers/{self.paper.paper}.yml does not list it under {' or '.join(fields)}"
            raise ValueError(f"{self.identifier} {does} {name} but {where}")


def open_lab(
    identifier: str,
    *,
    data: str = "full",
    out: str = "",
    embedder: str = "",
    evaluator: str = "",
    judge: str = "",
    generator: str = "",
    reranker: str = "",
    **asking: Any,
) -> Lab:
    """Open an artefact's lab inside a notebook.

    Args: identifier: PAPER/NAME; data: "full" or "sample"; out: folder for the results, "" for build/drafts, so that
        a notebook run by hand never replaces a committed result; embedder ... reranker: role specs, "" for the default;
        asking: how a language model is asked, the fields of `nfqa.lab.judging.Asking`.
    Raises: ValueError for an unknown artefact, data, role or way of asking.
    """
    if data not in ("full", "sample"):
        raise ValueError(f"data is {data!r}; expected 'full' or 'sample'")
    roles = {"embedder": embedder, "evaluator": evaluator, "judge": judge, "generator": generator, "reranker": reranker}
    for role, spec in roles.items():
        if spec:
            identify_role(role, spec)
    use_style()
    return Lab(identifier, data=data, out=out, roles=roles, asking=Asking(**asking))
