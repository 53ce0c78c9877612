"""`python -m tools.train_reader`: SmolLM2 with low-rank additions, to read whether a text states a claim.

The pairs are those of `tools.reader_pairs`, with more negations: of a claim that a text states its negation by rule is
not stated, and of the points of view in data/training each and its negation state themselves and not each other. Of
texts that say or deny a dispute, or do neither, a second claim is AGREED. All claims on a text are read at once
(`nfqa.models.reader.pack_claims`), which saves most of the tokens. Answers and statements count twice. The same texts
are left out. The loss is the cross-entropy. An hour on two cores, with bfloat16 arithmetic.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from tqdm import tqdm

from nfqa.files.paths import find_root
from nfqa.metrics.dispute_detector import DISPUTE
from nfqa.models.pretrained import Pretrained
from nfqa.models.reader import CLAIM, LAYERS, STATED, WEIGHTS, Reader, pack_claims
from tools.reader_pairs import (
    Pair,
    make_texts,
    negate_view,
    read_debatewise,
    read_perspectrum,
    read_table,
    read_training,
)
from tools.train_judge import LowRank, add_low_rank

AGREED = "Everyone agrees about this."
RECIPE = {"rank": 8, "rate": 5e-4, "warmup": 50, "tokens": 1024, "text": 150, "claims": 480, "seed": 0}
NEGATED = {"perspectrum": 0.0, "debatewise": 0.5, "made": 0.4, "answers": 0.5}  # share of stated claims negated too
TIMES = {"answers": 2}  # passes over these
SHORT = 22  # words, less than which a point of view is read as a text, too
Text = tuple[str, list[tuple[str, bool]]]  # with claims, stated or not
Item = tuple[list[int], list[list[int]], list[bool]]  # as tokens


class Addition(LowRank):
    """An addition to a layer in bfloat16; its own matrices stay in float32."""

    @staticmethod
    def start(rank: int, size: int) -> Tensor:
        """D before training, [rank, size]."""
        return torch.randn(rank, size) * size**-0.5

    def forward(self, states: Tensor) -> Tensor:
        low = nn.functional.linear(states, self.down.bfloat16())
        return self.layer(states) + 2 * nn.functional.linear(low, self.up.bfloat16())


class Model(nn.Module):
    """The first layers of SmolLM2 in bfloat16, with additions to every matrix, and a head on a claim's last token."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(RECIPE["seed"])
        opened = Pretrained(Reader.spec, device="cpu", dtype="bfloat16")
        self.tokenizer, self.base = opened.tokenizer, opened.model.model
        self.base.layers = self.base.layers[:LAYERS]
        self.added = add_low_rank(self.base, int(RECIPE["rank"]), ("_proj",), Addition)  # every matrix
        self.head = nn.Linear(self.base.config.hidden_size, 1)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, items: Sequence[Item]) -> Tensor:
        """The logit of each claim."""
        inputs, ends = pack_claims([item[:2] for item in items])
        inputs["attention_mask"] = inputs["attention_mask"].bfloat16()
        states = self.base(**inputs, use_cache=False).last_hidden_state[ends[:, 0], ends[:, 1]]
        return self.head(states.float())[:, 0]  # type: ignore[no-any-return]

    def encode(self, texts: Sequence[Text]) -> list[Item]:
        """Texts and claims as tokens; a text with many claims more than once."""
        items: list[Item] = []
        for text, claims in texts:
            tokens = self._tokenise(text)[: RECIPE["text"]] or self._tokenise(" ")
            items.append((tokens, [], []))
            for claim, stated in claims:
                of_claim = self._tokenise(f"{CLAIM}{claim}{STATED}")
                if items[-1][1] and measure(items[-1]) + len(of_claim) > RECIPE["claims"]:
                    items.append((tokens, [], []))
                items[-1][1].append(of_claim)
                items[-1][2].append(stated)
        return items

    def _tokenise(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]  # type: ignore[no-any-return]


def measure(item: Item) -> int:
    """Tokens of a text and its claims."""
    return len(item[0]) + sum(map(len, item[1]))


