"""Losses of many targets after few contexts: each context run once, and the output matrix where a target needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from nfqa.models.continuous_cache import ContinuousCache, mix_logprobs
from nfqa.models.output_head import find_logprobs, open_head
from nfqa.models.restated import Row
from nfqa.models.row_layout import run_body
from nfqa.models.segments import Segment, can_segment, run_segments
from nfqa.models.shared_prefix import (
    can_pack,
    can_share,
    count_common,
    find_packed_states,
    find_row_states,
    find_window,
    start_prefix,
)

if TYPE_CHECKING:
    from torch import Tensor

Way = Literal["segments", "packed", "rows", "alone"]
Found = tuple[int, int, float]  # group, place in it, nats
_PACKED_TOKENS = 1_024  # of one row under a dense mask: attention costs the square of it


@dataclass(frozen=True)
class Bundle:
    """Rows that begin alike, laid out one after another behind what they share.

    number: the group that they are of. places: which of the group's rows they are. begun: how many tokens they share.
    """

    number: int
    places: tuple[int, ...]
    rows: tuple[Row, ...]
    begun: int

    @cached_property
    def suffixes(self) -> list[tuple[int, ...]]:
        """What each row has of its own, one token or more."""
        return [row.tokens[self.begun :] for row in self.rows]

    @property
    def length(self) -> int:
        """Tokens of the layout."""
        return self.begun + sum(map(len, self.suffixes))

    def locate(self, place: int, begin: int, end: int) -> list[int]:
        """Where in the layout the tokens from begin to end of one row are."""
        start = sum(len(suffix) for suffix in self.suffixes[:place])  # a token of its own at i is at start + i
        return [i if i < self.begun else start + i for i in range(begin, end)]


class LossFinder:
    """Summed losses of rows, in nats, under one model and at most one continuous cache.

    Rows of a group that begin alike have what they share run once, in whichever way the model allows. "segments": all
    of a batch in one sequence, see `segments`; a group too long for a batch has the keys and values of what it shares
    kept, and the rest run in parts. Such a part is "packed" into one row under a block mask, or, for a sliding window
    shorter than a row or a model that heeds no such mask, run as a padded batch of "rows". "alone": nothing is shared,
    for a model without keys to keep or positions to set.
    """

    def __init__(self, model: Any, cache: ContinuousCache | None, batch_tokens: int) -> None:
        self.model, self.cache, self.batch_tokens = model, cache, batch_tokens
        self._head = open_head(model)
        self._shares = can_share(model)
        self._segments = self._shares and can_segment(model)
        self._packs = self._shares and can_pack(model)
        self._window = find_window(model.config) if self._shares else None

    def find(self, groups: Sequence[Sequence[Row]]) -> Iterator[Found]:
        """Group, place in it and loss of every row with a scored token, as each batch is done.

        Groups of about the same length share a batch; the longest come first, so that too little memory shows at once.
        Raises: ValueError where one row alone is more than the memory holds.
        """
        bundles: dict[Way, list[Bundle]] = {"segments": [], "packed": [], "rows": [], "alone": []}
        for number, group in enumerate(groups):
            if places := [i for i, row in enumerate(group) if row.scored]:
                rows = [group[i] for i in places]
                way = self._choose_way(rows)
                bundle = _bundle(number, places, rows, way)
                too_long = way == "segments" and bundle.length > self.batch_tokens
                bundles[self._choose_parts() if too_long else way].append(bundle)
        whole = sorted(bundles["segments"], key=lambda bundle: -bundle.length)
        while whole:
            taken = _count_under(self.batch_tokens, [bundle.length for bundle in whole])
            found = self._try(partial(self._run_segments, whole[:taken]), taken > 1, whole[0])
            if found is not None:
                yield from found
                whole = whole[taken:]
        for bundle in bundles["packed"]:
            yield from self._run_parts(bundle, find_packed_states, self._fits_packed)
        for bundle in bundles["rows"]:
            yield from self._run_parts(bundle, find_row_states, self._fits_rows)
        for bundle in bundles["alone"]:
            for part in _split(bundle, lambda _: False):
                yield from self._try(partial(self._run_alone, part), False, part) or ()

    def _choose_way(self, rows: Sequence[Row]) -> Way:
        if not self._shares:
            return "alone"
        fits = self._window is None or max(len(row.tokens) for row in rows) <= self._window
        return "rows" if not fits else "segments" if self._segments else self._choose_parts()

    def _choose_parts(self) -> Way:
        return "packed" if self._packs else "rows"

    def _try(self, run: Callable[[], Any], divisible: bool, bundle: Bundle) -> Any:
        """What `run` gives, or None when memory ran out and a smaller batch may do."""
        import torch

        try:
            return run()
        except torch.OutOfMemoryError as error:
            message = str(error).partition("\n")[0][:200] or "no more memory"
        torch.cuda.empty_cache()  # out of the handler: its traceback would hold on to the batch's tensors
        if not divisible:
            raise ValueError(f"a context of {bundle.begun:,} tokens and its targets don't fit: {message}")
        self.batch_tokens = max(1, self.batch_tokens // 2)
        return None

    def _run_segments(self, batch: Sequence[Bundle]) -> list[Found]:
        segments = [Segment(b.rows[0].tokens[: b.begun], tuple(b.suffixes)) for b in batch]
        return self._read(list(zip(batch, run_segments(self.model, segments), strict=True)))

    def _run_alone(self, part: Bundle) -> list[Found]:
        import torch

        ids = torch.tensor([part.rows[0].tokens], device=self.model.device)
        return self._read([(part, run_body(self.model, input_ids=ids)[0])])

    def _run_parts(
        self, bundle: Bundle, find: Callable[..., Tensor], fits: Callable[[Bundle], bool]
    ) -> Iterator[Found]:
        """One bundle part by part, after the keys and values of what its rows share."""
        import torch

        model, parts = self.model, [bundle]
        prefix, before = self._try(partial(start_prefix, model, bundle.rows[0].tokens[: bundle.begun]), False, bundle)

        def run(part: Bundle) -> list[Found]:
            states = find(model, prefix, part.suffixes)
            return self._read([(part, torch.cat([before, states]) if part.begun else states)])

        while parts:
            part, *parts = [smaller for given in parts for smaller in _split(given, fits)]
            found = self._try(partial(run, part), len(part.rows) > 1, part)
            if found is None:
                parts = [part, *parts]  # what fits is less now
            else:
                yield from found

    def _fits_packed(self, part: Bundle) -> bool:
        return part.length - part.begun <= min(_PACKED_TOKENS, self.batch_tokens)

    def _fits_rows(self, part: Bundle) -> bool:
        return len(part.rows) * max(len(row.tokens) for row in part.rows) <= self.batch_tokens

    def _read(self, run: Sequence[tuple[Bundle, Tensor]]) -> list[Found]:
        """The losses of bundles whose states, [length or more, D], are found."""
        import torch

        device = self.model.device
        with torch.inference_mode():
            jobs = [(bundle, place, states) for bundle, states in run for place in range(len(bundle.rows))]
            queries, targets = [], []
            for bundle, place, states in jobs:
                row = bundle.rows[place]
                wanted = bundle.locate(place, row.predicted - 1, len(row.tokens) - 1)
                queries.append(states[torch.tensor(wanted, device=device)])
                targets.append(torch.tensor(row.tokens[row.predicted :], device=device))
            every = find_logprobs(self._head, torch.cat(queries), torch.cat(targets))
            pieces = list(torch.split(every, [len(target) for target in targets]))
            if self.cache is not None:
                for i, (bundle, place, states) in enumerate(jobs):
                    begin, end = bundle.rows[place].answer
                    kept = bundle.locate(place, begin, max(end - 1, begin))
                    keys = states[torch.tensor(kept, dtype=torch.long, device=device)]
                    followers = bundle.rows[place].tokens[begin + 1 : end]
                    then = torch.tensor(followers, dtype=torch.long, device=device)
                    pieces[i] = mix_logprobs(self.cache, pieces[i], queries[i], targets[i], keys, then)
            summed = torch.split(torch.cat(pieces).cpu().double(), [len(target) for target in targets])
            losses = [-float(piece.sum()) for piece in summed]
        return [
            (bundle.number, bundle.places[place], loss) for (bundle, place, _), loss in zip(jobs, losses, strict=True)
        ]


def _count_under(bound: int, lengths: Sequence[int]) -> int:
    """How many of the lengths, from the first on, sum to at most the bound; 1 at least."""
    return max(1, sum(total <= bound for total in accumulate(lengths)))


def _bundle(number: int, places: Sequence[int], rows: Sequence[Row], way: Way) -> Bundle:
    """The rows of one group behind what they share, short ones first."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].tokens))
    chosen = tuple(rows[i] for i in order)
    begun = 0
    if way != "alone" and len(rows) > 1:
        begun = min(count_common([row.tokens for row in rows]), *(len(row.tokens) - 1 for row in rows))
    return Bundle(number, tuple(places[i] for i in order), chosen, begun)


def _split(bundle: Bundle, fits: Callable[[Bundle], bool]) -> list[Bundle]:
    """The bundle in parts that fit, of one row or more, in its order."""
    parts: list[Bundle] = []
    for place, row in zip(bundle.places, bundle.rows, strict=True):
        last = parts[-1] if parts else None
        joined = Bundle(bundle.number, (*last.places, place), (*last.rows, row), bundle.begun) if last else None
        if joined is not None and fits(joined):
            parts[-1] = joined
        else:
            parts.append(Bundle(bundle.number, (place,), (row,), bundle.begun))
    return parts
