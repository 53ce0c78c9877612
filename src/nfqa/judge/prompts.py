"""Prompts: folders of texts with settings, and how question, references and candidate are set into them.

Two sets ship: `own`, in our words, and `upstream`, whose texts are LINKAGE's released files, fetched and never kept
here. A text is set in by one pass over the template, so that what a text holds is never filled in itself.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nfqa.data.registry import fetch_file, read_registry
from nfqa.kernels.parse import Pick

Kind = Literal["rank", "score", "choice", "text"]
_DERIVED = ("count", "last")  # the number of references, and one more: the last place
_FIELDS = ("question", "candidate", "references", "answer_a", "answer_b", "truth", "best", "steps", *_DERIVED)
# The tags that own prompts fence texts with; a test holds the texts under prompts/own to this list.
FENCES = ("question", "references", "reference", "candidate", "answer_a", "answer_b", "truth", "best", "steps")
_OURS = "|".join(FENCES)
_WORDS = r"s|bos|eos|pad|unk|mask|sop|eop|start_of_turn|end_of_turn|end_of_utterance|extra_id_\d+|endoftext"
_SHOUTED = r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|CLS|SEP|MASK|PAD|UNK|BOS|EOS|gMASK|sMASK"
_GAP = r"\s{0,8}"  # bounded, so that no text makes the search slow
_MARKS = re.compile(
    rf"<(?=[|\uff5c])|(?<=[|\uff5c])>"  # the two ends of <|im_end|> and its like, wherever they stand
    rf"|<<{_GAP}/?{_GAP}SYS{_GAP}>>|<{_GAP}/?{_GAP}(?:{_WORDS}){_GAP}>"
    rf"|<{_GAP}/?{_GAP}(?:{_OURS})(?![\w-])(?:[^<>]{{0,99}}>)?|\[{_GAP}/?{_GAP}(?:{_SHOUTED}){_GAP}\]",
    re.IGNORECASE,
)
_ROUND = str.maketrans("<>[]", "()()")
_UNUSUAL = re.compile(r"[^\n\t -~]")
_SHOWN = {"Cc": "", "Cf": "", "Cs": "\ufffd"}  # by Unicode category; all others stay as they are
_LINE_ENDS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"


class ShotLayout(BaseModel):
    """How solved examples are laid out: `open`, then `each` with its {block} and {verdict}, then `close`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    open: str
    each: str
    close: str