def gather(pairs: Sequence[Pair], draw: random.Random, negated: float = 0.0) -> list[Text]:
    """The texts of pairs, each with its claims, and with the negations of some that it states."""
    claims: dict[str, dict[str, bool]] = {}
    for pair in pairs:
        of_text = claims.setdefault(pair.answer, {})
        of_text[pair.view] = pair.stated
        if pair.stated and pair.view != DISPUTE and draw.random() < negated and (turned := negate_view(pair.view)):
            of_text.setdefault(turned, False)
    return [(text, draw.sample([*of_text.items()], len(of_text))) for text, of_text in claims.items()]


def read_texts() -> tuple[list[Text], dict[str, list[Pair]], random.Random]:
    """What is trained on, what is left out, and the generator that drew them."""
    draw = random.Random(RECIPE["seed"])
    sets = {"perspectrum": read_perspectrum(draw), "debatewise": read_debatewise(draw), "made": make_texts(draw)}
    written, left_out = read_training(draw)
    sets |= written
    texts: list[Text] = []
    for name, share in NEGATED.items():
        for _ in range(TIMES.get(name, 1)):
            texts += gather(sets[name], draw, share)
    table = read_table(find_root() / "data" / "training" / "statements.csv")
    labels = {row["text"]: row["label"] for row in table}
    statements = [
        (text, claims + ([(AGREED, labels[text] == "denies")] if text in labels else []))
        for text, claims in gather(sets["statements"], draw)
    ]
    texts += 2 * statements
    for view in sorted({p.view for p in sets["answers"] if p.view != DISPUTE and len(p.view.split()) < SHORT}):
        if turned := negate_view(view):
            texts += [(turned, [(view, False), (turned, True)]), (view, [(turned, False)])]
    return texts, left_out, draw


def make_batches(items: Sequence[Item], draw: random.Random, tokens: int = int(RECIPE["tokens"])) -> list[list[Item]]:
    """Items of about one length together, in any order, so that a batch has at most so many tokens, padding too."""
    mixed, batches = draw.sample(items, len(items)), []
    for first in range(0, len(mixed), 600):
        batch: list[Item] = []
        for item in sorted(mixed[first : first + 600], key=measure):
            if batch and (len(batch) + 1) * max(measure(item), *map(measure, batch)) > tokens:
                batches.append(batch)
                batch = []
            batch.append(item)
        batches.append(batch)
    return draw.sample(batches, len(batches))


def train(model: Model, batches: Sequence[Sequence[Item]]) -> None:
    """One pass over the batches; the rate rises over the warm-up, and is 0 at the end."""
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=RECIPE["rate"], weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / RECIPE["warmup"]) * (1 - step / len(batches))
    )
    for batch in tqdm(batches, unit="batch"):
        labels = [float(stated) for *_, of_text in batch for stated in of_text]
        smoothed = torch.tensor(labels) * 0.94 + 0.03
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch), smoothed)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        schedule.step()


def save_reader(added: dict[str, LowRank], head: nn.Linear, file: Path) -> None:
    """Write the additions in half precision, and the head, as `nfqa.models.reader` reads them."""
    parts = {f"{name}.down": layer.down.detach().half() for name, layer in added.items()}
    parts |= {f"{name}.up": (2 * layer.up.detach()).half() for name, layer in added.items()}
    parts |= {f"head.{name}": part.detach() for name, part in head.named_parameters()}
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: part.contiguous() for name, part in parts.items()}, file)


def main() -> int:
    """Train, and write the model with its card; returns the exit code."""
    texts, left_out, draw = read_texts()
    model = Model()
    batches = make_batches(model.encode(texts), draw)
    train(model, batches)
    save_reader(model.added, model.head, WEIGHTS)
    aurocs = {}
    for name, pairs in left_out.items():
        with torch.inference_mode():
            parts = make_batches(model.encode(gather(pairs, draw)), random.Random(1), 2048)
            logits = torch.cat([model(part) for part in parts]).tolist()
        labels = [stated for part in parts for item in part for stated in item[2]]
        aurocs[name] = round(float(roc_auc_score(labels, logits)), 4)
    counts = {"texts": len(texts), "pairs": sum(len(claims) for _, claims in texts), "steps": len(batches)}
    card = {"base": Reader.spec.identity, "recipe": RECIPE | {"layers": LAYERS}, "trained_on": counts}
    card |= {"texts_sha256": hashlib.sha256(json.dumps(texts).encode()).hexdigest(), "auroc_left_out": aurocs}
    WEIGHTS.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
