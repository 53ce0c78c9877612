"""What of a text counts: a model's thinking is removed, blanks and half characters are made plain."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

_TAGS = "think|thinking|reasoning|thought"
# Thinking before a text: blocks that begin it, the last perhaps without an end; or, where a chat template wrote the
# beginning, all up to an end that closes its line.
_THINKING = re.compile(
    rf"(?:[\s\ufeff\u200b]*<({_TAGS})>.*?(?:</\1>|\Z))+|(?!.*<(?:{_TAGS})>).*</(?:{_TAGS})>[ \t\r]*(?:\n|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_BLANKS = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\uffa0]+")
_INVISIBLE = re.compile(  # but what joins letters and emoji, U+200C and U+200D
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]+"
)
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SHORT = (
    "a about after again all also although always an and another any are as at be because been before being between"
    " both but by can cannot could did do does doing don't each either else ever every few for from had has have having"
    " he her here him his how however i if in into is isn't it its just let like made make many may me might more most"
    " much must my never no nor not now of off often on once one only or other our out over own perhaps quite rather"
    " really same she should since so some such than that the their them then there these they this those though"
    " through to too under until up upon us very was we were what when where whether which while who whom whose why"
    " will with within without would yes yet you your"
)
FUNCTION_WORDS = frozenset(_SHORT.split())


def leave_out_thinking(text: str) -> str:
    """What is said after thinking: "" where nothing is, or the thinking has no end; the same text
    where there is none.

    Thinking stands between tags: <think>, <thinking>, <reasoning> or <thought>. It begins with the
    text. Where its beginning is missing, as a chat template wrote it, an end at the end of a line
    ends it as well; a text that holds a beginning further on stays as it is. Other marks of
    thinking are text like any other.
    """
    thinking = _THINKING.match(text)
    return text[thinking.end() :].strip() if thinking else text


def name_lack(text: str) -> str:
    """Why a text says nothing: "empty", without a visible character, or "only_thinking"; "" where
    it says something.

    Blanks, control and format characters, and accents without a letter are nothing.
    """
    for name, speech in (("empty", text), ("only_thinking", leave_out_thinking(text))):
        kinds = (unicodedata.category(character) for character in plain_blanks(speech))
        if all(kind[0] in "ZM" or kind in ("Cc", "Cf", "Cs") for kind in kinds):
            return name
    return ""


def plain_blanks(text: str) -> str:
    """The text with a blank for each run of no-break, thin and other unusual ones, without
    invisible characters.
    """
    return _BLANKS.sub(" ", _INVISIBLE.sub("", text))


def replace_surrogates(text: str) -> str:
    """The text with pairs of surrogates joined and half ones replaced by U+FFFD, so that UTF-8 can
    carry it.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


CHANGES: dict[str, Callable[[str], str]] = {  # of a user's text, in this order; counted under these names
    "half_characters": replace_surrogates,
    "thinking_left_out": lambda text: leave_out_thinking(text) or text,  # one that only thinks is excluded whole
    "blanks_made_plain": plain_blanks,
}


def sign_changes(counts: Mapping[str, int]) -> str:
    """What the signature of scores says of changed texts; "" where none was changed."""
    changed = [name for name in CHANGES if counts.get(name)]
    return f"|texts:{','.join(changed)}" if changed else ""
