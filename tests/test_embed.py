"""The embedder over a tiny random BERT: against the libraries called plainly, through its cache, killed and resumed."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import constants
from tiny_models import make_tiny_embedder

from nfqa.metrics.overlap import score_pairs
from nfqa.models import vectors
from nfqa.models.causal_lm import CausalLM
from nfqa.models.embed import Embedder
from nfqa.models.evaluator import Evaluator
from nfqa.models.roles import parse_role

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


def make_bert(folder: Path, seed: int) -> None:
    """Save a two-layer random BERT over WORDS, and its tokenizer."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    tokenizer = transformers.BertTokenizerFast(vocab=str(vocabulary), model_max_length=LONGEST)
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=LONGEST + 8, initializer_range=0.4,
    )  # fmt: skip
    transformers.BertModel(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_model(folder: Path, seed: int = 0) -> str:
    """A random BERT saved as a sentence-transformers model; returns its role spec."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    make_bert(folder / "bert", seed)
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


def record_batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of every forward pass from now on."""
    batches: list[list[str]] = []
    plain = vectors.SentenceModel._forward

    def forward(self: Any, texts: list[str], cut: list[bool]) -> Any:
        batches.append(texts)
        return plain(self, texts, cut)

    monkeypatch.setattr(vectors.SentenceModel, "_forward", forward)
    return batches


@pytest.mark.slow
def test_vectors_equal_the_library_s_own_to_half_precision(spec, fresh):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(spec.removeprefix("path:"), device="cpu")
    sentences = model.encode(TEXTS, normalize_embeddings=True)
    tokens = model.encode(TEXTS, output_value="token_embeddings")
    result = fresh.embed_sentences([*TEXTS, TEXTS[0]])
    np.testing.assert_allclose(result[:-1], sentences, atol=5e-4)
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(result[0], result[-1])
    for ours, theirs in zip(fresh.embed_tokens(TEXTS), tokens, strict=True):
        assert ours.special.tolist() == [True, *[False] * (len(theirs) - 2), True]
        # half precision: 11 bits, so within 2^-11 of each number; twice that for the order of sums
        np.testing.assert_allclose(ours.tokens, theirs.numpy(), rtol=2**-10, atol=1e-5)


@pytest.mark.slow
def test_a_cached_run_equals_a_fresh_one_and_computes_only_what_is_missing(spec, fresh, tmp_path, monkeypatch):
    cache = tmp_path / "new folder" / "vectors.sqlite"
    batches = record_batches(monkeypatch)
    assert Embedder(spec, cache).prepare([*TEXTS[::-1], *TEXTS]) == len(TEXTS)
    batches.clear()
    again = Embedder(spec, cache)
    assert again.prepare(TEXTS) == 0
    np.testing.assert_array_equal(again.embed_sentences(TEXTS[::-1]), fresh.embed_sentences(TEXTS)[::-1])
    for one, other in zip(again.embed_tokens(TEXTS), fresh.embed_tokens(TEXTS), strict=True):
        np.testing.assert_array_equal(one.tokens, other.tokens)
        np.testing.assert_array_equal(one.special, other.special)
    assert not batches
    assert Embedder(spec, cache).prepare([*TEXTS, "the hat", "a hat"]) == 2
    assert sorted(text for batch in batches for text in batch) == ["a hat", "the hat"]
    other = Embedder(make_model(tmp_path / "second", seed=1), cache)
    assert other.prepare(TEXTS[:2]) == 2, "another model has vectors of its own"


def test_an_empty_text_is_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "config.json").write_text("{}")  # no model, so that loading it would fail otherwise
    with pytest.raises(ValueError, match="empty text"):
        Embedder(f"path:{tmp_path}").prepare(["the cat", " \n\t"])


def test_queries_stand_behind_the_prompt_that_the_model_publishes_for_them_and_texts_do_not(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    spec = make_model(tmp_path)
    folder = Path(spec.removeprefix("path:"))
    plain, texts = Embedder(spec), TEXTS[:2]
    np.testing.assert_array_equal(plain.embed_queries(texts), plain.embed_sentences(texts))  # it publishes none
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"prompts": {"query": "a big cat: "}}))
    other = Embedder(spec)
    np.testing.assert_array_equal(other.embed_sentences(texts), plain.embed_sentences(texts))
    expected = SentenceTransformer(str(folder), device="cpu").encode_query(texts, normalize_embeddings=True)
    np.testing.assert_allclose(other.embed_queries(texts), expected, atol=2e-3)
    assert np.abs(other.embed_queries(texts) - plain.embed_sentences(texts)).max() > 0.05
    assert plain.fingerprint != other.fingerprint


HUB_MODELS = {
    "embedder": lambda: Embedder("hf:a/b").embed_sentences(["a"]),
    "judge": lambda: CausalLM(parse_role("judge", "hf:a/b")).identity,
    "evaluator": lambda: Evaluator(parse_role("evaluator", "hf:a/b")).chats,
}


@pytest.mark.parametrize("role", HUB_MODELS)
def test_a_hub_that_can_not_be_reached_is_told_in_one_line_at_once(role, monkeypatch, tmp_path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    began = time.monotonic()
    with pytest.raises(ValueError, match="hf:a/b can't be opened from the cache") as caught:
        HUB_MODELS[role]()
    assert time.monotonic() - began < 2
    assert not constants.HF_HUB_OFFLINE  # as it was before
    for fact in (endpoint, str(tmp_path), "HF_HOME", "path:FOLDER", "package:NAME"):
        assert fact in str(caught.value)
    assert "\n" not in str(caught.value)


SHORT = ["the sea is salt", "rivers", "a judge reads the question, the references and one candidate"]


def encode_alone(spec: str, text: str, **options: Any) -> np.ndarray:
    """A text's vectors by sentence-transformers, without padding."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(spec.removeprefix("path:"), device="cpu")
    return np.asarray(model.encode([text], convert_to_numpy=True, **options)[0])


@pytest.mark.parametrize("kind", ["left", "static", "positions_from_2"])
def test_other_tokenizers_give_the_vectors_of_each_text_alone(kind: Any, tmp_path: Path) -> None:
    spec = make_tiny_embedder(tmp_path, kind)
    embedder, long = Embedder(spec), " ".join(["the sea"] * 40)
    expected = [encode_alone(spec, text, normalize_embeddings=True) for text in SHORT]
    np.testing.assert_allclose(embedder.embed_sentences([*SHORT, long])[:3], expected, atol=5e-4)
    assert embedder.find_cut([*SHORT, long]) == (set() if kind == "static" else {long})
    pairs = [(SHORT[0], SHORT[0]), (SHORT[0], SHORT[2]), (SHORT[0], long)]
    if kind == "static":
        with pytest.raises(ValueError, match=r"path:.* has no vectors of tokens .*choose another embedder"):
            score_pairs("bertscore", pairs, embedder)
        return
    for vectors_of, text in zip(embedder.embed_tokens(SHORT), SHORT, strict=True):
        alone = encode_alone(spec, text, output_value="token_embeddings")
        np.testing.assert_allclose(vectors_of.tokens, alone, atol=4e-3)
    same, *others = score_pairs("bertscore", pairs, embedder)
    assert same == pytest.approx(1, abs=1e-3)
    assert all(0.05 < other < 0.999 for other in others)
