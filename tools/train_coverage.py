"""`python -m tools.train_coverage`: MiniLM with low-rank additions, to see whether a text states a point of view.

Pairs of an answer x and a point of view v, stated or not. Of Perspectrum, two wordings of one point of view are stated;
the second one negated, and wordings of other points of view on the claim, are not. Of Debatewise, some sentences of an
explanation state its point of view, and not the negated one, nor another explanation's. The loss of a batch is the
cross-entropy of stated against a cos(x, v) + b, and half the cross-entropy of each stated v among all of the batch's,
by cos / 0.05.

Claims that are measured on are never seen (`reproduction.studies.stated_views.is_held_out`, and those of Debatewise
that are held out), nor are their texts, but for two titles of Debatewise that arguments on both sides of its split
have. How much of the addition is kept is chosen by leaving a dataset out: what was trained on Debatewise alone has to
tell the pairs of Perspectrum, and the other way round. An addition that is there is kept, so that a run that was
stopped goes on. Half an hour on two cores.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from nfqa.files.paths import find_root
from nfqa.metrics.coverage import split_answer
from nfqa.models.adapters import COVERAGE, apply_adapter
from nfqa.models.roles import MODELS, parse_role
from nfqa.models.vectors import SentenceModel
from reproduction.data.load import load
from reproduction.data.web import load_frame
from reproduction.studies.degrade import negate
from reproduction.studies.stated_views import is_held_out
from tools.train_judge import EMBEDDER, add_low_rank, write_adapter

RECIPE = {
    "rank": 8,
    "rate": 5e-4,
    "warmup": 50,
    "pairs": 32,
    "tokens": 192,
    "words": 90,
    "temperature": 0.05,
    "seed": 0,
}
LAYERS = (".query", ".key", ".value", "output.dense", "intermediate.dense")  # every matrix of the six layers
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the addition that is kept


class Pair(NamedTuple):
    """An answer, a point of view, whether the one states the other, and what the two are about."""

    answer: str
    view: str
    stated: bool
    claim: str


def read_perspectrum(draw: random.Random, data: str = "full") -> list[Pair]:
    """The pairs of the claims that no held-out claim shares a text with."""
    claims, held = read_claims(data)
    kept_out = list_plain(held) | {
        plain(text)
        for claim in load("debatewise", split="held_out", data=data).questions
        for text in (claim.text, *(part.point_of_view for part in claim.partial_answers))
    }
    pairs = []
    for claim in claims.itertuples():
        if kept_out.isdisjoint(list_plain(claims.loc[[claim.Index]])):
            for side, own in claim.views:
                answer, *reworded = draw.sample(own, len(own))
                others = [(stance, said) for stance, said in claim.views if not set(said) & set(own)]
                found = [(answer, view, True) for view in reworded[:1]]
                if reworded and (negated := negate_view(reworded[0])):
                    found.append((answer, negated, False))
                    opposite = negate_view(answer)  # so that a negated view is not always one that isn't stated
                    found += [(opposite, negated, True), (opposite, reworded[0], False)] if opposite else []
                for like in (True, False):
                    rivals = [said for stance, said in others if (stance == side) == like]
                    found += [(answer, draw.choice(draw.choice(rivals)), False)] if rivals else []
                pairs += [Pair(*one, claim.question) for one in found]
    return pairs


def read_debatewise(draw: random.Random, data: str = "full") -> list[Pair]:
    """The pairs of the claims that are not held out, without those that share a text with what is measured on."""
    kept_out, pairs = list_plain(read_claims(data)[1]), []
    for claim in load("debatewise", split="train", data=data).questions:
        parts = [part for part in claim.partial_answers if part.explanation and part.point_of_view]
        if not kept_out.isdisjoint(map(plain, [claim.text, *(part.point_of_view for part in parts)])):
            continue
        for part in parts:
            passages = _cut(part.explanation)
            if not passages:
                continue
            answer = passages[0] if draw.random() < 0.6 else draw.choice(passages)
            found, negated = [(part.point_of_view, True)], negate_view(part.point_of_view)
            found += [(negated, False)] if negated and draw.random() < 0.5 else []
            for like in (True, False):
                rivals = [one.point_of_view for one in parts if one is not part and (one.stance == part.stance) == like]
                found += [(draw.choice(rivals), False)] if rivals else []
            pairs += [Pair(answer, view, stated, claim.text) for view, stated in found]
    return pairs


def read_claims(data: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Perspectrum's claims to train on, and those that are held out; `views` has the stance and the texts of each."""
    claims = load_frame("perspectrum", data=data)[0]
    texts = load_frame("perspectrum_wordings", data=data)[0].set_index("wording").text
    claims["views"] = [[(side, [texts[i] for i in ids]) for side, ids in own if ids] for own in claims["views"]]
    held = claims.question.map(is_held_out)
    return claims[~held], claims[held]


