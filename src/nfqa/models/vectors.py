"""Vectors of texts by a sentence-transformers model, in half precision, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nfqa.models.adapters import apply_adapter
from nfqa.models.roles import RoleSpec, find_package_file

_TOKENS_AT_ONCE = 6_000  # padded tokens a forward pass: bounds memory, and keeps batches near the cores' best speed


HalfVectors = tuple[str, bytes, bool, bytes, bytes]  # as `SentenceModel.embed` describes them


class SentenceModel:
    """A sentence-transformers model of any kind, in any precision, perhaps with an adapter; no remote code is run."""

    def __init__(self, spec: RoleSpec, dtype: str = "float32", adapter: Path | None = None) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        where = str(find_package_file(spec.name, "modules.json").parent) if spec.kind == "package" else spec.name
        model = SentenceTransformer(where, revision=spec.revision, trust_remote_code=False).eval()
        if adapter:
            apply_adapter(model, adapter)
        self.module = model.to(getattr(torch, dtype))

    def embed(self, texts: Sequence[str]) -> Iterator[list[HalfVectors]]:
        """The vectors of all texts, those of about one length together; the order of `texts` changes nothing.

        Of each the text, its vector of unit length, float16 [D], whether it was cut at its end, the last layer's
        vectors of its tokens, float16 [T, D], and which of them are special, bool [T]: [CLS] and [SEP], or a begin and
        an end.
        """
        import torch

        limit = self.module.max_seq_length or self.module.tokenizer.model_max_length
        lengths = [len(ids) for ids in self.module.tokenizer(list(texts), verbose=False)["input_ids"]]
        order = sorted(range(len(texts)), key=lambda i: (lengths[i], texts[i]))
        for first, last in split_batches([min(lengths[i], limit) for i in order]):
            chosen = order[first:last]
            with torch.inference_mode():
                yield self._forward([texts[i] for i in chosen], [lengths[i] > limit for i in chosen])

    def _forward(self, texts: list[str], cut: list[bool]) -> list[HalfVectors]:
        model, tokenizer = self.module, self.module.tokenizer
        inputs = {k: v.to(model.device) if hasattr(v, "to") else v for k, v in model.preprocess(texts).items()}
        marks = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
        output = model(inputs)
        vectors = []
        for i, text in enumerate(texts):
            length = int(inputs["attention_mask"][i].sum())
            tokens = output["token_embeddings"][i, :length].float().cpu().numpy().astype(np.float16)
            sentence = output["sentence_embedding"][i].float().cpu().numpy()
            special = np.array([int(token) in marks for token in inputs["input_ids"][i, :length]])
            half = (sentence / np.linalg.norm(sentence)).astype(np.float16)
            vectors.append((text, half.tobytes(), cut[i], tokens.tobytes(), special.tobytes()))
        return vectors


def split_batches(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Cut a rising list of lengths into runs of at most _TOKENS_AT_ONCE padded tokens."""
    batches, first = [], 0
    for i, length in enumerate(lengths):
        if i > first and (i + 1 - first) * length > _TOKENS_AT_ONCE:
            batches.append((first, i))
            first = i
    return [*batches, (first, len(lengths))]
