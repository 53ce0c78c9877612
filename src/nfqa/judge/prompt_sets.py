"""Prompt sets by name: our own from prompts/, the released ones fetched as data."""

from __future__ import annotations

from pathlib import Path

from nfqa.data.registry import fetch_file, read_registry
from nfqa.judge.prompts import PromptSet, read_prompts


def read_prompt_set(root: Path, name: str) -> PromptSet:
    """A set of prompts by name; the released ones are fetched at their pinned commit.

    Raises: ValueError for an unknown set; UnreachableError when the released files can't be had: nothing stands in.
    """
    folder = root / "prompts" / name
    known = sorted(path.parent.name for path in (root / "prompts").glob("*/settings.yml"))
    if name not in known:
        raise ValueError(f"prompts is {name!r}; known: {', '.join(known)}")
    registry = read_registry(root)
    return read_prompts(folder, bring=lambda file: fetch_file(registry[file], root / "build" / "data"))
