"""Training of coverage: which pairs are stated, what is kept out, and that a step lowers the loss."""

from __future__ import annotations

import random

import pytest
import torch
import train_coverage
from safetensors.torch import load_file, save_file

from nfqa.metrics.coverage import measure_coverage
from nfqa.models.adapters import find_adapter
from nfqa.models.embed import Embedder
from reproduction.data.web import load_frame
from reproduction.studies.stated_views import is_held_out

TINY = [
    train_coverage.Pair("Cats are quiet pets.", "A cat makes little noise.", True, "cats"),
    train_coverage.Pair("Cats are quiet pets.", "A cat makes much noise.", False, "cats"),
    train_coverage.Pair("Taxes pay for schools.", "Schools need taxes.", True, "taxes"),
    train_coverage.Pair("Taxes pay for schools.", "Taxes are theft.", False, "taxes"),
]


@pytest.mark.parametrize("read", [train_coverage.read_perspectrum, train_coverage.read_debatewise])
def test_no_text_of_a_held_out_claim_is_trained_on(read):
    pairs = read(random.Random(0), "sample")
    assert {pair.stated for pair in pairs} == {True, False}
    claims, held = train_coverage.read_claims("sample")
    assert len(claims) + len(held) == len(load_frame("perspectrum", data="sample")[0])
    seen = {train_coverage.plain(text) for pair in pairs for text in (pair.answer, pair.view, pair.claim)}
    assert seen.isdisjoint(train_coverage.list_plain(held))
    assert not any(is_held_out(claim) for claim in claims.question)


def test_a_negated_view_is_stated_by_a_negated_text_alone():
    claims, _ = train_coverage.read_claims("sample")
    views = {
        text: (row.question, number)
        for row in claims.itertuples()
        for number, (_, texts) in enumerate(row.views)
        for text in texts
    }
    kinds = set()
    for pair in train_coverage.read_perspectrum(random.Random(1), "sample"):
        assert pair.answer != pair.view
        answer, view = views.get(pair.answer), views.get(pair.view)
        if answer and view:  # both are people's words
            assert pair.stated == (answer == view)
        else:
            assert pair.stated == (answer is None and view is None)
        kinds.add((answer is None, view is None))
    assert kinds == {(False, False), (False, True), (True, True), (True, False)}


@pytest.mark.monthly
def test_a_step_lowers_the_loss_of_its_batch():
    torch.manual_seed(0)
    model = train_coverage.SentenceModel(train_coverage.parse_role("embedder", train_coverage.EMBEDDER)).module
    added = train_coverage.add_low_rank(model, 2, train_coverage.LAYERS)
    assert len(added) == 36
    line = torch.nn.Parameter(torch.tensor([10.0, -6.0]))
    optimiser = torch.optim.AdamW([line, *(p for p in model.parameters() if p.requires_grad)], lr=1e-3)
    losses = []
    for _ in range(4):
        vectors = [
            train_coverage.embed_all(model, texts) for texts in ([p.answer for p in TINY], [p.view for p in TINY])
        ]
        loss = train_coverage.find_loss(TINY, *vectors, line)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < losses[0]


def test_a_twin_of_the_stated_view_is_no_other_view():
    same = [TINY[0], TINY[0]._replace(answer="No cat is loud."), TINY[2]]
    answers, views = torch.eye(3), torch.eye(3)[[0, 0, 2]]
    alone = train_coverage.find_loss(same, answers, views, torch.tensor([0.0, 0.0]))
    # of each answer only the third's view is another; the second answer has cosine 0 with its own view and 0 with it
    right = torch.tensor([20.0, 0.0, 20.0]) - torch.logaddexp(
        torch.tensor([20.0, 0.0, 20.0]), torch.tensor([0.0, 0.0, 0.6931])
    )
    assert alone.item() == pytest.approx(0.6931 - 0.5 * right.mean().item(), abs=2e-3)


def test_half_of_an_addition_is_half_of_it(tmp_path):
    save_file(
        {"query.up": torch.ones(2, 1).half(), "query.down": torch.ones(1, 3).half()}, tmp_path / "whole.safetensors"
    )
    parts = load_file(train_coverage.scale_adapter(tmp_path / "whole.safetensors", 0.5))
    assert parts["query.up"].tolist() == [[0.5], [0.5]]
    assert parts["query.down"].tolist() == [[1.0, 1.0, 1.0]]


def test_the_packaged_coverage_places_a_stated_view_above_others():
    embedder = Embedder(train_coverage.EMBEDDER)
    views = [
        "Zoos help animals to survive as species.",
        "Zoos teach children about nature.",
        "Animals belong in the wild.",
    ]
    result = measure_coverage(
        "By breeding rare animals, zoos keep them from dying out.", views, embedder.tune("coverage")
    )
    assert result.argmax() == 0
    assert find_adapter("coverage").stat().st_size < 1e6
