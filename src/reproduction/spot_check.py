"""Whether committed verdicts and losses are what the model gives: a random few of them, computed again."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf, isnan
from pathlib import Path

from nfqa.judge.asking import Asker, scatter_seed
from nfqa.judge.journal import Entry, Journal, hash_text
from nfqa.kernels.perplexity import Settings
from nfqa.models.chat import Reply, Request
from nfqa.models.evaluator import Evaluator
from nfqa.models.gguf import find_in_folder
from nfqa.models.restated import Restated, TargetLoss
from nfqa.models.roles import COMMITTED, SMOLLM2, parse_role
from nfqa.opening import open_model
from reproduction.judging import open_committed_journal
from reproduction.options import RunOptions
from reproduction.papers import list_chosen
from reproduction.place import find_committed
from reproduction.replay import count_asked

_ROLES = ("judge", "generator", "evaluator")
_ARTEFACTS, _SECONDS = 3, 120  # a sample comes from as many, if as many have something committed; drawing ends then
_A_TEXT = 10  # takes a minute, where a verdict takes a second: so many times fewer are drawn
_MOST = {"log-probabilities": 1e-3, "texts": 0.0, "losses": 1e-3}  # differences: in nats; whether any; as a share
_MOST_BFLOAT16 = _MOST | {"log-probabilities": 0.5, "losses": 0.02}  # which moves by batch and processor
_Again = Callable[[], tuple[float, str]]  # computes anew: by how much it differs, and both in words


class _Sample:
    """Of the requests that are committed those whose keys have the lowest hashes: a random few, each once."""

    def __init__(self, root: Path, size: int, seed: int) -> None:
        self._seed, self._journal = seed, open_committed_journal(root)
        self.place = ""  # the artefact at work
        self.draws_losses = bool(find_committed(root, "losses"))
        self._sizes = {"log-probabilities": size, "texts": -(-size // _A_TEXT)} if self._journal else {}
        self._sizes |= {"losses": size} if self.draws_losses else {}
        self.drawn: dict[str, dict[str, tuple[str, str, _Again]]] = {kind: {} for kind in self._sizes}
        self._open = cache(lambda spec, model: open_model(spec, Journal(), model.rpartition("|")[2]))
        self._evaluators: dict[str, Evaluator] = {}  # one of each model

    @property
    def is_enough(self) -> bool:
        """Whether there is enough of verdicts and losses, from enough artefacts; few ask for texts."""
        kinds = [kind for kind in self.drawn if kind != "texts"]
        places = [{place for place, *_ in self.drawn[kind].values()} for kind in kinds]
        return all(map(self._is_full, kinds)) and min(map(len, places), default=0) >= _ARTEFACTS

    def note_requests(self, asker: Asker, requests: Sequence[Request], entries: Sequence[Entry]) -> None:
        """Draw of a language model's requests."""
        for request, entry in zip(requests, entries, strict=True):
            if self._journal and (reply := self._journal.find(entry)):
                kind = "log-probabilities" if reply.logprobs else "texts"
                self._draw(kind, entry.key, entry.model, partial(self._ask, asker, request, entry, reply))

    def note_losses(self, evaluator: Evaluator, items: Sequence[Restated], settings: Settings) -> None:
        """Draw of an evaluator's losses. Raises: InterruptedError where they are enough."""
        for item in items:
            for number, target in enumerate(item.targets):
                if loss := evaluator.find_committed(item, target, settings):
                    key = f"{evaluator.identity}|{settings.reading}|{item.context}|{target}"
                    again = partial(self._score, evaluator, item, number, settings, loss)
                    self._draw("losses", key, evaluator.identity, again)
        if self._is_full("losses"):
            raise InterruptedError("enough losses")

    def _draw(self, kind: str, key: str, model: str, again: _Again) -> None:
        self.drawn[kind][hash_text(f"{self._seed}|{key}")] = (self.place, model, again)
        if len(self.drawn[kind]) > self._sizes[kind]:
            del self.drawn[kind][max(self.drawn[kind])]

    def _is_full(self, kind: str) -> bool:
        return len(self.drawn[kind]) == self._sizes[kind]

    def _ask(self, asker: Asker, request: Request, entry: Entry, before: Reply) -> tuple[float, str]:
        seeded = replace(request, seed=scatter_seed(entry.seed, entry.prompt))
        ((_, reply),) = self._open(asker.spec, entry.model).answer([seeded], asker.decoding)
        old, new = before.logprobs or (), getattr(reply, "logprobs", None) or ()
        differences = [float(before.text != getattr(reply, "text", None))] if not old else [0.0]
        differences += [abs(a - b) for a, b in zip(old, new, strict=False) if a != b]  # -inf twice is no difference
        differences += [inf] if len(old) != len(new) or any(map(isnan, differences)) else []
        return max(differences), f"prompt {entry.prompt[:12]}: {before!s:.400} is committed, now {reply!s:.400}"

    def _score(
        self, evaluator: Evaluator, item: Restated, number: int, settings: Settings, before: TargetLoss
    ) -> tuple[float, str]:
        scored = replace(item, targets=item.targets[number : number + 1])
        opened = self._evaluators.setdefault(evaluator.identity, evaluator)
        now = opened.score_plain([scored], settings)[0][0]
        is_same = replace(now, nats=before.nats) == before
        difference = abs(now.nats - before.nats) / max(abs(before.nats), 1e-9) if is_same else inf
        return difference, f"restating {item.targets[number]!r:.40}: {before} is committed, now {now}"


