"""What an artefact is made from, as hashes: two equal fingerprints mean that nothing needs to run."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nfqa.data.fetch import has_file, hash_file, read_registry
from nfqa.data.paths import Place, find_place
from nfqa.judge.asking import PASSING
from nfqa.lab.artefacts import Artefact, Paper
from nfqa.lab.packages import read_versions
from nfqa.models.roles import DEFAULTS, EVALUATORS, identify_role

_ALWAYS = ("nfqa.lab.open",)
_FILES_OF_MODULES = {  # tables of ours that a module reads, whatever the data
    "nfqa.metrics.dispute_sentences": "data/dispute_sentences.csv",
    "nfqa.data.dispute_labels": "data/labels/dispute_awareness.csv",
}


@dataclass(frozen=True)
class RunOptions:
    """What a user can set for a run; everything set here names a variant.

    `asking` says how language models are asked (prompts, decoding, reading, wrapping), and goes with `roles` to every
    notebook that takes it; `parameters` are for the notebooks named.
    """

    data: str = "full"
    profile: str = "full"
    seeds: int | None = None
    roles: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    asking: dict[str, Any] = field(default_factory=dict)

    @property
    def variant(self) -> str:
        """A folder name for a run with overrides, "" without any."""
        named = {role: identify_role(role, spec) for role, spec in self.roles.items()}  # wherever a model is served
        changed = {"seeds": self.seeds, "roles": named, "parameters": self.parameters}
        if self.asking:
            changed["asking"] = self.asking
        if not any(changed.values()):
            return ""
        words = [f"seeds{self.seeds}"] if self.seeds else []
        words += sorted(self.roles) + sorted(self.asking) + sorted(self.parameters)
        digest = hashlib.sha256(json.dumps([changed, self.profile], sort_keys=True).encode()).hexdigest()[:8]
        return "-".join([*words, digest])

    def find_role(self, role: str) -> str:
        """The spec that fills a role."""
        return self.roles.get(role) or DEFAULTS.get(role, "")

    def asks(self, roles: tuple[str, ...]) -> bool:
        """Whether one of the roles is filled by a language model that takes prompts."""
        return any(not self.find_role(role).startswith("embedded:") for role in roles if role in ("judge", "generator"))

    def fills_machine(self, roles: tuple[str, ...]) -> bool:
        """Whether one of the roles is filled by a model that should not share the machine with another notebook's."""
        own = "evaluator" in roles and not self.find_role("evaluator").startswith("embedded:")
        return own or self.asks(roles)

    def find_place(self, root: Path) -> Place:
        """The folders of a run with these options."""
        return find_place(root, data=self.data, profile=self.profile, variant=self.variant)


def read_parameters(notebook: Path) -> dict[str, Any]:
    """The names and default values in a notebook's parameters cell.

    Raises: ValueError when there is no such cell, or it holds anything but assignments of literals.
    """
    tree = _parse(_find_parameters_cell(notebook), notebook)
    found = {}
    for statement in tree.body:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            raise ValueError(f"{notebook}: the parameters cell may hold `name = literal` lines only")
        try:
            found[statement.targets[0].id] = ast.literal_eval(statement.value)
        except ValueError:
            raise ValueError(f"{notebook}: parameter {statement.targets[0].id} is not a literal") from None
    return found


def choose_parameters(paper: Paper, name: str, notebook: Path, options: RunOptions, out: Path) -> dict[str, Any]:
    """What papermill is given: the entry's parameters, the profile's, the user's; refused if the notebook lacks them.

    Raises: ValueError naming an unknown parameter and listing the known ones.
    """
    known = read_parameters(notebook)
    artefact = paper.artefacts[name]
    asked = {**artefact.parameters, **options.parameters}
    for parameter in asked:
        if parameter not in known:
            raise ValueError(f"{paper.paper}/{name} has no parameter {parameter!r}; known: {', '.join(known)}")
    chosen: dict[str, Any] = {"artefact": f"{paper.paper}/{name}", "data": options.data, "out": str(out)}
    if options.profile == "quick":
        slow = "evaluator" in artefact.roles  # a language model runs every partial answer
        chosen |= {"n_seeds": 2, "resamples": 500, "limit": 8 if slow else 40}
    if options.seeds:
        chosen["n_seeds"] = options.seeds
    chosen |= options.roles | options.asking
    chosen = {key: value for key, value in chosen.items() if key in known}
    return chosen | asked


