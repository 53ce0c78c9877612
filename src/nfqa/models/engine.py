"""Log-probabilities of tokens by a causal language model: texts that begin alike are packed into one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from nfqa.models.continuous_cache import ContinuousCache, mix_logprobs
from nfqa.models.packing import attend_by_blocks, can_pack, make_blocks, make_mask

if TYPE_CHECKING:
    from torch import Tensor

_Item = TypeVar("_Item")
_LEAST_ROOT, _LEAST_GROUPS = 32, 3  # tokens that all of so many groups begin with are run before them
# Tokens of one pass over several groups, and of one over a single group: past these, the square of attention costs more
# than fewer calls of the model save (bench/perplexity.py).
_SEVERAL, _SINGLE = {"cpu": 512, "cuda": 8_192}, {"cpu": 2_048, "cuda": 16_384}


@dataclass(frozen=True)
class Row:
    """A sequence of tokens, and what is asked of it: the log-probability of each target after the token at its place.

    answer: where the tokens that a continuous cache remembers begin and end.
    """

    tokens: tuple[int, ...]
    places: tuple[int, ...]
    targets: tuple[int, ...]
    answer: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class _Group:
    """Rows of one group, each with its place there, and how many tokens all of them begin with.

    root: how many of these all groups begin with, and are run before any.
    """

    number: int
    rows: tuple[tuple[int, Row], ...]
    begun: int
    root: int = 0

    @property
    def size(self) -> int:
        """Tokens of a pass: the beginning after the root once, and every row's own."""
        return self.begun - self.root + sum(len(row.tokens) - self.begun for _, row in self.rows)


@dataclass(frozen=True)
class _Beginning:
    """What rows begin with, run by itself: keys and values, and the last layer's states where they are needed."""

    tokens: tuple[int, ...]
    cache: Any
    kept: tuple[tuple[Any, Any], ...]  # keys and values of each layer
    states: Tensor | None

    def restore(self) -> None:
        """Take out what came after the beginning, however far a pass got before memory ran out."""
        for layer, (keys, values) in zip(self.cache.layers, self.kept, strict=True):
            layer.keys, layer.values = keys, values


Found = tuple[int, int, Any]  # group, place in it, and what was found, or why there was no memory for it


