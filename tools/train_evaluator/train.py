"""The training loop: resumable, reproducible on one machine, saved when done and every few minutes."""

from __future__ import annotations

import hashlib
import json
import math
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import GPT2Config, GPT2LMHeadModel

from nfqa.files.paths import write_atomically

from .copying_heads import put_in_copying_heads
from .corpus import Corpus, read_corpus
from .tasks import END, INSTRUCTION, OPEN, SPEAK, Task, group_topics, make_task, make_tokenizer
from .tune import tune_evaluator

CONTEXT = 4_096  # positions of the model; none is trained, so texts may be longer than those of training
_TEXT_WEIGHT = 0.25  # of the loss on the text that is given, beside 1 on what is restated
_ROWS, _POOL = 8, 16  # rows of a batch; batches that are drawn together and sorted by length
_SAVE_SECONDS = 120


@dataclass(frozen=True)
class Recipe:
    """What a model is and how long it is trained."""

    layers: int
    width: int
    steps: int
    seed: int
    rate: float
    vocabulary: int = 4_096


RECIPES = {
    "tiny": Recipe(layers=2, width=192, steps=400, seed=1, rate=1.5e-3),
    "small": Recipe(layers=3, width=256, steps=800, seed=2, rate=1.2e-3),
}


def train_evaluator(root: Path, name: str) -> Path:
    """Train one of RECIPES into the package, as evaluator_NAME; goes on from the last checkpoint under build/.

    The loss is the mean negative log-likelihood of the target's tokens, and a quarter of that of the text's. The same
    machine, threads and recipe give the same weights, interrupted or not.
    Raises: ValueError for an unknown name.
    """
    if name not in RECIPES:
        raise ValueError(f"evaluator {name!r}; known: {', '.join(RECIPES)}")
    recipe = RECIPES[name]
    corpus = read_corpus(root)
    tokenizer = make_tokenizer(corpus, recipe.vocabulary)
    torch.manual_seed(recipe.seed)
    config = GPT2Config(
        vocab_size=recipe.vocabulary, n_positions=CONTEXT, n_embd=recipe.width, n_layer=recipe.layers,
        n_head=recipe.width // 64, activation_function="gelu_pytorch_tanh",
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model: Any = GPT2LMHeadModel(config)
    put_in_copying_heads(model, recipe.seed)
    model.transformer.wpe.weight.requires_grad_(False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01)
    made_of = json.dumps([asdict(recipe), corpus.inputs, corpus.kept_out], sort_keys=True)
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:12]
    checkpoint = root / "build" / "training" / f"{name}-{digest}.pt"
    done = _resume(checkpoint, model, optimiser)
    saved, shown = time.monotonic(), float("nan")
    with tqdm(total=recipe.steps, initial=done, desc=f"evaluator {name}", unit="step") as bar:
        for step, batch in _make_batches(corpus, tokenizer, recipe, done):
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate * _schedule(step / recipe.steps)
            ids, weights = (part.to(device) for part in batch)
            loss = _compute_loss(model, ids, weights)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            shown = loss.item() if math.isnan(shown) else 0.98 * shown + 0.02 * loss.item()
            bar.update()
            bar.set_postfix_str(f"loss {shown:.3f}", refresh=False)
            if time.monotonic() - saved > _SAVE_SECONDS:
                _save(checkpoint, model, optimiser, step + 1)
                saved = time.monotonic()
    folder = _finish(root, name, recipe, corpus, model, tokenizer)
    if corpus.tuning:
        tune_evaluator(folder, corpus.tuning)
    checkpoint.unlink(missing_ok=True)
    return folder


def _schedule(done: float) -> float:
    """Rises over the first fiftieth, then falls as a cosine to a twentieth."""
    return min(1.0, done * 50 + 0.02) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))


def _compute_loss(model: Any, ids: Tensor, weights: Tensor) -> Tensor:
    with torch.autocast(ids.device.type, torch.bfloat16):
        logits = model(input_ids=ids).logits[:, :-1]
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
    flat = weights[:, 1:].flatten()
    return (each * flat).sum() / flat.sum()


def _make_batches(
    corpus: Corpus, tokenizer: Any, recipe: Recipe, start: int
) -> Iterator[tuple[int, tuple[Tensor, Tensor]]]:
    """Step and batch from `start` on. A batch depends on the seed and its step alone, so a resumed run is the same."""
    topics = group_topics(corpus.train)
    for pool in range(start // _POOL, -(-recipe.steps // _POOL)):
        rng = random.Random(f"{recipe.seed}/{pool}")
        rows = sorted(
            (_encode(make_task(topics, rng), tokenizer) for _ in range(_ROWS * _POOL)), key=lambda r: len(r[0])
        )
        order = rng.sample(range(_POOL), _POOL)
        for place, which in enumerate(order):
            step = pool * _POOL + place
            if start <= step < recipe.steps:
                yield step, _pad(rows[which * _ROWS : (which + 1) * _ROWS])


def _encode(task: Task, tokenizer: Any) -> tuple[list[int], list[float]]:
    text = f"{task.text} {INSTRUCTION}" if task.instruction else task.text
    before = f"{OPEN}{text}{END}{SPEAK if task.opening else ''}"
    given, target = tokenizer([before, task.target + tokenizer.eos_token])["input_ids"]
    return given + target, [_TEXT_WEIGHT] * len(given) + [1.0] * len(target)


def _pad(rows: list[tuple[list[int], list[float]]]) -> tuple[Tensor, Tensor]:
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids, _ in rows])
    weights = torch.tensor([[*given, *[0.0] * (width - len(given))] for _, given in rows])
    return ids, weights


def _save(path: Path, model: Any, optimiser: Any, step: int) -> None:
    with write_atomically(path) as scratch:
        torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, scratch)


def _resume(path: Path, model: Any, optimiser: Any) -> int:
    if not path.is_file():
        return 0
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimiser.load_state_dict(saved["optimiser"])
    return int(saved["step"])


def _finish(root: Path, name: str, recipe: Recipe, corpus: Corpus, model: Any, tokenizer: Any) -> Path:
    folder = root / "src" / "nfqa" / "models" / "embedded" / f"evaluator_{name}"
    scratch = root / "build" / "training" / name
    shutil.rmtree(scratch, ignore_errors=True)
    model.to("cpu", torch.float16).save_pretrained(scratch)
    tokenizer.save_pretrained(scratch)
    about = {
        "recipe": asdict(recipe),
        "threads": torch.get_num_threads(),
        "trained_on": corpus.inputs,
        "kept_out": corpus.kept_out,
        "passages": sum(len(topic.passages) for topic in corpus.train),
        "passages_left_out": corpus.left_out,
        "parameters": sum(p.numel() for p in model.parameters()),
        "cache": {"theta": 10.0, "weight": 0.2},
    }
    (scratch / "evaluator.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    for file in scratch.iterdir():
        shutil.move(file, folder / file.name)
    return folder