def make_fingerprint(paper: Paper, name: str, place: Place, options: RunOptions) -> dict[str, str]:
    """Everything an artefact depends on, hashed: notebook, entry, parameters, modules, data, roles, results read.

    Raises: ValueError as `choose_parameters`, or for a role spec that can't be read.
    """
    artefact = paper.artefacts[name]
    notebook = place.root / "notebooks" / str(artefact.notebook)
    parameters = choose_parameters(paper, name, notebook, options, Path())
    parts = {"notebook": _hash_cells(notebook), "entry": _hash_json(_describe_entry(paper, name))}
    parts |= {f"parameter {key}": _hash_json(value) for key, value in parameters.items() if key != "out"}
    parts |= {f"module {module}": digest for module, digest in _hash_modules(notebook, place.root).items()}
    parts |= {
        f"table {file}": hash_file(place.root / file)
        for module, file in _FILES_OF_MODULES.items()
        if f"module {module}" in parts
    }
    parts |= {f"package {package}": version for package, version in read_versions().items()}
    parts |= {f"data {dataset}": _hash_dataset(place.root, dataset, options.data) for dataset in artefact.datasets}
    parts |= {f"bundled {file}": hash_file(place.root / "data" / "sample" / file) for file in artefact.bundled}
    parts |= {f"file {file}": _hash_dataset(place.root, file, "full") for file in artefact.files}
    parts |= {f"data {file}": _hash_dataset(place.root, file, options.data) for file in artefact.needs_files}
    parts |= {f"role {role}": identify_role(role, options.find_role(role)) for role in artefact.roles}
    if "evaluator" in artefact.roles:  # some notebooks open all embedded ones, whichever fills the role
        parts |= {f"model {name}": identify_role("evaluator", f"embedded:{name}") for name in EVALUATORS}
    if artefact.prompts or options.asks(artefact.roles):
        parts |= {f"prompts {name}": digest for name, digest in _hash_prompts(place.root).items()}
    if options.asks(artefact.roles):
        parts["number format"] = os.environ.get("NFQA_DTYPE") or "auto"
    for other in artefact.reads:
        if paper.artefacts[other].notebook:
            result = place.results / paper.paper / f"{other}.json"
            parts[f"result {other}"] = hash_file(result) if result.is_file() else "missing"
    return parts


def hash_code(parts: dict[str, str]) -> str:
    """One hash over notebook and modules, for the results' provenance."""
    return "sha256:" + _hash_json(
        {key: value for key, value in parts.items() if key.split()[0] in ("notebook", "module")}
    )


def explain_staleness(record: dict[str, Any] | None, parts: dict[str, str], place: Place) -> list[str]:
    """Why an artefact must run, in words; empty when it is fresh."""
    if record is None:
        return ["never run here"]
    before = record["parts"]
    unanswered = sum(n for why, n in record.get("usage", {}).get("missing", {}).items() if why in PASSING)
    reasons = [f"{key} changed" for key in parts if key in before and before[key] != parts[key]]
    reasons += [f"{key} is new" for key in parts if key not in before]
    reasons += [f"{key} is gone" for key in before if key not in parts]
    if unanswered:
        reasons.append(f"{unanswered:,} verdicts failed for passing causes, ask them again")
    for name, digest in record["outputs"].items():
        file = place.root / name
        if not file.is_file():
            reasons.append(f"{name} is missing")
        elif hash_file(file) != digest:
            reasons.append(f"{name} was altered")
    return reasons


