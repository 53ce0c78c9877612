"""What sharing the answer saves Perspective Diversity, measured against the released script's way in the same run.

The reference is the way of the released script: a question's partial answers as one padded batch with the answer
repeated before each, logits over the whole vocabulary at every place, and its loss made twice (by the model's own
forward call, and again from the logits). The model is GPT-2's shape of 124 million parameters with random weights,
which cost as much time as trained ones. The four partial answers of a question are 85, 121, 159 and 236 tokens long,
150 on average, with the spread that four perspectives of one Debatewise claim have; `equal` has four of 150 tokens.

The rate counts the products that the task needs: linear layers for every token once, attention for every pair of
tokens that see each other, the output matrix for every token of a partial answer. It is held against what torch
reaches on two square matrices of 2,048 in the same run.

`python bench/perplexity.py` prints the numbers, puts them into build/bench.json beside those of the other benches
(bench/recorded.json holds the record that is committed), and exits with 1 if a target is missed. Where a CUDA device
is at hand, the same is measured there. `--quick` makes everything small, to show that it runs: its numbers mean
nothing, and no target is held against them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "bench")]

from kernels import describe_machine, finish, time_calls  # noqa: E402

from nfqa.models.engine import Engine  # noqa: E402
from nfqa.models.restated import TargetRow  # noqa: E402

TARGETS = {"ratio": 4.0, "share_of_matmul_rate": 0.85, "half_ratio": 8.0, "largest_difference": 1e-4}
LENGTHS, EQUAL = (85, 121, 159, 236), (150, 150, 150, 150)
ANSWER, VOCABULARY = 300, 50_257
GROWTH = {
    "partial_answers": (1, 2, 4, 8, 16),
    "answer_tokens": (75, 150, 300, 600, 780),
    "vocabulary": (8_192, 50_257, 151_936),
}
Questions = list[list[TargetRow]]


def make_models(vocabulary: int, device: str, *, quick: bool) -> tuple[Any, Any]:
    """GPT-2's shape with random weights: as transformers runs it, and as `Pretrained` loads it (GELU in one step)."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    shape: dict[str, Any] = {"n_embd": 64, "n_layer": 2, "n_head": 4} if quick else {}
    models = []
    for activation in ("gelu_new", "gelu_pytorch_tanh"):
        torch.manual_seed(0)
        config = GPT2Config(
            vocab_size=vocabulary, initializer_range=0.05, bos_token_id=0, eos_token_id=0,
            activation_function=activation, **shape,
        )  # fmt: skip
        models.append(GPT2LMHeadModel(config).eval().to(device))
        models[-1].loss_type = "ForCausalLM"  # which it is anyway, but not without a warning
    return models[0], models[1]


def make_questions(count: int, answer: int, lengths: Sequence[int], vocabulary: int) -> Questions:
    """Random tokens: `count` answers, and partial answers of the given lengths to each."""
    rng = random.Random(0)
    questions = []
    for _ in range(count):
        context = [rng.randrange(vocabulary) for _ in range(answer)]
        own = [[rng.randrange(vocabulary) for _ in range(length)] for length in lengths]
        questions.append([TargetRow((*context, *tokens), answer, (0, answer)) for tokens in own])
    return questions


def spread_lengths(count: int) -> list[int]:
    """As many lengths as asked for, 150 tokens on average, with the spread of LENGTHS."""
    return [150] if count == 1 else [85, 215] if count == 2 else [*LENGTHS] * (count // 4)


def score_as_released(model: Any, questions: Questions) -> list[list[float]]:
    """Summed losses by the released script's way: one padded batch a question, the answer repeated in each row."""
    import torch
    from torch.nn.functional import cross_entropy

    found = []
    for rows in questions:
        width = max(len(row.tokens) for row in rows)
        ids = torch.tensor([[*row.tokens, *[0] * (width - len(row.tokens))] for row in rows])
        mask = torch.tensor([[1] * len(row.tokens) + [0] * (width - len(row.tokens)) for row in rows])
        labels = ids.clone()
        for line, row in enumerate(rows):
            labels[line, : row.first] = -100
        ids, mask, labels = (tensor.to(model.device) for tensor in (ids, mask, labels))
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=mask, labels=ids).logits[:, :-1].contiguous()
            wanted = labels[:, 1:].contiguous()
            losses = cross_entropy(logits.view(-1, logits.shape[-1]), wanted.view(-1), reduction="none")
            found.append((losses.view(wanted.shape) * mask[:, 1:]).sum(1).tolist())
    return found


