"""Make an answer worse by rule: a seeded proxy for the models that write lower-grade references.

Pure text rules without a model or a tagger: what is a sentence, a key sentence, a noun or a name is guessed from
punctuation, capitals, word length and the words shared with the question. English only; in other writing few rules
find anything, and misleading statements do the work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil

from nfqa.kernels.texts import FUNCTION_WORDS, WORD
from nfqa.metrics.references import hash_name
from reproduction.studies.drawing import choose

_OPPOSITES = (
    "always never", "all none", "more less", "better worse", "good bad", "best worst", "increase decrease",
    "increases decreases", "before after", "safe dangerous", "helps harms", "true false", "yes no", "high low",
    "higher lower", "many few", "often rarely", "easy hard", "right wrong", "like dislike", "causes prevents",
)  # fmt: skip
_OPPOSITE = {word: other for pair in _OPPOSITES for word, other in (pair.split(), pair.split()[::-1])}
_IRREGULAR = {"cannot": "can", "can't": "can", "won't": "will"}
_STATEMENTS = (
    "In fact the opposite is the case, and nearly everyone gets this wrong.",
    "None of this matters, because the colour of the thing decides it alone.",
    "It was settled long ago that the moon is the cause of it.",
    "The one thing that works is to wait for seven years and do nothing.",
    "Experts now agree that there is no answer and that nobody should ask.",
    "All that is needed is salt, as the old rule has it.",
)

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
# A run of blanks is tried once and as a whole, so that no text makes the search slow.
_CLAUSE_END = re.compile(r"(?<=[,;:])\s+|(?<!\s)\s++(?=(?:and|but|or|because|so|then|when|if|while|which|where)\s)")
_ASIDE = re.compile(r"(?<!\s)\s*+(?:\([^()]*\)|\[[^\[\]]*\])")
_DETAIL = re.compile(
    r",?\s++(?:such as|for example|for instance|e\.g\.|including|especially|in particular|in order to|so that|due to)"
    r"\s[^,;.!?\n]*|(\s{2,}+)",  # the group is passed over: blanks before no detail
    re.IGNORECASE,
)
# "one" is mostly a pronoun
_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty", "hundred")
_NUMBER = re.compile(rf"[0-9]+|\b(?:{'|'.join(_COUNTS)})\b", re.IGNORECASE)
_AUXILIARY = re.compile(
    r"\b(cannot|(?:is|are|was|were|does|do|did|has|have|had|ca|could|wo|would|should|must)n['’]t"
    r"|(?:is|are|was|were|am|can|could|will|would|should|must|may|might|does|did)(?:\s+not)?)\b",
    re.IGNORECASE,
)


def degrade(text: str, *, question: str, seed: int, pool: Sequence[str] = ()) -> tuple[str, ...]:
    """Make `text` worse as an answer to `question`: three texts, each made from the one before and worse.

    The first omits details and swaps numbers; the second drops key sentences, negates, and swaps a third of the nouns
    and names; the third drops again, swaps most nouns and adds a misleading statement. A change that finds nothing to
    do is passed over; a text that would stay as it is gains a misleading statement. No two of text and results have
    the same words.

    Args: seed: every choice depends on a hash of (seed | question | text) alone; pool: texts that answer other
        questions. Misleading statements and foreign nouns are taken from it; without one, statements come from a short
        list and nouns change places inside the text.
    Source: the modifications that LINKAGE's prompt for lower-grade references asks a model for (Figure 9).
        Differs from: it, in that rules don't understand the text: a negated sentence may come out true.
    """
    key = f"{seed}|{question}|{text}"
    drop = partial(drop_key_sentences, question=question)
    swap = partial(swap_nouns, pool=pool)
    last = f"{key}|3"
    levels: tuple[tuple[Callable[[str], str], ...], ...] = (
        (partial(omit_details, question=question), partial(swap_numbers, key=f"{key}|1")),
        (drop, negate, partial(swap, key=f"{key}|2", share=1 / 3)),
        (drop, partial(swap, key=last, share=2 / 3), partial(mislead, key=last, pool=pool)),
    )
    seen = [_bare(text)]
    worse = []
    for level, changes in enumerate(levels, start=1):
        for change in changes:
            changed = change(text).strip()
            if _bare(changed) not in (_bare(text), [], *seen):
                text = changed
        turn = 0
        while _bare(text) in seen:  # longer with each turn, so it ends
            text = mislead(text, key=f"{key}|{level}|{turn}", pool=pool)
            turn += 1
        seen.append(_bare(text))
        worse.append(text)
    return tuple(worse)


def omit_details(text: str, *, question: str) -> str:
    """Remove brackets, examples, and the sentence that shares fewest words with the question, the later of equals.

    Of a text of one or two sentences a clause goes instead; with fewer than three clauses all stay.
    """
    shorter = _DETAIL.sub(r"\1", _ASIDE.sub("", text))
    return _drop_parts(shorter, question, 3, lambda order: order[-1:] if len(order) > 2 else [])


def drop_key_sentences(text: str, *, question: str) -> str:
    """Remove the half of the sentences, rounded down, that shares most words with the question.

    The earlier counts as key where several share equally. A text of one sentence loses clauses instead; one of a
    single clause stays.
    """
    return _drop_parts(text, question, 2, lambda order: order[: len(order) // 2])


def negate(text: str) -> str:
    """Negate each sentence once: its first auxiliary gains or loses its "not", else a word becomes its opposite."""
    return " ".join(_negate_sentence(sentence) for sentence in _split(text, SENTENCE_END))


def swap_numbers(text: str, *, key: str) -> str:
    """Change the first digit of every run of digits, and every count written out from "two" up, by `key`."""

    def change(match: re.Match[str]) -> str:
        first, known = (match[0][0], "123456789") if match[0].isdigit() else (match[0], _COUNTS)
        others = [one for one in known if one != first.lower()]
        return _match_case(others[choose(f"{key}|{match.start()}", len(others))], first) + match[0][len(first) :]

    return _NUMBER.sub(change, text)


def swap_nouns(text: str, *, key: str, pool: Sequence[str] = (), share: float) -> str:
    """Put foreign nouns and names in place of a share of those in the text, rounded up.

    Nouns and names are guessed: words with a capital inside a sentence, and words of five letters or more that are no
    function words. The foreign ones are from one text of `pool`, chosen by `key`; without a pool the words of the
    text change places, each taking the next one's.
    """
    nouns = {word.lower(): word for word in _find_nouns(text)}
    chosen = sorted(nouns, key=lambda word: hash_name(f"{key}|{word}"))[: ceil(len(nouns) * share)]
    foreign = _find_nouns(pool[choose(f"{key}|nouns", len(pool))]) if pool else []
    source = list(dict.fromkeys(foreign)) or [nouns[word] for word in (*chosen[1:], *chosen[:1])]
    change = {word: source[i % len(source)] for i, word in enumerate(chosen)}
    return WORD.sub(lambda m: _match_case(change[m[0].lower()], m[0]) if m[0].lower() in change else m[0], text)


def mislead(text: str, *, key: str, pool: Sequence[str] = ()) -> str:
    """Add a statement beside the question: the longest sentence of one text of `pool`, or a stock one."""
    source = _split(pool[choose(f"{key}|statement", len(pool))], SENTENCE_END) if pool else []
    stock = _STATEMENTS[choose(f"{key}|statement", len(_STATEMENTS))]
    return f"{text} {max(source, key=len, default=stock)}"


def _negate_sentence(sentence: str) -> str:
    turned = _AUXILIARY.sub(_turn_auxiliary, sentence, count=1)
    match = next((word for word in WORD.finditer(sentence) if word[0].lower() in _OPPOSITE), None)
    if turned != sentence or match is None:
        return turned
    opposite = _match_case(_OPPOSITE[match[0].lower()], match[0])
    return sentence[: match.start()] + opposite + sentence[match.end() :]


def _turn_auxiliary(match: re.Match[str]) -> str:
    word = match[0]
    lower = word.lower().replace("’", "'")
    if lower in _IRREGULAR:
        return _match_case(_IRREGULAR[lower], word)
    if lower.endswith("n't"):
        return word[:-3]
    first, *rest = word.split()
    return first if rest else f"{word} not"


def _split(text: str, end: re.Pattern[str]) -> list[str]:
    return [part.strip() for part in end.split(text) if _bare(part)]


def _bare(text: str) -> list[str]:
    """The words and numbers alone: texts that differ in blanks or punctuation only count as equal."""
    return re.findall(r"\w+", text)


def _drop_parts(text: str, question: str, fewest: int, pick: Callable[[list[int]], list[int]]) -> str:
    """The text without some of its sentences, or of its clauses where it has fewer than `fewest` sentences.

    pick: which go, of the parts' places in order of the words that they share with the question, most and first first.
    """
    parts = _split(text, SENTENCE_END)
    content = _find_content(question)
    if len(parts) < fewest:
        parts = _split(text, _CLAUSE_END)
    dropped = {*pick(sorted(range(len(parts)), key=lambda i: (-len(content & _find_content(parts[i])), i)))}
    return " ".join(part for i, part in enumerate(parts) if i not in dropped)


def _find_content(text: str) -> set[str]:
    words = (word.lower() for word in WORD.findall(text))
    return {word[:5] for word in words if word not in FUNCTION_WORDS}  # the beginning stands for the stem


def _find_nouns(text: str) -> list[str]:
    nouns = []
    for sentence in _split(text, SENTENCE_END):
        for place, word in enumerate(WORD.findall(sentence)):
            name = place > 0 and word[0].isupper() and len(word) > 1
            if word.lower() not in FUNCTION_WORDS and (name or len(word) >= 5):
                nouns.append(word if name else word.lower())
    return nouns


def _match_case(word: str, model: str) -> str:
    return word[:1].upper() + word[1:] if model[:1].isupper() else word
