"""What of a text counts: a model's thinking is removed, blanks and half characters are made plain."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections.abc import Callable, Mapping

# Where a model thinks before it speaks: how that begins, and how it ends.
_THINKING = {
    "<think>": "</think>", "<thinking>": "</thinking>", "<reasoning>": "</reasoning>", "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",  # Mistral
    "◁think▷": "◁/think▷",  # Kimi
    "<|START_THINKING|>": "<|END_THINKING|>",  # Command A
    "<|begin_of_thought|>": "<|end_of_thought|>",  # OpenThinker, Sky-T1
    "<|channel|>analysis": "<|channel|>final<|message|>",  # gpt-oss
    "analysis": "assistantfinal",  # the same where a server takes off special tokens
}  # fmt: skip
_STRIPPED = "analysis"  # a word like any other, unless its end follows, or a capital right after it
_BEGIN_OF = {end.lower(): begin.lower().rstrip(">") for begin, end in _THINKING.items() if begin != _STRIPPED}
_QUOTES = "'\"`()*\u2018\u2019\u201c\u201d\u00ab\u00bb"  # next to a mark that is only spoken of
_END = re.compile(rf"(?<![{_QUOTES}])(?:{'|'.join(map(re.escape, _THINKING.values()))})(?![{_QUOTES}])", re.IGNORECASE)
_AT_LINE_END = re.compile(r"[ \t]*\r?\n\s*\S")
_AT_LINE_START = re.compile(r"(?:\A|\n)[ \t]{0,50}\Z")
_BEFORE_SPEECH = re.compile(r"[ \t]*(?:\r?\n|\[\[)|[\w\[<#]")  # a sentence that goes on after a mark has a blank there
_SPEAKING = re.compile(r"\s*(?:<\|(?:START_RESPONSE|begin_of_solution|channel\|>final<\|message)\|>|<answer>)")
_SPOKEN = re.compile(r"(?:<\|(?:END_RESPONSE|end_of_solution|return|end)\|>|</answer>)\s*\Z")
_UNSEEN = "\ufeff\u200b \t\r\n"  # before the first mark
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
    """What is said after thinking: "" where nothing is, or the thinking has no end; the same text where there is none.

    Thinking begins with the text. Its end alone, where a chat template wrote the beginning, ends it as well, on a line
    of its own or before a line's end; a text that holds the beginning too stays as it is. A mark in code or next to a
    quotation mark, a bracket or an asterisk is only spoken of. Thinking may quote an end: of several the last that ends
    a line before others counts; else the last, or the first where a beginning follows it. Marks around what is said
    afterwards go too.
    """
    speech = _find_speech(text)
    spoken = _SPEAKING.match(speech)
    if spoken and "|>" not in spoken[0] and not _SPOKEN.search(speech):  # <answer> as a word of the answer
        spoken = None
    if speech is not text or spoken:
        speech = _SPOKEN.sub("", speech[spoken.end() :] if spoken else speech).strip()
    return speech


def _find_speech(text: str) -> str:
    start = text.lstrip(_UNSEEN).removeprefix("<|start|>assistant")
    lowered, marks = start.lower(), list(_END.finditer(start))
    fences = [fence.start() for fence in re.finditer("```", start)]
    ends = [end for end in marks if bisect(fences, end.start()) % 2 == 0]
    for begin, mark in _THINKING.items():
        if lowered.startswith(begin.lower()):
            same_kind = [[end for end in some if end[0].lower() == mark.lower()] for some in (ends, marks)]
            closing = same_kind[0] or same_kind[1]
            if not closing:
                return text if begin == _STRIPPED and not start[len(begin) :][:1].isupper() else ""
            at_line_end = [end for end in closing if _AT_LINE_END.match(start, end.end())]
            speaks_of_it = begin.lower() in lowered[closing[0].end() :]
            speech = start[(at_line_end or closing[: 1 if speaks_of_it else None])[-1].end() :]
            again = re.search(rf"^[ \t]*{re.escape(begin)}", speech, re.IGNORECASE | re.MULTILINE)  # without an end
            return "" if again and begin != _STRIPPED else speech
    begun = {end for end, begin in _BEGIN_OF.items() if begin in lowered} | {_THINKING[_STRIPPED]}
    alone = [
        end for end in ends
        if end[0].lower() not in begun
        and (
            _BEFORE_SPEECH.match(start, end.end())
            or _AT_LINE_START.search(start, max(0, end.start() - 99), end.start())
        )
    ]  # fmt: skip
    return start[alone[-1].end() :] if alone else text


def name_lack(text: str) -> str:
    """Why a text says nothing: "empty", without a visible character, or "only_thinking"; "" where it says something.

    Blanks, control and format characters, and accents without a letter are nothing.
    """
    for name, speech in (("empty", text), ("only_thinking", leave_out_thinking(text))):
        kinds = (unicodedata.category(character) for character in plain_blanks(speech))
        if all(kind[0] in "ZM" or kind in ("Cc", "Cf", "Cs") for kind in kinds):
            return name
    return ""


def plain_blanks(text: str) -> str:
    """The text with a blank for each run of no-break, thin and other unusual ones, without invisible characters."""
    return _BLANKS.sub(" ", _INVISIBLE.sub("", text))


def replace_surrogates(text: str) -> str:
    """The text with pairs of surrogates joined and half ones replaced by U+FFFD, so that UTF-8 can carry it."""
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