def score_shared(engine: Engine, questions: Questions) -> list[list[float]]:
    """The same losses, each answer run once."""
    found = [[0.0] * len(rows) for rows in questions]
    for batch in engine.find_logprobs([[row.row for row in rows] for rows in questions]):
        for number, place, logprobs in batch:
            found[number][place] = -float(logprobs.sum())
    return found


def count_flops(config: Any, questions: Questions) -> float:
    """Two for every product that is added up, of what the task needs."""
    total = 0.0
    for rows in questions:
        answer, own = rows[0].first, [len(row.tokens) - row.first for row in rows]
        pairs = answer * (answer + 1) / 2 + sum(length * answer + length * (length + 1) / 2 for length in own)
        total += _count_products(config, answer + sum(own), pairs, sum(own))
    return total


def count_released_flops(config: Any, questions: Questions) -> float:
    """Operations of the released way: every token of the padded batch, every pair of a row."""
    shapes = [(len(rows), max(len(row.tokens) for row in rows)) for rows in questions]
    return sum(_count_products(config, n * width, n * width**2, n * width) for n, width in shapes)


def _count_products(config: Any, tokens: float, pairs: float, predicted: float) -> float:
    """A layer of width d has 12 d^2 weights; a pair of tokens costs 2 d products, for its score and for its value."""
    width = config.n_embd
    layer = 12 * width**2 * tokens + 2 * width * pairs
    return 2 * (config.n_layer * layer + width * config.vocab_size * predicted)


def measure_matmul(device: str, size: int) -> Callable[[], None]:
    """A call that multiplies two square float32 matrices."""
    import torch

    a, b = (torch.randn(size, size, device=device) for _ in range(2))

    def multiply() -> None:
        torch.mm(a, b)
        wait(device)

    return multiply


def wait(device: str) -> None:
    """Until the device has done all that it was given."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def compare(models: tuple[Any, Any], device: str, questions: Questions, repeats: int, size: int) -> dict[str, Any]:
    """Seconds of both ways and of a matrix product, which take turns, and what follows from them."""
    model, engine = models[0], Engine(models[1], batch_tokens=16_384)  # as the evaluator's own
    found: dict[str, list[list[float]]] = {}

    def run(name: str, call: Callable[[], list[list[float]]]) -> None:
        found[name] = call()
        wait(device)

    multiply = measure_matmul(device, size)
    released, shared, product = time_calls(
        repeats,
        lambda: run("released", lambda: score_as_released(model, questions)),
        lambda: run("shared", lambda: score_shared(engine, questions)),
        multiply,
    )
    apart = [
        abs(a - b) / abs(a)
        for x, y in zip(found["released"], found["shared"], strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    rate, matmul = count_flops(model.config, questions) / shared, 2 * size**3 / product
    return {
        "questions": len(questions),
        "released_seconds": released,
        "shared_seconds": shared,
        "ratio": released / shared,
        "work_ratio": count_released_flops(model.config, questions) / count_flops(model.config, questions),
        "gigaflops": rate / 1e9,
        "matmul_gigaflops": matmul / 1e9,
        "share_of_matmul_rate": rate / matmul,
        "largest_difference": max(apart),
    }


def measure_device(device: str, *, quick: bool) -> dict[str, Any]:
    """The main comparison, the one with partial answers of equal length, and how time grows."""
    import torch

    scale, repeats = (10, 1) if quick else (1, 3)
    count = 2 if quick else 4 if device == "cpu" else 32
    size = 128 if quick else 2_048 if device == "cpu" else 8_192

    def measure(models: tuple[Any, Any], questions: int, answer: int, lengths: Sequence[int]) -> dict[str, Any]:
        shortened = [length // scale for length in lengths]
        made = make_questions(questions, answer // scale, shortened, models[0].config.vocab_size)
        return compare(models, device, made, repeats, size)

    found: dict[str, Any] = {"threads": torch.get_num_threads(), "torch": torch.__version__}
    growth: dict[str, list[dict[str, Any]]] = {name: [] for name in GROWTH}
    for vocabulary in GROWTH["vocabulary"]:
        models = make_models(vocabulary // scale, device, quick=quick)
        measure(models, 1, ANSWER, LENGTHS)  # warms up
        row = measure(models, 1, ANSWER, LENGTHS)
        growth["vocabulary"].append({"value": vocabulary // scale} | row)
        if vocabulary != VOCABULARY:
            continue
        found["parameters"] = sum(weights.numel() for weights in models[0].parameters())
        found |= measure(models, count, ANSWER, LENGTHS) | {"equal": measure(models, count, ANSWER, EQUAL)}
        found["half"] = {"refused": "few processors have instructions for it"}
        if device == "cuda":
            found["half"] = measure((models[0], deepcopy(models[1]).to(torch.bfloat16)), count, ANSWER, LENGTHS)
        for n in GROWTH["partial_answers"]:
            growth["partial_answers"].append({"value": n} | measure(models, 1, ANSWER, spread_lengths(n)))
        for tokens in GROWTH["answer_tokens"]:
            growth["answer_tokens"].append({"value": tokens // scale} | measure(models, 1, tokens, LENGTHS))
    if device == "cuda":
        found["device"] = torch.cuda.get_device_name()
    return found | {"growth": growth}


def find_missed(device: str, found: dict[str, Any]) -> list[str]:
    """The targets that one device's numbers miss."""
    missed = []
    if found["ratio"] < TARGETS["ratio"]:
        missed.append(f"on {device} it is {found['ratio']:.1f} times as fast as the released way")
    if found["share_of_matmul_rate"] < TARGETS["share_of_matmul_rate"]:
        missed.append(f"on {device} it reaches {found['share_of_matmul_rate']:.0%} of the matrix product's rate")
    if found["largest_difference"] > TARGETS["largest_difference"]:
        missed.append(f"on {device} the two ways' losses differ by {found['largest_difference']:.1e}")
    if found["half"].get("ratio", TARGETS["half_ratio"]) < TARGETS["half_ratio"]:
        missed.append(f"on {device} bfloat16 is {found['half']['ratio']:.1f} times as fast as the released way")
    return missed


