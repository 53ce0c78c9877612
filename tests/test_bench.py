"""The benches run, put their numbers beside each other's, and fail when a target is missed."""

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

from nfqa.models.chat import Failure, Reply

BENCH = Path(__file__).parents[1] / "bench"
KERNELS: dict[str, Any] = {
    "measure_correlation": {"kendall": {"kernel_seconds": 0.01, "scipy_loop_seconds": 0.2, "ratio": 20.0}},
    "measure_bootstrap": {
        "kernel_seconds": 0.1, "numpy_loop_seconds": 0.2, "scipy_seconds": 0.3,
        "ratio_to_numpy_loop": 2.0, "ratio_to_scipy": 3.0,
    },
    "measure_rouge": {"pairs": 9, "kernel_seconds": 0.1, "library_seconds": 0.2, "ratio": 2.0},
    "measure_import": {"import_seconds": 0.02, "bare_interpreter_seconds": 0.01, "difference_seconds": 0.01},
}  # fmt: skip
JUDGE = {
    "parameters": 42_000_000, "threads": 2, "torch": "2", "prompts": 20, "prompt_tokens_least": 940,
    "prompt_tokens_most": 1010, "new_tokens": 16, "generate_each_seconds": 24.0, "shared_logits_seconds": 2.0,
    "unshared_logits_seconds": 16.0, "shared_text_seconds": 6.0, "ratio": 12.0, "ratio_unshared_logits": 1.5,
    "ratio_shared_text": 4.0, "largest_difference": 1e-6, "equal_texts": 20,
}  # fmt: skip
SEARCH = {
    "documents": 100_000, "queries": 1_000, "dimensions": 384, "plain_seconds": 50.0, "nearest_seconds": 5.0,
    "words_seconds": 50.0, "vectors_and_fusion_seconds": 2.0, "ratio": 10.0, "search_to_plain": 1.04, "equal": 1.0,
    "gigabytes": 1.3,
}  # fmt: skip
ROW = {
    "questions": 4, "released_seconds": 20.0, "shared_seconds": 3.0, "ratio": 6.7, "work_ratio": 2.7,
    "gigaflops": 150.0, "matmul_gigaflops": 180.0, "share_of_matmul_rate": 0.83, "largest_difference": 1e-6,
}  # fmt: skip
DEVICE: dict[str, Any] = ROW | {
    "parameters": 124_000_000, "threads": 2, "torch": "2", "equal": ROW,
    "growth": {"partial_answers": [{"value": 4} | ROW], "answer_tokens": [], "vocabulary": [{"value": 8_192} | ROW]},
}  # fmt: skip
SLOW = [
    ("kernels", "measure_correlation", "ratio", 9.9, "kendall is 9.9 times as fast as scipy"),
    ("kernels", "measure_bootstrap", "kernel_seconds", 0.21, "the bootstrap takes 0.210 s"),
    ("kernels", "measure_import", "import_seconds", 0.51, "`import nfqa` takes 0.510 s"),
    ("judge", "measure_judge", "ratio", 9.9, "the judge is 9.9 times as fast as one prompt at a time"),
    ("judge", "measure_judge", "largest_difference", 2e-4, "shared and plain logprobs differ by 2.0e-04"),
    ("search", "measure_search", "ratio", 2.9, "nearest vectors are found 2.9 times as fast as by a plain scan"),
    ("search", "measure_search", "gigabytes", 4.1, "searching takes 4.1 GB"),
    ("perplexity", "measure_device", "ratio", 4.94, "on cpu it is 4.9 times as fast as the released way"),
    (
        "perplexity", "measure_device", "share_of_matmul_rate", 0.49,
        "on cpu it reaches 49% of the matrix product's rate",
    ),
    ("perplexity", "measure_device", "largest_difference", 2e-4, "on cpu the two ways' losses differ by 2.0e-04"),
]  # fmt: skip


