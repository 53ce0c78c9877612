"""What artefacts and the report are made from, as hashes: where nothing changed, nothing needs to run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from nfqa.data.json_lines import suggest
from nfqa.data.paths import Place, write_atomically
from nfqa.data.registry import UpstreamFile, has_file, hash_file, read_registry
from nfqa.lab.artefacts import Paper, list_stand_ins
from nfqa.lab.notebooks import hash_cells, hash_modules, read_parameters, read_versions
from nfqa.lab.options import RunOptions
from nfqa.models.chat import UNSETTLED
from nfqa.models.roles import EVALUATORS, identify_role

_FILES_OF_MODULES = {  # tables of ours that a module reads, whatever the data
    "nfqa.metrics.dispute_sentences": ("src/nfqa/data/dispute_sentences.csv",),
    "nfqa.data.labels": ("data/labels/dispute_awareness.csv", "data/sample/dispute_labels.csv"),
}
QUICK_LIMIT = 8  # questions of each dataset in a quick run


def choose_parameters(paper: Paper, name: str, notebook: Path, options: RunOptions, out: Path) -> dict[str, Any]:
    """What papermill is given: the entry's parameters, the profile's, the user's; refused if the notebook lacks them.

    Raises: ValueError naming an unknown parameter and listing the known ones; for a value of another kind than the
        default, or a text that UTF-8 can't carry.
    """
    known = read_parameters(notebook)
    artefact = paper.artefacts[name]
    identifier = f"{paper.paper}/{name}"
    asked = artefact.parameters | options.parameters
    for parameter, value in asked.items():
        if parameter not in known:
            near = suggest(parameter, known)
            raise ValueError(f"{identifier} has no parameter {parameter!r}; {near}known: {', '.join(known)}")
        _check_kind(f"{identifier}: {parameter}", value, known[parameter])
    chosen: dict[str, Any] = {"artefact": identifier, "data": options.data, "out": str(out)}
    if options.profile == "quick":
        slow = "evaluator" in artefact.roles  # a language model runs every partial answer
        chosen |= {"n_seeds": 2, "resamples": 500, "limit": QUICK_LIMIT // 2 if slow else QUICK_LIMIT}
        chosen["training_sentences"] = 120
    if options.seeds:
        chosen["n_seeds"] = options.seeds
    chosen |= options.roles | options.asking
    found = {key: value for key, value in chosen.items() if key in known} | asked
    for key, value in found.items():
        try:
            str(value).encode()
        except UnicodeEncodeError:  # a notebook, which is JSON, can't hold it
            raise ValueError(f"{identifier}: {key} is {value!r}, which is not UTF-8; rename it") from None
    return found


def _check_kind(where: str, value: Any, default: Any) -> None:
    """Refuse a value of another kind than the default, before anything is asked or computed."""
    if isinstance(default, bool):
        fits, expected = isinstance(value, bool), "True or False"
    elif isinstance(default, str):
        fits, expected = isinstance(value, str | None), "a text"
    else:
        sized = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63  # no inf, no NaN
        fits, expected = sized, "a number"
        if not isinstance(default, float):  # a count, or a seed
            least = 0 if default == 0 else 1
            fits, expected = sized and isinstance(value, int) and value >= least, f"a whole number, {least} or more"
        if default is None:
            fits, expected = fits or value is None, f"{expected}, or None"
    if not fits:
        raise ValueError(f"{where} is {value!r:.80}; expected {expected}; its default is {default!r}")


def make_fingerprint(paper: Paper, name: str, place: Place, options: RunOptions) -> dict[str, str]:
    """Everything an artefact depends on, hashed: notebook, entry, parameters, modules, data, roles, results read.

    Raises: ValueError as `choose_parameters`, or for a role spec that can't be read.
    """
    artefact, root = paper.artefacts[name], place.root
    notebook, prompts = root / "notebooks" / str(artefact.notebook), root / "prompts"
    parameters = choose_parameters(paper, name, notebook, options, Path())
    modules = hash_modules(notebook, root, roles=artefact.roles)
    parts = {"notebook": hash_cells(notebook), "entry": hash_json(_describe_entry(paper, name))}
    parts |= {f"parameter {key}": hash_json(value) for key, value in parameters.items() if key != "out"}
    parts |= {f"module {module}": digest for module, digest in modules.items()}
    tables = [table for module, own in _FILES_OF_MODULES.items() if module in modules for table in own]
    parts |= {f"table {table}": hash_file(root / table) for table in tables}
    parts |= {f"package {package}": version for package, version in read_versions().items()}
    parts |= {f"data {dataset}": _hash_upstream(root, dataset, options.data) for dataset in artefact.datasets}
    parts |= {f"bundled {file}": hash_file(root / "data" / "sample" / file) for file in artefact.bundled}
    parts |= {f"file {file}": _hash_upstream(root, file, "full") for file in artefact.files}
    parts |= {f"data {file}": _hash_upstream(root, file, options.data) for file in artefact.needs_files}
    parts |= {f"role {role}": identify_role(role, options.find_role(role)) for role in artefact.roles}
    if "evaluator" in artefact.roles:  # some notebooks open all embedded ones, whichever fills the role
        parts |= {f"model {name}": identify_role("evaluator", f"embedded:{name}") for name in EVALUATORS}
    if artefact.prompts or options.asks(artefact.roles):  # released texts are pinned by data/registry.yml
        files = sorted(file for file in prompts.rglob("*") if file.is_file())
        parts |= {f"prompts {file.relative_to(prompts)}": hash_file(file) for file in files}
    if options.asks(artefact.roles):
        parts["number format"] = os.environ.get("NFQA_DTYPE") or "auto"
    for other in artefact.reads:
        if paper.artefacts[other].notebook:
            result = place.results / paper.paper / f"{other}.csv"
            parts[f"result {other}"] = hash_file(result) if result.is_file() else "missing"
    return parts


class Usage(BaseModel):
    """What asking language models came to: of all that is kept, the verdicts that are missing, by reason."""

    model_config = ConfigDict(extra="allow")
    missing: dict[str, int] = {}


class Record(BaseModel):
    """What an artefact's last run read and wrote, by hash; how long it took; what language models were asked for it."""

    parts: dict[str, str]
    outputs: dict[str, str]
    usage: Usage = Usage()
    minutes: Annotated[float, Field(ge=0, lt=1e9)] | None = None
    finished: str = ""


