"""Files read strictly, JSON and JSON lines: every fault is refused with file, line, field, found
and expected.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, cast

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from nfqa.kernels.texts import CHANGES, name_lack, replace_surrogates

T = TypeVar("T")
_MISSPELT = 0.72  # likeness from which a name is taken for a known one: of `lables` and `label`
FLOATS_ARE_EXACT = 2**53  # up to here each whole number is a float of its own
LONGEST_TEXT = 1_000_000  # characters, beyond any answer: time and memory of several methods grow with it
SCORED = ("answer", "answers", "text")  # in each shape of rows one of these is what is scored
_WORDS = {  # our names of one thing in several shapes: what other tools call it
    "answer text answers": "response reply completion output prediction generation",
    "question": "prompt query instruction input",
    "system": "model model_name",
    "label grade": "rating",
    "id": "question_id qid",
    "reference_1 references": "reference refs ref gold ground_truth",
    "partial_answer_1 partial_answers point_of_view": "views perspectives perspective",
    "address": "url link",
}


def _clean(text: Any, info: ValidationInfo) -> Any:
    """A text that UTF-8 can carry; of a user's what counts, its changes counted."""
    counts = Counter[str]() if info.context is None else getattr(info.context, "counts", info.context)
    for name, change in CHANGES.items() if isinstance(text, str) else ():
        if info.context is not None or change is replace_surrogates:
            before, text = text, change(text)
            counts[name] += text != before
    return text


def _refuse_blank(text: str) -> str:
    if lack := name_lack(text):
        raise ValueError(f"expected a text that is not empty{' but for its thinking' * (lack == 'only_thinking')}")
    return text


def read_value(value: Any) -> Any:
    """A value as JSON has it: a list for an array of numpy's, None for NaN and for what pandas
    calls missing.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    return value if (value == value) is True else None


def read_number(value: Any) -> Any:
    """The whole number that a value says, 2 of 2.0, "2" and "2.0"; anything else as it is."""
    return int(float(value)) if re.fullmatch(r"-?\d+(\.0+)?", str(value).strip()) else value


def refuse_lost_digits(value: Any) -> None:
    """Raises: ValueError for an id that is a float which several whole numbers become."""
    if isinstance(value, float) and abs(value) >= FLOATS_ARE_EXACT:
        raise ValueError("a float of this size has lost digits; read ids as text (pandas: dtype=str) or whole numbers")


def _read_name(value: Any) -> str:
    refuse_lost_digits(value)
    value = read_number(value) if isinstance(value, float) else value
    name = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if len(name.splitlines()) != 1:  # it goes into tables
        raise ValueError("expected a name on one line, not empty, or a whole number")
    return replace_surrogates(name)


_Short = Annotated[str, Field(max_length=LONGEST_TEXT)]
AnyText = Annotated[_Short, BeforeValidator(_clean)]  # may be empty
Text = Annotated[AnyText, AfterValidator(_refuse_blank)]
Name = Annotated[_Short, BeforeValidator(_read_name)]  # an id: 7 and "7" are one


def suggest(name: str, known: Iterable[str]) -> str:
    """What to say after an unknown name: "did you mean NAME? " where a known one resembles it, else
    nothing.
    """
    near = _list_near(name, tuple(known), 0.5)
    return f"did you mean {' or '.join(near)}? " if near else ""


@cache
def _list_near(name: str, known: tuple[str, ...], cutoff: float) -> list[str]:
    """The known names that mean the same by `_WORDS`, else those that, or whose other name, is
    spelt alike.
    """
    word = re.sub(r"[_ ]?\d+$", "", name.strip().lower()).replace(" ", "_")
    same_thing = dict[str, list[str]]()
    for ours, others in _WORDS.items():
        fields = [one for one in known if one in ours.split()]
        if fields:
            same_thing |= dict.fromkeys(f"{ours} {others}".split(), fields)
    if word in same_thing:
        return same_thing[word]
    near = get_close_matches(word, [one for one in known if len(one) > 2 or cutoff < _MISSPELT], cutoff=cutoff)
    return near or [one for each in get_close_matches(word, same_thing, 1, _MISSPELT) for one in same_thing[each]]


@dataclass(frozen=True)
class Extra:
    """What becomes of a user's fields that no shape knows: those to keep stay, others are counted
    by name.

    One that resembles a known field is refused as misspelt, unless that field is there too.
    skipped: takes what is wrong with each line that is excluded; None where the first such line is
    refused.
    """

    counts: Counter[str]
    keep: Collection[str] = ()
    skipped: list[str] | None = None

    def skip(self, error: ValueError) -> None:
        """Keep what is wrong with a line. Raises: the error where no line is excluded."""
        if self.skipped is None:
            raise error
        self.skipped.append(str(error))


class Item(BaseModel):
    """One object of a file, its fields as given: nothing is converted; null, NaN and NA count as
    not given.

    `bare` names the field that stands for the object where a text is found in its place; `blank`
    the one that is an empty text where it is null; `scored` the one that holds what is scored,
    which other fields of SCORED may be meant for. Lists may be numpy's. Unknown fields are refused,
    but those of an `Extra`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    bare: ClassVar[str] = ""
    blank: ClassVar[str] = ""
    scored: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _tidy(cls, value: Any, info: ValidationInfo) -> Any:
        if cls.bare and isinstance(value, str):
            value = {cls.bare: value}
        if not isinstance(value, Mapping):
            return value
        fields = dict(value)
        known = tuple(cls.model_fields)
        rivals = [name for name in SCORED if cls.scored in fields and name in fields and name not in known]
        if rivals:
            both = f"{cls.scored!r} and {rivals[0]!r}"
            ways = "keep one, and call an answer's id 'answer_id'" if "answer_id" in known else "keep one"
            raise ValueError(f"has both {both}, and either may be what to score; {ways}")
        extra = info.context if isinstance(info.context, Extra) else None
        taken = {"forbid": (), "ignore": value, "allow": extra.keep if extra else ()}[str(cls.model_config["extra"])]
        for name in [name for name in value if name not in known and name not in taken]:
            near = _list_near(str(name), known, _MISSPELT)
            if extra is None or (near and value.keys().isdisjoint(near)):
                hint = suggest(str(name), known)  # pydantic's own message doesn't say what is known
                ways = "; give it such a name, or one that resembles none" if extra else ""
                raise ValueError(f"unknown field {name!r:.60}; {hint}known: {', '.join(known)}{ways}")
            del fields[name]
            extra.counts[f"column_not_read: {name}"] += 1
        values = {name: read_value(one) for name, one in fields.items()}
        content = {name: one for name, one in values.items() if one is not None or name not in known}
        return {cls.blank: ""} | content if cls.blank in fields else content


