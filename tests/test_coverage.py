"""The baselines of P.D.: words, sentences, coverage and groups of sentences, with vectors made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_judging import LOGITS, find_fenced, list_prompts, make_judge
from tiny_models import VectorEmbedder

from nfqa.metrics.coverage import cut_passages, measure_coverage, score_coverage, sign_coverage, split_answer
from nfqa.metrics.judging import JUDGE_CUT
from nfqa.models.chat import Reply
from nfqa.models.reader import READER_CUT, Reader
from reproduction.studies.baselines import count_clusters, measure_each, score_baselines

VECTORS = {
    "East.": (1.0, 0.0, 0.0),
    "Almost east.": (0.8, 0.6, 0.0),
    "North.": (0.0, 1.0, 0.0),
    "Up.": (0.0, 0.0, 1.0),
    "west": (-1.0, 0.0, 0.0),
    "north-east": (0.6, 0.8, 0.0),
}
EMBEDDER = VectorEmbedder(VECTORS)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It costs 3.5 euros. 4 people paid.", ["It costs 3.5 euros.", "4 people paid."]),
        ("The U.S. is large. Dr. Smith agrees, e.g. today.", ["The U.S. is large.", "Dr. Smith agrees, e.g. today."]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("狗叫。猫叫！牛叫", ["狗叫。", "猫叫！", "牛叫"]),
        ("Dogs bark<br/>Cats <b>purr</b><P class='x'>Cows</P>", ["Dogs bark", "Cats purr", "Cows"]),
        ("1. Dogs bark 2. Cats purr", ["Dogs bark", "Cats purr"]),
        ("Dogs bark… cats purr... cows…moo", ["Dogs bark…", "cats purr...", "cows…", "moo"]),
        ("क्या यह सच है? हाँ। नहीं।", ["क्या यह सच है?", "हाँ।", "नहीं।"]),
        ('"Dogs bark. Cats purr." (Cows. Moo)', ['"Dogs bark.', 'Cats purr."', "(Cows.", "Moo)"]),
        ("## One\n**Two.** three. **U.S. Law**", ["One", "**Two.", "three.", "**U.S. Law**"]),
        ("Take x <i where i is small. So\ny> 2 holds.", ["Take x <i where i is small.", "So", "y> 2 holds."]),
        ("", []),
        (" ... \n --- ", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text, sentences):
    assert split_answer(text) == sentences


def test_coverage_is_the_nearest_sentence_of_each_perspective():
    # north-east = (0.6, 0.8): with East 0.6, with North 0.8; west with East -1, with North 0
    found = measure_coverage("East. North.", ["north-east", "west"], EMBEDDER)
    np.testing.assert_allclose(found, [0.8, 0.0], atol=1e-6)
    assert np.isnan(measure_coverage("", ["west"], EMBEDDER)).tolist() == [True]
    assert measure_coverage("East.", [], EMBEDDER).shape == (0,)


def test_each_perspective_is_measured_by_the_answer_beside_it_and_signed_by_the_adapter_where_there_is_one():
    found = measure_each(["East. North.", "", "East."], ["north-east", "west", "west"], EMBEDDER)
    np.testing.assert_allclose(found, [0.8, np.nan, -1.0], atol=1e-6)
    assert sign_coverage(EMBEDDER) == "cosine:nearest_sentence|split:sentencex|embedder:letters:1"


@pytest.mark.parametrize(
    ("answer", "clusters"),
    [
        # cosine distances: East to Almost east 0.2, to North 1, to Up 1; Almost east to North 0.4, to Up 1
        # at 0.5: East with Almost east (0.2); that group to North (1 + 0.4) / 2 = 0.7: apart. So 3 with Up
        ("East. Almost east. North. Up.", 3),
        ("Almost east. North.", 1),
        ("East. East. East.", 1),
        ("", np.nan),
    ],
)
def test_near_sentences_are_one_group_and_far_ones_are_not(answer, clusters):
    assert count_clusters(answer, EMBEDDER) == pytest.approx(clusters, nan_ok=True)


ANSWERS = pd.DataFrame({
    "dataset": "made_up", "question": ["0", "1", "0"], "system": ["a", "a", "b"],
    "text": ["East. North.", "Up.", np.nan], "grade": np.nan,
})  # fmt: skip
VIEWS = pd.DataFrame({
    "dataset": "made_up", "question": ["0", "1", "0"], "view": ["x", "y", "z"], "text": ["north-east", "west", "west"],
})  # fmt: skip


class SharedWords(Reader):
    """A reader whose probability is the share of the claim's words that are in the text."""

    signature = "shared"

    def __init__(self):
        self.texts = []

    def read(self, pairs):
        self.texts += [text for text, _ in pairs]
        return np.array([len({*claim.split()} & {*text.split()}) / len(claim.split()) for text, claim in pairs])

    def find_cut(self, pairs):
        return {pair for pair in pairs if pair[0].endswith("c.") and pair[1] == "a c"}


