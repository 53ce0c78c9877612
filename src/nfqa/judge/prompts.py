"""Prompts: folders of texts with settings, and how question, references and candidate are set into
them.

Two sets ship: `own`, written here, and `upstream`, whose texts are the papers' released files,
fetched and never kept here. A text is set in by one pass over the template, so that what a text
holds is never filled in itself.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from nfqa.files.json_lines import Item, Text, check, read_yaml
from nfqa.files.paths import hash_file
from nfqa.kernels.parse import Pick

OWN = Path(__file__).parents[1] / "prompts" / "own"  # this project's set
Kind = Literal["rank", "score", "choice", "text"]
_DERIVED = {"count", "last"}  # the number of references, and one more: the last place
# The tags that own prompts fence texts with; a test holds the texts under prompts/own to this list.
FENCES = (
    "question", "references", "reference", "candidate", "answer_a", "answer_b", "truth", "best", "steps", "document",
    "point_of_view",
)  # fmt: skip
_OURS = "|".join(FENCES)
_WORDS = r"s|think|bos|eos|pad|unk|mask|sop|eop|start_of_turn|end_of_turn|end_of_utterance|extra_id_\d+|endoftext"
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
_VISIBLE = {"Cc": "", "Cf": "", "Cs": "\ufffd"}  # by Unicode category; all others stay as they are
_LINE_ENDS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"


class ShotLayout(Item):
    """How solved examples are laid out: `open`, then `each` with its {block} and {verdict}, then
    `close`.
    """

    open: str
    each: str
    close: str


class _Literal(Item):
    """A text that a released Python script assigns to `variable`. The script is parsed as data, and
    never run.

    skip_from, skip_to: two marks; what stands from the first up to the second is skipped.
    """

    variable: Text
    skip_from: str = ""
    skip_to: str = ""

    def find(self, script: str) -> str:
        """The text, unstripped; "" where the script has no such variable."""
        nodes = (node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Assign))
        values = (ast.literal_eval(node.value) for node in nodes if ast.unparse(node.targets[0]) == self.variable)
        text: str = next(values, "")
        return text[: text.find(self.skip_from)] + text[text.find(self.skip_to) :] if self.skip_from else text


class Template(Item):
    """A prompt and how it is filled in: its settings, and what reading it adds.

    Its text is a file beside the settings, a registered upstream file, or another set's (`use`).
    literal: where in a registered script the text is. placeholders: field -> what stands for it.
    lowest, highest: of a score. solved: how many solved examples the text holds itself. shot_from:
    where the part begins that is repeated for each solved example that is set in.
    text: as rendered: line ends made `\\n`, blanks stripped at both ends but those of a script's
    text. sha256: of the file's bytes. identity: hash of these and of the settings, so that a change
    of either shows. pick: of several verdicts, none or the first.
    """

    file: str = ""
    registered: str = ""
    literal: _Literal | None = None
    not_released: bool = False
    use: str = ""
    answer: Kind = "text"
    lowest: int | None = None
    highest: int | None = None
    placeholders: dict[str, Text] = Field(default_factory=dict)
    reference_line: str = ""
    solved: int = 0
    shot_from: str = ""
    shots: ShotLayout | None = None
    protect: bool = True
    set_name: str = Field("", exclude=True)
    name: str = Field("", exclude=True)
    text: str = Field("", exclude=True)
    sha256: str = Field("", exclude=True)
    identity: str = Field("", exclude=True)
    pick: Pick = Field("only", exclude=True)

    @model_validator(mode="after")
    def _has_one_source(self) -> Template:
        if sum(map(bool, (self.file, self.registered, self.use))) != 1 or self.not_released != bool(self.use):
            raise ValueError("expected one of file, registered, or not_released with the set to use instead")
        if (self.answer == "score") != (self.lowest is not None and self.highest is not None):
            raise ValueError("a score, and nothing else, has a lowest and a highest")
        if ("references" in self.placeholders) != ("{text}" in self.reference_line):
            raise ValueError("a place for references requires a reference_line that holds {text}")
        return self

    @property
    def signature(self) -> str:
        """SET:NAME@HASH, as it stands in signatures, and the number of solved examples where
        settings give it.
        """
        return f"{self.set_name}:{self.name}@{self.identity[:12]}" + f"(solved:{self.solved})" * bool(self.solved)


class _Settings(Item):
    set: str
    protect: bool
    pick: Pick = "only"
    templates: dict[str, Template]


@dataclass(frozen=True)
class Shot:
    """A solved example; `verdict` is the whole reply to it, such as [[2]]."""

    question: str
    references: tuple[str, ...]
    candidate: str
    verdict: str


class PromptSet:
    """The templates of a folder with a settings.yml, each read when it is first asked for.

    `bring` gives the local path of a registered upstream file.
    Raises: ValueError naming file and field for settings that don't fit.
    """

    def __init__(self, folder: Path, *, bring: Callable[[str], Path]) -> None:
        self._path = folder / "settings.yml"
        self._settings = check(_Settings, read_yaml(self._path), str(self._path))
        self._bring = bring
        self._read: dict[str, Template] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._settings.templates

    def get(self, name: str) -> Template:
        """The template called `name`. Where the set says to use another set's, that one, with its
        own signature.

        Raises: ValueError for an unknown name or a text that doesn't fit its settings; what `bring`
            raises for a registered file that can't be brought.
        """
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def signature(self, name: str) -> str:
        """SET:NAME@HASH of a template, such as own:listwise@1a2b3c4d5e6f."""
        return self.get(name).signature

    def render(
        self, name: str, *, references: Sequence[str] = (), shots: Sequence[Shot] = (), **texts: str | None
    ) -> str:
        """The prompt with everything set in: `references` best first, `texts` by field, where None
        is not given.

        Raises: ValueError for a text that the template has a place for and that isn't given, or the
            other way round.
        """
        template = self.get(name)
        fields = {field: text for field, text in texts.items() if text is not None}
        if not shots:
            return _fill(template, template.text, fields, references)
        if template.shots is None:
            raise ValueError(f"prompt {template.signature} has no shot_from, so it takes no solved examples")
        head, mark, tail = template.text.partition(template.shot_from)
        solved = ""
        for shot in shots:
            example = {"question": shot.question, "candidate": shot.candidate}
            block = _fill(template, mark + tail, example, shot.references)
            solved += _replace_marks(template.shots.each, {"{block}": block, "{verdict}": shot.verdict})
        last = _fill(template, mark + tail, fields, references)
        return f"{head}{template.shots.open}{solved}{template.shots.close}{last}"

    def _load(self, name: str) -> Template:
        settings = self._settings
        folder = self._path.parent
        where = f"{self._path}: templates.{name}"
        if name not in settings.templates:
            raise ValueError(f"prompt set {settings.set} has no {name!r}; it has {', '.join(settings.templates)}")
        entry = settings.templates[name]
        if entry.use:
            return PromptSet(folder.parent / entry.use, bring=self._bring).get(name)
        source = folder / entry.file if entry.file else self._bring(entry.registered)
        text = source.read_text(encoding="utf-8").strip()  # every line end is a newline, as in the released code
        text = entry.literal.find(text) if entry.literal else text
        for field, mark in entry.placeholders.items():
            if mark not in text:
                raise ValueError(f"{where}.placeholders.{field}: {mark} does not occur in {source.name}")
        strays = set(re.findall(r"\{\{\w*\}\}", text)) - set(entry.placeholders.values())
        if settings.protect and strays:
            raise ValueError(f"{where}.placeholders: {source.name} holds {sorted(strays)[0]}, which is not listed")
        if entry.shot_from and text.count(entry.shot_from) != 1:
            raise ValueError(f"{where}.shot_from: {entry.shot_from!r} must stand once in {source.name}")
        shared = {"set_name": settings.set, "pick": settings.pick, "protect": settings.protect}
        facts = shared | {"name": name, "text": text, "sha256": hash_file(source)}
        template = entry.model_copy(update=facts)
        apart = {"file", "registered", "solved"} | (set() if entry.literal else {"literal"})
        options = json.dumps(template.model_dump(mode="json", exclude=apart), sort_keys=True)
        identity = hashlib.sha256(f"{template.sha256}{options}".encode()).hexdigest()
        return template.model_copy(update={"identity": identity})


def _fill(template: Template, text: str, texts: dict[str, str], references: Sequence[str]) -> str:
    clean = clean_text if template.protect else str
    values = {field: clean(value) for field, value in texts.items()}
    if references:
        lines = enumerate(map(clean, references), start=1)
        values["references"] = "".join(
            _replace_marks(template.reference_line, {"{number}": str(number), "{text}": line}) for number, line in lines
        )
    wanted = template.placeholders.keys() - _DERIVED
    for field in sorted(wanted ^ values.keys()):
        problem = "is needed and not given" if field in wanted else "is given, but the prompt has no place for it"
        raise ValueError(f"prompt {template.signature}: {field} {problem}")
    values |= {"count": str(len(references)), "last": str(len(references) + 1)}
    return _replace_marks(text, {mark: values[field] for field, mark in template.placeholders.items()})


def _replace_marks(text: str, values: dict[str, str]) -> str:
    """In one pass, the longest mark that fits: what a value holds is never replaced itself."""
    marks = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    return re.sub(marks, lambda match: values[match[0]], text) if values else text


def clean_text(text: str) -> str:
    """A text that can neither end its fence nor speak as the prompt.

    Line ends become `\\n`. Control characters but newline and tab, and invisible ones (zero-width,
    direction overrides), go; a line or page separator becomes a newline and a lone surrogate
    U+FFFD. The brackets of our fences and of models' control marks (`<|im_end|>`, `[INST]`, `</s>`,
    `<<SYS>>`) become round ones. What looks like a verdict stays: only a judge's completion is ever
    read for one.
    """

    def show(match: re.Match[str]) -> str:
        return "\n" if match[0] in _LINE_ENDS else _VISIBLE.get(unicodedata.category(match[0]), match[0])

    text = _UNUSUAL.sub(show, text.replace("\r\n", "\n").replace("\r", "\n"))
    return _MARKS.sub(lambda match: match[0].translate(_ROUND), text)