class LooseItem(Item):
    """One object of an upstream file, of which only these fields are read."""

    model_config = ConfigDict(extra="ignore")


_adapt: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def check(shape: type[T], value: Any, where: str, extra: Extra | Counter[str] | None = None) -> T:
    """The value as a `shape`, an `Item` or a container of them; `extra` says what becomes of
    unknown fields.

    A user's texts, for which `extra` is given or what counts their changes alone, are read without
    thinking and with plain blanks.
    Raises: ValueError naming `where`, the field, what was found and what was expected.
    """
    try:
        return cast("T", _adapt(shape).validate_python(value, context=extra))
    except ValidationError as error:
        raise ValueError(f"{where}: {_explain(error)}") from None


def _explain(error: ValidationError) -> str:
    """The first fault: `answers[0].label is '3'; input should be a valid integer`."""
    fault = error.errors(include_url=False)[0]
    parts = [f".{part}" if str(part).isidentifier() else f"[{part!r:.60}]" for part in fault["loc"]]
    field = "".join(parts).lstrip(".")
    if fault["type"] == "missing":
        return f"{field} is missing; add it"
    message = fault["msg"].removeprefix("Value error, ").partition(" or instance of ")[0]
    if fault["type"] == "value_error" and isinstance(fault["input"], dict):  # our own words for several fields at once
        return f"{field}: {message}".removeprefix(": ")
    subject = f"{field} is" if field else "found"
    return f"{subject} {_describe(fault['input'])}; {message[0].lower()}{message[1:]}"


def _describe(value: Any) -> str:
    if isinstance(value, Mapping | list) and not value:
        return "empty"
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    return "null" if value is None else f"{value!r:.60}"


def read_json(path: Path) -> Any:
    """A file's one JSON value.

    Raises: ValueError naming the file for anything else, a byte order mark included.
    """
    return _parse(str(path), decode_text(str(path), path.read_bytes()), "fetch it again")


def read_lines(content: bytes) -> list[dict[str, Any]]:
    """The objects of JSON lines as they are: of a file whose hash is checked, or that is bundled."""
    return [json.loads(line) for line in content.decode().split("\n") if line.strip()]


def read_items(path: Path, shape: type[T], counts: Counter[str], *, once: str, clean: bool = False) -> Iterator[T]:
    """Each line's object as a `shape`, whose field `once` no two lines share.

    Args: clean: whether the texts are a user's, as `check` has them.
    Raises: as `parse_lines`, `check` and `refuse_twins`.
    """
    seen: dict[int, str] = {}
    for _, where, item in parse_lines(str(path), path.read_bytes(), counts):
        line = check(shape, item, where, counts if clean else None)
        refuse_twins(seen, where, {once: getattr(line, once)})
        yield line