def list_plain(claims: pd.DataFrame) -> set[str]:
    """Every text of claims, in small letters."""
    said = [text for own in claims["views"] for _, texts in own for text in texts]
    return {plain(text) for text in (*claims.question, *said)}


def plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


def negate_view(view: str) -> str:
    """The view negated by rule; "" where no rule fits."""
    made = negate(view.rstrip(".") + ".").rstrip(".")
    return "" if made == view.rstrip(".") else made


def _cut(text: str) -> list[str]:
    """Passages of whole sentences, each of 90 words or a little more."""
    passages: list[list[str]] = [[]]
    for sentence in split_answer(text):
        if len(passages[-1]) >= RECIPE["words"]:
            passages.append([])
        passages[-1] += sentence.split()
    return [" ".join(words) for words in passages if words and (len(words) > 30 or len(passages) == 1)]


def train(pairs: Sequence[Pair], file: Path) -> None:
    """Train one addition, in one pass over the pairs, and write it in half precision."""
    draw = random.Random(RECIPE["seed"])
    torch.manual_seed(RECIPE["seed"])
    model = SentenceModel(parse_role("embedder", EMBEDDER)).module
    added = add_low_rank(model, RECIPE["rank"], LAYERS)
    line = nn.Parameter(torch.tensor([10.0, -6.0]))  # a and b
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(
        [{"params": weights, "lr": RECIPE["rate"]}, {"params": [line], "lr": 1e-3}], weight_decay=0.01
    )
    batches = _make_batches(pairs, draw)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / RECIPE["warmup"]) * (1 - step / len(batches))
    )
    model.train()
    for batch in tqdm(batches, desc=file.stem, unit="batch"):
        loss = find_loss(
            batch,
            embed_all(model, [pair.answer for pair in batch]),
            embed_all(model, [pair.view for pair in batch]),
            line,
        )
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        schedule.step()
    write_adapter(added, file)


def find_loss(batch: Sequence[Pair], answers: Tensor, views: Tensor, line: Tensor) -> Tensor:
    """The loss of a batch: stated or not, of each pair; and which of the batch's views each answer states."""
    stated = torch.tensor([pair.stated for pair in batch])
    loss = functional.binary_cross_entropy_with_logits(
        line[0] * (answers * views).sum(1) + line[1], stated * 0.94 + 0.03
    )
    twins = torch.tensor([[a is not b and a.view == b.view for b in batch] for a in batch])
    scores = (answers @ views.T / RECIPE["temperature"]).masked_fill(twins, -1e4)
    places = stated.nonzero()[:, 0]
    return loss + (0.5 * functional.cross_entropy(scores[places], places) if len(places) > 1 else 0)


def embed_all(model: nn.Module, texts: Sequence[str]) -> Tensor:
    """Unit vectors of texts that are cut at the recipe's tokens."""
    inputs = model.tokenizer(
        list(texts), padding=True, truncation=True, max_length=RECIPE["tokens"], return_tensors="pt"
    )
    return functional.normalize(model(dict(inputs))["sentence_embedding"], dim=1)