def print_device(device: str, found: dict[str, Any]) -> None:
    """One device's numbers, for a reader."""
    print(
        f"{found.get('device', device)}: {found['parameters'] / 1e6:.0f} million random parameters,"
        f" {found['questions']} questions of {len(LENGTHS)} partial answers, torch {found['torch']}"
    )
    for name, row in (("spread", found), ("equal lengths", found["equal"])):
        print(
            f"  {name:<14} released way {row['released_seconds']:.3f} s, answer run once {row['shared_seconds']:.3f} s:"
            f" {row['ratio']:.2f} times (target: {TARGETS['ratio']:.0f} or more); products {row['work_ratio']:.2f} to 1"
        )
    print(
        f"  {found['gigaflops']:.0f} of {found['matmul_gigaflops']:.0f} GFLOP/s, {found['share_of_matmul_rate']:.0%} of"
        f" the matrix product's rate (target: {TARGETS['share_of_matmul_rate']:.0%} or more)"
    )
    print(
        f"  losses differ by {found['largest_difference']:.1e} of each at most"
        f" (target: {TARGETS['largest_difference']:.0e} or less)"
    )
    half = found["half"]
    print(
        f"  bfloat16: {half['ratio']:.2f} times as fast as the released way in float32 (target:"
        f" {TARGETS['half_ratio']:.0f} or more); losses differ by {half['largest_difference']:.1e} of each at most"
        if "ratio" in half
        else f"  bfloat16 not run: {half['refused']}"
    )
    for name, rows in found["growth"].items():
        for row in rows:
            print(
                f"  {name.replace('_', ' ')} {row['value']:>7,}: released way {row['released_seconds']:.3f} s, answer"
                f" run once {row['shared_seconds']:.3f} s, {row['ratio']:.2f} times"
            )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, no targets: shows only that it runs")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json", help="where the numbers go")
    options = parser.parse_args(arguments)
    machine = describe_machine()
    print(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}")
    report = json.loads(options.out.read_text()) if options.out.exists() else {}
    kept = report.get("perplexity", {})
    section: dict[str, Any] = {"quick": options.quick, "machine": machine, "targets": TARGETS, "missed": []}
    for device in list_devices():
        found = measure_device(device, quick=options.quick)
        print_device(device, found)
        section[device] = found
        section["missed"] += find_missed(device, found)
    if "cuda" not in section and "cuda" in kept and not options.quick:
        section["cuda"] = kept["cuda"]  # of a machine that has one
    return finish(options.out, section, name="perplexity")


def list_devices() -> list[str]:
    """cpu, and cuda where there is one."""
    import torch

    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


if __name__ == "__main__":
    sys.exit(main())
