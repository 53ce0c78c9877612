"""Searching 100,000 documents: seconds beside a plain numpy scan of the same vectors, and memory, in one run.

Documents and queries are made up: words drawn by Zipf's law, and random unit vectors in the place of an embedder's. The
reference is one query at a time: all products with numpy, and a full sort of them.
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
import pandas as pd
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench")]

from kernels import describe_machine, finish  # noqa: E402

from reproduction.debates.search import find_nearest, fuse_rankings, rank_by_vectors, rank_by_words  # noqa: E402

TARGETS = {"ratio": 3.0, "gigabytes": 4.0}
TOP, SCANNED = 10, 50  # documents a query; queries of the reference, whose time is scaled up to all
SIZES = {False: (100_000, 1_000, 384, 200), True: (500, 20, 16, 20)}  # documents, queries, dimensions, words


class Vectors:
    """An embedder that knows each text's vector beforehand."""

    def __init__(self, texts: list[str], dimensions: int, seed: int) -> None:
        drawn = np.random.default_rng(seed).normal(size=(len(texts), dimensions)).astype(np.float32)
        self.table = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        self.places = {text: place for place, text in enumerate(texts)}

    def embed_sentences(self, texts: list[str]) -> NDArray[np.float32]:
        return self.table[[self.places[text] for text in texts]]

    embed_queries = embed_sentences


def make_texts(count: int, words: int, seed: int) -> list[str]:
    """Texts of about so many words from a vocabulary of 50,000, the r-th word about 1 / r as frequent as the first."""
    rng = np.random.default_rng(seed)
    frequencies = 1 / np.arange(1, 50_001)
    drawn = rng.choice(50_000, size=(count, words), p=frequencies / frequencies.sum())
    return [" ".join(f"w{number}" for number in row) for row in drawn]


def measure_search(*, quick: bool) -> dict[str, Any]:
    """Seconds of each way of searching, how far the fast and the plain one agree, and the process's largest memory."""
    count, asked, dimensions, words = SIZES[quick]
    texts, queries = make_texts(count, words, 0), make_texts(asked, 8, 1)
    documents = pd.DataFrame({"document": np.arange(count), "text": texts})
    embedder: Any = Vectors([*texts, *queries], dimensions, 2)
    vectors, sought = embedder.embed_sentences(texts), embedder.embed_sentences(queries)
    seconds = {}

    start = time.perf_counter()
    plain = [np.argsort(-(vectors @ query), kind="stable")[:TOP] for query in sought[:SCANNED]]
    seconds["plain"] = (time.perf_counter() - start) * asked / len(plain)
    start = time.perf_counter()
    places, _ = find_nearest(sought, vectors, top=TOP)
    seconds["nearest"] = time.perf_counter() - start
    start = time.perf_counter()
    by_words = rank_by_words(queries, documents, top=TOP)
    seconds["words"] = time.perf_counter() - start
    start = time.perf_counter()
    by_vectors = rank_by_vectors(queries, documents, embedder, top=TOP)
    fuse_rankings(pd.concat([by_words, by_vectors]), top=TOP)
    seconds["vectors_and_fusion"] = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, but bytes on macOS
    return {
        "documents": count,
        "queries": asked,
        "dimensions": dimensions,
        **{f"{name}_seconds": taken for name, taken in seconds.items()},
        "ratio": seconds["plain"] / seconds["nearest"],
        "search_to_plain": (seconds["words"] + seconds["vectors_and_fusion"]) / seconds["plain"],
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
    print(f"{found['queries']:,} queries over {found['documents']:,} documents, vectors of {found['dimensions']}")
    print(f"  one query at a time, all products sorted {found['plain_seconds']:.2f} s")
    print(
        f"  nearest vectors in blocks                {found['nearest_seconds']:.2f} s: {found['ratio']:.1f} times"
        f" (target: {TARGETS['ratio']:.0f} or more); {found['equal']:.0%} of the rankings equal"
    )
    print(f"  BM25, index and queries                  {found['words_seconds']:.2f} s")
    print(f"  rankings by vectors, and fusion          {found['vectors_and_fusion_seconds']:.2f} s")
    print(f"  all of search takes {found['search_to_plain']:.2f} times as long as the plain scan alone")
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
