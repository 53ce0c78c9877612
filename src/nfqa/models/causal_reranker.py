"""Rerankers that are causal language models and answer Yes, as bge-reranker-v2-gemma does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nfqa.files.json_lines import read_yaml
from nfqa.models.precision import read_precision
from nfqa.models.pretrained import Pretrained
from nfqa.models.roles import RoleSpec


def open_causal_reranker(spec: RoleSpec) -> Callable[[Sequence[tuple[str, str]]], NDArray[np.floating]]:
    """A scorer of (query, text) pairs by a causal language model: the logit of "Yes" after a prompt, high is near.

    The prompt is the query, the text and an instruction, a line each, behind the token that begins a text; a query is
    cut at 768 tokens, and the text where both come to 1,024. Pairs are run one by one, so none is padded.

    Source: the model card of BAAI/bge-reranker-v2-gemma (`causal_reranker.yml`), which DebateQA uses (section 3.1).
    """
    import torch

    how = read_yaml(Path(__file__).with_suffix(".yml"))
    loaded = Pretrained(spec, dtype=read_precision())

    def read(text: str) -> list[int]:
        return list(loaded.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    begin = [loaded.tokenizer.bos_token_id] if loaded.tokenizer.bos_token_id is not None else []
    line, ask, (answer, *_) = (read(how[name]) for name in ("between", "ask", "answer"))

    def score_one(query: str, text: str) -> float:
        asked = begin + read(how["query"] + query)[: how["longest_query"]]
        ids = (asked + line + read(how["text"] + text))[: how["longest"]] + line + ask
        with torch.inference_mode():
            return float(loaded.model(torch.tensor([ids], device=loaded.place)).logits[0, -1, answer])

    return lambda pairs: np.array([score_one(*pair) for pair in pairs])