def check_spots(root: Path, options: RunOptions, only: Sequence[str], *, size: int, seed: int) -> bool:
    """Draw committed verdicts and losses that notebooks ask for, `size` of each and fewer texts, and recompute them.

    Artefacts are drawn first, until three have given enough or two minutes are over; then their requests. Losses are
    drawn of what an artefact's notebook scores first.
    Args: options: without roles, the models whose verdicts are committed fill all, SmolLM2 and those whose files are
        in the folder $NFQA_MODELS; only: artefacts to draw of.
    Returns: whether log-probabilities are within 0.001 of the committed ones, losses within 0.001 of their size (0.5
        and 0.02 in bfloat16), and more than half of the texts are the same: a few may differ on another processor.
    Raises: ValueError where nothing that is asked for is committed, or the model isn't here.
    """
    if not options.roles:
        here = [spec for spec in COMMITTED if spec == SMOLLM2 or find_in_folder(parse_role("judge", spec))]
        options = replace(options, roles=dict.fromkeys(_ROLES, ",".join(here)))
        options = replace(options, asking=options.asking or {"reading": "logits", "decoding": "greedy"})
    sample, end = _Sample(root, size, seed), time.monotonic() + _SECONDS
    artefacts = [(paper, name) for paper, name in list_chosen(root, only) if {*_ROLES} & {*paper.artefacts[name].roles}]
    for paper, name in random.Random(seed).sample(artefacts, len(artefacts)):  # noqa: S311 - to be repeated
        if sample.is_enough or (any(sample.drawn.values()) and time.monotonic() > end):
            break
        sample.place = f"{paper.paper}/{name}"
        count_asked(paper, name, options.find_place(root), options, sample)
    places = sorted({place for drawn in sample.drawn.values() for place, *_ in drawn.values()})
    if not places:
        raise ValueError("nothing under data/verdicts or data/losses is asked for here; unset FRESH and ONLY")
    print(f"SEED={seed}: drawn from {', '.join(places)}", flush=True)
    is_well = True
    for kind, drawn in sample.drawn.items():
        compared = defaultdict(list)
        for place, model, again in drawn.values():
            difference, message = again()
            compared[model].append((difference, f"{place}, {message}"))
        for model, pairs in compared.items():
            allowed = (_MOST_BFLOAT16 if "|bfloat16" in model else _MOST)[kind]
            wrong = [message for difference, message in pairs if not difference <= allowed]
            most = f"largest difference {max(pairs)[0]:.2g}, at most {allowed:g}"
            result = f"{len(wrong)} differ" if kind == "texts" else most
            print(f"{model}: {len(pairs)} {kind}, {result}", *wrong, sep="\n  ")
            is_well &= 2 * len(wrong) < len(pairs) if kind == "texts" else not wrong
    if not is_well:
        print("`git checkout -- data` restores committed files; else the code or a package changed the model's output")
    return is_well
