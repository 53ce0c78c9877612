"""ROUGE over sets of n-grams and unions of subsequences: the arithmetic of the PyPI package
`rouge`, only faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

Sentences = Sequence[Sequence[str]]  # a text as sentences of words
_GUARD = 1e-8  # the package adds it below the line of F, so that 0/0 is 0; kept, to be equal


class RougeF(NamedTuple):
    """F of ROUGE-1, ROUGE-2 and summary-level ROUGE-L, each in [0, 1)."""

    rouge1: float
    rouge2: float
    rougel: float


def score_rouge_sets(candidate: Sentences, reference: Sentences) -> RougeF:
    """F = 2PR / (P + R + 1e-8) with P = hits / |candidate set| and R = hits / |reference set|.

    ROUGE-n: the sets are the distinct n-grams of all words in a row, across sentences. ROUGE-L:
    hits are the distinct words in the union, over every reference sentence and candidate sentence,
    of one longest common subsequence of the two; the sets are the distinct words. Where several
    longest subsequences exist, the one is taken that a walk back through the table finds which
    turns to the reference only when that keeps strictly more.

    Args: candidate, reference: words by sentence, compared as they are. A side without sentences
        scores 0.
    Source: Lin (2004); PyPI package rouge 1.0.1, which the LINKAGE authors ran, equal to it bit for
        bit.
    Differs from: Lin (2004), where a repeated n-gram counts as often as it occurs; and from the
        package, which raises on a side without sentences.
    """
    if not candidate or not reference:
        return RougeF(0.0, 0.0, 0.0)
    c_words = [word for sentence in candidate for word in sentence]
    r_words = [word for sentence in reference for word in sentence]
    matches: set[str] = set()
    c_sentences = [(sentence, frozenset(sentence)) for sentence in dict.fromkeys(map(tuple, candidate))]
    for r_sentence in dict.fromkeys(map(tuple, reference)):
        missing = set(r_sentence) - matches
        for c_sentence, c_present in c_sentences:
            if not missing.isdisjoint(c_present):  # else the pair could only find again what was found
                new = _find_subsequence(r_sentence, c_sentence)
                matches |= new
                missing -= new
    c_set = set(c_words)
    r_set = set(r_words)
    c_pairs = set(pairwise(c_words))
    r_pairs = set(pairwise(r_words))
    return RougeF(
        _combine(len(c_set & r_set), len(c_set), len(r_set)),
        _combine(len(c_pairs & r_pairs), len(c_pairs), len(r_pairs)),
        _combine(len(matches), len(c_set), len(r_set)),
    )


def _combine(hits: int, in_candidate: int, in_reference: int) -> float:
    precision = hits / in_candidate if in_candidate else 0.0
    recall = hits / in_reference if in_reference else 0.0
    return 2.0 * ((precision * recall) / (precision + recall + _GUARD))


def _find_subsequence(x: Sequence[str], y: Sequence[str]) -> set[str]:
    """The distinct words of one longest common subsequence of x and y.

    Bit j of rows[i] is 0 where the table of lengths grows from (i, j) to (i, j + 1): a row is one
    whole number, made from the row above by an addition whose carries do the comparing (Hyyro,
    2004). Where the two words differ and the table grows along y, the neighbour without x's word is
    strictly longer: the one case in which the walk turns to x. Words of y that x lacks never change
    the walk and are excluded first. Words of x that y lacks do: they decide how far the walk goes
    along y before it turns, so their rows stay, as copies of the row above.
    """
    shared = set(x)
    y = [word for word in y if word in shared]
    places: dict[str, int] = {}
    for j, word in enumerate(y):
        places[word] = places.get(word, 0) | 1 << j
    row = full = (1 << len(y)) - 1
    rows = [row]
    for word in x:
        if at := row & places.get(word, 0):
            row = (row + at | row - at) & full
        rows.append(row)
    i = len(x)
    j = len(y)
    words = set()
    while i and j:
        if x[i - 1] == y[j - 1]:
            words.add(x[i - 1])
            i = i - 1
            j = j - 1
        elif rows[i] >> j - 1 & 1:
            j -= 1
        else:
            i -= 1
    return words
