"""The embedder over a tiny random BERT: against the libraries called plainly, through its cache, killed and resumed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfqa.models import embed
from nfqa.models.embed import Embedder
from nfqa.models.roles import DEFAULTS, parse_role

LONGEST = 16  # the tiny model's limit: [CLS], 14 words, [SEP]
WORDS = ["the", "cat", "sat", "on", "mat", "dog", "ran", "a", "big", "red", "hat", ".", ",", "##s", "##ing"]
TEXTS = [
    "the cat sat on the mat .",
    "a dog ran",
    "the big red hat , the big red dogs .",
    "...",
    "cats",
    "sat on a mat , on a hat , on a big red cat , sitting",
]


def make_model(folder: Path, seed: int = 0) -> str:
    """A two-layer random BERT over WORDS, saved as a sentence-transformers model; returns its role spec."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    tokenizer = BertTokenizerFast(vocab=str(vocabulary), model_max_length=LONGEST)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=24, initializer_range=0.4,
    )  # fmt: skip
    BertModel(config).eval().save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    model = SentenceTransformer(modules=[Transformer(str(folder / "bert")), Pooling(32)], device="cpu")
    model.max_seq_length = LONGEST
    model.save(str(folder / "model"))
    return f"path:{folder / 'model'}"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_model(tmp_path_factory.mktemp("tiny") / "first")


@pytest.fixture(scope="module")
def fresh(spec: str) -> Embedder:
    embedder = Embedder(spec)
    embedder.prepare(TEXTS)
    return embedder


def refuse_to_load(*_: object) -> None:
    raise AssertionError("the model was loaded although every text is cached")


def assert_same(a: Embedder, b: Embedder, texts: list[str]) -> None:
    np.testing.assert_array_equal(a.embed_sentences(texts), b.embed_sentences(texts))
    for one, other in zip(a.embed_tokens(texts), b.embed_tokens(texts), strict=True):
        np.testing.assert_array_equal(one.tokens, other.tokens)
        np.testing.assert_array_equal(one.sentence, other.sentence)
        np.testing.assert_array_equal(one.special, other.special)


def record_batches(monkeypatch: pytest.MonkeyPatch, then: Callable[[list[list[str]]], None] = lambda _: None):
    """Let every forward pass be noted, and `then` be called before it runs."""
    batches: list[list[str]] = []
    plain = Embedder._forward

    def forward(self, model, texts, cut):
        then(batches)
        batches.append(texts)
        return plain(self, model, texts, cut)

    monkeypatch.setattr(Embedder, "_forward", forward)
    return batches


@pytest.mark.slow
def test_vectors_equal_the_library_s_own_to_half_precision(spec, fresh):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(spec.removeprefix("path:"), device="cpu")
    sentences = model.encode(TEXTS, normalize_embeddings=True)
    tokens = model.encode(TEXTS, output_value="token_embeddings")
    np.testing.assert_allclose(fresh.embed_sentences(TEXTS), sentences, atol=5e-4)
    for ours, theirs in zip(fresh.embed_tokens(TEXTS), tokens, strict=True):
        assert ours.tokens.shape == theirs.shape
        # half precision: 11 bits, so within 2^-11 of each number; twice that for the order of sums
        np.testing.assert_allclose(ours.tokens, theirs.numpy(), rtol=2**-10, atol=1e-5)
        np.testing.assert_array_equal(ours.cls, ours.tokens[0])


@pytest.mark.slow
def test_sentence_vectors_have_unit_length_and_come_in_the_order_asked_for(fresh):
    vectors = fresh.embed_sentences([*TEXTS, TEXTS[0]])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[-1])
    np.testing.assert_array_equal(fresh.embed_sentences(TEXTS[::-1]), vectors[:-1][::-1])
    np.testing.assert_array_equal(fresh.embed_sentences(TEXTS), [v.sentence for v in fresh.embed_tokens(TEXTS)])
    assert len(np.unique(vectors, axis=0)) == len(TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),  # "cats" is cat ##s; "..." is three full stops, which are words, as an unknown word is
    [("a dog ran", 3), ("...", 3), ("cats", 2), ("the zebra ran", 3), ("the cat sat on the mat .", 7)],
)
def test_first_and_last_tokens_are_special_and_words_are_not(fresh, text, words):
    (found,) = fresh.embed_tokens([text])
    assert found.special.tolist() == [True] + [False] * words + [True]
    assert found.tokens.shape == (words + 2, 32)


@pytest.mark.slow
def test_a_text_over_the_limit_is_cut_and_counted(fresh):
    fits, over = " ".join(["cat"] * 14), " ".join(["cat"] * 15)
    assert [fresh.count_cut([text]) for text in (fits, over)] == [0, 1]
    assert fresh.count_cut([fits, over, over]) == 2
    assert len(fresh.embed_tokens([over])[0].tokens) == LONGEST
    np.testing.assert_array_equal(fresh.embed_tokens([fits])[0].tokens, fresh.embed_tokens([over])[0].tokens)


@pytest.mark.slow
def test_a_cached_run_equals_a_fresh_one_and_computes_only_what_is_missing(spec, fresh, tmp_path, monkeypatch):
    cache = tmp_path / "new folder" / "vectors.sqlite"
    first = Embedder(spec, cache)
    assert first.prepare([*TEXTS[::-1], *TEXTS]) == len(TEXTS)
    assert_same(first, fresh, TEXTS)
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "_load", refuse_to_load)
        second = Embedder(spec, cache)
        assert second.prepare(TEXTS) == 0
        assert_same(second, fresh, TEXTS)
        assert second.count_cut(TEXTS) == fresh.count_cut(TEXTS) == 1
        with pytest.raises(AssertionError, match="the model was loaded"):
            second.embed_sentences(["the hat"])
    batches = record_batches(monkeypatch)
    assert Embedder(spec, cache).prepare([*TEXTS, "the hat", "a hat"]) == 2
    assert sorted(text for batch in batches for text in batch) == ["a hat", "the hat"]


