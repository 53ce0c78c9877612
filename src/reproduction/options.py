"""Make's variables, read from the environment and checked before anything runs."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nfqa.files.json_lines import suggest
from nfqa.judge.limits import Limits
from nfqa.models.loading import DTYPES
from nfqa.models.roles import DEFAULTS, ROLES, identify_role, list_specs
from nfqa.opening import Asking
from reproduction.notebooks import list_roles, read_parameters
from reproduction.papers import DEBATEQA, list_chosen
from reproduction.place import Place, find_place

ASKED = ("judge", "generator")
_ASKING = ("prompts", "decoding", "reading", "wrapping")
_SETTINGS = ("seeds", "dtype", "max_tokens", "answers")  # of a run, beside roles, asking and parameters
_LONGEST_VARIANT = 80  # characters of a folder's name before its hash, which distinguishes them
_LONGEST_VALUE = 24  # characters of one value in it


@dataclass(frozen=True)
class RunOptions:
    """What a user can set for a run. `roles` and `asking` (how language models are asked) go to every notebook that
    takes them, `parameters` to those named."""

    data: str = "full"
    profile: str = "full"
    seeds: int | None = None
    roles: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    asking: dict[str, Any] = field(default_factory=dict)
    dtype: str = ""  # of models in process
    max_tokens: int | None = None  # that a language model may write as a verdict
    answers: str = ""  # a folder of answers made elsewhere, for the notebooks that take answers
    questions: str = ""  # DEBATEQA for those that its authors released, in place of a notebook's default ones

    @property
    def variant(self) -> str:
        """A folder name for a run with overrides, what they are and a hash of them; "" without any."""
        roles = {role: identify_role(role, spec) for role, spec in self.roles.items()}  # wherever a model is served
        settings = {name: value for name in _SETTINGS if (value := getattr(self, name))}
        changed = [settings, roles, self.asking, self.parameters]
        if not any(changed):
            return ""
        pairs = [pair for value in changed for pair in sorted(value.items())]
        words = ["quick"] if self.profile == "quick" else []
        words += [f"{name}-{_shorten(value)}".rstrip("-") for name, value in pairs]
        digest = hashlib.sha256(json.dumps([*changed, self.profile], sort_keys=True).encode()).hexdigest()[:8]
        return f"{'-'.join(words)[:_LONGEST_VARIANT].rstrip('-.')}-{digest}"

    def say_size(self, parameters: Mapping[str, Any]) -> str:
        """Of a quick run, how many questions of each dataset and draws an artefact is given; "" of a full one."""
        if self.profile != "quick":
            return ""
        counts = {"question": parameters.get("limit"), "draw": parameters.get("n_seeds")}
        words = ", ".join(f"{count:,} {what}{'s' if count > 1 else ''}" for what, count in counts.items() if count)
        return f"quick: {words}" if words else "quick"

    def find_role(self, role: str, default: str = "") -> str:
        """The spec that fills a role: the user's, or a notebook's default, or that of all notebooks.

        About the sample no language model is asked for verdicts, unless the user names one.
        """
        if (self.data, role) == ("sample", "judge"):
            default = ""
        return self.roles.get(role) or default or DEFAULTS.get(role, "")

    def asks(self, roles: Mapping[str, str]) -> bool:
        """Whether one of the roles, given with its default, is filled by a language model that takes prompts."""
        filled = {role: self.find_role(role, default) for role, default in roles.items()}
        kinds = {role: [one.partition(":")[0] for one in list_specs(spec)] for role, spec in filled.items() if spec}
        models = {kind for role in ASKED for kind in kinds.get(role, ())}
        return bool(models - {"embedded"})

    def find_place(self, root: Path) -> Place:
        """The folders of a run with these options."""
        return find_place(root, data=self.data, profile=self.profile, variant=self.variant, questions=self.questions)


def read_options(root: Path, artefacts: Sequence[str], *, makes: bool = True, questions: str = "") -> RunOptions:
    """Options from the environment, where Make puts its variables, checked against the artefacts of the run.

    Args: makes: whether artefacts are made: PARAMS then needs to know which. questions: as `read_questions`
        gives it.
    Raises: ValueError naming the variable, what it is and what was expected.
    """
    profile = read_choice("PROFILE", "full", "quick")
    data = read_choice("DATA", "full", "sample")
    read_choice("FRESH", "", "1")  # for `reproduction.place.find_committed`
    seeds = read_count("SEEDS", "a whole number of reference draws")
    roles = _read_given(ROLES)
    asking = _read_given(_ASKING)
    if roles.get("judge", DEFAULTS["judge"]) != DEFAULTS["judge"] and roles["judge"].startswith("embedded:"):
        raise ValueError(f"JUDGE is {roles['judge']!r}; for the embedded judge alone, expected {DEFAULTS['judge']}")
    for role, spec in roles.items():
        identify_role(role, spec)
    for name in asking:
        about = ("judge", "generator", "evaluator") if name == "wrapping" else ("judge", "generator")
        if not set(about) & set(roles):
            takers = " or ".join(role.upper() for role in about)
            raise ValueError(f"{name.upper()} has no effect without {takers}; unset it")
    parameters = _read_parameters(os.environ.get("PARAMS", ""))
    if parameters and not artefacts and makes:
        raise ValueError("PARAMS needs one artefact, as in `make linkage/table_02 PARAMS='short=drop'`")
    answers = os.environ.get("ANSWERS", "")
    if answers and not Path(answers).is_dir():
        raise ValueError(
            f"ANSWERS is {answers!r}; expected a folder with one file per system (`make score` takes a file)"
        )
    chosen = list_chosen(root, artefacts) if roles or answers else []
    notebooks = [paper.artefacts[name].path for paper, name in chosen]
    if answers and artefacts and not any("answers" in read_parameters(notebook) for notebook in notebooks):
        raise ValueError(f"ANSWERS is set, but {' and '.join(artefacts)} does not accept ANSWERS; unset it")
    taken = {role for notebook in notebooks for role in list_roles(notebook)}
    for role in roles.keys() - taken:  # it would change nothing and look as if it had
        raise ValueError(f"{role.upper()} is set, but no notebook of this run takes the role {role}; unset it")
    Asking(**asking)  # type: ignore[arg-type]  # refused here rather than by a notebook half a minute later
    max_tokens = Limits.from_environment().max_tokens
    if max_tokens and "judge" not in roles:
        raise ValueError("MAX_TOKENS has no effect without JUDGE; unset it (or NFQA_MAX_TOKENS)")
    dtype = read_choice("NFQA_DTYPE", "auto", *DTYPES)
    return RunOptions(
        data=data,
        profile=profile,
        seeds=seeds,
        roles=roles,
        parameters=parameters,
        asking=dict(asking),
        dtype="" if dtype == "auto" else dtype,
        max_tokens=max_tokens,
        answers=answers and str(Path(answers).resolve()),
        questions=questions,
    )


def read_questions() -> str:
    """QUESTIONS of a command that makes artefacts: "" or "debateqa". Other commands read a file that it names.

    Raises: ValueError for another value.
    """
    return read_choice("QUESTIONS", "", DEBATEQA)


def _shorten(value: Any) -> str:
    """What a folder's name says of a value, in letters, digits and "._-": of a model or file its last name alone."""
    names = re.sub(r"[a-z]+:|[^ ,]*/|@[^ ,]*", "", str(value))
    return re.sub(r"[^A-Za-z0-9._-]+", "_", names).strip("._-")[:_LONGEST_VALUE]


