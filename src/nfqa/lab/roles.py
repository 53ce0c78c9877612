"""The roles of a notebook: each filled by what a spec names, opened when it is first used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.data.paths import find_cache
from nfqa.judge.asking import Asker, Tally, merge_tallies
from nfqa.lab.judging import Asking, open_asker, open_generators, open_journal, open_judge, show_progress
from nfqa.models.chat import Reading
from nfqa.models.roles import DEFAULTS, EVALUATORS, parse_role

if TYPE_CHECKING:
    from nfqa.debates.search import Scorer
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator
    from nfqa.models.roles import RoleSpec


class Roles:
    """The models behind a notebook. `roles` holds each role's spec, `families` how names of published judges begin."""

    def __init__(
        self, root: Path, out: Path, roles: Mapping[str, str], asking: Asking, families: Mapping[str, str]
    ) -> None:
        self.root, self.out, self.asking, self.families = root, out, asking, families
        self.dry = bool(os.environ.get("NFQA_DRY"))
        self.roles = {role: roles.get(role) or DEFAULTS[role] for role in DEFAULTS}
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
        return evaluator if evaluator.cache is None else self._open_evaluator(evaluator.spec, cache=None)

    def _open_evaluator(self, spec: RoleSpec, **how: Any) -> Evaluator:
        from nfqa.models.evaluator import Evaluator

        if spec.kind == "openai":
            from nfqa.judge.served_evaluator import ECHO, ServedEvaluator

            progress = show_progress(self.out)
            self._askers.append(open_asker(open_journal(self.root), spec, ECHO, dry=self.dry, progress=progress))
            return ServedEvaluator(self._askers[-1])
        device = os.environ.get("NFQA_DEVICE") or "auto"
        return Evaluator(spec, device=device, store=find_cache(self.root, "losses"), **how)

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
        return next((family for family, start in self.families.items() if name.startswith(start)), "judge")

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
        from nfqa.models.embed import open_cross_encoder

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
