"""Answers that a score should not be trusted for: rules that find them, whose thresholds honest
answers chose.

An answer that repeats its question is near to it in every vector, one that copies a reference is
near to that: a judge by vectors places both high. A flag changes no score; it says which to look
at, and out of which means an answer is left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd

from nfqa.kernels.texts import FUNCTION_WORDS

# Chosen on the development half of ANTIQUE: of a grid in the notebook linkage/judge_health, the strictest value at
# which at most 1 % of its answers, all written by people in good faith, are beyond it. A cosine to the question was
# tried and left out: from 0.85 on it marks answers that people there grade above average, 2.1 of 3 against 1.6.
THRESHOLDS = {
    "words": 1,  # fewer: `empty`. Not by that rule: people there grade 22 of 48 answers of one word 2 or 3
    "question_share": 0.8,  # from here on, with half of the question's words: `repeats_question`
    "copied": 0.5,  # from here on: `copies_reference`, `copies_view`
    "repeated": 0.3,  # from here on: `repeats_itself`
    "times": 6.0,  # from here on: `length`
}
FLAGS = {  # after "It ..."
    "empty": "has no word",
    "repeats_question": (
        f"holds the whole question, or {THRESHOLDS['question_share']:.0%} of its words are the question's"
        " and half of the question's are in it"
    ),
    "copies_reference": f"has a reference's words, or {THRESHOLDS['copied']:.0%} of its runs of four words are in one",
    "copies_view": f"has a point of view's words, or {THRESHOLDS['copied']:.0%} of its runs of four words are in views",
    "repeats_itself": f"repeats {THRESHOLDS['repeated']:.0%} or more of its runs of four words",
    "length": f"is {THRESHOLDS['times']:g} times as long as its longest reference, or as short as its shortest one",
    "verdict_mark": "holds a mark such as [[1]], by which a language model's verdict is read",
    "not_english": "does not seem to be English, which alone the packaged models read",
    "one_word": "is one word",
}
NOT_ENGLISH = "not_english"
SCORE_KINDS = {  # a flag harms a score by how that reads an answer
    "vectors": "embedded judge",
    "references": "language model shown references",
    "model": "language model shown the answer alone",
    "detector": "D.A. by the detector",
    "pd": "P.D. and its share",
    "coverage": "coverage by vectors",
    "reader": "coverage by SmolLM2",
    "rouge": "ROUGE",
    "bertscore": "BERTScore",
}
_KINDS = {"embedded_judge": "vectors", "listwise": "references", "pointwise_ref": "references"}
_KINDS |= {"pairwise": "references", "pointwise": "model", "da": "detector", "pd": "pd", "pd_share": "pd"}
_KINDS |= {"coverage": "coverage", "rouge1": "rouge", "rouge2": "rouge", "rougel": "rouge", "bertscore": "bertscore"}
_KINDS_BY_SIGNATURE = {("da", "judge"): "model", ("coverage", "reader"): "reader"}  # one metric, read in several ways
_KINDS_BY_SIGNATURE |= {("coverage", "judge"): "model"}
# The scores that each flag harms: they say more, or less, of such an answer than a reader would. docs/formats.md has
# the reasons. `length` harms none: on the development half people grade short answers 1.2 of 3 on average and long
# ones 2.6.
HARMS: dict[str, tuple[str, ...]] = {
    "empty": tuple(SCORE_KINDS),
    "repeats_question": ("vectors", "pd", "coverage", "rouge", "bertscore"),
    "copies_reference": ("vectors", "references", "rouge", "bertscore"),
    "copies_view": ("pd", "coverage"),
    "repeats_itself": ("vectors", "pd"),
    "length": (),
    "verdict_mark": ("references", "model"),
    NOT_ENGLISH: ("vectors", "detector", "pd", "coverage", "reader", "bertscore"),
    "one_word": (),
}
_RUN = 4  # words
_COVERED = 0.5  # share of the question's words
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # written without spaces: a letter counts as a word
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_MARK = re.compile(r"\[\[\s*\w{1,4}\s*\]\]")
_ENGLISH_FROM = 0.15  # share of function words among words
_FOREIGN_FROM = 0.2  # share of other letters among letters
_READABLE = 10  # words from which the language is guessed


def describe_answers(
    answers: pd.DataFrame,
    questions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    views: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """The quantities that decide the flags: one row per answer, in order.

    Args: answers: question, text, and any columns that name the answer; questions: their texts,
        references: those of each question that has any, views: its points of view with their
        explanations, all by the column `question`.
    Returns: the columns of `answers` but text; words; question_share, of the answer's words those
        that the question has, NaN where it has not half of the question's; question_inside, whether
        the question's words, three or more, are in it in a row; copied, of its runs of four words
        those of the reference that has most, 1 for equal words, NaN without a reference;
        copied_view, where views are given, that share for all points of view together, as an answer
        should cover them all; repeated, of these runs those that are there before; times, how often
        its length holds the longest reference's or the shortest one's length holds its own, NaN
        without a reference; mark, whether a verdict could be read in it; english, as
        `seems_english`. Case and punctuation don't count.
    """
    known = {name: [_split(text) for text in texts] for name, texts in references.items()}
    view_words = {name: [_split(text) for text in texts] for name, texts in (views or {}).items()}
    question_words = {name: _split(text) for name, text in questions.items()}
    rows = [
        _describe(text, question_words[name], known.get(name, ()), view_words.get(name, ()))
        for text, name in zip(answers.text, answers.question, strict=True)
    ]
    described = pd.DataFrame(rows, index=answers.index)
    return answers.drop(columns="text").join(described if views is not None else described.drop(columns="copied_view"))


def flag_answers(described: pd.DataFrame) -> pd.DataFrame:
    """Which flags hold, from `describe_answers`: a column of booleans for each of FLAGS. What is
    NaN flags nothing.

    `copies_view` is decided only for answers that were described beside points of view.
    """
    beyond = pd.DataFrame({name: is_beyond(described[name], name) for name in THRESHOLDS})
    of_views = {"copies_view": is_beyond(described.copied_view, "copied")} if "copied_view" in described else {}
    flagged = {"empty": beyond.words, "repeats_question": described.question_inside | beyond.question_share}
    flagged |= {"copies_reference": beyond.copied, **of_views, "repeats_itself": beyond.repeated}
    flagged |= {"length": beyond.times, "verdict_mark": described.mark}
    return pd.DataFrame(flagged | {NOT_ENGLISH: ~described.english, "one_word": described.words == 1})


def flag_frames(
    answers: pd.DataFrame, references: pd.DataFrame, views: pd.DataFrame, questions: Mapping[str, str]
) -> pd.DataFrame:
    """The flags of each answer, as `join_flags` names them.

    Args: frames as `nfqa.Frames` has them; questions: texts by name. Returns: question, answer,
        flags.
    """
    if answers.empty:
        return answers[["question", "answer"]].assign(flags="")
    texts = ({name: list(part.text) for name, part in frame.groupby("question")} for frame in (references, views))
    described = describe_answers(answers[["question", "answer", "text"]], questions, *texts)
    return answers[["question", "answer"]].assign(flags=join_flags(flag_answers(described)))


def is_beyond(values: pd.Series, name: str, threshold: float | None = None) -> pd.Series:
    """Whether a quantity of `describe_answers` counts against an answer: few words, or much of
    anything else.
    """
    threshold = THRESHOLDS[name] if threshold is None else threshold
    return values < threshold if name == "words" else values >= threshold


def join_flags(flagged: pd.DataFrame) -> pd.Series:
    """The names of the flags that hold for each answer, "; " between them, "" for none."""
    return flagged.apply(lambda row: "; ".join(flagged.columns[row]), axis=1).astype(object)


def name_kind(metric: str, signature: str) -> str:
    """Which of SCORE_KINDS a score is, by its metric and the first word of its signature; "" for
    any other metric.
    """
    first = signature.partition(":")[0]
    return _KINDS_BY_SIGNATURE.get((metric, first)) or _KINDS.get(metric, "")


@cache
def is_harmed(flags: str, metric: str, signature: str) -> bool:
    """Whether one of an answer's flags harms a score, by HARMS.

    A metric of another name is harmed by each flag that harms any score, and a flag of another name
    harms every score.
    Args: flags: names, ";" between them; signature: of the score, "" where unknown.
    """
    kind = name_kind(metric, signature)
    for flag in filter(None, map(str.strip, flags.split(";"))):
        harmed = HARMS.get(flag)
        if harmed is None or kind in harmed or (kind == "" and harmed):
            return True
    return False


def seems_english(text: str) -> bool:
    """Whether the text could be English: a guess by its letters and function words, True for under
    ten words.

    It is taken for another language where a fifth of its letters are not a to z, or where under 15
    % of its words are English function words, which make up a third to a half of English prose.
    """
    words = _split(text)
    if len(words) < _READABLE:
        return True
    letters = [letter for letter in text if letter.isalpha()]
    foreign = sum(not letter.isascii() for letter in letters) / max(len(letters), 1)
    return foreign < _FOREIGN_FROM and _share_function_words(words) >= _ENGLISH_FROM


def _share_function_words(words: Sequence[str]) -> float:
    return sum(word in FUNCTION_WORDS for word in words) / len(words)


def _describe(
    text: str, question: Sequence[str], references: Sequence[Sequence[str]], views: Sequence[Sequence[str]]
) -> dict[str, object]:
    words = _split(text)
    runs = _list_runs(words)
    lengths = [len(reference) for reference in references]
    return {
        "words": len(words),
        "question_share": _measure_question_share(words, question),
        "question_inside": len(question) >= 3 and tuple(question) in _list_runs(words, len(question)),
        "copied": max((_measure_copied(words, [reference]) for reference in references), default=np.nan),
        "copied_view": _measure_copied(words, views) if views else np.nan,
        "repeated": 1 - len(set(runs)) / len(runs) if runs else 0.0,
        "times": max(len(words) / max(*lengths, 1), min(lengths) / max(len(words), 1)) if lengths else np.nan,
        "mark": bool(_MARK.search(text)),
        "english": seems_english(text),
    }


def _measure_question_share(words: Sequence[str], question: Sequence[str]) -> float:
    """The share of words that the question has; NaN where fewer than half of the question's are
    among them.
    """
    covered = bool(question) and len({*words} & {*question}) >= _COVERED * len({*question})
    return sum(word in question for word in words) / len(words) if covered else np.nan


def _measure_copied(words: Sequence[str], texts: Sequence[Sequence[str]], length: int = _RUN) -> float:
    """The share of runs of words that are in any of the texts; 1 for the words of one."""
    runs = _list_runs(words, length)
    known = {run for text in texts for run in _list_runs(text, length)}
    return 1.0 if words in texts else sum(run in known for run in runs) / max(len(runs), 1)


def _split(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _list_runs(words: Sequence[str], length: int = _RUN) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + length]) for i in range(len(words) - length + 1)]


def add_flags(scores: pd.DataFrame, flags: pd.DataFrame, english: bool = True) -> pd.DataFrame:
    """Scores with the column `flags`, as FLAGS explains them.

    Args: flags: question, answer, flags; english: whether what scores reads English alone.
    """
    if not english:
        flags = flags.assign(flags=flags["flags"].str.replace(rf"(; )?\b{NOT_ENGLISH}\b(; )?", "", regex=True))
    return scores.merge(flags, "left", ["question", "answer"]).fillna({"flags": ""})
