"""Opening a language model as judge or generator: prompts, decoding, journal and caps."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfqa.judge.asking import Asker
from nfqa.judge.committed_verdicts import open_committed
from nfqa.judge.journal import Journal
from nfqa.judge.limits import Limits
from nfqa.judge.prompts import PromptSet
from nfqa.models.roles import parse_roles
from nfqa.opening import Asking, open_askers
from reproduction.data.registry import UnreachableError, fetch_file, read_registry
from reproduction.place import find_committed

if TYPE_CHECKING:
    from nfqa.metrics.judging import LanguageJudge


def find_journal(root: Path) -> Path:
    """Where verdicts are kept: $NFQA_JOURNAL, or verdicts/journal.sqlite. Not under build/, which
    may be deleted.
    """
    path = os.environ.get("NFQA_JOURNAL")
    return Path(path).expanduser().absolute() if path else root / "verdicts" / "journal.sqlite"


def open_judges(root: Path, spec: str, asking: Asking, **options: Any) -> dict[str, LanguageJudge]:
    """The judge role's language models by name; none where the embedded judge fills it, or nothing.

    Args: options: `dry` and `progress`, as `nfqa.judge.asking.Asker` has them.
    """
    from nfqa.metrics.judging import LanguageJudge  # with pandas, which the command line can do without

    asking = replace(asking, max_tokens=Limits.from_environment("max_tokens").max_tokens)
    opened = _open_askers(root, "judge", spec, asking, **options)
    return {
        name: LanguageJudge(asker, read_prompt_set(root, asking.prompts), seed=asking.judge_seed)
        for name, asker in opened.items()
    }


def open_generators(root: Path, spec: str, asking: Asking, **options: Any) -> dict[str, Asker]:
    """The generator role's language models by name; none where nothing fills it.

    They write, so they are read as text whatever the judge's reading.
    Args: options: as `open_judges`.
    """
    return _open_askers(root, "generator", spec, replace(asking, reading="text"), **options)


def _open_askers(root: Path, role: str, spec: str, asking: Asking, **options: Any) -> dict[str, Asker]:
    specs = [part for part in (parse_roles(role, spec) if spec else ()) if part.is_language_model]
    return open_askers(specs, asking.make_decoding, open_journal(root), **options) if specs else {}


def open_journal(root: Path) -> Journal:
    """The run's journal, which finds committed verdicts too."""
    return Journal(find_journal(root), run=os.environ.get("NFQA_RUN", ""), committed=open_committed_journal(root))


def open_committed_journal(root: Path) -> Journal | None:
    """The verdicts under data/verdicts; None where there are none, or with FRESH=1."""
    return open_committed(find_committed(root, "verdicts"), root / "build" / "cache")


def read_prompt_set(root: Path, name: str) -> PromptSet:
    """A set of prompts by name; the released ones are fetched at their pinned commit.

    Raises: ValueError for an unknown set; UnreachableError when the released files are unavailable.
    """
    folder = root / "prompts" / name
    known = sorted(path.parent.name for path in (root / "prompts").glob("*/settings.yml"))
    if name not in known:
        raise ValueError(f"prompts is {name!r}; known: {', '.join(known)}")
    registry = read_registry(root)

    def bring(file: str) -> Path:
        try:
            return fetch_file(registry[file], root / "build" / "data")
        except UnreachableError as error:
            raise UnreachableError(f"{error}, or ask by this project's own prompts (PROMPTS=own)") from None

    return PromptSet(folder, bring=bring)
