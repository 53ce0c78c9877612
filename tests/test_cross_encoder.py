"""A cross-encoder of random weights, made on the spot: its scores are the model's own, pair by pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_embed import make_bert
from tiny_models import make_tiny_model, make_tiny_tokenizer

from nfqa.models.reranker import open_cross_encoder
from nfqa.models.roles import parse_role
from reproduction.debates.search import rerank

PAIRS = [("the cat", "the cat sat on the mat ."), ("the cat", "a dog ran"), ("a dog", "a dog ran")]


def make_model(folder: Path, outputs: int = 1) -> str:
    make_bert(folder, "BertForSequenceClassification", longest=32, num_labels=outputs)
    return f"path:{folder}"


def test_scores_are_the_model_s_own_and_order_documents(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    score = open_cross_encoder(parse_role("reranker", make_model(tmp_path)))
    found = score(PAIRS)
    model, tokenizer = (kind.from_pretrained(tmp_path) for kind in (AutoModelForSequenceClassification, AutoTokenizer))
    with torch.no_grad():
        logits = [float(model(**tokenizer(*pair, return_tensors="pt")).logits) for pair in PAIRS]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-np.array(logits))), rtol=1e-4)
    texts = pd.DataFrame({"document": ["a", "b"], "text": [PAIRS[0][1], PAIRS[1][1]]})
    ranking = pd.DataFrame({"query": "the cat", "document": ["a", "b"]})
    assert rerank(ranking, texts, score, top=1).document.tolist() == ["a" if found[0] > found[1] else "b"]


def test_a_text_over_the_positions_of_a_model_that_counts_from_2_is_cut(tmp_path: Path) -> None:
    import torch
    from transformers import RobertaConfig, RobertaForSequenceClassification

    tokenizer, shape = make_tiny_tokenizer(context=10**30), {"hidden_size": 16, "intermediate_size": 32}
    shape |= {"num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": len(tokenizer), "num_labels": 1}
    torch.manual_seed(0)
    model = RobertaForSequenceClassification(RobertaConfig(**shape, max_position_embeddings=34, pad_token_id=1)).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    score = open_cross_encoder(parse_role("reranker", f"path:{tmp_path}"))
    inputs = tokenizer("the sea", "salt " * 99, truncation="longest_first", max_length=32, return_tensors="pt")
    with torch.no_grad():
        expected = model(**inputs).logits.sigmoid().item()
    np.testing.assert_allclose(score([("the sea", "salt " * 99)]), expected, rtol=1e-4)


def test_a_model_with_several_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gives 3 numbers a pair"):
        open_cross_encoder(parse_role("reranker", make_model(tmp_path, outputs=3)))


def test_a_causal_model_is_asked_in_its_family_s_format_and_scores_by_the_logit_of_yes(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    make_tiny_model(tmp_path)
    score = open_cross_encoder(parse_role("reranker", f"path:{tmp_path}"))
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path), AutoModelForCausalLM.from_pretrained(tmp_path)
    instruction = (
        "Given a query A and a passage B, determine whether the passage contains an answer to the query by providing"
        " a prediction of either 'Yes' or 'No'."
    )

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def find_yes(ids: list[int]) -> float:
        with torch.no_grad():
            return float(model(torch.tensor([ids])).logits[0, -1, encode("Yes")[0]])

    query, text, long = encode("A: the sea"), encode("B: rivers carry salt"), encode("B: " + "salt " * 3_000)
    line, end = encode("\n"), encode("\n") + encode(instruction)
    expected = [
        find_yes([0, *query, *line, *text, *end]),
        find_yes([0, *query, *line, *long][:1024] + end),  # the text gives way, never the instruction
        find_yes([0, *encode("A: " + "sea " * 3_000)[:768], *line, *text][:1024] + end),
    ]
    pairs = [("the sea", "rivers carry salt"), ("the sea", "salt " * 3_000), ("sea " * 3_000, "rivers carry salt")]
    np.testing.assert_allclose(score(pairs), expected, rtol=1e-4)
    assert len({round(value, 4) for value in expected}) == 3
