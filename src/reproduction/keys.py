"""The key of an artefact: what it depends on, by hash; the record of its last run; the difference
between the two.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from nfqa.files.json_lines import check, suggest
from nfqa.files.paths import hash_file
from nfqa.models.chat import UNSETTLED
from nfqa.models.roles import identify_role
from reproduction.data.registry import read_registry
from reproduction.notebooks import hash_cells, hash_imports, hash_json, read_parameters, read_versions
from reproduction.options import RunOptions
from reproduction.papers import DEBATEQA, Artefact, Paper, describe_entry, list_chosen
from reproduction.place import Place, find_committed

QUICK_LIMIT = 8  # questions of each dataset in a quick run
_FILES = ("answers",)  # parameters that name files of a user's own, or a folder
_BUNDLED = (  # the project's own files, which modules read
    "src/nfqa/metrics/*.json", "src/nfqa/models/embedded/judge/*", "src/nfqa/models/embedded/reader/*",
    "data/labels/*.csv", "data/labels/*.jsonl", "data/sample/*.csv", "data/training/answers.jsonl",
    "data/readings/*.parquet",
)  # fmt: skip


@dataclass(frozen=True)
class Key:
    """What an artefact is made from."""

    parameters: dict[str, Any]  # of its notebook
    parts: dict[str, str]  # all that it depends on, hashed
    size: str  # of a quick run
    asks: bool  # a language model that the user named; what notebooks ask by default is committed
    fills_machine: bool  # a model that should not share the machine with another notebook's


class Record(BaseModel):
    """What an artefact's last run read and wrote, by hash, in WORK/runs/PAPER/NAME.json.

    `missing` counts, of all that was asked of language models, the verdicts without a number, by
    reason.
    """

    parts: dict[str, str]
    outputs: dict[str, str]
    missing: dict[str, int] = {}
    minutes: Annotated[float, Field(ge=0, lt=1e9)]


def choose_parameters(paper: Paper, name: str, options: RunOptions, out: Path) -> dict[str, Any]:
    """What a notebook is given: the profile's parameters, the entry's, the user's; refused if the
    notebook lacks them.

    Raises: ValueError naming an unknown parameter and listing the known ones; for a value of
        another kind than the default, or a text that UTF-8 can't carry.
    """
    artefact = paper.artefacts[name]
    known = read_parameters(artefact.path)
    identifier = f"{paper.paper}/{name}"
    for parameter, value in (artefact.parameters | options.parameters).items():
        if parameter not in known:
            near = suggest(parameter, known)
            raise ValueError(f"{identifier} has no parameter {parameter!r}; {near}known: {', '.join(known)}")
        _check_kind(f"{identifier}: {parameter}", value, known[parameter])
    chosen: dict[str, Any] = {"artefact": identifier, "data": options.data, "out": str(out)}
    if options.profile == "quick":
        slow = "evaluator" in artefact.roles  # a language model runs every partial answer
        chosen |= {"n_seeds": 2, "resamples": 500, "limit": QUICK_LIMIT // 2 if slow else QUICK_LIMIT}
    if options.data == "sample":
        chosen["judge"] = ""
    if options.questions:
        chosen["questions"] = options.questions
    chosen |= options.given
    parameters = {name: value for name, value in chosen.items() if name in known} | artefact.parameters
    parameters |= {role: spec for role, spec in options.roles.items() if role in known} | options.parameters
    for key, value in parameters.items():
        if re.search("[\ud800-\udfff]", str(value)):  # a notebook, which is JSON, can't hold it
            raise ValueError(f"{identifier}: {key} is {value!r}, which is not UTF-8; rename it")
    return parameters


def _check_kind(where: str, value: Any, default: Any) -> None:
    """Refuse a value of another kind than the default, before anything is asked or computed."""
    count: Any = Annotated[StrictInt, Field(ge=int(default != 0), lt=2**63)]  # or a seed
    number: Any = Annotated[StrictFloat, Field(allow_inf_nan=False)]
    kinds = {bool: StrictBool, str: StrictStr | None, float: number, type(None): count | None}
    check(kinds.get(type(default), count), value, f"{where}, by default {default!r}")


def make_key(paper: Paper, name: str, place: Place, options: RunOptions) -> Key:
    """The key of an artefact: notebook, entry, parameters, modules, packages, data, roles, and
    results that it reads.

    Raises: ValueError as `choose_parameters`, or for a role spec that can't be read.
    """
    artefact = paper.artefacts[name]
    root = place.root
    identifier = f"{paper.paper}/{name}"
    parameters = choose_parameters(paper, name, options, place.work / "scratch" / identifier)
    parts = {"notebook": hash_cells(artefact.path), "entry": hash_json(describe_entry(paper, name))}
    parts |= {f"parameter {key}": hash_json(value) for key, value in parameters.items() if key != "out"}
    paths = [Path(value) for key, value in parameters.items() if key in _FILES and value]
    users = [path for each in paths for path in (sorted(each.glob("*")) if each.is_dir() else [each])]
    parts |= {f"file {path}": hash_file(path) for path in users if path.is_file()}
    parts |= {f"module {module}": digest for module, digest in hash_imports(artefact.path).items()}
    parts |= {f"package {package}": version for package, version in read_versions().items()}
    data = list_data(root, artefact, parameters)
    parts |= {f"data {file}": _hash_upstream(root, file, options.data) for file in data}
    parts |= {f"file {file}": _hash_upstream(root, file, "full") for file in artefact.files}
    files = [path for pattern in _BUNDLED for path in root.glob(pattern)]
    files += [root / file for file in artefact.bundled]
    roles = {role: options.find_role(role, default) for role, default in artefact.roles.items()}
    parts |= {f"role {role}": identify_role(role, spec) for role, spec in roles.items() if spec}
    if "evaluator" in artefact.roles:
        files += find_committed(root, "losses")
    if artefact.prompts or options.asks(artefact.roles):  # released texts are pinned by data/registry.yml
        files += [path for path in (root / "prompts").rglob("*") if path.is_file()]
    if options.asks(artefact.roles):
        files += find_committed(root, "verdicts")
    parts |= {f"file {os.path.relpath(path, root)}": hash_file(path) for path in sorted(files)}
    parts |= hash_results(place, paper, name)
    asks = options.asks(dict.fromkeys(artefact.roles, ""))
    fills_machine = asks or ("evaluator" in artefact.roles and "evaluator" in options.roles)
    return Key(parameters, parts, options.say_size(parameters), asks, fills_machine)


def list_data(root: Path, artefact: Artefact, parameters: Mapping[str, Any]) -> list[str]:
    """The datasets that an artefact reads in a run; an optional one only where a parameter names
    it.

    Whether its file lies on the disk decides nothing: the same command reads the same data
    everywhere.
    """
    registry = read_registry(root)
    names_optional = parameters.get("questions") == DEBATEQA
    return [name for name in artefact.datasets if names_optional or not registry[name].optional]


def hash_results(place: Place, paper: Paper, name: str) -> dict[str, str]:
    """The hash of the values of each artefact that one reads, "missing" where there are none."""
    paths = {other: place.find("results", f"{paper.paper}/{other}.csv") for other in paper.artefacts[name].reads}
    return {f"result {other}": hash_file(path) if path.is_file() else "missing" for other, path in paths.items()}


def _hash_upstream(root: Path, name: str, data: str) -> str:
    file = read_registry(root)[name]
    form = f"{file.shape} {file.lowest_label}"
    if data == "sample":
        return f"{form} {hash_file(root / 'data' / 'sample' / file.sample) if file.sample else 'no sample'}"
    return f"{form} {file.sha256}"


def read_record(place: Place, identifier: str) -> Record | None:
    """An artefact's run record; None when there is none, or one cut short by a full disk: it is run
    again.
    """
    try:
        return Record.model_validate_json((place.runs / f"{identifier}.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def explain_staleness(record: Record | None, parts: dict[str, str], place: Place) -> list[str]:
    """Why an artefact must run, in words; empty when it is fresh."""
    if record is None:
        return ["never run here"]
    before = record.parts
    unanswered = sum(n for why, n in record.missing.items() if why in UNSETTLED)
    reasons = [f"{key} changed" for key in parts if key in before and before[key] != parts[key]]
    reasons += [f"{key} is new" for key in parts if key not in before]
    reasons += [f"{key} is gone" for key in before if key not in parts]
    if unanswered:
        reasons.append(f"{unanswered:,} verdicts failed; run again to request them once more")
    files = {name: place.root / name for name in record.outputs}
    reasons += [f"{name} is missing" for name, file in files.items() if not file.is_file()]
    altered = (name for name, file in files.items() if file.is_file() and hash_file(file) != record.outputs[name])
    return reasons + [f"{name} was altered" for name in altered]


@dataclass(frozen=True)
class Target:
    """One artefact of a run. `stale` lists why it must run; empty when it is fresh.

    `lacks` lists what it can't run without; it is skipped then, and the previous result is kept.
    """

    paper: Paper
    name: str
    options: RunOptions  # without the user's parameters where it is only read by the artefact that was named
    key: Key
    record: Record | None  # of its last run here
    stale: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    @property
    def identifier(self) -> str:
        return f"{self.paper.paper}/{self.name}"

    @property
    def artefact(self) -> Artefact:
        return self.paper.artefacts[self.name]

    @property
    def is_main(self) -> bool:
        """Whether it is the artefact that its notebook names, of which the committed notebook holds
        the run.
        """
        return bool(read_parameters(self.artefact.path)["artefact"] == self.identifier)

    @property
    def reads(self) -> set[str]:
        """Identifiers of the artefacts that must be up to date before this one."""
        return {f"{self.paper.paper}/{other}" for other in self.artefact.reads}

    @property
    def minutes(self) -> float:
        """How long it takes: as last time, or about as long as its entry says."""
        return self.record.minutes if self.record else self.artefact.minutes


def lacks_answers(artefact: Artefact, parameters: dict[str, Any]) -> bool:
    """Whether an artefact scores answers to questions that nothing answers: no generator, and no
    folder.
    """
    settings = read_parameters(artefact.path) | parameters
    return artefact.takes_answers and not (settings.get("generator") or settings.get("answers"))


def list_targets(root: Path, options: RunOptions, only: Sequence[str] = ()) -> list[Target]:
    """Every artefact with a notebook, or those named and what they read, in the papers' order, each
    with its state.

    An artefact that reads a stale one is stale too, all the way down a chain.
    Raises: ValueError for an unknown artefact, or one without a notebook.
    """
    place = options.find_place(root)
    targets: dict[str, Target] = {}
    for paper, name in list_chosen(root, only):
        identifier = f"{paper.paper}/{name}"
        artefact = paper.artefacts[name]
        settings = options if identifier in only else replace(options, parameters={})
        key = make_key(paper, name, place, settings)
        lacks = []
        if settings.questions and lacks_answers(artefact, key.parameters):
            lacks.append("answers to DebateQA's questions (GENERATOR= or ANSWERS=)")
        read = [target for target in targets.values() if target.paper is paper and target.name in artefact.reads]
        lacks += [f"results of {t.name}" for t in read if t.lacks and key.parts[f"result {t.name}"] == "missing"]
        record = read_record(place, identifier)
        stale = explain_staleness(record, key.parts, place)
        stale += [f"reads {target.name}, which is stale" for target in read if target.stale]
        reasons = () if lacks else tuple(stale)
        targets[identifier] = Target(paper, name, settings, key, record, reasons, tuple(lacks))
    return list(targets.values())
