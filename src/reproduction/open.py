"""The one object that a notebook opens: its data, its roles, its published numbers, and where its
results go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.files.paths import find_root, hash_folder, write_text
from nfqa.judge.limits import Limits
from nfqa.models.loading import read_precision
from nfqa.models.roles import DEFAULTS, identify_role
from nfqa.opening import Asking
from reproduction.figures import add_note, save_figure, use_style
from reproduction.judging import read_prompt_set
from reproduction.notebook_roles import Roles
from reproduction.notebooks import list_functions, read_parameters, read_versions
from reproduction.papers import DEBATEQA, find_artefact, hash_code, read_papers, show_name
from reproduction.place import find_place

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from pandas.io.formats.style import Styler

    from nfqa.files.records import QuestionSet
    from nfqa.judge.prompts import PromptSet
    from reproduction.debates.answered import Answered


class Lab(Roles):
    """What `open_lab` gives. Results go to `out`; the runner moves them into place when the
    notebook has succeeded.
    """

    def __init__(self, identifier: str, *, data: str, out: str, roles: Mapping[str, str], asking: Asking) -> None:
        self.identifier = identifier
        run = json.loads(os.environ.get("NFQA_GIVEN", "{}"))  # by what runs the notebook
        self.size = run.get("size", "")
        self._parameters = run.get("parameters", {})
        self._work = Path(run["work"]) if "work" in run else None
        root = find_root()
        self.paper, self.name = find_artefact(read_papers(root), identifier)
        self.artefact = self.paper.artefacts[self.name]
        folder = Path(out) if out else find_place(root, profile="drafts").work / self.paper.paper
        super().__init__(root, folder, data, roles, asking, self.paper)
        self._inputs: dict[str, str] = {}

    def __repr__(self) -> str:
        what = "the bundled SAMPLE, not the paper's data" if self.data == "sample" else "full public data"
        if self.artefact.bundled:
            what = "your own file, or the bundled SAMPLE"
        always = ("embedder", "evaluator")
        used = [role for role in self.artefact.roles if role in always or self.roles[role] != DEFAULTS[role]]
        roles = "".join(f" {role.capitalize()}: {self.roles[role]}." for role in used)
        title = self.artefact.title.rstrip(".")
        return f"{self.artefact.label}: {title}{'' if title.endswith('?') else '.'} Data: {what}.{roles}"

    # Data -------------------------------------------------------------------------------------------------------------

    def load(self, name: str, **options: Any) -> Any:
        """A dataset by its registered name; the bundled sample when the run is on the sample.

        Args: options: `limit`, `first`, `split` or `repeats`, as `reproduction.data.load.load` has
            them.
        Raises: ValueError where papers/*.yml does not list it, and as that function.
        """
        from reproduction.data.load import load

        self._check_listed(name, "loads", "datasets")
        return self.use(load(name, data=self.data, root=self.root, **options))

    def load_example(self, name: str) -> QuestionSet:
        """The first question of a dataset's bundled sample: a text of this project's own, which a
        notebook may print.
        """
        from reproduction.data.load import load

        return self.use(load(name, data="sample", root=self.root, limit=1))

    def load_splits(self, *, limit: int | None = None) -> list[QuestionSet]:
        """DebateQA's own questions: its test split and its dev split; the sample's one split in a
        sample run.

        Args: limit: at most this many of each, chosen by hash.
        Raises: as `load`.
        """
        names = ["debateqa_test"] if self.data == "sample" else ["debateqa_test", "debateqa_dev"]
        return [self.load(name, limit=limit) for name in names]

    def load_debates(self, questions: str, *, limit: int | None = None, fewest: int = 1) -> QuestionSet:
        """Debatable questions: claims of Debatewise that no embedded model was trained on, or
        DebateQA's test split.

        Args: questions: "debatewise" or "debateqa"; limit: at most this many, chosen by hash;
            fewest: partial answers that a question must have.
        Raises: ValueError as `load`, or where no question has so many partial answers.
        """
        every = self.load("debateqa_test" if questions == DEBATEQA else questions, split="held_out")
        enough = [question for question in every.questions if len(question.partial_answers) >= fewest]
        chosen = sorted(enough, key=lambda question: question.key)[:limit]
        if not chosen:
            raise ValueError(f"{every.name}: no question has {fewest} partial answers; use a larger set")
        return replace(every, questions=tuple(chosen))

    def load_answers(
        self, questions: str, *, files: str = "", limit: int | None = None, fewest: int = 1, **options: Any
    ) -> Answered:
        """Answers of several systems to debatable questions, all to the same.

        They are those of a folder of files, or of the generator role's models, to the questions of
        `load_debates`; or, with neither, those of OvertonEvals to its own questions.
        Args: questions: as `load_debates`; files: the folder; limit, fewest: of the questions;
            options: as `nfqa.judge.answering.answer_questions`.
        Raises: as `load_debates`, and as the functions of `reproduction.debates.answered`;
            ValueError where nothing answers DebateQA's questions.
        """
        from nfqa.judge.answering import answer_questions
        from reproduction.debates.answered import Answered, read_answer_files

        if not files and not self.writers:
            if questions == DEBATEQA:
                raise ValueError("nothing answers DebateQA's questions; name a GENERATOR, or a folder by ANSWERS")
            overton = self.load("overton", limit=limit)
            return Answered(overton, overton.answers[["dataset", "question", "system", "text"]])
        debates = self.load_debates(questions, limit=limit, fewest=fewest)
        if files:
            answers = read_answer_files(Path(files), debates.texts_by_name)
            self._inputs["answers"] = f"sha256:{hash_folder(Path(files))}"
        else:
            prompts = read_prompt_set(self.root, "own")
            answers = answer_questions(debates.texts_by_name, self.writers, prompts, **options)
            self._inputs |= {f"answers of {row.system}": row.made for row in answers.itertuples()}
        return Answered.gather(debates, answers)

    def load_frame(self, name: str, *, sample: bool = False) -> pd.DataFrame:
        """A registered table, as `reproduction.data.web` has them; the bundled sample when the run
        is on the sample.

        Args: sample: the bundled sample in any run: texts of this project's own.
        Raises: ValueError where papers/*.yml does not list it, and as
            `reproduction.data.web.load_frame`.
        """
        from reproduction.data.web import load_frame

        self._check_listed(name, "loads", "datasets")
        frame, digest = load_frame(name, data="sample" if sample else self.data, root=self.root)
        self._inputs[frame.dataset.iloc[0]] = f"sha256:{digest}"
        return frame

    def use(self, dataset: Any) -> Any:
        """Count a dataset that was read elsewhere among the inputs."""
        self._inputs[dataset.name] = f"sha256:{dataset.sha256}"
        return dataset

    def read_prompts(self, name: str = "") -> PromptSet:
        """A set of prompts, by default the one the judge is asked with; `upstream` fetches the
        released files.
        """
        return read_prompt_set(self.root, name or self.asking.prompts)

    # Published numbers and results ------------------------------------------------------------------------------------

    def published(self, name: str = "") -> pd.DataFrame:
        """The published numbers of this artefact, or of another one of the paper that it reads or
        cites.

        Returns: as `reproduction.papers.Paper.find_published`.
        """
        self._check_listed(name, "reads", "reads", "cites")
        return self.paper.find_published(name or self.name)

    def read(self, name: str = "") -> pd.DataFrame:
        """The values of this artefact, or of another one that papers/*.yml lists under reads, and
        so made before it.
        """
        from reproduction.values import read_values

        self._check_listed(name, "reads", "reads")
        name = name or self.name
        results = (self._work or find_place(self.root, data=self.data).work) / "results"
        places = (self.out / f"{name}.csv", results / self.paper.paper / f"{name}.csv")
        reference = self.root / "results" / self.paper.paper / f"{name}.csv"
        return read_values(next((path for path in places if path.is_file()), reference))

    def title(self, name: object) -> str:
        """How a dataset, system, metric, condition or statistic is shown."""
        return show_name(self.paper, name)

    def tidy(self, values: pd.DataFrame, *, exact: Collection[str] | bool = ()) -> pd.DataFrame:
        """Values as they are written, rounded once: what tables, figures and findings show.

        Args: exact: metrics that no model's floating point is behind, or True for all; an artefact
            without a model's role is exact throughout.
        Raises: as `reproduction.values.tidy_values`.
        """
        from io import StringIO

        from reproduction.compare import mark_stand_ins
        from reproduction.values import read_values, tidy_values

        judging = [role for role in ("judge", "generator") if self.roles[role] != DEFAULTS[role]]
        roles = {"embedder", "evaluator", *judging} & set(self.artefact.roles)
        origin = "sample" if self.data == "sample" or self.artefact.bundled else "measured"
        table = tidy_values(values, origin=origin, exact=exact if roles else True)
        table = mark_stand_ins(self.paper, self.name, table)
        return read_values(StringIO(table.to_csv(index=False)))  # exactly what a reader of the file will see

    def show(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Values to read: in words the conditions in which the rows differ, the value with its
        interval, and n.
        """
        import pandas as pd

        from reproduction.compare import say_differences
        from reproduction.values import write_numbers

        words = say_differences(self.paper, rows)
        counts = rows.n.astype(object).where(rows.n.notna(), "")
        return pd.DataFrame({"of": words, "value": write_numbers(rows).array, "n": counts.array})

    def beside_paper(self, table: pd.DataFrame, name: str = "") -> Styler:
        """The table in the paper's own shape: the measured value and its interval above the
        published one.

        Args: name: of another artefact that this one reads, whose table it is.
        """
        from reproduction.compare import lay_beside_paper

        self._check_listed(name, "reads", "reads")
        return lay_beside_paper(self.paper, name or self.name, table)

    def label(self, table: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
        """The table for a figure: each row with its label in words, published beside measured."""
        from reproduction.compare import label_rows

        return label_rows(self.paper, self.name, table, by)

    def mark(self, figure: Figure, table: pd.DataFrame) -> Figure:
        """A figure of these values with lines below it: whether they are the sample's, of a quick
        run, or a proxy's.
        """
        from reproduction.compare import note_stand_ins

        made_up = "SAMPLE: made-up data, not the paper's" if "sample" in set(table.origin) else ""
        lines = [made_up, self.size, note_stand_ins(self.paper, self.name, table)]
        return add_note(figure, "\n".join(filter(None, lines)))

    def draw(self, figure: Figure, table: pd.DataFrame, stem: Path) -> None:
        """Write a figure of these values, with its note, as STEM.png and STEM.pdf."""
        save_figure(self.mark(figure, table), stem)

    def list_findings(self, table: pd.DataFrame, claims: Mapping[str, str]) -> pd.DataFrame:
        """Each claim beside the rows that test it, as `reproduction.findings.list_findings` has it."""
        from reproduction.findings import list_findings

        return list_findings(self.paper, table, claims)

    def write(
        self,
        table: pd.DataFrame,
        *,
        figure: Figure | None = None,
        varies: bool = False,
    ) -> None:
        """Write values, their provenance and the figure as PNG and PDF, for the runner to move into
        place.

        Args: varies: whether the values depend on the processor as they do on a seed: `make check`
            then lets them move by three times their spread.
        Raises: ValueError for a table that did not come from `tidy`.
        """
        from reproduction.values import MEASURED, write_values

        if list(table.columns)[-len(MEASURED) :] != list(MEASURED):
            raise ValueError("the table is not as lab.tidy gives it; write what tidy returned")
        provenance = self._describe() | ({"varies": True} if varies else {})
        write_values(self.out / self.name, table, provenance)
        if self.out.is_relative_to(self.root / "build" / "drafts"):
            print(f"written to {(self.out / self.name).relative_to(self.root)}.csv, a draft; `make` writes results/")
        if figure is not None:
            self.draw(figure, table, self.out / self.name)
        if self._askers and self.tally.verdicts:  # beside the result: equal results, however they came about
            tally = self.tally
            cost = Limits.from_environment().price(tally.prompt_tokens, tally.completion_tokens)
            usage = vars(tally) | {"missing": dict(tally.missing), "cost": cost}
            write_text(self.out / f"{self.name}.usage.json", json.dumps(usage))

    def _describe(self) -> dict[str, Any]:
        """What all values of the artefact depend on, in one place."""
        notebook = self.artefact.path
        parameters = read_parameters(notebook) | self._parameters
        return {
            "artefact": self.identifier,
            "inputs": self._inputs,
            "notebook": str(self.artefact.notebook),
            "parameters": {name: value for name, value in parameters.items() if name not in ("artefact", "out")},
            "reads": sorted(self.artefact.reads),
            "roles": {role: identify_role(role, spec) for role in self.artefact.roles if (spec := self.roles[role])},
            "functions": list_functions(notebook),
            "code": hash_code(notebook, self.paper, self.name),
            "packages": read_versions(),
        } | {name: note for name, note in {"size": self.size, "dtype": read_precision("")}.items() if note}

    def _check_listed(self, name: str, does: str, *fields: str) -> None:
        """What an artefact uses must be in its entry, on which its staleness depends; "" is the
        artefact itself.
        """
        if name and not any(name in getattr(self.artefact, field) for field in fields):
            where = f"papers/{self.paper.paper}.yml does not list it under {' or '.join(fields)}"
            raise ValueError(f"{self.identifier} {does} {name} but {where}")


def open_lab(identifier: str, *, data: str = "full", out: str = "", questions: str = "", **options: Any) -> Lab:
    """Open an artefact's lab inside a notebook.

    Args: identifier: PAPER/NAME; data: "full" or "sample"; out: folder for the results, "" for
        build/drafts, so that a notebook run by hand never replaces a committed result; questions:
        the notebook's parameter of this name, its default or "debateqa"; options: role specs
        (embedder, evaluator, judge, generator), "" for the default, and how a language model is
        asked, the fields of `reproduction.judging.Asking`.
    Raises: ValueError for an unknown artefact, data, questions, role or way of asking.
    """
    if data not in ("full", "sample"):
        raise ValueError(f"data is {data!r}; expected 'full' or 'sample'")
    import pandas as pd

    roles = {role: spec for role in DEFAULTS if (spec := options.pop(role, ""))}
    for role, spec in roles.items():
        identify_role(role, spec)
    use_style()
    pd.options.display.max_colwidth = 200  # sentences are read whole
    lab = Lab(identifier, data=data, out=out, roles=roles, asking=Asking(**options))
    default = read_parameters(lab.artefact.path).get("questions") if questions else ""
    if questions not in (default, DEBATEQA):
        raise ValueError(f"questions is {questions!r}; expected {default!r} or {DEBATEQA!r}")
    return lab
