"""Vectors of texts by a sentence-transformers model, in half precision, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nfqa.models.adapters import apply_adapter
from nfqa.models.loading import explain_failure, refuse_empty
from nfqa.models.roles import RoleSpec, find_package_file

_TOKENS_AT_ONCE = 6_000  # padded tokens a forward pass: bounds memory, and keeps batches near the cores' best speed


HalfVectors = tuple[str, bytes, bool, bytes, bytes]  # as `SentenceModel.embed` describes them


class SentenceModel:
    """A sentence-transformers model of any kind, in any precision, perhaps with an adapter; no
    remote code is run.
    """

    def __init__(self, spec: RoleSpec, dtype: str = "float32", adapter: Path | None = None) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        where = str(find_package_file(spec.name, "modules.json").parent) if spec.kind == "package" else spec.name
        with explain_failure(spec, "; name a model of sentence-transformers whose files are all there, and whole"):
            model = SentenceTransformer(where, revision=spec.revision, trust_remote_code=False).eval()
        if adapter:
            apply_adapter(model, adapter)
        self.module = model.to(getattr(torch, dtype))
        self.name = f"{spec.kind}:{spec.name}"
        refuse_empty(self.module.tokenizer, spec)
        prepare_tokenizer(self.module)

    def embed(self, texts: Sequence[str]) -> Iterator[list[HalfVectors]]:
        """The vectors of all texts, those of about one length together; the order of `texts`
        changes nothing.

        Of each the text, its vector of unit length, float16 [D], whether it was cut at its end, the
        last layer's vectors of its tokens, float16 [T, D], and which of them are special, bool [T]:
        [CLS] and [SEP], or a begin and an end. Static embeddings have no vectors of tokens in a
        text: the last two are empty.
        Raises: ValueError for a text whose vector has no direction.
        """
        import torch

        limit = self.module.max_seq_length or self.module.tokenizer.model_max_length
        lengths = self._count_tokens(list(texts))
        order = sorted(range(len(texts)), key=lambda i: (lengths[i], texts[i]))
        for first, last in split_batches([min(lengths[i], limit) for i in order]):
            chosen = order[first:last]
            with torch.inference_mode():
                yield self._forward([texts[i] for i in chosen], [lengths[i] > limit for i in chosen])

    def _forward(self, texts: list[str], cut: list[bool]) -> list[HalfVectors]:
        model, tokenizer = self.module, self.module.tokenizer
        inputs = {k: v.to(model.device) if hasattr(v, "to") else v for k, v in model.preprocess(texts).items()}
        names = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id")
        marks = {getattr(tokenizer, name, None) for name in names}
        output = model(inputs)
        vectors = []
        for i, text in enumerate(texts):
            tokens, special = np.zeros(0, np.float16), np.zeros(0, np.bool_)
            if "token_embeddings" in output:
                read = inputs["attention_mask"][i].bool()  # some models pad on the left
                tokens = output["token_embeddings"][i][read].float().cpu().numpy().astype(np.float16)
                special = np.array([int(token) in marks for token in inputs["input_ids"][i][read]])
            sentence = output["sentence_embedding"][i].float().cpu().numpy()
            size = np.linalg.norm(sentence)
            if not 0 < size < np.inf:
                raise ValueError(
                    f"{self.name} gives a vector of length {size} to the text {text[:60]!r}; remove the text, choose"
                    " another embedder, or set NFQA_DTYPE=float32"
                )
            half = (sentence / size).astype(np.float16)
            vectors.append((text, half.tobytes(), cut[i], tokens.tobytes(), special.tobytes()))
        return vectors

    def _count_tokens(self, texts: list[str]) -> list[int]:
        """The tokens of each whole text, with the marks at its ends."""
        tokenizer = self.module.tokenizer
        if hasattr(tokenizer, "encode_batch"):  # of static embeddings, which add no marks
            return [len(each.ids) for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
        return [len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]]


def prepare_tokenizer(model: Any) -> None:
    """Let a model of sentence-transformers cut texts at the positions that it has, and pad where it
    names no padding.

    RoBERTa and its kind count positions from the one after their padding's number. Any token will
    do as padding: it is masked.
    """
    from torch import nn

    tokenizer = model.tokenizer
    for module in model.modules():
        positions, padding = getattr(module, "position_embeddings", None), getattr(module, "padding_idx", None)
        if isinstance(positions, nn.Embedding):
            room = positions.num_embeddings - (padding + 1 if isinstance(padding, int) else 0)
            model.max_seq_length = min(room, model.max_seq_length or room)
    if getattr(tokenizer, "pad_token", "") is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)


def split_batches(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Cut a rising list of lengths into runs of at most _TOKENS_AT_ONCE padded tokens."""
    batches, first = [], 0
    for i, length in enumerate(lengths):
        if i > first and (i + 1 - first) * length > _TOKENS_AT_ONCE:
            batches.append((first, i))
            first = i
    return [*batches, (first, len(lengths))]
