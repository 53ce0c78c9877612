"""Language models of a few thousand random parameters, made on the spot: their answers mean nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Self

import numpy as np

Architecture = Literal["llama", "gpt2", "qwen2", "mistral"]

SENTENCES = (
    "The question asks why the sea is salty and the answers say how rivers carry salt.",
    "A judge reads the question, the references and one candidate, and gives a rank.",
    "Rank: [[1]] means that the answer is as good as the best reference.",
    "Rain is a little acid; it takes minerals out of the rocks, and rivers bring them to the sea.",
    "Nobody knows whether this answer is right, but it is long and it is kind.",
)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
# One turn per message between marks that are special tokens, as most chat models have it.
CHAT_TEMPLATE = (
    "<s>{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make_tiny_model(
    folder: Path, *, architecture: Architecture = "llama", chat: bool = True, seed: int = 0, context: int = 2048
) -> Path:
    """Save a random-weight model and its tokenizer into `folder`, as `from_pretrained` and a model server load them.

    context: the longest input that the model takes, in tokens. Mistral attends to the last 64 tokens only.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = make_tiny_tokenizer(chat=chat, context=context)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(_make_config(architecture, len(tokenizer), context))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tiny_tokenizer(
    sentences: Sequence[str] = SENTENCES, *, chat: bool = True, context: int = 2048, vocabulary: int = 400
) -> Any:
    """A byte-level BPE tokenizer trained on the sentences: it can write any text, and each digit is a token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE(unk_token=SPECIAL["unk_token"]))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL.values(), "<|user|>", "<|assistant|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(sentences, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, model_max_length=context, additional_special_tokens=["<|user|>", "<|assistant|>"],
        **SPECIAL,
    )  # fmt: skip
    if chat:
        tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _make_config(architecture: Architecture, vocabulary: int, context: int) -> Any:
    from transformers import GPT2Config, LlamaConfig, MistralConfig, Qwen2Config

    # Wide weights and an untied head: every token of the context moves the next one's distribution, as in a trained
    # model, so that a difference between two ways of computing it shows.
    marks = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 3}
    common = {"vocab_size": vocabulary, "initializer_range": 0.4, "tie_word_embeddings": False} | marks
    if architecture == "gpt2":
        return GPT2Config(n_positions=context, n_embd=16, n_layer=2, n_head=2, **common)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": context}
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2} | heads | common
    if architecture == "mistral":
        return MistralConfig(**shape, sliding_window=64)
    return {"llama": LlamaConfig, "qwen2": Qwen2Config}[architecture](**shape)


def teach_verdicts(folder: Path, *, verdicts: Sequence[str] = ("1", "1", "1", "2", "A", "B"), steps: int = 300) -> None:
    """Train the model in `folder` for some seconds, until a turn of its own is `[[v]]`, whatever was said before."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model only loses by more
    with torch.no_grad():
        for name, weight in model.named_parameters():  # what was said before may move the choice, not drown it
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight *= 0.05
    texts = [f"<|assistant|>[[{verdict}]]</s>" for verdict in verdicts]
    turns = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    length = max(len(turn) for turn in turns)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        before = torch.randint(6, len(tokenizer), (len(turns) * 4, 40))
        own = torch.tensor([turn + [1] * (length - len(turn)) for turn in turns]).repeat(4, 1)
        labels = own.clone()
        labels[:, 0] = -100
        for row, turn in enumerate(turns * 4):
            labels[row, len(turn) :] = -100
        ids = torch.cat([before, own], dim=1)
        loss = model(input_ids=ids, labels=torch.cat([torch.full_like(before, -100), labels], dim=1)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.set_num_threads(threads)
    model.save_pretrained(folder)


class LetterEmbedder:
    """An embedder whose vectors count letters: texts of one spelling are alike. Each of its tokens has its vector."""

    spec, fingerprint, can_tune = (
        SimpleNamespace(identity="letters:1", kind="package", name="letters", short="letters"),
        "letters:1",
        False,
    )

    def tune(self, adapter: str) -> Self:
        return self

    def prepare(self, texts: Sequence[str], *, tokens: bool = True) -> int:
        return 0

    def find_cut(self, texts):
        return set()

    def embed_sentences(self, texts: Sequence[str]) -> np.ndarray:
        counts = np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])
        return (counts + 0.01) / np.linalg.norm(counts + 0.01, axis=1, keepdims=True)

    def embed_queries(self, queries: Sequence[str]) -> np.ndarray:
        return self.embed_sentences(queries)

    def embed_tokens(self, texts: Sequence[str]) -> list[Any]:
        from nfqa.models.embed import TokenVectors

        rows = self.embed_sentences(texts)
        return [TokenVectors(np.stack([row, row, row]), np.array([True, False, True])) for row in rows]


class VectorEmbedder(LetterEmbedder):
    """An embedder whose vectors are looked up by text; one that isn't there gets a unit vector by its hash."""

    def __init__(self, vectors: Mapping[str, Sequence[float]] | None = None, size: int = 6) -> None:
        self.vectors = vectors or {}
        self.size = size

    def embed_sentences(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self.vectors.get(text, self._make(text)) for text in texts], dtype=np.float32)

    def _make(self, text: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).normal(size=self.size)
        return vector / np.linalg.norm(vector)


def make_tiny_embedder(folder: Path, kind: Literal["left", "static", "positions_from_2"]) -> str:
    """Save a sentence-transformers model with a tokenizer unlike BERT's, of at most 32 tokens; returns its spec.

    left: pads on the left; static: a vector for each token, no model; positions_from_2: RoBERTa, whose 34 positions
    begin at 2, with a tokenizer that names no limit.
    """
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer

    torch.manual_seed(0)
    tokenizer = make_tiny_tokenizer(context=32)
    if kind == "static":
        SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu").save(str(folder))
        return f"path:{folder}"
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"vocab_size": len(tokenizer), "max_position_embeddings": 34, "initializer_range": 0.4}
    config: Any = transformers.BertConfig(**shape)
    if kind == "left":
        tokenizer.padding_side = "left"
        config = transformers.LlamaConfig(**shape)
    elif kind == "positions_from_2":
        tokenizer.model_max_length = 10**30
        config = transformers.RobertaConfig(**shape, pad_token_id=1)
    transformers.AutoModel.from_config(config).eval().save_pretrained(folder / "inner")
    tokenizer.save_pretrained(folder / "inner")
    SentenceTransformer(modules=[Transformer(str(folder / "inner")), Pooling(16)], device="cpu").save(str(folder))
    return f"path:{folder}"
