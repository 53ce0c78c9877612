"""The reranker role: how near a text is to a query, by a cross-encoder or a causal language model that answers Yes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nfqa.files.json_lines import read_yaml
from nfqa.models.embed import find_file
from nfqa.models.loading import explain_failure, open_quietly, read_precision, refuse_empty
from nfqa.models.pretrained import Pretrained
from nfqa.models.roles import RoleSpec
from nfqa.models.vectors import prepare_tokenizer

_Scorer = Callable[[Sequence[tuple[str, str]]], NDArray[np.floating]]


def open_cross_encoder(spec: RoleSpec) -> _Scorer:
    """A scorer of (query, text) pairs by any CrossEncoder of sentence-transformers: one number a pair, high is near.

    No remote code is run; a text over the model's limit is cut at its end. A causal language model that doesn't say
    itself how it is asked (no modules.json) is asked as `_open_causal_reranker` does.
    Raises: ValueError for a model with several outputs a pair, such as one trained for entailment.
    """
    from sentence_transformers import CrossEncoder
    from transformers import AutoConfig

    options = {"revision": spec.revision, "trust_remote_code": False}
    with open_quietly(spec), explain_failure(spec):
        architectures = AutoConfig.from_pretrained(spec.name, **options).architectures or [""]
    if architectures[0].endswith("ForCausalLM") and find_file(spec, "modules.json") is None:
        return _open_causal_reranker(spec)
    with open_quietly(spec), explain_failure(spec):
        model = CrossEncoder(spec.name, **options)
    refuse_empty(model.tokenizer, spec)
    prepare_tokenizer(model)
    if model.num_labels != 1:
        raise ValueError(f"{spec.identity} gives {model.num_labels} numbers a pair; expected a reranker, which gives 1")
    return lambda pairs: np.asarray(model.predict(list(pairs), show_progress_bar=False), dtype=np.float64)


def _open_causal_reranker(spec: RoleSpec) -> _Scorer:
    """A scorer of (query, text) pairs by a causal language model: the logit of "Yes" after a prompt, high is near.

    The prompt is the query, the text and an instruction, a line each, behind the token that begins a text; a query is
    cut at 768 tokens, and the text where both come to 1,024. Pairs are run one by one, so none is padded.

    Source: the model card of BAAI/bge-reranker-v2-gemma (`reranker.yml`), which DebateQA uses (section 3.1).
    """
    import torch

    settings = read_yaml(Path(__file__).with_suffix(".yml"))
    loaded = Pretrained(spec, dtype=read_precision())

    def read(text: str) -> list[int]:
        return list(loaded.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    begin = [loaded.tokenizer.bos_token_id] if loaded.tokenizer.bos_token_id is not None else []
    line, question, (answer, *_) = (read(settings[name]) for name in ("between", "ask", "answer"))

    def score_one(query: str, text: str) -> float:
        before = begin + read(settings["query"] + query)[: settings["longest_query"]]
        ids = (before + line + read(settings["text"] + text))[: settings["longest"]] + line + question
        with torch.inference_mode():
            return float(loaded.model(torch.tensor([ids], device=loaded.place)).logits[0, -1, answer])

    return lambda pairs: np.array([score_one(*pair) for pair in pairs])
