"""The roles of a notebook: each filled by what a spec names, opened when it is first used."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nfqa.files.paths import write_text
from nfqa.judge.asking import Asker, Tally, merge_tallies
from nfqa.models.chat import Reading
from nfqa.models.roles import ALL_COMMITTED, COMMITTED, DEFAULTS, name_models, parse_roles
from nfqa.opening import Asking
from reproduction.judging import open_generators, open_judges
from reproduction.place import find_cache, find_committed

if TYPE_CHECKING:
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator
    from nfqa.models.reader import Reader
    from nfqa.models.roles import RoleSpec
    from reproduction.papers import Paper


def show_progress(folder: Path, unit: str) -> Callable[[int, int], None]:
    """A callback that notes in FOLDER/progress.txt a batch's progress, such as "340 of 1,200
    verdicts", for the runner.

    It writes once a second at most; nothing is left once the batch has ended.
    """
    path = folder / "progress.txt"
    last = 0.0

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > 1 or done == total:
            last = time.monotonic()
            write_text(path, f"{done:,} of {total:,} {unit}" if done < total else "")

    return show


class Roles:
    """The models behind a notebook. `roles` holds the specs of each; `paper` names the models of
    published rows.
    """

    def __init__(
        self, root: Path, out: Path, data: str, roles: Mapping[str, str], asking: Asking, paper: Paper
    ) -> None:
        self.root = root
        self.out = out
        self.data = data
        self.asking = asking
        self.families = paper.judges
        self.systems = paper.systems
        self.dry = bool(os.environ.get("NFQA_DRY"))
        self.roles = {role: roles.get(role) or DEFAULTS[role] for role in DEFAULTS}
        self.recorder: Any = None  # of a dry run: its `note_requests` and `note_losses` are an asker's, an evaluator's
        self._askers: list[Asker] = []  # all that were opened

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
    def evaluators(self) -> dict[str, Evaluator]:
        """The evaluator role's models by name, with their store of losses under build/."""
        specs = parse_roles("evaluator", self.roles["evaluator"])
        return {name: self._open_evaluator(spec) for name, spec in zip(name_models(specs), specs, strict=True)}

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator role's model, the first where it names several."""
        return self.evaluators[self.evaluator_name]

    @property
    def evaluator_name(self) -> str:
        """What the first evaluator is called in results."""
        return name_models(parse_roles("evaluator", self.roles["evaluator"]))[0]

    @cached_property
    def reader(self) -> Reader:
        """SmolLM2's reader, of coverage and D.A., with its store of readings under build/."""
        from nfqa.models.reader import Reader

        store = find_cache(self.root, "readings")
        committed = find_committed(self.root, "readings")
        note = self.recorder.note_readings if self.recorder else None
        return Reader(store, committed=committed, note=note, progress=True)

    @property
    def larger(self) -> set[str]:
        """The committed evaluators but the first, by name, where the role has the word "committed";
        else none.

        Of them only some losses are committed: the paper's form of P.D. on OvertonEvals' answers,
        and few other texts.
        """
        if ALL_COMMITTED not in [part.strip() for part in self.roles["evaluator"].split(",")]:
            return set()
        larger = [*COMMITTED.values()][1:]
        return {name for name, model in self.evaluators.items() if model.spec.identity in larger}

    def find_evaluators(self, dataset: str) -> dict[str, Evaluator]:
        """The evaluators by name, without the `larger` ones where they have no losses of a
        dataset's answers.
        """
        has_losses = dataset.endswith("overton")
        return {name: model for name, model in self.evaluators.items() if has_losses or name not in self.larger}

    def _open_evaluator(self, spec: RoleSpec) -> Evaluator:
        from nfqa.models.evaluator import Evaluator

        return Evaluator(
            spec,
            store=find_cache(self.root, "losses"),
            committed=find_committed(self.root, "losses"),
            note=self.recorder.note_losses if self.recorder else None,
            progress=show_progress(self.out, "passages"),
        )

    @cached_property
    def judges(self) -> dict[str, LanguageJudge]:
        """The judge role's language models by name; none where the embedded judge fills it."""
        return self._open_judges(self.asking.reading)

    @property
    def judge(self) -> LanguageJudge | None:
        """The judge role's language model, the first where it names several; None where the
        embedded judge fills it.
        """
        return next(iter(self.judges.values()), None)

    def open_other_reading(self, reading: Reading) -> LanguageJudge | None:
        """The same language model once more, its verdicts read in another way."""
        return next(iter(self._open_judges(reading).values()), None)

    def _open_judges(self, reading: Reading | Literal[""]) -> dict[str, LanguageJudge]:
        asking = replace(self.asking, reading=reading)
        options = self._describe_asker("verdicts")
        judges = open_judges(self.root, self.roles["judge"], asking, **options)
        self._askers += [judge.asker for judge in judges.values()]
        return judges

    def _describe_asker(self, what: str) -> dict[str, Any]:
        note = self.recorder.note_requests if self.recorder else None
        return {"dry": self.dry, "progress": show_progress(self.out, what), "note": note}

    @cached_property
    def named_judges(self) -> dict[str, LanguageJudge]:
        """The judge role's language models by what their rows are called.

        That is the published model that one is, if it is asked as published; else its own name,
        where its verdicts are committed or there are several; else "judge".
        """
        named: dict[str, LanguageJudge] = {}
        for name, judge in self.judges.items():
            row = self._name_judge(name, judge.asker.spec)
            named[name if row in named else row] = judge  # the second of a published family has its own name
        return named

    def _name_judge(self, name: str, spec: RoleSpec) -> str:
        if self.asking.fit(spec).as_published:
            families = (family for family, start in self.families.items() if spec.short.lower().startswith(start))
            if family := next(families, ""):
                return family
        has_rows = spec.kind == "package" or spec.identity in COMMITTED.values()
        return name if has_rows or len(self.judges) > 1 else "judge"

    @property
    def judge_name(self) -> str:
        """What the rows of the judge role's language model are called, the first where it names
        several.
        """
        return next(iter(self.named_judges), "judge")

    @cached_property
    def writers(self) -> dict[str, Asker]:
        """The generator role's language models by name, none by default. One of the paper's has its
        name.
        """
        opened = open_generators(self.root, self.roles["generator"], self.asking, **self._describe_asker("texts"))
        self._askers += opened.values()
        systems = {name: [s for s, form in self.systems.items() if re.fullmatch(form, name.lower())] for name in opened}
        return {next(iter(systems[name]), name): asker for name, asker in opened.items()}

    @property
    def generators(self) -> list[Asker]:
        """The same without their names."""
        return [*self.writers.values()]

    @property
    def tally(self) -> Tally:
        """What asking language models has come to so far."""
        return merge_tallies(asker.tally for asker in self._askers)

    def say_usage(self) -> str:
        """What this run asked, for the notebook's page alone: another run finds more in the
        journal.
        """
        if not self._askers:
            return "No language model was asked: `JUDGE=` names none."
        t = self.tally
        return (
            f"{t.verdicts:,} verdicts needed; {t.cached:,} completions from the journal, {t.requests:,} requested now"
            f" (an unreadable one up to twice more): {t.prompt_tokens:,} tokens in, {t.completion_tokens:,} out."
        )