def test_coverage_by_a_reader_is_that_of_the_best_passage():
    reader = SharedWords()
    answer = "a b " + "x " * 57 + "end. a c."  # 60 words, then a passage of its own
    answers = pd.DataFrame({"dataset": "made_up", "question": "0", "system": ["a", "b"], "text": [answer, ""]})
    views = pd.DataFrame({"dataset": "made_up", "question": "0", "view": ["x", "y"], "text": ["a b", "a c"]})
    result = score_coverage(answers, views, reader)
    np.testing.assert_allclose(result.score, [1, 0.5, np.nan, np.nan])  # "c." is no "c"
    assert result.missing.tolist() == ["", "", "no_text", "no_text"]
    assert set(result.signature) == {"shared|passages:60"}
    assert result.note.tolist() == ["", READER_CUT, "", ""]
    assert {len(text.split()) for text in reader.texts} == {60, 2}


def say_shared(prompt: str) -> str:
    """A judge that says 1 where the text has every word of the point of view."""
    (text,), (view,) = find_fenced(prompt, "candidate"), find_fenced(prompt, "point_of_view")
    return "hm" if view == "odd" else f"[[{int({*view.split()} <= {*text.split()})}]]"


JUDGED = pd.DataFrame(
    {"dataset": "made_up", "question": ["0", "0", "0", "1"], "system": [*"abca"], "text": ["x y", "y", "", "x"]}
)
OF_QUESTION = pd.DataFrame({"dataset": "made_up", "question": "0", "view": ["p", "q"], "text": ["x", "odd"]})


def test_coverage_by_a_language_model_is_what_it_says_of_each_answer_and_view():
    judge = make_judge(say_shared, max_words=3)
    result = score_coverage(JUDGED, OF_QUESTION, judge)
    np.testing.assert_allclose(result.score, [1, np.nan, 0, np.nan, np.nan, np.nan, np.nan])
    assert result.missing.tolist() == ["", "unreadable", "", "unreadable", "no_text", "no_text", "needs views"]
    assert result[["view", "metric"]].drop_duplicates().to_numpy().tolist() == [
        ["p", "coverage"],
        ["q", "coverage"],
        ["", "coverage"],
    ]
    assert result.signature.str.contains(r"^judge:.*states_view").tolist() == [True] * 6 + [False]
    assert len(list_prompts(judge)) == 4 + 2 * 2  # two unreadable ones are asked for twice more
    before = judge.asker.tally.requests
    pd.testing.assert_frame_equal(score_coverage(JUDGED, OF_QUESTION, judge), result)
    assert judge.asker.tally.requests == before, "what was answered is kept"
    long = score_coverage(JUDGED.assign(text="x y z end"), OF_QUESTION, make_judge(say_shared, max_words=3))
    assert long.note.tolist() == [JUDGE_CUT] * 6 + [""]


def test_coverage_from_logits_is_the_probability_of_a_yes_among_both_digits():
    reply = Reply("[[1]]", 9, 1, "logits", logprobs=(np.log(0.1), np.log(0.3)))
    result = score_coverage(JUDGED[:1], OF_QUESTION[:1], make_judge(lambda _: reply, decoding=LOGITS))
    np.testing.assert_allclose(result.score, [0.75])


def test_a_passage_has_at_most_so_many_words_and_no_word_is_lost():
    sentences = ["a b c.", "d e.", "f g h i j k l.", "m."]
    assert cut_passages(sentences, 5) == ["a b c. d e.", "f g h i j", "k l. m."]
    assert cut_passages([]) == []


def test_baselines_have_a_row_an_answer_and_metric():
    found = score_baselines(ANSWERS, VIEWS, EMBEDDER, SharedWords())
    assert list(found.columns) == ["dataset", "question", "system", "metric", "score", "missing", "signature"]
    table = found.set_index("metric").score
    np.testing.assert_allclose(table["length"], [2, 1, np.nan])
    np.testing.assert_allclose(table["nearest_sentence"], [0.4, 0, np.nan], atol=1e-6)  # over the question's views
    assert table["coverage"].isna().tolist() == [False, False, True]
    np.testing.assert_allclose(table["sentence_clusters"], [2, 1, np.nan])
    assert set(found.missing[found.system == "b"]) == {"no_text"}
    assert set(found.missing[found.system == "a"]) == {""}
