"""Whether committed verdicts and losses are what the model gives: a random few of them, computed anew."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import inf, isnan
from pathlib import Path
from typing import Any, Literal

from nfqa.files.paths import find_committed
from nfqa.judge.asking import Asker, scatter_seed
from nfqa.judge.journal import Entry, Journal, hash_text
from nfqa.kernels.perplexity import Settings
from nfqa.models.chat import Request
from nfqa.models.evaluator import Evaluator
from nfqa.models.restated import Restated
from nfqa.models.roles import SMOLLM2
from nfqa.opening import open_model
from reproduction.data.registry import has_file, read_registry
from reproduction.judging import open_committed_journal
from reproduction.options import RunOptions
from reproduction.papers import list_chosen
from reproduction.replay import count_asked

Kind = Literal["verdicts", "texts", "losses"]
_ROLES = ("judge", "generator", "evaluator")
_ARTEFACTS, _SECONDS = 3, 120  # a sample comes from as many, if as many have something committed; drawing ends then
_A_TEXT = 10  # takes a minute, where a verdict takes a second: so many times fewer are drawn
_MOST = {"log-probabilities": 1e-3, "losses": 1e-3, "texts": 0.0}  # differences: in nats; as a share; whether any


class _Sample:
    """Of the requests that are committed those whose keys have the lowest hashes: a random few, each once."""

    def __init__(self, root: Path, size: int, seed: int) -> None:
        self._seed, self._journal = seed, open_committed_journal(root)
        self.place = ""  # the artefact at work
        self.draws_losses = bool(find_committed(root, "losses"))
        of_replies = {"verdicts": size, "texts": -(-size // _A_TEXT)} if self._journal else {}
        self._sizes: dict[str, int] = of_replies | ({"losses": size} if self.draws_losses else {})
        self.drawn: dict[str, dict[str, tuple[Any, ...]]] = {kind: {} for kind in self._sizes}

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
                kind: Kind = "verdicts" if reply.logprobs else "texts"
                self._draw(kind, entry.key, asker, request, entry, reply)

    def note_losses(self, evaluator: Evaluator, items: Sequence[Restated], settings: Settings) -> None:
        """Draw of an evaluator's losses. Raises: InterruptedError where they are enough."""
        for item in items:
            for number, target in enumerate(item.targets):
                if loss := evaluator.find_committed(item, target, settings):
                    key = f"{evaluator.identity}|{settings.reading}|{item.context}|{target}"
                    self._draw("losses", key, evaluator, item, number, settings, loss)
        if self._is_full("losses"):
            raise InterruptedError("enough losses")

    def _draw(self, kind: Kind, key: str, *request: Any) -> None:
        self.drawn[kind][hash_text(f"{self._seed}|{key}")] = (self.place, *request)
        if len(self.drawn[kind]) > self._sizes[kind]:
            del self.drawn[kind][max(self.drawn[kind])]

    def _is_full(self, kind: str) -> bool:
        return len(self.drawn[kind]) == self._sizes[kind]


