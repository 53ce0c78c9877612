"""The judge's bench runs, puts its numbers beside the others, and fails when a target is missed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import load_bench

from nfqa.models.chat import Failure, Reply

BENCH = Path(__file__).parents[1] / "bench" / "judge.py"
FAST = {
    "parameters": 42_000_000, "threads": 2, "torch": "2", "prompts": 20, "prompt_tokens_least": 940,
    "prompt_tokens_most": 1010, "new_tokens": 16, "generate_each_seconds": 24.0, "shared_logits_seconds": 2.0,
    "unshared_logits_seconds": 16.0, "shared_text_seconds": 6.0, "ratio": 12.0, "ratio_unshared_logits": 1.5,
    "ratio_shared_text": 4.0, "largest_difference": 1e-6, "equal_texts": 20,
}  # fmt: skip
SLOW = [
    ("ratio", 9.9, "the judge is 9.9 times as fast as one prompt at a time"),
    ("largest_difference", 2e-4, "shared and plain logprobs differ by 2.0e-04"),
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The bench as a module, with made-up measurements that meet every target."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    module = load_bench("judge", monkeypatch)
    monkeypatch.setattr(module, "measure_judge", lambda *, quick: dict(FAST))
    return module


@pytest.mark.slow
def test_a_quick_run_measures_everything_and_writes_it_down(tmp_path):
    out = tmp_path / "folder" / "bench.json"
    done = subprocess.run(
        [sys.executable, str(BENCH), "--quick", "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(out.read_text())["judge"]
    assert report["prompts"] == report["equal_texts"] == 3
    assert report["prompt_tokens_least"] >= 900
    assert 0 <= report["largest_difference"] < 1e-4
    assert all(report[name] > 0 for name in report if name.endswith("_seconds") or name.startswith("ratio"))
    assert report["quick"] is True
    for words in ("10 or more", "1e-04 or less", "targets: not held against a quick run"):
        assert words in done.stdout


def test_met_targets_end_well_and_the_other_numbers_stay(bench, tmp_path, capsys):
    out = tmp_path / "b.json"
    out.write_text(json.dumps({"correlation": {"kendall": 1}, "missed": []}))
    assert bench.main(["--out", str(out)]) == 0
    assert capsys.readouterr().out.endswith("all met\n")
    report = json.loads(out.read_text())
    assert (report["correlation"], report["judge"]["ratio"]) == ({"kendall": 1}, 12.0)


@pytest.mark.parametrize(("field", "value", "message"), SLOW)
def test_a_missed_target_fails_and_is_named(bench, tmp_path, capsys, monkeypatch, field, value, message):
    monkeypatch.setattr(bench, "measure_judge", lambda *, quick: FAST | {field: value})
    assert bench.main(["--out", str(tmp_path / "b.json")]) == 1
    assert message in capsys.readouterr().out
    assert json.loads((tmp_path / "b.json").read_text())["judge"]["missed"] == [message]


def test_prompts_share_all_but_the_candidate(bench):
    first, *others = bench.make_requests(5)
    begun = first.prompt.index("Answer: ")
    assert {request.prompt[:begun] for request in others} == {first.prompt[:begun]}
    assert len({request.prompt for request in (first, *others)}) == 5
    assert first.prompt.count("Reference ") == 8


def test_replies_come_in_the_order_of_their_requests_and_a_failure_stops_the_bench(bench):
    first, second = Reply("a", 1, 1), Reply("b", 1, 1)
    assert bench.collect([(1, second), (0, first)]) == [first, second]
    with pytest.raises(ValueError, match="prompt 1: too_long, no room; expected a reply"):
        bench.collect([(0, first), (1, Failure("too_long", "no room"))])
