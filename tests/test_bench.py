"""The benchmarks run, in their quick form; their numbers mean nothing there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["judge", "kernels", "perplexity", "search"])  # scale.py scores for minutes
def test_a_benchmark_runs_and_writes_its_numbers(name: str, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    subprocess.run([sys.executable, BENCH / f"{name}.py", "--quick", "--out", out], check=True, timeout=300)
    written = json.loads(out.read_text())
    assert (written if name == "kernels" else written[name])["quick"]