def find_record(place: Place, identifier: str) -> Path:
    """Where an artefact's run record is kept."""
    return place.runs / f"{identifier}.json"


def read_record(place: Place, identifier: str) -> Record | None:
    """An artefact's run record; None when there is none, or one cut short by a full disk: it is run again."""
    try:
        return Record.model_validate_json(find_record(place, identifier).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def write_record(place: Place, identifier: str, record: Record) -> None:
    """Keep an artefact's run record."""
    with write_atomically(find_record(place, identifier)) as scratch:
        scratch.write_text(json.dumps(record.model_dump(), indent=1, sort_keys=True), encoding="utf-8")


def accept_figure(place: Place, identifier: str) -> None:
    """Let a figure that was drawn again from the same values count as what the last run wrote."""
    record = read_record(place, identifier)
    if record is not None and was_run(place, identifier):
        drawn = {name: place.root / name for name in record.outputs if Path(name).suffix in (".png", ".pdf")}
        own = {name: hash_file(path) for name, path in drawn.items() if path.is_file()}
        write_record(place, identifier, record.model_copy(update={"outputs": record.outputs | own}))


def was_run(place: Place, identifier: str) -> bool:
    """Whether an artefact's results are those that its last run here wrote, rather than committed ones."""
    record, results = read_record(place, identifier), place.results / f"{identifier}.csv"
    written = record.outputs.get(str(results.relative_to(place.root))) if record else None
    return results.is_file() and hash_file(results) == written


def hash_code(parts: dict[str, str]) -> str:
    """One hash over notebook, entry and modules, for the results' provenance."""
    code = {key: value for key, value in parts.items() if key.split()[0] in ("notebook", "entry", "module")}
    return f"sha256:{hash_json(code)}"


def explain_staleness(record: Record | None, parts: dict[str, str], place: Place) -> list[str]:
    """Why an artefact must run, in words; empty when it is fresh."""
    if record is None:
        return ["never run here"]
    before = record.parts
    unanswered = sum(n for why, n in record.usage.missing.items() if why in UNSETTLED)
    reasons = [f"{key} changed" for key in parts if key in before and before[key] != parts[key]]
    reasons += [f"{key} is new" for key in parts if key not in before]
    reasons += [f"{key} is gone" for key in before if key not in parts]
    if unanswered:
        reasons.append(f"{unanswered:,} verdicts could not be had from the model, ask them again")
    for name, digest in record.outputs.items():
        file = place.root / name
        if not file.is_file():
            reasons.append(f"{name} is missing")
        elif hash_file(file) != digest:
            reasons.append(f"{name} was altered")
    return reasons


def hash_site(root: Path, places: Sequence[Place]) -> str:
    """One hash over all that the report site is built from: papers, code, and the places' results."""
    digest = hashlib.sha256()
    shown = [folder for place in places for folder in (place.results, place.figures, place.notebooks)]
    for folder in [root / "papers", root / "src" / "nfqa", *shown]:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(os.fsencode(f"{file.relative_to(root)} {hash_file(file)}\n"))
    return digest.hexdigest()


def _describe_entry(paper: Paper, name: str) -> dict[str, Any]:
    """The parts of papers/*.yml that reach a notebook. The wording of claim and note changes no number."""
    others = (*paper.artefacts[name].reads, *paper.artefacts[name].cites)
    artefacts = [paper.artefacts[other] for other in (name, *others)]
    keep = {"title", "label", "leaves", "decimals", "scale", "tolerance", "known_differences"}
    shown = {system for artefact in artefacts for system in artefact.leaves}
    systems = {key: system for key, system in paper.systems.items() if key in shown or not system.needs}
    return {
        "artefacts": [artefact.model_dump(mode="json", include=keep) for artefact in artefacts],
        "systems": {key: system.model_dump(mode="json") for key, system in systems.items()},  # those it may show
        "same_settings": paper.same_settings if others else (),
        "stand_ins": [entry.rows for entry in list_stand_ins(paper, name)],
    }


def find_upstream(root: Path, name: str) -> UpstreamFile:
    """The registered file that papers/*.yml names.

    Raises: ValueError for a name that isn't in data/registry.yml.
    """
    registry = read_registry(root)
    if name not in registry:
        raise ValueError(f"papers/*.yml needs the file {name!r}; data/registry.yml has {', '.join(registry)}")
    return registry[name]


def _hash_upstream(root: Path, name: str, data: str) -> str:
    file = find_upstream(root, name)
    how = f"{file.shape} {file.lowest_label}"
    if data == "sample":
        return f"{how} {hash_file(root / 'data' / 'sample' / file.sample) if file.sample else 'no sample'}"
    absent = (file.optional or file.local) and not has_file(file, root / "build" / "data")
    return f"{how} {'absent' if absent else file.sha256}"


def hash_json(value: Any) -> str:
    """sha256 of a JSON value, in hex, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
