"""What is fast, measured against a named reference in the same run.

`python bench/kernels.py` prints the numbers, writes build/bench.json (bench/recorded.json holds the record
that is committed), and exits with 1 if a target is missed.
`--quick` makes everything small, to show that it runs: its numbers mean nothing, and no target is held against them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from nfqa.kernels.correlation import Coefficient, correlate_groups  # noqa: E402
from nfqa.kernels.intervals import estimate_mean  # noqa: E402
from nfqa.kernels.rouge import score_rouge_sets  # noqa: E402
from nfqa.metrics.overlap import split_sentences  # noqa: E402

SCIPY = {"kendall": stats.kendalltau, "spearman": stats.spearmanr, "pearson": stats.pearsonr}
METHODS: tuple[Coefficient, ...] = ("kendall", "spearman", "pearson")
TARGETS = {"correlation_ratio": 10.0, "import_seconds": 0.5}


def time_calls(repeats: int, *calls: Callable[[], object]) -> list[float]:
    """The median seconds of each call; the calls take turns, so that a busy moment of the machine meets them all."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, seconds in zip(calls, taken, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in taken]


def make_groups(questions: int) -> tuple[NDArray, NDArray, NDArray]:
    """Scores, grades and sizes of the shape of ANTIQUE: about 20 answers a question, four grades, few tied scores."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(12, 29, questions)
    grades = rng.integers(0, 4, sizes.sum())
    return np.round(rng.normal(size=sizes.sum()) + 0.3 * grades, 2), grades, sizes


def measure_correlation(questions: int, repeats: int) -> dict[str, dict[str, float]]:
    scores, grades, sizes = make_groups(questions)
    cuts = np.cumsum(sizes)[:-1]
    pairs = list(zip(np.split(scores, cuts), np.split(grades, cuts), strict=True))
    found = {}
    for method in METHODS:
        ours = correlate_groups(scores, grades, sizes, method=method).values
        theirs = np.array([SCIPY[method](x, y)[0] for x, y in pairs])
        if not np.allclose(ours, theirs, rtol=0, atol=1e-12):
            raise ValueError(f"{method} differs from scipy by {np.abs(ours - theirs).max()}; expected 1e-12 or less")
        kernel, loop = time_calls(
            repeats,
            lambda method=method: correlate_groups(scores, grades, sizes, method=method),
            lambda method=method: [SCIPY[method](x, y)[0] for x, y in pairs],
        )
        found[method] = {"kernel_seconds": kernel, "scipy_loop_seconds": loop, "ratio": loop / kernel}
    return found


def measure_interval(questions: int, resamples: int, repeats: int) -> dict[str, float]:
    """The t interval of a mean over questions and three seeds, against scipy's bootstrap of the questions' means."""
    values = np.random.default_rng(1).normal(size=(questions, 3))

    def call_scipy() -> object:
        rng = np.random.default_rng(0)
        return stats.bootstrap((values.mean(1),), np.mean, n_resamples=resamples, method="percentile", rng=rng)

    kernel, scipy_call = time_calls(repeats, lambda: estimate_mean(values), call_scipy)
    return {"kernel_seconds": kernel, "scipy_seconds": scipy_call, "ratio": scipy_call / kernel}


def measure_rouge(repeats: int, limit: int) -> dict[str, float]:
    from rouge import Rouge

    passages = json.loads((ROOT / "data" / "sample" / "passages.json").read_text(encoding="utf-8")).values()
    texts = [[item["passage"] for item in items] for items in passages]
    pairs = [(candidate, group[0]) for group in texts for candidate in group[1:]][:limit]
    library = Rouge()

    def score_by_kernel() -> list[tuple[float, ...]]:
        return [tuple(score_rouge_sets(split_sentences(c), split_sentences(r))) for c, r in pairs]

    def score_by_library() -> list[tuple[float, ...]]:
        scores = [library.get_scores(c, r)[0] for c, r in pairs]
        return [tuple(score[name]["f"] for name in ("rouge-1", "rouge-2", "rouge-l")) for score in scores]

    if score_by_kernel() != score_by_library():
        raise ValueError("the ROUGE kernel differs from the package rouge; expected equal numbers")
    kernel, theirs = time_calls(repeats, score_by_kernel, score_by_library)
    return {"kernel_seconds": kernel, "library_seconds": theirs, "ratio": theirs / kernel, "pairs": len(pairs)}


def measure_import(repeats: int) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    def start(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=ROOT)

    imported, bare = time_calls(repeats, lambda: start("import nfqa"), lambda: start("pass"))
    return {"import_seconds": imported, "bare_interpreter_seconds": bare, "difference_seconds": imported - bare}


def describe_machine() -> dict[str, str | int]:
    model = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model n")]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def finish(out: Path, section: dict[str, Any], *, name: str = "") -> int:
    """Write the numbers into the report, below `name` beside what it has, or as a new one; say what was missed.

    Returns: the exit status. A quick run misses none: its `missed` is written as empty.
    """
    section = section | {"missed": [] if section["quick"] else section["missed"]}
    report = json.loads(out.read_text()) if name and out.exists() else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report | ({name: section} if name else section), indent=2, sort_keys=True) + "\n")
    if section["quick"]:
        print("targets: not held against a quick run")
    else:
        print(f"missed: {'; '.join(section['missed'])}" if section["missed"] else "all met")
    return 1 if section["missed"] else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, no targets: shows only that it runs")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json", help="where the numbers go")
    options = parser.parse_args(arguments)
    quick = options.quick
    questions, resamples, repeats = (40, 500, 1) if quick else (500, 10_000, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        correlation = measure_correlation(questions, repeats)
    interval = measure_interval(questions, resamples, repeats)
    rouge = measure_rouge(repeats, 10 if quick else 100)
    importing = measure_import(2 if quick else 7)
    machine = describe_machine()

    print(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, numpy {machine['numpy']}")
    print(f"correlation of {questions} questions of about 20 answers, median of {repeats}")
    for method, row in correlation.items():
        print(
            f"  {method:<9} {row['kernel_seconds']:.4f} s, scipy in a loop {row['scipy_loop_seconds']:.4f} s:"
            f" {row['ratio']:.0f} times (target: {TARGETS['correlation_ratio']:.0f} or more)"
        )
    print(f"interval of a mean over {questions} questions and three seeds, median of {repeats}")
    print(f"  kernel {1e3 * interval['kernel_seconds']:.2f} ms, scipy.stats.bootstrap", end=" ")
    print(f"{1e3 * interval['scipy_seconds']:.1f} ms: {interval['ratio']:.0f} times")
    print(f"ROUGE-1, -2 and -L of {rouge['pairs']} pairs of passages, median of {repeats}")
    print(f"  kernel {rouge['kernel_seconds']:.4f} s, the package rouge {rouge['library_seconds']:.4f} s:", end=" ")
    print(f"{rouge['ratio']:.0f} times")
    print(
        f"`import nfqa` in a fresh process {importing['import_seconds']:.3f} s, a bare interpreter"
        f" {importing['bare_interpreter_seconds']:.3f} s (target: {TARGETS['import_seconds']} s or less)"
    )
    missed = [
        f"{method} is {row['ratio']:.1f} times as fast as scipy"
        for method, row in correlation.items()
        if row["ratio"] < TARGETS["correlation_ratio"]
    ]
    if importing["import_seconds"] > TARGETS["import_seconds"]:
        missed.append(f"`import nfqa` takes {importing['import_seconds']:.3f} s")
    section = {
        "quick": quick, "machine": machine, "targets": TARGETS, "missed": missed,
        "correlation": correlation, "interval": interval, "rouge": rouge, "import": importing,
    }  # fmt: skip
    return finish(options.out, section)


if __name__ == "__main__":
    sys.exit(main())