class Engine:
    """A causal language model that runs what rows begin with once, and at most one continuous cache.

    The rows of a group follow their common beginning in one sequence, several groups one another. A mask lets a token
    see its own beginning and its own row alone, and positions count from where each text begins, so that the numbers
    are those of one row at a time. A model for which they would not be is run one row at a time. batch_tokens bounds
    the tokens of a pass; it is halved when memory runs out.
    share: False runs every row by itself, the reference for all else.
    """

    def __init__(
        self, model: Any, *, batch_tokens: int, cache: ContinuousCache | None = None, share: bool = True
    ) -> None:
        self.model, self.cache, self.batch_tokens = model, cache, batch_tokens
        device = "cuda" if model.device.type == "cuda" else "cpu"
        self._several, self._single = _SEVERAL[device], _SINGLE[device]
        self._may_share = share

    @cached_property
    def shares(self) -> bool:
        """Whether what rows begin with may be run once: the model's kind allows it, and gives the plain numbers so.

        The second is tried on a few tokens: a model may count positions in a way of its own (RoBERTa's begin at 2), or
        name a window that it doesn't heed.
        """
        import torch

        if not self._may_share or not can_pack(self.model):
            return False
        config = self.model.config.get_text_config(decoder=True)
        window = getattr(config, "sliding_window", None)
        begun = [(11 * i + 5) % config.vocab_size for i in range(24)]
        tried = [(*begun, *[(7 * i + n) % config.vocab_size for i in range(n)]) for n in (4, 40)]
        rows = [Row(tokens, (len(begun), len(tokens) - 1), (1, 2), (2, 9)) for tokens in tried]
        groups = [*_line_up(0, rows), *_line_up(1, rows)]
        try:
            if window:
                config.sliding_window = 8  # which is seen in a few tokens, if the model heeds it
            packed, after = self._run(groups), self._run(groups[:1], self._begin(groups[0]))
            plain = [self.find_plain(row) for row in rows]
            apart = [
                (one - other).abs().max() for each in (*packed, *after) for one, other in zip(each, plain, strict=True)
            ]
            exact = self._counts_from_zero(tried[0])
        except Exception:  # the model's own code decides what it raises
            return False
        finally:
            if window:
                config.sliding_window = window
        return exact and bool(torch.stack(apart).max() < (1e-3 if self.model.dtype.itemsize > 2 else 0.25))

    def _counts_from_zero(self, tokens: Sequence[int]) -> bool:
        """Whether the model gives the very same numbers where it is told the positions that it should take."""
        import torch

        ids = torch.tensor([tokens], device=self.model.device)
        positions = torch.arange(len(tokens), device=self.model.device)[None]
        with torch.inference_mode():
            told, untold = (
                self.model(input_ids=ids, use_cache=False, **p).logits for p in ({"position_ids": positions}, {})
            )
        return torch.equal(told, untold)

    def find_logprobs(self, groups: Sequence[Sequence[Row]]) -> Iterator[list[Found]]:
        """Group, place in it and log-probabilities (nats, float64, one a target) of every row, batch by batch.

        What the rows of a group begin with is run once. The longest groups come first, so that too little memory shows
        at once. A row too long for the memory has the reason, a text, in place of its numbers.
        """
        shares = self.shares
        lined = [group for number, rows in enumerate(groups) for group in _line_up(number, rows, together=shares)]
        begun, lined = self._begin_all(lined) if shares else (None, lined)
        silent = [(i, j, row) for i, rows in enumerate(groups) for j, row in enumerate(rows) if not row.places]
        yield [(group, place, self.find_plain(row)) for group, place, row in silent]
        most = self._single

        def run(groups: list[_Group]) -> Sequence[Any]:  # None for one that is not for a pass, or too large for it
            return self._run(groups, begun) if shares and groups[0].size <= min(self.batch_tokens, most) else [None]

        for found in self.run_batches(lined, lambda group: group.size, run, most=self._several):
            for group, each in found:
                if isinstance(each, list):
                    yield [(group.number, place, one) for (place, _), one in zip(group.rows, each, strict=True)]
                    continue
                if each is not None:  # no memory for it: what did not fit once is not tried again
                    self.batch_tokens = min(self.batch_tokens, group.size // 2)
                yield from self._find_in_parts(group, most, begun)

    def _find_in_parts(self, group: _Group, most: int, begun: Any) -> Iterator[list[Found]]:
        """The same of one group: its beginning once, its rows in passes after it; a row without one by itself.

        begun: what all groups begin with, which may be all that this one does.
        """

        def read(rows: list[tuple[int, Row]]) -> list[Tensor]:
            if begun is None:
                return [self.find_plain(rows[0][1])]
            return self._run([_Group(group.number, tuple(rows), group.begun)], begun)[0]

        most = max(1, most**2 // (most + group.begun))  # the mask has a column for each token of the beginning
        if begun is None or group.begun > group.root:
            begun = self._try_begin(group)
        if isinstance(begun, str):
            yield [(group.number, place, begun) for place, _ in group.rows]
            return
        for batch in self.run_batches(list(group.rows), lambda row: len(row[1].tokens) - group.begun, read, most=most):
            yield [(group.number, place, found) for (place, _), found in batch]

    def find_plain(self, row: Row) -> Tensor:
        """The log-probabilities of one row by one call of the model, nothing shared: the reference implementation."""
        import torch

        if not row.places:
            return torch.zeros(0, dtype=torch.float64)
        with torch.inference_mode():
            ids, remembers = torch.tensor([row.tokens], device=self.model.device), self.cache is not None
            found = self.model(input_ids=ids, use_cache=False, output_hidden_states=remembers)
            states = found.hidden_states[-1][0] if remembers else None
            return self._find_targets(found.logits[0, list(row.places)], states, row)

    def run_batches(
        self,
        queue: list[_Item],
        width: Callable[[_Item], int],
        run: Callable[[list[_Item]], Sequence[Any]],
        *,
        most: int | None = None,
        padded: bool = False,
    ) -> Iterator[list[tuple[_Item, Any]]]:
        """Each item with what `run` gave for it, or with a text where there was no memory for it alone.

        The widest items come first; where items are padded, each counts as many tokens as the widest. most: a bound
        that stays, whatever memory there is.
        """
        import torch

        queue = sorted(queue, key=width, reverse=True)
        while queue:
            bound, total, size = min(self.batch_tokens, most or self.batch_tokens), 0, 0
            for item in queue if self.shares else queue[:1]:
                total += max(width(queue[0] if padded else item), 1)
                if size and total > bound:
                    break
                size += 1
            batch, message = queue[:size], ""
            try:
                found = run(batch)
            except torch.OutOfMemoryError as error:
                message = str(error).partition("\n")[0][:200] or "no more memory"
            if message:
                torch.cuda.empty_cache()  # out of the handler: its traceback would hold on to the batch's tensors
                if len(batch) > 1:
                    self.batch_tokens = max(1, min(total, bound) // 2)
                    continue
                found = [message]
            yield list(zip(batch, found, strict=True))
            queue = queue[size:]

    def _begin_all(self, groups: list[_Group]) -> tuple[_Beginning | None, list[_Group]]:
        """Run what all groups begin with, such as an instruction and its examples, where that saves anything."""
        rows = [row for group in groups for _, row in group.rows]
        root = min(count_common([row.tokens for row in rows]), *(min(row.places) for row in rows)) if rows else 0
        passes = sum(group.size for group in groups) / min(self.batch_tokens, self._several)
        if root < _LEAST_ROOT or len(groups) < _LEAST_GROUPS or passes <= 1:
            return None, groups
        begun = self._try_begin(_Group(-1, groups[0].rows[:1], root))
        if isinstance(begun, str):  # no memory: each group begins by itself
            return None, groups
        return begun, [replace(group, begun=max(group.begun, root), root=root) for group in groups]

    def _try_begin(self, group: _Group) -> _Beginning | str | None:
        """The same as `_begin`, or why there was no memory for it."""
        ((_, begun),) = next(self.run_batches([group], lambda group: group.begun, lambda _: [self._begin(group)]))
        return begun

    def _begin(self, group: _Group) -> _Beginning | None:
        """Run what a group begins with, so that its rows may follow in passes of their own; None for nothing."""
        import torch
        from transformers import DynamicCache

        tokens = group.rows[0][1].tokens[: group.begun]
        if not tokens:
            return None
        cache: Any = DynamicCache()  # of all tokens in every layer: the mask knows of windows
        ids = torch.tensor([tokens], device=self.model.device)
        with torch.inference_mode():
            found = self.model(
                input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1,
                output_hidden_states=self.cache is not None,
            )  # fmt: skip
        kept = tuple((layer.keys, layer.values) for layer in cache.layers)
        return _Beginning(tokens, cache, kept, found.hidden_states[-1][0] if self.cache is not None else None)

    def _run(self, groups: Sequence[_Group], begun: _Beginning | None = None) -> list[list[Tensor]]:
        """The log-probabilities of the groups' rows, by one pass, after what all of them begin with."""
        import torch

        device, tokens = self.model.device, [*begun.tokens] if begun else []
        done, spans = len(tokens), list[tuple[int, int]]()
        positions, owners = [*range(done)], [(-1, -1)] * done
        for number, group in enumerate(groups):
            start = len(tokens)
            parts = [(-1, group.rows[0][1].tokens[done : group.begun], done)]
            parts += [(i, row.tokens[group.begun :], group.begun) for i, (_, row) in enumerate(group.rows)]
            for owner, part, first in parts:
                spans += [(start, len(tokens))] if owner >= 0 else []
                tokens += part
                positions += range(first, first + len(part))
                owners += [(number, owner)] * len(part)
        rows = [(row, group.begun) for group in groups for _, row in group.rows]
        kept = [own + place - first for (row, first), (_, own) in zip(rows, spans, strict=True) for place in row.places]
        try:
            with torch.inference_mode(), attend_by_blocks(self.model, make_blocks(owners, done)):
                output = self.model(
                    input_ids=torch.tensor([tokens[done:]], device=device),
                    position_ids=torch.tensor([positions[done:]], device=device),
                    attention_mask=make_mask(self.model, positions, owners, done),
                    past_key_values=begun.cache if begun else None,
                    use_cache=begun is not None,
                    logits_to_keep=torch.tensor(kept, device=device) - done,
                    output_hidden_states=self.cache is not None,
                )
        finally:
            if begun:
                begun.restore()
        states = None if self.cache is None else output.hidden_states[-1][0]
        if begun and begun.states is not None:
            states = torch.cat((begun.states, output.hidden_states[-1][0]))
        logits, found = output.logits[0].split([len(row.places) for row, _ in rows]), []
        for (row, first), (start, own), asked in zip(rows, spans, logits, strict=True):
            mine = None
            if states is not None:
                path = ((0, done), (start, start + first - done), (own, own + len(row.tokens) - first))
                mine = torch.cat([states[slice(*part)] for part in path])
            found.append(self._find_targets(asked, mine, row))
        each = iter(found)
        return [[next(each) for _ in group.rows] for group in groups]

    def _find_targets(self, logits: Tensor, states: Tensor | None, row: Row) -> Tensor:
        """The log-probability of each target: logits at the row's places, [K, V], and the states of all its tokens."""
        import torch

        targets = torch.tensor(row.targets, dtype=torch.long, device=logits.device)
        logprobs = logits.float().log_softmax(-1).gather(1, targets[:, None])[:, 0]
        if self.cache is not None and states is not None:
            begin, end = row.answer
            followers = torch.tensor(row.tokens[begin + 1 : end], dtype=torch.long, device=logits.device)
            asked, remembered = states[list(row.places)], states[begin : begin + len(followers)]
            logprobs = mix_logprobs(self.cache, logprobs, asked, targets, remembered, followers)
        return logprobs.cpu().double()


def count_common(sequences: Sequence[Sequence[int]]) -> int:
    """The length of the longest common beginning: [1, 2, 3] and [1, 2, 4] have 2 in common."""
    low, high = min(map(tuple, sequences)), max(map(tuple, sequences))  # all others lie between these two
    differ = (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return next(differ, min(len(low), len(high)))


def _line_up(number: int, rows: Sequence[Row], *, together: bool = True) -> list[_Group]:
    """The rows that are asked something, in one group where they begin alike and may, each in its own otherwise.

    A token after which something is asked is each row's own.
    """
    asked = tuple((place, row) for place, row in enumerate(rows) if row.places)
    if together and len(asked) > 1:
        begun = min(count_common([row.tokens for _, row in asked]), *(min(row.places) for _, row in asked))
        if begun:
            return [_Group(number, asked, begun)]
    return [_Group(number, (each,), 0) for each in asked]
