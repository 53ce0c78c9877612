"""ROUGE, BLEU and BERTScore: by hand, against the libraries called plainly, against the bert-score package."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_embed import TEXTS, WORDS, make_model

from nfqa.data.records import Answer, Question
from nfqa.kernels.rouge import score_rouge_sets
from nfqa.metrics import overlap
from nfqa.metrics.overlap import METRICS, OverlapMetric, score_draws
from nfqa.metrics.references import Draw
from nfqa.models.embed import Embedder, TextVectors

PLAIN = [name for name, metric in METRICS.items() if not metric.needs_embedder]
CAT = ("the cat sat on the mat", "the cat lay on the rug")  # candidate, reference
PAIRS = [
    CAT,
    ("The Cats are running. They ran!", "the cat runs. they run"),
    ("a b c d e f", "a b c d e f"),
    ("a b. c d. e", "c d. a b"),
    ("one two three", "four five six"),
    ("a", "a b c d e f g h"),
    ("it's 3.5 km, e.g. far...", "It is 3.5 km; far."),
    ("dog dog dog dog", "dog"),
    (" .a. . b", "b a."),
]


class StubEmbedder:
    """Token vectors made by hand, or from a hash of each word; a first and a last token that are no words."""

    def __init__(self, vectors: dict[str, TextVectors] | None = None) -> None:
        self.vectors = vectors or {}

    def embed_tokens(self, texts: Sequence[str]) -> list[TextVectors]:
        return [self.vectors.get(text) or self._make(text) for text in texts]

    def _make(self, text: str) -> TextVectors:
        words = ["<", *text.split(), ">"]
        seeds = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") for word in words]
        return make_vectors([np.random.default_rng(seed).normal(size=8) for seed in seeds])


def make_vectors(tokens: Sequence[Sequence[float]]) -> TextVectors:
    table = np.array(tokens, dtype=np.float32)
    special = np.zeros(len(table), dtype=bool)
    special[[0, -1]] = True
    return TextVectors(table.mean(0), table, special)


def score(name: str, candidate: str, reference: str, embedder: StubEmbedder | None = None) -> float:
    return float(METRICS[name].score([(candidate, reference)], embedder)[0])


def make_draw(text: str, reference: str, candidates: Sequence[str]) -> Draw:
    answers = tuple(Answer(f"a{i}", candidate, 0) for i, candidate in enumerate(candidates))
    references = (Answer("best", reference, 3), Answer("second", "never looked at", 2))
    return Draw(Question(text, (*answers, *references)), references, answers)


# The library adds 1e-8 to P + R, so its F is a little lower than 2PR / (P + R).


def test_rouge_1_of_the_paper_s_library_counts_each_word_once():
    # candidate {the cat sat on mat}, reference {the cat lay on rug}: 3 shared of 5 and 5: P = R = F = 0.6
    assert score("rouge1", *CAT) == pytest.approx(0.6, abs=1e-7)


def test_rouge_2_of_the_paper_s_library_counts_each_pair_of_words_once():
    # shared of 5 and 5: "the cat", "on the": 0.4
    assert score("rouge2", *CAT) == pytest.approx(0.4, abs=1e-7)


def test_rouge_l_of_the_paper_s_library_is_a_set_of_the_common_subsequence():
    # longest common subsequence: the cat on the; as a set {the cat on}: 3 of 5 and 5
    assert score("rougel", *CAT) == pytest.approx(0.6, abs=1e-7)


def test_rouge_l_of_the_paper_s_library_unites_sentences_that_changed_places():
    # "a b" and "c d" each match one sentence of the other text: 4 of 4 words, where one subsequence finds 2 of 4
    assert score("rougel", "a b. c d", "c d. a b") == pytest.approx(1.0, abs=1e-7)
    assert score("google_rougel", "a b. c d", "c d. a b") == pytest.approx(0.5, abs=1e-12)


def test_google_rouge_counts_repeated_words():
    # "the" twice on both sides: 4 shared of 6 and 6
    assert score("google_rouge1", *CAT) == pytest.approx(4 / 6, abs=1e-12)
    # shared pairs "the cat", "on the" of 5 and 5
    assert score("google_rouge2", *CAT) == pytest.approx(0.4, abs=1e-12)
    # longest common subsequence the cat on the: 4 of 6
    assert score("google_rougel", *CAT) == pytest.approx(4 / 6, abs=1e-12)


def test_precision_and_recall_are_not_mixed_up():
    # candidate {a}, reference {a b c}: P = 1, R = 1/3, F = 2 / 3 / (4 / 3) = 0.5; both ways round the same
    assert score("rouge1", "a", "a b c") == pytest.approx(0.5, abs=1e-7)
    assert score("google_rouge1", "a b c", "a") == pytest.approx(0.5, abs=1e-12)
    # BLEU is precision: every word of "a b c d" is in the longer text, not the other way round
    longer = "a b c d e f g h"
    assert score("bleu", "a b c d", longer) == pytest.approx(math.exp(1 - 8 / 4), abs=1e-12)  # brevity alone
    assert score("bleu", longer, "a b c d") == pytest.approx((4 / 8 * 3 / 7 * 2 / 6 * 1 / 5) ** 0.25, abs=1e-12)


def test_only_the_stemmed_kind_joins_forms_of_a_word():
    # Porter: cats -> cat, running -> run, runs -> run
    assert score("google_rouge1", "cats running", "cat runs") == 0.0
    assert score("google_rouge1_stem", "cats running", "cat runs") == pytest.approx(1.0, abs=1e-12)
    assert score("rouge1", "cats running", "cat runs") == 0.0


def test_only_google_rouge_lowers_case():
    assert score("rouge1", "THE CAT", "the cat") == 0.0
    assert score("google_rouge1", "THE CAT!", "the cat") == pytest.approx(1.0, abs=1e-12)


MATS = ("the cat sat on the mat", "the cat lay on the mat")
# 1-grams 5/6; pairs "the cat", "on the", "the mat" 3/5; triples "on the mat" 1/4; fours 0/3; equal lengths, no penalty


def test_bleu_without_smoothing_counts_a_missing_order_as_the_smallest_float():
    expected = math.exp(math.log(5 / 6 * 3 / 5 * 1 / 4) / 4 + math.log(2.2250738585072014e-308) / 4)  # near 1e-78
    assert score("bleu", *MATS) == pytest.approx(expected, rel=1e-9)
    assert 1e-78 < expected < 1e-76


def test_bleu_smoothings_fill_the_missing_order():
    # method1: 0.1 of 3;  method3 and sacrebleu's: half of 1 of 3
    assert score("bleu_smooth1", *MATS) == pytest.approx((5 / 6 * 3 / 5 * 1 / 4 * 0.1 / 3) ** 0.25, rel=1e-9)
    assert score("bleu_smooth3", *MATS) == pytest.approx((5 / 6 * 3 / 5 * 1 / 4 * 0.5 / 3) ** 0.25, rel=1e-9)
    assert score("sacrebleu", *MATS) == pytest.approx((5 / 6 * 3 / 5 * 1 / 4 * 0.5 / 3) ** 0.25, rel=1e-9)


def test_sacrebleu_uses_only_the_orders_that_a_short_text_has():
    # two words, both right, and their pair: P = 1 for both orders; brevity exp(1 - 3 / 2)
    assert score("sacrebleu", "the cat", "the cat sat") == pytest.approx(math.exp(-0.5), rel=1e-9)


def test_nothing_shared_is_zero():
    for name in PLAIN:
        assert score(name, "one two three", "four five six") == pytest.approx(0.0, abs=0.2 if "smooth" in name else 0)


@pytest.mark.parametrize("variant", ["1", "2", "l"])
def test_rouge_equals_the_libraries_called_plainly(variant):
    from rouge import Rouge
    from rouge_score.rouge_scorer import RougeScorer

    theirs = [Rouge().get_scores(c, r)[0][f"rouge-{variant}"]["f"] for c, r in PAIRS]
    assert METRICS[f"rouge{variant}"].score(PAIRS, None).tolist() == theirs
    for stem in (False, True):
        name = f"rouge{variant.replace('l', 'L')}"
        theirs = [RougeScorer([name], use_stemmer=stem).score(r, c)[name].fmeasure for c, r in PAIRS]
        assert METRICS[f"google_rouge{variant}{'_stem' * stem}"].score(PAIRS, None).tolist() == theirs


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


@settings(max_examples=150, deadline=None)
@given(candidate=dense_texts, reference=dense_texts, stem=st.booleans())
def test_google_rouge_equals_the_package(candidate, reference, stem):
    from rouge_score.rouge_scorer import RougeScorer

    theirs = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stem).score(reference, candidate)
    for variant, long in (("1", "rouge1"), ("2", "rouge2"), ("l", "rougeL")):
        found = score(f"google_rouge{variant}{'_stem' * stem}", candidate, reference)
        assert found == pytest.approx(theirs[long].fmeasure, abs=1e-15)


def test_rouge_of_a_side_without_sentences_is_zero():
    assert score_rouge_sets([], [["a"]]) == score_rouge_sets([["a"]], []) == score_rouge_sets([], []) == (0, 0, 0)


def test_pairs_of_words_run_across_sentences():
    # pairs: a b, b c in both, though the full stop is elsewhere: 2 of 2 and 2
    assert score_rouge_sets([["a", "b"], ["c"]], [["a"], ["b", "c"]]).rouge2 == pytest.approx(1, abs=1e-7)


def test_bleu_equals_the_libraries_called_plainly():
    import sacrebleu
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction()
    for name, method in (("", None), ("_smooth1", smoothing.method1), ("_smooth3", smoothing.method3)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = [sentence_bleu([r.split()], c.split(), smoothing_function=method) for c, r in PAIRS]
        assert METRICS[f"bleu{name}"].score(PAIRS, None).tolist() == theirs
    theirs = [sacrebleu.sentence_bleu(c, [r]).score / 100 for c, r in PAIRS]
    np.testing.assert_allclose(METRICS["sacrebleu"].score(PAIRS, None), theirs, atol=1e-12)


@pytest.mark.parametrize("name", PLAIN)
def test_a_text_of_full_stops_alone_scores_low_and_never_fails(name):
    for candidate, reference in (("...", "the cat sat"), ("the cat sat", ". . ."), ("...", ". ."), (" .", ".")):
        assert 0 <= score(name, candidate, reference) <= 1 + 1e-9
    assert score(name, "...", "the cat sat") < 0.2
    assert score("rouge1", "...", "...") == 0.0  # the library raises here


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.text("ab.\n \t!?", min_size=1, max_size=25).filter(str.strip)] * 2), max_size=4))
def test_scores_of_any_text_lie_between_nothing_and_all(pairs):
    for name in PLAIN:
        scores = METRICS[name].score(pairs, None)
        assert scores.shape == (len(pairs),)
        assert ((scores >= 0) & (scores <= 1 + 1e-9)).all(), name


def test_sentences_of_five_hundred_words_can_be_scored():
    # the library walks back through its table by recursion and fails here; one word is shared of 501 and 501
    candidate, reference = (" ".join(["same", *(f"{letter}{i}" for i in range(500))]) for letter in "ab")
    for name in ("rougel", "google_rougel"):
        assert score(name, candidate, reference) == pytest.approx(1 / 501, abs=1e-7)


def test_bertscore_equals_hand_arithmetic():
    # candidate: [CLS] (1, 0), one word (3, 4), i.e. (0.6, 0.8) at unit length, [SEP] (1, 0)
    # reference: [CLS] (0, 1), words (1, 0) and (0, 2), [SEP] (0, 1)
    # P: the word against 0.8, 0.6, 0.8, 0.8: 0.8
    # R: (1, 0) against [CLS] 1, word 0.6: 1;  (0, 2) against word 0.8: 0.8;  mean 0.9
    # F = 2 * 0.8 * 0.9 / 1.7 = 1.44 / 1.7
    vectors = {
        "candidate": make_vectors([(1, 0), (3, 4), (1, 0)]),
        "reference": make_vectors([(0, 1), (1, 0), (0, 2), (0, 1)]),
    }
    assert score("bertscore", "candidate", "reference", StubEmbedder(vectors)) == pytest.approx(1.44 / 1.7, abs=1e-6)


def test_bertscore_of_a_text_with_itself_is_one_and_without_words_or_likeness_zero():
    vectors = {
        "wordless": make_vectors([(1, 0), (1, 0)]),
        "east": make_vectors([(1, 0), (1, 0), (1, 0)]),
        "west": make_vectors([(-1, 0), (-1, 0), (-1, 0)]),
    }
    embedder = StubEmbedder(vectors)
    assert score("bertscore", "a b c", "a b c", embedder) == pytest.approx(1, abs=1e-6)
    for candidate, reference in (("wordless", "east"), ("east", "wordless"), ("east", "west")):
        assert score("bertscore", candidate, reference, embedder) == 0.0


def test_cls_cosine_compares_first_tokens_alone():
    vectors = {
        "candidate": make_vectors([(3, 4), (9, 9), (1, 0)]),
        "reference": make_vectors([(2, 0), (-5, 1), (0, 1)]),
    }
    assert score("cls_cosine", "candidate", "reference", StubEmbedder(vectors)) == pytest.approx(0.6, abs=1e-6)


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
    ours, theirs = METRICS["bertscore"].score(pairs, embedder), score_with_bert_score(folder, pairs)
    np.testing.assert_allclose(ours, theirs, atol=ROUNDING)
    assert np.abs(ours - theirs).mean() < ROUNDING / 5
    # what the tolerance can tell apart: letting [CLS] and [SEP] weigh as words moves scores by far more
    weighed = score_with_bert_score(folder, pairs, idf=dict.fromkeys(range(20), 1.0))
    assert np.abs(weighed - theirs).max() > 20 * ROUNDING


@pytest.mark.slow
def test_bertscore_of_texts_over_the_limit_equals_the_bert_score_package(tiny):
    folder, embedder = tiny
    pairs = [(" ".join(WORDS[:10] * 3), "a big cat"), ("the red hat", " ".join(WORDS[:12] * 2))]
    np.testing.assert_allclose(
        METRICS["bertscore"].score(pairs, embedder), score_with_bert_score(folder, pairs), atol=ROUNDING
    )


@pytest.mark.slow
def test_bertscore_with_unknown_words_equals_the_bert_score_package(tiny):
    folder, embedder = tiny
    pairs = [("the zebra ran", "a red hat"), ("zebra", "the cat sat"), ("the cat", "gnu gnu gnu")]
    np.testing.assert_allclose(
        METRICS["bertscore"].score(pairs, embedder), score_with_bert_score(folder, pairs), atol=ROUNDING
    )


@pytest.mark.slow
def test_cls_cosine_equals_the_model_s_own_first_tokens(tiny):
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder, embedder = tiny
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        first = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, 0] for text in TEXTS[:4]]
    pairs = [(c, r) for c in TEXTS[:4] for r in TEXTS[:4]]
    theirs = [float(torch.cosine_similarity(a, b, dim=0)) for a in first for b in first]
    np.testing.assert_allclose(METRICS["cls_cosine"].score(pairs, embedder), theirs, atol=ROUNDING)


DRAWS = [
    make_draw("first", "the cat sat on the mat", ["a dog ran", "the cat sat", "a dog ran", "..."]),
    make_draw("second", "a dog ran.", ["the cat sat", "a dog ran."]),
    make_draw("first", "another reference", ["the cat sat", "a dog ran"]),
    make_draw("third", "nobody answers", []),
]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("at_once", [1, 3, 2000])
def test_scoring_draws_equals_scoring_one_pair_at_a_time(monkeypatch, name, at_once):
    monkeypatch.setattr(overlap, "_PAIRS_AT_ONCE", at_once)
    embedder = StubEmbedder()
    found = score_draws(METRICS[name], iter(DRAWS), embedder)
    assert [len(scores) for scores in found] == [4, 2, 2, 0]
    for draw, scores in zip(DRAWS, found, strict=True):
        for candidate, value in zip(draw.candidates, scores, strict=True):
            assert value == score(name, candidate.text, draw.references[0].text, embedder)


def test_a_pair_that_comes_up_again_is_scored_once():
    seen: list[tuple[str, str]] = []

    def count(pairs, _):
        seen.extend(pairs)
        return np.arange(len(pairs), dtype=np.float64)

    found = score_draws(OverlapMetric("counter", "", count, ""), [*DRAWS, *DRAWS])
    assert len(seen) == len(set(seen)) == 3 + 2 + 2
    assert found[0][0] == found[0][2] == found[4][0]


def test_pairs_are_scored_question_by_question():
    blocks: list[set[str]] = []

    def note(pairs, _):
        blocks.append({reference for _, reference in pairs})
        return np.zeros(len(pairs))

    texts = [f"q{i}" for i in range(6)]
    draws = [make_draw(text, f"reference of {text}", [f"{text} {seed}"]) for seed in range(4) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_PAIRS_AT_ONCE", 4)
        score_draws(OverlapMetric("note", "", note, ""), draws)
    assert [len(block) for block in blocks] == [1] * 6


@pytest.mark.parametrize("name", ["bertscore", "cls_cosine"])
def test_a_metric_that_needs_the_embedder_says_so(name):
    with pytest.raises(ValueError, match=rf"{name} needs the embedder role; pass embedder=Embedder\('package:gt-all"):
        score_draws(METRICS[name], DRAWS)


def test_every_metric_is_named_signed_and_traced_to_its_function():
    assert len(METRICS) == 15
    for name, metric in METRICS.items():
        module, function = metric.kernel.split(":")
        assert metric.name == name
        assert module == ("nfqa.kernels.rouge" if name.startswith("rouge") else "nfqa.metrics.overlap")
        assert callable(getattr(import_module(module), function))
        assert metric.signature.startswith("impl:")
    assert {name for name, metric in METRICS.items() if metric.needs_embedder} == {"bertscore", "cls_cosine"}


def test_signatures_name_the_installed_versions():
    from importlib.metadata import version

    assert f"rouge-{version('rouge')}|" in METRICS["rouge1"].signature
    assert f"rouge-score-{version('rouge-score')}|" in METRICS["google_rouge1"].signature