def refuse_twins(seen: dict[int, str], where: str, values: Mapping[str, str]) -> None:
    """Raises: ValueError naming both lines or rows where a field's value is one that another in
    `seen` has; else `seen` takes them all.

    Args: seen: the place of each field and value by their hash, which takes less memory than a text.
    """
    place = where.rpartition(", ")[2]
    hashed = {hash(pair): pair for pair in values.items()}
    for key in seen.keys() & hashed.keys():
        field, value = hashed[key]
        advice = f"give each {place.split()[0]} a different one"
        raise ValueError(f"{where}: {field} is that of {seen[key]}, {value!r:.80}; {advice}")
    seen.update(dict.fromkeys(hashed, place))


def refuse_repeats(values: Iterable[str], what: str) -> None:
    """Raises: ValueError naming `what` is repeated, and the value."""
    for value, count in Counter(values).most_common(1):
        if count > 1:
            raise ValueError(f"{what} {value!r:.80} is duplicated; rename or remove one of them")


def parse_lines(name: str, content: bytes, counts: Counter[str]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Each line's number, where it is in words, and its object, of the bytes of a file that errors
    call `name`.

    Raises: as `parse_line`.
    """
    return iterate_lines(name, BytesIO(content), Extra(counts))


def iterate_lines(name: str, lines: Iterable[bytes], extra: Extra) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """As `parse_lines`, of lines that are read one at a time.

    Raises: as `parse_line`, unless `extra` takes what is wrong with a line.
    """
    start = 0
    for number, line in enumerate(lines, start=1):
        try:
            item = parse_line(name, line, extra.counts, number, start)
        except ValueError as error:
            extra.skip(error)
        else:
            if item is not None:
                yield number, f"{name}, line {number}", item
        start += len(line)


def parse_line(name: str, line: bytes, counts: Counter[str], number: int, start: int) -> dict[str, Any] | None:
    """The JSON object of the line that begins at byte `start` of a file that errors call `name`;
    None of a blank one.

    A line ends at a line feed alone: other separators may be part of a JSON text. What is odd about
    it is counted.
    Raises: ValueError naming file and line for bytes that are no UTF-8, a line that is not one
        whole object, and a field that an object has twice.
    """
    where = f"{name}, line {number}"
    text = decode_text(name, line, number, start)
    counts["byte_order_mark"] += start == 0 and text.startswith("\ufeff")
    counts["carriage_returns"] += text.endswith(("\r\n", "\r"))
    text = text.removeprefix("\ufeff" if start == 0 else "")
    if not text.strip():
        counts["blank_lines"] += 1
        return None
    cut = "" if text.endswith("\n") else "the file ends inside this line, so it may have been cut short; "
    item = _parse(where, text, f"{cut}expected one whole object a line")
    if not isinstance(item, dict):
        raise ValueError(f"{where}: found {_describe(item)}; expected one JSON object per line")
    return item


def refuse_utf16(name: str, content: bytes) -> None:
    """Raises: ValueError for the beginning of a file, which errors call `name`, in UTF-16, with a
    mark or without.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:2]:
        raise ValueError(f"{name}: is UTF-16; save it as UTF-8")


def decode_text(name: str, content: bytes, line: int = 1, start: int = 0) -> str:
    """The text of a file that errors call `name`, or of what begins at its `line` and byte `start`.

    Raises: ValueError naming file and line for what is no UTF-8.
    """
    if start == 0:
        refuse_utf16(name, content)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line += content[: error.start].count(b"\n")
        byte = f"byte 0x{content[error.start]:02x} at offset {start + error.start}"
        raise ValueError(f"{name}, line {line}: {byte} is not UTF-8; save the whole file as UTF-8") from None


def _parse(where: str, text: str, advice: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_refuse_duplicates)
    except json.JSONDecodeError as error:  # its own count of lines would begin anew in each line of a file
        raise ValueError(f"{where}: not JSON ({error.msg}, character {error.pos + 1}); {advice}") from None
    except (ValueError, RecursionError) as error:  # a duplicated field, too deep
        raise ValueError(f"{where}: {error}; {advice}") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    refuse_repeats((field for field, _ in pairs), "in one object the field")
    return dict(pairs)


class _UniqueKeys(yaml.CSafeLoader):
    """Plain data, in which no key is given twice: the second would hide the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        refuse_repeats((str(key.value) for key, _ in node.value), f"line {node.start_mark.line + 1}: the key")
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The plain data of a YAML file.

    Raises: ValueError naming the file, and the line, when it isn't YAML or a mapping has a key
        twice.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: not YAML that can be read: {' '.join(str(error).split())}") from None