def load(name: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """A bench as a module, with made-up measurements that meet every target."""
    patch.setenv("TOKENIZERS_PARALLELISM", "true")
    module = load_bench(name, patch)
    made = {
        "kernels": KERNELS,
        "judge": {"measure_judge": JUDGE},
        "perplexity": {"measure_device": DEVICE},
        "search": {"measure_search": SEARCH},
    }[name]
    for function, numbers in made.items():
        patch.setattr(module, function, lambda *_, numbers=numbers, **__: json.loads(json.dumps(numbers)))
    if name == "perplexity":
        patch.setattr(module, "list_devices", lambda: ["cpu"])
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kernels", ["10 or more", "0.2 s or less", "0.5 s or less"]),
        ("judge", ["10 or more", "1e-04 or less"]),
        ("search", ["3 or more", "4 or less"]),
        ("perplexity", ["5 or more", "50% or more", "1e-04 or less"]),
    ],
)
def test_a_quick_run_measures_everything_and_writes_it_down(tmp_path, name, words):
    out = tmp_path / "folder" / "bench.json"
    command = [sys.executable, str(BENCH / f"{name}.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(word in done.stdout for word in [*words, "targets: not held against a quick run"])
    report = json.loads(out.read_text())
    report = report if name == "kernels" else report[name]
    assert report["quick"] is True
    assert report["machine"]["cores"] >= 1
    if name == "kernels":
        assert set(report["correlation"]) == {"kendall", "spearman", "pearson"}
        assert all(row["ratio"] > 0 for row in report["correlation"].values())
    elif name == "judge":
        assert report["prompts"] == report["equal_texts"] == 3
        assert report["prompt_tokens_least"] >= 900
        assert report["largest_difference"] < 1e-4
    elif name == "search":
        assert report["equal"] == 1.0
        assert 0 < report["gigabytes"] < 4
    else:
        found = report["cpu"]
        assert [len(rows) for rows in found["growth"].values()] == [5, 5, 3]
        for row in [found, found["equal"], *(row for rows in found["growth"].values() for row in rows)]:
            assert row["ratio"] == pytest.approx(row["released_seconds"] / row["shared_seconds"])
            assert row["largest_difference"] < 1e-4


@pytest.mark.parametrize("name", ["judge", "perplexity", "search"])
def test_met_targets_end_well_and_the_other_numbers_stay(tmp_path, capsys, monkeypatch, name):
    out, bench = tmp_path / "b.json", load(name, monkeypatch)
    out.write_text(json.dumps({"correlation": {"kendall": 1}, "perplexity": {"cuda": {"ratio": 9}}}))
    assert bench.main(["--out", str(out)]) == 0
    assert capsys.readouterr().out.endswith("all met\n")
    report = json.loads(out.read_text())
    assert (report["correlation"], report["perplexity"]["cuda"]) == ({"kendall": 1}, {"ratio": 9})
    assert (report["perplexity"]["cpu"] if name == "perplexity" else report[name])["ratio"] > 6


def test_a_cuda_device_is_measured_too(tmp_path, capsys, monkeypatch):
    bench = load("perplexity", monkeypatch)
    monkeypatch.setattr(bench, "list_devices", lambda: ["cpu", "cuda"])
    assert bench.main(["--out", str(tmp_path / "b.json")]) == 0
    assert json.loads((tmp_path / "b.json").read_text())["perplexity"]["cuda"]["ratio"] == 6.7
    assert "cuda: 124 million" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "measure", "field", "value", "message"), SLOW)
def test_a_missed_target_fails_and_is_named(tmp_path, capsys, monkeypatch, name, measure, field, value, message):
    bench = load(name, monkeypatch)
    numbers = getattr(bench, measure)()
    (numbers.get("kendall") or numbers)[field] = value
    monkeypatch.setattr(bench, measure, lambda *_, **__: numbers)
    assert bench.main(["--out", str(tmp_path / "b.json")]) == 1
    assert message in capsys.readouterr().out
    report = json.loads((tmp_path / "b.json").read_text())
    assert (report if name == "kernels" else report[name])["missed"] == [message]


def test_calls_take_turns(monkeypatch):
    seen = []
    seconds = load("kernels", monkeypatch).time_calls(3, lambda: seen.append("a"), lambda: seen.append("b"))
    assert (seen, len(seconds)) == (["a", "b"] * 3, 2)


def test_prompts_share_all_but_the_candidate(monkeypatch):
    first, *others = load("judge", monkeypatch).make_requests(5)
    begun = first.prompt.index("Answer: ")
    assert {request.prompt[:begun] for request in others} == {first.prompt[:begun]}
    assert len({request.prompt for request in (first, *others)}) == 5
    assert first.prompt.count("Reference ") == 8


def test_replies_come_in_the_order_of_their_requests_and_a_failure_stops_the_bench(monkeypatch):
    bench, first, second = load("judge", monkeypatch), Reply("a", 1, 1), Reply("b", 1, 1)
    assert bench.collect([(1, second), (0, first)]) == [first, second]
    with pytest.raises(ValueError, match="prompt 1: too_long, no room; expected a reply"):
        bench.collect([(0, first), (1, Failure("too_long", "no room"))])


def test_products_are_counted(monkeypatch):
    # An answer of 3 tokens, partial answers of 1 and 2; width 2, 1 layer, vocabulary 5.
    bench = load("perplexity", monkeypatch)
    config = type("Config", (), {"n_embd": 2, "n_layer": 1, "vocab_size": 5})
    (rows,) = questions = bench.make_questions(1, 3, (1, 2), 5)
    assert [(len(row.tokens), row.first) for row in rows] == [(4, 3), (5, 3)]
    # 6 tokens x 12 x 4 weights; pairs: 6 of the answer, 3 + 1 and 6 + 3 of the partial answers, 19 x 2 x 2; 3 x 2 x 5
    assert bench.count_flops(config, questions) == 2 * (6 * 48 + 19 * 4 + 30)
    # 2 rows of 5 tokens, 25 pairs each, all of them before the whole vocabulary
    assert bench.count_released_flops(config, questions) == 2 * (10 * 48 + 50 * 4 + 100)
    for count in bench.GROWTH["partial_answers"]:
        lengths = bench.spread_lengths(count)
        assert (len(lengths), sum(lengths) / count) == (count, pytest.approx(150, abs=0.5))


def test_both_ways_sum_the_same_losses(monkeypatch):
    bench = load("perplexity", monkeypatch)
    model, questions = bench.make_model(50, "cpu", quick=True), bench.make_questions(2, 7, (3, 9, 1), 50)
    released = bench.score_as_released(model, questions)
    shared = bench.score_shared(bench.Engine(model, batch_tokens=4096), questions)
    ids, first = torch.tensor([questions[1][1].tokens]), questions[1][1].first
    with torch.no_grad():
        labels = torch.where(torch.arange(ids.shape[1]) < first, -100, ids)
        expected = float(model(input_ids=ids, labels=labels).loss) * 9
    assert released[1][1] == pytest.approx(expected, rel=1e-4)
    for ours, theirs in zip(shared, released, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
