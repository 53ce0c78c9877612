"""Scores of many answers: how long, how much memory at ten and a hundred times as many, and two of Ray's workers.

Answers of 100 words drawn at random (10 for the rows on memory), ten to a question with four references and, for P.D.,
four partial answers of 80 words. Memory is the most that a process of its own held; Ray's workers are timed from the
first finished part on, as they take seconds to start.

`python bench/scale.py` prints the numbers, puts them into build/bench.json beside those of the other benches, and exits
with 1 if a target is missed. `--quick` makes everything small, to show that it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench")]

from kernels import describe_machine, finish  # noqa: E402

TARGETS = {"embedded_judge_seconds": 240.0, "memory_ratio": 1.1, "two_workers": 1.7}
ANSWERS, PER_QUESTION = 10_000, 10
COUNTS = {"linkage": ANSWERS, "rouge": ANSWERS, "bertscore": 1_000, "da": 1_000, "pd": 40}
MEMORY = [("rouge", 1_000), ("rouge", 10_000), ("rouge", 100_000), ("da", 1_000), ("da", 10_000)]
RUN = """
import json, resource, sys, nfqa
cores = int(sys.argv[5])
if cores:
    import ray
    ray.init(num_cpus=cores, log_to_driver=False, include_dashboard=False)
nfqa.score(sys.argv[1], sys.argv[2], sys.argv[3].split(","), progress=False, **json.loads(sys.argv[4]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def write_answers(path: Path, answers: int, words: int, *, views: bool = False) -> Path:
    """Questions with four references and ten answers each, of words drawn from the bundled sample."""
    rng = random.Random(0)
    known = sorted(set((ROOT / "src" / "nfqa" / "sample" / "answers.jsonl").read_text().replace('"', " ").split()))

    def draw(count: int) -> str:
        return " ".join(rng.choice(known) + "." * (n % 12 == 11) for n in range(count))

    with path.open("w") as file:
        for number in range(answers // PER_QUESTION):
            line = {"id": f"q{number}", "question": draw(8), "references": [draw(words) for _ in range(4)]}
            if views:
                line["partial_answers"] = [draw(80) for _ in range(4)]
            line["answers"] = [{"id": f"a{n}", "system": "xy"[n % 2], "text": draw(words)} for n in range(PER_QUESTION)]
            file.write(f"{json.dumps(line)}\n")
    return path


def run(path: Path, methods: str, *, cores: int = 0, **how: Any) -> dict[str, float]:
    """Seconds and megabytes of a process that scores the file, start and models included.

    Args: cores: of Ray, each with a worker; 0 for this process alone.
    """
    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        command = [sys.executable, "-c", RUN, str(path), out, methods, json.dumps(how), str(cores)]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - started
        times = sorted(part.stat().st_mtime for part in Path(out, "parts").iterdir())
    return {"seconds": seconds, "megabytes": float(done.stdout), "between_parts": times[-1] - times[0]}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, no targets: shows only that it runs")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json", help="where the numbers go")
    options = parser.parse_args(arguments)
    scale, machine = 100 if options.quick else 1, describe_machine()
    print(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = write_answers(folder / "whole.jsonl", max(4 * ANSWERS // scale, 3_000), 100)
        found: dict[str, Any] = {}
        for method, count in COUNTS.items():
            file = write_answers(
                folder / f"{method}.jsonl", max(count // scale, PER_QUESTION), 100, views=method == "pd"
            )
            found[method] = run(file, method) | {"answers": count // scale}
            print(f"{method}: {count // scale:,} answers of 100 words in {found[method]['seconds']:.0f} s")
        found["memory"] = []
        for method, size in MEMORY:
            file = write_answers(folder / f"{size}.jsonl", max(size // scale, PER_QUESTION), 10)
            row = run(file, method) | {"answers": size // scale, "method": method}
            found["memory"].append(row)
            print(f"{method}: {size // scale:,} answers of 10 words in {row['megabytes']:.0f} MB")
        ray = [run(whole, "rouge", engine="ray", cores=cores) for cores in (1, 2)]
        found["ray"] = {"one": ray[0], "two": ray[1], "ratio": ray[0]["between_parts"] / ray[1]["between_parts"]}
        print(f"ray: rouge by two workers {found['ray']['ratio']:.2f} times as fast as by one")
    held = {
        method: [row["megabytes"] for row in found["memory"] if row["method"] == method] for method in ("rouge", "da")
    }
    grown = max(max(megabytes) / min(megabytes) for megabytes in held.values())
    section = {"quick": options.quick, "machine": machine, "targets": TARGETS, "missed": []} | found
    if found["linkage"]["seconds"] > TARGETS["embedded_judge_seconds"]:
        section["missed"].append(f"{ANSWERS:,} answers by the embedded judge took {found['linkage']['seconds']:.0f} s")
    if grown > TARGETS["memory_ratio"]:
        section["missed"].append(f"memory grew to {grown:.2f} times as much")
    if found["ray"]["ratio"] < TARGETS["two_workers"]:
        section["missed"].append(f"two workers were {found['ray']['ratio']:.2f} times as fast as one")
    return finish(options.out, section, name="scale")


if __name__ == "__main__":
    sys.exit(main())
