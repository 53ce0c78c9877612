"""Dispute Awareness by keywords alone: what a few words find, the baseline of a better detector."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Rule = Literal["one_word", "phrases", "phrases_or_sides"]
CUES = ("phrase", "supporters", "critics", "some_say", "others_say", "two_sides")

_ONE_WORD = re.compile(r"\bdebat(?:e|es|ed|able|ing)\b", re.IGNORECASE)
# Each alternative says that something is disputed. What plain prose uses too ("complex", "it depends on", "mixed") is
# left out.
_PHRASES = re.compile(
    r"\bdebat(?:e|es|ed|able|ing)\b|\bcontrovers(?:y|ies|ial)\b|\bcontest(?:ed|able)\b|\bcontentious\b|\bcontention\b"
    r"|\bdisput(?:e|es|ed)\b|\bdisagree(?:s|ment|ments)?\b|\bdivisive\b|\bpolari[sz]ing\b|\bunsettled\b|\bunresolved\b"
    r"|\b(?:no|without|lack of|never reached|not reached)\b[^.;:!?]{0,40}\b(?:consensus|agreement)\b"
    r"|\bno (?:single|one|definitive|simple|right|correct|clear|universal(?:ly accepted)?)\b[^.;:!?]{0,20}\banswers?\b"
    r"|\b(?:opinions?|views?|attitudes?|perspectives|beliefs)\b[^.;:!?]{0,40}\b(?:vary|varies|differ|diverge|clash)\b"
    r"|\b(?:differ(?:ent|ing)|diverse|conflicting|opposing|competing|var(?:ied|ying))\b[^.;:!?]{0,20}"
    r"\b(?:views?|viewpoints?|opinions?|perspectives?|positions|interpretations|schools of thought)\b"
    r"|\bmatter of (?:opinion|perspective|taste)\b|\bopen question\b|\bjury is (?:still )?out\b|\bnot everyone agrees\b"
    r"|\b(?:divided|split) (?:on|over|about)\b|\bsubjective\b",
    re.IGNORECASE,
)
_SPEAK = (
    r"(?:say|argue|claim|believe|contend|maintain|hold|think|see|view|feel|point|worry|fear|warn|object|insist|assert|"
    r"stress|emphasi[sz]e|counter|reply|regard|consider|call|suggest|advocate|oppose|support|prefer|doubt|question)s?\b"
)
_FOR = re.compile(r"\b(?:supporters?|proponents?|advocates?|defenders?|those in favou?r|champions)\b", re.IGNORECASE)
_AGAINST = re.compile(r"\b(?:critics?|opponents?|sceptics?|skeptics?|detractors?|those against)\b", re.IGNORECASE)
_SOME = re.compile(rf"\bsome(?:\s+[\w'-]+){{0,4}}?\s+(?:may |might |also )?{_SPEAK}", re.IGNORECASE)
_OTHERS = re.compile(rf"\bothers?(?:\s+[\w'-]+){{0,4}}?\s+(?:may |might |also )?{_SPEAK}", re.IGNORECASE)


def apply_rule(texts: Sequence[str], rule: Rule) -> NDArray[np.bool_]:
    """Which answers a keyword rule takes for aware of a dispute, [len(texts)].

    one_word: "debate" in any of its forms. phrases: any of a list of phrases ("controversial", "no
    consensus", "views differ", "there is no single answer", ...). phrases_or_sides: a phrase, or
    two attributed sides anywhere in the
    answer: supporters (proponents, advocates) and critics (opponents, sceptics), or "some argue"
    and "others say". An empty answer is aware of nothing.
    Source: this project's, written before any label of a real answer was seen. Words alone do not
        show the topic of a dispute.
    """
    words = np.array([_ONE_WORD.search(text) is not None for text in texts], dtype=np.bool_)
    cues = np.array([list_cues(text) for text in texts], dtype=np.bool_).reshape(-1, len(CUES))
    return {"one_word": words, "phrases": cues[:, 0], "phrases_or_sides": cues[:, 0] | cues[:, -1]}[rule]


def list_cues(text: str) -> tuple[bool, ...]:
    """The cues of the rules, in the order of CUES."""
    phrase, *sides = (part.search(text) is not None for part in (_PHRASES, _FOR, _AGAINST, _SOME, _OTHERS))
    return (phrase, *sides, (sides[0] and sides[1]) or (sides[2] and sides[3]))
