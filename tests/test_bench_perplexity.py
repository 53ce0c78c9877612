"""The bench of Perspective Diversity runs, puts its numbers beside the others, and fails when a target is missed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import load_bench

BENCH = Path(__file__).parents[1] / "bench" / "perplexity.py"
ROW = {
    "questions": 4, "released_seconds": 20.0, "shared_seconds": 3.0, "ratio": 6.7, "work_ratio": 2.7,
    "gigaflops": 150.0, "matmul_gigaflops": 180.0, "share_of_matmul_rate": 0.83, "largest_difference": 1e-6,
}  # fmt: skip
FAST: dict[str, Any] = ROW | {
    "parameters": 124_000_000, "threads": 2, "torch": "2", "equal": ROW,
    "growth": {"partial_answers": [{"value": 4} | ROW], "answer_tokens": [], "vocabulary": [{"value": 8_192} | ROW]},
}  # fmt: skip
SLOW = [
    ("ratio", 4.94, "on cpu it is 4.9 times as fast as the released way"),
    ("share_of_matmul_rate", 0.49, "on cpu it reaches 49% of the matrix product's rate"),
    ("largest_difference", 2e-4, "on cpu the two ways' losses differ by 2.0e-04"),
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The bench as a module, with made-up measurements that meet every target."""
    module = load_bench("perplexity", monkeypatch)
    monkeypatch.setattr(module, "measure_device", lambda device, *, quick: dict(FAST))
    monkeypatch.setattr(module, "list_devices", lambda: ["cpu"])
    return module


@pytest.mark.slow
def test_a_quick_run_measures_everything_and_writes_it_down(tmp_path):
    out = tmp_path / "folder" / "bench.json"
    done = subprocess.run(
        [sys.executable, str(BENCH), "--quick", "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(out.read_text())["perplexity"]
    found = report["cpu"]
    assert report["quick"] is True
    assert {name: len(rows) for name, rows in found["growth"].items()} == {
        "partial_answers": 5, "answer_tokens": 5, "vocabulary": 3,
    }  # fmt: skip
    rows = [found, found["equal"], *(row for rows in found["growth"].values() for row in rows)]
    for row in rows:
        assert row["released_seconds"] > 0
        assert row["shared_seconds"] > 0
        assert row["ratio"] == pytest.approx(row["released_seconds"] / row["shared_seconds"])
        assert row["share_of_matmul_rate"] > 0
        assert row["largest_difference"] < 1e-4
    for words in ("5 or more", "50% or more", "1e-04 or less", "targets: not held against a quick run"):
        assert words in done.stdout


def test_met_targets_end_well_and_the_other_numbers_stay(bench, tmp_path, capsys):
    out = tmp_path / "b.json"
    out.write_text(json.dumps({"judge": {"ratio": 1}, "perplexity": {"cuda": {"ratio": 9}, "cpu": {"ratio": 0}}}))
    assert bench.main(["--out", str(out)]) == 0
    assert capsys.readouterr().out.endswith("all met\n")
    report = json.loads(out.read_text())
    assert report["judge"] == {"ratio": 1}
    assert report["perplexity"]["cpu"]["ratio"] == 6.7
    assert report["perplexity"]["cuda"] == {"ratio": 9}, "a record from a machine that has one"


def test_a_cuda_device_is_measured_too(bench, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench, "list_devices", lambda: ["cpu", "cuda"])
    assert bench.main(["--out", str(tmp_path / "b.json")]) == 0
    assert json.loads((tmp_path / "b.json").read_text())["perplexity"]["cuda"]["ratio"] == 6.7
    assert "cuda: 124 million" in capsys.readouterr().out


@pytest.mark.parametrize(("field", "value", "message"), SLOW)
def test_a_missed_target_fails_and_is_named(bench, tmp_path, capsys, monkeypatch, field, value, message):
    monkeypatch.setattr(bench, "measure_device", lambda device, *, quick: FAST | {field: value})
    assert bench.main(["--out", str(tmp_path / "b.json")]) == 1
    assert message in capsys.readouterr().out
    assert json.loads((tmp_path / "b.json").read_text())["perplexity"]["missed"] == [message]


def test_products_are_counted(bench):
    # An answer of 3 tokens, partial answers of 1 and 2; width 2, 1 layer, vocabulary 5.
    config = type("Config", (), {"n_embd": 2, "n_layer": 1, "vocab_size": 5})
    (rows,) = questions = bench.make_questions(1, 3, (1, 2), 5)
    assert [(len(row.tokens), row.first) for row in rows] == [(4, 3), (5, 3)]
    # 6 tokens x 12 x 4 weights; pairs: 6 of the answer, 3 + 1 and 6 + 3 of the partial answers, 19 x 2 x 2; 3 x 2 x 5
    assert bench.count_flops(config, questions) == 2 * (6 * 48 + 19 * 4 + 30)
    # 2 rows of 5 tokens, 25 pairs each, all of them before the whole vocabulary
    assert bench.count_released_flops(config, questions) == 2 * (10 * 48 + 50 * 4 + 100)


def test_the_lengths_keep_their_mean(bench):
    for count in bench.GROWTH["partial_answers"]:
        lengths = bench.spread_lengths(count)
        assert len(lengths) == count
        assert sum(lengths) / count == pytest.approx(150, abs=0.5)


def test_both_ways_sum_the_same_losses(bench):
    model = bench.make_model(50, "cpu", quick=True)
    questions = bench.make_questions(2, 7, (3, 9, 1), 50)
    released = bench.score_as_released(model, questions)
    shared = bench.score_shared(bench.Engine(model, batch_tokens=4096), questions)
    row = questions[1][1]
    ids = torch.tensor([row.tokens])
    with torch.no_grad():
        labels = torch.where(torch.arange(ids.shape[1]) < row.first, -100, ids)
        expected = float(model(input_ids=ids, labels=labels).loss) * 9
    assert released[1][1] == pytest.approx(expected, rel=1e-4)
    for ours, theirs in zip(shared, released, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