def list_modules(notebook: Path, root: Path) -> list[str]:
    """The nfqa modules that a notebook imports, and all that these import, in order of name."""
    source = root / "src"
    todo = [*_ALWAYS, *_find_imports(_parse(_join_code(notebook), notebook), source)]
    seen: set[str] = set()
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            if "." in module:
                todo.append(module.rpartition(".")[0])  # importing a module runs its package's __init__ first
            path = _find_module(module, source)
            todo += _find_imports(_parse(path.read_text(encoding="utf-8"), path), source)
    return sorted(seen)


def _hash_modules(notebook: Path, root: Path) -> dict[str, str]:
    return {module: hash_file(_find_module(module, root / "src")) for module in list_modules(notebook, root)}


def _find_module(module: str, source: Path) -> Path:
    path = source.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _parse(code: str, path: Path) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise ValueError(f"{path}: not Python ({error.msg}: {str(error.text).strip()!r})") from None


def _find_imports(tree: ast.Module, source: Path) -> list[str]:
    """Modules of nfqa named by import statements anywhere in the code, inside functions too."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in found if name.split(".")[0] == "nfqa" and _find_module(name, source).is_file()]


def _describe_entry(paper: Paper, name: str) -> dict[str, Any]:
    """The parts of papers/*.yml that reach a notebook. The wording of claim and note changes no number."""
    artefacts: list[Artefact] = [paper.artefacts[other] for other in (name, *paper.artefacts[name].reads)]
    keep = {"title", "label", "leaves", "decimals", "scale", "tolerance", "known_differences"}
    entry: dict[str, Any] = {"artefacts": [artefact.model_dump(mode="json", include=keep) for artefact in artefacts]}
    shown = {system for artefact in artefacts for system in artefact.leaves}
    entry["systems"] = {  # those that it may show: its own leaves' and ours
        key: system.model_dump(mode="json") for key, system in paper.systems.items() if key in shown or not system.needs
    }
    entry["same_settings"] = paper.same_settings if paper.artefacts[name].reads else ()
    return entry


def _hash_dataset(root: Path, name: str, data: str) -> str:
    registry = read_registry(root)
    if name not in registry:
        raise ValueError(f"papers/*.yml names the data set {name!r}; data/registry.yml has {', '.join(registry)}")
    file = registry[name]
    how = f"{file.shape} {file.lowest_label}"
    if data == "sample" and not file.sample:
        return f"{how} no sample"
    if data == "sample":
        return f"{how} {hash_file(root / 'data' / 'sample' / file.sample)}"
    absent = (file.optional or file.local) and not has_file(file, root / "build" / "data")
    return f"{how} absent" if absent else f"{how} {file.sha256}"


def _hash_prompts(root: Path) -> dict[str, str]:
    """Our own prompts and the settings of all sets, by file; released texts are pinned by data/registry.yml."""
    files = sorted(file for file in (root / "prompts").rglob("*") if file.is_file())
    return {str(file.relative_to(root / "prompts")): hash_file(file) for file in files}


def _hash_json(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _hash_cells(notebook: Path) -> str:
    cells = read_cells(notebook)
    return _hash_json([[cell["cell_type"], _join_source(cell)] for cell in cells])


def _join_code(notebook: Path) -> str:
    return "\n".join(_join_source(cell) for cell in read_cells(notebook) if cell["cell_type"] == "code")


def _find_parameters_cell(notebook: Path) -> str:
    for cell in read_cells(notebook):
        if "parameters" in cell.get("metadata", {}).get("tags", []):
            return _join_source(cell)
    raise ValueError(f"{notebook}: no cell is tagged `parameters`")


def _join_source(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


@cache
def _parse_notebook(path: Path, _digest: str) -> list[dict[str, Any]]:
    try:
        return list(json.loads(path.read_text(encoding="utf-8"))["cells"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a notebook ({type(error).__name__}: {error})") from None


def read_cells(path: Path) -> list[dict[str, Any]]:
    """A notebook's cells.

    Raises: ValueError for a file that is no notebook.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such notebook; correct the entry in papers/*.yml")
    return _parse_notebook(path, hash_file(path))
