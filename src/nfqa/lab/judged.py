"""The lab of a notebook that may ask a language model, as judge or to write references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from nfqa.data.paths import find_root
from nfqa.judge.asking import Asker, Tally, merge_tallies
from nfqa.judge.limits import Limits
from nfqa.lab.judging import Asking, open_generators, open_judge, show_progress
from nfqa.lab.notebook import Lab, check_choices
from nfqa.metrics.judging import LanguageJudge
from nfqa.models.chat import Reading


class JudgedLab(Lab):
    """A lab with a judge and generators. With `dry` nothing is asked; what would be is counted in `tally`."""

    def __init__(self, identifier: str, *, asking: Asking, dry: bool = False, **given: Any) -> None:
        super().__init__(identifier, **given)
        self.asking = asking
        self._dry = self.shows_progress = dry
        self._others: list[Asker] = []

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

    def describe_usage(self) -> dict[str, Any]:
        tally = self.tally
        cost = Limits.from_environment().price(tally.prompt_tokens, tally.completion_tokens)
        return vars(tally) | {"missing": dict(tally.missing), "cost": cost} if tally.wanted else {}


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
) -> JudgedLab:
    """Open an artefact's lab inside a notebook.

    Args: data, embedder, out: as `nfqa.lab.notebook.open_lab` has them; judge, generator: role specs, "" for the
        default; asking: how a language model is asked, the fields of `Asking`; dry: ask nothing, count.
    Raises: ValueError for an unknown artefact, data, role or way of asking.
    """
    roles = {"embedder": embedder, "judge": judge, "generator": generator}
    check_choices(data, roles)
    return JudgedLab(
        identifier, data=data, out=out, root=find_root(), roles=roles, asking=Asking(**(asking or {})), dry=dry
    )
