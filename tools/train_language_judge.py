"""`python -m tools.train_language_judge`: SmolLM2 with low-rank additions, to tell a question's better answers.

It reads a question and one of its answers, and gives a number; nothing of a list of references is read. Six times, as `tools.train_judge`: without a fold of ANTIQUE each, and of all.
The loss is the logistic one of every two answers of different grade to a question, weighted by the gap of their grades;
a pass takes at most 16 answers of a question, of every grade as many as there are. Settings were chosen on fold 0, with
what was trained without it, by the mean Spearman inside its questions; fold 0's numbers have that advantage.

The committed weights were made on a GPU, where all six take some minutes; on two cores each takes an hour. What is
there already is kept.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nfqa.files.paths import find_root
from nfqa.files.records import Question
from nfqa.models.adapters import ADAPTERS, name_adapter
from nfqa.models.reader import ANSWER, LONGEST, USEFUL
from reproduction.data.load import load
from reproduction.studies.listwise_training import FOLDS, find_fold
from tools.train_judge import choose_candidates
from tools.train_language_reader import Model
from tools.train_reader import run_steps, save_reader

RECIPE = {
    "rank": 8, "matrices": ["q_proj", "v_proj"], "layers": 24, "rate": 1e-3, "passes": 3, "warmup": 20, "questions": 4,
    "answers": 16, "tokens": 160, "seed": 0,
}  # fmt: skip
Item = tuple[list[int], list[list[int]], list[float]]  # tokens of a question, of its answers, and their grades


def encode(model: Model, question: Question, longest: int = LONGEST) -> Item:
    """A question with all its answers, cut as they are when judged, or shorter."""
    begin, end = model.tokenise(question.text)[:longest] or model.tokenise(" "), model.tokenise(USEFUL)
    answers = [model.tokenise(f"{ANSWER}{answer.text}")[: longest - len(end)] + end for answer in question.answers]
    return begin, answers, [float(answer.label) for answer in question.answers]


def make_batches(model: Model, questions: Sequence[Question], recipe: dict[str, Any]) -> list[list[Item]]:
    """The steps of all passes: some questions each, with some of their answers."""
    draw, batches = random.Random(recipe["seed"]), []
    for _ in range(recipe["passes"]):
        mixed = draw.sample(questions, len(questions))
        some = [Question(q.text, tuple(choose_candidates(q.answers, recipe["answers"], draw))) for q in mixed]
        items = [encode(model, q, recipe["tokens"]) for q in some if len({a.label for a in q.answers}) > 1]
        batches += [items[first : first + recipe["questions"]] for first in range(0, len(items), recipe["questions"])]
    return batches


def find_loss(model: Model, batch: Sequence[Item]) -> Tensor:
    """The mean loss of some questions."""
    rows = [(begin, [answer], []) for begin, answers, _ in batch for answer in answers]
    parts = model(rows).split([len(answers) for _, answers, _ in batch])
    losses = []
    for scores, (*_, grades) in zip(parts, batch, strict=True):
        labels = torch.tensor(grades, device=scores.device) / 3
        gaps = labels[:, None] - labels[None]
        higher = gaps > 0
        each = gaps * functional.softplus(scores[None] - scores[:, None])
        losses.append(each[higher].sum() / gaps[higher].sum())
    return torch.stack(losses).mean()


def train(questions: Sequence[Question], recipe: dict[str, Any], device: str) -> Model:
    """A model trained on these questions."""
    model = Model(recipe["rank"], tuple(recipe["matrices"]), recipe["layers"], device=device)
    batches = make_batches(model, questions, recipe)
    run_steps(model, batches, lambda batch: find_loss(model, batch), recipe["rate"], recipe["warmup"], len(batches))
    return model


def main() -> int:
    """Train what is not there; returns the exit code."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    questions = load("antique", root=find_root()).questions
    for fold in (*range(FOLDS), None):
        file = ADAPTERS / f"smollm2_{name_adapter(fold)}.safetensors"
        if not file.exists():
            model = train([q for q in questions if find_fold(q) != fold], RECIPE, device)
            save_reader(model.added, model.head, file)
    (ADAPTERS / "smollm2.json").write_text(json.dumps({"recipe": RECIPE}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
