"""The bench runs, writes its numbers, and fails when a target is missed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import load_bench

BENCH = Path(__file__).parents[1] / "bench" / "kernels.py"
FAST = {
    "measure_correlation": {"kendall": {"kernel_seconds": 0.01, "scipy_loop_seconds": 0.2, "ratio": 20.0}},
    "measure_bootstrap": {
        "kernel_seconds": 0.1, "numpy_loop_seconds": 0.2, "scipy_seconds": 0.3,
        "ratio_to_numpy_loop": 2.0, "ratio_to_scipy": 3.0,
    },
    "measure_rouge": {"pairs": 9, "kernel_seconds": 0.1, "library_seconds": 0.2, "ratio": 2.0},
    "measure_import": {"import_seconds": 0.02, "bare_interpreter_seconds": 0.01, "difference_seconds": 0.01},
}  # fmt: skip
SLOW = [
    ("measure_correlation", "ratio", 9.9, "kendall is 9.9 times as fast as scipy"),
    ("measure_bootstrap", "kernel_seconds", 0.21, "the bootstrap takes 0.210 s"),
    ("measure_import", "import_seconds", 0.51, "`import nfqa` takes 0.510 s"),
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The bench as a module, with made-up measurements that meet every target."""
    module = load_bench("kernels", monkeypatch)
    for name, numbers in FAST.items():
        monkeypatch.setattr(module, name, lambda *_, numbers=numbers: numbers)
    return module


@pytest.mark.slow
def test_a_quick_run_measures_everything_and_writes_it_down(tmp_path):
    out = tmp_path / "folder" / "bench.json"
    done = subprocess.run(
        [sys.executable, str(BENCH), "--quick", "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(out.read_text())
    assert set(report["correlation"]) == {"kendall", "spearman", "pearson"}
    assert all(row["ratio"] > 0 for row in report["correlation"].values())
    assert report["bootstrap"]["kernel_seconds"] > 0
    assert report["import"]["import_seconds"] > 0
    assert report["machine"]["cores"] >= 1
    assert report["quick"] is True
    for words in ("10 or more", "0.2 s or less", "0.5 s or less", "targets: not held against a quick run"):
        assert words in done.stdout


def test_met_targets_end_well(bench, tmp_path, capsys):
    assert bench.main(["--out", str(tmp_path / "b.json")]) == 0
    assert capsys.readouterr().out.endswith("all met\n")


@pytest.mark.parametrize(("measure", "field", "value", "message"), SLOW)
def test_a_missed_target_fails_and_is_named(bench, tmp_path, capsys, monkeypatch, measure, field, value, message):
    numbers = json.loads(json.dumps(FAST[measure]))
    (numbers.get("kendall") or numbers)[field] = value
    monkeypatch.setattr(bench, measure, lambda *_: numbers)
    assert bench.main(["--out", str(tmp_path / "b.json")]) == 1
    assert message in capsys.readouterr().out
    assert json.loads((tmp_path / "b.json").read_text())["missed"] == [message]


def test_calls_take_turns_and_the_median_is_kept(bench):
    seen = []
    seconds = bench.time_calls(3, lambda: seen.append("a"), lambda: seen.append("b"))
    assert seen == ["a", "b"] * 3
    assert len(seconds) == 2
