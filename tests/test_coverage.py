"""The baselines of P.D.: words, sentences, coverage and groups of sentences, with vectors made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nfqa.metrics.coverage import count_clusters, count_words, measure_coverage, split_answer

VECTORS = {
    "East.": (1.0, 0.0, 0.0),
    "Almost east.": (0.8, 0.6, 0.0),
    "North.": (0.0, 1.0, 0.0),
    "Up.": (0.0, 0.0, 1.0),
    "west": (-1.0, 0.0, 0.0),
    "north-east": (0.6, 0.8, 0.0),
}


class HandMade:
    """An embedder whose vectors are looked up."""

    def embed_sentences(self, texts):
        return np.array([VECTORS[text] for text in texts])


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("It costs 3.5 euros. 4 people paid.", ["It costs 3.5 euros.", "4 people paid."]),
        ("The U.S. is large. Dr. Smith agrees, e.g. Today.", ["The U.S. is large.", "Dr. Smith agrees, e.g. Today."]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("- first\n2. second\n\n* third", ["first", "second", "third"]),
        ("no capital. after this", ["no capital. after this"]),
        ("J. Smith won.", ["J. Smith won."]),
        ("", []),
        (" ... \n --- ", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text, sentences):
    assert split_answer(text) == sentences


def test_nothing_of_a_text_is_lost_but_blanks_and_list_marks():
    text = "Some say so. Others (e.g. Mr. Lee) don't! Is it 2.5 or 3? Nobody knows."
    assert "".join(" ".join(split_answer(text)).split()) == "".join(text.split())


def test_words_are_split_at_blanks():
    assert count_words("well-known  facts\nabout it") == 4
    assert count_words(" ") == 0


def test_coverage_is_the_nearest_sentence_of_each_perspective():
    # north-east = (0.6, 0.8): with East 0.6, with North 0.8; west with East -1, with North 0
    found = measure_coverage("East. North.", ["north-east", "west"], HandMade())
    np.testing.assert_allclose(found, [0.8, 0.0], atol=1e-12)


def test_coverage_of_an_answer_without_a_sentence_is_missing():
    assert np.isnan(measure_coverage("", ["west"], HandMade())).tolist() == [True]
    assert measure_coverage("East.", [], HandMade()).shape == (0,)


def test_near_sentences_are_one_group_and_far_ones_are_not():
    # cosine distances: East to Almost east 0.2, to North 1, to Up 1; Almost east to North 0.4, to Up 1
    # at 0.5: East with Almost east (0.2); that group to North (1 + 0.4) / 2 = 0.7: apart. So 3 with Up
    answer = "East. Almost east. North. Up."
    assert count_clusters(answer, HandMade()) == 3
    assert count_clusters(answer, HandMade(), threshold=0.1) == 4
    assert count_clusters(answer, HandMade(), threshold=0.75) == 2
    assert count_clusters(answer, HandMade(), threshold=1.5) == 1


def test_a_repeated_sentence_adds_no_group():
    assert count_clusters("East. East. East.", HandMade()) == 1
    assert np.isnan(count_clusters("", HandMade()))


def test_a_threshold_that_is_no_distance_is_refused():
    with pytest.raises(ValueError, match="threshold is 0; expected a cosine distance between 0 and 2"):
        count_clusters("East. North.", HandMade(), threshold=0)
