"""The nearest of 100,000 vectors: seconds beside a plain numpy scan of the same vectors, and memory, in one run.

Vectors are drawn at random. The reference is one query at a time: all products with numpy, and a full sort of them.
`python bench/search.py` prints the numbers, puts them into build/bench.json beside those of bench/kernels.py
(bench/recorded.json holds the record that is committed), and exits with 1 if a target is missed.
`--quick` makes everything small, to show that it runs: its numbers mean nothing, and no target is held against them.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench")]

from kernels import describe_machine, finish  # noqa: E402

from reproduction.debates.search import find_nearest  # noqa: E402

TARGETS = {"ratio": 3.0, "gigabytes": 4.0}
TOP, SCANNED = 10, 50  # vectors a query; queries of the reference, whose time is scaled up to all
SIZES = {False: (100_000, 1_000, 384), True: (500, 20, 16)}  # vectors, queries, dimensions


def draw_vectors(count: int, dimensions: int, seed: int) -> NDArray[np.float32]:
    """Vectors of unit length."""
    drawn = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def measure_search(*, quick: bool) -> dict[str, Any]:
    """Seconds of each way of searching, how far the fast and the plain one agree, and the process's largest memory."""
    count, asked, dimensions = SIZES[quick]
    vectors, sought = draw_vectors(count, dimensions, 0), draw_vectors(asked, dimensions, 1)

    start = time.perf_counter()
    plain = [np.argsort(-(vectors @ query), kind="stable")[:TOP] for query in sought[:SCANNED]]
    plain_seconds = (time.perf_counter() - start) * asked / len(plain)
    start = time.perf_counter()
    places, _ = find_nearest(sought, vectors, top=TOP)
    nearest_seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, but bytes on macOS
    return {
        "vectors": count,
        "queries": asked,
        "dimensions": dimensions,
        "plain_seconds": plain_seconds,
        "nearest_seconds": nearest_seconds,
        "ratio": plain_seconds / nearest_seconds,
        "equal": float(np.mean([np.array_equal(a, b) for a, b in zip(plain, places, strict=False)])),
        "gigabytes": peak / (2**30 if sys.platform == "darwin" else 2**20),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, no targets: shows only that it runs")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json", help="where the numbers go")
    options = parser.parse_args(arguments)
    found = measure_search(quick=options.quick)
    machine = describe_machine()

    print(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, numpy {machine['numpy']}")
    print(f"{found['queries']:,} queries over {found['vectors']:,} vectors of {found['dimensions']} numbers")
    print(f"  one query at a time, all products sorted {found['plain_seconds']:.2f} s")
    print(
        f"  nearest vectors in blocks                {found['nearest_seconds']:.2f} s: {found['ratio']:.1f} times"
        f" (target: {TARGETS['ratio']:.0f} or more); {found['equal']:.0%} of the rankings equal"
    )
    print(f"  memory {found['gigabytes']:.2f} GB at most (target: {TARGETS['gigabytes']:.0f} or less)")
    missed = []
    if found["ratio"] < TARGETS["ratio"]:
        missed.append(f"nearest vectors are found {found['ratio']:.1f} times as fast as by a plain scan")
    if found["gigabytes"] > TARGETS["gigabytes"]:
        missed.append(f"searching takes {found['gigabytes']:.1f} GB")
    section = {"quick": options.quick, "machine": machine, "targets": TARGETS, "missed": missed, **found}
    return finish(options.out, section, name="search")


if __name__ == "__main__":
    sys.exit(main())
