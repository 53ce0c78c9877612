"""The lab of a notebook on debatable questions: it may score text with an evaluator, and ask a judge."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.data.load import Split
from nfqa.data.load import has as has_debates
from nfqa.data.load import load as load_debates
from nfqa.data.paths import find_root
from nfqa.data.records import QuestionSet
from nfqa.lab.judged import JudgedLab
from nfqa.lab.judging import Asking
from nfqa.lab.notebook import check_choices
from nfqa.models.roles import EVALUATORS, parse_role

if TYPE_CHECKING:
    from nfqa.models.evaluator import Evaluator


class DebateLab(JudgedLab):
    """A lab with sets of debatable questions and evaluators. With `dry` the judge is asked nothing."""

    def load_debates(self, name: str, *, limit: int | None = None, split: Split = "all") -> QuestionSet:
        """A set of debatable questions, by its registered name; the bundled stand-in when the run is on the sample.

        Raises: as `nfqa.data.load.load`, and ValueError where papers/*.yml doesn't list it.
        """
        if name not in (*self.artefact.datasets, *self.artefact.needs_files):
            raise ValueError(
                f"{self.identifier} loads {name} but papers/{self.paper_name}.yml doesn't list it under datasets"
            )
        return self.use(load_debates(name, data=self.data, limit=limit, split=split, root=self.root))

    def has(self, name: str) -> bool:
        """Whether an optional set is at hand; where it isn't, the rows that it would give are not run."""
        return has_debates(name, data=self.data, root=self.root)

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator role, with its store of losses under build/."""
        return self._open(self.roles["evaluator"])

    def open_evaluators(self) -> dict[str, Evaluator]:
        """All embedded evaluators by name, and the role's, called "role", if it is none of them."""
        chosen = self.roles["evaluator"]
        found = {name: f"embedded:{name}" for name in EVALUATORS}
        if chosen not in found.values():
            found["role"] = chosen
        return {name: self.evaluator if spec == chosen else self._open(spec) for name, spec in found.items()}

    def open_without_cache(self, evaluator: Evaluator) -> Evaluator:
        """The same model without its continuous cache."""
        from nfqa.models.evaluator import Evaluator

        store = find_losses(self.root)
        return Evaluator(evaluator.spec, cache=None, store=store, progress=self.shows_progress)

    def _open(self, spec: str) -> Evaluator:
        from nfqa.models.evaluator import Evaluator

        return Evaluator(parse_role("evaluator", spec), store=find_losses(self.root), progress=self.shows_progress)


def open_lab(
    identifier: str,
    *,
    data: str = "full",
    embedder: str = "",
    evaluator: str = "",
    judge: str = "",
    generator: str = "",
    asking: Mapping[str, Any] | None = None,
    out: str = "",
    dry: bool = False,
) -> DebateLab:
    """Open an artefact's lab inside a notebook.

    Args: data, embedder, judge, generator, asking, out, dry: as `nfqa.lab.judged.open_lab` has them; evaluator: a role
        spec, "" for the default.
    Raises: ValueError for an unknown artefact, data, role or way of asking.
    """
    roles = {"embedder": embedder, "evaluator": evaluator, "judge": judge, "generator": generator}
    # its default is a folder of the checkout: missed when it is needed, not where a notebook has no use for it
    check_choices(data, {role: spec for role, spec in roles.items() if spec or role != "evaluator"})
    return DebateLab(
        identifier, data=data, out=out, root=find_root(), roles=roles, asking=Asking(**(asking or {})), dry=dry
    )


def find_losses(root: Path) -> Path:
    """The file that keeps losses; shared by all runs, as it is keyed by model, settings and text."""
    return root / "build" / "cache" / "losses.sqlite"
