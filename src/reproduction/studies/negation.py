"""Negating a text by rule, without a model or a tagger; English only."""

from __future__ import annotations

import re

from nfqa.kernels.texts import WORD

_OPPOSITES = (
    "always never", "all none", "more less", "better worse", "good bad", "best worst", "increase decrease",
    "increases decreases", "before after", "safe dangerous", "helps harms", "true false", "yes no", "high low",
    "higher lower", "many few", "often rarely", "easy hard", "right wrong", "like dislike", "causes prevents",
)  # fmt: skip
_OPPOSITE = {word: other for pair in _OPPOSITES for word, other in (pair.split(), pair.split()[::-1])}
_IRREGULAR = {"cannot": "can", "can't": "can", "won't": "will"}

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_AUXILIARY = re.compile(
    r"\b(cannot|(?:is|are|was|were|does|do|did|has|have|had|ca|could|wo|would|should|must)n['’]t"
    r"|(?:is|are|was|were|am|can|could|will|would|should|must|may|might|does|did)(?:\s+not)?)\b",
    re.IGNORECASE,
)


def negate(text: str) -> str:
    """Negate each sentence once: its first auxiliary gains or loses its "not", else a word becomes
    its opposite.

    A sentence without a word or number is dropped. Rules don't understand the text: a negated
    sentence may be true.
    """
    sentences = (part.strip() for part in SENTENCE_END.split(text))
    return " ".join(_negate_sentence(sentence) for sentence in sentences if re.search(r"\w", sentence))


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


def _match_case(word: str, model: str) -> str:
    return word[:1].upper() + word[1:] if model[:1].isupper() else word