def _make_batches(pairs: Sequence[Pair], draw: random.Random) -> list[list[Pair]]:
    """Pairs of a claim together, and in a batch answers of about one length; batches in any order."""
    claims = pd.Series(pairs).groupby([pair.claim for pair in pairs], sort=False).agg(list).tolist()
    mixed = [pair for own in draw.sample(claims, len(claims)) for pair in own]
    size = RECIPE["pairs"]
    parts = [
        sorted(mixed[i : i + 20 * size], key=lambda pair: len(pair.answer)) for i in range(0, len(mixed), 20 * size)
    ]
    batches = [part[i : i + size] for part in parts for i in range(0, len(part), size)]
    return draw.sample(batches, len(batches))


def scale_adapter(file: Path, share: float) -> Path:
    """A file beside it with so much of the addition."""
    scaled = file.with_suffix(".scaled")
    save_file({name: part * (share if name.endswith("up") else 1) for name, part in load_file(file).items()}, scaled)
    return scaled


def choose_share(sets: dict[str, list[Pair]], find: Callable[[str], Path]) -> dict[str, dict[str, float]]:
    """The AUROC of the pairs of each dataset, by shares of what was trained on the other alone."""
    found: dict[str, dict[str, float]] = {}
    for name, pairs in sets.items():
        claims = sorted({pair.claim for pair in pairs})
        chosen = set(random.Random(RECIPE["seed"]).sample(claims, min(120, len(claims))))
        asked = [pair for pair in pairs if pair.claim in chosen]
        texts = sorted({text for pair in asked for text in pair[:2]}, key=len)
        for share in SHARES:
            model = SentenceModel(parse_role("embedder", EMBEDDER)).module
            apply_adapter(model, scale_adapter(find(name), share))
            with torch.inference_mode():
                vectors = torch.cat([embed_all(model, texts[i : i + 64]) for i in range(0, len(texts), 64)])
            at = dict(zip(texts, vectors, strict=True))
            cosines = [float(at[pair.answer] @ at[pair.view]) for pair in asked]
            found.setdefault(name, {})[str(share)] = round(
                float(roc_auc_score([pair.stated for pair in asked], cosines)), 4
            )
    return found


def main() -> int:
    """Train what is not there, and write the card; returns the exit code, 130 when interrupted."""
    draw = random.Random(RECIPE["seed"])
    sets = {"perspectrum": read_perspectrum(draw), "debatewise": read_debatewise(draw)}
    made_of = hashlib.sha256(json.dumps([EMBEDDER, RECIPE, sets]).encode()).hexdigest()[:12]
    drafts = find_root() / "build" / "coverage" / made_of  # another recipe, or other data, begins anew
    whole = drafts / "both.safetensors"
    wanted = {drafts / f"without_{left}.safetensors": left for left in sets} | {whole: ""}
    try:
        for file, left in wanted.items():
            if not file.exists():
                train([pair for name, own in sets.items() if name != left for pair in own], file)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on with what is left", file=sys.stderr)
        return 130
    shares = choose_share(sets, lambda name: drafts / f"without_{name}.safetensors")
    best = max(SHARES, key=lambda share: sum(own[str(share)] for own in shares.values()))
    folder = MODELS / COVERAGE
    folder.mkdir(exist_ok=True)
    shutil.copyfile(scale_adapter(whole, best), folder / f"{COVERAGE}.safetensors")
    counts = {name: {"claims": len({p.claim for p in own}), "pairs": len(own)} for name, own in sets.items()}
    card = {"embedder": EMBEDDER, "recipe": RECIPE | {"threads": torch.get_num_threads()}, "trained_on": counts}
    card |= {"share": best, "auroc_of_the_dataset_left_out": shares}
    (folder / "coverage.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