def check_spots(root: Path, options: RunOptions, only: Sequence[str], *, size: int, seed: int) -> bool:
    """Draw committed verdicts and losses that notebooks ask for, `size` of each and fewer texts, and make them anew.

    Artefacts are drawn first, until three have given enough or two minutes are over; then their requests. Losses are
    drawn of what an artefact's notebook scores first.
    Args: options: without roles, the model whose verdicts are committed fills all; only: artefacts to draw of.
    Returns: whether log-probabilities are within 0.001 of the committed ones, losses within 0.001 of their size, and
        more than half of the texts are the same: a few may differ on another processor.
    Raises: ValueError where nothing that is asked for is committed, or the model isn't here.
    """
    if not options.roles:
        options = replace(options, roles=dict.fromkeys(_ROLES, SMOLLM2))
        options = replace(options, asking=options.asking or {"reading": "logits", "decoding": "greedy"})
    sample, end = _Sample(root, size, seed), time.monotonic() + _SECONDS
    artefacts = [(paper, name) for paper, name in list_chosen(root, only) if {*_ROLES} & {*paper.artefacts[name].roles}]
    for paper, name in random.Random(seed).sample(artefacts, len(artefacts)):  # noqa: S311 - to be repeated
        if sample.is_enough or (any(sample.drawn.values()) and time.monotonic() > end):
            break
        sample.place, needed = f"{paper.paper}/{name}", paper.artefacts[name].needs_files
        if options.data == "sample" or all(has_file(read_registry(root)[f], root / "build" / "data") for f in needed):
            count_asked(paper, name, options.find_place(root), options, sample)
    places = sorted({place for drawn in sample.drawn.values() for place, *_ in drawn.values()})
    if not places:
        raise ValueError("nothing under data/verdicts or data/losses is asked for here; unset FRESH and ONLY")
    print(f"SEED={seed}: drawn from {', '.join(places)}", flush=True)
    compared, well = defaultdict(list), True
    for model, what, difference, message in _compare(**sample.drawn):
        compared[model, what].append((difference, message))
    for (model, what), pairs in compared.items():
        wrong = [message for difference, message in pairs if not difference <= _MOST[what]]
        most = f"largest difference {max(pairs)[0]:.2g}, at most {_MOST[what]:g}"
        print(
            f"{model}: {len(pairs)} {what}, {f'{len(wrong)} differ' if what == 'texts' else most}", *wrong, sep="\n  "
        )
        well &= 2 * len(wrong) < len(pairs) if what == "texts" else not wrong
    if not well:
        print(
            "`git checkout -- data` restores committed files; else the code or a package changed what the model gives"
        )
    return well


def _compare(
    verdicts: dict[str, tuple[Any, ...]] | None = None,
    texts: dict[str, tuple[Any, ...]] | None = None,
    losses: dict[str, tuple[Any, ...]] | None = None,
) -> Iterator[tuple[str, str, float, str]]:
    """Of each request its model, what is compared, by how much it differs, and what is committed and given now."""
    together = defaultdict(list)  # what is asked alike is answered at once
    for drawn in [*(verdicts or {}).values(), *(texts or {}).values()]:
        _, asker, _, entry, _ = drawn
        together[asker.spec, entry.model, asker.decoding].append(drawn)
    open_once = cache(lambda spec, model: open_model(spec, Journal(), model.rpartition("|")[2]))
    for (spec, model, decoding), several in together.items():
        seeded = [replace(request, seed=scatter_seed(entry.seed, entry.prompt)) for _, _, request, entry, _ in several]
        given = dict(open_once(spec, model).answer(seeded, decoding))
        for number, (place, _, _, entry, before) in enumerate(several):
            reply = given[number]
            message = f"{place}, prompt {entry.prompt[:12]}: {before!s:.400} is committed, now {reply!s:.400}"
            if before.logprobs is None:
                yield model, "texts", float(before.text != getattr(reply, "text", None)), message
            else:
                now = getattr(reply, "logprobs", None) or ()
                differences = [abs(a - b) for a, b in zip(before.logprobs, now, strict=False) if a != b]
                differences += [inf] if len(now) != len(before.logprobs) or any(map(isnan, differences)) else [0.0]
                yield model, "log-probabilities", max(differences), message
    opened: dict[str, Evaluator] = {}  # one of each model
    for place, evaluator, item, number, settings, before in (losses or {}).values():
        alone = settings.padding == "none"  # else a loss depends on the other targets
        scored = replace(item, targets=item.targets[number : number + 1]) if alone else item
        opened.setdefault(evaluator.identity, evaluator)
        now = opened[evaluator.identity].score_plain([scored], settings)[0][0 if alone else number]
        same = replace(now, nats=before.nats) == before
        difference = abs(now.nats - before.nats) / max(abs(before.nats), 1e-9) if same else inf
        message = f"{place}, restating {item.targets[number]!r:.40}: {before} is committed, now {now}"
        yield evaluator.identity, "losses", difference, message
