"""One engine for prompts and for texts that are scored: what several begin with is run once, the rest in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from nfqa.models.completing import Sampling, complete, run_prefix
from nfqa.models.continuous_cache import ContinuousCache, mix_logprobs
from nfqa.models.head import Head, open_head
from nfqa.models.packing import Segment, can_share, find_window, run_segments

if TYPE_CHECKING:
    from torch import Tensor

_TRIED = ((1, 2, 3, 4, 5, 6, 7), (1, 2, 3, 4, 5, 8, 9, 10), (6, 11, 2, 4), (3, 11, 2))


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
    """A row on its way. group, place: where its caller has it.

    begun: how many tokens all of its group begin with. whole: how many the group has, those once.
    """

    group: int
    place: int
    row: Row
    begun: int
    whole: int

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.row.tokens

    @property
    def own(self) -> tuple[int, ...]:
        """The tokens after those that are shared, one or more."""
        return self.row.tokens[self.begun :]


Found = tuple[int, int, Any]  # group, place in it, and what was found, or why there was no memory for it


class Engine:
    """A causal language model that shares what rows begin with, as far as it allows, and at most one continuous cache.

    Rows that are read are packed into one sequence, see `packing`; rows that write make a padded batch after the keys
    and values of what they share. A model for which this would move a number is run one row at a time.
    batch_tokens bounds the tokens of a batch; it is halved when memory runs out. For rows that write, it counts the
    keys and values held at their end. share: False runs every row by itself, which all else is held against.
    """

    def __init__(
        self, model: Any, *, batch_tokens: int, cache: ContinuousCache | None = None, share: bool = True
    ) -> None:
        self.model, self.cache, self.batch_tokens = model, cache, batch_tokens
        self.shares = share and can_share(model)

    @cached_property
    def packs(self) -> bool:
        """Whether packed rows give the plain way's numbers, tried on a few tokens.

        Not so for a model that brings its own attention, or adds to it what is not passed on.
        """
        if not self.shares or self.model.config._attn_implementation not in ("sdpa", "eager"):
            return False
        rows = [Row(tokens, (2, len(tokens) - 2, len(tokens) - 1), (1, 5, 9)) for tokens in _TRIED]
        jobs = [*_line_up(0, list(enumerate(rows[:2]))), *_line_up(1, list(enumerate(rows[2:])))]
        try:
            found = self._run_packed(jobs)
        except (TypeError, ValueError, KeyError, RuntimeError, IndexError):
            return False
        apart = [(logprobs - self.find_plain(row)).abs().max() for (*_, logprobs), row in zip(found, rows, strict=True)]
        return float(max(apart)) < (1e-3 if self.model.dtype.itemsize > 2 else 0.25)

    def find_logprobs(self, groups: Sequence[Sequence[Row]]) -> Iterator[list[Found]]:
        """Group, place in it and log-probabilities (nats, float64, one a target) of every row, batch by batch.

        What the rows of a group begin with is run once. The longest groups come first, so that too little memory shows
        at once. A row too long for the memory has the reason, a text, in place of its numbers.
        """
        asked = [[(place, row) for place, row in enumerate(rows) if row.places] for rows in groups]
        for number, rows in enumerate(groups):
            yield [(number, place, self.find_plain(row)) for place, row in enumerate(rows) if not row.places]
        jobs = [job for number, rows in enumerate(asked) for job in _line_up(number, rows)]
        jobs.sort(key=lambda job: (-job.whole, job.group))
        yield from self._run_batches(jobs, self._count_packed, self._run_packed if self.packs else self._run_alone)

    def complete(
        self, prompts: Sequence[tuple[int, ...]], seeds: Sequence[int], sampling: Sampling
    ) -> Iterator[list[Found]]:
        """The tokens of a completion for each prompt, batch by batch, as (0, its number, tokens).

        What all prompts begin with is run once. A prompt too long for the memory has the reason in place of tokens.
        """
        jobs = _line_up(0, [(number, Row(prompt, (), ())) for number, prompt in enumerate(prompts)])
        jobs.sort(key=lambda job: len(job.tokens))
        window = find_window(self.model) if self.shares else None
        begin = jobs[0].tokens[: jobs[0].begun] if jobs and self.shares else ()
        start = cache(lambda: run_prefix(self.model, begin))

        def run(batch: list[_Job]) -> list[Found]:
            chosen = [seeds[job.place] for job in batch]
            written = complete(self.model, start(), [job.tokens for job in batch], chosen, sampling)
            return [(0, job.place, tokens) for job, tokens in zip(batch, written, strict=True)]

        yield from self._run_batches(jobs, lambda queue: self._count_padded(queue, sampling.max_tokens, window), run)

    def find_plain(self, row: Row) -> Tensor:
        """The log-probabilities of one row by one call of the model, nothing shared: what all else is held against."""
        import torch

        if not row.places:
            return torch.zeros(0, dtype=torch.float64)
        with torch.inference_mode():
            device = self.model.device
            more = {"output_hidden_states": True} if self.cache is not None else {}
            found = self.model(input_ids=torch.tensor([row.tokens], device=device), use_cache=False, **more)
            places, targets = (torch.tensor(numbers, device=device) for numbers in (row.places, row.targets))
            logprobs = found.logits[0, places].float().log_softmax(-1).gather(1, targets[:, None])[:, 0]
            if self.cache is not None:
                states = found.hidden_states[-1][0]
                logprobs = self._mix(logprobs, states[places], row, states[row.answer[0] : row.answer[1]])
            return logprobs.cpu().double()

    @cached_property
    def _head(self) -> Head:
        return open_head(self.model)

    def _run_batches(
        self,
        queue: list[_Job],
        count: Callable[[list[_Job]], tuple[int, int]],
        run: Callable[[list[_Job]], list[Found]],
    ) -> Iterator[list[Found]]:
        """Run the queue batch by batch. count: how many of its first jobs make a batch, and the tokens in it."""
        import torch

        while queue:
            size, used = count(queue)
            message = ""
            try:
                found = run(queue[:size])
            except torch.OutOfMemoryError as error:
                message = str(error).partition("\n")[0][:200] or "no more memory"
            if message:
                torch.cuda.empty_cache()  # out of the handler: its traceback would hold on to the batch's tensors
                if size > 1:
                    self.batch_tokens = max(1, used // 2)
                    continue
                found = [(queue[0].group, queue[0].place, message)]
            yield found
            queue = queue[size:]

    def _count_packed(self, queue: list[_Job]) -> tuple[int, int]:
        """A group that fits into a batch isn't divided, as each part of it would run what they share."""
        used, group = 0, -1
        for size, job in enumerate(queue):
            more, least = len(job.own), len(job.own)
            if job.group != group:
                more, least, group = more + job.begun, job.whole, job.group
            if size and (not self.packs or used + least > self.batch_tokens):
                return size, used
            used += more
        return len(queue), used

    def _count_padded(self, queue: list[_Job], room: int, window: int | None) -> tuple[int, int]:
        """The queue is in rising length, and each row has room to write.

        A window would reach less far back over padding, so where one is shorter than the rows, only those of equal
        length are put together.
        """
        used = 0
        for size, job in enumerate(queue):
            width = len(job.tokens) + room
            gap = window is not None and width > window and len(job.tokens) > len(queue[0].tokens)
            if size and (gap or not self.shares or (size + 1) * width > self.batch_tokens):
                return size, used
            used = (size + 1) * width
        return len(queue), used

    def _run_alone(self, batch: list[_Job]) -> list[Found]:
        return [(job.group, job.place, self.find_plain(job.row)) for job in batch]

    def _run_packed(self, batch: list[_Job]) -> list[Found]:
        """The states of a batch, and from those at the rows' places the log-probabilities."""
        import torch

        device = self.model.device
        groups = [list(members) for _, members in groupby(batch, key=lambda job: job.group)]
        segments = [Segment(group[0].tokens[: group[0].begun], tuple(job.own for job in group)) for group in groups]
        with torch.inference_mode():
            jobs: list[tuple[_Job, Tensor, Tensor]] = []  # with the states at its places, and at its answer
            for group, states in zip(groups, run_segments(self.model, segments), strict=True):
                start = 0  # a token of a row's own at i is at start + i
                for job in group:
                    answer = range(*job.row.answer) if self.cache is not None else ()
                    asked, remembered = (
                        states[[i if i < job.begun else start + i for i in places]]
                        for places in (job.row.places, answer)
                    )
                    jobs.append((job, asked, remembered))
                    start += len(job.own)
            targets = torch.tensor([target for job in batch for target in job.row.targets], device=device)
            every = self._head.find_logprobs(torch.cat([asked for _, asked, _ in jobs]), targets)
            pieces = torch.split(every, [len(job.row.targets) for job in batch])
            mixed = [
                self._mix(piece, asked, job.row, remembered)
                for piece, (job, asked, remembered) in zip(pieces, jobs, strict=True)
            ]
            found = torch.split(torch.cat(mixed).cpu().double(), [len(piece) for piece in mixed])
        return [(job.group, job.place, piece) for job, piece in zip(batch, found, strict=True)]

    def _mix(self, logprobs: Tensor, asked: Tensor, row: Row, remembered: Tensor) -> Tensor:
        """The log-probabilities under the model and the continuous cache, if there is one."""
        import torch

        if self.cache is None:
            return logprobs
        targets, followers = (
            torch.tensor(tokens, dtype=torch.long, device=logprobs.device)
            for tokens in (row.targets, row.tokens[row.answer[0] + 1 : row.answer[1]])
        )
        return mix_logprobs(self.cache, logprobs, asked, targets, remembered[: len(followers)], followers)


def count_common(sequences: Sequence[Sequence[int]]) -> int:
    """The length of the longest common beginning: [1, 2, 3] and [1, 2, 4] have 2 in common."""
    low, high = min(map(tuple, sequences)), max(map(tuple, sequences))  # all others lie between these two
    differ = (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return next(differ, min(len(low), len(high)))


def _line_up(group: int, rows: Sequence[tuple[int, Row]]) -> list[_Job]:
    """The jobs of one group, of rows with their places in it."""
    sequences = [row.tokens for _, row in rows]
    begun = min(count_common(sequences), min(map(len, sequences)) - 1) if len(rows) > 1 else 0
    whole = begun + sum(len(tokens) - begun for tokens in sequences)
    return [_Job(group, place, row, begun, whole) for place, row in rows]
