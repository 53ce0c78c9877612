"""Opening a language model as judge or generator: prompts, decoding, journal and caps."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from nfqa.data.paths import find_committed
from nfqa.judge.asking import Asker
from nfqa.judge.committed_verdicts import open_committed
from nfqa.judge.journal import Journal
from nfqa.judge.prompts import read_prompt_set
from nfqa.models.chat import ChatModel, Decoding, Reading, Wrapping
from nfqa.models.precision import read_precision
from nfqa.models.roles import RoleSpec, find_evaluator, name_models, parse_roles

if TYPE_CHECKING:
    from nfqa.metrics.judging import LanguageJudge

Draws = Literal["paper", "greedy"]
_PAPER = (0.8, 0.95)  # temperature and top-p: LINKAGE, section 4.4, and its released code


@dataclass(frozen=True)
class Asking:
    """How a language model is asked: which prompts, sampled as the paper does or greedy, read from text or logits.

    A decoding or reading of "" is the model's own (`fit`).
    """

    prompts: str = "upstream"
    decoding: Draws | Literal[""] = ""
    reading: Reading | Literal[""] = ""
    wrapping: Wrapping = "chat"
    judge_seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("decoding", Draws), ("reading", Reading), ("wrapping", Wrapping)):
            if getattr(self, name) not in get_args(known) and (getattr(self, name) or name == "wrapping"):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(get_args(known))}")

    def fit(self, spec: RoleSpec) -> Asking:
        """The same with the model's own decoding and reading where none is named.

        They are the paper's for every model but a packaged one. That is small and rarely writes a readable verdict, so
        it is read from logits, and greedy where it writes.
        """
        packaged = spec.kind == "package"
        decoding: Draws = self.decoding or ("greedy" if packaged else "paper")
        return replace(self, decoding=decoding, reading=self.reading or ("logits" if packaged else "text"))

    @property
    def as_published(self) -> bool:
        """Whether a model is asked as published: released prompts and decoding, a verdict in the text.

        Either wrapping counts: the paper names none, the released code is plain, the models are made for chat.
        """
        return (self.prompts, self.decoding, self.reading) == ("upstream", "paper", "text")

    def make_decoding(self, spec: RoleSpec) -> Decoding:
        """The decoding that the words stand for, of a model."""
        fitted = self.fit(spec)
        temperature, top_p = _PAPER if fitted.decoding == "paper" else (0.0, 1.0)
        return Decoding(temperature, top_p, reading=fitted.reading or "text", wrapping=self.wrapping)


def find_journal(root: Path) -> Path:
    """Where verdicts are kept: $NFQA_JOURNAL, or verdicts/journal.sqlite. Not under build/, which may be deleted."""
    named = os.environ.get("NFQA_JOURNAL")
    return Path(named).expanduser().absolute() if named else root / "verdicts" / "journal.sqlite"


def open_model(spec: RoleSpec, journal: Journal, dtype: str = "") -> ChatModel:
    """The way to a language model: in process, or a server under the caps that the environment sets for a whole run."""
    if spec.kind == "openai":
        from nfqa.judge.limits import Limits, Meter
        from nfqa.judge.openai_server import OpenAIServer

        return OpenAIServer(spec, Meter(Limits.from_environment(), journal.count_run(journal.run)))
    from nfqa.models.causal_lm import CausalLM

    trusted = os.environ.get("NFQA_TRUST_REMOTE_CODE") == "yes"
    device = os.environ.get("NFQA_DEVICE") or "auto"
    return CausalLM(spec, device=device, dtype=dtype or read_precision(), trust_remote_code=trusted)


def open_judges(root: Path, spec: str, asking: Asking, **how: Any) -> dict[str, LanguageJudge]:
    """The judge role's language models by name; none where the embedded judge fills it, or nothing.

    Args: how: `dry` and `progress`, as `nfqa.judge.asking.Asker` has them.
    """
    from nfqa.metrics.judging import LanguageJudge  # with pandas, which the command line can do without

    opened = _open_askers(root, "judge", spec, asking, **how)
    return {
        name: LanguageJudge(asker, read_prompt_set(root, asking.prompts), seed=asking.judge_seed)
        for name, asker in opened.items()
    }


def open_generators(root: Path, spec: str, asking: Asking, **how: Any) -> dict[str, Asker]:
    """The generator role's language models by name; none when the rule-based degrader fills it.

    They write, so they are read as text whatever the judge's reading.
    Args: how: as `open_judges`.
    """
    return _open_askers(root, "generator", spec, replace(asking, reading="text"), **how)


def _open_askers(root: Path, role: str, spec: str, asking: Asking, **how: Any) -> dict[str, Asker]:
    asked = [part for part in (parse_roles(role, spec) if spec else ()) if part.is_language_model]
    if not asked:
        return {}
    journal = open_journal(root)
    named = zip(name_models(asked), asked, strict=True)
    return {name: open_asker(journal, part, asking.make_decoding(part), **how) for name, part in named}


def open_restating(root: Path) -> Asker:
    """An embedded causal model as a writer: what there is to sample from without a generator.

    It was trained to restate an answer's points of view after it, on a CPU and in minutes; what it writes is broken
    English. Its completions are kept under build/cache, as they cost nothing but time. It runs in double precision, so
    that it draws the same tokens on every processor.
    """
    spec = RoleSpec("generator", "path", str(find_evaluator("tiny")))
    journal = Journal(root / "build" / "cache" / "restated.sqlite")
    return open_asker(journal, spec, Decoding(max_tokens=96), dtype="float64")


def open_journal(root: Path) -> Journal:
    """The run's journal, which finds committed verdicts too."""
    return Journal(find_journal(root), run=os.environ.get("NFQA_RUN", ""), committed=open_committed_journal(root))


def open_committed_journal(root: Path) -> Journal | None:
    """The verdicts under data/verdicts; None where there are none, or with FRESH=1."""
    return open_committed(find_committed(root, "verdicts"), root / "build" / "cache")


def open_asker(journal: Journal, spec: RoleSpec, decoding: Decoding, *, dtype: str = "", **how: Any) -> Asker:
    """Requests to one model, through a journal.

    Args: dtype: of a model in process, by default what NFQA_DTYPE names; how: as `open_judges`.
    """
    precision = "" if spec.kind == "openai" else dtype or read_precision("")
    opens = partial(open_model, journal=journal, dtype=dtype)
    return Asker(spec, opens, journal, decoding, precision=precision, **how)