def _read_given(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name.upper()] for name in names if os.environ.get(name.upper())}


def read_choice(name: str, *known: str) -> str:
    """A variable that is one of a few words, the first where it is unset. Raises: ValueError for another."""
    chosen = os.environ.get(name) or known[0]
    if chosen not in known:
        words = [*filter(None, known)]
        raise ValueError(f"{name} is {chosen!r}; {suggest(chosen, words)}expected {' or '.join(words)}")
    return chosen


def read_count(name: str, what: str) -> int | None:
    """A variable's whole number of at most nine digits, None where it is unset. Raises: ValueError for another text."""
    text = os.environ.get(name)
    if text and not (text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise ValueError(f"{name} is {text!r:.60}; expected {what}, from 1 to 999999999")
    return int(text) if text else None


def _read_parameters(text: str) -> dict[str, Any]:
    """NAME=VALUE words; a value that is no Python literal is taken as text."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"PARAMS is {text!r:.80}: {str(error).lower()}") from None
    parameters: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"PARAMS has {word!r:.80}; expected NAME=VALUE words, such as 'n_seeds=3 short=drop'")
        if name in ("artefact", "data", "out"):
            raise ValueError(f"PARAMS has {name}, which the runner sets; for the sample use DATA=sample")
        if name == "questions":
            raise ValueError(f"PARAMS has questions; for DebateQA's own use QUESTIONS={DEBATEQA}")
        try:
            literal = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # as its documentation lists them
            literal = value
        parameters[name] = literal if isinstance(literal, str | int | float | None) else value
    return parameters