class _Entry(BaseModel):
    """One template's settings: its text is a file beside them, a registered upstream file, or another set's."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str = ""
    registered: str = ""
    not_released: bool = False
    use: str = ""
    answer: Kind = "text"
    lowest: int | None = None
    highest: int | None = None
    placeholders: dict[str, str] = Field(default_factory=dict)
    reference_line: str = ""
    shot_from: str = ""
    shots: ShotLayout | None = None

    @model_validator(mode="after")
    def _has_one_source(self) -> _Entry:
        if sum(map(bool, (self.file, self.registered, self.use))) != 1 or self.not_released != bool(self.use):
            raise ValueError("expected one of file, registered, or not_released with the set to use instead")
        unknown = set(self.placeholders) - set(_FIELDS)
        if unknown:
            raise ValueError(f"unknown placeholder {sorted(unknown)[0]!r}; known: {', '.join(_FIELDS)}")
        if (self.answer == "score") != (self.lowest is not None and self.highest is not None):
            raise ValueError("a score, and nothing else, has a lowest and a highest")
        if ("references" in self.placeholders) != ("{text}" in self.reference_line):
            raise ValueError("a place for references goes with a reference_line that holds {text}")
        if bool(self.shot_from) != (self.shots is not None):
            raise ValueError("shot_from goes with shots")
        return self


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    set: str
    protect: bool
    pick: Pick = "only"
    templates: dict[str, _Entry]


@dataclass(frozen=True)
class Shot:
    """A solved example; `verdict` is the whole reply to it, such as [[2]]."""

    question: str
    references: tuple[str, ...]
    candidate: str
    verdict: str


@dataclass(frozen=True)
class Template:
    """A prompt and how it is filled in.

    text: as rendered: line ends made `\\n`, blanks stripped at both ends. sha256: of the file's bytes. identity: hash
    of these bytes and of the settings, so that a change of either shows. placeholders: field -> what stands for it.
    lowest, highest: of a score, else None. pick: of several verdicts, none or the first. shot_from: where the part
    begins that is repeated for each solved example.
    """

    set_name: str
    name: str
    text: str
    sha256: str
    identity: str
    placeholders: dict[str, str]
    reference_line: str
    answer: Kind
    lowest: int | None
    highest: int | None
    shot_from: str
    shots: ShotLayout | None
    protect: bool
    pick: Pick = "only"

    @property
    def signature(self) -> str:
        """SET:NAME@HASH, as it stands in signatures."""
        return f"{self.set_name}:{self.name}@{self.identity[:12]}"


class PromptSet:
    """A set of templates, each read when it is first asked for."""

    def __init__(self, name: str, load: Callable[[str], Template], names: Sequence[str]) -> None:
        self.name = name
        self.names = tuple(names)
        self._load = load
        self._read: dict[str, Template] = {}

    def get(self, name: str) -> Template:
        """The template called `name`. Where the set says to use another set's, that one, with its own signature.

        Raises: ValueError for an unknown name or a text that doesn't fit its settings; what `bring` raises for a
            registered file that can't be brought.
        """
        if name not in self.names:
            raise ValueError(f"prompt set {self.name} has no {name!r}; it has {', '.join(self.names)}")
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def signature(self, name: str) -> str:
        """SET:NAME@HASH of a template, such as own:listwise@1a2b3c4d5e6f."""
        return self.get(name).signature

    def render(
        self,
        name: str,
        *,
        question: str | None = None,
        candidate: str | None = None,
        references: Sequence[str] = (),
        answer_a: str | None = None,
        answer_b: str | None = None,
        truth: str | None = None,
        best: str | None = None,
        steps: str | None = None,
        shots: Sequence[Shot] = (),
    ) -> str:
        """The prompt with everything set in; `references` best first.

        Raises: ValueError for a text that the template has a place for and that isn't given, or the other way round.
        """
        template = self.get(name)
        fields = ("question", "candidate", "answer_a", "answer_b", "truth", "best", "steps")
        given = zip(fields, (question, candidate, answer_a, answer_b, truth, best, steps), strict=True)
        texts = {field: text for field, text in given if text is not None}
        layout = template.shots
        if not shots:
            return _fill(template, template.text, texts, references)
        if layout is None:
            raise ValueError(f"prompt {template.signature} has no shot_from, so it takes no solved examples")
        head, mark, tail = template.text.partition(template.shot_from)
        parts = [head, layout.open]
        for shot in shots:
            block = _fill(
                template, mark + tail, {"question": shot.question, "candidate": shot.candidate}, shot.references
            )
            parts.append(_set_in(layout.each, {"{block}": block, "{verdict}": shot.verdict}))
        return "".join([*parts, layout.close, _fill(template, mark + tail, texts, references)])


def read_prompts(folder: Path, *, bring: Callable[[str], Path]) -> PromptSet:
    """Read the settings of a prompt set; `bring` gives the local path of a registered upstream file.

    Raises: ValueError naming file and field for settings that don't fit. Nothing is fetched before it is asked for.
    """
    path = folder / "settings.yml"
    settings = _read_settings(path)

    def load(name: str) -> Template:
        entry = settings.templates[name]
        if entry.use:
            return read_prompts(folder.parent / entry.use, bring=bring).get(name)
        source = folder / entry.file if entry.file else bring(entry.registered)
        return _make_template(f"{path}: templates.{name}", settings, name, entry, source)

    return PromptSet(settings.set, load, list(settings.templates))


def _read_settings(path: Path) -> _Settings:
    try:
        return _Settings.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ValueError(f"{path}: not there; a prompt set is a folder with a settings.yml") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML that can be read: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{path}: {field}: {first['msg']} (found {first.get('input')!r:.80})") from None


def _make_template(where: str, settings: _Settings, name: str, entry: _Entry, source: Path) -> Template:
    try:
        raw = source.read_bytes()
        text = raw.decode("utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: {source} can't be read as text ({error})") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()  # as Python's open().read().strip()
    for field, mark in entry.placeholders.items():
        if mark not in text:
            raise ValueError(f"{where}.placeholders.{field}: {mark} doesn't stand in {source.name}")
    strays = set(re.findall(r"\{\{\w*\}\}", text)) - set(entry.placeholders.values())
    if settings.protect and strays:
        raise ValueError(f"{where}.placeholders: {source.name} holds {sorted(strays)[0]}, which is not listed")
    if entry.shot_from and text.count(entry.shot_from) != 1:
        raise ValueError(f"{where}.shot_from: {entry.shot_from!r} must stand once in {source.name}")
    sha256 = hashlib.sha256(raw).hexdigest()
    how = entry.model_dump(mode="json", exclude={"file", "registered"}) | {"protect": settings.protect}
    return Template(
        set_name=settings.set, name=name, text=text, sha256=sha256,
        identity=hashlib.sha256(f"{sha256}{json.dumps(how, sort_keys=True)}".encode()).hexdigest(),
        placeholders=entry.placeholders, reference_line=entry.reference_line, answer=entry.answer,
        lowest=entry.lowest, highest=entry.highest, shot_from=entry.shot_from, shots=entry.shots,
        protect=settings.protect,
        pick=settings.pick,
    )  # fmt: skip


def _fill(template: Template, text: str, texts: dict[str, str], references: Sequence[str]) -> str:
    clean = (lambda given: clean_text(given)[0]) if template.protect else (lambda given: given)
    values = {field: clean(given) for field, given in texts.items()}
    if references:
        values["references"] = "".join(
            _set_in(template.reference_line, {"{number}": str(number), "{text}": clean(reference)})
            for number, reference in enumerate(references, start=1)
        )
    wanted = {field for field in template.placeholders if field not in _DERIVED}
    if wanted != set(values):
        field = sorted(wanted ^ set(values))[0]
        problem = "is needed and not given" if field in wanted else "is given, but the prompt has no place for it"
        raise ValueError(f"prompt {template.signature}: {field} {problem}")
    values |= {"count": str(len(references)), "last": str(len(references) + 1)}
    return _set_in(text, {mark: values[field] for field, mark in template.placeholders.items()})


def _set_in(text: str, values: dict[str, str]) -> str:
    """Replace every mark in one pass: what a value holds is never replaced itself."""
    if not values:
        return text
    marks = sorted(values, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, marks)), lambda found: values[found[0]], text)


def clean_text(text: str) -> tuple[str, int]:
    """A text that can neither end its fence nor speak as the prompt, and how many places were changed.

    Line ends become `\\n` (not counted). Control characters but newline and tab, and invisible ones (zero-width,
    direction overrides), go; a line or page separator becomes a newline and a lone surrogate U+FFFD. The brackets of
    our fences and of models' control marks (`<|im_end|>`, `[INST]`, `</s>`, `<<SYS>>`) become round ones. What looks
    like a verdict stays: only a judge's completion is ever read for one.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    changed = 0

    def show(found: re.Match[str]) -> str:
        nonlocal changed
        old = found[0]
        new = "\n" if old in _LINE_ENDS else _SHOWN.get(unicodedata.category(old), old)
        changed += old != new
        return new

    text, broken = _MARKS.subn(lambda found: found[0].translate(_ROUND), _UNUSUAL.sub(show, text))
    return text, changed + broken


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
