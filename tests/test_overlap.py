"""ROUGE, BLEU and BERTScore: by hand, against the libraries called plainly, against the bert-score package."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_embed import TEXTS, WORDS, make_model
from tiny_models import VectorEmbedder

from nfqa.files.records import Answer, Question
from nfqa.metrics import overlap
from nfqa.metrics.overlap import LONGEST, METRICS, MOST_STOPS, UNSPACED, score_overlap, score_pairs
from nfqa.metrics.references import Draw
from nfqa.models.embed import EMBEDDER_CUT, Embedder, TokenVectors
from reproduction.compare import mark_stand_ins
from reproduction.papers import read_papers
from reproduction.studies.baselines import name_as_published

PLAIN = [name for name, metric in METRICS.items() if not metric.needs_embedder]
CAT = ("the cat sat on the mat", "the cat lay on the rug")  # candidate, reference


class StubEmbedder(VectorEmbedder):
    """Token vectors made by hand, or from a hash of each word; a first and a last token that are no words."""

    def find_cut(self, texts: Sequence[str]) -> set[str]:
        return {text for text in texts if len(text) > 200}

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return [self.vectors.get(text) or make_vectors(map(self._make, ["<", *text.split(), ">"])) for text in texts]


def make_vectors(tokens: Iterable[Sequence[float]]) -> TokenVectors:
    table = np.array([*tokens], dtype=np.float32)
    special = np.zeros(len(table), dtype=bool)
    special[[0, -1]] = True
    return TokenVectors(table, special)


def score(name: str, candidate: str, reference: str, embedder: StubEmbedder | None = None) -> float:
    return float(score_pairs(name, [(candidate, reference)], embedder)[0])


def make_draw(text: str, reference: str, candidates: Sequence[str]) -> Draw:
    answers = tuple(Answer(f"a{i}", candidate, 0) for i, candidate in enumerate(candidates))
    references = (Answer("best", reference, 3), Answer("second", "never looked at", 2))
    return Draw(Question(text, (*answers, *references)), references, answers)


MATS = ("the cat sat on the mat", "the cat lay on the mat")
# 1-grams 5/6; pairs "the cat", "on the", "the mat" 3/5; triples "on the mat" 1/4; fours 0/3; equal lengths, no penalty
UNSMOOTHED = math.exp(math.log(5 / 6 * 3 / 5 * 1 / 4) / 4 + math.log(2.2250738585072014e-308) / 4)  # near 1e-78
LONGER = "a b c d e f g h"


@pytest.mark.parametrize(
    ("name", "pair", "expected"),
    [
        # The paper's library adds 1e-8 to P + R, so its F is a little lower than 2PR / (P + R).
        # sets {the cat sat on mat}, {the cat lay on rug}: 3 shared of 5 and 5; pairs "the cat", "on the": 2 of 5 and 5
        ("rouge1", CAT, 0.6),
        ("rouge2", CAT, 0.4),
        # longest common subsequence: the cat on the; as a set {the cat on}: 3 of 5 and 5
        ("rougel", CAT, 0.6),
        # sentences that changed places: each matches one of the other text, where one subsequence finds 2 of 4 words
        ("rougel", ("a b. c d", "c d. a b"), 1.0),
        ("google_rougel", ("a b. c d", "c d. a b"), 0.5),
        # "the" counts twice on both sides: 4 shared of 6 and 6; subsequence the cat on the: 4 of 6
        ("google_rouge1", CAT, 4 / 6),
        ("google_rougel", CAT, 4 / 6),
        # BLEU is precision: every word of "a b c d" is in the longer text (brevity alone), not the other way round
        ("bleu", ("a b c d", LONGER), math.exp(1 - 8 / 4)),
        ("bleu", (LONGER, "a b c d"), (4 / 8 * 3 / 7 * 2 / 6 * 1 / 5) ** 0.25),
        # only the stemmed kind joins forms of a word (Porter: cats -> cat, running -> run), only Google's lowers case
        ("google_rouge1", ("cats running", "cat runs"), 0.0),
        ("google_rouge1_stem", ("cats running", "cat runs"), 1.0),
        ("rouge1", ("THE CAT", "the cat"), 0.0),
        ("google_rouge1", ("THE CAT!", "the cat"), 1.0),
        # an order without a match: the smallest float; 0.1 of 3; half of 1 of 3
        ("bleu", MATS, UNSMOOTHED),
        ("bleu_smooth1", MATS, (5 / 6 * 3 / 5 * 1 / 4 * 0.1 / 3) ** 0.25),
        ("bleu_smooth3", MATS, (5 / 6 * 3 / 5 * 1 / 4 * 0.5 / 3) ** 0.25),
        ("sacrebleu", MATS, (5 / 6 * 3 / 5 * 1 / 4 * 0.5 / 3) ** 0.25),
        # two words, both right, and their pair: P = 1 for the orders that there are; brevity exp(1 - 3 / 2)
        ("sacrebleu", ("the cat", "the cat sat"), math.exp(-0.5)),
        # sentences of 500 words, where the library fails: one word is shared of 501 and 501
        *[(name, [" ".join(["same", *(f"{a}{i}" for i in range(500))]) for a in "ab"], 1 / 501)
          for name in ("rougel", "google_rougel")],
    ],
)  # fmt: skip
def test_rouge_and_bleu_by_hand(name, pair, expected):
    assert score(name, *pair) == pytest.approx(expected, rel=1e-5)


# Few words, many full stops and blanks: long ties between common subsequences, blank sentences, repeats.
dense_texts = st.lists(st.sampled_from(["a", "b", "c", "d", ".", ". ", " ", "\n"]), min_size=1, max_size=30).map(
    lambda parts: " ".join(parts).replace("  . ", ".")
)


@settings(max_examples=300, deadline=None)
@given(candidate=dense_texts, reference=dense_texts)
def test_rouge_over_sets_equals_the_package_bit_for_bit(candidate, reference):
    from rouge import Rouge

    if candidate.strip(".") and reference.strip("."):  # the package raises where full stops are all there is
        theirs = Rouge().get_scores(candidate, reference)[0]
        for variant in "12l":
            assert score(f"rouge{variant}", candidate, reference) == theirs[f"rouge-{variant}"]["f"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.text("ab.\n \t!?", min_size=1, max_size=25).filter(str.strip)] * 2), max_size=4))
def test_scores_of_any_text_lie_between_nothing_and_all(pairs):
    for name in PLAIN:
        scores = score_pairs(name, pairs)
        assert scores.shape == (len(pairs),)
        assert ((scores >= 0) & (scores <= 1 + 1e-9)).all(), name


VECTORS = {
    "candidate": make_vectors([(1, 0), (3, 4), (1, 0)]),
    "reference": make_vectors([(0, 1), (1, 0), (0, 2), (0, 1)]),
    "wordless": make_vectors([(1, 0), (1, 0)]),
    "east": make_vectors([(1, 0), (1, 0), (1, 0)]),
    "west": make_vectors([(-1, 0), (-1, 0), (-1, 0)]),
    "slanted": make_vectors([(3, 4), (9, 9), (1, 0)]),
}


@pytest.mark.parametrize(
    ("name", "pair", "expected"),
    [
        # candidate: [CLS] (1, 0), one word (3, 4), i.e. (0.6, 0.8) at unit length, [SEP] (1, 0)
        # reference: [CLS] (0, 1), words (1, 0) and (0, 2), [SEP] (0, 1)
        # P: the word against 0.8, 0.6, 0.8, 0.8: 0.8
        # R: (1, 0) against [CLS] 1, word 0.6: 1;  (0, 2) against word 0.8: 0.8;  mean 0.9
        # F = 2 * 0.8 * 0.9 / 1.7 = 1.44 / 1.7
        ("bertscore", ("candidate", "reference"), 1.44 / 1.7),
        ("bertscore", ("a b c", "a b c"), 1),
        ("bertscore", ("wordless", "east"), 0),
        ("bertscore", ("east", "west"), 0),
        ("cls_cosine", ("slanted", "east"), 0.6),  # of the first tokens alone
    ],
)
def test_scores_by_vectors_equal_hand_arithmetic(name, pair, expected):
    assert score(name, *pair, StubEmbedder(VECTORS)) == pytest.approx(expected, abs=1e-6)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Embedder]:
    """The folder of a tiny random BERT, and the embedder over it."""
    spec = make_model(tmp_path_factory.mktemp("tiny") / "first")
    return spec.removeprefix("path:"), Embedder(spec)


def score_with_bert_score(folder: str, pairs: Sequence[tuple[str, str]], idf: dict[int, float] | bool = False):
    from bert_score import score as bert_score

    options = {"model_type": folder, "num_layers": 2, "idf": idf, "device": "cpu"}
    return bert_score([c for c, _ in pairs], [r for _, r in pairs], **options)[2].numpy()


ROUNDING = 1e-3  # half precision moves each number by 2^-12 of itself or less, a cosine of two vectors by twice 2^-11


@pytest.mark.slow
def test_bertscore_equals_the_bert_score_package(tiny):
    folder, embedder = tiny
    rng = np.random.default_rng(0)
    texts = [*TEXTS[:4], *(" ".join(rng.choice(WORDS[:13], size)) for size in rng.integers(1, 14, 12))]
    pairs = [(c, r) for c in texts for r in texts[::3]]
    ours, theirs = score_pairs("bertscore", pairs, embedder), score_with_bert_score(folder, pairs)
    np.testing.assert_allclose(ours, theirs, atol=ROUNDING)
    assert np.abs(ours - theirs).mean() < ROUNDING / 5
    # what the tolerance can tell apart: letting [CLS] and [SEP] weigh as words moves scores by far more
    weighed = score_with_bert_score(folder, pairs, idf=dict.fromkeys(range(20), 1.0))
    assert np.abs(weighed - theirs).max() > 20 * ROUNDING


DRAWS = [
    make_draw("first", "the cat sat on the mat", ["a dog ran", "the cat sat", "a dog ran", "..."]),
    make_draw("second", "a dog ran.", ["the cat sat", "a dog ran."]),
    make_draw("first", "another reference", ["the cat sat", "a dog ran"]),
    make_draw("third", "nobody answers", []),
]


def make_frame(draws: Sequence[Draw]) -> pd.DataFrame:
    return pd.DataFrame({"dataset": "x", "question": [draw.question.text for draw in draws], "draw": draws})


def test_scoring_draws_equals_scoring_one_pair_at_a_time(monkeypatch):
    monkeypatch.setattr(overlap, "_PAIRS_AT_ONCE", 3)
    result = score_overlap(make_frame(DRAWS), list(METRICS), StubEmbedder())
    pairs = [(candidate.text, draw.best.text) for draw in DRAWS for candidate in draw.candidates]
    for name, rows in result.groupby("metric"):
        assert rows.missing.tolist() == [""] * len(pairs) + ["fewer_than_two"]
        expected = [score(str(name), *pair, StubEmbedder()) for pair in pairs]
        np.testing.assert_array_equal(rows.score, [*expected, np.nan])
        assert set(rows.signature) == {f"{name}|{METRICS[name].signature}|ref:best"}


@pytest.mark.parametrize(("grades", "seen"), [((3, 2, 0), 2), ((3, 0, 0), 1), ((1, 0, 0), 1)])
def test_against_the_good_references_a_candidate_has_the_highest_of_its_scores(grades, seen):
    texts, candidate = ("a dog ran", "the cat sat", "the cat sat on the mat"), "the cat sat on a mat"
    references = tuple(Answer(text, text, grade) for text, grade in zip(texts, grades, strict=True))
    draw = replace(make_draw("one", "", [candidate]), references=references)
    (row,) = score_overlap(make_frame([draw]), ["rouge1"], against="good").to_dict("records")
    assert row["score"] == max(score("rouge1", candidate, text) for text in texts[:seen])
    assert row["signature"].endswith("ref:good")


@pytest.mark.parametrize(("encoder", "origin"), [("bert-base-uncased", "measured"), ("other", "stand-in")])
def test_with_the_paper_s_encoder_its_bertscore_is_the_cosine_of_first_tokens_and_no_stand_in(encoder, origin):
    embedder = StubEmbedder()
    embedder.spec = SimpleNamespace(name=f"google-bert/{encoder}")
    rows = name_as_published(score_overlap(make_frame(DRAWS), ["bertscore", "cls_cosine"], embedder), embedder)
    scores = {metric: group.score.to_numpy() for metric, group in rows.groupby("metric")}
    assert np.array_equal(scores["bertscore"], scores["cls_cosine"], equal_nan=True) == (origin == "measured")
    paper = read_papers(Path(__file__).parents[1])["linkage"]
    assert set(mark_stand_ins(paper, "table_02", rows.assign(origin="measured")).origin) == {origin}


def test_a_text_that_is_too_long_has_no_score_and_says_why():
    draws = [
        make_draw("q", "the cat sat", ["a cat", "x" + " " * LONGEST, "a." * (MOST_STOPS + 1)]),
        make_draw("r", "a b " * LONGEST, ["a cat"]),
    ]
    scores = score_overlap(make_frame(draws), list(METRICS), StubEmbedder())
    for _, rows in scores.groupby("metric"):
        assert rows.missing.tolist() == ["", *["too_long"] * 3]
        assert rows.score.notna().tolist() == [True, False, False, False]
    for longest in ("a " * (LONGEST // 2), "a." * MOST_STOPS):
        assert score("rougel", longest, "a b") > 0


def test_a_row_says_where_words_have_no_blanks_or_a_text_was_cut():
    draws = pd.DataFrame({"dataset": ["d"], "question": ["q"]})
    draws["draw"] = [make_draw("q", "狗会叫，因为它们是狗。", ["狗会叫。", "Dogs bark.", "no " * 100])]
    notes = score_overlap(draws, ["rouge1", "bleu", "bertscore"], StubEmbedder()).groupby("metric").note.agg(list)
    assert notes["rouge1"] == notes["bleu"] == [UNSPACED] * 3
    assert notes["bertscore"] == ["", "", EMBEDDER_CUT]
    draws["draw"] = [make_draw("q", "Dogs bark, 狗.", ["No.", "dogs"])]
    assert set(score_overlap(draws, ["rouge1", "bertscore"], StubEmbedder()).note) == {""}


def test_no_bertscore_is_above_1():
    texts = [f"w{number} x{number}" for number in range(60)]
    assert max(score(name, text, text, StubEmbedder()) for name in ("bertscore", "cls_cosine") for text in texts) == 1