@pytest.mark.slow
def test_batches_are_the_same_in_whatever_order_texts_come(spec, monkeypatch):
    monkeypatch.setattr(embed, "_TOKENS_AT_ONCE", 12)
    batches = record_batches(monkeypatch)
    texts = [f"{a} {b}" for a in WORDS[:3] for b in WORDS[3:6]]  # all of one length
    Embedder(spec).prepare(texts)
    Embedder(spec).prepare(texts[::-1])
    half = len(batches) // 2
    assert half > 1
    assert batches[:half] == batches[half:]


@pytest.mark.slow
def test_a_killed_run_keeps_every_finished_batch(spec, fresh, tmp_path, monkeypatch):
    def interrupt(batches):
        if len(batches) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(embed, "_TOKENS_AT_ONCE", 12)
    with monkeypatch.context() as patch:
        finished = record_batches(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            Embedder(spec, tmp_path / "cache").prepare(TEXTS)
    done = {text for batch in finished for text in batch}
    assert 0 < len(done) < len(TEXTS)
    resumed = Embedder(spec, tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "_load", refuse_to_load)
        assert resumed.prepare(done) == 0
    batches = record_batches(monkeypatch)
    assert resumed.prepare(TEXTS) == len(TEXTS) - len(done)
    assert {text for batch in batches for text in batch} == set(TEXTS) - done
    np.testing.assert_allclose(resumed.embed_sentences(TEXTS), fresh.embed_sentences(TEXTS), atol=1e-3)


@pytest.mark.slow
def test_vectors_of_tokens_are_kept_only_for_texts_that_they_were_asked_for(spec, fresh, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    batches = record_batches(monkeypatch)
    first = Embedder(spec, cache)
    sentences = first.embed_sentences(TEXTS)
    assert not first._db.execute("SELECT sum(length(tokens)) FROM vectors").fetchone()[0]
    again = Embedder(spec, cache)
    assert again.prepare(TEXTS, tokens=False) == 0
    assert again.prepare(TEXTS[:2]) == 2
    assert Embedder(spec, cache).prepare(TEXTS[:2]) == 0
    assert sum(map(len, batches)) == len(TEXTS) + 2
    for ours, whole in zip(again.embed_tokens(TEXTS[:2]), fresh.embed_tokens(TEXTS[:2]), strict=True):
        np.testing.assert_allclose(ours.tokens, whole.tokens, atol=2e-3)  # of another batch
    np.testing.assert_array_equal(Embedder(spec, cache).embed_sentences(TEXTS), sentences)


@pytest.mark.slow
def test_another_model_does_not_read_the_first_one_s_vectors(spec, tmp_path):
    other_spec = make_model(tmp_path / "second", seed=1)
    first, other = (Embedder(s, tmp_path / "cache") for s in (spec, other_spec))
    assert first.spec.identity != other.spec.identity
    assert first.prepare(TEXTS[:2]) == other.prepare(TEXTS[:2]) == 2
    assert not np.allclose(first.embed_sentences(TEXTS[:2]), other.embed_sentences(TEXTS[:2]), atol=0.01)


@pytest.mark.parametrize("empty", ["", "  ", "\n\t"])
def test_an_empty_text_is_refused_before_anything_is_computed(tmp_path, monkeypatch, empty):
    monkeypatch.setattr(Embedder, "_load", refuse_to_load)
    (tmp_path / "config.json").write_text("{}")
    embedder = Embedder(f"path:{tmp_path}")
    for ask, texts in ((embedder.prepare, ["the cat", empty]), (embedder.embed_sentences, [empty])):
        with pytest.raises(ValueError, match="empty text"):
            ask(texts)


@given(lengths=st.lists(st.integers(1, 9000), min_size=1, max_size=60).map(sorted))
def test_batches_take_every_text_once_and_keep_under_the_limit(lengths):
    batches = embed._split_batches(lengths)
    assert [i for first, last in batches for i in range(first, last)] == list(range(len(lengths)))
    for first, last in batches:
        padded = (last - first) * lengths[last - 1]
        assert padded <= embed._TOKENS_AT_ONCE or last - first == 1
    assert all(
        (last - first + 1) * lengths[last] > embed._TOKENS_AT_ONCE for first, last in batches[:-1]
    )  # no batch had room for the next text


def test_a_package_without_a_model_or_not_installed_is_refused():
    with pytest.raises(ValueError, match=r"numpy carries no sentence-transformers model \(no modules\.json"):
        Embedder("package:numpy").prepare(["the cat"])
    for ask in (Embedder, lambda spec: embed._find_package_model(spec.removeprefix("package:"))):
        with pytest.raises(ValueError, match="no-such-thing is not installed; run `make setup`"):
            ask("package:no-such-thing")


def test_the_default_embedder_s_folder_is_inside_its_package():
    spec = parse_role("embedder", DEFAULTS["embedder"])
    assert (embed._find_package_model(spec.name) / "config.json").is_file()
    assert spec.identity == f"package:{spec.name}@{importlib.metadata.version(spec.name)}"
