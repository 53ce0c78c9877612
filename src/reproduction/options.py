"""Make's variables, read from the environment and checked before anything runs."""

from __future__ import annotations

import ast
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
from reproduction.notebooks import hash_json, read_parameters
from reproduction.papers import DEBATEQA, list_chosen
from reproduction.place import Place, find_place

ASKED = ("judge", "generator")
_ASKING = ("prompts", "decoding", "reading", "wrapping")  # how language models are asked
_LONGEST_VARIANT = 80  # characters of a folder's name before its hash, which distinguishes them
_LONGEST_VALUE = 24  # characters of one value in it


@dataclass(frozen=True)
class RunOptions:
    """What a user can set for a run.

    given: of all notebooks, where they have such a parameter: the roles, how models are asked,
    n_seeds, answers (a folder of answers made elsewhere). parameters: of the notebooks that are
    named. settings: of models, by variables that the library reads. questions: DEBATEQA for those
    that its authors released, in place of a notebook's own.
    """

    data: str = "full"
    profile: str = "full"
    questions: str = ""
    given: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def roles(self) -> dict[str, str]:
        """The roles that the user fills, each with its spec."""
        return {name: spec for name, spec in self.given.items() if name in ROLES}

    @property
    def variant(self) -> str:
        """A folder name for a run with overrides, what they are and a hash of them; "" without any."""
        roles = {role: identify_role(role, spec) for role, spec in self.roles.items()}  # wherever a model is served
        changed = self.settings | self.given | roles | self.parameters
        if not changed:
            return ""
        words = ["quick"] if self.profile == "quick" else []
        words += [f"{name}-{_shorten(value)}".rstrip("-") for name, value in sorted(changed.items())]
        name = "-".join(words)[:_LONGEST_VARIANT].rstrip("-.")
        return f"{name}-{hash_json([changed, self.profile])[:8]}"

    def say_size(self, parameters: Mapping[str, Any]) -> str:
        """Of a quick run, how many questions of each dataset and draws an artefact is given; "" of
        a full one.
        """
        if self.profile != "quick":
            return ""
        counts = {"question": parameters.get("limit"), "draw": parameters.get("n_seeds")}
        words = ", ".join(f"{count:,} {what}{'s' if count > 1 else ''}" for what, count in counts.items() if count)
        return f"quick: {words}" if words else "quick"

    def find_role(self, role: str, default: str = "") -> str:
        """The spec that fills a role: the user's, or a notebook's default, or that of all
        notebooks.

        About the sample no language model is asked for verdicts, unless the user names one.
        """
        if (self.data, role) == ("sample", "judge"):
            default = ""
        return self.roles.get(role) or default or DEFAULTS.get(role, "")

    def asks(self, roles: Mapping[str, str]) -> bool:
        """Whether one of the roles, given with its default, is filled by a language model that
        takes prompts.
        """
        filled = {role: self.find_role(role, default) for role, default in roles.items()}
        kinds = {role: [one.partition(":")[0] for one in list_specs(spec)] for role, spec in filled.items() if spec}
        models = {kind for role in ASKED for kind in kinds.get(role, ())}
        return bool(models - {"embedded"})

    def find_place(self, root: Path) -> Place:
        """The folders of a run with these options."""
        return find_place(root, data=self.data, profile=self.profile, variant=self.variant, questions=self.questions)


