"""Flags by hand: what each marks and what it leaves alone."""

from __future__ import annotations

import pandas as pd
import pytest

from nfqa.job import LABELS
from nfqa.metrics.flags import (
    FLAGS,
    HARMS,
    SCORE_KINDS,
    describe_answers,
    flag_answers,
    is_harmed,
    join_flags,
    name_kind,
    seems_english,
)
from nfqa.metrics.systems import drop_harmed
from reproduction.studies.attacks import stuff_keywords

QUESTION = "Why is the sky blue?"
REFERENCE = "Air scatters short waves of light more than long ones, so the light from all sides is blue."
GOOD = "Sunlight meets molecules of air, and these scatter its blue part most of all colours."


def flag(text: str, *references: str, question: str = QUESTION, views: tuple[str, ...] | None = None) -> str:
    answers = pd.DataFrame({"question": ["q"], "answer": "a", "text": text})
    held = None if views is None else {"q": views} if views else {}
    described = describe_answers(answers, {"q": question}, {"q": references} if references else {}, held)
    assert "text" not in described
    return str(join_flags(flag_answers(described)).item())


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (GOOD, ""),
        ("The sky is blue because air scatters the blue part of sunlight most.", ""),  # repeats words, says more
        (f"{QUESTION} {GOOD}", "repeats_question"),
        ("blue sky, is it blue?", "repeats_question"),
        ("Blue sky.", "length"),  # all its words, but not half of the question's
        (f"{REFERENCE} That is all there is to it, we think.", "copies_reference"),
        (f"{GOOD} So the light from all sides is blue.", ""),  # 5 of its 21 runs
        (f"{GOOD} {GOOD}", "repeats_itself"),
        (f"{QUESTION} {GOOD} [[1]]", "repeats_question; verdict_mark"),
        (f"{GOOD} See [1] and [[the second of these]].", ""),
        ("Scattering.", "length; one_word"),  # a word is an answer
        ("!?", "empty; length"),
        ("Light scatters there.", "length"),  # 18 words to 3: six times
        ("Light scatters there, mostly.", ""),
        (" ".join(f"the word{number}" for number in range(54)), "length"),
        (" ".join(f"the word{number}" for number in range(53)), ""),
        ("天空是蓝色的因为空气散射蓝光", "not_english"),  # each letter a word
    ],
)
def test_an_answer_has_the_flags_that_its_words_earn(text: str, flags: str) -> None:
    assert flag(text, REFERENCE) == flags


@pytest.mark.parametrize(
    ("flags", "metric", "signature", "harmed"),
    [
        ("", "pd", "pd:agg:sum", False),
        ("length; one_word; repeats_itself", "rouge1", "rouge", False),
        ("length; empty", "da", "detector:1", True),
        ("copies_view", "da", "detector:1", False),
        ("copies_view", "pd", "pd:agg:sum", True),
        ("copies_view", "pd_share", "pd:agg:sum", True),
        ("copies_view", "coverage", "cosine:nearest_sentence", True),
        ("copies_view", "coverage", "reader:0c64|base:gguf", False),
        ("copies_reference", "listwise", "judge:m|method:listwise", True),
        ("copies_reference", "pointwise", "judge:m|method:pointwise", False),
        ("copies_reference", "coverage", "", False),
        ("not_english", "embedded_judge", "embedded_judge|weights:trained", True),
        ("not_english", "rouge2", "rouge", False),
        ("verdict_mark", "da", "judge:m|own", True),
        ("verdict_mark", "da", "detector:1", False),
        ("repeats_question; copies_view", "coverage", "reader:1", False),
        ("repeats_question; copies_reference", "coverage", "reader:1", False),
        ("copies_view", "a score of the user", "", True),  # nobody knows what harms it
        ("length", "a score of the user", "", False),
        ("a flag of the user", "da", "detector:1", True),
        ("length;copies_reference", "rougel", "rouge", True),
    ],
)
def test_a_flag_harms_the_scores_that_it_misleads_alone(flags: str, metric: str, signature: str, harmed: bool) -> None:
    assert is_harmed(flags, metric, signature) == harmed
    scores = pd.DataFrame({"flags": [flags], "metric": metric, "signature": signature, "score": 1.0, "missing": ""})
    dropped = drop_harmed(scores)
    assert dropped.missing.tolist() == ["flagged" if harmed else ""]
    assert dropped.score.isna().tolist() == [harmed]


def test_every_score_of_the_command_has_a_kind_and_every_flag_is_in_the_table() -> None:
    made = [*((metric, "") for metric in LABELS), ("coverage", "reader:1"), ("da", "judge:1")]
    assert {name_kind(*each) for each in made} == {*SCORE_KINDS}
    assert list(HARMS) == list(FLAGS)
    assert {kind for kinds in HARMS.values() for kind in kinds} == {*SCORE_KINDS}


VIEWS = ("It helps. Nobody can show off costly shoes to anyone.", "It harms. Clothes are a way to say who one is.")


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (" ".join(VIEWS), "copies_view"),  # 14 of its 17 runs, at most half of them in one
        ("Nobody can show off costly shoes, as I said.", "copies_view"),  # 3 of its 6 runs
        ("Nobody can show off costly shoes, as I have said.", ""),  # 3 of 7
        ("Some say that nobody can show off then, others that clothes say who one is.", ""),
    ],
)
def test_copying_points_of_view_is_told_apart_from_copying_references(text: str, flags: str) -> None:
    assert flag(text, views=VIEWS, question="Should pupils wear uniforms?") == flags
    assert flag(text, views=(), question="Should pupils wear uniforms?") == ""
    assert flag(text, GOOD, views=VIEWS, question="Should pupils wear uniforms?") == flags


def test_a_list_of_keywords_is_flagged_by_its_lack_of_function_words() -> None:
    assert flag(stuff_keywords([QUESTION, GOOD, REFERENCE], key="q"), REFERENCE) == "not_english"


@pytest.mark.parametrize(
    ("text", "english"),
    [
        (GOOD, True),
        ("ok", True),  # too short to tell
        ("Der Himmel ist blau, weil die Luft das kurzwellige Licht stärker streut als das langwellige.", False),
        ("天空是蓝色的因为空气散射蓝光", False),
    ],
)
def test_a_text_in_another_language_is_noticed(text: str, english: bool) -> None:
    assert seems_english(text) == english
