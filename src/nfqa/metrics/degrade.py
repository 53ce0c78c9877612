"""Make an answer worse by rule: a seeded stand-in for the models that write lower-grade references.

Pure text rules without a model or a tagger: what is a sentence, a key sentence, a noun or a name is guessed from
punctuation, capitals, word length and the words shared with the question. English only; in other writing few rules
find anything, and misleading statements do the work.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Literal

Level = Literal[1, 2, 3]
LEVELS = 3

_SHORT = (
    "a about after again all also although always an and another any are as at be because been before being between"
    " both but by can cannot could did do does doing don't each either else ever every few for from had has have having"
    " he her here him his how however i if in into is isn't it its just let like made make many may me might more most"
    " much must my never no nor not now of off often on once one only or other our out over own perhaps quite rather"
    " really same she should since so some such than that the their them then there these they this those though"
    " through to too under until up upon us very was we were what when where whether which while who whom whose why"
    " will with within without would yes yet you your"
)
_FUNCTION_WORDS = frozenset(_SHORT.split())
_OPPOSITES = (
    "always never", "all none", "more less", "better worse", "good bad", "best worst", "increase decrease",
    "increases decreases", "before after", "safe dangerous", "helps harms", "true false", "yes no", "high low",
    "higher lower", "many few", "often rarely", "easy hard", "right wrong", "like dislike", "causes prevents",
)  # fmt: skip
_OPPOSITE = {word: other for pair in _OPPOSITES for word, other in (pair.split(), pair.split()[::-1])}
_STATEMENTS = (
    "In fact the opposite is the case, and nearly everyone gets this wrong.",
    "None of this matters, because the colour of the thing decides it alone.",
    "It was settled long ago that the moon is the cause of it.",
    "The one thing that works is to wait for seven years and do nothing.",
    "Experts now agree that there is no answer and that nobody should ask.",
    "All that is needed is salt, as the old rule has it.",
)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_CLAUSE_END = re.compile(r"(?<=[,;:])\s+|\s+(?=(?:and|but|or|because|so|then|when|if|while|which|where)\s)")
_ASIDE = re.compile(r"\s*\([^()]*\)|\s*\[[^\[\]]*\]")
_DETAIL = re.compile(
    r",?\s+(?:such as|for example|for instance|e\.g\.|including|especially|in particular|in order to|so that|due to)"
    r"\s[^,;.!?\n]*",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[0-9]+")
# "one" is mostly a pronoun
_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty", "hundred")
_COUNT = re.compile(rf"\b(?:{'|'.join(_COUNTS)})\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_AUXILIARY = re.compile(
    r"\b(cannot|(?:is|are|was|were|does|do|did|has|have|had|ca|could|wo|would|should|must)n['’]t"
    r"|(?:is|are|was|were|am|can|could|will|would|should|must|may|might|does|did)(?:\s+not)?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Degraded:
    """A worse text, and what was done to it, in order; a technique may occur more than once."""

    text: str
    techniques: tuple[str, ...]


def degrade(text: str, *, question: str, level: Level, seed: int, pool: Sequence[str] = ()) -> Degraded:
    """Make `text` worse as an answer to `question`.

    Level 1 omits details and swaps numbers; level 2, applied to the result of level 1, drops the key sentences,
    negates, and swaps a third of the nouns and names; level 3, applied to that of level 2, drops again, swaps most
    nouns and adds a misleading statement. A technique that finds nothing to change is passed over; a level that would
    be left with none adds a misleading statement. So each level lists strictly more techniques than the one below,
    starting with the same ones, and no two of text and levels have the same words.

    Args: level: 1, mild, to 3, severe; seed: every choice depends on a hash of (seed | question | text) alone; pool:
        texts that answer other questions. Misleading statements and foreign nouns are taken from it; without one,
        statements come from a short list and nouns change places inside the text.
    Raises: ValueError for a blank text or an unknown level.
    Source: the modifications that LINKAGE's prompt for lower-grade references asks a model for (Figure 9).
        Differs from: it, in that rules don't understand the text: a negated sentence may come out true.
    """
    if not text.strip():
        raise ValueError(f"the answer to {question!r} is blank; there is nothing to make worse")
    if level not in range(1, LEVELS + 1):
        raise ValueError(f"level is {level!r}; expected 1, 2 or 3")
    key = f"{seed}|{question}|{text}"
    seen, techniques = [_bare(text)], list[str]()
    for step in range(1, level + 1):
        before = len(techniques)
        for name, change in _plan(step, question, f"{key}|{step}", pool):
            changed = change(text).strip()
            if _bare(changed) not in (_bare(text), [], *seen):
                text = changed
                techniques.append(name)
        if len(techniques) == before:
            text = _mislead_anew(text, seen, f"{key}|{step}", pool)
            techniques.append("mislead")
        seen.append(_bare(text))
    return Degraded(text, tuple(techniques))


def _plan(step: int, question: str, key: str, pool: Sequence[str]) -> list[tuple[str, Callable[[str], str]]]:
    drop = partial(drop_key_sentences, question=question)
    if step == 1:
        return [
            ("omit_details", partial(omit_details, question=question)),
            ("swap_numbers", partial(swap_numbers, key=key)),
        ]
    if step == 2:
        swap = partial(swap_nouns, key=key, pool=pool, share=1 / 3)
        return [("drop_key_sentences", drop), ("negate", negate), ("swap_nouns", swap)]
    swap = partial(swap_nouns, key=key, pool=pool, share=2 / 3)
    return [("drop_key_sentences", drop), ("swap_nouns", swap), ("mislead", partial(mislead, key=key, pool=pool))]


def omit_details(text: str, *, question: str) -> str:
    """Leave out brackets, examples, and the sentence that shares fewest words with the question, the later of equals.

    Of a text of one or two sentences a clause goes instead; with fewer than three clauses all stay.
    """
    shorter = _DETAIL.sub("", _ASIDE.sub("", text))
    parts = _split(shorter, _SENTENCE_END)
    if len(parts) < 3:
        parts = _split(shorter, _CLAUSE_END)
    gone = _order_by_overlap(parts, question)[-1] if len(parts) > 2 else None
    return " ".join(part for i, part in enumerate(parts) if i != gone)


def drop_key_sentences(text: str, *, question: str) -> str:
    """Leave out the half of the sentences, rounded down, that shares most words with the question.

    The earlier counts as key where several share equally. A text of one sentence loses clauses instead; one of a
    single clause stays.
    """
    parts = _split(text, _SENTENCE_END)
    if len(parts) < 2:
        parts = _split(text, _CLAUSE_END)
    gone = set(_order_by_overlap(parts, question)[: len(parts) // 2])
    return " ".join(part for i, part in enumerate(parts) if i not in gone)


def negate(text: str) -> str:
    """Negate each sentence once: its first auxiliary gains or loses its "not", else a word becomes its opposite."""
    return " ".join(_negate_sentence(sentence) for sentence in _split(text, _SENTENCE_END))


def swap_numbers(text: str, *, key: str) -> str:
    """Change the first digit of every run of digits, and every count written out from "two" up, by `key`."""

    def change_digits(found: re.Match[str]) -> str:
        digits = found[0]
        others = [d for d in "123456789" if d != digits[0]]
        return others[_choose(f"{key}|{found.start()}", len(others))] + digits[1:]

    def change_count(found: re.Match[str]) -> str:
        others = [count for count in _COUNTS if count != found[0].lower()]
        return _match_case(others[_choose(f"{key}|{found.start()}", len(others))], found[0])

    return _COUNT.sub(change_count, _NUMBER.sub(change_digits, text))


def swap_nouns(text: str, *, key: str, pool: Sequence[str] = (), share: float) -> str:
    """Put foreign nouns and names in place of a share of those in the text, rounded up.

    Nouns and names are guessed: words with a capital inside a sentence, and words of five letters or more that are no
    function words. The foreign ones are from one text of `pool`, chosen by `key`; without a pool the words of the
    text change places, each taking the next one's.
    """
    own = {word.lower(): word for word in _find_nouns(text)}
    chosen = sorted(own, key=lambda word: _hash(f"{key}|{word}"))[: ceil(len(own) * share)]
    foreign = _find_nouns(pool[_choose(f"{key}|nouns", len(pool))]) if pool else []
    source = list(dict.fromkeys(foreign)) or [own[word] for word in (*chosen[1:], *chosen[:1])]
    change = {word: source[i % len(source)] for i, word in enumerate(chosen)}
    return _WORD.sub(lambda m: _match_case(change[m[0].lower()], m[0]) if m[0].lower() in change else m[0], text)


def mislead(text: str, *, key: str, pool: Sequence[str] = ()) -> str:
    """Add a statement beside the question: the longest sentence of one text of `pool`, or a stock one."""
    source = _split(pool[_choose(f"{key}|statement", len(pool))], _SENTENCE_END) if pool else []
    stock = _STATEMENTS[_choose(f"{key}|statement", len(_STATEMENTS))]
    return f"{text} {max(source, key=len, default=stock)}"


def _mislead_anew(text: str, seen: Sequence[list[str]], key: str, pool: Sequence[str]) -> str:
    turn = 0
    while _bare(text) in seen:  # longer with each turn, so it ends
        text = mislead(text, key=f"{key}|{turn}", pool=pool)
        turn += 1
    return text


def _negate_sentence(sentence: str) -> str:
    turned = _AUXILIARY.sub(_turn_auxiliary, sentence, count=1)
    if turned != sentence:
        return turned
    for found in _WORD.finditer(sentence):
        if found[0].lower() in _OPPOSITE:
            return (
                sentence[: found.start()] + _match_case(_OPPOSITE[found[0].lower()], found[0]) + sentence[found.end() :]
            )
    return sentence


def _turn_auxiliary(found: re.Match[str]) -> str:
    word = found[0]
    lower = word.lower().replace("’", "'")
    if lower in ("cannot", "can't"):
        return _match_case("can", word)
    if lower == "won't":
        return _match_case("will", word)
    if lower.endswith("n't"):
        return word[:-3]
    first, *rest = word.split()
    return first if rest else f"{word} not"


def _split(text: str, end: re.Pattern[str]) -> list[str]:
    return [part.strip() for part in end.split(text) if _bare(part)]


def _bare(text: str) -> list[str]:
    """The words and numbers alone: texts that differ in blanks or punctuation only count as equal."""
    return re.findall(r"\w+", text)


def _order_by_overlap(parts: Sequence[str], question: str) -> list[int]:
    """Places of the parts, from the one that shares most words with the question, the earlier first among equals."""
    asked = _find_content(question)
    return sorted(range(len(parts)), key=lambda i: (-len(asked & _find_content(parts[i])), i))


def _find_content(text: str) -> set[str]:
    words = (word.lower() for word in _WORD.findall(text))
    return {word[:5] for word in words if word not in _FUNCTION_WORDS}  # the beginning stands for the stem


def _find_nouns(text: str) -> list[str]:
    nouns = []
    for sentence in _split(text, _SENTENCE_END):
        for place, word in enumerate(_WORD.findall(sentence)):
            name = place > 0 and word[0].isupper() and len(word) > 1
            if word.lower() not in _FUNCTION_WORDS and (name or len(word) >= 5):
                nouns.append(word if name else word.lower())
    return nouns


def _match_case(word: str, model: str) -> str:
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def _choose(key: str, count: int) -> int:
    return int.from_bytes(_hash(key)[:8], "big") % count


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