def read_options(root: Path, artefacts: Sequence[str], *, makes: bool = True, questions: str = "") -> RunOptions:
    """Options from the environment, where Make puts its variables, checked against the artefacts of
    the run.

    Args: makes: whether artefacts are made: PARAMS then needs to know which. questions: as
        `read_questions` gives it.
    Raises: ValueError naming the variable, what it is and what was expected.
    """
    roles = {name: os.environ[name.upper()] for name in ROLES if os.environ.get(name.upper())}
    asking = {name: os.environ[name.upper()] for name in _ASKING if os.environ.get(name.upper())}
    given: dict[str, Any] = roles | asking
    seeds = read_count("SEEDS", "a whole number of reference draws")
    if seeds:
        given["n_seeds"] = seeds
    answers = os.environ.get("ANSWERS", "")
    if answers and not Path(answers).is_dir():
        raise ValueError(
            f"ANSWERS is {answers!r}; expected a folder with one file per system (`make score` takes a file)"
        )
    if answers:
        given["answers"] = str(Path(answers).resolve())
    parameters = _read_parameters(os.environ.get("PARAMS", ""))
    if parameters and not artefacts and makes:
        raise ValueError("PARAMS needs one artefact, as in `make linkage/table_02 PARAMS='short=drop'`")
    _check_models(roles, asking)
    _check_taken(root, artefacts, given)
    dtype = read_choice("NFQA_DTYPE", "auto", *DTYPES)
    settings = {"dtype": dtype if dtype != "auto" else "", "max_tokens": Limits.from_environment().max_tokens}
    read_choice("FRESH", "", "1")  # for `reproduction.place.find_committed`
    return RunOptions(
        data=read_choice("DATA", "full", "sample"),
        profile=read_choice("PROFILE", "full", "quick"),
        questions=questions,
        given=given,
        parameters=parameters,
        settings={name: value for name, value in settings.items() if value},
    )


def _check_models(roles: dict[str, str], asking: dict[str, str]) -> None:
    """Refuse, before anything runs, a model that can't fill its role, and what has no effect
    without a model.
    """
    for role, spec in roles.items():
        identify_role(role, spec)
    if roles.get("judge", "").startswith("embedded:") and roles["judge"] != DEFAULTS["judge"]:
        raise ValueError(f"JUDGE is {roles['judge']!r}; for the embedded judge alone, expected {DEFAULTS['judge']}")
    for name in asking:
        about = (*ASKED, "evaluator") if name == "wrapping" else ASKED
        if not set(about) & set(roles):
            takers = " or ".join(role.upper() for role in about)
            raise ValueError(f"{name.upper()} has no effect without {takers}; unset it")
    Asking(**asking)  # type: ignore[arg-type]
    if Limits.from_environment().max_tokens and "judge" not in roles:
        raise ValueError("MAX_TOKENS has no effect without JUDGE; unset it (or NFQA_MAX_TOKENS)")


def _check_taken(root: Path, artefacts: Sequence[str], given: Iterable[str]) -> None:
    """Refuse what no notebook of a run takes: it would change nothing and look as if it had."""
    if given:
        notebooks = [paper.artefacts[name].path for paper, name in list_chosen(root, artefacts)]
        taken = {name for notebook in notebooks for name in read_parameters(notebook)}
        for name in given:
            if name not in taken:
                variable = {"n_seeds": "SEEDS"}.get(name, name.upper())
                raise ValueError(f"{variable} is set, but no notebook of this run takes it; unset it")


def read_questions() -> str:
    """QUESTIONS of a command that makes artefacts: "" or "debateqa". Other commands read a file
    that it names.

    Raises: ValueError for another value.
    """
    return read_choice("QUESTIONS", "", DEBATEQA)


def _shorten(value: Any) -> str:
    """What a folder's name says of a value, in letters, digits and "._-": of a model or file its
    last name alone.
    """
    names = re.sub(r"[a-z]+:|[^ ,]*/|@[^ ,]*", "", str(value))
    return re.sub(r"[^A-Za-z0-9._-]+", "_", names).strip("._-")[:_LONGEST_VALUE]


def read_choice(name: str, *known: str) -> str:
    """A variable that is one of a few words, the first where it is unset. Raises: ValueError for
    another.
    """
    chosen = os.environ.get(name) or known[0]
    if chosen not in known:
        words = [*filter(None, known)]
        raise ValueError(f"{name} is {chosen!r}; {suggest(chosen, words)}expected {' or '.join(words)}")
    return chosen


def read_count(name: str, what: str) -> int | None:
    """A variable's whole number of at most nine digits, None where it is unset. Raises: ValueError
    for another text.
    """
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
