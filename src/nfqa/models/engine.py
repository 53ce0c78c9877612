"""Log-probabilities of tokens by a causal language model: what rows begin with is run once, the rest in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from nfqa.models.continuous_cache import ContinuousCache, mix_logprobs
from nfqa.models.sharing import Beginnings, can_share, run_after, run_beginnings

if TYPE_CHECKING:
    from torch import Tensor

_Item = TypeVar("_Item")
# Tokens that are read at once: a processor does best with little padding, a graphics card with few calls.
_READ_AT_ONCE = {"cpu": 512, "cuda": 8_192}


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
class _Job:
    """A row on its way. group, place: where its caller has it. begun: how many tokens it shares with its group."""

    group: int
    place: int
    row: Row
    begun: int = 0

    @property
    def own(self) -> tuple[int, ...]:
        return self.row.tokens[self.begun :]


Found = tuple[int, int, Any]  # group, place in it, and what was found, or why there was no memory for it


class Engine:
    """A causal language model that shares what rows begin with, as far as it allows, and at most one continuous cache.

    A model for which sharing would move a number is run one row at a time. batch_tokens bounds the tokens of a batch,
    padding included; it is halved when memory runs out.
    share: False runs every row by itself, the reference for all else.
    """

    def __init__(
        self, model: Any, *, batch_tokens: int, cache: ContinuousCache | None = None, share: bool = True
    ) -> None:
        self.model, self.cache, self.batch_tokens = model, cache, batch_tokens
        self._may_share = share

    @cached_property
    def shares(self) -> bool:
        """Whether what rows begin with may be run once: the model's kind allows it, and gives the plain numbers so.

        The second is tried on a few tokens: a model may count positions in a way of its own (RoBERTa's begin at 2).
        """
        if not self._may_share or not can_share(self.model):
            return False
        vocabulary = self.model.config.get_text_config(decoder=True).vocab_size
        begun = [(11 * i + 5) % vocabulary for i in range(24)]
        tried = [(*begun, *[(7 * i + n) % vocabulary for i in range(3 + n)]) for n in (1, 4)]  # of unequal length
        rows = [Row(tokens, (len(begun), len(tokens) - 1), (1, 2), (2, 9)) for tokens in tried]
        jobs = _line_up(0, rows, share=True)
        try:
            found = self._read([(start, job) for start in self._begin([jobs]) for job in jobs])
            apart = [(shared - self.find_plain(row)).abs().max() for shared, row in zip(found, rows, strict=True)]
        except (TypeError, ValueError, KeyError, RuntimeError, IndexError):
            return False
        return float(max(apart)) < (1e-3 if self.model.dtype.itemsize > 2 else 0.25)

    def find_logprobs(self, groups: Sequence[Sequence[Row]]) -> Iterator[list[Found]]:
        """Group, place in it and log-probabilities (nats, float64, one a target) of every row, batch by batch.

        What the rows of a group begin with is run once. The longest groups come first, so that too little memory shows
        at once. A row too long for the memory has the reason, a text, in place of its numbers.
        """
        lined = [_line_up(number, rows, share=self.shares) for number, rows in enumerate(groups)]
        yield [(job.group, job.place, self.find_plain(job.row)) for jobs in lined for job in jobs if not job.row.places]
        asked = [[job for job in jobs if job.row.places] for jobs in lined]
        if not self.shares:
            alone = [job for jobs in asked for job in jobs]
            for batch in self.run_batches(alone, lambda job: len(job.own), lambda jobs: [self.find_plain(jobs[0].row)]):
                yield [(job.group, job.place, found) for job, found in batch]
            return

        most = _READ_AT_ONCE["cuda" if self.model.device.type == "cuda" else "cpu"]
        for begun in self.run_batches(list(filter(None, asked)), lambda jobs: jobs[0].begun, self._begin, most=most):
            rows = [(start, job) for jobs, start in begun for job in jobs]
            yield [(job.group, job.place, start) for start, job in rows if isinstance(start, str)]
            ready = [(start, job) for start, job in rows if not isinstance(start, str)]
            for read in self.run_batches(ready, lambda item: len(item[1].own), self._read, most=most):
                yield [(job.group, job.place, found) for (_, job), found in read]

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
    ) -> Iterator[list[tuple[_Item, Any]]]:
        """Each item with what `run` gave for it, or with a text where there was no memory for it alone.

        The widest items come first; a batch counts as many tokens for each of its items as for the widest. most: a
        bound that stays, whatever memory there is.
        """
        import torch

        queue = sorted(queue, key=width, reverse=True)
        while queue:
            widest = max(width(queue[0]), 1)
            size = max(1, min(self.batch_tokens, most or self.batch_tokens) // widest) if self.shares else 1
            batch = queue[:size]
            message = ""
            try:
                found = run(batch)
            except torch.OutOfMemoryError as error:
                message = str(error).partition("\n")[0][:200] or "no more memory"
            if message:
                torch.cuda.empty_cache()  # out of the handler: its traceback would hold on to the batch's tensors
                if len(batch) > 1:
                    self.batch_tokens = max(1, len(batch) * widest // 2)
                    continue
                found = [message]
            yield list(zip(batch, found, strict=True))
            queue = queue[len(batch) :]

    def _begin(self, groups: list[list[_Job]]) -> list[tuple[Beginnings, int]]:
        """The groups' beginnings, and each one's number among them."""
        tokens = [jobs[0].row.tokens[: jobs[0].begun] for jobs in groups]
        begun = run_beginnings(self.model, tokens, states=self.cache is not None)
        return [(begun, number) for number in range(len(groups))]

    def _read(self, rows: list[tuple[tuple[Beginnings, int], _Job]]) -> list[Tensor]:
        """The log-probabilities of rows whose beginnings were run together."""
        import torch

        begun, numbers, jobs = rows[0][0][0], [number for (_, number), _ in rows], [job for _, job in rows]
        places = [[place - job.begun for place in job.row.places] for job in jobs]
        kept = sorted({place for row in places for place in row})
        output = run_after(
            self.model, begun, numbers, [job.own for job in jobs], kept, output_hidden_states=self.cache is not None
        )
        index = {place: i for i, place in enumerate(kept)}
        found = []
        for i, (number, job) in enumerate(zip(numbers, jobs, strict=True)):
            states = None
            if self.cache is not None:
                own = output.hidden_states[-1][i, : len(job.own)]
                before = own[:0] if begun.states is None else begun.states[number, begun.mask.shape[1] - job.begun :]
                states = torch.cat([before, own])
            found.append(self._find_targets(output.logits[i, [index[place] for place in places[i]]], states, job.row))
        return found

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


def _count_begun(sequences: Sequence[Sequence[int]]) -> int:
    """How many tokens several sequences begin with and may share: each keeps one or more of its own."""
    return min(count_common(sequences), min(map(len, sequences)) - 1) if len(sequences) > 1 else 0


def _line_up(group: int, rows: Sequence[Row], *, share: bool) -> list[_Job]:
    """The jobs of one group. A token after which something is asked is each row's own."""
    asked = [row for row in rows if row.places]
    begun = (
        min([_count_begun([row.tokens for row in asked]), *(min(row.places) for row in asked)])
        if share and asked
        else 0
    )
    return [_Job(group, place, row, begun) for place, row in enumerate(rows)]
