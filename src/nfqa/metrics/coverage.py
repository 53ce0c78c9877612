"""Coverage, whether an answer states a point of view; and simpler baselines of P.D.: length,
clusters of sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sentencex import segment

from nfqa.judge.prompts import OWN, PromptSet
from nfqa.metrics.judging import LanguageJudge, mark_texts
from nfqa.metrics.systems import note_cut
from nfqa.models.embed import EMBEDDER_CUT, Embedder
from nfqa.models.reader import READER_CUT, Reader

PASSAGE = 60  # words, at most, of a part of an answer that a reader reads at once

_ATTRIBUTES = r"(?:[ \t]+[\w:-]+=(?:\"[^\"<>\n]*\"|'[^'<>\n]*'|[^\s<>\"']+))*[ \t]*"  # of a tag; not in `a <b and c> d`
# Tags that end a line, ellipses before a word, full-width stops (slow by sentencex on a long line) and bullets.
_BREAK = re.compile(
    rf"</?(?:p|br|hr|li|[uod]l|d[dt]|div|h[1-6]|t[drh]|table|blockquote){_ATTRIBUTES}/?>"
    r"|(?:(?<=…)|(?<=\.\.\.))(?=\s+\w)|(?<=[…。！？])(?=\w)|(?=[•‣●▪◦])",
    re.IGNORECASE,
)
_INLINE = re.compile(rf"</?(?:b|i|u|a|em|strong|span|code|su[bp]|font|small|mark){_ATTRIBUTES}/?>", re.IGNORECASE)
_MARK = r"(?:#+|\*+|[-–•‣●▪◦]|\(?\d{1,2}[.)])\s+"
_MARKS = re.compile(f"(?:{_MARK})*")
_ITEM = re.compile(rf"(?:^|(?<=\s)){_MARK}")
_LIST = re.compile(r"([-*–])\s.*\s\1\s.*\s\1\s|\(?1[.)]\s.*\s\(?2[.)]\s")  # a line that holds several items
_QUOTES = "\"'()[]{}«»‹›„“”‟‘’‚「」『』（）【】《》〈〉`"
_MASKED = re.compile(r"(?<![\w%s*_])[%s*_]+(?=[\w$¿¡-])|(?<=[.!?])[%s]+(?=\s)" % ((re.escape(_QUOTES),) * 3))
_CLOSING = re.compile(rf"(?:[{re.escape(_QUOTES)}]+(?!\w)|[)\]}}」』）】》〉]+)?")
_BLANKS = [code for code in range(0x3001) if chr(code).isspace()]
_PLAIN = dict.fromkeys(map(ord, _QUOTES), "’") | dict.fromkeys(_BLANKS, " ") | dict.fromkeys(range(0xD800, 0xE000), "?")


def score_coverage(
    answers: pd.DataFrame, views: pd.DataFrame, model: Embedder | Reader | LanguageJudge
) -> pd.DataFrame:
    """The parts of an answer's coverage: one row an answer and view, as `measure_coverage` or
    `read_coverage` has it.

    Args: answers, views: as `score_baselines`; model: what compares an answer with a view.
    Returns: the columns of `answers` but text and grade; view, metric ("coverage"), score (a
        cosine, or the probability by a reader or language model; NaN for an answer without a
        sentence), missing ("no_text" then, or why a language model gave no verdict, else ""),
        signature and note (where a text was cut). An answer to a question without views has one
        row, its view "", missing as "needs views".
    """
    numbered = answers.drop(columns="grade", errors="ignore").assign(place=range(len(answers)))
    view_texts = views[["dataset", "question", "view", "text"]].rename(columns={"text": "view_text"})
    pairs = numbered.merge(view_texts, "left", ["dataset", "question"]).fillna({"view": "", "view_text": ""})
    viewed = pairs.view_text != ""
    answer_texts = pairs.text.fillna("")
    if isinstance(model, LanguageJudge):
        verdicts = ask_coverage(answer_texts[viewed].tolist(), pairs.view_text[viewed].tolist(), model)
        verdicts = verdicts.set_axis(pairs.index[viewed]).reindex(pairs.index)
        verdicts = verdicts.fillna({"missing": "needs views", "signature": "", "note": ""})
        return pairs.drop(columns=["place", "text", "view_text"]).assign(metric="coverage").join(verdicts)
    if isinstance(model, Reader):
        signature = f"{model.signature}|passages:{PASSAGE}"
        read: list[list[Any]] = [*list_passages(answer_texts, pairs.view_text)]
        scores = read_passages(read, model)
    else:
        signature = sign_coverage(model)
        model.prepare(views["text"].tolist(), tokens=False)
        cosines = [
            measure_coverage(part["text"].fillna("").iloc[0], part["view_text"].tolist(), model)
            for _, part in pairs[viewed].groupby("place", sort=False)
        ]
        scores = np.full(len(pairs), np.nan)
        scores[viewed] = np.concatenate([np.zeros(0), *cosines])
        sentences = {text: split_answer(text) for text in answer_texts[viewed].unique()}  # once, beside several views
        both = zip(answer_texts, pairs.view_text, strict=True)
        read = [[*sentences[text], view] if view else [] for text, view in both]
    notes = note_cut(read, model, READER_CUT if isinstance(model, Reader) else EMBEDDER_CUT)
    missing = np.where(np.isnan(scores), np.where(viewed, "no_text", "needs views"), "")
    pairs = pairs.assign(metric="coverage", score=scores, missing=missing, signature=signature, note=notes)
    return pairs.drop(columns=["place", "text", "view_text"])


def sign_coverage(embedder: Embedder) -> str:
    """How coverage by an embedder is signed."""
    return f"cosine:nearest_sentence|split:sentencex|embedder:{embedder.spec.identity}"


def split_answer(text: str) -> list[str]:
    """The sentences of a text in any language, at line ends, tags, items of lists, ellipses and
    ends of sentences.

    Marks of lists and headings, and tags inside a sentence, are removed; a piece without a letter
    or digit is dropped.
    Source: sentencex, Wikimedia's splitter. Differs from: it, in that a quotation or bracket is cut
        at its sentences too (to sentencex all its marks look like closing quotes or blanks, which
        also keeps it from a known crash at no-break blanks), and in the cuts at lines, tags,
        ellipses and items on one line.
    """
    lines = [line.strip() for line in _BREAK.sub("\n", _INLINE.sub("", text)).splitlines()]
    pieces = []
    for item in (item for line in lines for item in (_ITEM.split(line) if _LIST.match(line) else [line])):
        item = _MARKS.sub("", item, count=1)
        masked = _MASKED.sub(lambda marks: " " * len(marks[0]), item).translate(_PLAIN)  # as long as the item
        start = read = 0
        for part in segment("en", masked):  # English abbreviations; the stops of all scripts
            end = _CLOSING.match(item, read + len(part.rstrip())).end()  # type: ignore[union-attr]
            pieces.append(_MARKS.sub("", item[start:end].strip(), count=1))
            start = end
            read = read + len(part)
    return [piece for piece in pieces if any(character.isalnum() for character in piece)]


def cut_passages(sentences: Sequence[str], most: int = PASSAGE) -> list[str]:
    """Sentences joined to passages of at most so many words each; a longer sentence is cut at its
    words.
    """
    passages = list[list[str]]()
    for sentence in sentences:
        words = sentence.split()
        for start in range(0, len(words), most):
            piece = words[start : start + most]
            if start or not passages or len(passages[-1]) + len(piece) > most:
                passages.append([])
            passages[-1] += piece
    return [" ".join(words) for words in passages]


def measure_coverage(answer: str, perspectives: Sequence[str], embedder: Embedder) -> NDArray[np.float64]:
    """The cosine of each perspective with the answer's nearest sentence: max over sentences s of
    cos(s, perspective).

    Returns: cosines in [-1, 1], [n]; NaN for all where the answer has no sentence. Their mean is
        the answer's coverage.
    Raises: ValueError for an empty perspective.
    Source: the recall half of a sentence-level BERTScore (Zhang et al., 2020). Differs from: it, in
        comparing whole sentences, and each perspective as one text.
    """
    sentences = split_answer(answer)
    if not sentences or not perspectives:
        return np.full(len(perspectives), np.nan)
    cosines = embedder.embed_sentences(list(perspectives)) @ embedder.embed_sentences(sentences).T  # [n, T]
    return np.asarray(cosines.max(1), dtype=np.float64).clip(-1, 1)


def read_coverage(texts: Sequence[str], views: Sequence[str], reader: Reader) -> NDArray[np.float64]:
    """Whether each text states the view beside it: max over its passages p of a reader's P(p states
    the view).

    Returns: probabilities, [n]; NaN for a text without a sentence. Passages are as `cut_passages`
        has them.
    """
    return read_passages(list_passages(texts, views), reader)


def read_passages(passages: Sequence[Sequence[tuple[str, str]]], reader: Reader) -> NDArray[np.float64]:
    """The largest probability by a reader among the pairs of a passage and a claim of each text,
    [n]; NaN for none.

    Args: passages: as `list_passages`.
    """
    pairs = pd.Series([*passages], dtype=object).explode().dropna()
    probabilities = pd.Series(reader.read(pairs.tolist()), pairs.index, dtype=np.float64)
    return probabilities.groupby(level=0).max().reindex(range(len(passages))).to_numpy()


def ask_coverage(texts: Sequence[str], views: Sequence[str], judge: LanguageJudge) -> pd.DataFrame:
    """Ask a language model whether each text states the view beside it: 1, or 0.

    Args: judge: of whose prompts "states_view" is taken; of a set without it, such as the released
        one, the packaged.
    Returns: score (from logits P("1") / (P("0") + P("1")), from a text 0 or 1; NaN without a
        verdict), missing (why), signature and note (where a text was cut) of each pair. An empty
        text is not asked about ("no_text").
    """
    name = "states_view"
    judge = judge if name in judge.prompts else replace(judge, prompts=PromptSet(OWN, bring=Path))
    pairs = [{"candidate": text, "point_of_view": view} for text, view in zip(texts, views, strict=True)]
    return mark_texts(pairs, name, judge, shared="candidate", digit=True)[["score", "missing", "signature", "note"]]


def list_passages(texts: Iterable[str], views: Iterable[str]) -> list[list[tuple[str, str]]]:
    """What a reader reads for each text and view: each passage of the text, beside the view;
    nothing for no view.
    """
    passages = {text: cut_passages(split_answer(text)) for text in dict.fromkeys(texts)}
    both = zip(texts, views, strict=True)
    return [[(passage, view) for passage in passages[text]] if view else [] for text, view in both]
